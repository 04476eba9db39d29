"""What one trial tells the reducer: the facts that end up in outcome.json, and where the project lies.

Invariant: importing or using this module imports nothing but the standard library's smallest modules,
and never raises into the program.  It must not judge: it only collects.

`facts` is a plain dict; whoever knows something sets its key (`failure`, `not_emulated`, ...).  What another process
of the program knows it leaves in the trial's folder by `tell`, where the program's own process finds it at its end.
"""

import json
import os
import sys

facts = {"notes": []}
early = None        # called with the error when the first failure is known: a dead device may abort the process later

_project = None     # absolute path of the project, with a trailing separator
_real = None        # the same with symbolic links resolved
_workdir = None     # where the program started: relative file names of code objects are relative to it
_owner = None       # the process that writes outcome.json, and the trial's folder
_harness = os.path.dirname(os.path.abspath(__file__)) + os.sep
_known = {}         # absolute code file name -> relative path, or None
_typed = {}         # the same for relative names, which depend on the folder


def configure(project, workdir):
    """Sets the project's root and the folder in which the program starts (both absolute)."""
    global _project, _real, _workdir
    if _project != project.rstrip(os.sep) + os.sep:
        _known.clear()
    _typed.clear()
    _project = project.rstrip(os.sep) + os.sep
    _real = os.path.realpath(project).rstrip(os.sep) + os.sep
    _workdir = workdir


def belong(pid, folder):
    """Says which process reports for the program, and where the others leave what they know."""
    global _owner
    _owner = (pid, folder)


def owner():
    """The process that reports for the program."""
    return _owner[0]


def tell(key, value):
    """Sets a fact, wherever the program's code runs; the first is kept."""
    if facts.get(key):
        return
    facts[key] = value
    if _owner is None or os.getpid() == _owner[0]:
        return
    path = os.path.join(_owner[1], "told-%s.json" % key)
    part = "%s.%d" % (path, os.getpid())
    try:
        with open(part, "w") as handle:
            json.dump(value, handle, default=repr)
        os.link(part, path)     # fails where another was first
    except OSError:
        pass
    finally:
        if os.path.exists(part):
            os.unlink(part)


def collect(*keys):
    """Takes in what other processes have told, where this one knows nothing itself."""
    for key in keys:
        if facts.get(key) or _owner is None:
            continue
        try:
            with open(os.path.join(_owner[1], "told-%s.json" % key)) as handle:
                facts[key] = json.load(handle)
        except (OSError, ValueError):
            continue


def below(path):
    """Whether an absolute path lies in the project as written: no link is followed."""
    path += os.sep
    return path.startswith(_project) or path.startswith(_real)


def relative(filename):
    """Path relative to the project root with '/', or None where the file is not the project's."""
    try:
        return _known[filename]
    except (KeyError, TypeError):
        pass
    try:
        if filename in _typed:
            return _typed[filename]
        found = _relative(os.fspath(filename))
        (_known if filename.startswith(os.sep) else _typed)[filename] = found
    except Exception:
        return None
    return found


def _relative(filename):
    if _project is None or not isinstance(filename, str) or not filename or filename.startswith("<"):
        return None
    path = os.path.normpath(os.path.join(_workdir, filename))
    for root in (_project, _real):
        if path.startswith(root):
            return _inside(path[len(root):])
    path = os.path.realpath(path)
    return _inside(path[len(_real):]) if path.startswith(_real) else None


def _inside(rel):
    """An installed package below the project (a .venv) is not the project's own code."""
    parts = rel.split(os.sep)
    if "site-packages" in parts or "dist-packages" in parts:
        return None
    return "/".join(parts)


def is_harness(filename):
    """Whether a code object's file is one of these harness files."""
    return filename.startswith(_harness)


def project_frames(frame_or_tb):
    """Project frames of a traceback, or of a frame and its callers: outermost first.

    Each is {"file": relative path, "line": 1-based line, "func": name}.  With None: of the caller.
    """
    frames = []
    if frame_or_tb is None:
        frame_or_tb = sys._getframe(1)
    if hasattr(frame_or_tb, "tb_frame"):
        tb = frame_or_tb
        while tb is not None:
            _add(frames, tb.tb_frame, tb.tb_lineno)
            tb = tb.tb_next
    else:
        frame = frame_or_tb
        while frame is not None:
            _add(frames, frame, frame.f_lineno)
            frame = frame.f_back
        frames.reverse()
    return frames


def _add(frames, frame, line):
    code = frame.f_code
    rel = relative(code.co_filename)
    if rel is not None and not is_harness(code.co_filename):
        frames.append({"file": rel, "line": line or code.co_firstlineno, "func": code.co_name})


def note(kind, **more):
    """Adds a note once: the same kind with the same facts is kept a single time."""
    entry = dict(more, kind=kind)
    if entry not in facts["notes"]:
        facts["notes"].append(entry)
