//! Bisection through the real binary: real repositories, real packages, real torch on the emulated device.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{REDUCE, new_python, old_python, reduce, report, root, run, snapshot, text};

/// A project in a folder of its own.
struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    fn new(files: &[(&str, &str)]) -> Self {
        let project = Self { folder: tempfile::tempdir().unwrap() };
        files.iter().for_each(|(path, text)| project.write(path, text));
        project
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// `reduce bisect`, one run at a time, on the emulated device.
    fn bisect(&self, words: &[&str]) -> Output {
        let mut command = reduce();
        command.current_dir(self.folder.path()).arg("bisect").args(words);
        command.args(["--device", "emulated", "-j1"]);
        run(&mut command)
    }

    fn report(&self) -> Value {
        report(&self.path("crash.bisect"))
    }

    fn git(&self, words: &[&str]) -> String {
        let mut command = Command::new("git");
        let identity = ["-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"];
        let output = run(command.current_dir(self.folder.path()).args(identity).args(words));
        assert!(output.status.success(), "{}", text(&output));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }
}

/// A plain interpreter: programs without torch may fail as well.
fn plain() -> &'static str {
    "python3"
}

#[track_caller]
fn ends(output: &Output, code: i32, says: &[&str]) {
    let text = text(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    for words in says {
        assert!(text.contains(words), "`{words}` is not said:\n{text}");
    }
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|one| one.as_str().map(str::to_owned)).collect()
}

const PAIR: &str = r#"import argparse, os
parser = argparse.ArgumentParser()
for name in "abcdef":
    parser.add_argument("--" + name, type=int, default=0)
options = parser.parse_args()
if os.environ.get("V3") == "1" and options.d == 5:
    raise ValueError("both are set")
"#;

#[test]
fn a_failure_that_needs_two_of_twelve_settings_is_found_as_that_pair() {
    let case = format!(
        "command: {} x.py --a 1 --b 2 --c 3 --d 5 --e 6 --f 7\nenv: {{V1: \"1\", V2: \"1\", V3: \"1\", V4: \"1\", V5: \"1\", V6: \"1\"}}\n",
        plain()
    );
    let project = Project::new(&[("x.py", PAIR), ("crash.yaml", &case)]);
    ends(&project.bisect(&["settings", "crash.yaml"]), 0, &["needed together: V3=1 + --d 5", "hidden by none"]);
    let report = project.report();
    assert_eq!(report["found"]["sets"], serde_json::json!([["V3=1", "--d 5"]]));
    assert!(report["runs"].as_u64().unwrap() <= 14, "{}", report["runs"]);
    assert_eq!(report["neighbours"].as_array().unwrap().len(), 2);
}

#[test]
fn a_configuration_key_is_found_and_the_seed_that_hides_it_is_named() {
    let program = "import json, random\nc = json.load(open('c.json'))\nif c.get('train', {}).get('mix') and random.random() != 0.8444218515250481:\n    raise ValueError('mixed')\n";
    let config = r#"{"lr": 1, "train": {"mix": true, "steps": 3}}"#;
    let case = format!("command: {} x.py\n", plain());
    let project = Project::new(&[("x.py", program), ("c.json", config), ("crash.yaml", &case)]);
    let before = snapshot(project.folder.path());
    ends(
        &project.bisect(&["--over", "settings", "crash.yaml"]),
        0,
        &["needed: c.json: train.mix", "hidden by: seed 0"],
    );
    let after: Vec<_> =
        snapshot(project.folder.path()).into_iter().filter(|file| !file.0.starts_with("crash.bisect")).collect();
    assert_eq!(after, before, "the user's files are never written to");
}

#[test]
fn one_bad_row_is_named_by_file_and_line_within_twenty_runs_whatever_else_the_table_holds() {
    let mut table = "x,label\n".to_owned();
    (0..20_000).for_each(|row| writeln!(table, "{},{}", row % 100, if row == 13_742 { 12 } else { row % 10 }).unwrap());
    let program = "import csv\nfor row in csv.DictReader(open('d.csv')):\n    if int(row['label']) > 9:\n        raise ValueError('label')\n";
    let case = format!("command: {} x.py\n", plain());
    let project = Project::new(&[("x.py", program), ("d.csv", &table), ("crash.yaml", &case)]);
    ends(&project.bisect(&["samples", "crash.yaml"]), 0, &["bad: d.csv line 13744"]);
    assert!(project.report()["runs"].as_u64().unwrap() <= 20, "{}", project.report()["runs"]);
}

const TRAIN: &str = r#"import torch, torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
y = torch.randint(0, 10, (600,))
y[450] = 10
model = torch.nn.Linear(4, 10).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(2):
    for x, t in DataLoader(TensorDataset(torch.randn(600, 4), y), batch_size=1):
        loss = F.cross_entropy(model(x.cuda()), t.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"#;

fn with_torch(program: &str) -> Project {
    with_torch_of(&new_python(), program)
}

fn with_torch_of(python: &Path, program: &str) -> Project {
    let case = format!("command: python train.py\npython: {}\n", python.display());
    Project::new(&[("train.py", program), ("crash.yaml", &case)])
}

#[test]
fn a_failing_step_is_cut_out_of_its_loop() {
    let project = with_torch(TRAIN);
    ends(
        &project.bisect(&["steps", "crash.yaml"]),
        0,
        &["fails at step 450 of the loop at train.py:9", "from a fresh state"],
    );
    let report = project.report();
    assert!(report["runs"].as_u64().unwrap() <= 20, "{}", report["runs"]);
    let cut = fs::read_to_string(project.path("crash.bisect/cut/train.py")).unwrap();
    assert!(cut.contains("islice(DataLoader("), "{cut}");
}

const HISTORY: &str = r#"import torch, torch.nn.functional as F
total = torch.zeros(1, dtype=torch.long)
for step in range(200):
    if step >= 40:
        total += 1
    label = (total >= 100).long() * 10
    F.cross_entropy(torch.zeros(1, 10).cuda(), label.cuda())
"#;

#[test]
fn a_step_that_needs_its_history_says_from_where_on() {
    let project = with_torch(HISTORY);
    // Step 139 is the hundredth that counts: started behind step 40 it never comes so far.
    ends(&project.bisect(&["steps", "crash.yaml"]), 0, &["fails at step 139", "needs its history from step 40 on"]);
    assert_eq!(project.report()["found"]["history"], 40);
}

#[test]
fn the_failing_launch_is_named_with_operator_line_and_shapes() {
    let program = "import torch\nimport torch.nn.functional as F\nx = torch.zeros(3, 7).cuda()\nF.cross_entropy(x, torch.tensor([1, 7, 2]).cuda())\n";
    let project = with_torch(program);
    ends(
        &project.bisect(&["launches", "crash.yaml"]),
        0,
        &["operator: torch.nn.functional.cross_entropy", "line: train.py:4", "input: [3, 7] float32"],
    );
}

/// Waiting for each launch hides it: the label is right then.
const HIDDEN: &str = r#"import os, torch, torch.nn.functional as F
bad = 1 if os.environ.get("CUDA_LAUNCH_BLOCKING") == "1" else 7
label = torch.tensor([1, bad, 2]).cuda()
x = torch.zeros(3, 7).cuda() + 1
F.cross_entropy(x, label)
print((x * 2).sum().item())
"#;

#[test]
fn a_launch_that_hides_when_it_is_waited_for_is_found_by_one_synchronisation_at_a_time() {
    // The old torch: it is imported in a third of the time, and this runs it twenty times.
    let project = with_torch_of(&old_python(), HIDDEN);
    ends(
        &project.bisect(&["launches", "crash.yaml"]),
        0,
        &["waiting for every launch hides it", "operator: torch.nn.functional.cross_entropy", "line: train.py:5"],
    );
    assert!(project.report()["runs"].as_u64().unwrap() <= 25, "{}", project.report()["runs"]);
    let log = fs::read_to_string(project.path("crash.bisect/log")).unwrap();
    assert!(log.contains("passes 0  # before the first operator nothing can have failed"), "{log}");
}

/// A repository with a side branch: the program breaks on it, and one commit does not run.
fn history() -> (Project, Vec<String>) {
    let project = Project::new(&[("x.py", "import lib\nif lib.BROKEN:\n    raise ValueError('broken')\n")]);
    project.git(&["init", "-q", "-b", "main"]);
    let mut ids = Vec::new();
    let commit = |name: &str, lib: &str| {
        project.write("lib.py", lib);
        project.write(&format!("{name}.txt"), name);
        project.git(&["add", "-A"]);
        project.git(&["commit", "-q", "-m", name]);
        project.git(&["rev-parse", "HEAD"])
    };
    for number in 0..10 {
        ids.push(commit(&format!("main{number}"), "BROKEN = False\n"));
    }
    project.git(&["checkout", "-q", "-b", "side"]);
    ids.push(commit("side0", "BROKEN = False\nimport nothing_of_this_name\n"));
    ids.push(commit("side1", "BROKEN = True\n"));
    ids.push(commit("side2", "BROKEN = True\nX = 1\n"));
    project.git(&["checkout", "-q", "main"]);
    for number in 10..13 {
        project.write(&format!("main{number}.txt"), "x");
        project.git(&["add", "-A"]);
        project.git(&["commit", "-q", "-m", &format!("main{number}")]);
        ids.push(project.git(&["rev-parse", "HEAD"]));
    }
    project.git(&["merge", "-q", "--no-ff", "-m", "merge", "side"]);
    ids.push(project.git(&["rev-parse", "HEAD"]));
    project.write("crash.yaml", &format!("command: {} x.py\n", plain()));
    (project, ids)
}

fn keys(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|one| one["key"].as_str().map(str::to_owned)).collect()
}

#[test]
fn the_commit_on_a_side_branch_is_found_and_the_repository_is_left_alone() {
    let (project, ids) = history();
    let index = fs::read(project.path(".git/index")).unwrap();
    let output = project.bisect(&["commits", "crash.yaml", "--good", &ids[0]]);
    ends(&output, 0, &["broken by", "could not be run"]);
    // The commit before it does not run, so that both are named.
    assert_eq!(keys(&project.report()["found"]["change"]), vec![ids[10].clone(), ids[11].clone()]);
    assert_eq!(fs::read(project.path(".git/index")).unwrap(), index);
    assert!(!project.path(".git/worktrees").exists());
    let merge = project.bisect(&["commits", "crash.yaml", "--good", &ids[0], "--first-parent", "--force"]);
    ends(&merge, 0, &["merge (T,"]);
    assert_eq!(keys(&project.report()["found"]["change"]), vec![ids.last().unwrap().clone()]);
}

#[test]
fn uncommitted_changes_are_a_point_of_their_own() {
    let (project, ids) = history();
    project.git(&["checkout", "-q", &ids[9]]);
    project.write("lib.py", "BROKEN = True\n");
    let output = project.bisect(&["commits", "crash.yaml", "--good", &ids[4]]);
    ends(&output, 0, &["broken by: uncommitted changes"]);
    assert_eq!(fs::read_to_string(project.path("lib.py")).unwrap(), "BROKEN = True\n");
}

#[test]
fn the_commit_that_mended_it_is_found() {
    let (project, ids) = history();
    project.write("lib.py", "BROKEN = False\n");
    project.git(&["commit", "-q", "-am", "mended"]);
    let mended = project.git(&["rev-parse", "HEAD"]);
    for number in 20..25 {
        project.write(&format!("more{number}.txt"), "x");
        project.git(&["add", &format!("more{number}.txt")]);
        project.git(&["commit", "-q", "-m", "more"]);
    }
    let merge = ids.last().unwrap();
    let output = project.bisect(&["commits", "crash.yaml", "--bad", merge, "--expect", "fixed"]);
    ends(&output, 0, &["mended by", "mended (T,"]);
    assert_eq!(keys(&project.report()["found"]["change"]), vec![mended]);
    let wrong = project.bisect(&["commits", "crash.yaml", "--good", "HEAD", "--bad", merge, "--force"]);
    ends(&wrong, 2, &["--expect fixed"]);
}

#[test]
fn an_edited_log_is_gone_on_from() {
    let (project, ids) = history();
    let limited = project.bisect(&["commits", "crash.yaml", "--good", &ids[0], "--limit-runs", "5"]);
    ends(&limited, 5, &["not decided"]);
    let log = project.path("crash.bisect/log");
    let text = fs::read_to_string(&log).unwrap();
    // The user knows better: everything up to the tip of main passes.
    let more: String = ids[12..16].iter().map(|id| format!("passes {id}\n").repeat(3)).collect();
    fs::write(&log, format!("{text}{}", more.replace(&ids[12], &ids[9]))).unwrap();
    let output = project.bisect(&["commits", "crash.yaml", "--good", &ids[0], "--resume"]);
    ends(
        &output,
        0,
        &["broken by", "from the log"].map(|words| if words == "from the log" { "how sure" } else { words }),
    );
    assert_eq!(keys(&project.report()["found"]["change"]), vec![ids[10].clone(), ids[11].clone()]);
    fs::write(&log, "fails nothing\n").unwrap();
    ends(
        &project.bisect(&["commits", "crash.yaml", "--good", &ids[0], "--resume"]),
        2,
        &["log:1: `nothing` is not on this axis"],
    );
}

#[test]
fn what_does_not_fit_is_refused_with_a_hint() {
    let project =
        Project::new(&[("x.py", "raise ValueError('x')\n"), ("crash.yaml", &format!("command: {} x.py\n", plain()))]);
    ends(&project.bisect(&["comits", "crash.yaml"]), 2, &["no axis `comits`", "did you mean `commits`?"]);
    ends(&project.bisect(&["crash.yaml"]), 2, &["no axis: what is to vary?"]);
    ends(&project.bisect(&["commits", "crash.yaml", "--good", "x"]), 2, &["is in no git repository"]);
    ends(&project.bisect(&["samples", "crash.yaml"]), 2, &["reads no data file"]);
    ends(&project.bisect(&["steps", "crash.yaml"]), 2, &["no `for` loop"]);
    ends(&project.bisect(&["packages", "crash.yaml"]), 2, &["needs `--good`"]);
    ends(
        &project.bisect(&["packages", "crash.yaml", "--good", "no.txt", "--bad", "x.py"]),
        2,
        &["no.txt", "pip freeze"],
    );
    ends(&project.bisect(&["settings", "crash.yaml", "--good", "x"]), 2, &["`--good` says nothing about settings"]);
    ends(&project.bisect(&["packages", "crash.yaml", "--first-parent"]), 2, &["`--first-parent` says nothing"]);
    project.write("x.py", "print('fine')\n");
    ends(&project.bisect(&["settings", "crash.yaml"]), 3, &["does not fail", "20 runs"]);
    assert!(!project.path("crash.bisect").exists(), "what says nothing is not left");
    project.write("log", "mine\n");
    ends(&project.bisect(&["settings", "crash.yaml", "--log", "log"]), 2, &["`log` is there already"]);
    assert_eq!(fs::read_to_string(project.path("log")).unwrap(), "mine\n");
}

#[test]
fn ends_that_do_not_fit_each_other_are_refused_and_leave_nothing() {
    let (project, ids) = history();
    let refused = |words: &[&str], says: &[&str]| {
        ends(&project.bisect(&[&["commits", "crash.yaml"], words].concat()), 2, says);
        assert!(!project.path("crash.bisect").exists());
    };
    refused(&[], &["needs `--good REVISION`"]);
    refused(&["--good", "v1"], &["`v1` is no commit of"]);
    refused(&["--good", "HEAD"], &["there is no commit between the two revisions"]);
    refused(&["--good", &ids[3], "--bad", &ids[3]], &["there is no commit between the two revisions"]);
    refused(&["--good", &ids[5], "--bad", &ids[2]], &["comes after the one that fails", "--expect fixed"]);
    refused(&["--good", &ids[0], "--path", "nothing"], &["no commit between the two revisions touches these paths"]);
    // Both ends fail.
    let same = project.bisect(&["commits", "crash.yaml", "--good", &ids[11]]);
    ends(&same, 2, &["the passing end fails as well"]);
}

/// Until this many answers stand in the log of a bisection that runs.
fn wait_for_answers(project: &Project, child: &mut Child, count: usize) {
    let log = project.path("crash.bisect/log");
    let begun = Instant::now();
    let answers = || fs::read_to_string(&log).unwrap_or_default().lines().filter(|line| !line.starts_with('#')).count();
    while answers() < count {
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        assert!(begun.elapsed() < Duration::from_secs(120), "no answer comes");
        sleep(Duration::from_millis(10));
    }
}

/// A line of commits of which the later half fails, each after a moment.
fn slow_history() -> (Project, Vec<String>) {
    let program = "import time, lib\ntime.sleep(0.2)\nif lib.BROKEN:\n    raise ValueError('broken')\n";
    let project = Project::new(&[("x.py", program)]);
    project.git(&["init", "-q", "-b", "main"]);
    let commit = |number: usize| {
        project.write("lib.py", &format!("BROKEN = {}\nN = {number}\n", if number < 17 { "False" } else { "True" }));
        project.git(&["add", "-A"]);
        project.git(&["commit", "-q", "-m", &format!("c{number}")]);
        project.git(&["rev-parse", "HEAD"])
    };
    let ids = (0..32).map(commit).collect();
    project.write("crash.yaml", &format!("command: {} x.py\n", plain()));
    (project, ids)
}

#[test]
fn what_was_answered_before_a_kill_or_an_interruption_is_not_asked_again() {
    let (project, ids) = slow_history();
    let words = ["bisect", "commits", "crash.yaml", "--good", &ids[0], "--device", "emulated", "-j1"];
    let mut command = reduce();
    let mut child = command.current_dir(project.folder.path()).args(words).stderr(Stdio::null()).spawn().unwrap();
    wait_for_answers(&project, &mut child, 4);
    child.kill().unwrap();
    child.wait().unwrap();
    let mut child = command.arg("--resume").stdout(Stdio::null()).spawn().unwrap();
    wait_for_answers(&project, &mut child, 7);
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap()),
        nix::sys::signal::Signal::SIGINT,
    )
    .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(project.report()["outcome"], "limit");
    // A guess of the user, abbreviated as git does; then a line that a full disk cut short.
    let log = project.path("crash.bisect/log");
    let text = fs::read_to_string(&log).unwrap();
    fs::write(&log, format!("{text}passes {}", &ids[16][..9])).unwrap();
    let resume = || project.bisect(&["commits", "crash.yaml", "--good", &ids[0], "--resume"]);
    ends(&resume(), 2, &["it may have been cut short: end it with a newline, or take it out"]);
    fs::write(&log, format!("{text}passes {}\n", &ids[16][..9])).unwrap();
    ends(&resume(), 0, &["broken by", "c17 (T,"]);
    let tried = project.report()["tried"].as_array().unwrap().len();
    assert!(tried <= 8, "{tried} points: what stood in the log was asked again");
    // A kill may come before there is a log.
    fs::remove_file(&log).unwrap();
    ends(&resume(), 0, &["broken by", "c17 (T,"]);
}

#[test]
fn a_log_is_not_gone_on_from_when_what_was_run_has_changed() {
    let mut table = "x,label\n".to_owned();
    (0..64).for_each(|row| writeln!(table, "{row},{}", if row == 50 { 12 } else { row % 10 }).unwrap());
    let program = "import csv\nfor row in csv.DictReader(open('d.csv')):\n    if int(row['label']) > 9:\n        raise ValueError('label')\n";
    let case = format!("command: {} x.py\n", plain());
    let project = Project::new(&[("x.py", program), ("d.csv", &table), ("crash.yaml", &case)]);
    let resume = || project.bisect(&["samples", "crash.yaml", "--resume"]);
    ends(&project.bisect(&["samples", "crash.yaml", "--limit-runs", "5"]), 5, &["the smallest set that failed"]);
    project.write("d.csv", &table.replace("50,12", "50,2").replace("20,0", "20,12"));
    ends(&resume(), 2, &["the program has changed since the run in", ": d.csv"]);
    project.write("d.csv", &table);
    project.write("x.py", &program.replace("> 9", "> 10"));
    ends(&resume(), 2, &[": x.py"]);
    project.write("x.py", program);
    ends(&resume(), 0, &["bad: d.csv line 52"]);

    // So it is with changes that are not committed, which have no id of their own.
    let (project, ids) = history();
    project.git(&["checkout", "-q", &ids[9]]);
    project.write("lib.py", "BROKEN = True\n");
    let words = ["commits", "crash.yaml", "--good", &ids[4]];
    ends(&project.bisect(&[&words[..], &["--limit-runs", "4"]].concat()), 5, &["not decided"]);
    project.write("lib.py", "BROKEN = 1\n");
    ends(&project.bisect(&[&words[..], &["--resume"]].concat()), 2, &["`uncommitted-", "is not on this axis"]);
}

#[test]
fn what_ends_before_anything_was_answered_leaves_nothing() {
    let program = "open('d.csv').read()\nraise ValueError('x')\n";
    let case = format!("command: {} x.py\n", plain());
    let project = Project::new(&[("x.py", program), ("d.csv", "a\n1\n2\n"), ("crash.yaml", &case)]);
    let refused = |words: &[&str], code: i32, says: &[&str]| {
        ends(&project.bisect(words), code, says);
        assert!(!project.path("crash.bisect").exists(), "{words:?}");
    };
    let early = "the limit of runs ended the run before the failure was understood";
    refused(&["samples", "crash.yaml", "--limit-runs", "1"], 5, &[early]);
    refused(&["settings", "crash.yaml", "--log", "nowhere/log"], 2, &["`nowhere/log`", "its folder is not there"]);
    refused(
        &["launches", "crash.yaml"],
        3,
        &["does not die with a device-side failure: ValueError: x", "an error of Python's own must be mended first"],
    );
}

#[test]
fn what_the_emulated_device_does_not_have_is_no_failure_to_bisect() {
    let project = with_torch_of(&old_python(), "import torch\ntorch.cuda.CUDAGraph()\n");
    ends(
        &project.bisect(&["launches", "crash.yaml"]),
        7,
        &["needs what the emulated device does not have: CUDA graphs"],
    );
}

#[test]
fn a_pin_that_makes_the_program_fail_otherwise_hides_nothing() {
    let program = "import os\nif os.environ.get('CUDA_LAUNCH_BLOCKING') == '1':\n    raise KeyError('other')\nraise ValueError('x')\n";
    let project = Project::new(&[("x.py", program), ("crash.yaml", &format!("command: {} x.py\n", plain()))]);
    let output = project.bisect(&["settings", "crash.yaml"]);
    ends(&output, 0, &["what hides it is not known: with all of the pins it fails otherwise"]);
    assert!(!text(&output).contains("hidden by"), "{}", text(&output));
}

/// Packages come from the index; environments from the cache of the tests, where they are made once.
fn packages(project: &Project, words: &[&str]) -> Output {
    let mut command = reduce();
    command.current_dir(project.folder.path()).args(["bisect", "packages", "crash.yaml"]).args(words);
    run(command.args(["--device", "emulated"]))
}

#[test]
fn two_packages_that_must_move_together_are_found_as_a_set() {
    let program = "import pluggy\nfrom importlib.metadata import version\nif version('pytest').startswith('8') and version('iniconfig') == '2.0.0':\n    raise ValueError('both moved')\n";
    let case = format!("command: {} x.py\n", plain());
    let old = "pytest==7.4.0\npluggy==1.2.0\niniconfig==1.1.1\npackaging==23.0\n";
    let new = "pytest==8.0.0\npluggy==1.4.0\niniconfig==2.0.0\npackaging==23.2\n";
    let project = Project::new(&[("x.py", program), ("crash.yaml", &case), ("old.txt", old), ("new.txt", new)]);
    ends(&packages(&project, &["--good", "old.txt", "--bad", "new.txt"]), 0, &["guilty together"]);
    let set = strings(&project.report()["found"]["sets"][0]);
    assert!(set.iter().any(|label| label.starts_with("pytest 7.4.0 -> 8.0.0")), "{set:?}");
    assert!(set.iter().any(|label| label.starts_with("iniconfig 1.1.1 -> 2.0.0")), "{set:?}");
}

#[test]
fn the_version_that_broke_a_script_is_found_without_a_point_too_many() {
    if std::env::var_os("REDUCE_TEST_LONG").is_none() {
        return;
    }
    let program = "import numpy as np\nprint(np.float_(1))\n";
    let case = format!("command: {} x.py\n", plain());
    let project = Project::new(&[("x.py", program), ("crash.yaml", &case)]);
    let output = packages(&project, &["--good", "numpy==1.26.0", "--bad", "numpy==2.2.0"]);
    ends(&output, 0, &["first fails with: numpy==2.0.0", "passes before: numpy==1.26.4"]);
    let found = &project.report()["found"];
    let (points, tried) = (found["points"].as_f64().unwrap(), found["points_tried"].as_f64().unwrap());
    assert!(points >= 10.0 && tried <= points.log2().ceil() + 2.0, "{tried} of {points}");
}

/// The comparison that the documents quote: `tests/py/repository.py` makes the repositories and runs both tools.
fn compare(first: u32, last: u32) -> Vec<Value> {
    let mut command = Command::new("python3");
    command.arg(root().join("tests/py/repository.py")).args(["--reduce", REDUCE]);
    command.args(["--seeds", &first.to_string(), &last.to_string()]).env_remove("VIRTUAL_ENV");
    let output = run(&mut command);
    assert!(output.status.success(), "{}", text(&output));
    String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_flaky_failure_in_a_thousand_commits_with_merges_and_broken_ranges_is_found() {
    let long = std::env::var_os("REDUCE_TEST_LONG").is_some();
    let rows = compare(1, if long { 21 } else { 2 });
    let right = |tool: &str| rows.iter().filter(|row| row[tool]["right"] == true).count();
    let runs: Vec<u64> = rows.iter().map(|row| row["reduce"]["runs"].as_u64().unwrap()).collect();
    let mean = runs.iter().sum::<u64>() as f64 / runs.len() as f64;
    println!(
        "reduce: {} of {} right, {mean:.1} runs; git bisect run: {} right",
        right("reduce"),
        rows.len(),
        right("git bisect run")
    );
    let spare = usize::from(long);
    assert!(right("reduce") + spare >= rows.len(), "{rows:#?}");
    assert!(runs.iter().filter(|runs| **runs > 100).count() <= spare, "{runs:?}");
    assert!(!long || mean <= 65.0, "{mean}");
}
