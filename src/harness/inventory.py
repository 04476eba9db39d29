"""What the program used: modules, project files imported, data files opened, versions, states of random generators.

Invariant: it only listens.  An audit hook sees what Python opens; `Watch`, in the supervisor, sees what any library
or child process opens inside the project.  It must not open the program's files itself.
"""

import hashlib
import json
import os
import struct
import sys

from . import kernel, report, system

_opened = {}        # path -> set of "r", "w"
_NOT_DATA = ("/proc", "/dev", "/sys", "/etc", "/usr", "/lib", "/lib64", "/bin", "/sbin")
_LIMIT = 20000


def listen():
    """Starts to note the files that this process opens through Python."""
    folder = os.getcwd()

    def on_event(event, arguments):
        if event == "open" and len(_opened) < _LIMIT:
            path, mode, flags = arguments
            if isinstance(path, (str, bytes)) or hasattr(path, "__fspath__"):
                try:
                    path = os.path.normpath(os.path.join(_folder(folder), os.fsdecode(path)))
                    _opened.setdefault(path, set()).update(_directions(mode, flags))
                except (ValueError, TypeError, OSError):
                    pass

    sys.addaudithook(on_event)


def _folder(at_start):
    try:
        return os.getcwd()
    except OSError:
        return at_start


def _directions(mode, flags):
    if isinstance(mode, str):
        return {"r", "w"} if "+" in mode else {"r"} if mode.startswith("r") or not mode.strip("btU") else {"w"}
    access = (flags or 0) & os.O_ACCMODE
    return {"r"} if access == os.O_RDONLY else {"w"} if access == os.O_WRONLY else {"r", "w"}


def _mode(directions):
    return "rw" if len(directions) == 2 else next(iter(directions))


def collect(spec):
    """The facts for outcome.json, at the end of the program."""
    imported = sorted({rel for rel in map(_source_of, list(sys.modules.values())) if rel})
    facts = {"modules": sorted(name for name in list(sys.modules) if name.split(".")[0] != "_reduce"),
             "imported": imported, "opened": _data_files(spec, set(imported)), "python": sys.version,
             "prefix": sys.prefix, "torch": _torch(), "numpy": _version("numpy"), "rng": _generators(),
             "packages": _packages()}
    if "torch" in sys.modules:
        facts["system"] = system.facts(sys.modules["torch"], spec.get("device", "cuda") == "cuda")
    return facts


def _source_of(module):
    path = getattr(module, "__file__", None)
    if not isinstance(path, str) or not path.endswith(".py"):
        return None
    main = module is sys.modules.get("__main__")    # before Python 3.9 its file is named as it was typed
    return report.relative(path) if main or os.path.isabs(path) else None


def _data_files(spec, imported):
    prefixes = {os.path.realpath(path) for path in (sys.prefix, sys.base_prefix, sys.exec_prefix)}
    prefixes |= {sys.prefix, sys.base_prefix, spec["scratch"], os.path.dirname(os.path.abspath(__file__))}
    ignored = tuple(path.rstrip(os.sep) + os.sep for path in prefixes | set(_NOT_DATA))
    entries = []
    for path, directions in sorted(_opened.items()):
        rel = report.relative(path)
        if rel is not None:
            if rel not in imported and "__pycache__" not in rel and os.path.isfile(path):
                entries.append({"path": rel, "mode": _mode(directions), "project": True})
        elif "r" in directions and not path.startswith(ignored) and "site-packages" not in path \
                and "dist-packages" not in path and not path.endswith((".py", ".pyc")) and os.path.isfile(path):
            entries.append({"path": path, "mode": _mode(directions), "project": False})
    return entries


def _version(name):
    return str(getattr(sys.modules.get(name), "__version__", "")) or None


def _torch():
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "version"):
        return None
    return {"version": str(torch.__version__), "git": getattr(torch.version, "git_version", None),
            "cuda": getattr(torch.version, "cuda", None)}


def _generators():
    """Digests of the generators' states: equal digests, equal states."""
    def digest(value):
        return hashlib.sha256(repr(value).encode()).hexdigest()[:16]

    states = {}
    try:
        if "random" in sys.modules:
            states["random"] = digest(sys.modules["random"].getstate())
        if "numpy.random" in sys.modules:
            name, keys, *rest = sys.modules["numpy.random"].get_state()
            states["numpy"] = digest((name, keys.tobytes(), rest))
        if "torch" in sys.modules:
            states["torch_initial_seed"] = sys.modules["torch"].initial_seed()
    except Exception as error:
        states["error"] = repr(error)
    return states


def _packages():
    """Installed distributions and their versions, of those that have a module loaded."""
    loaded = {name.split(".")[0] for name in list(sys.modules)}
    found = {}
    try:
        from importlib import metadata
        for distribution in metadata.distributions():
            name = distribution.metadata["Name"]
            top = (distribution.read_text("top_level.txt") or name.replace("-", "_")).split()
            if name and loaded.intersection(top):
                found[name] = distribution.version
    except Exception:
        pass
    return found


# --- the supervisor's side -------------------------------------------------------------------------------------------

_OPEN, _CLOSE_WRITE, _CLOSE_READ, _OVERFLOW = 0x20, 0x8, 0x10, 0x4000
_FOLDERS_WATCHED = 5000


class Watch:
    """Notes every file below the project that anybody in the trial opens, by inotify."""

    def __init__(self, root):
        folders = []
        for folder, names, _ in os.walk(root):
            names[:] = [name for name in names if not name.startswith(".") and name != "__pycache__"
                        and not os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))]
            folders.append(folder)
            if len(folders) >= _FOLDERS_WATCHED:
                break
        self.root = root
        self.seen = {}
        self.fd, self.watches = kernel.watch_folders(folders, _OPEN | _CLOSE_WRITE | _CLOSE_READ)

    def drain(self):
        """Takes in what has happened so far."""
        while True:
            try:
                data = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                return
            at = 0
            while at < len(data):
                number, mask, _, length = struct.unpack_from("iIII", data, at)
                name = data[at + 16:at + 16 + length].rstrip(b"\0")
                at += 16 + length
                if name and number in self.watches and not mask & 0x40000000:
                    path = os.path.join(self.watches[number], os.fsdecode(name))
                    self.seen.setdefault(path, set()).add("w" if mask & _CLOSE_WRITE else "r")

    def merge(self, path):
        """Adds to outcome.json the project files that Python's own audit did not see."""
        self.drain()
        os.close(self.fd)
        try:
            with open(path, "rb") as handle:
                outcome = json.load(handle)
        except (OSError, ValueError):
            return
        known = {entry["path"] for entry in outcome.get("opened", ()) if entry["project"]}
        known.update(outcome.get("imported", ()))
        for name, directions in sorted(self.seen.items()):
            rel = os.path.relpath(name, self.root)
            if rel not in known and not rel.endswith((".pyc", ".py")):
                outcome.setdefault("opened", []).append({"path": rel, "mode": _mode(directions), "project": True})
        with open(path + ".part", "w") as handle:
            json.dump(outcome, handle)
        os.replace(path + ".part", path)
