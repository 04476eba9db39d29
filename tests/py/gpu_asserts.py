"""Which kernel asserts, call by call: a real CUDA device against the emulated one.

`python tests/py/gpu_asserts.py` from the repository's root, on a machine with a device and an interpreter that has
torch; a forked child a call and setting, about three minutes in all.  Prints each difference, then the counts; fails
if any differs.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from emulated_programs import FIRST_PRODUCT, GOES_ON, HELD, SETUP, WAITING, calls  # noqa: E402
from forked import VERSION, run  # noqa: E402

# shapes and modes whose kernel no log shows yet
ASKED = (
    "x.index_put_((i(9),), x[0, 0].clone(), accumulate=True)",
    "torch.use_deterministic_algorithms(True); x[i(0, 9)] = 1.",
    "x[:, :4].contiguous().gather(0, i(0, 9)[:, None].expand(2, 4))",
    "x.gather(0, i(0, 9)[:, None].expand(2, 5))",
    "x.scatter_(0, i(9, 9, 9, 9, 9)[None], torch.ones(1, 5).cuda())",
    "x.scatter_reduce_(0, i(9, 9, 9, 9, 9)[None], torch.ones(1, 5).cuda(), 'amax')",
    "torch.zeros(8, 64).cuda().scatter_add_(0, torch.full((20, 1), 9).cuda().expand(20, 64), torch.ones(20, 64).cuda())",
    "torch.zeros(8, 64).cuda().index_add_(0, torch.full((20,), 9).cuda(), torch.ones(20, 64).cuda())",
    "torch.randn(3, 20, 8).cuda().index_select(1, torch.full((100,), 20).cuda())",
    "torch.randn(20, 8).cuda().index_select(1, torch.full((100,), 20).cuda())",
    "torch.randn(20, 4, 4).cuda()[torch.full((100,), 20).cuda()]",
    "torch.randn(20, 8).cuda()[torch.full((3, 3), 20).cuda()]",
    "torch.randn(20, 8).cuda()[torch.full((20,), -21).cuda()]",
    "torch.randn(20, 8).cuda()[:, torch.full((20,), 8).cuda()]",
    "torch.randn(20).cuda()[torch.full((100,), 20).cuda()]",
    "F.embedding(torch.full((17,), 20).cuda(), torch.randn(20, 8).cuda().half())",
    "F.embedding(torch.full((16,), 20).cuda(), torch.randn(20, 8).cuda())",
    "F.embedding(torch.full((4, 8), -1).cuda(), torch.randn(20, 8).cuda())",
    "F.embedding(torch.full((4, 8), 20).cuda(), torch.randn(20, 7).cuda())",
    "F.embedding(i(3, 20), torch.randn(20, 8).cuda(), max_norm=1.0)",
    "torch.multinomial(torch.tensor([0.1, float('nan')]).cuda(), 4, True)",
    "torch.multinomial(torch.tensor([0.1, float('inf')]).cuda(), 4, True)",
    "torch.multinomial(torch.zeros(2, 3).cuda(), 1)",
    "torch.multinomial(torch.zeros(2, 3).cuda(), 1, True)",
    "torch.bernoulli(torch.tensor([0.5, 0.5, 0.5, 2., 2., 0.5]).cuda())",
    "torch.bernoulli(torch.tensor([0.5, float('nan')]).cuda())",
    "torch.zeros(3).cuda().bernoulli_(torch.tensor([0.5, 2., 0.5]).cuda())",
    "torch.distributions.Bernoulli(probs=x + 9, validate_args=False).sample()",
    "torch.repeat_interleave(i(1, -2, 4), output_size=3)",
    "F.embedding_bag(i(1, -1), x, i(0))",
    "F.cross_entropy(x, i(0, 9, 1, 2), label_smoothing=0.1)",
    "F.cross_entropy(x.view(1, 5, 4), i(0, 1, 9, 2).view(1, 4))",
    "F.cross_entropy(x[0], i(9)[0], reduction='none')",
    "F.multi_margin_loss(x[0], i(9)[0])", "F.max_unpool1d(x[None, :2, :2], i(0, 99, 0, 1).view(1, 2, 2), 2)",
    "torch.take_along_dim(x, i(9, 9, 9, 9, 9)[None], 0)", "torch.segment_reduce(x[0], 'sum', lengths=i(-1, 6), unsafe=True)",
    "F.one_hot(i(3, -1))", "x.index_reduce_(0, i(9), x[:1].clone(), 'mean')",
    "x.requires_grad_(); y = x.gather(0, i(0, 1, 2, 3)[:, None]); y.sum().backward(); x[9:]",
)


def asked():
    """(program, CUDA_LAUNCH_BLOCKING) of all that is compared."""
    for call in [row[0] for row in calls(VERSION)] + list(ASKED):
        for blocking in "10":
            yield SETUP + call + "\ntorch.cuda.synchronize()", blocking
    for line in WAITING + GOES_ON:
        yield HELD % line, "0"
    yield FIRST_PRODUCT, "0"


def main():
    agree = {"0": [], "1": []}
    for program, blocking in asked():
        env = {"CUDA_LAUNCH_BLOCKING": blocking}
        real, emulated = run(program, device="plain", env=env), run(program, env=env)
        same = all(getattr(real, k) == getattr(emulated, k) for k in ("status", "assertion", "error", "line", "expression"))
        agree[blocking].append(same)
        if not same:
            print("differs, CUDA_LAUNCH_BLOCKING=%s: %s" % (blocking, program.replace(SETUP, "").strip()))
            for name, ran in (("real", real), ("emulated", emulated)):
                print("  %-8s %s line %s `%s` %s\n           %s" % (
                    name, ran.status, ran.line, ran.expression, ran.error, (ran.lines or ["no assertion"])[0]))
        sys.stdout.flush()
    for blocking, found in sorted(agree.items()):
        print("CUDA_LAUNCH_BLOCKING=%s: %d of %d agree, torch %d.%d" % ((blocking, sum(found), len(found)) + VERSION))
    return 0 if all(agree["0"] + agree["1"]) else 1


if __name__ == "__main__":
    sys.exit(main())
