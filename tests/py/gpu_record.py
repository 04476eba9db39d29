"""What is recorded of a failing call on a real CUDA device, and whether one-call programs fail there as they should.

`python tests/py/gpu_record.py` from the repository's root, on a machine with a device and an interpreter that has torch;
a forked child a program, about a minute in all.  Prints each difference, then the counts; fails if anything differs.
"""

import glob
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from emulated_programs import SETUP, calls  # noqa: E402
from forked import ROOT, VERSION, run  # noqa: E402
from test_record import EVERYWHERE, HEAD, PLACES, facts  # noqa: E402

STEPS = """
import time
net = nn.Sequential(nn.Embedding(1000, 64), nn.Flatten(), nn.Linear(64 * 8, 64), nn.ReLU(), nn.Linear(64, 10)).to(d)
opt = torch.optim.Adam(net.parameters())
x, y = torch.randint(0, 1000, (32, 8), device=d), torch.randint(0, 10, (32,), device=d)
for step in range(550):
    if step == 50:
        torch.cuda.synchronize(); begun = time.time()
    loss = F.cross_entropy(net(x), y); opt.zero_grad(); loss.backward(); opt.step()
torch.cuda.synchronize()
print("=>", (time.time() - begun) / 500)
"""


class Tally:
    """Counts what agrees and prints what does not."""

    def __init__(self):
        self.good = self.all = 0

    def check(self, holds, what):
        self.all += 1
        self.good += bool(holds)
        if not holds:
            print("differs: %s" % (what,), flush=True)


def places(tally):
    """The call is named with its value in backward, under autocast, in modules, in a loop, in a thread."""
    for place, (program, wanted) in PLACES.items():
        ran = run(HEAD + program, device="witness", DEVICE="cuda", watch=EVERYWHERE, trace=True)
        failure = ran.facts.get("failure")
        found = failure and facts(failure)
        tally.check(found == wanted, (place, found, wanted, ran.err[-300:] if failure is None else ""))


def offences(tally):
    """What is seen before the launch on the device is what the emulated device says after the failure."""
    for line, _, _ in calls(VERSION):
        seeded = "torch = __import__('torch'); torch.manual_seed(0)\n" + SETUP.replace("'cuda')\ni", "'cpu').cuda()\ni") + line
        real = run(seeded, device="witness", watch=EVERYWHERE).facts.get("failure")
        emulated = run(seeded).facts["failure"]
        if real is None:
            tally.check(False, (line, "no failure was noted"))
            continue
        keys = ("kind", "limit", "position", "argument")
        one, other = ([(f["offence"] or {}).get(key) for key in keys] for f in (real, emulated))
        tally.check(real["op"] == emulated["op"], (line, real["op"], emulated["op"]))
        tally.check(one == other or "max_unpool" in line or "offsets" in str(other), (line, one, other))


def programs(tally):
    """One-call programs, run plainly: they print an assertion, and the interpreter says that it failed."""
    texts = {}
    for path in sorted(glob.glob(os.path.join(ROOT, "corpus", "*", "minimal.py"))):
        with open(path) as handle:
            texts[os.path.relpath(path, ROOT)] = handle.read()
    if VERSION >= (2, 8):
        with open(os.path.join(ROOT, "tests", "fixtures", "one-call-programs.txt")) as handle:
            texts.update((line.strip(), "import torch\n" + line) for line in handle)
    for name, text in texts.items():
        for blocking in ("0", "1"):
            ran = run(text, device="plain", env={"CUDA_LAUNCH_BLOCKING": blocking})
            tally.check(ran.status != 0 and ran.assertion and "device-side assert" in str(ran.error),
                        (name, "blocking " + blocking, ran.status, ran.assertion, ran.error, ran.err[-200:]))


def cost():
    """Seconds of a small training step: without a watch, with one on the failing call, with one on every call."""
    for name, watch in (("none", None), ("one call", {"operator": "torch.nn.functional.cross_entropy", "site": None}),
                        ("another call", {"operator": "torch.gather", "site": None}), ("every call", EVERYWHERE)):
        ran = run(HEAD + STEPS, device="witness", DEVICE="cuda", watch=watch)
        print("watch on %-12s %s s a step" % (name, ran.out.split("=> ")[-1].strip() or ran.err[-300:]), flush=True)


def main():
    tally = Tally()
    for part in (places, offences, programs):
        part(tally)
    cost()
    print("%d of %d agree, torch %d.%d" % (tally.good, tally.all, VERSION[0], VERSION[1]))
    return 0 if tally.good == tally.all else 1


if __name__ == "__main__":
    sys.exit(main())
