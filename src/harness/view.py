"""The file system as one trial sees it: the project writable at its own path, everything else read-only.

Invariant: nothing that the program writes, removes, renames or re-dates reaches a file outside its scratch folder,
except below the `write` paths, /dev and /proc.  Writes into the project and the caches are thrown away.
It must not read the project's files: it mounts or copies them.

Two ways, found out once by `probe`: an overlay in a private mount namespace, or a copy where mounts or overlays are
refused.  A copy lies at the project's own path where mounts are allowed, else in the scratch folder.
"""

import glob
import os
import shutil
import stat
import tempfile

from . import kernel, landlock

COPY_LIMIT = 16 << 20   # a copy holds links to files larger than this
# Variables that name folders for what a program compiles while it runs, or for settings that it writes by itself.
COMPILED = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CUPY_CACHE_DIR", "NUMBA_CACHE_DIR", "CUDA_CACHE_PATH",
            "MPLCONFIGDIR")
_LEFT_OUT = {".git", ".hg", ".svn", "__pycache__", "node_modules", ".mypy_cache", ".pytest_cache", ".ruff_cache"}


class View:
    """What `build` made: where the project lies, which folders may be written, how it was done."""

    def __init__(self, root, writable, kind, mounted):
        self.root = root
        self.writable = writable
        self.kind = kind
        self.mounted = mounted


def private_folder(spec):
    """Where a trial's discarded writes go."""
    return os.path.join(spec["scratch"], ".view")


def build(spec, features):
    """Makes the view for one trial, in this process; raises OSError where it cannot."""
    scratch = spec["scratch"]
    os.makedirs(os.path.join(scratch, "tmp"), exist_ok=True)
    if not features["mounts"]:
        root = os.path.join(private_folder(spec), "project")
        _copy_project(spec, root, spec["project"])
        kinds = [root, scratch] + _existing(spec) + ["/dev", "/proc"]
        return View(root, kinds, "copy", False)
    kernel.unshare(kernel.CLONE_NEWNS | (kernel.CLONE_NEWNET if features["netns"] and not spec["network"] else 0))
    if features["netns"] and not spec["network"]:
        kernel.loopback_up()
    project = os.path.realpath(spec["project"])
    real = [os.path.realpath(scratch)] + [os.path.realpath(path) for path in _existing(spec)]
    inner = [(path, _handle(path)) for path in real if _below(path, project)]
    inner += [(path, _handle(path)) for path in features["submounts"] if path not in real]
    if spec["sandbox"]:
        _freeze_tree(real + ["/proc", "/dev"])
        if os.path.isdir("/dev/shm"):
            kernel.mount("tmpfs", "/dev/shm", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=1777")
    kind = _mount_project(spec, project, features)
    caches = _mount_caches(spec, project, real) if spec["sandbox"] else []
    for path, fd in inner:
        os.makedirs(path, exist_ok=True)
        kernel.mount("/proc/self/fd/%d" % fd, path, None, kernel.MS_BIND | kernel.MS_REC)
        os.close(fd)
    _remove(spec, project)
    return View(spec["project"], [project] + real + caches + ["/dev", "/proc"], kind, True)


def clean(spec):
    """Throws the trial's writes away, so that the scratch folder can be removed by anyone."""
    folder = private_folder(spec)
    for work in [os.path.join(folder, "work", "work")] + glob.glob(os.path.join(glob.escape(folder), "*", "work", "work")):
        try:
            os.chmod(work, 0o700)
        except OSError:
            pass
    shutil.rmtree(folder, ignore_errors=True)


def _existing(spec):
    return [path for path in spec["write"] if os.path.exists(path)]


def _below(path, folder):
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _handle(path):
    return os.open(path, os.O_PATH | os.O_CLOEXEC)


def _freeze_tree(writable):
    """Makes every mount read-only but for those at `writable`, which become mounts of their own."""
    made = []
    for path in writable:
        if os.path.exists(path):
            if not (path in ("/proc", "/dev") and os.path.ismount(path)):
                kernel.mount(path, path, None, kernel.MS_BIND | kernel.MS_REC)
            made.append(path)
    try:
        kernel.set_read_only("/", True, True)
    except OSError:
        _freeze_one_by_one(made)
        return
    for path in made:
        kernel.set_read_only(path, False, False)


def _freeze_one_by_one(writable):
    """The same before Linux 5.12: a remount for each; what refuses is a pseudo file system of the kernel."""
    for point, options in mount_points():
        if point in writable:
            continue
        flags = kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | kernel.MS_REC
        for name, bit in (("nosuid", 2), ("nodev", 4), ("noexec", 8), ("noatime", 1024), ("nodiratime", 2048),
                          ("relatime", 1 << 21)):
            if name in options:
                flags |= bit
        try:
            kernel.mount(None, point, None, flags)
        except OSError:
            if point == "/" or not point.startswith(("/proc", "/sys", "/dev", "/run")):
                raise


def mount_points():
    """(path, options) of every mount of this process."""
    found = []
    with open("/proc/self/mountinfo", "rb") as handle:
        for line in handle:
            fields = line.split()
            path = fields[4]
            for code, char in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
                path = path.replace(code, char)
            found.append((os.fsdecode(path), fields[5].decode().split(",")))
    return found


def _mount_project(spec, project, features):
    folder = private_folder(spec)
    if features["view"] == "overlay":
        files = os.path.join(spec["scratch"], "files")
        lower = [files, project] if os.path.isdir(files) and os.listdir(files) else [project]
        for rel in spec["changed"]:
            _same_mode(os.path.join(project, rel), os.path.join(files, rel))
        try:
            _overlay(lower, project, folder)
            return "overlay"
        except OSError:
            if features.get("strict_overlay"):
                raise
    root = os.path.join(folder, "project")
    original = os.path.join(folder, "original")
    os.makedirs(original, exist_ok=True)
    kernel.mount(project, original, None, kernel.MS_BIND | kernel.MS_REC)
    kernel.set_read_only(original, True, False)
    _copy_project(spec, root, original)
    kernel.mount(root, project, None, kernel.MS_BIND)
    return "copy"


def _same_mode(original, changed):
    try:
        os.chmod(changed, stat.S_IMODE(os.stat(original).st_mode) | stat.S_IRUSR)
    except OSError:
        pass


def _overlay(lower, target, folder):
    """Mounts an overlay over `target`; its upper layer is in `folder`, or in memory where that cannot hold one.

    Layers are named by descriptor, so no character of a path needs an escape.
    """
    errors = []
    for place in (folder, os.path.join(folder, "tmpfs")):
        os.makedirs(place, exist_ok=True)
        if errors:
            kernel.mount("tmpfs", place, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=0700")
        upper, work = os.path.join(place, "upper"), os.path.join(place, "work")
        os.makedirs(upper, exist_ok=True)
        os.makedirs(work, exist_ok=True)
        _same_mode(target, upper)
        handles = [_handle(path) for path in lower + [upper, work]]
        names = ["/proc/self/fd/%d" % fd for fd in handles]
        layers = "lowerdir=%s,upperdir=%s,workdir=%s" % (":".join(names[:-2]), names[-2], names[-1])
        try:
            for extra in (",redirect_dir=on", ",userxattr", ""):
                try:
                    kernel.mount("overlay", target, "overlay", kernel.MS_NODEV, layers + extra)
                    return
                except OSError as error:
                    errors.append(error)
        finally:
            for fd in handles:
                os.close(fd)
    raise errors[0]


def cache_folders(environment):
    """Caches of models, packages and compiled kernels: readable, and writes into them are thrown away."""
    home = environment.get("HOME") or os.path.expanduser("~")
    named = [environment.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")]
    named += [os.path.join(home, ".cupy"), os.path.join(home, ".triton")]
    named += [environment[name] for name in ("HF_HOME", "TORCH_HOME", "HF_HUB_CACHE", "TORCH_EXTENSIONS_DIR") + COMPILED
              if environment.get(name)]
    found = []
    for path in named:
        path = os.path.realpath(path)
        if os.path.isdir(path) and path != "/" and not any(_below(path, other) for other in found):
            found.append(path)
    return found


def _mount_caches(spec, project, writable):
    done = []
    for number, path in enumerate(cache_folders(dict(os.environ, **spec["env"]))):
        if any(_below(path, other) or _below(other, path) for other in [project] + writable):
            continue
        try:
            _overlay([path], path, os.path.join(private_folder(spec), "cache%d" % number))
            done.append(path)
        except OSError:
            continue    # it stays readable, which is what is promised
    return done


def _remove(spec, root):
    for rel in spec["removed"]:
        try:
            os.unlink(os.path.join(root, rel))
        except FileNotFoundError:
            pass


def _copy_project(spec, root, original):
    """Copies the project's files to `root`; the large ones become links to `original`."""
    os.makedirs(root, exist_ok=True)
    for folder, names, files in os.walk(original):
        rel = os.path.relpath(folder, original)
        target = root if rel == "." else os.path.join(root, rel)
        for name in list(names):
            source = os.path.join(folder, name)
            installed = os.path.exists(os.path.join(source, "pyvenv.cfg"))
            here = os.path.normpath(os.path.join(spec["project"], rel, name))
            if name in _LEFT_OUT or _below(here, spec["scratch"]):
                names.remove(name)
            elif installed or os.path.islink(source):
                names.remove(name)
                os.symlink(source if installed else os.readlink(source), os.path.join(target, name))
            else:
                os.makedirs(os.path.join(target, name), exist_ok=True)
        for name in files:
            _copy_file(os.path.join(folder, name), os.path.join(target, name))
    files = os.path.join(spec["scratch"], "files")
    for rel in spec["changed"]:
        target = os.path.join(root, rel)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if os.path.lexists(target):
            os.unlink(target)
        shutil.copyfile(os.path.join(files, rel), target)
        _same_mode(os.path.join(original, rel), target)
    _remove(spec, root)


def _copy_file(source, target):
    try:
        facts = os.lstat(source)
        if stat.S_ISLNK(facts.st_mode):
            os.symlink(os.readlink(source), target)
        elif stat.S_ISREG(facts.st_mode):
            if facts.st_size > COPY_LIMIT:
                os.symlink(source, target)
            else:
                shutil.copy2(source, target)
    except OSError:
        pass    # what the user cannot read, the program cannot read either


def probe(hello):
    """What this machine allows, tried for real in children: {"mounts", "view", "landlock", "netns", "userns", ...}."""
    features = {"mounts": False, "refused": None, "view": "copy", "landlock": landlock.available() if hello["sandbox"] else 0,
                "netns": False, "userns": False, "submounts": []}
    without = os.environ.get("REDUCE_HARNESS_WITHOUT", "").split(",")   # what a test takes away
    if "mounts" in without:
        return features
    for userns in ((False, True) if os.geteuid() == 0 else (True,)):
        for netns in ((True, False) if not hello["network"] else (False,)):
            for kind in [kind for kind in ("overlay", "copy") if kind not in without]:
                trial = dict(features, mounts=True, view=kind, netns=netns, userns=userns, strict_overlay=True)
                refused = _refused(lambda: _attempt(hello, trial))
                if refused is None:
                    del trial["strict_overlay"]
                    return trial
                features["refused"] = features["refused"] or refused
    return features


def enter(features, project):
    """Enters, once and for all trials, the user namespace and a mount namespace whose mounts reach nobody else."""
    uid, gid = os.geteuid(), os.getegid()
    kernel.unshare(kernel.CLONE_NEWNS | (kernel.CLONE_NEWUSER if features["userns"] else 0))
    if features["userns"]:
        kernel.map_same_user(uid, gid)
    kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    project = os.path.realpath(project)
    features["submounts"] = [path for path, _ in mount_points() if path != project and _below(path, project)]


def _attempt(hello, features):
    """One whole view in this process; True when writes land where they should and nowhere else."""
    folder = hello["probe"]
    os.makedirs(os.path.join(folder, "files"), exist_ok=True)
    with open(os.path.join(folder, "files", ".reduce-probe"), "w") as handle:
        handle.write("new")
    enter(features, hello["project"])
    spec = dict(hello, scratch=folder, changed=[".reduce-probe"], removed=[], env={})
    view = build(spec, features)
    with open(os.path.join(view.root, ".reduce-probe")) as handle:
        seen = handle.read()
    with open(os.path.join(view.root, ".reduce-probe"), "w") as handle:
        handle.write("discarded")
    with open(os.path.join(folder, "tmp", "probe"), "w") as handle:
        handle.write("kept")
    refused = not hello["sandbox"] or not os.access(os.path.dirname(folder), os.W_OK)
    return seen == "new" and refused


def _refused(attempt):
    """Why `attempt` does not work, tried in a child; None when it works."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            why = "" if attempt() else "a write went astray"
        except BaseException as error:
            why = "%s: %s" % (type(error).__name__, error)
        os.write(writer, why.encode("utf-8", "replace")[:4000])
        os._exit(1 if why else 0)
    os.close(writer)
    with open(reader, "rb") as handle:
        why = handle.read().decode("utf-8", "replace")
    return None if os.waitpid(pid, 0)[1] == 0 else why or "it was killed"


def probe_folder(project):
    """A fresh folder for `probe`; outside of the project where that is possible."""
    return tempfile.mkdtemp(prefix="reduce-probe-")
