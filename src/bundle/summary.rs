//! What the reports say of a run beside its trials: the `end` record of the ledger.
//!
//! Invariant: together with the trials and the files of the bundle it is all that a report is made of, so that a report can
//! be made again without the program, its data, Python or this machine.
//! Must not be read before it is clean: see [`super::secrets`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::secrets::Replaced;
use super::{Contents, Outcome, graph, words};
use crate::case::Program as CaseProgram;
use crate::environment::Machine;
use crate::evidence::Ground;
use crate::program::{Program, SourceTree};
use crate::signature::Signature;
use crate::trial::{Device, Failure, Mode, Note, Step};

/// The whole `end` record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Summary {
    pub(super) outcome: Outcome,
    pub(super) signature: Signature,
    pub(super) device: Device,
    pub(super) setting: Setting,
    /// How the program is started, from the root of `source/`.
    pub(super) program: Value,
    pub(super) source_files: Vec<String>,
    pub(super) original: Size,
    pub(super) source: Size,
    pub(super) repro: Option<ReproSummary>,
    pub(super) runs: Runs,
    pub(super) seconds: Seconds,
    pub(super) confirmed: Counted,
    pub(super) certificate: Certified,
    /// Where it fails in the original.
    pub(super) site: Value,
    pub(super) origin: Value,
    /// What failed and why, as `reduce explain` gives it.
    pub(super) explained: Value,
    pub(super) explained_text: String,
    /// The path of the value, from its origin to the failing call.
    pub(super) path: Vec<Step>,
    pub(super) failure: Option<Failure>,
    /// The three lines of the last screen.
    pub(super) explanation: Vec<String>,
    pub(super) other: Vec<Other>,
    pub(super) notes: Vec<Note>,
    pub(super) untried: Vec<String>,
    /// What the first run said of its surroundings.
    pub(super) environment: Value,
    #[serde(default)]
    pub(super) machine: Machine,
    pub(super) executable: Option<String>,
    /// What the program of the draft prints: `repro.py` where there is one, else `source/`.
    pub(super) printed: String,
    /// The original text of the files that could be cut.
    pub(super) files: BTreeMap<String, String>,
    pub(super) graph: graph::Drawn,
    #[serde(default)]
    pub(super) replaced: Vec<Replaced>,
}

/// How trials were run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Setting {
    pub(super) mode: Mode,
    pub(super) launch_blocking: bool,
    pub(super) seed: Option<u64>,
    pub(super) num_workers: Option<u32>,
    pub(super) hidden: Vec<String>,
    pub(super) as_given: String,
    pub(super) command: String,
    pub(super) python: String,
    pub(super) torch: Option<String>,
    pub(super) cuda: Option<String>,
    pub(super) jobs: usize,
}

/// Size of a program.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Size {
    pub(super) files: usize,
    pub(super) statements: usize,
    pub(super) tokens: usize,
    pub(super) bytes: usize,
    pub(super) data_bytes: u64,
}

/// The single-file program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ReproSummary {
    #[serde(flatten)]
    pub(super) size: Size,
    pub(super) how: String,
    pub(super) confirmed: Counted,
}

/// Cold runs.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Counted {
    pub(super) runs: u32,
    pub(super) hits: u32,
}

/// Numbers that trials do not hold.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Runs {
    pub(super) total: u64,
    pub(super) resumed: usize,
    pub(super) cached: u64,
    pub(super) inferred: usize,
    pub(super) wasted: u64,
}

/// Where the time went.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Seconds {
    pub(super) total: f64,
    pub(super) search: f64,
    pub(super) idle: f64,
}

/// What speaks for the result being minimal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Certified {
    pub(super) kind: Value,
    pub(super) words: String,
    pub(super) counts: Value,
}

/// Another failure that was seen on the way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Other {
    pub(super) failure: String,
    pub(super) tokens: usize,
}

impl Summary {
    /// Whether a cold run of what the bundle holds has shown the failure.
    pub(super) fn is_confirmed(&self) -> bool {
        self.confirmed.hits > 0 || self.repro.is_some()
    }

    /// Gathers it at the end of a run; `files` are the original's, clean.
    pub(super) fn of(contents: &Contents<'_>, files: BTreeMap<String, String>) -> Self {
        let Contents { found, reducer, confirmed, oracle, ground, .. } = contents;
        let account = oracle.account();
        let certificate = reducer.certificate();
        let explained = contents.explained();
        let torch = ground.python.torch.as_ref();
        let printed = match &confirmed.repro {
            Some(one) => one.log.clone(),
            None if confirmed.crash_log.is_empty() => found.log.clone(),
            None => confirmed.crash_log.clone(),
        };
        Self {
            outcome: contents.outcome,
            signature: found.signature.clone(),
            device: ground.device,
            setting: Setting {
                mode: found.mode,
                launch_blocking: found.pins.launch_blocking,
                seed: found.pins.seed,
                num_workers: found.pins.num_workers,
                hidden: found.hidden.clone(),
                as_given: found.as_given.clone(),
                command: ground.case.command.text.clone(),
                python: ground.python.version.clone(),
                torch: torch.map(|torch| torch.version.clone()),
                cuda: torch.and_then(|torch| torch.cuda.clone()),
                jobs: contents.jobs,
            },
            program: program(ground),
            source_files: reducer.program().paths().to_vec(),
            original: Size { data_bytes: contents.data_bytes.0, ..size(reducer.original()) },
            source: Size { data_bytes: contents.data_bytes.1, ..size(reducer.program()) },
            repro: confirmed.repro.as_ref().map(|one| ReproSummary {
                size: tree_size(&one.repro.tree(), one.repro.data_bytes()),
                how: one.how.to_owned(),
                confirmed: Counted { runs: one.runs, hits: one.hits },
            }),
            runs: Runs {
                total: oracle.runs(),
                resumed: oracle.ledger().resumed(),
                cached: account.cached,
                inferred: certificate.inferred(),
                wasted: account.wasted,
            },
            seconds: Seconds { total: contents.seconds, search: account.searched, idle: account.idle },
            confirmed: Counted { runs: confirmed.runs, hits: confirmed.hits },
            certificate: Certified {
                kind: json!(certificate.kind()),
                words: certificate.in_words(),
                counts: certificate.counts(),
            },
            site: json!(found.frames.last().map(|frame| json!({
                "file": frame.file, "line": frame.line,
                "statement": words::statement_text(contents, &frame.file, frame.line),
            }))),
            origin: json!(words::origin(found, ground)),
            explained: json!(explained),
            explained_text: explained.to_string(),
            path: explained.path,
            failure: found.failure.clone(),
            explanation: words::explanation(contents),
            other: oracle
                .others()
                .map(|other| Other { failure: other.failure.clone(), tokens: other.size.1 })
                .collect(),
            notes: found.notes.clone(),
            untried: found.untried.clone(),
            environment: found.environment.clone(),
            machine: Machine::here(),
            executable: ground.python.executable.file_name().map(|name| name.to_string_lossy().into_owned()),
            printed,
            files,
            graph: graph::draw(contents),
            replaced: Vec::new(),
        }
    }
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

fn size(program: &Program) -> Size {
    Size {
        files: program.tree().files.len(),
        statements: program.statements_count(),
        tokens: program.tokens_count(),
        bytes: program.tree().files.values().map(|file| file.text().len()).sum(),
        data_bytes: 0,
    }
}

fn tree_size(tree: &SourceTree, data_bytes: u64) -> Size {
    Program::parse(tree).map_or_else(|_| Size::default(), |program| Size { data_bytes, ..size(&program) })
}
