"""Runs the user's program as Python itself would, in a process that is ready for it, and says how it ended.

Invariant: `sys.argv`, `sys.path`, `__main__`, tracebacks, threads, atexit handlers and the exit status are those of
`python script.py` or `python -m module`.  It must not change what the program does beyond the trial's pins.
"""

import atexit
import builtins
import functools
import importlib
import json
import os
import re
import runpy
import signal
import sys
import tempfile
import threading
import traceback
import types
from importlib.machinery import SourceFileLoader

from . import imports, inventory, landlock, outcome, pins, report, spawned

_kept = []      # objects that must live as long as the process


def run(spec):
    """Runs the program and ends the process; in exec mode by the interpreter's own way out."""
    _prepare(spec)
    tracer = _start_tracer(spec)
    if spec.get("follow"):
        from . import follow
        follow.install(spec)
    _expect_abort(spec, tracer)
    error = None
    try:
        _start(spec)
    except BaseException as raised:
        error = raised
    code = _exit_code(spec, error)
    if tracer is not None:
        tracer.stop()
    _write(spec, error, code, tracer)
    before = repr(report.facts)
    try:
        threading._shutdown()       # waits for the program's own threads, as the interpreter does at its end
    except BaseException:
        traceback.print_exc()
    if isinstance(error, KeyboardInterrupt) or spec["mode"] == "fork":
        atexit._run_exitfuncs()
        _let_device_finish(spec)
        code = code if _flush() else 120
    if repr(report.facts) != before:
        _write(spec, error, code, None)
    if isinstance(error, KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    if spec["mode"] == "fork":
        os._exit(code)              # taking a loaded torch apart costs more than most trials
    sys.exit(code)


# --- before ----------------------------------------------------------------------------------------------------------

def _prepare(spec):
    root = spec["root"]
    workdir = os.getcwd()
    report.configure(root, workdir)
    report.belong(os.getpid(), spec["scratch"])
    report.facts["view"] = spec["view"]
    tempfile.tempdir = None
    if "multiprocessing.process" in sys.modules:
        sys.modules["multiprocessing.process"].ORIGINAL_DIR = workdir
    project = spec["project"].rstrip(os.sep)
    if root.rstrip(os.sep) != project:
        sys.path[:] = [root + path[len(project):] if (path + os.sep).startswith(project + os.sep) else path
                       for path in sys.path]
    program = spec["program"]
    sys.argv[:] = [program["target"] if program["kind"] == "script" else "-m"] + list(program["argv"])
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = [sys.executable] + (["-m"] if program["kind"] == "module" else []) \
            + [program["target"]] + list(program["argv"])
    first = workdir if program["kind"] == "module" else _script_folder(program["target"])
    if not getattr(sys.flags, "safe_path", False) and not sys.flags.isolated:
        sys.path.insert(0, first)
    imports.install(spec)
    if spec.get("guarded"):
        landlock.guard(spec["guarded"])
    if spec["inventory"]:
        inventory.listen()
    pins.install(spec)
    if spec.get("hook"):
        name, told = spec["hook"]
        importlib.import_module("_reduce." + name).install(spec, told, report)
    watch_for_torch(spec)
    spawned.install(spec)
    _kept.append(sys.modules["__main__"])
    sys.modules["__main__"] = _main_module()


def _script_folder(target):
    return os.path.realpath(target) if os.path.isdir(target) else os.path.dirname(os.path.realpath(target))


def _main_module():
    main = types.ModuleType("__main__")
    main.__builtins__ = builtins
    main.__annotations__ = {}
    return main


def watch_for_torch(spec):
    """Has the device, seeds and the witness put in place as soon as torch is there."""
    imports.when_loaded("torch", lambda torch: _torch_loaded(spec, torch))


def _torch_loaded(spec, torch):
    """What can only be done once torch is there: the emulated device, seeds, the witness."""
    if not hasattr(torch, "manual_seed"):
        return      # a module of the project that is only called so
    if spec["device"] == "emulated":
        _install("emulated", spec, catalog(spec["catalog"]))
    pins.torch_loaded(spec, torch)
    if spec["witness"]:
        _install("witness", spec)


def _install(name, spec, *arguments):
    try:
        module = importlib.import_module("_reduce." + name)
    except ModuleNotFoundError as error:
        if error.name != "_reduce." + name:
            raise
        report.note("harness", text="no " + name)
        return
    module.install(spec, *(arguments + (report,)))


@functools.lru_cache(maxsize=1)
def catalog(path):
    """The catalogue of asserts that the emulated device may ask; read once a server.  None where there is none."""
    if not path or not os.path.exists(path):
        return None
    with open(path, "rb") as handle:
        return json.load(handle)


def _start_tracer(spec):
    if not spec["trace"]:
        return None
    from . import tracer
    started = tracer.Tracer()
    started.start()
    return started


# --- the program -----------------------------------------------------------------------------------------------------

def _start(spec):
    program = spec["program"]
    target = program["target"]
    if program["kind"] == "module":
        runpy._run_module_as_main(target)
        return
    if os.path.isdir(target) or _is_archive(target):
        if sys.path and sys.path[0] != target:
            sys.path[0] = target
        runpy._run_module_as_main("__main__", False)
        return
    filename = target if sys.version_info < (3, 9) else os.path.join(os.getcwd(), target)
    try:
        with open(target, "rb") as handle:
            text = handle.read()
    except OSError as error:
        sys.stderr.write("%s: can't open file %r: [Errno %s] %s\n" % (sys.executable, filename, error.errno,
                                                                     error.strerror))
        raise SystemExit(2)
    _refuse_other_bytes(text, filename)
    namespace = sys.modules["__main__"].__dict__
    namespace["__loader__"] = SourceFileLoader("__main__", filename)
    namespace["__file__"] = filename
    namespace["__cached__"] = None
    if spec.get("follow"):
        from . import follow
        text = follow.marked(text, filename)
    exec(compile(text, filename, "exec", dont_inherit=True), namespace)


def _refuse_other_bytes(text, filename):
    """Python reads a script more strictly than `compile` does: without a declared encoding it must be UTF-8."""
    try:
        text.decode("utf-8")
        return
    except UnicodeDecodeError as error:
        bad = error.start
    if any(re.match(rb"[ \t\f]*#.*?coding[:=][ \t]*[-\w.]+", line) for line in text.split(b"\n")[:2]):
        return
    line = text.count(b"\n", 0, bad) + 1
    page = "https://peps.python.org" if sys.version_info >= (3, 11) else "https://python.org/dev/peps"
    if sys.version_info < (3, 9):
        page = "http://python.org/dev/peps"
    shown = line + 1 if sys.version_info[:2] == (3, 10) else line       # 3.10 counts one too many
    message = ("Non-UTF-8 code starting with '\\x%.2x' in file %s on line %d, but no encoding declared; see "
               "%s/pep-0263/ for details" % (text[bad], filename, shown, page))
    raise SyntaxError(message, (filename, line, None, None)) if sys.version_info < (3, 9) else SyntaxError(message)


def _is_archive(path):
    try:
        with open(path, "rb") as handle:
            return handle.read(4) == b"PK\x03\x04"
    except OSError:
        return False


# --- after -----------------------------------------------------------------------------------------------------------

def _exit_code(spec, error):
    """The exit status that Python gives; prints what Python prints."""
    if error is None:
        return 0
    outcome.strip(error)
    if isinstance(error, SystemExit):
        return _system_exit(error)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except SystemExit as leaving:
        return _system_exit(leaving)
    except BaseException as second:
        outcome.strip(second)
        sys.stderr.write("Error in sys.excepthook:\n")
        sys.__excepthook__(type(second), second, second.__traceback__)
        sys.stderr.write("\nOriginal exception was:\n")
        sys.__excepthook__(type(error), error, error.__traceback__)
    return 1


def _system_exit(error):
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    _flush()
    try:
        print(code, file=sys.stderr)
    except BaseException:
        pass
    return 1


def _write(spec, error, code, tracer):
    """outcome.json and, of a traced run, trace.json."""
    facts = {"end": "clean" if error is None else "exit" if isinstance(error, SystemExit) else "exception",
             "exit_code": code, "exception": None, "failure": None, "not_emulated": None}
    try:
        if facts["end"] == "exception":
            facts["exception"] = outcome.describe(error)
        if "_reduce.witness" in sys.modules:
            report.collect("failure", "not_emulated")
            sys.modules["_reduce.witness"].finish(report, error)
        if spec["inventory"]:
            facts.update(inventory.collect(spec))
        facts.update(report.facts)
        if tracer is not None:
            outcome.write(os.path.join(spec["scratch"], "trace.json"), tracer.result(_failing(facts)))
    except Exception as failed:
        report.note("harness", text="%s: %s" % (type(failed).__name__, failed))
        facts["notes"] = report.facts["notes"]
    outcome.write(os.path.join(spec["scratch"], "outcome.json"), facts)


def _failing(facts):
    """File and line of the failing call, where the witness saw it."""
    frames = (facts["failure"] or {}).get("frames")
    return (frames[-1]["file"], frames[-1]["line"]) if frames else None


def _expect_abort(spec, tracer):
    """On a real device a destructor may end the process after the failure: what is known is written at once."""
    def early(error):
        try:
            _write(spec, error, None, tracer)
        except Exception:
            pass    # the end of the program writes it again

    if spec["device"] == "cuda":
        report.early = early


def _let_device_finish(spec):
    """A process that ends by itself lets its last launches finish, and print; a quick exit must wait for them."""
    torch = sys.modules.get("torch")
    if spec["device"] != "cuda" or torch is None:
        return
    try:
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
    except BaseException:
        pass    # the assert line is on standard error by now, which is all that a fresh process would show


def _flush():
    fine = True
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except BaseException:
            fine = fine and stream is sys.stderr
    return fine
