"""Checks, without any of reduce's own analysis, that no single statement of a reduced program can go.

For each statement of `source/`: deleted, replaced by `pass`, and deleted together with the later readers of the names that
it alone binds. Every variant runs on the emulated device through the harness's fork server; a variant that fails at the
same statement, in the same operator, with the same offending value and limit is a counter-example.

usage: minimal.py HARNESS_FOLDER BUNDLE [JOBS]
"""

import ast
import builtins
import copy
import json
import os
import shutil
import subprocess
import sys
import tempfile

FIELDS = ("body", "orelse", "finalbody")


def lists(tree):
    """Every list of statements in a tree, with the node and field that hold it."""
    for node in ast.walk(tree):
        for field in FIELDS:
            block = getattr(node, field, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield node, field, block
        for case in getattr(node, "cases", []):
            yield case, "body", case.body


def own_names(node, context):
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, context)}


def bound(node):
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.With)):
        header = copy.copy(node)
        for field in FIELDS:
            if hasattr(header, field):
                setattr(header, field, [])
        return own_names(header, (ast.Store,))
    return set()


def scopes(tree):
    """Statement to the function, class or module whose names it binds."""
    home = {}

    def visit(node, scope):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                home[child] = scope
            inner = child if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) else scope
            visit(child, inner)

    visit(tree, tree)
    return home


def readers(tree, victim):
    home = scopes(tree)
    names = bound(victim) - set(dir(builtins))
    others = [s for s in home if s is not victim and home[s] is home[victim]]
    alone = {name for name in names if not any(name in bound(other) for other in others)}
    inside = set(ast.walk(victim))
    found = []
    for statement in home:
        if statement is victim or statement in inside or statement.lineno < victim.lineno:
            continue
        header = copy.copy(statement)
        for field in FIELDS:
            if hasattr(header, field):
                setattr(header, field, [])
        if own_names(header, (ast.Load,)) & alone:
            found.append(statement)
    return found


def without(tree, victims, keep_pass=False):
    """Text of a tree less some statements, found again by their places."""
    places = {(v.lineno, v.col_offset, type(v)) for v in victims}
    tree = copy.deepcopy(tree)
    for node, field, block in list(lists(tree)):
        left = []
        for statement in block:
            if (statement.lineno, statement.col_offset, type(statement)) in places:
                if keep_pass:
                    left.append(ast.copy_location(ast.Pass(), statement))
            else:
                left.append(statement)
        if not left and (field == "body" and not isinstance(node, ast.Module)):
            left.append(ast.Pass())
        setattr(node, field, left)
    for node in ast.walk(tree):
        if isinstance(node, ast.Try) and not node.handlers and not node.finalbody:
            node.finalbody = [ast.Pass()]
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


class Runner:
    """Asks the harness, several trials at a time."""

    def __init__(self, harness, source, report, jobs):
        self.source, self.report, self.jobs = source, report, jobs
        self.scratch = tempfile.mkdtemp(prefix="minimal-")
        self.server = subprocess.Popen(
            [sys.executable, "-B", os.path.join(harness, "server.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=dict(os.environ, PYTHONHASHSEED=str(report["setting"]["seed"] or 0)),
        )
        self.send(
            {
                "preload": ["torch", "numpy", "torch._dynamo", "torch.utils.data", "torch.optim"],
                "project": source,
                "device": "emulated",
                "network": False,
                "write": [],
                "sandbox": True,
                "catalog": os.path.join(harness, "catalog.json"),
                "memory": None,
            }
        )
        assert json.loads(self.server.stdout.readline())["ready"]
        self.count = 0

    def send(self, message):
        self.server.stdin.write(json.dumps(message) + "\n")
        self.server.stdin.flush()

    def run(self, variants):
        """Failures of variants (file to text), in their order."""
        results, waiting, flying = [None] * len(variants), list(range(len(variants)))[::-1], {}
        while waiting or flying:
            while waiting and len(flying) < self.jobs:
                index = waiting.pop()
                self.count += 1
                folder = os.path.join(self.scratch, str(self.count))
                os.makedirs(os.path.join(folder, "tmp"))
                for path, text in variants[index].items():
                    target = os.path.join(folder, "files", path)
                    os.makedirs(os.path.dirname(target), exist_ok=True)
                    with open(target, "w", encoding="utf-8") as file:
                        file.write(text)
                os.makedirs(os.path.join(folder, "files"), exist_ok=True)
                setting = self.report["setting"]
                program = self.report["program"]
                self.send(
                    {
                        "trial": self.count,
                        "mode": "fork",
                        "scratch": folder,
                        "project": self.source,
                        "workdir": program["workdir"],
                        "changed": sorted(variants[index]),
                        "removed": [],
                        "program": {k: program[k] for k in ("kind", "target", "argv")},
                        "env": {},
                        "seed": setting["seed"],
                        "num_workers": setting["num_workers"],
                        "launch_blocking": setting["launch_blocking"],
                        "device": "emulated",
                        "witness": True,
                        "trace": False,
                        "inventory": False,
                    }
                )
                flying[self.count] = (index, folder)
            event = json.loads(self.server.stdout.readline())
            if "pid" in event:
                continue
            index, folder = flying.pop(event["trial"])
            results[index] = self.failure(variants[index], folder)
            shutil.rmtree(folder, ignore_errors=True)
        return results

    def failure(self, variant, folder):
        try:
            with open(os.path.join(folder, "outcome.json"), encoding="utf-8") as file:
                failure = json.load(file)["failure"]
        except (OSError, ValueError, KeyError):
            return None
        if not failure:
            return None
        offence = failure.get("offence") or {}
        value = offence.get("value")
        try:
            int(value)
        except (TypeError, ValueError):
            value = limit = None
        else:
            # An integer stands in one row of the data; another row with the same value is another failure.
            limit = offence.get("limit"), offence.get("sample")
        chain = [self.statement(variant, frame) for frame in failure["frames"]]
        return failure["op"], offence.get("kind"), value, limit, chain

    def statement(self, variant, frame):
        path = frame["file"]
        text = variant.get(path)
        if text is None:
            with open(os.path.join(self.source, path), encoding="utf-8") as file:
                text = file.read()
        best = None
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.stmt) and node.lineno <= frame["line"] <= node.end_lineno:
                if best is None or node.lineno >= best.lineno:
                    best = node
        if best is None:
            return None
        header = copy.copy(best)
        for field in FIELDS:
            if getattr(header, field, None):
                setattr(header, field, [ast.Pass()] if field == "body" else [])
        return ast.unparse(header)

    def close(self):
        self.send({"quit": True})
        self.server.wait(10)
        shutil.rmtree(self.scratch, ignore_errors=True)


def same(found, wanted):
    if found is None or found[:4] != wanted[:4] or not found[4] or found[4][-1] != wanted[4][-1]:
        return False
    rest = iter(wanted[4])
    return all(any(statement == other for other in rest) for statement in found[4])


def main():
    harness, bundle = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    jobs = int(sys.argv[3]) if len(sys.argv) > 3 else 2
    with open(os.path.join(bundle, "report.json"), encoding="utf-8") as file:
        report = json.load(file)
    source = os.path.join(bundle, "source")
    variants, labels = [{}], ["the program itself"]
    statements = 0
    for path in report["source_files"]:
        with open(os.path.join(source, path), encoding="utf-8") as file:
            text = file.read()
        tree = ast.parse(text)
        for _, _, block in lists(tree):
            for victim in block:
                statements += 1
                label = "%s:%d: %s" % (path, victim.lineno, ast.unparse(victim).splitlines()[0])
                for how, text in (
                    ("deleted", without(tree, [victim])),
                    ("replaced by pass", without(tree, [victim], keep_pass=True)),
                    ("deleted with its readers", without(tree, [victim] + readers(tree, victim))),
                ):
                    try:
                        compile(text, path, "exec")
                    except SyntaxError:
                        continue
                    if text.strip() == ast.unparse(tree).strip() or {path: text} in variants:
                        continue
                    variants.append({path: text})
                    labels.append("%s (%s)" % (label, how))
    runner = Runner(harness, source, report, jobs)
    results = runner.run(variants)
    runner.close()
    wanted = results[0]
    if wanted is None:
        print("the reduced program itself does not fail")
        return 2
    wrong = [label for label, found in zip(labels[1:], results[1:]) if same(found, wanted)]
    for label in wrong:
        print("not needed:", label)
    print("%d statements, %d variants run, %d not needed" % (statements, len(variants) - 1, len(wrong)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
