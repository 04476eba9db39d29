"""How the program ended, as outcome.json says it.

Invariant: describing an exception never raises, whatever its `__str__` does; the file appears whole or not at all.
It must not call anything a failure of this or that kind: it states types, texts, frames and names.
"""

import json
import os
import re
import types

from . import report

FRAMES_KEPT = 200       # of a very deep stack the first and the last half of this
TEXT_KEPT = 20000


def name_of(kind):
    """`module.Class`, without the module for built-in exceptions."""
    module = getattr(kind, "__module__", None)
    name = getattr(kind, "__qualname__", str(kind))
    return name if module in (None, "builtins") else "%s.%s" % (module, name)


def text_of(value):
    """str(value), or why there is none."""
    try:
        return str(value)[:TEXT_KEPT]
    except BaseException as error:
        return "<no text: %s>" % (name_of(type(error)),)


def describe(value, seen=()):
    """The exception with its project frames, what was missing, and the exceptions that it came from."""
    frames = report.project_frames(value.__traceback__) if value.__traceback__ is not None else []
    if len(frames) > FRAMES_KEPT:
        frames = frames[:FRAMES_KEPT // 2] + frames[-FRAMES_KEPT // 2:]
    described = {"type": name_of(type(value)), "message": text_of(value), "frames": frames,
                 "missing": _guarded(missing_in, value), "syntax": _guarded(_syntax_in, value)}
    before = value.__cause__ or (None if value.__suppress_context__ else value.__context__)
    if before is not None and before is not value and len(seen) < 10 and before not in seen:
        described["before"] = describe(before, seen + (value,))
    return described


def _guarded(look, value):
    try:
        return look(value)
    except Exception:
        return None


def _syntax_in(value):
    if not isinstance(value, SyntaxError):
        return None
    name, line = value.filename, value.lineno
    found = re.search(r" in file (.*) on line (\d+)", str(value.msg))
    if name is None and found:
        name, line = found.group(1), int(found.group(2))
    return {"file": report.relative(name or "") or str(name or ""), "line": line or 0, "message": str(value.msg)}


_ATTRIBUTE = (
    re.compile(r"(?:partially initialized )?module '(?P<on>[^']*)' has no attribute '(?P<name>[^']*)'"),
    re.compile(r"type object '(?P<on>[^']*)' has no attribute '(?P<name>[^']*)'"),
    re.compile(r"'(?P<on>[^']*)' object has no attribute '(?P<name>[^']*)'"),
    re.compile(r"has no attribute '(?P<name>[^']*)'"),
)
_UNBOUND = re.compile(r"(?:local|free) variable '([^']*)'")
_NAME = re.compile(r"name '([^']*)' is not defined")
_MODULE = re.compile(r"No module named '?([^';]*)'?")
_IMPORT = re.compile(r"cannot import name '([^']*)' from (?:partially initialized module )?'([^']*)'")


def missing_in(value):
    """What the program looked for and did not find: {"kind", "name", "on"}; None for other exceptions."""
    text = text_of(value)
    if isinstance(value, NameError):
        found = _UNBOUND.search(text)
        if found or isinstance(value, UnboundLocalError):
            return _missing("unbound", found.group(1) if found else getattr(value, "name", None))
        found = _NAME.search(text)
        return _missing("name", getattr(value, "name", None) or (found and found.group(1)))
    if isinstance(value, ImportError):
        found = _IMPORT.search(text)
        if found:
            return _missing("attribute", found.group(1), found.group(2))
        found = _MODULE.search(text)
        return _missing("module", (value.name if found or isinstance(value, ModuleNotFoundError) else None)
                        or (found and found.group(1)))
    if isinstance(value, AttributeError):
        return _missing_attribute(value, text)
    if type(value) is KeyError and value.args:
        key = value.args[0]
        return _missing("key", key if isinstance(key, str) else repr(key)[:200])
    return None


def _missing_attribute(value, text):
    name, on = getattr(value, "name", None), None
    if name is not None and "obj" in dir(value):
        owner = value.obj
        if isinstance(owner, types.ModuleType):
            on = owner.__name__
        elif owner is not None:
            on = owner.__name__ if isinstance(owner, type) else type(owner).__name__
    if name is None or on is None:
        for pattern in _ATTRIBUTE:
            found = pattern.search(text)
            if found:
                name = name or found.group("name")
                on = on or found.groupdict().get("on")
                break
    return _missing("attribute", name, on)


def _missing(kind, name, on=None):
    return {"kind": kind, "name": str(name), "on": on} if name else None


def strip(value, seen=None):
    """Takes the harness's frames out of the tracebacks of an exception and of those that it came from."""
    seen = set() if seen is None else seen
    while value is not None and id(value) not in seen:
        seen.add(id(value))
        value.__traceback__ = _without_harness(value.__traceback__)
        for inner in getattr(value, "exceptions", None) or ():
            if isinstance(inner, BaseException):
                strip(inner, seen)
        if value.__cause__ is not None and value.__context__ is not value.__cause__:
            strip(value.__context__, seen)
        value = value.__cause__ or value.__context__


def _without_harness(traceback):
    first = last = None
    while traceback is not None:
        if not report.is_harness(traceback.tb_frame.f_code.co_filename):
            if last is None:
                first = traceback
            elif last.tb_next is not traceback:
                last.tb_next = traceback
            last = traceback
        traceback = traceback.tb_next
    if last is not None and last.tb_next is not None:
        last.tb_next = None
    return first


def write(path, content):
    """Writes JSON so that a reader sees all of it or nothing."""
    part = "%s.%d" % (path, os.getpid())
    with open(part, "w", encoding="utf-8") as handle:
        json.dump(content, handle, default=repr, separators=(",", ":"))
    os.replace(part, path)
