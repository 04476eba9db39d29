"""The few Linux system calls that Python does not offer: mounts, namespaces, prctl, capabilities, Landlock.

Invariant: each function either did what its name says or raised OSError; nothing here decides what is allowed.
Must not be imported by the program's own code path after its start: only the server and supervisors use it.
"""

import ctypes
import fcntl
import os
import socket
import struct

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MNT_DETACH = 2

_PR_SET_PDEATHSIG = 1
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38

_SYS_MOUNT_SETATTR = 442
_SYS_LANDLOCK_CREATE_RULESET = 444
_SYS_LANDLOCK_ADD_RULE = 445
_SYS_LANDLOCK_RESTRICT_SELF = 446

# What a program could use to undo the sandbox or to harm the machine: kept from it even when it runs as root.
# Numbers of linux/capability.h: LINUX_IMMUTABLE, NET_ADMIN, SYS_MODULE, SYS_RAWIO, SYS_PACCT, SYS_ADMIN, SYS_BOOT,
# SYS_TIME, MKNOD, MAC_OVERRIDE, MAC_ADMIN, SYSLOG, WAKE_ALARM, BLOCK_SUSPEND, AUDIT_READ, PERFMON, BPF.
_WITHHELD = (9, 12, 16, 17, 20, 21, 22, 25, 27, 32, 33, 34, 35, 36, 37, 38, 39)

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _checked(result, what):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, "%s: %s" % (what, os.strerror(number)))
    return result


def _text(value):
    return None if value is None else os.fsencode(value)


def unshare(flags):
    """Leaves the namespaces named by `flags`."""
    _checked(_libc.unshare(ctypes.c_int(flags)), "unshare")


def mount(source, target, kind=None, flags=0, data=None):
    """mount(2)."""
    _checked(_libc.mount(_text(source), _text(target), _text(kind), ctypes.c_ulong(flags), _text(data)),
             "mount %s" % (target,))


def unmount(target):
    """Takes a mount away, at once from the tree and for good when its last user is gone."""
    _checked(_libc.umount2(_text(target), ctypes.c_int(MNT_DETACH)), "umount %s" % (target,))


def set_read_only(path, on, recursive):
    """Sets or clears the read-only attribute of the mount at `path` (Linux 5.12)."""
    attributes = struct.pack("=QQQQ", 1 if on else 0, 0 if on else 1, 0, 0)
    flags = 0x8000 if recursive else 0
    _checked(_libc.syscall(ctypes.c_long(_SYS_MOUNT_SETATTR), ctypes.c_int(-100), _text(path), ctypes.c_uint(flags),
                           attributes, ctypes.c_size_t(len(attributes))), "mount_setattr %s" % (path,))


def _prctl(option, value, what):
    zero = ctypes.c_ulong(0)
    _checked(_libc.prctl(ctypes.c_int(option), ctypes.c_ulong(value), zero, zero, zero), what)


def become_subreaper():
    """Orphans among the descendants come to this process, not to init."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, "PR_SET_CHILD_SUBREAPER")


def die_with_parent(signal_number):
    """The kernel sends `signal_number` when the parent ends."""
    _prctl(_PR_SET_PDEATHSIG, signal_number, "PR_SET_PDEATHSIG")


def drop_privileges(keep_root):
    """Takes the capabilities that could undo the sandbox; all of them unless this is the machine's own root."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1, "PR_SET_NO_NEW_PRIVS")
    for number in _WITHHELD:
        _libc.prctl(ctypes.c_int(_PR_CAPBSET_DROP), ctypes.c_ulong(number), ctypes.c_ulong(0), ctypes.c_ulong(0),
                    ctypes.c_ulong(0))
    header = struct.pack("=Ii", 0x20080522, 0)
    data = ctypes.create_string_buffer(24)
    _checked(_libc.capget(header, data), "capget")
    sets = list(struct.unpack("=IIIIII", data.raw))
    for half in (0, 1):
        mask = sum(1 << (n - 32 * half) for n in _WITHHELD if n // 32 == half)
        keep = ~mask & 0xFFFFFFFF if keep_root else 0
        for which in (0, 1):
            sets[3 * half + which] &= keep
        sets[3 * half + 2] = 0
    _checked(_libc.capset(header, struct.pack("=IIIIII", *sets)), "capset")


def map_same_user(uid, gid):
    """In a new user namespace: the same user and group ids as outside."""
    for name, text in (("setgroups", "deny"), ("uid_map", "%d %d 1" % (uid, uid)), ("gid_map", "%d %d 1" % (gid, gid))):
        fd = os.open("/proc/self/" + name, os.O_WRONLY)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)


def loopback_up():
    """Brings `lo` up in a new network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as handle:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(handle, 0x8913, request))[1]
        fcntl.ioctl(handle, 0x8914, struct.pack("16sH14x", b"lo", flags | 1))


def gather_pages():
    """Turns this process's private memory into huge pages (Linux 6.1): a fork then copies 200 times fewer entries."""
    huge = 2 << 20
    with open("/proc/self/maps") as handle:
        lines = [line.split() for line in handle]
    for fields in lines:
        if fields[1].startswith("rw-p") and fields[4] == "0" and (len(fields) == 5 or fields[5] == "[heap]"):
            start, end = (int(text, 16) for text in fields[0].split("-"))
            start, end = (start + huge - 1) // huge * huge, end // huge * huge
            if start < end:
                _libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), ctypes.c_int(25))


def landlock_abi():
    """Version of Landlock, 0 where the kernel has none."""
    version = _libc.syscall(ctypes.c_long(_SYS_LANDLOCK_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint(1))
    return max(0, version)


def landlock_ruleset(handled_files, scoped, abi):
    """A new rule set (descriptor) that governs the access rights `handled_files` and the scopes `scoped`."""
    attributes = struct.pack("=QQQ", handled_files, 0, scoped)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    return _checked(_libc.syscall(ctypes.c_long(_SYS_LANDLOCK_CREATE_RULESET), attributes[:size],
                                  ctypes.c_size_t(size), ctypes.c_uint(0)), "landlock_create_ruleset")


def landlock_allow(ruleset, path, rights):
    """Grants `rights` on everything below `path`."""
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = struct.pack("=Qi", rights, fd)
        _checked(_libc.syscall(ctypes.c_long(_SYS_LANDLOCK_ADD_RULE), ctypes.c_int(ruleset), ctypes.c_int(1), rule,
                               ctypes.c_uint(0)), "landlock_add_rule %s" % (path,))
    finally:
        os.close(fd)


def landlock_restrict(ruleset):
    """Puts this process and all its future children under the rule set."""
    _checked(_libc.syscall(ctypes.c_long(_SYS_LANDLOCK_RESTRICT_SELF), ctypes.c_int(ruleset), ctypes.c_uint(0)),
             "landlock_restrict_self")


def watch_folders(paths, mask):
    """An inotify descriptor on folders: (descriptor, {watch: path}); folders beyond the kernel's limit are left out."""
    fd = _checked(_libc.inotify_init1(ctypes.c_int(os.O_NONBLOCK | os.O_CLOEXEC)), "inotify_init1")
    watches = {}
    for path in paths:
        number = _libc.inotify_add_watch(ctypes.c_int(fd), _text(path), ctypes.c_uint32(mask))
        if number >= 0:
            watches[number] = path
    return fd, watches
