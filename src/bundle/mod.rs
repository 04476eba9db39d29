//! The bundle: the folder that a user gets.
//!
//! Invariant: everything in it follows from the ledger, the evidence and the final files; what was not shown is not said.

pub mod archive;
mod context;
mod draft;
mod graph;
mod json;
mod page;
mod rebuild;
pub mod repro;
pub mod secrets;
pub mod stored;
mod summary;
mod tally;
mod versions;
mod words;

pub use rebuild::{ReportError, Reports, rebuild};
pub use words::{explanation, origin};

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::json;
use similar::TextDiff;

use crate::data::{Data, DataError};
use crate::evidence::{Found, Ground};
use crate::explain::{self, RunExplanation};
use crate::ledger::{self, LedgerError, Record};
use crate::oracle::Oracle;
use crate::program::{SourceError, SourceTree};
use crate::search::reducer::Reducer;
use crate::trial::Device;

use repro::Repro;
use secrets::Secrets;
use summary::Summary;

/// How the run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Reduced and confirmed.
    Reduced,
    /// A limit ended it; the best is confirmed.
    Limit,
    /// Ctrl-C ended it; the best is kept.
    Interrupted,
    /// The cold runs did not all show the failure.
    Unconfirmed,
}

/// What the cold runs showed.
#[derive(Clone, Debug, Default)]
pub struct Confirmed {
    /// Cold runs of `source/`.
    pub runs: u32,
    /// Those that failed in the right way.
    pub hits: u32,
    /// Standard error of the last one that did.
    pub crash_log: String,
    /// The single-file program, where one keeps the failure.
    pub repro: Option<ConfirmedRepro>,
}

impl Confirmed {
    /// Whether a cold run of what the bundle holds has shown the failure.
    fn any(&self) -> bool {
        self.hits > 0 || self.repro.is_some()
    }
}

/// A single-file program that keeps the failure.
#[derive(Clone, Debug)]
pub struct ConfirmedRepro {
    /// Its text without the header, and its data files.
    pub repro: Repro,
    /// How it was made, in words.
    pub how: &'static str,
    /// Cold runs.
    pub runs: u32,
    /// Those that failed in the right way.
    pub hits: u32,
    /// Standard error of one that did.
    pub log: String,
}

/// What a bundle is made from.
pub struct Contents<'a> {
    /// How the run ended.
    pub outcome: Outcome,
    /// What preflight found.
    pub found: &'a Found,
    /// The search with its best.
    pub reducer: &'a Reducer,
    /// The cold runs.
    pub confirmed: &'a Confirmed,
    /// Ledger, other failures and account.
    pub oracle: &'a Oracle,
    /// Case, command, interpreter and device.
    pub ground: &'a Ground,
    /// Trials at once.
    pub jobs: usize,
    /// Seconds of the whole run.
    pub seconds: f64,
    /// Bytes of the project's data files: of the program as given, and in `source/`.
    pub data_bytes: (u64, u64),
}

impl Contents<'_> {
    /// What failed and why, with the path of the value.
    pub fn explained(&self) -> RunExplanation {
        let Ground { invocation, device, .. } = self.ground;
        explain::of_run(self.found, self.reducer.original(), &invocation.project, *device)
    }
}

/// A bundle on disk, and what the last screen says of it.
#[derive(Clone, Debug)]
pub struct Bundle {
    /// Its folder.
    pub out: PathBuf,
    /// How the run ended.
    pub outcome: Outcome,
    /// Three lines: what failed, where, and where the value came from.
    pub explanation: Vec<String>,
    /// The text of `repro.py`, or of nothing.
    pub repro: Option<String>,
    /// Unified diff, original to `source/`.
    pub diff: String,
    /// The whole of `report.json`.
    pub report: serde_json::Value,
}

/// The bundle could not be written.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// A file of it.
    #[error("cannot write `{path}`: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A source file of it.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A data file that is cut.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Its ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// A report of it.
    #[error(transparent)]
    Report(#[from] Box<ReportError>),
}

/// Writes everything beside `source/`, which is in place already, and concludes the ledger.
///
/// # Errors
/// When a file cannot be written.
pub fn write(out: &Path, contents: &Contents<'_>, secrets: &mut Secrets) -> Result<Bundle, BundleError> {
    let original = clean_tree(contents.reducer.original().tree(), secrets);
    let best = clean_tree(contents.reducer.program().tree(), &mut secrets.clone());
    let diff = source_diff(&original, &best);
    put(out, "source.diff", &diff)?;
    put(out, "crash.log", &contents.confirmed.crash_log)?;
    put_script(out, "run.sh", &run_script(contents))?;
    put(out, "context.yaml", &context::yaml(contents))?;
    match &contents.confirmed.repro {
        Some(confirmed) => {
            let header = repro::header(contents.found, contents.ground);
            repro::lay_out(out, &confirmed.repro, &header, &out.join("source"))?;
        }
        None => {
            // One that was shown early and did not hold.
            let _none = fs::remove_file(out.join("repro.py"));
        }
    }
    for (number, other) in contents.oracle.others().enumerate() {
        let folder = out.join("other").join(format!("{:02}", number + 1));
        other.candidate.tree.write_all(&folder)?;
        write_data(&other.candidate.data, &contents.oracle.pool().spec().scratch, &folder)?;
        put(&folder, "FAILURE.txt", &format!("{}\n", other.failure))?;
    }
    let resumable = contents.outcome == Outcome::Interrupted;
    secrets
        .clean_folder(out, out, &|name| resumable && name == "ledger.jsonl")
        .map_err(|source| BundleError::File { path: out.to_owned(), source })?;
    let files = original.files.iter().map(|(path, file)| (path.clone(), file.text().to_string())).collect();
    let summary = conclude(out, Summary::of(contents, files), secrets)?;
    let Reports { json: report, repro } = rebuild(out, secrets).map_err(Box::new)?;
    Ok(Bundle { out: out.to_owned(), outcome: contents.outcome, explanation: summary.explanation, repro, diff, report })
}

/// Writes what is left of data files into a folder; those that are whole are the project's.
fn write_data(data: &Data, scratch: &Path, folder: &Path) -> Result<(), BundleError> {
    for (path, from) in data.lay_out(scratch)? {
        let to = folder.join(path);
        let written = to.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::copy(&from, &to));
        written.map_err(|source| BundleError::File { path: to, source })?;
    }
    Ok(())
}

/// Appends how the run ended to the ledger, without secrets; what the reports say is made of this.
fn conclude(out: &Path, summary: Summary, secrets: &mut Secrets) -> Result<Summary, BundleError> {
    let mut end = json!(summary);
    // Names of files stay as they are on disk, and their texts are clean already.
    let files = end["files"].take();
    secrets.clean_value("report.json", &mut end);
    end["files"] = files;
    end["replaced"] = json!(secrets.replaced());
    let clean = serde_json::from_value(end.clone()).unwrap_or(summary);
    ledger::conclude(&out.join("ledger.jsonl"), &Record::End { end })?;
    Ok(clean)
}

/// The files of a program without secrets: a diff of clean texts shows none, however its lines are marked.
fn clean_tree(tree: &SourceTree, secrets: &mut Secrets) -> SourceTree {
    let texts: BTreeMap<&str, String> =
        tree.files.iter().map(|(path, file)| (path.as_str(), secrets.clean(path, file.text()))).collect();
    SourceTree::from_texts(texts.iter().map(|(path, text)| (*path, text.as_str())))
}

/// Unified diff over all files, those that went included.
pub fn source_diff(original: &SourceTree, best: &SourceTree) -> String {
    let mut diff = String::new();
    for (path, before) in original.files.iter() {
        let after = best.get(path).map(|file| file.text().to_string());
        let text = after.clone().unwrap_or_default();
        if text == before.text().as_ref() {
            continue;
        }
        let name = if after.is_some() { format!("source/{path}") } else { "/dev/null".to_owned() };
        let changes = TextDiff::from_lines(before.text().as_ref(), text.as_str());
        diff += &changes.unified_diff().header(&format!("original/{path}"), &name).to_string();
    }
    diff
}

fn run_script(contents: &Contents<'_>) -> String {
    let Ground { case, invocation, .. } = contents.ground;
    let mut lines = vec![
        "#!/bin/sh".to_owned(),
        "# Runs the reduced program as it was typed, with the environment in which it was run.".to_owned(),
    ];
    if contents.ground.device == Device::Emulated {
        lines.push(format!("# {}.", words::shown_on(Device::Emulated, contents.confirmed.hits > 0)));
    }
    lines.push(format!("cd \"$(dirname \"$0\")/source/{}\" || exit 1", invocation.workdir));
    for (key, value) in case.setting.env.iter().chain(&invocation.env) {
        lines.push(format!("export {key}={}", shell_words::quote(value)));
    }
    if contents.found.pins.launch_blocking {
        lines.push("export CUDA_LAUNCH_BLOCKING=1".to_owned());
    }
    if let Some(seed) = contents.found.pins.seed {
        lines.push(format!("export PYTHONHASHSEED={seed}"));
    }
    lines.push(format!("exec {}", words::command(contents.ground)));
    lines.join("\n") + "\n"
}

fn put(folder: &Path, name: &str, text: &str) -> Result<(), BundleError> {
    let path = folder.join(name);
    fs::write(&path, text).map_err(|source| BundleError::File { path, source })
}

fn put_script(folder: &Path, name: &str, text: &str) -> Result<(), BundleError> {
    use std::os::unix::fs::PermissionsExt;
    put(folder, name, text)?;
    let path = folder.join(name);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(|source| BundleError::File { path, source })
}
