"""Every recorded program on the emulated device, with blocking launches and without, against the log of a real GPU.

`python tests/py/test_recorded.py` with the torch of the logs (2.8 or newer).  With REDUCE_TEST_DEVICE=cuda the
programs run on the GPU of this machine instead, and the logs are what is tested.
`python tests/py/test_recorded.py --record FOLDER` writes new logs from the GPU of this machine.
Compared: first assertion (file base name, function, condition), exception type, first line of its message, exit
status, the reported line of the program and the expression in it that Python marks.  The table in docs/emulated-device.md lists what differs.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from forked import ROOT, VERSION, Run, run, torch  # noqa: E402

LOGS = os.environ.get("REDUCE_GPU_LOGS") or os.path.join(ROOT, "tests", "fixtures", "gpu-logs")
DEVICE = "plain" if os.environ.get("REDUCE_TEST_DEVICE") == "cuda" else "emulated"
# The logs do not tell the seed of a program that draws at random: one that puts the bad sample where the log's thread
# and line say that it was.  It holds for the setting without blocking launches; with them no line depends on it.
SEEDS = {"worker": 5}
ASKED = ("status", "assertion", "error", "line")
if sys.version_info[:2] in ((3, 11), (3, 12)):
    ASKED += ("expression",)        # these mark the failing part of a line as Python 3.12 did in the logs


def names():
    return sorted(name[:-3] for name in os.listdir(os.path.join(LOGS, "programs")) if name.endswith(".py"))


def program(name):
    with open(os.path.join(LOGS, "programs", name + ".py")) as handle:
        return handle.read()


def recorded(name, blocking):
    """The log of a program as a run; None where there is none."""
    path = os.path.join(LOGS, "%s.clb%d.log" % (name, blocking))
    if not os.path.exists(path):
        return None
    with open(path) as handle:
        log = handle.read()
    status = int(re.search(r"exit status (-?\d+)", log).group(1))
    return Run(status, "", log.replace("/project/%s.py" % name, "/project/program.py"), {})


def differences(name):
    """What differs, setting by setting: [(blocking, what, recorded, here)]."""
    found = []
    for blocking in (1, 0):
        want = recorded(name, blocking)
        if want is None:
            continue
        got = run(program(name), device=DEVICE, env={"CUDA_LAUNCH_BLOCKING": str(blocking)},
                  seed=SEEDS.get(name))
        found += [(blocking, what, getattr(want, what), getattr(got, what)) for what in ASKED
                  if getattr(want, what) != getattr(got, what)]
    return found


@unittest.skipIf(VERSION < (2, 8), "the logs were recorded with torch 2.11")
class RecordedPrograms(unittest.TestCase):
    LEAST = 0.9

    @classmethod
    def setUpClass(cls):
        cls.names = names()
        cls.different = {name: found for name in cls.names for found in [differences(name)] if found}

    def test_nine_of_ten_programs_fail_where_and_how_the_gpu_failed_in_both_settings(self):
        self.assertGreaterEqual(len(self.names), 50)
        agree = len(self.names) - len(self.different)
        print("\nrecorded programs with blocking launches and without: %d of %d agree" % (agree, len(self.names)))
        for name, found in self.different.items():
            for blocking, what, want, got in found:
                print("  %s, CUDA_LAUNCH_BLOCKING=%d, %s: %s; here %s" % (name, blocking, what, want, got))
        self.assertGreaterEqual(agree / len(self.names), self.LEAST)

    @unittest.skipIf(DEVICE == "plain", "the table is that of the emulated device")
    def test_the_table_in_the_documents_lists_what_differs_and_nothing_else(self):
        with open(os.path.join(ROOT, "docs", "emulated-device.md")) as handle:
            text = handle.read()
        table = text[text.index("| recorded program |"):].split("\n\n")[0]
        rows = set(re.findall(r"^\| `(\w+)` \|", table, re.M))
        self.assertEqual(rows, set(self.different))
        said = re.search(r"(\d+) of (\d+) recorded programs agree", text)
        self.assertEqual(said.groups(), (str(len(self.names) - len(self.different)), str(len(self.names))))


def record(folder):
    """Runs each program as a user would, with each setting, and writes its log."""
    card = "%s, driver %s" % (torch.cuda.get_device_name(0), subprocess.run(
        ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], stdout=subprocess.PIPE,
        universal_newlines=True).stdout.split("\n")[0].strip())
    os.makedirs(folder, exist_ok=True)
    for name in names():
        for blocking in (0, 1):
            with tempfile.TemporaryDirectory() as work:
                path = os.path.join(work, name + ".py")
                with open(path, "w") as handle:
                    handle.write(program(name))
                ran = subprocess.run([sys.executable, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=work,
                                     universal_newlines=True, errors="replace", timeout=600,
                                     env=dict(os.environ, CUDA_LAUNCH_BLOCKING=str(blocking)))
            head = "# python %s.py   CUDA_LAUNCH_BLOCKING=%d   exit status %d   torch %s, %s\n" % (
                name, blocking, ran.returncode, torch.__version__, card)
            log = "%s%s# --- standard output (end)\n\n# --- standard error\n%s" % (head, ran.stdout, ran.stderr)
            log = log.replace(work, "/home/user/project").replace(sys.prefix, "/home/user/.venv")
            with open(os.path.join(folder, "%s.clb%d.log" % (name, blocking)), "w") as handle:
                handle.write(log)
            print(head.strip(), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--record"]:
        sys.exit(record(sys.argv[2]))
    unittest.main()
