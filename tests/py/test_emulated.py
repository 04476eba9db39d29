"""The emulated CUDA device against the plain CPU and against what a real GPU printed.

Run with each torch: `python tests/py/test_emulated.py`.  The process imports torch once and forks a child a case.
"""

import ast
import io
import json
import os
import re
import sys
import tempfile
import textwrap
import traceback
import types
import unittest
import warnings

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
HARNESS = os.path.join(ROOT, "src", "harness")
LOGS = os.environ.get("REDUCE_GPU_LOGS") or os.path.join(ROOT, "tests", "fixtures", "gpu-logs")
sys.path.insert(0, HERE)
from emulated_programs import HEAD, PROGRAMS  # noqa: E402

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

    def __init__(self):
        self.facts = {"notes": []}

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
    report, error = StubReport(), None
    from _reduce import emulated, witness
    if device == "emulated":
        emulated.install({"device": "emulated", "cuda_devices": names.pop("cuda_devices", 1)}, None, report)
    elif device == "witness":
        witness.install({"device": "cuda"}, report)
    elif device == "cpu witness":
        witness.install({"device": "cpu"}, report)
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


class Case(unittest.TestCase):
    """Helpers for cases that are expressions."""

    def value(self, program, **kwargs):
        """Runs a program that ends in `result = ...` and answers the value."""
        ran = run(program + "\nprint('=>', repr(result))\n", **kwargs)
        self.assertEqual(ran.status, 0, ran.err)
        return ast.literal_eval(ran.out.split("=> ", 1)[1])

    def refused(self, program, words, kind=None, **kwargs):
        """Runs a program that must end with an error that holds these words."""
        ran = run(program, **kwargs)
        self.assertNotEqual(ran.status, 0, ran.out)
        self.assertIn(words, ran.err)
        if kind:
            self.assertEqual(ran.error[0], kind)
        return ran


class ProgramsGiveTheValuesOfTheCpu(Case):
    """Forward, backward and step: bit for bit."""


def _same(name):
    def test(self):
        tail = """
import io
if DEVICE == "cuda":
    bad = [i for i, r in enumerate(result) if r.device.type != "cuda"]
    assert not bad, bad
out = io.BytesIO(); torch.save([r.detach().cpu() for r in result], out)
import base64; print("=>", base64.b64encode(out.getvalue()).decode())
"""
        import base64
        got = []
        for device in ("cuda", "cpu"):
            ran = run(HEAD + PROGRAMS[name] + tail, device="emulated" if device == "cuda" else "plain", DEVICE=device)
            self.assertEqual(ran.status, 0, ran.err)
            got.append(torch.load(io.BytesIO(base64.b64decode(ran.out.split("=> ", 1)[1]))))
        self.assertEqual(len(got[0]), len(got[1]))
        for a, b in zip(*got):
            self.assertEqual(a.numpy().tobytes(), b.numpy().tobytes())
    return test


for _name in PROGRAMS:
    setattr(ProgramsGiveTheValuesOfTheCpu, "test_" + re.sub(r"\W+", "_", _name), _same(_name))


class RecordedLogs(Case):
    """Every recorded program, with blocking launches, against the log of an H200 with torch 2.11."""

    LEAST = 0.96        # CUDA graphs and a raw kernel of another library are the misses

    @unittest.skipIf(VERSION < (2, 8), "the logs were recorded with torch 2.11")
    def test_first_assertion_exception_and_line_are_those_of_the_gpu(self):
        folder = os.path.join(LOGS, "programs")
        names = sorted(n[:-3] for n in os.listdir(folder) if n.endswith(".py"))
        self.assertGreaterEqual(len(names), 50)
        different = []
        for name in names:
            with open(os.path.join(LOGS, name + ".clb1.log")) as handle:
                log = handle.read()
            want = Run(int(re.search(r"exit status (-?\d+)", log).group(1)), "",
                       log.replace("/%s.py" % name, "/program.py"), {})
            with open(os.path.join(folder, name + ".py")) as handle:
                got = run(handle.read())
            pairs = [(getattr(r, k) for k in ("status", "assertion", "error", "line")) for r in (want, got)]
            if list(pairs[0]) != list(pairs[1]):
                different.append((name, want.assertion, want.error, got.assertion, got.error))
        agree = len(names) - len(different)
        print("\nrecorded programs with blocking launches: %d of %d agree" % (agree, len(names)))
        for row in different:
            print("  differs: %s" % row[0])
        self.assertGreaterEqual(agree / len(names), self.LEAST, different)
