"""The training loop, counted and cut: says at which step the program fails, and starts it at a later one.

Invariant: a step that is left out only lacks the body of the loop: its data is still drawn; the text of the program stays as
it is, and every line keeps its number.  States of the random generators are saved before each step and put back before
the first one that runs.
"""

import ast
import builtins
import os
import pickle
import random
import sys
from importlib.machinery import SourceFileLoader

from . import report as _report

_NAME = "__reduce_steps__"
_SIGNS = {"backward", "step", "zero_grad"}     # what a training loop calls


def install(spec, told, report):
    """`told`: frames [[file, line], ...], outermost first; first: the first step that runs; save, restore: files."""
    loop = find(spec["root"], told["frames"])
    facts = {"file": None, "line": None, "pass": 0, "step": None, "in_pass": None, "cuts": []}
    report.facts["steps"] = facts
    if loop is None:
        return
    file, node, outer = loop
    facts.update(file=file, line=node.lineno)
    told = dict(told, save=told.get("save") and os.path.join(spec["scratch"], told["save"]))
    counter = _Counter(told, facts, [_place(node.iter)] + ([_place(outer.iter)] if outer else []))
    setattr(builtins, _NAME, counter.steps)
    _rewrite(spec["root"], (file, node.lineno))


def find(root, frames):
    """File and `for` statement whose rounds are the steps, and the loop around it; None where there is none.

    It is the innermost loop around the failing call that trains; where none does, the innermost one of the outermost frame.
    """
    around = []
    for file, line in frames:
        try:
            with open(os.path.join(root, file), "rb") as handle:
                tree = ast.parse(handle.read())
        except (OSError, SyntaxError, ValueError):
            continue
        here = [node for node in ast.walk(tree) if isinstance(node, (ast.For, ast.AsyncFor))
                and node.body[0].lineno <= line <= _last_line(node)]
        around.append([(file, node) for node in sorted(here, key=lambda node: node.lineno)])
    training = [(file, node) for frame in around for file, node in frame if _trains(node)]
    innermost = training or next((frame for frame in around if frame), [])
    if not innermost or isinstance(innermost[-1][1], ast.AsyncFor):
        return None
    file, node = innermost[-1]
    around = [other for frame in around for name, other in frame
              if name == file and other.lineno < node.lineno and _last_line(other) >= _last_line(node)]
    return file, node, around[-1] if around else None


def _place(node):
    return [node.lineno, node.col_offset, node.end_lineno, node.end_col_offset]


def _last_line(node):
    return max(getattr(part, "end_lineno", 0) or 0 for part in ast.walk(node))


def _trains(node):
    calls = (call.func for call in ast.walk(node) if isinstance(call, ast.Call))
    return any(isinstance(func, ast.Attribute) and func.attr in _SIGNS for func in calls)


class _Cut(ast.NodeTransformer):
    """Puts the counter around what the loop goes over."""

    def __init__(self, line):
        self.line = line

    def visit_For(self, node):
        self.generic_visit(node)
        if node.lineno == self.line:
            name = ast.copy_location(ast.Name(_NAME, ast.Load()), node.iter)
            node.iter = ast.copy_location(ast.Call(name, [node.iter], []), node.iter)
        return node


def _rewrite(root, loop):
    """Compiles that one file with the counter in it, be it the script or a module."""
    wanted = os.path.realpath(os.path.join(root, loop[0]))
    genuine = builtins.compile
    to_code = SourceFileLoader.source_to_code
    stats = SourceFileLoader.path_stats

    def is_it(path):
        return isinstance(path, str) and os.path.realpath(path) == wanted

    def compile(source, filename, mode, *arguments, **named):
        if mode == "exec" and is_it(filename) and not isinstance(source, ast.AST):
            source = _Cut(loop[1]).visit(ast.parse(source, filename))
        return genuine(source, filename, mode, *arguments, **named)

    def source_to_code(self, data, path, **named):
        if is_it(path) and not isinstance(data, ast.AST):
            data = _Cut(loop[1]).visit(ast.parse(data, path))
        return to_code(self, data, path, **named)

    def path_stats(self, path):
        if is_it(path):
            raise OSError("counted: byte code is not for this text")
        return stats(self, path)

    # The harness compiles the script itself; modules come by their loader.
    sys.modules["_reduce.program"].__dict__["compile"] = compile
    SourceFileLoader.source_to_code = source_to_code
    SourceFileLoader.path_stats = path_stats


class _Counter:
    """Counts the rounds of the loop over all its passes."""

    def __init__(self, told, facts, places):
        self.places = places
        self.first = told.get("first") or 0
        self.restore = told.get("restore")
        self.facts = facts
        self.number = 0
        self.log = None
        if told.get("save"):
            # Unbuffered: a failure of the device may end the process without a word.
            self.log = open(told["save"], "wb", buffering=0)

    def steps(self, iterable):
        facts = self.facts
        facts["pass"] += 1
        for in_pass, value in enumerate(iterable):
            number = self.number
            self.number += 1
            if number < self.first:
                continue
            facts["step"], facts["in_pass"] = number, in_pass
            facts["cuts"] = list(zip(self.places, (in_pass, facts["pass"] - 1)))
            if self.log is not None:
                self.log.write(pickle.dumps(_states()))
            if self.restore and number == self.first:
                _restore(_read(self.restore, number))
            yield value


def _states():
    """States of all generators that are there."""
    states = {"random": random.getstate()}
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        states["numpy"] = numpy.get_state()
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "random"):
        states["torch"] = torch.random.default_generator.get_state().numpy().tobytes()
        try:
            if torch.cuda.is_initialized():
                states["cuda"] = [state.numpy().tobytes() for state in torch.cuda.get_rng_state_all()]
        except Exception:
            pass    # an emulated device has the generator of the CPU
    return states


def _restore(states):
    if states is None:
        return
    random.setstate(states["random"])
    numpy = sys.modules.get("numpy.random")
    if numpy is not None and "numpy" in states:
        numpy.set_state(states["numpy"])
    torch = sys.modules.get("torch")
    if torch is None or "torch" not in states:
        return

    def tensor(data):
        return torch.frombuffer(bytearray(data), dtype=torch.uint8)

    torch.random.default_generator.set_state(tensor(states["torch"]))
    if "cuda" in states:
        torch.cuda.set_rng_state_all([tensor(data) for data in states["cuda"]])


def _read(path, number):
    """The states before a step, from the file of the run that saved them."""
    try:
        with open(path, "rb") as handle:
            for _ in range(number):
                pickle.load(handle)
            return pickle.load(handle)
    except (OSError, EOFError, pickle.UnpicklingError):
        _report.note("harness", text="no state of the random generators for step %d" % number)
        return None
