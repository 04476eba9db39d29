"""Shows that the slippery case does slip when a reducer only asks whether the program still dies with an assert.

Deletes statements one by one, latest first, and keeps each deletion after which any device-side assert is printed. The
result must fail in another operator, at another statement or with another value than the original; else the case is not
slippery and proves nothing.

usage: slip.py HARNESS_FOLDER CASE_FOLDER
"""

import ast
import os
import re
import shlex
import shutil
import sys
import tempfile

import minimal


def main():
    harness, case = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    with open(os.path.join(case, "crash.yaml"), encoding="utf-8") as file:
        command = shlex.split(re.search(r"^command: *(.*)$", file.read(), re.M).group(1).strip("'\""))
    report = {
        "setting": {"seed": 0, "num_workers": 0, "launch_blocking": True},
        "program": {"kind": "script", "target": command[1], "argv": command[2:], "workdir": "."},
    }
    work = tempfile.mkdtemp(prefix="slip-")
    source = os.path.join(work, "source")
    shutil.copytree(case, source)
    path = command[1]
    with open(os.path.join(source, path), encoding="utf-8") as file:
        tree = ast.parse(file.read())
    runner = minimal.Runner(harness, source, report, 1)
    [wanted] = runner.run([{}])
    text, tries = None, 0
    victims = sorted(
        (s for _, _, block in minimal.lists(tree) for s in block), key=lambda s: (s.lineno, s.col_offset), reverse=True
    )
    gone = []
    for victim in victims:
        candidate = minimal.without(tree, gone + [victim])
        try:
            compile(candidate, path, "exec")
        except SyntaxError:
            continue
        tries += 1
        [found] = runner.run([{path: candidate}])
        if found is not None:
            gone.append(victim)
            text, last = candidate, found
    runner.close()
    shutil.rmtree(work, ignore_errors=True)
    if text is None or minimal.same(last, wanted):
        print("the case does not slip: %r" % (wanted,))
        return 1
    print("%d runs without a signature slip from %s to %s" % (tries, describe(wanted), describe(last)))
    return 0


def describe(failure):
    operator, kind, value, limit, chain = failure
    return "%s at `%s` (%s against %s)" % (operator, (chain[-1] or "?").splitlines()[0], value, limit)


if __name__ == "__main__":
    sys.exit(main())
