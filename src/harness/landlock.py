"""The wall around one trial that needs no privilege: which folders it may write, and whom it may signal.

Invariant: reading and executing stay free everywhere; only changes to files are governed.
It does not stop chmod, chown and utime: those are stopped by the read-only mounts of `view`,
and where there are no mounts by `guard` (an audit hook in the interpreter).
"""

import os
import stat
import sys

from . import kernel

_WRITE_FILE = 1 << 1
_REMOVE_DIR = 1 << 4
_REMOVE_FILE = 1 << 5
_MAKE_ANY = sum(1 << bit for bit in range(6, 13))
_REFER = 1 << 13        # ABI 2: without it no rename or link between folders is allowed anywhere
_TRUNCATE = 1 << 14     # ABI 3
_SCOPE_ABSTRACT_SOCKET = 1  # ABI 6
_SCOPE_SIGNAL = 2           # ABI 6


def available():
    """The kernel's version of Landlock, 0 for none."""
    try:
        return kernel.landlock_abi()
    except Exception:
        return 0


def enclose(writable, abi):
    """From here on this process and its children write only below `writable`, and signal only each other."""
    rights = _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_ANY
    if abi >= 2:
        rights |= _REFER
    if abi >= 3:
        rights |= _TRUNCATE
    scopes = _SCOPE_ABSTRACT_SOCKET | _SCOPE_SIGNAL if abi >= 6 else 0
    ruleset = kernel.landlock_ruleset(rights, scopes, abi)
    try:
        for path in writable:
            try:
                folder = stat.S_ISDIR(os.stat(path).st_mode)
                kernel.landlock_allow(ruleset, path, rights if folder else rights & (_WRITE_FILE | _TRUNCATE))
            except FileNotFoundError:
                continue
        kernel.landlock_restrict(ruleset)
    finally:
        os.close(ruleset)


_GUARDED = {"os.chmod": 1, "os.chown": 1, "os.utime": 1, "os.setxattr": 1, "os.removexattr": 1, "os.link": 2}


def guard(writable):
    """Refuses, in this interpreter, changes of metadata outside `writable`: the fall-back without mounts.

    A hard link is refused too unless its source may be written: a write through the link would reach the original.
    """
    roots = tuple(os.path.realpath(path).rstrip(os.sep) + os.sep for path in writable)

    def inside(path):
        if isinstance(path, int):
            try:
                path = os.readlink("/proc/self/fd/%d" % path)
            except OSError:
                return True
        return (os.path.realpath(os.fsdecode(path)) + os.sep).startswith(roots)

    def refuse(event, arguments):
        count = _GUARDED.get(event)
        if count and not all(inside(path) for path in arguments[:count]):
            raise PermissionError(13, "Permission denied", os.fsdecode(arguments[0])
                                  if not isinstance(arguments[0], int) else None)

    sys.addaudithook(refuse)
