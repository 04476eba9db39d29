"""The server's side of the protocol: hello, preload, then trials until the input ends.

Invariant: this process has one thread and forks only from its loop; every trial has a supervisor of its own,
and whatever outlives a lost supervisor is ended here.
"""

import gc
import importlib
import json
import linecache
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
import warnings
import weakref

from . import kernel, report, supervisor, view


class _Trial:
    """A trial in flight, as the server sees it."""

    def __init__(self, spec, pid, channel):
        self.spec = spec
        self.pid = pid
        self.channel = channel
        self.buffer = b""
        self.over = False
        self.error = None


class _NotHere(Exception):
    """No trial can be run on this machine in the way that was asked for."""


class _Server:
    def __init__(self, startup_modules):
        sys.dont_write_bytecode = True
        self.startup_modules = startup_modules
        self.input = os.dup(0)
        self.output = os.dup(1)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(2, 1)
        os.close(null)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.input, selectors.EVENT_READ, None)
        self.trials = {}
        self.leaving = []
        self.pending = b""
        self.hello = None
        self.features = None

    def say(self, message):
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(self.output, data):]

    def lines(self):
        """The complete lines that have come in; None at the end of the input."""
        data = os.read(self.input, 1 << 16)
        if not data:
            return None
        *lines, self.pending = (self.pending + data).split(b"\n")
        return [json.loads(line) for line in lines if line.strip()]

    # --- start -------------------------------------------------------------------------------------------------------

    def start(self, hello):
        begun = time.monotonic()
        for key, value in (("preload", []), ("device", "cpu"), ("network", False), ("write", []), ("sandbox", True),
                           ("catalog", None), ("memory", None)):
            hello.setdefault(key, value)
        self.hello = hello
        if not os.path.isdir(hello["project"]):
            raise _NotHere("there is no folder %s" % hello["project"])
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        kernel.become_subreaper()
        hello["probe"] = view.probe_folder(hello["project"])
        try:
            self.features = view.probe(hello)
        finally:
            view.clean({"scratch": hello["probe"]})
            shutil.rmtree(hello["probe"], ignore_errors=True)
        if hello["sandbox"] and not self.features["mounts"] and not self.features["landlock"]:
            raise _NotHere("the system refuses private mounts (%s) and has no Landlock" % self.features["refused"])
        if self.features["mounts"]:
            view.enter(self.features, hello["project"])
        os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
        if not hello["network"]:
            for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"):
                os.environ.setdefault(name, "1")
            os.environ.setdefault("WANDB_MODE", "offline")
        failed = self.preload(hello["preload"])
        torch = sys.modules.get("torch")
        self.say({"ready": True, "python": sys.version.split()[0], "torch": _torch_version(), "features": self.features,
                  "preload_failed": failed, "preloaded": len(sys.modules), "pid": os.getpid(),
                  "cuda_initialized": bool(torch and torch.cuda.is_initialized()),
                  "seconds": round(time.monotonic() - begun, 6)})

    def preload(self, names):
        """Imports modules by name, with nothing of the project in reach; says which failed."""
        report.configure(self.hello["project"], self.hello["project"])
        folder, path = os.getcwd(), list(sys.path)
        sys.path[:] = [entry for entry in path if entry and report.relative(os.path.join(entry, "x")) is None]
        os.chdir("/")
        failed = []
        for name in names:
            try:
                importlib.import_module(name)
            except BaseException as error:
                failed.append("%s: %s: %s" % (name, type(error).__name__, str(error)[:500]))
        sys.path[:] = path
        os.chdir(folder)
        for name, module in list(sys.modules.items()):
            place = getattr(module, "__file__", None)
            if isinstance(place, str) and os.path.isabs(place) and report.relative(place) is not None:
                del sys.modules[name]
                failed.append("%s: belongs to the project" % name)
        self.warm()
        _quiet_finalizers()
        gc.collect()
        gc.freeze()
        try:
            kernel.gather_pages()
        except (OSError, ValueError, AttributeError):
            pass    # forks are slower, and right
        return failed

    def warm(self):
        """Loads the harness files that every trial needs, so that no child compiles them.

        Their byte code is kept beside them, for exec mode: that folder is ours, and named by its content.
        """
        sys.dont_write_bytecode = False
        for name in ("program", "outcome", "pins", "imports", "inventory", "witness", "watch", "tracer"):
            try:
                importlib.import_module("_reduce." + name)
            except ImportError:
                continue
        from . import program
        program.catalog(self.hello["catalog"])
        if self.hello["device"] == "emulated" and "torch" in sys.modules:
            for name in ("_reduce.emulated", "torch.utils._device"):    # the second is what the first needs later
                try:
                    importlib.import_module(name)
                except ImportError:
                    continue
        sys.dont_write_bytecode = True
        seeding = ("torch.random", "torch.cuda", "torch.cuda.random", "torch.xpu", "torch.xpu.random", "torch.mtia")
        for name, module in list(sys.modules.items()):
            if name in seeding or name.startswith("_reduce."):
                linecache.getlines(module.__file__)     # torch formats the stack of every seeding

    # --- trials ------------------------------------------------------------------------------------------------------

    def fork(self, order):
        """Starts one trial; returns its spec in the process that is to run the program."""
        spec = dict(self.hello, workdir=".", changed=[], removed=[], env={}, mode="fork", seed=None, num_workers=None,
                    launch_blocking=False, witness=False, watch=None, trace=False, inventory=False, follow=None,
                    max_output=supervisor.KEPT_OUTPUT)
        spec.update(order)
        spec["flags"] = subprocess._args_from_interpreter_flags() + ["-B"]
        spec["features"] = self.features
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        ours, theirs = socket.socketpair()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")     # libraries may have threads; none of them is needed in a child
            pid = os.fork()
        if pid:
            theirs.close()
            ours.setblocking(False)
            trial = _Trial(spec, pid, ours)
            self.trials[pid] = trial
            self.selector.register(ours, selectors.EVENT_READ, trial)
            return None
        ours.close()
        os.close(self.input)
        os.close(self.output)
        for trial in self.trials.values():
            trial.channel.close()
        self.selector.close()
        spec["startup_modules"] = self.startup_modules
        return supervisor.supervise(_plain(spec), theirs, self.features)

    def hear(self, trial):
        """Passes a supervisor's messages on; cleans up where it was lost."""
        try:
            data = trial.channel.recv(1 << 16)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if data:
            *lines, trial.buffer = (trial.buffer + data).split(b"\n")
            for line in lines:
                message = json.loads(line)
                trial.over = trial.over or "seconds" in message
                trial.error = message.get("error") or trial.error
                if trial.over and trial.error:
                    message["error"] = trial.error
                if trial.over or "pid" in message:
                    self.say(dict(message, trial=trial.spec["trial"]))
            return
        self.selector.unregister(trial.channel)
        trial.channel.close()
        del self.trials[trial.pid]
        self.leaving.append(trial.pid)
        if not trial.over:
            self.mop_up(trial)

    def mop_up(self, trial):
        """The supervisor was killed: its tree has come to this process, which is a subreaper too."""
        try:
            os.kill(trial.pid, signal.SIGKILL)
        except OSError:
            pass
        supervisor.end_orphans(set(self.trials), limit=10)
        view.clean(trial.spec)
        self.say({"trial": trial.spec["trial"], "exit": None, "signal": 9, "seconds": None, "maxrss_kb": None,
                  "error": "the supervisor was killed"})

    def reap(self):
        still = []
        for pid in self.leaving:
            try:
                if os.waitpid(pid, os.WNOHANG)[0] == 0:
                    still.append(pid)
            except OSError:
                continue
        self.leaving = still

    def kill(self, number):
        """Orders a trial's supervisor to end it; None is all of them."""
        for trial in self.trials.values():
            if not trial.over and number in (None, trial.spec["trial"]):
                try:
                    trial.channel.send(b"k")
                    os.kill(trial.pid, signal.SIGCONT)
                except OSError:
                    pass

    def kill_all(self):
        self.kill(None)
        deadline = time.monotonic() + 5
        while self.trials and time.monotonic() < deadline:
            for key, _ in self.selector.select(0.1):
                if key.data is not None:
                    try:
                        self.hear(key.data)
                    except OSError:
                        pass    # nobody listens any more
        supervisor.end_orphans((), limit=5)

    def loop(self):
        """Serves until the input ends.  Returns a spec in a program's process, None in the server."""
        while True:
            self.reap()
            for key, _ in self.selector.select(0.2 if self.leaving else None):
                if key.data is not None:
                    self.hear(key.data)
                    continue
                orders = self.lines()
                if orders is None:
                    return self.kill_all()
                for order in orders:
                    if order.get("quit"):
                        return self.kill_all()
                    if self.hello is None:
                        self.start(order)
                    elif "kill" in order:
                        self.kill(order["kill"])
                    elif "trial" in order:
                        spec = self.fork(order)
                        if spec is not None:
                            return spec


def _quiet_finalizers():
    """Torch unregisters thousands of operators at exit: nothing that a process about to vanish needs."""
    for info in list(weakref.finalize._registry.values()):
        if (getattr(info.func, "__module__", None) or "").split(".")[0] == "torch":
            info.atexit = False


def _plain(spec):
    return dict(spec, startup_modules=sorted(spec["startup_modules"]))


def _torch_version():
    torch = sys.modules.get("torch")
    if torch is not None:
        return str(getattr(torch, "__version__", "")) or None
    try:
        from importlib import metadata
        return metadata.version("torch")
    except Exception:
        return None


def serve(startup_modules):
    """Runs the server.  Returns in a forked child only with the trial that it is to run."""
    server = _Server(startup_modules)
    try:
        return server.loop()
    except _NotHere as error:
        server.say({"ready": False, "error": str(error)})
        raise SystemExit("fork server: %s" % (error,))
    except (BrokenPipeError, ValueError) as error:
        server.kill_all()
        raise SystemExit("fork server: %s" % (error,))
