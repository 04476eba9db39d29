//! The corpus: each case once a torch, and the promises about workers, kills and slips on three short ones.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use reduce::program::{Program, SourceTree};
use reduce::signature::Catalog;
use reduce::yaml::{self, Node};
use serde_json::Value;

use crate::support::{Copy, new_python, old_python, report, result, root, run, snapshot, text};

/// Most trials of a case, preflight, first repro and confirmation included.
const MOST_RUNS: u64 = 80;
/// Guesses that came to nothing depend on the moment: this many may come on top.
const MOST_WASTED: u64 = 5;
/// Most trials between preflight and the first repro.
const MOST_BEFORE_REPRO: u64 = 3;
/// Most of the search's time in which no trial may run.
const MOST_IDLE: f64 = 0.05;
/// Less than a few ticks of the engine's clock is not idleness: whole searches take two seconds.
const LEAST_IDLE: f64 = 0.2;
/// Cases that are short enough to be run many times.
const SHORT: [&str; 3] = ["label_range", "slippery", "swallowed"];

pub(crate) fn cases() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(root().join("corpus"))
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().join("expected.yaml").is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

pub(crate) fn expected(name: &str) -> Node {
    yaml::read(&root().join("corpus").join(name).join("expected.yaml"), "expected.yaml").unwrap()
}

fn strings(node: &Node, key: &str) -> Vec<String> {
    let Some(list) = node.get(key) else { return Vec::new() };
    list.list().unwrap().iter().map(|one| one.text().unwrap().to_owned()).collect()
}

/// A text or number as written.
pub(crate) fn scalar(node: &Node) -> String {
    node.text().map_or_else(|_| node.shown().trim_matches('`').to_owned(), str::to_owned)
}

pub(crate) fn string(node: &Node, path: &[&str]) -> Option<String> {
    let mut node = node.clone();
    for key in path {
        node = node.get(key)?.clone();
    }
    Some(node.text().unwrap().to_owned())
}

/// All of `source/` as one text.
fn source(out: &Path) -> String {
    snapshot(&out.join("source"))
        .into_iter()
        .filter(|(path, ..)| path.ends_with(".py"))
        .map(|(_, bytes, ..)| String::from_utf8_lossy(&bytes).into_owned())
        .collect()
}

fn number(report: &Value, path: &str) -> u64 {
    report.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path}"))
}

fn holds(name: &str, out: &Path, report: &Value) -> Vec<String> {
    let expected = expected(name);
    let mut wrong = Vec::new();
    let mut check = |holds: bool, what: String| {
        if !holds {
            wrong.push(format!("{name}: {what}"));
        }
    };
    let said = |path: &str| report.pointer(path).and_then(Value::as_str).map(str::to_owned);
    let (class, operator) = (string(&expected, &["signature", "class"]), string(&expected, &["signature", "operator"]));
    check(class == said("/signature/class"), format!("class: wanted {class:?}, found {:?}", said("/signature/class")));
    let found = said("/signature/operator").unwrap_or_default();
    let same = operator.as_ref().is_none_or(|wanted| Catalog::embedded().same_operator(wanted, &found));
    check(same, format!("operator: wanted {operator:?}, found {found}"));
    let all = source(out);
    let flat: String = all.split_whitespace().collect();
    for text in strings(&expected, "must_stay") {
        // The statement stays; what it is bound to and the end of its expression may have been simplified.
        let whole: String = text.split_whitespace().collect();
        let value = text.split_once(" = ").map_or(text.as_str(), |(_, value)| value);
        let value: String = value.split_whitespace().collect();
        let start = |text: &str| text.chars().take(10).collect::<String>();
        let stays = flat.contains(&start(&whole)) || flat.contains(&start(&value));
        check(stays, format!("`{text}` is gone"));
    }
    if let Some(most) = expected.get("bounds").and_then(|bounds| bounds.get("source_statements")) {
        let most: u64 = scalar(most).parse().unwrap();
        let found = number(report, "/source/statements");
        check(found <= most, format!("{found} statements, more than {most}"));
    }
    for key in ["value", "limit"] {
        let wanted = expected.get(key).map(scalar);
        let found = said(&format!("/failure/offence/{key}"));
        let wanted = wanted.filter(|wanted| wanted != "null");
        // A float is written shorter than it is.
        let fits = wanted.as_ref().is_none_or(|wanted| {
            let is_integer = wanted.parse::<i128>().is_ok();
            found.as_ref().is_some_and(|found| found == wanted || !is_integer && found.starts_with(wanted.as_str()))
        });
        check(fits, format!("{key}: wanted {wanted:?}, found {found:?}"));
    }
    let (runs, hits) = (number(report, "/confirmed/runs"), number(report, "/confirmed/hits"));
    check((runs, hits) == (3, 3), format!("{hits} of {runs} cold runs"));
    check(said("/certificate").as_deref() == Some("full"), format!("certificate {:?}", said("/certificate")));
    let total = number(report, "/runs/total");
    let wasted = number(report, "/runs/wasted");
    check(total - wasted <= MOST_RUNS, format!("{total} runs, more than {MOST_RUNS}"));
    check(wasted <= MOST_WASTED, format!("{wasted} guesses came to nothing"));
    let seconds = |path: &str| report.pointer(path).and_then(Value::as_f64).unwrap_or_default();
    let idle = seconds("/seconds/idle") / seconds("/seconds/search").max(0.001);
    // With one worker the engine's own work stands between two trials: only a run with a choice of workers is held to it.
    let alone = number(report, "/setting/jobs") == 1;
    check(
        alone || idle < MOST_IDLE || seconds("/seconds/idle") < LEAST_IDLE,
        format!("idle {:.1} % of the search", idle * 100.0),
    );
    check(out.join("repro.py").is_file(), "no repro.py".to_owned());
    let minimal = fs::read_to_string(root().join("corpus").join(name).join("minimal.py")).unwrap();
    let minimal = Program::parse(&SourceTree::from_texts([("minimal.py", minimal.as_str())])).unwrap();
    let (statements, tokens) = (number(report, "/repro/statements"), number(report, "/repro/tokens"));
    println!("  repro.py: {statements} statements, {tokens} tokens; by hand {}", minimal.tokens_count());
    check(statements <= 3, format!("repro.py has {statements} statements"));
    check(
        tokens <= minimal.tokens_count() as u64,
        format!("repro.py has {tokens} tokens, by hand {}", minimal.tokens_count()),
    );
    check(number(report, "/repro/data_bytes") == 0 && !out.join("data").exists(), "repro.py has data files".to_owned());
    check(
        (number(report, "/repro/confirmed/runs"), number(report, "/repro/confirmed/hits")) == (3, 3),
        "repro.py is not confirmed".to_owned(),
    );
    let first = number(report, "/runs/by_phase/repro");
    check(first <= MOST_BEFORE_REPRO, format!("{first} runs before the first repro"));
    wrong
}

fn every_case_with(python: &Path) {
    let mut wrong = Vec::new();
    let mut seconds = Vec::new();
    for name in cases() {
        let copy = Copy::of(&name, python);
        let before = snapshot(&copy.case);
        let out = copy.out("one");
        let begun = Instant::now();
        let output = run(&mut copy.reduce(&out, &[]));
        let took = begun.elapsed().as_secs_f64();
        if output.status.code() != Some(0) {
            wrong.push(format!("{name}: {}", text(&output)));
            continue;
        }
        assert_eq!(before, snapshot(&copy.case), "{name}: the user's files were touched");
        let report = report(&out);
        println!(
            "{name:16} {took:5.1} s, {} runs, {} of {} statements, {} of {} tokens",
            report["runs"]["total"],
            report["source"]["statements"],
            report["original"]["statements"],
            report["source"]["tokens"],
            report["original"]["tokens"],
        );
        wrong.extend(holds(&name, &out, &report));
        wrong.extend(is_minimal(&name, &out, python));
        seconds.push(took);
    }
    seconds.sort_by(f64::total_cmp);
    if let (Some(median), Some(worst)) = (seconds.get(seconds.len() / 2), seconds.last()) {
        println!("median {median:.1} s, worst {worst:.1} s");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Asks the independent script whether any single statement can go.
fn is_minimal(name: &str, out: &Path, python: &Path) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let harness = reduce::harness::install(folder.path()).unwrap();
    fs::write(harness.join("catalog.json"), Catalog::embedded().json()).unwrap();
    let script = root().join("tests/py/minimal.py");
    let output = run(Command::new(python).arg(script).arg(harness).arg(out));
    println!("  {}", String::from_utf8_lossy(&output.stdout).trim());
    (output.status.code() != Some(0)).then(|| format!("{name}: not minimal: {}", text(&output)))
}

#[test]
fn every_case_is_reduced_to_its_minimum_with_the_torch_of_today() {
    every_case_with(&new_python());
}

#[test]
fn every_case_is_reduced_to_its_minimum_with_an_old_torch() {
    every_case_with(&old_python());
}

#[test]
fn the_number_of_workers_and_a_kill_change_nothing() {
    let names: Vec<String> = if long() { cases() } else { SHORT.map(str::to_owned).to_vec() };
    for name in names {
        let copy = Copy::of(&name, &new_python());
        let (one, four) = (copy.out("one"), copy.out("four"));
        let output = run(&mut copy.reduce(&one, &["-j", "1"]));
        assert_eq!(output.status.code(), Some(0), "{name}: {}", text(&output));
        let output = run(&mut copy.reduce(&four, &["-j", "4"]));
        assert_eq!(output.status.code(), Some(0), "{name}: {}", text(&output));
        assert_eq!(result(&one), result(&four), "{name}: -j 1 and -j 4 differ");
        let killed = copy.out("killed");
        let whole = fs::read_to_string(one.join("ledger.jsonl")).unwrap().lines().count();
        let mut child = copy.reduce(&killed, &["-j", "2"]).spawn().unwrap();
        while fs::read_to_string(killed.join("ledger.jsonl")).unwrap_or_default().lines().count() < whole / 2 {
            assert!(child.try_wait().unwrap().is_none(), "{name}: ended before it could be killed");
            thread::sleep(Duration::from_millis(20));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let output = run(&mut copy.reduce(&killed, &["--resume"]));
        assert_eq!(output.status.code(), Some(0), "{name}: {}", text(&output));
        assert_eq!(result(&one), result(&killed), "{name}: a killed and resumed run differs");
        let resumed = number(&report(&killed), "/runs/resumed");
        assert!(resumed > 0, "{name}: nothing was taken from the ledger");
    }
}

#[test]
fn the_slippery_case_never_slips_and_keeps_the_other_failures() {
    let copy = Copy::of("slippery", &new_python());
    let times = if long() { 20 } else { 2 };
    for round in 0..times {
        let out = copy.out(&format!("slip-{round}"));
        let output = run(&mut copy.reduce(&out, &["-j", &format!("{}", 1 + round % 4)]));
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        let report = report(&out);
        assert_eq!(holds("slippery", &out, &report), Vec::<String>::new(), "round {round}");
        assert!(report["other"].as_array().is_some_and(|others| !others.is_empty()), "no other failure was kept");
        assert!(fs::read_dir(out.join("other")).unwrap().next().is_some());
    }
}

#[test]
fn a_reducer_that_looks_at_the_exit_status_alone_does_slip() {
    let copy = Copy::of("slippery", &new_python());
    let folder = tempfile::tempdir().unwrap();
    let harness = reduce::harness::install(folder.path()).unwrap();
    fs::write(harness.join("catalog.json"), Catalog::embedded().json()).unwrap();
    let script = root().join("tests/py/slip.py");
    let output = run(Command::new(new_python()).arg(script).arg(harness).arg(&copy.case));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    println!("{}", String::from_utf8_lossy(&output.stdout));
}

/// Whether the long runs are asked for.
fn long() -> bool {
    std::env::var_os("REDUCE_TEST_LONG").is_some()
}
