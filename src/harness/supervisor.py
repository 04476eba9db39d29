"""One trial from its fork to the death of its last descendant.

Invariant: when the last message of a trial is sent, no process of that trial is alive, whatever it did:
new sessions, double forks, ignored signals.  The supervisor is a child subreaper, so every orphan comes to it.
It must not look at what the program did; it only watches time, memory and the size of its output.
"""

import json
import os
import resource
import select
import signal
import sys
import time

from . import inventory, kernel, landlock, view

TICK = 0.05                 # how often output size is looked at, in seconds
MEMORY_EVERY = 5            # memory: every so many ticks
KEPT_OUTPUT = 64 << 20


def supervise(spec, channel, features):
    """Runs one trial.  Returns the spec in the program's own process; the supervisor itself never returns."""
    begun = time.monotonic()
    try:
        os.setsid()
        kernel.become_subreaper()
        _calm_signals()
        outputs = [os.open(os.path.join(spec["scratch"], name), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC,
                           0o600) for name in ("stdout", "stderr")]
        prepared = view.build(spec, features)
        spec["root"] = prepared.root
        spec["view"] = prepared.kind
        watch = inventory.Watch(prepared.root) if spec.get("inventory") else None
        wake, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            for fd in (wake, wake_write) + ((watch.fd,) if watch else ()):
                os.close(fd)
            _become_program(spec, channel, outputs, prepared, features)
            return spec
        _say(channel, {"pid": pid, "supervisor": os.getpid()})
        ended = _watch(spec, channel, pid, outputs, wake, watch)
        if watch:
            watch.merge(os.path.join(spec["scratch"], "outcome.json"))
    except BaseException as error:
        end_tree()
        ended = {"exit": None, "signal": None, "error": "%s: %s" % (type(error).__name__, error)}
    _leave_view(spec)
    ended["seconds"] = round(time.monotonic() - begun, 6)
    _say(channel, ended)
    os._exit(0)


def _calm_signals():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)


def _say(channel, message):
    try:
        channel.sendall(json.dumps(message).encode() + b"\n")
    except OSError:
        pass    # the server is gone: nobody is left to tell


def _leave_view(spec):
    """Throws the discarded files away; the mounts go with this process's namespace."""
    try:
        os.chdir("/")
        if spec.get("view") in ("overlay", "copy"):
            view.clean(spec)
    except OSError:
        pass


# --- the program's process -------------------------------------------------------------------------------------------

def _become_program(spec, channel, outputs, prepared, features):
    """Everything between the fork and the program: group, signals, descriptors, folder, walls; or the exec."""
    try:
        kernel.die_with_parent(signal.SIGKILL)
        os.setpgid(0, 0)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (outputs[0], 1), (outputs[1], 2)):
            os.dup2(source, target)
            os.close(source)
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        _first_to_go()
        _set_environment(spec)
        os.chdir(os.path.join(prepared.root, spec["workdir"]))
        spec["guarded"] = None
        if spec["sandbox"]:
            _close_in(prepared, features, spec)
        if spec["mode"] == "exec":
            _exec(spec)
    except BaseException as error:
        _say(channel, {"error": "%s: %s" % (type(error).__name__, error)})
        os._exit(125)
    channel.close()


def _set_environment(spec):
    """The case's variables (null removes one), the pins that are variables, and folders that may be written."""
    for name, value in spec["env"].items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    if spec["launch_blocking"]:
        os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
    folder = os.path.join(spec["scratch"], "tmp")
    os.environ["TMPDIR"] = folder
    if spec["sandbox"]:
        for name in view.COMPILED:
            os.environ.setdefault(name, os.path.join(folder, name.lower()))


def _first_to_go():
    """When memory runs out the kernel should end a trial, not the server."""
    try:
        fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(fd, b"600")
        os.close(fd)
    except OSError:
        pass


def _close_in(prepared, features, spec):
    if prepared.mounted:
        kernel.drop_privileges(keep_root=os.geteuid() == 0 and not features["userns"])
    elif features["landlock"]:
        kernel.drop_privileges(keep_root=os.geteuid() == 0)
    # Before ABI 2 a rule set forbids every rename between folders: too much where the mounts protect already.
    if features["landlock"] >= (2 if prepared.mounted else 1):
        landlock.enclose(prepared.writable, features["landlock"])
    if not prepared.mounted:
        spec["guarded"] = prepared.writable


def _exec(spec):
    path = os.path.join(spec["scratch"], "spec.json")
    with open(path, "w") as handle:
        json.dump(spec, handle)
    entry = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run.py")
    python = spec.get("python") or sys.executable
    os.execve(python, [python] + spec["flags"] + [entry, path], os.environ)


# --- watching and ending ---------------------------------------------------------------------------------------------

def _watch(spec, channel, pid, outputs, wake, watch):
    """Waits for the program's end, an order to kill, or a limit; then ends all that is left of the trial."""
    poll = select.poll()
    for source in (wake, channel) + ((watch.fd,) if watch else ()):
        poll.register(source, select.POLLIN)
    why, status, usage, ticks = None, None, None, 0
    while status is None:
        for fd, _ in poll.poll(TICK * 1000):
            if fd == wake:
                os.read(wake, 4096)
            elif watch and fd == watch.fd:
                watch.drain()
            else:
                channel.recv(4096)      # an order to kill, or a server that is gone
                why = "killed"
        ticks += 1
        if max(os.fstat(fd).st_size for fd in outputs) > spec["max_output"]:
            why = "output_limit"
        if spec["memory"] and ticks % MEMORY_EVERY == 0 and _too_large(spec["memory"]):
            why = "memory_limit"
        if why:
            _signal(pid, signal.SIGKILL)
        status, usage = _reap(pid, wait=why is not None)
    end_tree()
    for fd in outputs:
        if os.fstat(fd).st_size > spec["max_output"]:
            os.ftruncate(fd, spec["max_output"])
        os.close(fd)
    signalled = os.WIFSIGNALED(status)
    result = {"exit": None if signalled else os.WEXITSTATUS(status),
              "signal": os.WTERMSIG(status) if signalled else None, "maxrss_kb": usage.ru_maxrss}
    if why:
        result[why] = True
    return result


def _reap(pid, wait):
    """(status, usage) of the program once it has ended; orphans that ended meanwhile are reaped by the way."""
    while True:
        ended, status, usage = os.wait4(pid if wait else -1, 0 if wait else os.WNOHANG)
        if ended == pid:
            return status, usage
        if ended == 0:
            return None, None


def _signal(pid, number):
    try:
        os.kill(pid, number)
    except OSError:
        pass


def processes():
    """{pid: (parent, resident pages)} of every process that /proc shows."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name, "rb") as handle:
                    fields = handle.read().rpartition(b")")[2].split()
                found[int(name)] = (int(fields[1]), int(fields[21]))
            except (OSError, IndexError, ValueError):
                continue
    return found


def descendants(root, spare=()):
    """{pid: resident pages} of all that `root` started and that is alive, without the trees of `spare`."""
    table = processes()
    children = {}
    for pid, (parent, _) in table.items():
        children.setdefault(parent, []).append(pid)
    found, todo = {}, [root]
    while todo:
        for pid in children.get(todo.pop(), ()):
            if pid not in spare and pid not in found:
                found[pid] = table[pid][1]
                todo.append(pid)
    return found


def end_tree():
    """Kills and reaps every descendant of this process, until the kernel says that it has no child."""
    while _reap_all():
        for pid in descendants(os.getpid()):
            _signal(pid, signal.SIGKILL)
        time.sleep(0.001)


def end_orphans(spare, limit):
    """Kills and reaps every descendant of this process but the trees of `spare`, for at most `limit` seconds."""
    begun = time.monotonic()
    while time.monotonic() - begun < limit:
        alive = descendants(os.getpid(), spare)
        if not alive:
            return
        for pid in alive:
            _signal(pid, signal.SIGKILL)
            try:
                os.waitpid(pid, os.WNOHANG)
            except OSError:
                pass
        time.sleep(0.001)


def _reap_all():
    """Reaps what has ended; False when no child is left at all."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    except ChildProcessError:
        return False


def _too_large(limit):
    """Whether the trial holds more memory than it may.  Shared pages are counted once, by the slower look."""
    alive = descendants(os.getpid())
    page = resource.getpagesize()
    if sum(alive.values()) * page <= limit:
        return False
    total = 0
    for pid in alive:
        try:
            with open("/proc/%d/smaps_rollup" % pid, "rb") as handle:
                for line in handle:
                    if line.startswith(b"Pss:"):
                        total += int(line.split()[1]) << 10
                        break
        except (OSError, ValueError):
            continue
    return total > limit
