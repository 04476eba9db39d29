"""How modules come in: the project's always from the source that the view shows, and pins as soon as torch is there.

Invariant: a changed file is compiled from its own text, whatever .pyc lies beside the original;
everything else is imported by Python's own machinery.
"""

import importlib.machinery as machinery
import os
import sys

from . import report

_changed = frozenset()
_callbacks = {}
_busy = set()


class _ProjectLoader(machinery.SourceFileLoader):
    """As Python's own, but blind to byte code that was compiled from another version of the file."""

    def path_stats(self, path):
        if report.relative(path) in _changed:
            raise OSError("changed: byte code is not for this text")
        return super().path_stats(path)


def _project_hook(path):
    if report.relative(os.path.join(path, "x")) is None or not os.path.isdir(path):
        raise ImportError("not a folder of the project")
    return machinery.FileFinder(path, (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES),
                                (_ProjectLoader, machinery.SOURCE_SUFFIXES),
                                (machinery.SourcelessFileLoader, machinery.BYTECODE_SUFFIXES))


class _After:
    """A finder that finds nothing itself: it lets the others find a module, and calls back once that is loaded."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in _callbacks or name in _busy:
            return None
        _busy.add(name)
        try:
            for finder in sys.meta_path:
                find = getattr(finder, "find_spec", None)
                spec = find(name, path, target) if find and finder is not _After else None
                if spec is not None:
                    break
            else:
                return None
        finally:
            _busy.discard(name)
        if hasattr(spec.loader, "exec_module"):
            _call_after(spec.loader, name)
        return spec


def _call_after(loader, name):
    load = loader.exec_module

    def exec_module(module):
        load(module)
        for callback in _callbacks.pop(name, ()):
            callback(module)

    try:
        loader.exec_module = exec_module
    except AttributeError:
        pass


def when_loaded(name, callback):
    """Calls `callback(module)` now if `name` is imported already, else right after it has been."""
    module = sys.modules.get(name)
    if module is not None:
        callback(module)
        return
    _callbacks.setdefault(name, []).append(callback)
    if _After not in sys.meta_path:
        sys.meta_path.insert(0, _After)


def install(spec):
    """Prepares imports for one trial; `sys.path` must be the program's already."""
    global _changed
    _changed = frozenset(spec["changed"])
    sys.dont_write_bytecode = True
    sys.path_hooks.insert(0, _project_hook)
    for path in list(sys.path_importer_cache):
        if report.below(path):
            del sys.path_importer_cache[path]
    _forget_shadowed(set(spec["startup_modules"]))


def _forget_shadowed(startup):
    """A module of the project hides a library of the same name, also one that was imported before the program."""
    library = os.path.dirname(os.__file__)
    for folder in sys.path:
        if folder == library:
            return
        if not report.below(folder):
            continue
        for name in _module_names(folder):
            if name in sys.modules and name not in startup and name not in sys.builtin_module_names:
                for loaded in list(sys.modules):
                    if loaded == name or loaded.startswith(name + "."):
                        del sys.modules[loaded]


def _module_names(folder):
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    yield entry.name[:-3]
                elif os.path.exists(os.path.join(entry.path, "__init__.py")):
                    yield entry.name
    except OSError:
        return
