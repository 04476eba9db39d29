//! `report.json`: the run for programs, versioned.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::secrets::Replaced;
use super::{Contents, words};
use crate::case::Program as CaseProgram;
use crate::environment::Machine;
use crate::evidence::Ground;
use crate::ledger::Ledger;
use crate::program::{Program, SourceTree};

/// Version of the format.
const SCHEMA: u32 = 1;

/// The whole of `report.json`.
pub(super) fn report(contents: &Contents<'_>, explanation: &[String], replaced: &[Replaced]) -> Value {
    let Contents { found, reducer, confirmed, oracle, ground, .. } = contents;
    let account = oracle.account();
    let ledger = oracle.ledger();
    let certificate = reducer.certificate();
    json!({
        "schema": SCHEMA,
        "outcome": contents.outcome,
        "signature": found.signature,
        "device": words::device(ground),
        "setting": {
            "mode": found.mode, "launch_blocking": found.pins.launch_blocking, "seed": found.pins.seed,
            "num_workers": found.pins.num_workers, "hidden": found.hidden, "as_given": found.as_given,
            "command": ground.case.command.text, "python": ground.python.version,
            "torch": ground.python.torch.as_ref().map(|torch| torch.version.clone()), "jobs": contents.jobs,
        },
        "program": program(ground),
        "source_files": reducer.program().paths(),
        "original": size(reducer.original()),
        "source": size(reducer.program()),
        "repro": confirmed.repro.as_ref().map(|one| {
            let mut value = tree_size(&one.repro.tree(), one.repro.data_bytes());
            value["how"] = json!(one.how);
            value["confirmed"] = json!({ "runs": one.runs, "hits": one.hits });
            value
        }),
        "runs": {
            "total": oracle.runs(), "resumed": ledger.resumed(), "by_verdict": by_verdict(ledger),
            "by_phase": by_phase(ledger), "by_pass": by_pass(ledger), "cached": account.cached,
            "inferred": certificate.inferred(), "wasted": account.wasted,
        },
        "seconds": {
            "total": contents.seconds, "in_trials": in_trials(ledger), "search": account.searched,
            "idle": account.idle, "by_phase": seconds_by_phase(ledger),
        },
        "confirmed": { "runs": confirmed.runs, "hits": confirmed.hits },
        "certificate": certificate.kind(),
        "proofs": certificate.counts(),
        "site": found.frames.last().map(|frame| json!({
            "file": frame.file, "line": frame.line,
            "statement": words::statement_text(contents, &frame.file, frame.line),
        })),
        "origin": words::origin(found, ground),
        "explained": contents.explained(),
        "explained_text": contents.explained().to_string(),
        "failure": found.failure,
        "explanation": explanation,
        "replaced": replaced,
        "other": oracle.others().map(|other| json!({ "failure": other.failure, "tokens": other.size.1 })).collect::<Vec<_>>(),
        "notes": found.notes,
        "untried": found.untried,
        "context": { "environment": found.environment, "machine": Machine::here(), "python": ground.python.executable.file_name().map(|name| name.to_string_lossy()) },
    })
}

/// How the program is started, from the root of `source/`.
fn program(ground: &Ground) -> Value {
    let (kind, target) = match &ground.invocation.program {
        CaseProgram::Script(path) => ("script", path),
        CaseProgram::Module(name) => ("module", name),
    };
    let mut env = ground.case.setting.env.clone();
    env.extend(ground.invocation.env.clone());
    json!({
        "kind": kind, "target": target, "argv": ground.invocation.argv, "workdir": ground.invocation.workdir,
        "options": ground.invocation.options, "env": env,
    })
}

fn size(program: &Program) -> Value {
    let bytes: usize = program.tree().files.values().map(|file| file.text().len()).sum();
    json!({
        "files": program.tree().files.len(), "statements": program.statements_count(),
        "tokens": program.tokens_count(), "bytes": bytes, "data_bytes": 0,
    })
}

fn tree_size(tree: &SourceTree, data_bytes: u64) -> Value {
    match Program::parse(tree) {
        Ok(program) => {
            let mut value = size(&program);
            value["data_bytes"] = json!(data_bytes);
            value
        }
        Err(_) => Value::Null,
    }
}

/// Trials by verdict.
pub(super) fn by_verdict(ledger: &Ledger) -> BTreeMap<String, u64> {
    count(ledger, |trial| trial.verdict.name().to_owned())
}

/// Trials by phase.
pub(super) fn by_phase(ledger: &Ledger) -> BTreeMap<String, u64> {
    count(ledger, |trial| trial.phase.clone())
}

fn by_pass(ledger: &Ledger) -> BTreeMap<String, u64> {
    count(ledger, |trial| format!("{}/{}", trial.phase, trial.pass))
}

fn count(ledger: &Ledger, key: impl Fn(&crate::ledger::TrialRecord) -> String) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for trial in ledger.trials() {
        *counts.entry(key(trial)).or_default() += 1;
    }
    counts
}

fn in_trials(ledger: &Ledger) -> f64 {
    ledger.trials().map(|trial| trial.seconds).sum()
}

fn seconds_by_phase(ledger: &Ledger) -> BTreeMap<String, f64> {
    let mut seconds = BTreeMap::new();
    for trial in ledger.trials() {
        *seconds.entry(trial.phase.clone()).or_default() += trial.seconds;
    }
    seconds
}
