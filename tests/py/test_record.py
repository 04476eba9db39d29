"""What is recorded of the failing call: wherever it is made, and before the launch as well as after the failure.

Run with each torch: `python tests/py/test_record.py`.  What is looked at before the launch on a GPU is looked at here on
CPU tensors, by the same code, and compared with what the emulated device says after the failure.
"""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from drive import Project, Server  # noqa: E402
from emulated_programs import SETUP, calls  # noqa: E402
from forked import VERSION, run  # noqa: E402
from test_emulated import Case  # noqa: E402

HEAD = """
import torch, torch.nn as nn, torch.nn.functional as F
d = DEVICE
"""
LABELS = ("torch.nn.functional.cross_entropy", "aten.nll_loss_forward.default", "7", "5", [2], "target")
# where the call is made: program, then public name, aten operator, value, limit, position, argument
PLACES = {
    "in backward": ("""
class Late(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 1
    @staticmethod
    def backward(ctx, g): return g.index_select(0, torch.tensor([0, 7, 1, 2], device=g.device))
Late.apply(torch.ones(4, 5, device=d, requires_grad=True)).sum().backward()
""", ("torch.Tensor.index_select", "aten.index_select.default", "7", "4", [1], "index")),
    "under autocast": ("""
with torch.autocast("cuda" if d == "cuda" else "cpu", dtype=torch.bfloat16):
    F.cross_entropy(nn.Linear(3, 5).to(d)(torch.ones(4, 3, device=d)), torch.tensor([0, 1, 7, 2], device=d))
""", LABELS),
    "inside modules": ("""
class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(6, 2)
    def forward(self, ids): return self.table(ids)
class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.Sequential(Inner(), nn.Linear(2, 2))
    def forward(self, ids): return self.parts(ids)
Outer().to(d)(torch.tensor([[0, 1], [5, 6]], device=d))
""", ("torch.nn.functional.embedding", "aten.embedding.default", "6", "6", [1, 1], "input")),
    "in a loop over a DataLoader": ("""
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.ones(9, 5), torch.tensor([0, 1, 2, 3, 4, 7, 0, 1, 2]))
for x, y in DataLoader(data, batch_size=3):
    F.cross_entropy(x.to(d), y.to(d))
""", LABELS),
    "in a thread": ("""
import threading
def work():
    F.cross_entropy(torch.ones(4, 5, device=d), torch.tensor([0, 1, 7, 2], device=d))
t = threading.Thread(target=work); t.start(); t.join()
""", LABELS),
    "in a pool of threads": ("""
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(2) as pool:
    list(pool.map(lambda y: F.cross_entropy(torch.ones(4, 5, device=d), y), [torch.tensor([0, 1, 7, 2], device=d)]))
""", LABELS),
    "under torch.compile": ("""
@getattr(torch, "compile", lambda **how: lambda step: step)(backend="eager")
def step(x, y):
    return F.cross_entropy(x * 2, y)
step(torch.ones(4, 5, device=d), torch.tensor([0, 1, 7, 2], device=d))
""", LABELS),
    "in a hook of backward": ("""
x = torch.ones(4, 5, device=d, requires_grad=True)
y = x * 2
y.register_hook(lambda g: g.index_select(0, torch.tensor([0, 7, 1, 2], device=d)))
y.sum().backward()
""", ("torch.Tensor.index_select", "aten.index_select.default", "7", "4", [1], "index")),
    "in a hook of a module": ("""
model = nn.Linear(3, 5).to(d)
model.register_forward_hook(lambda module, given, x: F.cross_entropy(x, torch.tensor([0, 1, 7, 2], device=d)))
model(torch.ones(4, 3, device=d))
""", LABELS),
}
EVERYWHERE = {"operator": None, "site": None}


def facts(failure):
    """What the tests compare of a failure."""
    offence = failure["offence"] or {}
    return (failure["op"], failure["aten"]) + tuple(offence.get(k) for k in ("value", "limit", "position", "argument"))


def shapes(failure):
    """Shapes of the arguments; of a backward pass those of its tensors, for the autograd engine is told of no others."""
    backward = failure["op"] == "torch.Tensor.backward"
    return [argument.get("shape") for argument in failure["args"] if "shape" in argument or not backward]


class WhereverTheCallIsMade(Case):
    def test_after_the_failure_on_the_emulated_device(self):
        for place, (program, wanted) in PLACES.items():
            ran = run(HEAD + program, DEVICE="cuda", trace=True)
            self.assertIn("failure", ran.facts, place + ran.err)
            self.assertEqual(facts(ran.facts["failure"]), wanted, place)
            self.assertEqual(ran.facts["failure"]["args"][0]["device"], "cuda:0", place)
            self.assertTrue(ran.facts["failure"]["frames"], place)

    def test_in_the_second_forward_of_a_checkpoint(self):
        program = HEAD + """
from torch.utils.checkpoint import checkpoint
table, ids = torch.ones(4, 5, device=d, requires_grad=True), torch.tensor([0, 1], device=d)
out = checkpoint(lambda t: t.index_select(0, ids).exp(), table, use_reentrant=False)
ids.data[1] = LATER
out.sum().backward()
"""
        self.assertEqual(run(program, DEVICE="cuda", LATER=3).err, "")
        failure = run(program, DEVICE="cuda", LATER=7).facts["failure"]
        self.assertEqual(facts(failure), ("torch.Tensor.index_select", None, "7", "4", [1], "index"))

    def test_a_failure_that_is_held_is_recorded_in_full_and_before_the_call_goes_on(self):
        program = HEAD + "x = torch.full((4, 5), 2., device=d)\nx.index_fill_(0, torch.tensor([9], device=d), 5.)\nx + 1\nx.sum().item()"
        held, blocking = (run(program, DEVICE="cuda", trace=True, env={"CUDA_LAUNCH_BLOCKING": flag}) for flag in "01")
        self.assertNotEqual(held.line, blocking.line)
        self.assertEqual(facts(held.facts["failure"])[1:], ("aten.index_fill_.int_Scalar", "9", "4", [0], "index"))
        self.assertEqual(held.facts["failure"], blocking.facts["failure"])
        for place, (late, wanted) in PLACES.items():
            ran = run(HEAD + late + "\ntorch.cuda.synchronize()", DEVICE="cuda", trace=True, env={"CUDA_LAUNCH_BLOCKING": "0"})
            self.assertEqual(facts(ran.facts["failure"]), wanted, place + ran.err)

    def test_the_package_whose_code_makes_the_call_is_named(self):
        with tempfile.TemporaryDirectory() as base:
            folder = os.path.join(base, "site-packages")
            os.mkdir(folder)
            with open(os.path.join(folder, "library.py"), "w") as handle:
                handle.write("import torch\nclass Model(torch.nn.Module):\n"
                             "    def forward(self, x, y): return torch.nn.functional.cross_entropy(x, y)\n")
            setup = HEAD + ("import sys; sys.path.insert(0, %r)\nimport library\n" % folder
                            + "x, y = torch.ones(4, 5, device=d), torch.tensor([0, 1, 7, 2], device=d)\n")
            for call, package in (("library.Model()(x, y)", "library"), ("F.cross_entropy(x, y)", None)):
                ran = run(setup + call + "\n", DEVICE="cuda")
                self.assertIn("failure", ran.facts, call + ran.err)
                self.assertEqual(ran.facts["failure"]["package"], package, call)

    def test_before_the_launch_on_plain_tensors(self):
        for place, (program, wanted) in PLACES.items():
            if place == "under torch.compile" and VERSION >= (2, 0):
                continue        # see below
            ran = run(HEAD + program, device="cpu witness", DEVICE="cpu", watch=EVERYWHERE, trace=True)
            self.assertIn("failure", ran.facts, place + ran.err)
            self.assertEqual(facts(ran.facts["failure"]), wanted, place)

    def test_a_compiler_does_not_trip_over_the_watch(self):
        program, _ = PLACES["under torch.compile"]
        ran = run(HEAD + program, device="cpu witness", DEVICE="cpu", watch=EVERYWHERE, trace=True)
        self.assertEqual(ran.error, ("IndexError", "Target 7 is out of bounds."), ran.err)

    def test_the_sample_of_a_batch_is_known_before_the_launch(self):
        program, _ = PLACES["in a loop over a DataLoader"]
        ran = run(HEAD + program, device="cpu witness", DEVICE="cpu", watch=EVERYWHERE, trace=True)
        self.assertEqual(ran.facts["failure"]["offence"]["sample"], 5)


class BeforeAndAfter(Case):
    """The look before the launch finds what the emulated device finds after it."""

    def test_each_assert_that_a_cpu_shows(self):
        seen = 0
        for line, _, _ in calls(VERSION):
            seeded = "torch = __import__('torch'); torch.manual_seed(0)\n" + SETUP + line
            after = run(seeded).facts["failure"]
            text = seeded.replace(".cuda()", "").replace("device='cuda'", "device='cpu'")
            ran = run(text, device="cpu witness", watch=EVERYWHERE)
            before = ran.facts.get("failure")
            if before is None:
                continue        # CUDA checks what the CPU does not
            self.assertEqual(before["op"], after["op"], line)
            for key in ("kind", "limit", "position", "argument"):
                self.assertEqual(before["offence"][key], after["offence"][key], line)
            self.assertEqual(shapes(before), shapes(after), line)
            seen += 1
        self.assertGreaterEqual(seen, 28)


class TheWatch(Case):
    """What it looks at, and that it disturbs nothing."""

    LOOP = """
import torch, torch.nn.functional as F
from _reduce.watch import Watch
looked, real = [], Watch._look
def counting(self, func, known, args, kwargs):
    looked.append(known[0])
    return real(self, func, known, args, kwargs)
Watch._look = counting
x = torch.rand(4, 5)
for _ in range(3):
    F.cross_entropy(x, torch.tensor([0, 1, 2, 3]))
    x.gather(1, torch.tensor([[0]]))
    F.cross_entropy(x, torch.tensor([0, 1, 2, 4]))
print("=>", looked)
"""

    def looked(self, watch):
        return self.value_of(run(self.LOOP, device="cpu witness", watch=watch))

    def value_of(self, ran):
        self.assertEqual(ran.status, 0, ran.err)
        return eval(ran.out.split("=> ")[1])

    def test_only_the_operator_that_is_watched(self):
        entropy, gather = "torch.nn.functional.cross_entropy", "torch.Tensor.gather"
        self.assertEqual(self.looked({"operator": gather, "site": None}), [gather] * 3)
        self.assertEqual(self.looked({"operator": entropy, "site": None}), [entropy] * 6)
        self.assertEqual(self.looked(EVERYWHERE), [entropy, gather, entropy] * 3)
        self.assertEqual(self.looked(None), [])

    def test_only_at_the_site(self):
        entropy = "torch.nn.functional.cross_entropy"
        self.assertEqual(self.looked({"operator": entropy, "site": ["program.py", 13, 13]}), [entropy] * 3)
        self.assertEqual(self.looked({"operator": entropy, "site": ["other.py", 13, 13]}), [])

    def test_random_numbers_gradients_and_values_are_as_without_it(self):
        program = """
import torch, torch.nn.functional as F
torch.manual_seed(1)
x = torch.rand(4, 5, requires_grad=True)
p = torch.softmax(x, 1)
loss = F.cross_entropy(x, torch.multinomial(p, 1)[:, 0]) + F.binary_cross_entropy(p, torch.bernoulli(p.detach()))
loss.backward()
x.data[torch.tensor([1])] = 0.5
print("=>", [loss.item(), x.grad.tolist(), x.tolist(), torch.rand(2).tolist()])
"""
        plain = self.value_of(run(program, device="plain"))
        self.assertEqual(self.value_of(run(program, device="cpu witness", watch=EVERYWHERE)), plain)

    def test_a_call_that_the_device_lets_pass_is_forgotten(self):
        program = "import torch\nx = torch.rand(3)\ntry:\n  x[torch.tensor([5])]\nexcept IndexError: pass\nx.view(7)"
        ran = run(program, device="witness", watch=EVERYWHERE)
        self.assertEqual(ran.facts.get("failure"), None)

    def test_a_trial_of_the_server_watches_the_statement_that_it_is_told(self):
        text = ("import torch\n\ndef pick(x, i):\n    return x.index_select(\n        0,\n        i)\n\n"
                "x = torch.arange(4.)\npick(x, torch.tensor([1]))\npick(x, torch.tensor([0, 9]))\n")
        project = Project({"train.py": text})
        server = Server(project, preload=["torch"])
        try:
            for lines, seen in (([4, 6], True), ([9, 9], False)):
                watch = {"operator": "torch.Tensor.index_select", "site": ["train.py"] + lines}
                for mode in ("fork", "exec"):
                    got = server.trial(mode=mode, witness=True, trace=True, watch=watch)
                    failure = got["outcome"]["failure"]
                    self.assertEqual((failure["offence"]["value"], failure["offence"]["argument"]), ("9", "index"))
                    self.assertEqual(failure["aten"], "aten.index_select.default" if seen else None, (mode, lines))
        finally:
            server.close()
            project.remove()

    def test_the_trace_tells_what_ran_before_the_failure(self):
        text = ("import torch\nx = torch.arange(4.)\ntry:\n    for i in range(3):\n"
                "        x.index_select(0, torch.tensor([i * 2]))\n        if i:\n            y = i\n"
                "finally:\n    print(x)\n")
        project = Project({"train.py": text})
        server = Server(project, preload=["torch"])
        try:
            for mode in ("fork", "exec"):
                trace = server.trial(mode=mode, witness=True, trace=True)["trace"]
                lines = sorted((first, line) for line, first, _ in trace["executed"]["train.py"])
                before = [line for first, line in lines if first <= trace["until"]]
                self.assertEqual((before, lines[-1][1]), ([1, 2, 3, 4, 5, 6, 7], 9))
        finally:
            server.close()
            project.remove()


if __name__ == "__main__":
    unittest.main()
