"""A repository with a known culprit, and bisection over it side by side: `reduce`, `git bisect run`, git-bayesect.

1,000 commits with side branches and merges; 15 % of them do not run, in ranges; from one commit on the program fails at
a rate, by chance that no seed pins.  A tool is right when it names the culprit, alone or with commits that cannot be run;
git-bayesect follows first parents and is right with the merge that brought it.

    python3 tests/py/repository.py --reduce target/release/reduce --seeds 1 21 [--bayesect git-bayesect]
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

RATE = 0.5
BROKEN = 0.15
PROGRAM = """import os
import lib
if int.from_bytes(os.urandom(4), "big") / 2 ** 32 < lib.RATE:
    raise ValueError("it broke")
print("fine")
"""
STEP = """#!/bin/sh
# Five repeats a step: one failure is enough for bad, an error of another kind is a skip.
for i in 1 2 3 4 5; do
  echo x >> {count}
  python3 -B run.py > /dev/null 2> {count}.err && continue
  grep -q ValueError {count}.err && exit 1
  exit 125
done
exit 0
"""


def plan(commits, rnd):
    """Parents of each commit: a main line with side branches of two to five commits."""
    parents, main = [[]], 0

    def add(*own):
        parents.append(list(own))
        return len(parents) - 1

    while len(parents) < commits:
        if rnd.random() < 0.06 and len(parents) + 10 < commits:
            tip = main
            for _ in range(rnd.randrange(2, 6)):
                tip = add(tip)
            for _ in range(rnd.randrange(1, 4)):
                main = add(main)
            main = add(main, tip)
        else:
            main = add(main)
    return parents


def make(path, commits, seed):
    """Makes the repository; says its first, last and guilty commit."""
    rnd = random.Random(seed)
    parents = plan(commits, rnd)
    change = rnd.randrange(commits // 10, commits - commits // 20)
    broken, at = set(), 1
    while at < commits - 1:
        if rnd.random() < BROKEN / 3:
            broken.update(range(at, min(at + rnd.randrange(1, 6), commits - 1)))
        at += 1
    holds, stream = [], []
    for number, own in enumerate(parents):
        holds.append(number == change or any(holds[parent] for parent in own))
        lib = "NUMBER = %d\nRATE = %r\n" % (number, RATE if holds[number] else 0.0)
        lib += "import nothing_of_this_name\n" if number in broken else ""
        stream.append("commit refs/heads/main\nmark :%d\ncommitter T <t@example.org> %d +0000\n"
                      % (number + 1, 1600000000 + number * 60))
        stream.append(_data("commit %d" % number))
        stream += [("from" if parent == own[0] else "merge") + " :%d\n" % (parent + 1) for parent in own]
        stream.append("M 100644 inline lib.py\n" + _data(lib))
        if number == 0:
            stream.append("M 100644 inline run.py\n" + _data(PROGRAM))
    path = os.path.abspath(path)
    marks = os.path.join(path, ".git", "marks")
    subprocess.run(["git", "init", "-q", "-b", "main", path], check=True)
    subprocess.run(["git", "fast-import", "--quiet", "--export-marks=" + marks], cwd=path,
                   input="".join(stream).encode(), check=True)
    subprocess.run(["git", "reset", "-q", "--hard"], cwd=path, check=True)
    with open(marks) as handle:
        ids = dict(line.split() for line in handle)
    return ids[":1"], ids[":%d" % commits], ids[":%d" % (change + 1)]


def _data(text):
    return "data %d\n%s\n" % (len(text.encode()), text)


def with_reduce(program, path, good, bad, culprit):
    with open(os.path.join(path, "crash.yaml"), "w") as handle:
        handle.write("command: python3 run.py\n")
    subprocess.run([program, "bisect", "commits", "crash.yaml", "--good", good, "--bad", bad, "-q", "-j1",
                    "--device", "emulated"], cwd=path, stdout=subprocess.DEVNULL)
    with open(os.path.join(path, "crash.bisect", "report.json")) as handle:
        report = json.load(handle)
    named = [change["key"] for change in report["found"].get("change", [])]
    ran = {tried["key"] for tried in report["tried"] if sum(tried["counts"][:2])}
    return {"right": culprit in named and len(ran.intersection(named)) <= 1, "runs": report["runs"]}


def with_git(path, good, bad, culprit):
    count = path + ".count"
    script = path + ".sh"
    with open(script, "w") as handle:
        handle.write(STEP.format(count=count))
    os.chmod(script, 0o755)
    for words in (["start", bad, good], ["run", script]):
        subprocess.run(["git", "bisect"] + words, cwd=path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    log = subprocess.run(["git", "bisect", "log"], cwd=path, capture_output=True, text=True).stdout
    skipped = log.split("only skipped")[1] if "only skipped" in log else ""
    with open(count) as handle:
        runs = len(handle.readlines())
    subprocess.run(["git", "bisect", "reset"], cwd=path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return {"right": "first bad commit: [%s]" % culprit in log or culprit in skipped, "runs": runs}


def with_bayesect(program, path, good, bad, culprit):
    def say(*words):
        return subprocess.run(words, cwd=path, capture_output=True, text=True)

    def git(*words):
        return say("git", *words).stdout.strip()

    say(program, "start", "--old", good, "--new", bad)
    runs, found = 0, None
    while runs < 300 and found is None:
        ended = say(sys.executable, "-B", "run.py")
        runs += 1
        if ended.returncode == 0:
            answer = say(program, "pass")
        elif "ValueError" in ended.stderr:
            answer = say(program, "fail")
        else:
            # It cannot skip and would ask for this commit again: the next older one that runs answers for it.
            git("checkout", "-q", "HEAD^")
            continue
        said = re.search(r"converged to ([0-9a-f]+)", answer.stdout + answer.stderr)
        found = git("rev-parse", said.group(1)) if said else None
    line = git("rev-list", "--first-parent", "--reverse", bad).split()
    brought = next((one for one in line if say("git", "merge-base", "--is-ancestor", culprit, one).returncode == 0), None)
    return {"right": found == brought, "runs": runs}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--reduce")
    parser.add_argument("--bayesect")
    parser.add_argument("--seeds", type=int, nargs=2, default=(1, 21))
    parser.add_argument("--commits", type=int, default=1000)
    options = parser.parse_args()
    for seed in range(*options.seeds):
        folder = tempfile.mkdtemp()
        path = os.path.join(folder, "project")
        ends = make(path, options.commits, seed)
        row = {"seed": seed, "git bisect run": with_git(path, *ends)}
        if options.reduce:
            row["reduce"] = with_reduce(os.path.abspath(options.reduce), path, *ends)
        if options.bayesect:
            row["git-bayesect"] = with_bayesect(options.bayesect, path, *ends)
        print(json.dumps(row), flush=True)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
