//! Bad input, through the real binary and the real torch: a clear error or a right result, and the user's files untouched.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use walkdir::WalkDir;

use crate::support::{new_python, reduce, report, run, text};

/// A project of a few files in a folder of its own.
struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    fn new(files: &[(&str, &str)]) -> Self {
        let project = Self { folder: tempfile::tempdir().unwrap() };
        for (path, text) in files {
            project.write(path, text.as_bytes());
        }
        project
    }

    /// One program, `x.py`, and a case for it.
    fn program(program: &str, more: &str) -> Self {
        let project = Self::new(&[("x.py", program)]);
        project.case("python x.py", more);
        project
    }

    fn case(&self, command: &str, more: &str) {
        let python = new_python();
        self.write("crash.yaml", format!("command: {command}\npython: {}\n{more}\n", python.display()).as_bytes());
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn out(&self) -> PathBuf {
        self.path("crash.reduced")
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// The binary, started in the folder of the project, with its interpreter as the active one.
    fn reduce(&self, words: &[&str]) -> Command {
        let mut command = reduce();
        let python = new_python();
        let prefix = python.parent().and_then(Path::parent).unwrap();
        command.current_dir(self.folder.path()).env("VIRTUAL_ENV", prefix).args(words);
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        run(&mut self.reduce(words))
    }

    /// The main job on `crash.yaml`, on the emulated device.
    fn job(&self, more: &[&str]) -> Output {
        self.run(&[&["crash.yaml", "--device", "emulated"], more].concat())
    }

    fn check(&self) -> Output {
        self.run(&["check", "crash.yaml", "--device", "emulated"])
    }
}

/// Ends with this code, and says all of this.
#[track_caller]
fn expect(output: &Output, code: i32, says: &[&str]) {
    let text = text(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    for words in says {
        assert!(text.contains(words), "`{words}` is not said:\n{text}");
    }
}

/// Everything that a program could have changed of a folder: kinds, contents, links, modes, owners and times.
fn everything(folder: &Path) -> Vec<(String, String, Vec<u8>)> {
    let mut all: Vec<_> = WalkDir::new(folder)
        .into_iter()
        .map(Result::unwrap)
        .filter(|entry| !entry.path().components().any(|part| part.as_os_str().to_string_lossy().ends_with(".reduced")))
        .map(|entry| {
            let facts = fs::symlink_metadata(entry.path()).unwrap();
            let content = match facts.file_type() {
                kind if kind.is_file() => fs::read(entry.path()).unwrap(),
                kind if kind.is_symlink() => fs::read_link(entry.path()).unwrap().to_string_lossy().as_bytes().to_vec(),
                _ => Vec::new(),
            };
            // The folder of the case gets the bundle; its own times may move.
            let times =
                (entry.depth() > 0).then(|| (facts.mtime(), facts.mtime_nsec(), facts.ctime(), facts.ctime_nsec()));
            let facts = format!("{:o} {} {} {times:?}", facts.mode(), facts.uid(), facts.gid());
            (entry.path().to_string_lossy().into_owned(), facts, content)
        })
        .collect();
    all.sort();
    all
}

/// A program whose only fault is a label: what stands before may be anything.
fn failing(before: &str) -> String {
    format!(
        "import os, sys, time\nimport torch\nimport torch.nn.functional as F\n\nlabel = 4\n{before}\n\
         x = torch.zeros(5, 4).cuda()\ny = torch.tensor([0, 1, 2, 3, label]).cuda()\nF.cross_entropy(x, y)\n"
    )
}

// --- refused before anything runs ------------------------------------------------------------------------------------

#[test]
fn a_wrong_case_or_command_is_wrong_usage() {
    let project = Project::new(&[("x.py", "pass\n"), ("empty.yaml", ""), ("list.yaml", "- a\n- b\n")]);
    project.write("broken.yaml", b"command: [python\n");
    project.write("typed.yaml", b"command: python x.py\nseed: soon\n");
    project.write("missing.yaml", b"# a case\ncommand: python gone.py\n");
    project.write("tool.yaml", b"command: ls -l\n");
    project.write("unknown.yaml", b"command: python x.py\nsead: 1\n");
    let wrong = [
        ("empty.yaml", "empty.yaml"),
        ("list.yaml", "list.yaml"),
        ("broken.yaml", "broken.yaml:"),
        ("typed.yaml", "typed.yaml:2: seed"),
        ("missing.yaml", "missing.yaml:2: command"),
        ("tool.yaml", "tool.yaml:1: command"),
        ("unknown.yaml", "`seed`"),
        ("nowhere.yaml", "nowhere.yaml"),
    ];
    for (case, says) in wrong {
        expect(&project.run(&[case]), 2, &[says]);
        expect(&project.run(&["check", case]), 2, &[says]);
    }
    assert!(!project.path("empty.reduced").exists());
}

#[test]
fn no_interpreter_no_torch_or_no_gpu_says_the_ways_out() {
    let project = Project::program("import torch\n", "");
    let bare = project.path("bare");
    let made = run(Command::new(new_python()).args(["-m", "venv", "--without-pip"]).arg(&bare));
    assert!(made.status.success(), "{}", text(&made));
    project.write("bare.yaml", b"command: python x.py\npython: bare/bin/python\n");
    expect(&project.run(&["bare.yaml"]), 7, &["no torch", "hint: name an interpreter", "requirements"]);
    project.write("none.yaml", b"command: /nowhere/bin/python x.py\n");
    expect(&project.run(&["none.yaml"]), 7, &["/nowhere/bin/python", "hint: name an interpreter"]);
    if !Path::new("/dev/nvidiactl").exists() {
        expect(&project.run(&["crash.yaml", "--device", "cuda"]), 7, &["no GPU", "--device emulated"]);
    }
}

// --- programs that do not do what a case is for ----------------------------------------------------------------------

#[test]
fn a_program_that_does_not_crash_says_what_was_seen_and_leaves_no_folder() {
    let project = Project::program(&failing("label = 3"), "");
    let output = project.job(&[]);
    expect(&output, 3, &["no device-side failure, exit status 0", "hint:"]);
    assert!(!project.out().exists(), "a folder without a result");
    project.write("x.py", failing("label = missing").as_bytes());
    expect(&project.job(&[]), 3, &["NameError", "x.py:6"]);
    project.write("x.py", b"import torch\nif True print(1)\n");
    expect(&project.job(&[]), 3, &["x.py:2: ", "invalid syntax"]);
}

#[test]
fn a_program_that_hangs_or_prints_without_end_is_ended() {
    let project = Project::program("while True:\n    pass\n", "timeout: 2s");
    let begun = Instant::now();
    expect(&project.job(&[]), 3, &["no end after 2 s", "timeout"]);
    assert!(begun.elapsed() < Duration::from_secs(60));
    let gigabyte = "for _ in range(1024):\n    print('x' * 1048576)\n";
    let project = Project::program(&failing(gigabyte), "");
    expect(&project.job(&[]), 3, &["it printed more than 64 MiB and was ended"]);
}

#[test]
fn the_hint_is_for_what_ended_the_run() {
    let gigabyte = "for _ in range(1024):\n    print('x' * 1048576)\n";
    let wrong = "an error of Python's own";
    let ends: [(&str, &str, &str, &str); 3] = [
        ("while True:\n    pass\n", "timeout: 2s", "hint: a program that takes longer: raise `timeout:`", wrong),
        (gigabyte, "", "hint: print less", wrong),
        ("label = missing\n", "", wrong, "timeout"),
    ];
    for (program, more, says, never) in ends {
        let output = Project::program(program, more).job(&[]);
        expect(&output, 3, &[says]);
        assert!(!text(&output).contains(never), "{}", text(&output));
    }
}

#[test]
fn a_bundle_folder_that_cannot_be_made_is_wrong_usage() {
    let project = Project::program(&failing(""), "");
    for (out, why) in [("/proc/x", "/proc/x"), ("x.py", "it is a file"), ("x.py/y", "x.py/y")] {
        for words in [&["crash.yaml"][..], &["bisect", "launches", "crash.yaml"], &["crash.yaml", "--force"]] {
            let output = project.run(&[words, &["--device", "emulated", "--out", out]].concat());
            expect(&output, 2, &["cannot write a bundle into", why, "hint: choose another folder with `--out DIR`"]);
        }
    }
    assert_eq!(project.read("x.py"), failing(""));
}

#[test]
fn another_failure_than_expected_shows_both() {
    let project = Project::program(&failing(""), "expect: {assertion: \"srcIndex < srcSelectDimSize\"}");
    expect(&project.job(&[]), 6, &["srcIndex < srcSelectDimSize", "t >= 0 && t < n_classes"]);
}

#[test]
fn a_failure_by_chance_is_never_a_result() {
    let project = Project::program(&failing("label = 4 if os.urandom(1)[0] < 26 else 0"), "");
    let output = project.job(&[]);
    let code = output.status.code();
    assert!(matches!(code, Some(3 | 4)), "{}", text(&output));
    if code == Some(4) {
        expect(&output, 4, &["comes and goes", "runs show it", "seed:"]);
    }
    assert!(!project.path("crash.reduced/repro.py").exists());
}

// --- programs of every look ------------------------------------------------------------------------------------------

#[test]
fn encodings_line_ends_and_rare_syntax_survive() {
    let train = "import functools
import torch; import torch.nn.functional as F; unused = 1
from .consts import *
from . import latin
from .lines import labels


def logged(function):
    @functools.wraps(function)
    def inner(*args, **named):
        print('call', function.__name__); return function(*args, **named)
    return inner


@logged
def step(x, y):
    def loss(a, b):
        return F.cross_entropy(a, b)
    return loss(x, y)


exec('EXTRA = 1; WIDTH = CLASSES')

if __name__ == '__main__':
    total = 1 + \\
        2
    x = torch.zeros(5, WIDTH + latin.size() - 4).cuda(); y = labels(latin.size()).cuda()
    step(x, y); print(total)
";
    let project = Project::new(&[("pkg/__init__.py", ""), ("pkg/train.py", train)]);
    project.write("pkg/consts.py", "\u{feff}CLASSES = 4\nUNUSED = 'bom'\n".as_bytes());
    project.write(
        "pkg/latin.py",
        b"# -*- coding: latin-1 -*-\nNAME = 'caf\xe9'\nOTHER = 'na\xefve'\n\ndef size():\n    return len(NAME)\n",
    );
    project.write("pkg/lines.py", b"import torch\r\n\r\ndef labels(n):\r\n\tif n > 0:\r\n\t\tvalues = [0, 1, 2, 3, n]\r\n\telse:\r\n\t\tvalues = []\r\n\tprint(values)\r\n\treturn torch.tensor(values)\r\n");
    project.case("python -m pkg.train", "");
    let before = everything(project.folder.path());
    expect(&project.job(&[]), 0, &["label_out_of_range", "confirmed: 3 of 3"]);
    assert_eq!(before, everything(project.folder.path()));
    let report = report(&project.out());
    assert_eq!(report["certificate"], "full");
    let source = project.out().join("source/pkg");
    let lines = fs::read_to_string(source.join("lines.py")).unwrap();
    assert_eq!(lines.matches('\n').count(), lines.matches("\r\n").count(), "{lines:?}");
    assert!(lines.contains("\r\n\tvalues = [0, 1, 2, 3, n]"), "{lines:?}");
    let latin = fs::read(source.join("latin.py")).unwrap();
    assert!(latin.starts_with(b"# -*- coding: latin-1 -*-") && latin.contains(&0xe9) && !latin.contains(&0xef));
    let train = fs::read_to_string(source.join("train.py")).unwrap();
    assert!(train.contains("exec(") && train.contains("from .consts import *") && !train.contains("unused"), "{train}");
}

#[test]
fn what_the_program_writes_reaches_nobody_and_what_lies_elsewhere_is_read() {
    let outside = tempfile::tempdir().unwrap();
    let away = outside.path();
    fs::write(away.join("labels.csv"), "label\n0\n1\n7\n").unwrap();
    fs::create_dir_all(away.join("cache/hub")).unwrap();
    fs::write(away.join("cache/hub/model.json"), "{\"classes\": 7}").unwrap();
    let program = format!(
        "import csv, json, os, shutil
import torch
import torch.nn.functional as F

OUTSIDE = {away:?}


def attempt(action, *args):
    try:
        action(*args)
    except OSError as error:
        print('refused', error)


def damage():
    os.makedirs('runs', exist_ok=True)
    torch.save({{'step': 1}}, 'runs/last.pt')
    shutil.rmtree('configs')
    os.chmod('data/labels.csv', 0o777)
    os.utime('data/labels.csv', (0, 0))
    os.symlink('data', 'link')
    os.link('data/labels.csv', 'hard.csv')
    with open('hard.csv', 'w') as file:
        file.write('gone')
    os.remove('notes.txt')
    attempt(os.rename, 'data', 'moved')
    for name in ('labels.csv', 'new.csv'):
        attempt(open, OUTSIDE + '/' + name, 'w')
    attempt(os.remove, OUTSIDE + '/labels.csv')
    attempt(os.utime, OUTSIDE + '/labels.csv', (0, 0))
    attempt(shutil.rmtree, OUTSIDE + '/cache')


def main():
    with open(OUTSIDE + '/labels.csv') as file:
        labels = [int(row['label']) for row in csv.DictReader(file)]
    with open(os.environ['TORCH_HOME'] + '/hub/model.json') as file:
        classes = json.load(file)['classes']
    if os.environ['HF_HUB_OFFLINE'] != '1':
        classes = 100
    damage()
    x = torch.zeros(len(labels), classes).cuda()
    F.cross_entropy(x, torch.tensor(labels).cuda())


main()
"
    );
    let project = Project::new(&[
        ("train.py", program.as_str()),
        ("data/labels.csv", "label\n1\n"),
        ("configs/base.json", "{}"),
        ("notes.txt", "keep me"),
    ]);
    std::os::unix::fs::symlink("notes.txt", project.path("alias")).unwrap();
    let home = format!("TORCH_HOME={} python train.py", away.join("cache").display());
    project.case(&home, "");
    let before = (everything(project.folder.path()), everything(away));
    let output = project.job(&[]);
    expect(&output, 0, &["label_out_of_range", "offending value 7, limit 7", "confirmed: 3 of 3"]);
    assert!(before == (everything(project.folder.path()), everything(away)), "the user's files were touched");
    let source = project.read("crash.reduced/source/train.py");
    assert!(source.contains("/labels.csv") && source.contains("model.json") && !source.contains("rmtree"), "{source}");
    assert!(project.read("crash.reduced/run.sh").contains("export TORCH_HOME="));
}

#[test]
fn a_pin_that_hides_the_failure_is_named_and_dropped() {
    let project = Project::program(&failing("label = 0 if 'CUDA_LAUNCH_BLOCKING' in os.environ else 4"), "");
    let output = project.check();
    expect(
        &output,
        0,
        &["reproduces: label_out_of_range", "not used:", "CUDA_LAUNCH_BLOCKING=1 hides", "launch_blocking false"],
    );
}

#[test]
fn a_launcher_gives_its_only_rank() {
    let project =
        Project::program(&failing("label = 3 + int(os.environ['WORLD_SIZE']) + int(os.environ['LOCAL_RANK'])"), "");
    project.case("torchrun --nproc-per-node=1 x.py --lr 0.1", "");
    expect(&project.check(), 0, &["reproduces: label_out_of_range", "x.py:9"]);
}

// --- from the command line, and what is done with a bundle -----------------------------------------------------------

#[test]
fn a_shell_script_is_followed_without_touching_anything_and_its_bundle_is_replayed() {
    let script = "#!/usr/bin/env bash
set -e
mkdir -p out && rm -rf old
echo started > out/log.txt
N=$(ls data | wc -l)
python train.py --classes \"$N\"
";
    let train = "import argparse
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 5

    def __getitem__(self, index):
        return torch.ones(4), index


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--classes', type=int)
    classes = parser.parse_args().classes
    loader = DataLoader(Numbers(), batch_size=5, num_workers=2, persistent_workers=True)
    for x, y in loader:
        loss = F.cross_entropy(x[:, :classes].cuda(), y.cuda())
        print(loss.item())


if __name__ == '__main__':
    main()
";
    let project = Project::new(&[
        ("train.sh", script),
        ("train.py", train),
        ("old/result.txt", "precious"),
        ("data/a", ""),
        ("data/b", ""),
        ("data/c", ""),
        ("data/d", ""),
    ]);
    let before = everything(project.folder.path());
    let output = project.run(&["--device", "emulated", "--", "bash", "train.sh"]);
    expect(&output, 0, &["label_out_of_range", "offending value 4, limit 4", "confirmed: 3 of 3"]);
    assert_eq!(project.read("crash.yaml"), "command: \"bash train.sh\"\n");
    fs::remove_file(project.path("crash.yaml")).unwrap();
    assert_eq!(before, everything(project.folder.path()), "the user's files were touched");

    let typed = ["--device", "emulated", "--", "bash", "train.sh"];
    expect(&project.run(&typed), 2, &["not empty", "--resume", "--force"]);
    project.write("elsewhere/mine.txt", b"mine");
    for flag in ["--force", "--resume"] {
        let output = project.run(&["crash.yaml", "--out", "elsewhere", flag, "--device", "emulated"]);
        expect(&output, 2, &["elsewhere", "not a bundle", "--out"]);
    }
    assert_eq!(project.read("elsewhere/mine.txt"), "mine");

    expect(&project.run(&["replay", "crash.reduced"]), 0, &["still fails the same way"]);
    project.write("crash.reduced/repro.py", failing("label = 3").as_bytes());
    expect(&project.run(&["replay", "crash.reduced"]), 8, &["no failure any more"]);
    let other = "import torch\ntorch.nn.Embedding(4, 2).cuda()(torch.tensor([9]).cuda()).cpu()\n";
    project.write("crash.reduced/repro.py", other.as_bytes());
    expect(&project.run(&["replay", "crash.reduced"]), 6, &["recorded: label_out_of_range", "seen: "]);
    project.write("crash.reduced/repro.py", b"import torch\nraise ValueError('elsewhere')\n");
    expect(&project.run(&["replay", "crash.reduced"]), 6, &["ValueError: elsewhere"]);
    fs::remove_file(project.path("crash.reduced/repro.py")).unwrap();
    expect(&project.run(&["replay", "crash.reduced"]), 0, &["still fails the same way"]);
    expect(&project.run(&["replay", "data"]), 2, &["not a bundle"]);

    let init = ["init", "--log", "crash.reduced/crash.log", "--out", "log.yaml", "--", "bash", "train.sh"];
    expect(&project.run(&init), 0, &["wrote log.yaml"]);
    assert!(project.read("log.yaml").contains("t >= 0 && t < n_classes"));
    expect(&project.run(&init), 2, &["log.yaml is there already", "--force"]);
    expect(
        &project.run(&["init", "--log", "train.py", "--out", "no.yaml", "--", "bash", "train.sh"]),
        3,
        &["train.py"],
    );
    let init = ["init", "--device", "emulated", "--out", "run.yaml", "--", "python", "train.py", "--classes", "4"];
    expect(&project.run(&init), 0, &["wrote run.yaml"]);
    assert!(project.read("run.yaml").contains("command: \"python train.py --classes 4\""));
}

// --- limits and interruptions ----------------------------------------------------------------------------------------

/// A program in which every statement matters but one, and each run takes half a second.
fn slow() -> String {
    let appends = "seen.append(1)\n".repeat(8);
    failing(&format!(
        "begun = time.monotonic()\nprint('begun')\nseen = []\n{appends}time.sleep(0.5)\nlabel = 4 if len(seen) == 8 and time.monotonic() - begun >= 0.5 else 0"
    ))
}

#[test]
fn a_limit_of_runs_ends_with_the_best_and_resume_goes_on() {
    let project = Project::program(&slow(), "");
    let output = project.job(&["--limit-runs", "8"]);
    expect(&output, 5, &["a limit ended the run", "confirmed: 3 of 3"]);
    assert!(!project.read("crash.reduced/source/x.py").contains("print"));
    let output = project.job(&["--resume"]);
    expect(&output, 0, &["going on from the ledger", "certificate: full"]);
    assert!(report(&project.out())["runs"]["resumed"].as_u64().unwrap() > 0);
    project.write("x.py", failing("print(1)").as_bytes());
    expect(&project.job(&["--resume"]), 2, &["the program has changed", "x.py", "--force"]);
    let fresh = project.path("fresh.reduced");
    let output = project.job(&["--resume", "--out", fresh.to_str().unwrap()]);
    expect(&output, 0, &["starting anew", "certificate: full"]);
}

/// A run in the background, once its ledger says this much.
struct Running(std::process::Child);

impl Running {
    fn until(project: &Project, says: &str) -> Self {
        let mut command = project.reduce(&["crash.yaml", "--device", "emulated", "-j", "1"]);
        let piped = std::process::Stdio::piped;
        let mut child = command.stdout(piped()).stderr(piped()).spawn().unwrap();
        let ledger = project.out().join("ledger.jsonl");
        while !fs::read_to_string(&ledger).unwrap_or_default().contains(says) {
            assert!(child.try_wait().unwrap().is_none(), "ended before `{says}`");
            thread::sleep(Duration::from_millis(5));
        }
        Self(child)
    }

    fn end(self, signal: Signal) -> Output {
        kill(Pid::from_raw(i32::try_from(self.0.id()).unwrap()), signal).unwrap();
        self.0.wait_with_output().unwrap()
    }
}

#[test]
fn a_bundle_belongs_to_one_run_until_that_run_is_gone() {
    let project = Project::program(&slow(), "");
    let first = Running::until(&project, "\"record\":\"evidence\"");
    let process = format!("process {}", first.0.id());
    for flag in ["--force", "--resume"] {
        expect(&project.job(&[flag]), 2, &["another run works in", "crash.reduced", &process, "hint: wait"]);
    }
    assert!(project.path("crash.reduced/source/x.py").exists(), "the first run's files were touched");
    assert!(!first.end(Signal::SIGKILL).status.success());
    let output = project.job(&["--resume", "--limit-runs", "6"]);
    expect(&output, 5, &["going on from the ledger"]);
    let files: Vec<_> = fs::read_dir(project.out()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!files.iter().any(|name| name.to_string_lossy().contains("lock")), "{files:?}");
}

#[test]
fn no_run_leaves_a_temporary_folder_and_the_next_removes_that_of_a_killed_one() {
    let project = Project::program(&failing("label = 3"), "");
    let place = project.path("tmp");
    fs::create_dir(&place).unwrap();
    let left = || -> Vec<_> {
        let entries = fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        entries.collect()
    };
    let run_there = |words: &[&str], code: i32| {
        let output = run(project.reduce(&[words, &["--device", "emulated"]].concat()).env("TMPDIR", &place));
        expect(&output, code, &[]);
        assert_eq!(left(), Vec::<String>::new(), "after exit {code}");
    };
    run_there(&["nowhere.yaml"], 2);
    run_there(&["crash.yaml"], 3);
    project.write("x.py", failing("").as_bytes());
    run_there(&["crash.yaml"], 0);
    run_there(&["crash.yaml"], 2);
    run_there(&["replay", "crash.reduced"], 0);

    let mut killed = project.reduce(&["check", "crash.yaml", "--device", "emulated"]);
    let mut killed = killed.env("TMPDIR", &place).stderr(std::process::Stdio::null()).spawn().unwrap();
    while !left().iter().any(|name| name.starts_with("reduce-run-")) {
        thread::sleep(Duration::from_millis(5));
    }
    thread::sleep(Duration::from_millis(500));
    killed.kill().unwrap();
    killed.wait().unwrap();
    thread::sleep(Duration::from_secs(2));
    let of_runs = || left().iter().any(|name| name.starts_with("reduce-run-"));
    assert!(of_runs(), "a kill leaves nothing: this test sees nothing");
    expect(&run(project.reduce(&["replay", "crash.reduced"]).env("TMPDIR", &place)), 0, &[]);
    assert!(!of_runs(), "{:?}", left());
}

#[test]
fn ctrl_c_after_the_first_repro_keeps_it_and_calls_nothing_else_confirmed() {
    let project = Project::program(&slow(), "");
    // Before it: there is none, and nothing is confirmed.
    let output = Running::until(&project, "\"record\":\"evidence\"").end(Signal::SIGINT);
    expect(&output, 130, &["no single file was confirmed before the end", "confirmed: not by cold runs"]);
    let markdown = project.read("crash.reduced/REPORT.md");
    assert!(markdown.contains("Seen on an emulated CUDA device only"), "{markdown}");
    for file in ["REPORT.md", "report.html", "run.sh"] {
        let text = project.read(&format!("crash.reduced/{file}"));
        assert!(!text.contains("Confirmed on") && !text.contains("0 of 0"), "{file}: {text}");
    }
    assert_eq!(report(&project.out())["confirmed_on"], serde_json::Value::Null);
    assert!(!project.path("crash.reduced/repro.py").exists());

    fs::remove_dir_all(project.out()).unwrap();
    let output = Running::until(&project, "\"phase\":\"slice\"").end(Signal::SIGINT);
    expect(&output, 130, &["repro.py:  1 of 1 cold runs, on the emulated device only", "confirmed: not by cold runs"]);
    assert!(!text(&output).contains("no single file"), "{}", text(&output));
    assert!(project.read("crash.reduced/repro.py").contains("cross_entropy("));
    let seen = report(&project.out());
    assert_eq!(seen["repro"]["confirmed"], serde_json::json!({ "runs": 1, "hits": 1 }));
    assert_eq!(seen["confirmed"]["runs"], 0);
    let markdown = project.read("crash.reduced/REPORT.md");
    assert!(markdown.contains("1 of 1 runs of the program in fresh interpreters"), "{markdown}");
    assert!(markdown.contains("`source/` was not confirmed by cold runs"), "{markdown}");
    assert!(markdown.contains("`source/`: not confirmed by cold runs"), "{markdown}");

    // Gone on with and interrupted again: the ledger knows the run, its output is gone.
    let mut resumed = project.reduce(&["crash.yaml", "--device", "emulated", "--resume"]);
    let resumed = resumed.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let trials = || fs::read_to_string(project.path("crash.reduced/ledger.jsonl")).unwrap().matches("slice").count();
    let before = trials();
    while trials() == before {
        thread::sleep(Duration::from_millis(5));
    }
    let output = Running(resumed).end(Signal::SIGINT);
    expect(&output, 130, &["repro.py:  1 of 1 cold runs"]);
    assert!(project.read("crash.reduced/REPORT.md").contains("What it printed was not kept"));
}

#[test]
fn ctrl_c_keeps_the_best_within_two_seconds_and_twice_ends_at_once() {
    let project = Project::program(&slow(), "");
    let interrupt = |words: &[&str], ready: &dyn Fn() -> bool, times: u32| {
        let mut child = project.reduce(words).stderr(std::process::Stdio::null()).spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
        while !ready() {
            assert!(child.try_wait().unwrap().is_none(), "ended before it could be interrupted");
            thread::sleep(Duration::from_millis(5));
        }
        let begun = Instant::now();
        for _ in 0..times {
            kill(pid, Signal::SIGINT).unwrap();
            thread::sleep(Duration::from_millis(20));
        }
        let status = child.wait().unwrap();
        (status.code(), begun.elapsed())
    };
    let ledger = |out: &str| fs::read_to_string(project.path(out).join("ledger.jsonl")).unwrap_or_default();
    let words = ["crash.yaml", "--device", "emulated", "-j", "1"];
    let (code, took) = interrupt(&words, &|| ledger("crash.reduced").contains("\"record\":\"best\""), 1);
    assert_eq!(code, Some(130));
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(report(&project.out())["outcome"], "interrupted");
    assert!(!project.read("crash.reduced/source/x.py").contains("print"));
    assert!(project.read("crash.reduced/REPORT.md").contains("label_out_of_range"));

    let words = ["crash.yaml", "--device", "emulated", "--out", "twice.reduced"];
    let (code, took) = interrupt(&words, &|| ledger("twice.reduced").contains("\"record\":\"case\""), 2);
    assert_eq!(code, Some(130));
    assert!(took < Duration::from_millis(500), "{took:?}");
}

#[test]
fn a_program_that_is_too_long_for_a_search_gets_the_report_of_its_one_run() {
    let project = Project::program(&failing("time.sleep(4)"), "");
    let output = project.job(&["--limit-time", "30s"]);
    expect(&output, 5, &["label_out_of_range", "offending value 4, limit 4", "not tried", "limits: {time"]);
    assert_eq!(project.read("crash.reduced/source/x.py"), project.read("x.py"));
    let markdown = project.read("crash.reduced/REPORT.md");
    assert!(markdown.contains("Not tried:") && markdown.contains("more than a tenth of the time limit"), "{markdown}");
    assert!(project.read("crash.reduced/context.yaml").contains("cross_entropy"));
    assert!(project.read("crash.reduced/crash.log").contains("Assertion `t >= 0 && t < n_classes` failed"));
    let report = report(&project.out());
    // One run of the program; the others are of the call that failed in it.
    assert_eq!((&report["outcome"], &report["runs"]["by_phase"]["preflight"]), (&"limit".into(), &1.into()));
    assert_eq!((&report["repro"]["statements"], &report["repro"]["confirmed"]["hits"]), (&2.into(), &3.into()));
    assert_eq!(report["certificate"], "none");
}
