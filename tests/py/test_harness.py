"""The fork server by its protocol: what a program may do, what it cannot do, and what is said about it.

Run with any Python from 3.8 on: `python -m unittest discover -s tests/py`.  Tests of torch run where torch is found.
"""

import importlib.util
import os
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from drive import Project, Server  # noqa: E402

HAS_TORCH = importlib.util.find_spec("torch") is not None
MODES = ("fork", "exec")


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as handle:
            return handle.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class Case(unittest.TestCase):
    files = {}
    hello = {}

    def setUp(self):
        self.project = Project(dict(self.files))
        self.server = None

    def start(self, **more):
        self.server = Server(self.project, **dict(self.hello, **more))
        return self.server

    def tearDown(self):
        if self.server is not None:
            self.assertEqual(self.server.close(), 0)
        self.project.remove()

    def run_text(self, text, **spec):
        """One trial of a program of a single file."""
        if self.server is None:
            self.project.write("train.py", text)
            self.start()
            return self.server.trial(**spec)
        return self.server.trial(files={"train.py": text}, **spec)


class AsPythonDoes(Case):
    """Output, status and traceback are those of `python train.py`."""

    def check(self, text, argv=(), env=None, target="train.py", kind="script", rewrite=None):
        self.project.write("train.py", text) if text is not None else None
        command = [sys.executable] + (["-m"] if kind == "module" else []) + [target] + list(argv)
        with open(os.devnull) as null:
            real = subprocess.run(command, cwd=self.project.root, stdin=null, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, env=dict(os.environ, PYTHONHASHSEED="0",
                                                                   PYTHONDONTWRITEBYTECODE="1"))
        if self.server is None:
            self.start(preload=["queue", "logging", "multiprocessing", "concurrent.futures"])
        for mode in MODES:
            with self.subTest(mode=mode):
                got = self.server.trial(target=target, argv=argv, kind=kind, mode=mode, seed=None)
                status = got["exit"] if got["signal"] is None else -got["signal"]
                self.assertEqual(got["stderr"], real.stderr.decode("utf-8", "replace"))
                self.assertEqual(got["stdout"], real.stdout.decode("utf-8", "replace"))
                self.assertEqual(status, real.returncode)
        return got

    def test_globals_arguments_and_path(self):
        self.check("import sys, os\nprint(sorted((k, type(v).__name__) for k, v in globals().items()))\n"
                   "print(sys.argv, __file__, __name__, sys.path, os.getcwd(), __spec__, __package__)\n"
                   "print(getattr(sys, 'orig_argv', [])[1:], sys.stdin.read(), sys.flags.optimize)\n", ["--lr", "0.1"])

    def test_a_script_in_a_folder(self):
        self.project.write("scripts/helper.py", "print(__file__, __name__)\n")
        self.project.write("scripts/go.py", "import helper, sys\nprint(sys.path[0], __file__)\nhelper.nope\n")
        self.check(None, target="./scripts/go.py")

    def test_nested_tracebacks_and_chains(self):
        self.check("def f(n):\n    if n:\n        return f(n - 1)\n    raise KeyError('lost')\n"
                   "try:\n    f(3)\nexcept KeyError as e:\n    raise RuntimeError('wrapped') from e\n")

    def test_exceptions_that_import_raises(self):
        self.project.write("broken.py", "x = 1\nif x\n    y = 2\n")
        self.check("import broken\n")
        self.project.write("worse.py", "import os\nos.nothing\n")
        self.check("def load():\n    import worse\nload()\n")
        self.check("import no_such_module.at_all\n")

    def test_exit_statuses(self):
        for text in ("import sys; sys.exit()", "import sys; sys.exit(3)", "import sys; sys.exit('bad luck')",
                     "import sys; sys.exit(256)", "import sys; sys.exit(-1)", "raise SystemExit(True)",
                     "import os; os._exit(7)", "import os; os.abort()", "raise KeyboardInterrupt",
                     "import os, signal; os.kill(os.getpid(), signal.SIGTERM)", "exit(4)"):
            with self.subTest(text=text):
                self.check(text + "\n")

    def test_syntax_error_and_encodings(self):
        self.check("def f(:\n    pass\n")
        self.check("x = 1\n\ty = 2\n")
        self.check(b"# caf\xe9\nprint('x')\n")
        self.check(b"# -*- coding: latin-1 -*-\nprint(ascii('caf\xe9'))\nraise ValueError('caf\xe9')\n")
        self.check(b"\xef\xbb\xbfprint('bom')\r\nif True:\r\n\tprint('tab'); raise ValueError\r\n")
        self.check("from __future__ import annotations\ndef f(x: Nope): pass\nprint(f.__annotations__)\n")

    def test_a_missing_script(self):
        self.check(None, target="nowhere.py")

    def test_modules_and_relative_imports(self):
        self.project.write("pkg/__init__.py", "print('init', __name__, __path__)\n")
        self.project.write("pkg/util.py", "def go():\n    raise ValueError('deep')\n")
        self.project.write("pkg/main.py", "import sys\nfrom .util import go\nfrom . import util\n"
                           "print(sys.argv, sys.path[0], __spec__.name, __package__)\n"
                           "if __name__ == '__main__':\n    go()\n")
        self.project.write("pkg/__main__.py", "print(__name__, __package__)\n")
        self.check(None, target="pkg.main", kind="module", argv=["-x"])
        self.check(None, target="pkg", kind="module")
        self.check(None, target="pkg")
        self.check(None, target="pkg.absent", kind="module")

    def test_exec_and_inspect(self):
        self.check("import inspect\ndef f():\n    return 1\nprint(inspect.getsource(f))\n"
                   "exec(compile('def g():\\n    raise ValueError(5)\\n', '<made>', 'exec'))\ng()\n")

    def test_a_project_module_hides_a_library(self):
        self.project.write("queue.py", "name = 'mine'\n")
        self.project.write("logging/__init__.py", "name = 'my logging'\n")
        self.check("import queue, logging\nprint(queue.name, logging.name)\n")

    def test_threads_atexit_and_finalizers_run(self):
        self.check("import atexit, threading, time\natexit.register(print, 'bye')\n"
                   "def work():\n    time.sleep(0.2)\n    print('thread')\n"
                   "threading.Thread(target=work).start()\nprint('main')\nraise ValueError(1)\n")
        self.check("import concurrent.futures as c\np = c.ThreadPoolExecutor(2)\n"
                   "print(p.submit(lambda: 4).result())\n")

    def test_a_hook_for_exceptions(self):
        self.check("import sys\nsys.excepthook = lambda t, v, tb: print('hook', t, tb.tb_lineno, tb.tb_frame.f_code.co_name)\n"
                   "def f():\n    1 / 0\nf()\n")
        self.check("import sys\ndef hook(*a):\n    raise TypeError('in hook')\nsys.excepthook = hook\n1 / 0\n")

    def test_multiprocessing_in_both_ways(self):
        self.check("import multiprocessing as m, os\ndef f(x):\n    return x * x\n"
                   "if __name__ == '__main__':\n    for way in ('fork', 'spawn'):\n"
                   "        with m.get_context(way).Pool(2) as p:\n            print(p.map(f, range(5)))\n")

    def test_changing_the_folder(self):
        self.project.write("sub/later.py", "def f():\n    raise ValueError('after chdir')\n")
        self.check("import os\nos.chdir('sub')\nimport sub.later\nsub.later.f()\n")


class Outcomes(Case):
    def test_frames_and_ends(self):
        self.project.write("lib/core.py", "def inner():\n    raise ValueError('no')\n")
        got = self.run_text("from lib.core import inner\ndef main():\n    list(map(lambda _: inner(), [1]))\nmain()\n")
        error = got["outcome"]["exception"]
        self.assertEqual(got["outcome"]["end"], "exception")
        self.assertEqual([(f["file"], f["line"], f["func"]) for f in error["frames"]],
                         [("train.py", 4, "<module>"), ("train.py", 3, "main"), ("train.py", 3, "<lambda>"),
                          ("lib/core.py", 2, "inner")])
        self.assertEqual(self.run_text("pass")["outcome"]["end"], "clean")
        got = self.run_text("raise SystemExit(9)")
        self.assertEqual((got["outcome"]["end"], got["outcome"]["exit_code"], got["exit"]), ("exit", 9, 9))
        self.assertIsNone(self.run_text("import os; os._exit(5)")["outcome"])

    def test_what_was_missing(self):
        self.project.write("other.py", "class Config:\n    pass\n")
        for text, expected in (
                ("print(foo)", ("name", "foo", None)),
                ("def f():\n    print(x)\n    x = 1\nf()", ("unbound", "x", None)),
                ("def f():\n    def g():\n        return y\n    g()\n    y = 1\nf()", ("unbound", "y", None)),
                ("import other\nother.Config().lr", ("attribute", "lr", "Config")),
                ("import other\nother.Config.lr", ("attribute", "lr", "Config")),
                ("import other\nother.missing", ("attribute", "missing", "other")),
                ("from other import gone", ("attribute", "gone", "other")),
                ("import gone.away", ("module", "gone", None)),
                ("{}['lr']", ("key", "lr", None)), ("{}[3]", ("key", "3", None)),
                ("None.shape", ("attribute", "shape", "NoneType"))):
            with self.subTest(text=text):
                missing = self.run_text(text)["outcome"]["exception"]["missing"]
                self.assertEqual((missing["kind"], missing["name"], missing["on"]), expected)
        self.assertIsNone(self.run_text("1 / 0")["outcome"]["exception"]["missing"])

    def test_syntax_errors_are_placed(self):
        got = self.run_text("x = (\n")["outcome"]["exception"]
        self.assertEqual((got["syntax"]["file"], got["frames"]), ("train.py", []))
        got = self.run_text("class Odd(Exception):\n    def __str__(self):\n        raise RuntimeError\nraise Odd")
        self.assertEqual(got["outcome"]["exception"]["type"], "__main__.Odd")

    def test_changed_and_removed_files(self):
        self.project.write("helper.py", "value = 'original'\n")
        self.project.write("gone.txt", "x")
        self.project.write("train.py", "import os, helper\nprint(helper.value, os.path.exists('gone.txt'))\n")
        server = self.start()
        subprocess.check_call([sys.executable, "-c", "import helper"], cwd=self.project.root)   # leaves byte code
        stamp = os.stat(os.path.join(self.project.root, "helper.py"))
        for mode in MODES:
            number, _ = server.begin(mode=mode, files={"helper.py": "value = 'replaced'\n"}, removed=["gone.txt"])
            self.assertEqual(server.wait(number)["stdout"], "replaced False\n")
        self.assertEqual(server.trial()["stdout"], "original True\n")
        self.assertEqual(os.stat(os.path.join(self.project.root, "helper.py")).st_mtime_ns, stamp.st_mtime_ns)

    def test_trace_and_inventory(self):
        self.project.write("lib.py", "def twice(x):\n    y = x * 2\n    return y\n\ndef unused():\n    return 0\n")
        self.project.write("labels.csv", "1,2\n")
        elsewhere = os.path.join(self.project.outside, "data.bin")
        with open(elsewhere, "w") as handle:
            handle.write("x")
        self.project.write("train.py", "import lib, os, threading\nfor i in range(3):\n    lib.twice(i)\n"
                           "open('labels.csv').read()\nopen(%r).read()\nopen('log.txt', 'w').close()\n"
                           "t = threading.Thread(target=lib.twice, args=(1,))\nt.start(); t.join()\n"
                           "os.system('cat seen.txt')\nraise ValueError\n" % elsewhere)
        self.project.write("seen.txt", "by another process\n")
        server = self.start()
        for mode in MODES:
            got = server.trial(mode=mode, trace=True, inventory=True)
            lines = {line: count for line, _, count in got["trace"]["executed"]["lib.py"]}
            self.assertEqual(lines, {1: 1, 2: 4, 3: 4, 5: 1})
            order = [line for line, _, _ in sorted(got["trace"]["executed"]["train.py"], key=lambda entry: entry[1])]
            self.assertEqual(order, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
            self.assertIn(["train.py", 3, "lib.py", 1, 3], got["trace"]["calls"])
            self.assertIn(["train.py", 1, "lib.py", 1, 1], got["trace"]["calls"])
            outcome = got["outcome"]
            self.assertEqual(outcome["imported"], ["lib.py", "train.py"])
            opened = {(entry["path"], entry["mode"], entry["project"]) for entry in outcome["opened"]}
            self.assertTrue({("labels.csv", "r", True), (elsewhere, "r", False), ("seen.txt", "r", True),
                             ("log.txt", "w", True)} <= opened, opened)
            self.assertFalse([entry for entry in opened if "harness" in entry[0]])
            self.assertIn("threading", outcome["modules"])

    def test_seeds(self):
        text = "import random\nr = random.Random()\nprint(random.random(), r.random())\n"
        first, second = self.run_text(text), self.run_text(text, mode="exec")
        self.assertEqual(first["stdout"], second["stdout"])
        self.assertEqual(first["outcome"]["notes"], [{"file": "train.py", "line": 2, "kind": "unseeded_generator"}])
        free = {self.run_text(text, seed=None)["stdout"] for _ in range(3)}
        self.assertEqual(len(free), 3)

    def test_preload_keeps_away_from_the_project(self):
        self.project.write("local_part.py", "raise SystemExit('must not run')\n")
        self.project.write("train.py", "import local_part\n")
        server = self.start(preload=["json", "local_part", "no_such_module"])
        self.assertEqual([entry.split(":")[0] for entry in server.ready["preload_failed"]], ["local_part", "no_such_module"])
        self.assertEqual(server.trial()["exit"], 1)


class Bisected(Case):
    """What a bisection changes inside of the program."""

    def test_a_variable_is_taken_away_and_another_interpreter_is_started(self):
        text = "import os, sys\nprint('HOME' in os.environ, os.environ.get('MORE'), sys.executable)\n"
        self.assertEqual(self.run_text(text, env={"HOME": None, "MORE": "1"})["stdout"],
                         "False 1 %s\n" % sys.executable)
        other = os.path.join(self.project.outside, "python")
        os.symlink(os.path.realpath(sys.executable), other)
        self.assertEqual(self.run_text(text, mode="exec", python=other)["stdout"], "True None %s\n" % other)

    def test_a_later_step_starts_with_the_random_state_of_the_whole_run(self):
        self.project.write("loop.py", "import random\ndef run(optimizer):\n    for step in range(5):\n"
                           "        optimizer.step()\n        print(step, random.random())\n    raise ValueError\n")
        self.project.write("train.py", "import loop\nclass Optimizer:\n    def step(self):\n        pass\n"
                           "loop.run(Optimizer())\n")
        frames = [["train.py", 5], ["loop.py", 5]]
        self.start(write=[self.project.outside])
        states = os.path.join(self.project.outside, "states")
        whole = self.server.trial(hook=["steps", {"frames": frames, "save": states}])
        steps = whole["outcome"]["steps"]
        self.assertEqual((steps["file"], steps["line"], steps["step"]), ("loop.py", 3, 4), whole["stderr"])
        for mode in MODES:
            with self.subTest(mode=mode):
                late = self.server.trial(mode=mode, hook=["steps", {"frames": frames, "first": 3, "restore": states}])
                self.assertEqual(late["stdout"].splitlines(), whole["stdout"].splitlines()[3:])


class Walls(Case):
    """What the program does stays in its own view."""

    def check_walls(self, mode):
        self.project.write("data/rows.csv", "1\n2\n")
        secret = os.path.join(self.project.outside, "precious.txt")
        with open(secret, "w") as handle:
            handle.write("precious")
        self.project.write("train.py", """
import os, shutil, sys
out = %r
def tried(what):
    try:
        what()
    except OSError as e:
        return type(e).__name__
    return 'DONE'
f = out + '/precious.txt'
for act in (lambda: open(f, 'a'), lambda: open(out + '/new', 'w'), lambda: os.chmod(f, 0o777),
            lambda: os.utime(f, (1, 1)), lambda: os.chown(f, os.getuid(), os.getgid()), lambda: os.unlink(f),
            lambda: os.rename(f, out + '/moved'), lambda: os.truncate(f, 0), lambda: os.mkdir(out + '/d'),
            lambda: os.rename(f, os.environ['TMPDIR'] + '/stolen'), lambda: os.symlink(f, out + '/link')):
    result = tried(act)
    if result == 'DONE':
        print('BREACH', act.__code__.co_firstlineno, act.__code__.co_consts)
def linked():
    os.link(f, os.environ['TMPDIR'] + '/hard')
    open(os.environ['TMPDIR'] + '/hard', 'a').write('damage')
if tried(linked) == 'DONE': print('BREACH by hard link')
open(os.environ['TMPDIR'] + '/mine', 'w').write('ok')
open('/dev/null', 'w').write('ok')
open('/dev/shm/mine', 'w').write('ok')
open('runs.log', 'w').write('x')
open('data/rows.csv', 'a').write('more')
os.makedirs('runs/1'); open('runs/1/ckpt', 'w').write('x')
os.rename('data/rows.csv', 'data/other.csv')
os.chmod('train.py', 0o600); os.utime('train.py', (1, 1)); os.unlink('train.py')
os.link('data/other.csv', 'data/third.csv'); open('data/third.csv', 'a').write('x')
shutil.rmtree('data')
print('end')
""" % self.project.outside)
        server = self.server or self.start()
        before = self.project.snapshot()
        got = server.trial(mode=mode)
        self.assertEqual((got["stdout"], got["stderr"]), ("end\n", ""))
        self.assertEqual(self.project.snapshot(), before)
        if server.ready["features"]["mounts"]:
            self.assertFalse(os.path.exists("/dev/shm/mine"))

    def test_writes_are_thrown_away_or_refused(self):
        for mode in MODES:
            with self.subTest(mode=mode):
                self.check_walls(mode)

    def test_the_same_without_mounts(self):
        self.start(env={"REDUCE_HARNESS_WITHOUT": "mounts"})
        self.assertEqual((self.server.ready["features"]["mounts"], self.server.ready["features"]["view"]),
                         (False, "copy"))
        for mode in MODES:
            with self.subTest(mode=mode):
                self.check_walls(mode)
                os.unlink("/dev/shm/mine")

    def test_the_same_with_a_copy_in_place_of_an_overlay(self):
        self.start(env={"REDUCE_HARNESS_WITHOUT": "overlay"})
        self.assertEqual((self.server.ready["features"]["mounts"], self.server.ready["features"]["view"]),
                         (True, "copy"))
        for mode in MODES:
            with self.subTest(mode=mode):
                self.check_walls(mode)

    def test_paths_that_may_be_written(self):
        self.project.write("train.py", "open(%r, 'w').write('kept')\n" % (self.project.outside + "/allowed/log"))
        os.makedirs(self.project.outside + "/allowed")
        self.start(write=[self.project.outside + "/allowed"])
        self.assertEqual(self.server.trial()["stderr"], "")
        with open(self.project.outside + "/allowed/log") as handle:
            self.assertEqual(handle.read(), "kept")

    def test_network_is_refused_and_loopback_works(self):
        got = self.run_text("""
import socket, threading
s = socket.socket(); s.bind(('127.0.0.1', 29500)); s.listen(1)
threading.Thread(target=lambda: s.accept()[0].sendall(b'hi')).start()
c = socket.create_connection(('127.0.0.1', 29500), 5); print(c.recv(2))
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try:
    u.sendto(b'x', ('192.0.2.1', 9)); print('OUT')
except OSError as e:
    print('refused')
""")
        self.assertEqual(got["stdout"], "b'hi'\nrefused\n")

    def test_caches_can_be_read_and_locked(self):
        cache = os.path.join(self.project.outside, "cache")
        os.makedirs(cache)
        with open(cache + "/model.bin", "w") as handle:
            handle.write("weights")
        self.project.write("train.py", "import os\nc = os.environ['HF_HOME']\nopen(c + '/x.lock', 'w').close()\n"
                           "print(open(c + '/model.bin').read(), os.environ['HF_HUB_OFFLINE'])\n")
        self.start(env={"HF_HOME": cache})
        before = self.project.snapshot()
        self.assertEqual(self.server.trial()["stdout"], "weights 1\n")
        self.assertEqual(self.project.snapshot(), before)

    def test_compiled_kernels_may_be_kept_for_the_length_of_a_trial(self):
        cache = os.path.join(self.project.outside, "kernels")
        os.makedirs(cache)
        self.project.write("train.py", "import os\nfor name in ('CUPY_CACHE_DIR', 'TRITON_CACHE_DIR'):\n"
                           "    os.makedirs(os.environ[name] + '/made')\nprint('kept')\n")
        self.start(env={"CUPY_CACHE_DIR": cache})
        before = self.project.snapshot()
        self.assertEqual(self.server.trial()["stdout"], "kept\n")
        self.assertEqual(self.project.snapshot(), before)

    def test_no_sandbox_still_protects_the_project(self):
        self.project.write("train.py", "open('log', 'w').write('x')\nopen(%r, 'w').write('x')\n"
                           % (self.project.outside + "/free"))
        self.start(sandbox=False)
        self.assertEqual(self.server.trial()["stderr"], "")
        self.assertTrue(os.path.exists(self.project.outside + "/free"))
        self.assertFalse(os.path.exists(self.project.root + "/log"))

    def test_the_program_cannot_signal_the_server(self):
        got = self.run_text("import os, signal\ntry:\n    os.kill(os.getppid(), signal.SIGKILL)\n    print('killed')\n"
                            "except PermissionError:\n    print('refused')\n")
        if self.server.ready["features"]["landlock"] >= 6:
            self.assertEqual(got["stdout"], "refused\n")
        self.assertEqual(self.run_text("print(1)")["stdout"], "1\n")

    def test_a_scratch_folder_inside_the_project(self):
        self.project.write("train.py", "import os\nopen(os.environ['TMPDIR'] + '/x', 'w').write('1')\nprint('ok')\n")
        server = self.start()
        scratch = os.path.join(self.project.root, "out", "scratch")
        os.makedirs(scratch)
        number, _ = server.begin()
        server.wait(number)
        number, _ = server.begin(scratch=scratch)
        server.scratches[number] = scratch
        self.assertEqual(server.wait(number)["stdout"], "ok\n")


class Ends(Case):
    """However a trial ends, nothing of it is left."""

    STUBBORN = """
import os, signal, subprocess, sys, time
def stubborn(depth):
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if depth:
            stubborn(depth - 1)
        print(os.getpid(), flush=True)
        time.sleep(1000)
        os._exit(0)
stubborn(3)
subprocess.Popen(['sleep', '1000'], start_new_session=True)
time.sleep(0.3)
"""

    def pids(self, number):
        with open(os.path.join(self.server.scratches[number], "stdout")) as handle:
            return [int(word) for word in handle.read().split()]

    def test_descendants_die_with_the_program(self):
        for mode in MODES:
            with self.subTest(mode=mode):
                got = self.run_text(self.STUBBORN + "raise ValueError\n", mode=mode)
                pids = [int(word) for word in got["stdout"].split()]
                self.assertEqual((len(pids), got["exit"]), (4, 1))
                self.assertEqual([pid for pid in pids if alive(pid)], [])

    def test_kill_ends_the_whole_tree_at_once(self):
        self.project.write("train.py", self.STUBBORN + "time.sleep(1000)\n")
        server = self.start()
        number, pid = server.begin()
        while len(self.pids(number)) < 4:
            time.sleep(0.01)
        pids = self.pids(number) + [pid]
        begun = time.monotonic()
        server.say({"kill": number})
        got = server.wait(number)
        self.assertLess(time.monotonic() - begun, 5)
        self.assertEqual((got["signal"], got["exit"], got["killed"], got["outcome"]), (9, None, True, None))
        self.assertEqual([one for one in pids if alive(one)], [])

    def test_a_lost_supervisor_or_server_leaves_nobody(self):
        self.project.write("train.py", self.STUBBORN + "time.sleep(1000)\n")
        server = self.start()
        number, pid = server.begin()
        while len(self.pids(number)) < 4:
            time.sleep(0.01)
        pids = self.pids(number) + [pid]
        with open("/proc/%d/stat" % pid) as handle:
            os.kill(int(handle.read().rpartition(")")[2].split()[1]), signal.SIGKILL)
        got = server.wait(number)
        self.assertIn("error", got)
        self.assertEqual([one for one in pids if alive(one)], [])
        number, pid = server.begin()
        while len(self.pids(number)) < 4:
            time.sleep(0.01)
        pids = self.pids(number) + [pid]
        server.process.kill()
        server.process.wait()
        deadline = time.monotonic() + 10
        while any(alive(one) for one in pids) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual([one for one in pids if alive(one)], [])
        server.watchdog.cancel()
        self.server = None

    def test_end_of_input_ends_the_trials(self):
        self.project.write("train.py", "import time\ntime.sleep(1000)\n")
        server = self.start()
        _, pid = server.begin()
        server.process.stdin.close()
        self.assertEqual(server.process.wait(20), 0)
        self.assertFalse(alive(pid))

    def test_several_at_once_do_not_meet(self):
        self.project.write("train.py", "import sys, time, socket\ns = socket.socket()\ns.bind(('127.0.0.1', 29500))\n"
                           "open('log', 'w').write(sys.argv[1])\ntime.sleep(0.3)\nprint(open('log').read())\n")
        server = self.start()
        for index in range(1, 4):
            server.order(index, argv=[str(index)])
        ends = {}
        while len(ends) < 3:
            message = server.read()
            if "seconds" in message:
                ends[message["trial"]] = message
        self.assertEqual([server.collect(ends[index])["stdout"] for index in (1, 2, 3)], ["1\n", "2\n", "3\n"])

    def test_a_gigabyte_of_output_is_cut(self):
        self.project.write("train.py", "import sys\nwhile True:\n    sys.stdout.write('x' * 1000000)\n")
        got = self.start().trial(max_output=5000000)
        self.assertEqual((got["signal"], got["output_limit"], len(got["stdout"])), (9, True, 5000000))

    def test_memory_is_limited(self):
        self.project.write("train.py", "import time\nx = []\nwhile True:\n    x.append(bytearray(b'x' * 10000000))\n"
                           "    time.sleep(0.01)\n")
        got = self.start(memory=300000000).trial()
        self.assertEqual((got["signal"], got["memory_limit"]), (9, True))

    def test_a_bad_working_folder_is_an_error_of_the_trial(self):
        server = self.start()
        number, _ = server.begin(workdir="nowhere")
        self.assertIn("FileNotFoundError", server.wait(number)["error"])


@unittest.skipUnless(HAS_TORCH, "this interpreter has no torch; the runs with torch are made by the one that has")
class WithTorch(Case):
    hello = {"preload": ["torch", "numpy", "torch.utils.data"]}

    def test_fork_and_exec_agree(self):
        self.project.write("train.py", """
import torch, numpy as np, random
from torch.utils.data import DataLoader, TensorDataset
rng = np.random.default_rng()
print(torch.rand(1).item(), np.random.rand(), random.random(), rng.random())
d = DataLoader(TensorDataset(torch.arange(8)), batch_size=2, shuffle=True, num_workers=2, persistent_workers=True,
               prefetch_factor=4, timeout=60)
print(d.num_workers, [b[0].tolist() for b in d])
print((torch.rand(300, 300) @ torch.rand(300, 300)).sum().item())
print(torch.cuda.is_initialized())
torch.nn.functional.cross_entropy(torch.rand(2, 3), torch.tensor([1, 5]))
""")
        server = self.start()
        self.assertFalse(server.ready["cuda_initialized"])
        fork, fresh = (server.trial(mode=mode, num_workers=0) for mode in MODES)
        self.assertEqual(fork["stdout"], fresh["stdout"])
        self.assertEqual(fork["stderr"], fresh["stderr"])
        self.assertEqual(fork["outcome"]["exception"], fresh["outcome"]["exception"])
        self.assertEqual(fork["outcome"]["exception"]["type"], "IndexError")
        self.assertEqual(fork["outcome"]["notes"][0], {"file": "train.py", "line": 4, "kind": "unseeded_generator"})
        free = {server.trial(seed=None, num_workers=0)["stdout"].splitlines()[0] for _ in range(3)}
        self.assertEqual(len(free), 3)

    def test_workers_run_in_the_view(self):
        self.project.write("train.py", """
import torch
from torch.utils.data import DataLoader, Dataset
class D(Dataset):
    def __len__(self): return 6
    def __getitem__(self, i): return torch.tensor(i)
print(sum(b.sum().item() for b in DataLoader(D(), batch_size=2, num_workers=2)))
""")
        self.assertEqual(self.start().trial()["stdout"], "15\n")


if __name__ == "__main__":
    unittest.main()
