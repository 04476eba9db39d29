"""The emulated CUDA device against the plain CPU, and what it must do as a GPU does.

Run with each torch: `python tests/py/test_emulated.py`.  The process imports torch once and forks a child a case.
"""

import ast
import base64
import io
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from emulated_programs import FIRST_PRODUCT, GOES_ON, HEAD, HELD, PROGRAMS, SETUP, WAITING, calls  # noqa: E402
from forked import VERSION, run, torch  # noqa: E402


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


class TensorsSayTheyAreOnCuda(Case):
    """Tags: where a tensor claims to be."""

    SETUP = """
import torch, torch.nn as nn, torch.nn.functional as F, copy, io, pickle
import numpy as np
x, c = torch.randn(3, 4, device="cuda"), torch.randn(3, 4)
d = lambda t: str(t.device)
NEW = hasattr(torch, "compile")
"""

    def all(self, expression, **kwargs):
        return self.value(self.SETUP + "result = " + expression, **kwargs)

    def test_attributes_and_text(self):
        self.assertEqual(self.all("(d(x), x.is_cuda, x.get_device(), x.type(), c.is_cuda, c.type())"),
                         ("cuda:0", True, 0, "torch.cuda.FloatTensor", False, "torch.FloatTensor"))
        self.assertEqual(
            self.all("[repr(torch.ones(2, device='cuda')), str(torch.ones(2, requires_grad=True).cuda().detach()),"
                     " f\"{torch.ones((), device='cuda'):.1f}\", repr(nn.Parameter(torch.ones(1, device='cuda')))]"),
            ["tensor([1., 1.], device='cuda:0')", "tensor([1., 1.], device='cuda:0')", "1.0",
             "Parameter containing:\ntensor([1.], device='cuda:0', requires_grad=True)"])

    def test_every_way_to_name_the_device(self):
        ways = "('cuda', 'cuda:0', 0, torch.device('cuda'), torch.device('cuda', 0), torch.device('cuda:0'))"
        self.assertEqual(self.all("{d(torch.zeros(2, device=w)) for w in %s} | {d(c.to(w)) for w in %s}"
                                  " | {d(c.to(device=w)) for w in %s}" % (ways, ways, ways)), {"cuda:0"})
        self.assertEqual(self.all("[d(t) for t in (c.cuda(), c.cuda(0), c.cuda(non_blocking=True), c.to(x),"
                                  " c.to('cuda', torch.float64), c.to('cuda', non_blocking=True), x.cpu(), x.to('cpu'),"
                                  " x.half(), x.to(torch.int64), x.type('torch.FloatTensor'), c.type_as(x),"
                                  " c.type(torch.cuda.DoubleTensor))]"),
                         ["cuda:0"] * 6 + ["cpu"] * 2 + ["cuda:0"] * 2 + ["cpu", "cuda:0", "cuda:0"])

    def test_moves_copy_as_they_do_between_devices(self):
        self.assertEqual(self.all("(x.to('cuda') is x, x.cuda() is x, c.cuda().data_ptr() == c.data_ptr(),"
                                  " x.cpu().data_ptr() == x.data_ptr(), c.cpu() is c, c.to('cpu') is c)"),
                         (True, True, False, False, True, True))

    def test_factories_and_their_likes(self):
        self.assertEqual(self.all("[d(t) for t in (torch.zeros_like(x), torch.zeros_like(x, device='cpu'),"
                                  " torch.ones_like(c, device='cuda'), x.new_zeros(2), x.new_tensor([1]), x.new(2),"
                                  " torch.tensor([1], device='cuda'), torch.tensor(x), torch.tensor([x[0, 0], x[0, 1]]),"
                                  " torch.as_tensor(np.ones(2), device='cuda'), torch.as_tensor(x), torch.from_numpy(np.ones(2)),"
                                  " torch.Tensor([1]), torch.FloatTensor([1]), torch.cuda.FloatTensor([1]),"
                                  " torch.cuda.LongTensor([1]), torch.fft.fftfreq(4, device='cuda'))]"),
                         ["cuda:0", "cpu"] + ["cuda:0"] * 6 + ["cpu"] + ["cuda:0"] * 2 + ["cpu"] * 3 + ["cuda:0"] * 3)
        self.assertEqual(self.all("(isinstance(x, torch.cuda.FloatTensor), isinstance(c, torch.cuda.FloatTensor))"),
                         (True, False))

    def test_results_follow_their_operands(self):
        self.assertEqual(self.all("{d(t) for t in (x + 1, 1 - x, x @ x.T, x.sum(), x[0], x[:, 1], x[x > 0], x.max(1)[0],"
                                  " torch.cat([x, x]), torch.stack([x, x]), F.relu(x), x.detach(), x.view(-1), *x,"
                                  " *x.split(1), *torch.broadcast_tensors(x, x[:1]), torch.where(x > 0, x, torch.tensor(0.)),"
                                  " torch.einsum('ij,kj', x, x), x + torch.tensor(1.), x[torch.tensor([0])], x[[0, 1]],"
                                  " torch.distributions.Normal(x, 1.).sample(), copy.deepcopy(x), pickle.loads(pickle.dumps(x)),"
                                  " nn.Parameter(x), nn.Parameter(x).data, x.clone().requires_grad_())}"), {"cuda:0"})

    def test_modules_buffers_gradients_and_optimizer_state(self):
        self.assertEqual(self.value(self.SETUP + """
m = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).cuda()
o = torch.optim.Adam(m.parameters()); m(x).sum().backward(); o.step()
result = ({d(t) for t in m.state_dict().values()}, {d(p.grad) for p in m.parameters()},
          {d(o.state[p]["exp_avg"]) for p in m.parameters()}, d(copy.deepcopy(m)[0].weight), d(m.cpu()[0].weight),
          d(nn.Linear(2, 2, device="cuda").weight), d(nn.DataParallel(nn.Linear(4, 2)).cuda()(c)))
"""), ({"cuda:0"}, {"cuda:0"}, {"cuda:0"}, "cuda:0", "cpu", "cuda:0", "cuda:0"))

    def test_files_remember_the_device(self):
        self.assertEqual(self.value(self.SETUP + """
def load(t, **k):
    f = io.BytesIO(); torch.save(t, f); f.seek(0); return d(torch.load(f, **k))
result = [load(x), load(x, map_location="cpu"), load(x, map_location=lambda s, l: s), load(c), load(c, map_location="cuda"),
          load(c, map_location=torch.device("cuda:0")), load(x, map_location={"cuda:0": "cpu"}),
          load(nn.Parameter(x)), load(nn.Parameter(x), map_location="cpu"), load(nn.Parameter(c), map_location="cuda")]
"""), ["cuda:0", "cpu", "cpu", "cpu", "cuda:0", "cuda:0", "cpu", "cuda:0", "cpu", "cuda:0"])

    def test_a_file_of_a_tensor_on_cuda_is_that_of_a_gpu(self):
        self.assertEqual(self.value(self.SETUP + """
import zipfile
f = io.BytesIO(); torch.save(x, f)
z = zipfile.ZipFile(f); text = z.read([n for n in z.namelist() if n.endswith("data.pkl")][0])
result = (b"cuda:0" in text, b"_reduce" in text)
"""), (True, False))

    def test_loader_threads_and_workers(self):
        self.assertEqual(self.value(self.SETUP + """
import threading
from torch.utils.data import DataLoader, TensorDataset
result = set()
for n in (0, 2):
    for a, b in DataLoader(TensorDataset(c, torch.arange(3)), batch_size=2, pin_memory=True, num_workers=n):
        result.add((d(a), a.is_pinned(), d(a.cuda(non_blocking=True))))
t = threading.Thread(target=lambda: result.add(d(torch.zeros(1, device="cuda") + 1))); t.start(); t.join()
class Own(threading.Thread):
    def run(self): result.add(d(torch.zeros(1, device="cuda:0") + 2))
t = Own(); t.start(); t.join()
"""), {("cpu", True, "cuda:0"), "cuda:0"})

    def test_default_devices(self):
        self.assertEqual(self.value(self.SETUP + """
result = []
torch.set_default_tensor_type("torch.cuda.FloatTensor"); result.append(d(torch.zeros(1)))
torch.set_default_tensor_type(torch.FloatTensor); result.append(d(torch.zeros(1)))
if NEW:
    with torch.device("cuda"):
        result += [d(torch.zeros(1)), d(nn.Linear(1, 1).weight), d(torch.tensor([1]))]
        with torch.device("cpu"): result.append(d(torch.zeros(1)))
    torch.set_default_device("cuda"); result.append(d(torch.zeros(1))); torch.set_default_device(None)
    result.append(d(torch.zeros(1)))
else:
    result += ["cuda:0"] * 3 + ["cpu", "cuda:0", "cpu"]
"""), ["cuda:0", "cpu", "cuda:0", "cuda:0", "cuda:0", "cpu", "cuda:0", "cpu"])

    def test_generators(self):
        self.assertEqual(self.all("(d(torch.Generator(device='cuda')), d(torch.Generator()),"
                                  " isinstance(torch.default_generator, torch.Generator),"
                                  " d(torch.randn(2, device='cuda', generator=torch.Generator('cuda').manual_seed(1))))"),
                         ("cuda:0", "cpu", True, "cuda:0"))
        self.refused(self.SETUP + "torch.randn(2, device='cuda', generator=torch.Generator())",
                     "Expected a 'cuda' device type for generator but found 'cpu'")

    def test_transforms_and_compile(self):
        self.assertEqual(self.all("(d(torch.func.vmap(lambda a: a * 2)(x)), d(torch.func.grad(lambda a: (a * x).sum())(x)),"
                                  " d(torch.compile(nn.Linear(4, 2).cuda())(x))) if NEW else ('cuda:0',) * 3"), ("cuda:0",) * 3)

    def test_half_precision_works_where_the_cpu_has_no_kernel(self):
        self.assertEqual(self.all("[str(t.dtype) for t in (nn.Linear(4, 2).cuda().half()(x.half()), x.half().softmax(-1),"
                                  " nn.Conv2d(1, 1, 1).cuda().half()(x.half()[None, None]))]"), ["torch.float16"] * 3)

    def test_torch_cuda(self):
        self.assertEqual(self.all("(torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.current_device(),"
                                  " torch.cuda.get_device_capability(), torch.cuda.memory_allocated(),"
                                  " torch.cuda.is_bf16_supported(), torch.cuda.Event(enable_timing=True).query(),"
                                  " torch.cuda.get_rng_state().dtype is torch.uint8, bool(torch.version.cuda))"),
                         (True, 1, 0, (9, 0), 512, True, True, True, True))
        self.assertEqual(self.value("""
import torch
a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
with torch.cuda.stream(torch.cuda.Stream()), torch.cuda.device(0):
    a.record(); y = torch.ones(2, device="cuda") * 2; b.record()
torch.cuda.synchronize(); torch.cuda.empty_cache(); torch.cuda.manual_seed_all(1)
result = a.elapsed_time(b) >= 0
"""), True)

    def test_autocast_is_on_and_leaves_float32(self):
        self.assertEqual(self.value(self.SETUP + """
with torch.autocast("cuda"):
    result = (torch.is_autocast_enabled(), str((x @ x.T).dtype))
result += (torch.is_autocast_enabled(),)
"""), (True, "torch.float32", False))
        self.refused(self.SETUP + "with torch.autocast('cuda'): F.binary_cross_entropy(x.sigmoid(), x.sigmoid())",
                     "unsafe to autocast", "RuntimeError")

    def test_one_process_of_a_distributed_run(self):
        self.assertEqual(self.value(self.SETUP + """
import torch.distributed as dist, tempfile, os
dist.init_process_group("nccl", init_method="file://" + tempfile.mktemp(), rank=0, world_size=1)
m = nn.parallel.DistributedDataParallel(nn.Linear(4, 2).cuda(), device_ids=[0])
y = m(x); y.sum().backward(); t = torch.ones(2, device="cuda"); dist.all_reduce(t); dist.destroy_process_group()
result = (d(y), d(m.module.weight.grad), d(t))
"""), ("cuda:0", "cuda:0", "cuda:0"))

    def test_the_number_of_devices(self):
        text = "import torch\nresult = (torch.cuda.is_available(), torch.cuda.device_count())"
        self.assertEqual(self.value(text, env={"CUDA_VISIBLE_DEVICES": ""}), (False, 0))
        self.assertEqual(self.value(text, cuda_devices=4), (True, 4))
        self.assertEqual(self.value(text, cuda_devices=4, env={"CUDA_VISIBLE_DEVICES": "2,3"}), (True, 2))
        self.assertEqual(self.value("import torch\nx = torch.zeros(1, device='cuda:1')\nresult = str((x + 1).device)",
                                    cuda_devices=2), "cuda:1")
        self.refused("import torch\ntorch.zeros(1, device='cuda:1') + torch.zeros(2, device='cuda:0')",
                     "found at least two devices, cuda:", cuda_devices=2)


class WhatAModeDoesNotSee(Case):
    """Each thing that passes a TorchFunctionMode by, covered by a patch."""

    SETUP = TensorsSayTheyAreOnCuda.SETUP

    def test_arrays_and_legacy_constructors_stay_on_the_cpu_and_move_from_there(self):
        self.assertEqual(self.value(self.SETUP + "result = [d(t) for t in (torch.from_numpy(np.ones(2)),"
                         " torch.from_numpy(np.ones(2)).cuda(), torch.Tensor([1]), torch.Tensor(2, 3).to('cuda'),"
                         " torch.FloatTensor([1]).cuda(), torch.LongTensor(2).cuda(), torch.cuda.FloatTensor(2, 2),"
                         " torch.cuda.HalfTensor([1]), x.new(2, 2), torch.cuda.LongTensor([1]) + 1)]"),
                         ["cpu", "cuda:0"] * 2 + ["cuda:0"] * 6)

    def test_the_default_type_holds_for_the_legacy_constructor(self):
        self.assertEqual(self.value(self.SETUP + """
torch.set_default_tensor_type("torch.cuda.FloatTensor")
result = [d(torch.Tensor([1])), d(torch.Tensor(2, 3)), d(torch.FloatTensor([1])), d(nn.Linear(1, 1).weight)]
torch.set_default_tensor_type("torch.FloatTensor")
result += [d(torch.Tensor([1]))]
"""), ["cuda:0", "cuda:0", "cpu", "cuda:0", "cpu"])

    def test_storages_say_where_they_are_and_move(self):
        self.assertEqual(self.value(self.SETUP + """
s = x.untyped_storage() if NEW else x.storage()
result = [d(s), x.storage().is_cuda, d(c.storage()), d(s.cpu()), d(s.cuda()), d(torch.empty(0, device="cuda").set_(x.storage()))]
"""), ["cuda:0", True, "cpu", "cpu", "cuda:0", "cuda:0"])

    def test_devices_are_values_of_their_own(self):
        self.assertEqual(self.value(self.SETUP + """
result = [str(torch.device("cuda:1")), torch.device("cuda", 0) == x.device, torch.device("cuda") == x.device,
          str(torch.device(0)), x.device.type, x.device.index, str(torch.device(x.device))]
"""), ["cuda:1", True, False, "cuda:0", "cuda", 0, "cuda:0"])

    def test_autocast_and_generators_know_their_device(self):
        self.assertEqual(self.value(self.SETUP + """
import warnings; warnings.simplefilter("ignore")
g = torch.Generator(device="cuda"); g.manual_seed(3)
a = torch.rand(2, generator=g, device="cuda"); g.manual_seed(3); b = torch.rand(2, generator=g, device="cuda")
with torch.cuda.amp.autocast(): inside = torch.is_autocast_enabled()
with torch.autocast("cuda", dtype=torch.bfloat16): kind = str(torch.get_autocast_gpu_dtype())
result = [d(g), bool((a == b).all()), inside, kind, torch.is_autocast_enabled()]
"""), ["cuda:0", True, True, "torch.bfloat16", False])

    def test_backward_in_python_sees_tensors_on_the_device_in_every_thread(self):
        self.assertEqual(self.value(self.SETUP + """
import threading
seen = []
class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): ctx.save_for_backward(x); return x * 2
    @staticmethod
    def backward(ctx, g):
        y, = ctx.saved_tensors; seen.extend([d(g), d(y), d(g * y), d(torch.ones_like(g))]); return g * 2
def work():
    w = torch.ones(3, device="cuda", requires_grad=True); Own.apply(w).sum().backward(); seen.append(d(w.grad))
work(); t = threading.Thread(target=work); t.start(); t.join()
result = seen
"""), ["cuda:0"] * 10)

    def test_seeding_and_restoring_the_generator_of_a_device(self):
        self.assertEqual(self.value(self.SETUP + """
r = lambda: torch.rand(2, device="cuda").tolist()
torch.cuda.manual_seed(3); a = r(); torch.cuda.manual_seed_all(3); b = r()
s = torch.cuda.get_rng_state(); e = r(); torch.cuda.set_rng_state(s); f = r()
s = torch.cuda.get_rng_state_all(); g = r(); torch.cuda.set_rng_state_all(s); h = r()
with torch.random.fork_rng(): i = r()
result = [a == b, e == f, g == h, i == r(), a == e]
"""), [True, True, True, True, False])

    def test_memory_figures_count_what_lives(self):
        self.assertEqual(self.value("""
import torch
m = torch.cuda.memory_allocated
result = [m()]; y = torch.zeros(1000, 1000, device="cuda"); result.append(m()); z = y.t()[3:]; del y; result.append(m())
cpu = torch.zeros(1000); del z; result += [m(), torch.cuda.max_memory_allocated(), torch.cuda.memory_reserved()]
torch.cuda.empty_cache(); torch.cuda.reset_peak_memory_stats()
result += [torch.cuda.memory_reserved(), torch.cuda.max_memory_allocated(), torch.cuda.mem_get_info()[0] > 0]
"""), [0, 4000256, 4000256, 0, 4000256, 4194304, 0, 0, True])

    def test_a_compiler_leaves_the_code_as_it_is_and_says_so(self):
        ran = run(self.SETUP + "f = torch.compile(lambda a: a * 2) if NEW else torch.jit.script(lambda a: a * 2)\nprint(d(f(x)))")
        self.assertEqual((ran.status, ran.out), (0, "cuda:0\n"), ran.err)
        self.assertIn("the emulated device compiles nothing", ran.facts["notes"][0]["text"])
        self.assertTrue(ran.facts["notes"][0]["kind"].endswith("_is_eager"))


class WhatCudaRefuses(Case):
    """Errors that CUDA raises from the host, and what cannot be emulated."""

    SETUP = TensorsSayTheyAreOnCuda.SETUP

    def test_mixed_devices(self):
        for line, words in (
                ("x + c", "found at least two devices, cuda:0 and cpu!"),
                ("c + torch.tensor(1., device='cuda')", "Expected all tensors to be on the same device"),
                ("nn.Linear(4, 2).cuda()(c)", "mat1"), ("nn.Linear(4, 2)(x)", "mat1"),
                ("nn.Linear(4, 2, bias=False).cuda()(c)", "mat2"),
                ("nn.Embedding(4, 2).cuda()(torch.tensor([1]))", "index"),
                ("F.cross_entropy(x, torch.tensor([0, 1, 2]))", "target"),
                ("torch.cat([x, c])", "tensors"), ("c[torch.tensor([0], device='cuda')]", "indices should be either on cpu"),
                ("x.masked_fill(c > 0, 0)", "expected self and mask to be on the same device"),
                ("x[torch.tensor([0])] = c[:1]", "Expected all tensors to be on the same device"),
                ("nn.Conv2d(1, 1, 1).cuda()(torch.ones(1, 1, 2, 2))",
                 "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same")):
            ran = self.refused(self.SETUP + line, words, "RuntimeError")
            self.assertIsNone(ran.assertion)
            self.assertIsNone(ran.facts.get("failure"))

    def test_numpy_sees_no_device_memory(self):
        words = "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
        self.refused(self.SETUP + "x.numpy()", words, "TypeError")
        self.refused(self.SETUP + "np.asarray(x)", words, "TypeError")

    def test_a_device_that_is_not_there(self):
        self.refused("import torch\ntorch.zeros(1, device='cuda:7')", "CUDA error: invalid device ordinal")

    def test_host_errors_stay_host_errors(self):
        for line, kind in (("x[9]", "IndexError"), ("x[torch.tensor(9, device='cuda')]", "IndexError"),
                           ("x.view(5)", "RuntimeError"), ("x.gather(5, torch.zeros(1, dtype=torch.long).cuda())", "IndexError"),
                           ("torch.repeat_interleave(torch.tensor([1, -1], device='cuda'))", "RuntimeError")):
            ran = self.refused(self.SETUP + line, "Error", kind)
            self.assertIsNone(ran.assertion, line)
            self.assertEqual(self.value(self.SETUP + "try:\n  %s\nexcept Exception: pass\nresult = bool((x + 1).sum() < 1e9)"
                                        % line), True)

    def test_repeats_are_told_from_what_is_repeated(self):
        i = "torch.tensor([1, 2], device='cuda')"
        for line in ("torch.tensor([-1., 2.], device='cuda'), repeats=%s, dim=0" % i,
                     "torch.tensor([-1, 2], device='cuda'), %s" % i, i, "repeats=" + i):
            self.assertEqual(self.value("import torch\nresult = torch.repeat_interleave(%s, output_size=3).numel()" % line), 3)
        for line in ("torch.zeros(1, dtype=torch.long, device='cuda')", "repeats=" + i):
            ran = run("import torch\ntorch.repeat_interleave(%s, output_size=9)" % line)
            self.assertEqual(ran.assertion[2], "result_size == cumsum_ptr[size - 1]", line)

    def test_what_is_not_emulated_is_named(self):
        ran = self.refused("import torch\ntorch.cuda.CUDAGraph()", "NotEmulated: CUDA graphs")
        self.assertEqual(ran.facts["not_emulated"], "CUDA graphs")

    def test_what_would_take_device_memory_for_the_cpus_is_named_too(self):
        for line, words in (("torch.utils.dlpack.to_dlpack(x)", "to_dlpack"), ("x.__cuda_array_interface__", "another library"),
                            ("torch.nn.parallel.replicate(nn.Linear(4, 2).cuda(), [0])", "broadcast_coalesced"),
                            ("torch.cuda.current_blas_handle()", "current_blas_handle")):
            ran = self.refused(self.SETUP + line, "NotEmulated")
            self.assertIn(words, ran.facts["not_emulated"])
        self.assertEqual(self.value(self.SETUP + "result = hasattr(c, '__cuda_array_interface__'), d(torch.from_dlpack(c))"),
                         (False, "cpu"))

    def test_an_error_that_asks_for_a_real_device_is_not_a_failure_of_the_program(self):
        ran = self.refused("import torch\ntorch._C._cuda_getDefaultStreamNothing(0)", "has no attribute '_cuda", "AttributeError")
        self.assertIn("_cuda_getDefaultStreamNothing", ran.facts["not_emulated"])

    def test_cuda_in_a_forked_process_after_cuda_started(self):
        self.refused("import os, sys, torch\ntorch.zeros(1, device='cuda')\npid = os.fork()\n"
                     "if pid == 0: torch.zeros(1, device='cuda')\nelse: sys.exit(os.waitpid(pid, 0)[1] and 1)",
                     "Cannot re-initialize CUDA in forked subprocess")


class ADeviceThatSawAnAssert(Case):
    """Sticky errors and what the witness notes."""

    FAIL = """
import torch, torch.nn.functional as F
x = torch.randn(4, 5, device="cuda")
try:
    F.cross_entropy(x, torch.tensor([0, 1, 7, 2], device="cuda"))
except RuntimeError as e:
    first = e
"""

    def test_every_later_use_fails_with_the_same_text(self):
        for use in ("x + 1", "torch.zeros(1, device='cuda')", "x.cpu()", "print(x)", "torch.cuda.synchronize()",
                    "x.sum().item()", "torch.ones(2).cuda()", "x[0] = 1", "x.tolist()", "torch.save(x, __import__('io').BytesIO())"):
            ran = self.refused(self.FAIL + "\ntry:\n  %s\nexcept RuntimeError as e:\n  assert str(e) == str(first)\n  raise" % use,
                               "CUDA error: device-side assert triggered")
            self.assertEqual(len(ran.lines), 1)
            self.assertTrue(ran.facts["failure"]["swallowed"], use)
            self.assertEqual(ran.facts["failure"]["frames"][-1]["line"], 5)

    def test_what_starts_no_kernel_still_works(self):
        self.assertEqual(self.value(self.FAIL + "result = (tuple(x.view(-1).shape), x[0].shape[0], str(x.device), x.t().dim(),"
                                    " float(torch.ones(2).sum()))"), ((20,), 5, "cuda:0", 2, 2.0))

    def test_the_text_says_whether_launches_block(self):
        line = "import torch\nx = torch.zeros(3, device='cuda')\nx[torch.tensor([5], device='cuda')].tolist()"
        self.assertNotIn("asynchronously", run(line).err)
        self.assertIn("CUDA_LAUNCH_BLOCKING=1", run(line, env={"CUDA_LAUNCH_BLOCKING": "0"}).err)

    def test_the_witness_names_call_value_and_sample(self):
        ran = run("""
import torch
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.randn(20, 3), torch.tensor([i % 4 if i != 13 else 4 for i in range(20)]))
net = torch.nn.Linear(3, 4).cuda()
for a, b in DataLoader(data, batch_size=5, shuffle=True, generator=torch.Generator().manual_seed(3)):
    torch.nn.CrossEntropyLoss()(net(a.cuda()), b.cuda())
""")
        failure = ran.facts["failure"]
        self.assertEqual((failure["op"], failure["offence"]["value"], failure["offence"]["limit"],
                          failure["offence"]["kind"], failure["offence"]["sample"], failure["swallowed"]),
                         ("torch.nn.functional.cross_entropy", "4", "4", "above", 13, False))
        self.assertEqual(failure["frames"], [{"file": "program.py", "line": 7, "func": "<module>"}])
        self.assertEqual([a["name"] for a in failure["args"][:2]], ["input", "target"])
        self.assertEqual(failure["args"][1]["max"], 4)
        self.assertEqual(failure["args"][0]["device"], "cuda:0")

    def test_public_names(self):
        for line, name in (("torch.nn.Embedding(3, 2).cuda()(torch.tensor([5]).cuda())", "torch.nn.functional.embedding"),
                           ("x[torch.tensor([9]).cuda()]", "torch.Tensor.__getitem__"),
                           ("x[torch.tensor([9]).cuda()] = 1", "torch.Tensor.__setitem__"),
                           ("x.scatter_add_(0, torch.tensor([[9]]).cuda(), x[:1, :1].clone())", "torch.Tensor.scatter_add_"),
                           ("torch.gather(x, 0, torch.tensor([[9]]).cuda())", "torch.gather"),
                           ("torch.distributions.Categorical(probs=x.abs() * float('nan'), validate_args=False).sample()",
                            "torch.multinomial"),
                           ("F.one_hot(torch.tensor([9]).cuda(), 3)", "torch.nn.functional.one_hot")):
            ran = run("import torch, torch.nn.functional as F\nx = torch.randn(4, 5, device='cuda')\n" + line)
            self.assertEqual(ran.facts["failure"]["op"], name, ran.err)

    def test_backward_reports_the_target_that_changed(self):
        ran = self.refused("""
import torch, torch.nn.functional as F
x = torch.randn(4, 5, device="cuda", requires_grad=True); t = torch.tensor([0, 1, 2, 3], device="cuda")
class Late(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 1
    @staticmethod
    def backward(ctx, g): return g.gather(1, torch.full((4, 5), 7, device=g.device))
Late.apply(x).sum().backward()
""", "device-side assert triggered")
        self.assertEqual(ran.facts["failure"]["op"], "torch.Tensor.gather")

    def test_the_witness_alone_sees_indexing_and_threads(self):
        for line in ("x[torch.tensor([5])]", "x[torch.tensor([5])] = 1",
                     "import threading; t = threading.Thread(target=lambda: x[[7]]); t.start(); t.join()"):
            ran = run("import torch\nx = torch.ones(3)\n" + line, device="cpu witness")
            self.assertIn("item__", ran.facts["failure"]["op"])

    def test_the_witness_alone_changes_nothing_and_waits_for_a_cuda_error(self):
        ran = run("import torch\nx = torch.ones(3)\ntry:\n  x.view(7)\nexcept RuntimeError: pass\nprint('=>', x.tolist())",
                  device="witness")
        self.assertEqual((ran.status, ran.facts.get("failure")), (0, None))
        ran = run("import torch\ntorch.zeros(3).index_select(0, torch.tensor([4]))", device="cpu witness")
        self.assertEqual(ran.facts["failure"]["offence"]["value"], "4")


class LaunchesThatDoNotBlock(Case):
    """The failure is held, surfaces at an innocent call, and stays."""

    ENV = {"CUDA_LAUNCH_BLOCKING": "0"}
    FAIL = HELD

    def test_the_first_call_that_waits_tells_and_the_next_ones_repeat_it(self):
        for line in WAITING:
            again = "try:\n    %s\nexcept RuntimeError as e: first = e\ntry: x.cpu()\nexcept RuntimeError as e:\n" \
                    "    assert str(e) == str(first); raise first" % line
            ran = self.refused(self.FAIL % again, "CUDA error: device-side assert triggered", env=self.ENV)
            self.assertEqual((len(ran.lines), "unreached" in ran.out), (1, False), line)
            self.assertEqual(ran.line, 14, line + ran.err)
            failure = ran.facts["failure"]
            self.assertEqual((failure["op"], failure["offence"]["value"], failure["frames"][-1]["line"]),
                             ("torch.nn.functional.cross_entropy", "7", 6), line)

    def test_what_runs_before_goes_on_while_the_failure_is_held(self):
        ran = run(self.FAIL % "; ".join(GOES_ON), env=self.ENV)
        self.assertEqual((ran.status, ran.out, len(ran.lines)), (0, "unreached\n", 1), ran.err)
        self.assertFalse(ran.facts["failure"]["swallowed"])
        self.assertEqual(ran.facts["failure"]["op"], "torch.nn.functional.cross_entropy")

    def test_with_blocking_launches_the_call_itself_tells(self):
        ran = self.refused(self.FAIL % "", "device-side assert triggered")
        self.assertEqual(ran.line, 6)

    def test_a_swallowed_failure_is_told_from_one_that_is_held(self):
        body = "try: held.item()\nexcept RuntimeError: pass\nx.cpu()"
        self.assertTrue(run(self.FAIL % body, env=self.ENV).facts["failure"]["swallowed"])
        self.assertFalse(run(self.FAIL % "held.item()", env=self.ENV).facts["failure"]["swallowed"])

    def test_the_first_matrix_product_fails_to_create_its_handle(self):
        ran = run(FIRST_PRODUCT, env=self.ENV)
        self.assertEqual((ran.error, ran.line), (
            ("RuntimeError", "CUDA error: CUBLAS_STATUS_INTERNAL_ERROR when calling `cublasCreate(handle)`"), 5), ran.err)
        self.assertEqual(ran.facts["failure"]["op"], "torch.nn.functional.embedding")

    def test_a_pinned_copy_that_does_not_wait_tells_nothing(self):
        ran = run(self.FAIL % "torch.ones(2).pin_memory().cuda(non_blocking=True)", env=self.ENV)
        self.assertEqual((ran.status, ran.out), (0, "unreached\n"), ran.err)

    def test_the_program_may_ask_for_blocking_launches_itself(self):
        ran = run("import os\nos.environ['CUDA_LAUNCH_BLOCKING'] = '1'\n" + self.FAIL % "", env=self.ENV)
        self.assertEqual(ran.line, 8)

    def test_every_class_ends_as_with_blocking_launches_and_each_call_can_be_held_or_raises(self):
        for line, file, function in calls(VERSION):
            ran = run(SETUP + line + "\ntorch.cuda.synchronize()", env=self.ENV)
            self.assertIsNotNone(ran.assertion, line + "\n" + ran.err)
            self.assertEqual(ran.assertion[:2], (file, function), line)
            self.assertEqual(ran.error[1], "CUDA error: device-side assert triggered", line)
            self.assertIn(ran.line, (4, 5), line)
            self.assertEqual(len(ran.lines), 1, line)
            self.assertEqual(ran.facts["failure"]["frames"][-1]["line"], 4, line)
            if ran.line == 4:
                self.assertTrue(any(word in line for word in RAISES_AT_ONCE), line + ran.err)

    def test_shapes_and_graph_are_those_of_a_good_call(self):
        for line in ("F.embedding(i(0, 9), w)", "w.gather(1, i(9)[None])", "w[i(0, 9)]", "w.index_select(0, i(0, 9))",
                     "F.one_hot(i(0, 9), 4)", "F.cross_entropy(w, i(0, 1, 9, 2), reduction='none')", "w.take(i(1, 99))",
                     "torch.bernoulli(x + 9)", "w[[0, 9]]", "w[:, i(7)]", "F.nll_loss(w, i(0, 1, 2, -3))"):
            good = line.replace("9", "0").replace("7", "0").replace("-3", "0").replace("x + 0", "x * 0")
            said = []
            for text in (line, good):
                ran = run(SETUP + "w = x.clone().requires_grad_()\ny = %s\nprint(tuple(y.shape), y.dtype, y.requires_grad,"
                          " y.device)" % text, env=self.ENV)
                said.append(ran.out)
                self.assertEqual(ran.status, 0, ran.err)
            self.assertEqual(*said)


# calls whose asserting kernel is followed by another one in the same call
RAISES_AT_ONCE = ("binary_cross_entropy", "multi_margin", "multinomial", "masked_scatter", "accumulate", "backward",
                  "segment", "sparse", "repeat_interleave(x")


class EveryClassOfTheCatalogue(Case):
    """Each assert that a CPU can show, with a program of its own: (call, file, function, columns of versions)."""

    OLD = VERSION < (2, 0)

    def test_each(self):
        for line, file, function in calls(VERSION):
            ran = run(SETUP + line)
            self.assertIsNotNone(ran.assertion, line + "\n" + ran.err)
            self.assertEqual(ran.assertion[:2], (file, function), line)
            self.assertEqual(ran.error[1], "CUDA error: device-side assert triggered")
            self.assertEqual(ran.line, 4)

    def test_no_kernel_is_without_a_program(self):
        """All that the tables can print is printed by some program, but what this torch cannot reach."""
        from _reduce import emulated_asserts
        seen = {run(SETUP + line).assertion for line, _, _ in calls(VERSION)}
        left = []
        for name, row in emulated_asserts.KERNELS.items():
            entry = row[emulated_asserts.column(VERSION)]
            if entry is None or (name.startswith("once_") and not self.OLD):
                continue            # since 2.1 one sample is drawn on another way
            if name == "select_large" and VERSION >= (2, 8):
                continue            # many indices go to the gather kernels
            if (os.path.basename(row[0]), row[1], entry[1]) not in seen:
                left.append(name)
        self.assertEqual(left, [])

    def test_silence_where_cuda_is_silent(self):
        lines = ["F.multilabel_margin_loss(x[:2, :4], torch.tensor([[3, 0, -1, 1], [9, 0, -1, 1]], device='cuda'))"]
        if self.OLD:
            lines += ["F.multi_margin_loss(x, i(0, 1, 2, 5))", "F.embedding_bag(i(1, 9), x, i(0))",
                      "F.cross_entropy(x.view(1, 5, 2, 2), i(0, 1, 9, 2).view(1, 2, 2), reduction='none')"]
        for line in lines:
            ran = run("import torch, torch.nn.functional as F\nx = torch.randn(4, 5, device='cuda')\n"
                      "i = lambda *v: torch.tensor(v, device='cuda')\nprint(%s.device)" % line)
            self.assertEqual((ran.status, ran.out), (0, "cuda:0\n"), ran.err)


if __name__ == "__main__":
    unittest.main()
