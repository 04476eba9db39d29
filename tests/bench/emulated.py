"""What the emulated device costs: against the plain CPU, operator by operator, and a trial of the fork server.

`python tests/bench/emulated.py` with each torch, about a minute.  Prints a table, then whether each limit holds; ends
with status 1 where one does not.  Times are CPU time of one thread, the least of several rounds; plain and emulated
runs take turns.  `--ratios` or `--trials` measures only that.
"""

import json
import os
import sys
import textwrap
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "py"))

from drive import Project, Server  # noqa: E402
from forked import VERSION, run  # noqa: E402

OLD = VERSION < (2, 0)
REAL, TINY = (4.0 if OLD else 1.5), 4.0     # allowed ratio to the plain CPU
TRIAL, RATE = 0.040, 40.0                   # seconds of CPU a trial, trials a second on two cores
ROUNDS = 7

SETUP = """
import time, torch, torch.nn as nn, torch.nn.functional as F
torch.manual_seed(0); torch.set_num_threads(1)
n = SIZE; x = torch.rand(n, n, device=DEVICE); i = torch.randint(n, (n,), device=DEVICE); w = nn.Linear(n, n).to(DEVICE)
img = torch.rand(4, 3, n // 4, n // 4, device=DEVICE); conv = nn.Conv2d(3, 8, 3, padding=1).to(DEVICE)
model = nn.Sequential(nn.Linear(n, n), nn.ReLU(), nn.LayerNorm(n), nn.Dropout(0.1), nn.Linear(n, n)).to(DEVICE)
opt = torch.optim.Adam(model.parameters()); table = nn.Embedding(n, n).to(DEVICE)
def training():
    opt.zero_grad(); loss = F.cross_entropy(model(x), i); loss.backward(); opt.step()
def slicing():
    a, b = x[: n // 2], x[n // 2:]; return a.t().contiguous()[0].view(-1)
"""
CALLS = ("x + 1", "x @ x", "x.softmax(-1)", "x.sum()", "x[i]", "w(x)", "F.cross_entropy(x, i)", "table(i)",
         "conv(img).relu()", "torch.cat([x, x])", "x.sort(-1)", "x.exp().mean(0)", "training()", "slicing()",
         "torch.zeros(n, n, device=DEVICE)")
MEASURE = """
best = {}
for call in CALLS:
    code = compile(call, "program.py", "eval"); f = lambda: eval(code)
    f(); start = time.process_time(); f(); once = max(time.process_time() - start, 1e-6); count = max(1, min(2000, int(0.02 / once)))
    for _ in range(3):
        start = time.process_time()
        for _ in range(count): f()
        best[call] = min(best.get(call, 9), (time.process_time() - start) / count)
import json; print("=>", json.dumps(best))
"""


def measured(size):
    """{call: (plain, emulated)} in seconds."""
    best = {}
    for _ in range(ROUNDS):
        for at, device in enumerate(("plain", "emulated")):
            ran = run(SETUP + MEASURE, device=device, DEVICE="cpu" if device == "plain" else "cuda", SIZE=size,
                      CALLS=CALLS)
            if ran.status:
                raise AssertionError(ran.err)
            for call, seconds in json.loads(ran.out.split("=> ", 1)[1]).items():
                pair = best.setdefault(call, [9.0, 9.0])
                pair[at] = min(pair[at], seconds)
    return best


def ratios():
    """Prints the table; answers the largest ratio of calls over 50 us and of the others."""
    worst = {"real": (0, ""), "tiny": (0, "")}
    print("%-34s %5s %10s %10s %6s" % ("call", "size", "plain us", "emulated", "ratio"))
    for size in (8, 512):
        for call, (plain, emulated) in measured(size).items():
            kind = "real" if plain > 50e-6 and size > 8 else "tiny"
            ratio = emulated / plain
            worst[kind] = max(worst[kind], (ratio, call))
            print("%-34s %5d %10.1f %10.1f %6.2f" % (call, size, plain * 1e6, emulated * 1e6, ratio))
    return worst


FAILS = """
import torch, torch.nn.functional as F
x = torch.randn(8, 5, device=DEVICE)
loss = F.cross_entropy(x, torch.tensor([0, 1, 2, 3, 4, 0, 1, 7], device=DEVICE))
print(loss.item())
"""


def own_time(text):
    """CPU seconds of a program on the plain CPU, in a forked child that has torch; the least of several."""
    timed = "import time\nbegun = time.process_time()\ntry:\n%s\nfinally: print('=>', time.process_time() - begun)" % (
        textwrap.indent(text.replace("DEVICE", "'cpu'"), "    "))
    return min(float(run(timed, device="plain").out.split("=> ")[1]) for _ in range(ROUNDS))


def trials(text, count):
    """(CPU seconds a trial, trials a second with two at once) on a warm fork server."""
    project = Project({"train.py": text})
    server = Server(project, preload=["torch", "numpy", "torch.utils.data", "torch.optim"], device="emulated")
    for _ in range(3):
        server.trial(witness=True, launch_blocking=True)
    begun, before = time.monotonic(), spent(server.process.pid)
    started = done = 0
    while done < count:
        while started < min(done + 2, count):
            started += 1
            server.order(100 + started, witness=True, launch_blocking=True)
        message = server.read()
        if "seconds" in message:
            server.collect(message)
            done += 1
    seconds = time.monotonic() - begun
    time.sleep(0.5)             # the server waits for the last supervisors
    cpu = spent(server.process.pid) - before
    server.close()
    project.remove()
    return cpu / count, count / seconds


def spent(pid):
    """CPU seconds of a server and of all processes that it has waited for."""
    with open("/proc/%d/stat" % pid) as handle:
        fields = handle.read().rsplit(")", 1)[1].split()
    return sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def main(words):
    fine = True

    def limit(what, value, most):
        nonlocal fine
        holds = value <= most
        fine = fine and holds
        print("%-62s %8.3f  limit %6.3f  %s" % (what, value, most, "holds" if holds else "BROKEN"))

    print("torch %d.%d, Python %s" % (VERSION + (sys.version.split()[0],)))
    if "--trials" not in words:
        worst = ratios()
        limit("worst ratio over 50 us (%s)" % worst["real"][1], worst["real"][0], REAL)
        limit("worst ratio of tiny operators (%s)" % worst["tiny"][1], worst["tiny"][0], TINY)
    if "--ratios" not in words:
        empty, _ = trials("import torch\n", 100)
        cpu, rate = trials(FAILS.replace("DEVICE", "'cuda'"), 100)
        own = own_time(FAILS)
        print("a trial that imports torch and ends: %.1f ms of CPU; one that fails at once: %.1f, of which its own %.1f"
              % (empty * 1e3, cpu * 1e3, own * 1e3))
        print("with two at once: %.0f a second at a load of %.1f on %d cores"
              % (rate, os.getloadavg()[0], os.cpu_count()))
        limit("CPU seconds of a trial beyond the program's own", cpu - own, TRIAL)
        limit("CPU seconds of such a trial, two cores being all there is", cpu, 2 / RATE)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
