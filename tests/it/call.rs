//! The failing call as a program: each form of each operator that asserts dies in the same way, and each corpus case has a
//! minimum written by hand that does.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use reduce::call;
use reduce::program::{Program, SourceTree};
use reduce::signature::{self, Catalog, Evidence, Match, Signature};
use reduce::trial::Failure;
use reduce::yaml;
use serde::Deserialize;

use crate::support::{new_python, old_python, root};

#[derive(Deserialize)]
struct Recorded {
    call: String,
    failure: Failure,
    stderr: String,
}

#[derive(Deserialize)]
struct Ran {
    status: i32,
    stderr: String,
    op: Option<String>,
}

fn script(python: &Path, mode: &str, input: &str) -> String {
    let mut child = Command::new(python)
        .arg(root().join("tests/py/call_programs.py"))
        .arg(mode)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().find_map(|line| line.strip_prefix("=>")).unwrap().to_owned()
}

fn run_all(python: &Path, programs: &[String]) -> Vec<Ran> {
    serde_json::from_str(&script(python, "run", &serde_json::to_string(programs).unwrap())).unwrap()
}

fn signature_of(stderr: &str, op: Option<&str>) -> Option<Signature> {
    signature::parse(&Evidence { stderr, operator: op, ..Evidence::default() })
}

fn version(python: &Path) -> call::Version {
    let output = Command::new(python).args(["-c", "import torch; print(torch.__version__)"]).output().unwrap();
    call::version(String::from_utf8_lossy(&output.stdout).trim())
}

/// Records each call that asserts, makes its forms, runs them all, and names those that die otherwise.
fn every_call_with(python: &Path) -> BTreeSet<String> {
    let recorded: Vec<Recorded> = serde_json::from_str(&script(python, "record", "")).unwrap();
    let torch = version(python);
    let (mut programs, mut owners) = (Vec::new(), Vec::new());
    for (at, one) in recorded.iter().enumerate() {
        let wanted = signature_of(&one.stderr, Some(&one.failure.op)).unwrap();
        for (rank, form) in call::forms(&one.failure, &wanted, torch).into_iter().enumerate() {
            programs.push(form.text);
            owners.push((at, rank));
        }
    }
    let ran = run_all(python, &programs);
    let mut first_holds = vec![None; recorded.len()];
    for ((ran, (at, rank)), text) in ran.iter().zip(&owners).zip(&programs) {
        let wanted = signature_of(&recorded[*at].stderr, Some(&recorded[*at].failure.op)).unwrap();
        let seen = signature_of(&ran.stderr, ran.op.as_deref());
        let holds = ran.status != 0 && seen.is_some_and(|seen| seen.matches(&wanted, Match::Normal));
        if holds && first_holds[*at].is_none() {
            first_holds[*at] = Some((*rank, text.clone()));
        }
        if !holds {
            println!(
                "form {rank} of {} does not hold:\n{text}{}",
                recorded[*at].call,
                ran.stderr.lines().next_back().unwrap_or("")
            );
        }
    }
    let mut chosen = BTreeSet::new();
    let mut wrong = Vec::new();
    for (one, found) in recorded.iter().zip(first_holds) {
        match found {
            Some((rank, text)) => {
                let size = Program::parse(&SourceTree::from_texts([("repro.py", text.as_str())])).unwrap();
                println!("{rank} {} {}", size.tokens_count(), text.lines().nth(2).unwrap_or_default());
                chosen.insert(text.lines().skip(2).collect::<Vec<_>>().join("; "));
                if rank > 0 || size.statements_count() > 3 && !one.call.contains("backward") {
                    wrong.push(format!("{}: form {rank}: {text}", one.call));
                }
            }
            None => wrong.push(format!("{}: no form holds", one.call)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    chosen
}

#[test]
fn every_operator_that_asserts_has_a_program_of_one_call_with_the_torch_of_today() {
    let found = every_call_with(&new_python());
    // The same list is run on a real device by tests/py/gpu_record.py.
    let path = root().join("tests/fixtures/one-call-programs.txt");
    let listed: BTreeSet<String> = fs::read_to_string(&path).unwrap_or_default().lines().map(str::to_owned).collect();
    let text = found.iter().map(|line| line.clone() + "\n").collect::<String>();
    assert!(found == listed, "{} should hold:\n{text}", path.display());
}

#[test]
fn every_operator_that_asserts_has_a_program_of_one_call_with_an_old_torch() {
    every_call_with(&old_python());
}

fn cases() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        fs::read_dir(root().join("corpus")).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.retain(|folder| folder.join("expected.yaml").is_file());
    folders.sort();
    folders
}

fn every_minimum_with(python: &Path) {
    let folders = cases();
    assert!(folders.len() >= 12);
    let programs: Vec<String> =
        folders.iter().map(|folder| fs::read_to_string(folder.join("minimal.py")).unwrap()).collect();
    for (ran, folder) in run_all(python, &programs).iter().zip(&folders) {
        let expected = yaml::read(&folder.join("expected.yaml"), "expected.yaml").unwrap();
        let wanted = |key: &str| expected.get("signature").unwrap().get(key).unwrap().text().unwrap().to_owned();
        let seen = signature_of(&ran.stderr, ran.op.as_deref()).unwrap_or_else(|| panic!("{folder:?}: {}", ran.stderr));
        assert_eq!((ran.status, seen.class.as_str()), (1, wanted("class").as_str()), "{folder:?}");
        let operator = seen.operator.unwrap_or_default();
        assert!(Catalog::embedded().same_operator(&wanted("operator"), &operator), "{folder:?}: {operator}");
    }
}

#[test]
fn the_minimum_by_hand_of_each_case_fails_in_the_same_way() {
    every_minimum_with(&new_python());
    every_minimum_with(&old_python());
}
