"""Failing calls recorded, and programs run, one forked child each: the two halves of a test of one-call programs.

`python call_programs.py record` prints the failures of all calls that assert, and of calls made in all places, as outcome.json has them, one JSON list.
`python call_programs.py run` reads a JSON list of programs from standard input and prints how each ended.
"""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from emulated_programs import SETUP, calls  # noqa: E402
from forked import VERSION, run  # noqa: E402
from test_record import HEAD, PLACES  # noqa: E402

# other spellings and operators, and a failure that one call cannot show
MORE = ["x.scatter_add_(0, i(0, 9)[None], x[:1, :2].clone())", "torch.gather(x, 0, i(9)[None])",
        "x.scatter_reduce_(0, i(0, 9)[None], x[:1, :2].clone(), 'amax')", "x.scatter_(0, i(9)[None], x[:1, :1].clone())",
        "x.index_put_((i(9), i(0)), x[0, 0].clone())", "torch.embedding(x, i(0, 9))", "torch.index_select(x, 0, i(0, -1))",
        "torch.zeros(3).cuda().bernoulli_(torch.tensor([0.5, 2., 0.5]).cuda())", "torch.bernoulli(x * float('nan'))",
        "F.max_unpool1d(x[None, :2, :2], i(0, 99, 0, 1).view(1, 2, 2), 2)", "x[i(0, -9)]", "x[..., i(9)] = 1",
        "torch._assert_async(x[0, 0] * 0, 'words')" if VERSION >= (2, 1) else "torch._assert_async(x[0, 0] * 0)",
        "torch.multinomial(x * float('inf'), 1, True)", "torch.multinomial(x * float('nan'), 1, True)",
        "x.requires_grad_(); t = i(0, 1, 2, 3); l = F.cross_entropy(x, t); t.data[1] = 9; l.backward()",
        "x.requires_grad_(); t = i(0, 1, 2, 3); l = F.cross_entropy(x, t); t.data[1] = -9; l.backward()",
        "x.requires_grad_(); k = i(0, 1)[None]; l = x.gather(0, k).sum(); k.data[0, 1] = 9; l.backward()",
        "x.requires_grad_(); k = i(0, 1); l = x.index_select(0, k).sum(); k.data[1] = 9; l.backward()"]


def record():
    """One entry a call: its text, its failure."""
    entries = []
    programs = [(line, SETUP + line) for line in [row[0] for row in calls(VERSION)] + MORE]
    programs += [(place, HEAD + program) for place, (program, _) in PLACES.items()]
    for call, program in programs:
        ran = run(program, trace=True, DEVICE="cuda")
        entries.append({"call": call, "failure": ran.facts["failure"], "stderr": ran.err})
    return entries


def programs(texts):
    """One entry a program: status, standard error, the operator that failed."""
    entries = []
    for text in texts:
        ran = run(text)
        failure = ran.facts.get("failure")
        entries.append({"status": ran.status, "stderr": ran.err, "op": failure and failure["op"]})
    return entries


if __name__ == "__main__":
    print("=>" + json.dumps(record() if sys.argv[1] == "record" else programs(json.load(sys.stdin))))
