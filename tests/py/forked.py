"""Runs a program text in a forked child: on the emulated device, on a real one, or as it is; for the tests beside it.

Importing this imports torch once, touches no device and runs no operator, so that a child may start CUDA.
"""

import json
import os
import re
import shutil
import sys
import tempfile
import textwrap
import traceback
import types
import warnings

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
HARNESS = os.path.join(ROOT, "src", "harness")

package = types.ModuleType("_reduce")
package.__path__ = [HARNESS]
sys.modules["_reduce"] = package
import torch.optim  # noqa: E402,F401
import torch.utils.data  # noqa: E402,F401
try:
    import torch._dynamo  # noqa: E402,F401   optimizers import it: once here, not in every child
except ImportError:
    pass

VERSION = tuple(int(p) for p in re.findall(r"\d+", torch.__version__)[:2])
ASSERT = re.compile(r"^(?P<file>\S+?):\d+: (?P<function>.*?): block: .*? Assertion `(?P<condition>.*)` failed\.$", re.M)


class StubReport:
    """What report.py offers, for programs that are one text."""

    early = None

    def __init__(self):
        self.facts = {"notes": []}

    def tell(self, key, value):
        self.facts.setdefault(key, value)

    def note(self, kind, **more):
        self.facts["notes"].append(dict(more, kind=kind))

    def project_frames(self, frame):
        frames = []
        while frame is not None:
            if frame.f_code.co_filename.endswith("/program.py"):
                frames.append({"file": "program.py", "line": frame.f_lineno, "func": frame.f_code.co_name})
            frame = frame.f_back
        return frames[::-1]


class Run:
    """How a forked child ended."""

    def __init__(self, status, out, err, facts):
        self.status, self.out, self.err, self.facts = status, out, err, facts
        found = ASSERT.search(err)
        self.assertion = found and (os.path.basename(found.group("file")), found.group("function"),
                                    found.group("condition"))
        self.lines = [line for line in err.splitlines() if ASSERT.match(line)]
        error = None
        for line in err.splitlines():
            match = re.match(r"^([A-Za-z_][\w.]*(?:Error|Exception|NotEmulated)): (.*)$", line)
            error = (match.group(1), match.group(2)) if match else error
        self.error = error
        lines = re.findall(r'File "[^"]*/program\.py", line (\d+)', err)
        self.line = int(lines[-1]) if lines else None
        marked = re.findall(r'File "[^"]*/program\.py", line \d+.*\n(.*)\n( +)(\^+)$', err, re.M)
        self.expression = marked[-1][0][len(marked[-1][1]):][:len(marked[-1][2])] if marked else None


def run(program, device="emulated", env=None, **names):
    """Runs a program text in a forked child: on the emulated device, or as it is."""
    folder = tempfile.mkdtemp(prefix="reduce-emulated-")
    paths = [os.path.join(folder, n) for n in ("out", "err", "facts.json", "program.py")]
    text = textwrap.dedent(program)
    with open(paths[3], "w") as handle:
        handle.write(text)
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = child(paths, text, device, env or {}, names)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    _, status = os.waitpid(pid, 0)
    read = []
    for path in paths[:3]:
        with open(path, errors="replace") as handle:
            read.append(handle.read())
    shutil.rmtree(folder, ignore_errors=True)
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
    return Run(code, read[0], read[1], json.loads(read[2] or "{}"))


def child(paths, text, device, env, names):
    for fd, path in ((1, paths[0]), (2, paths[1])):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), fd)
    open(paths[2], "w").close()
    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    os.environ.update(env)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    seed = names.pop("seed", None)
    if seed is not None:
        torch.manual_seed(seed)
    report, error = StubReport(), None
    more = {"watch": names.pop("watch", None), "trace": names.pop("trace", False)}
    from _reduce import emulated, witness
    from _reduce import report as places
    places.configure(os.path.dirname(paths[3]), os.path.dirname(paths[3]))
    if device == "emulated":
        emulated.install(dict(more, device="emulated", cuda_devices=names.pop("cuda_devices", 1)), None, report)
    elif device == "witness":
        witness.install(dict(more, device="cuda"), report)
    elif device == "cpu witness":
        witness.install(dict(more, device="cpu"), report)
    main = types.ModuleType("__main__")
    main.__dict__.update(names, __file__=paths[3])
    sys.modules["__main__"] = main
    try:
        exec(compile(text, paths[3], "exec"), main.__dict__)
    except Exception as raised:
        error = raised
        traceback.print_exc()
    witness.finish(report, error)
    with open(paths[2], "w") as handle:
        json.dump(report.facts, handle, default=repr)
    return 1 if error else 0
