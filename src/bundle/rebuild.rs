//! The reports of a bundle, made from its ledger and its files alone: what the job does at its end, and `reduce report` later.
//!
//! Invariant: the same ledger and files give the same bytes; nothing is read but the bundle, and nothing is run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::secrets::Secrets;
use super::summary::Summary;
use super::tally::Tally;
use super::{BundleError, Outcome, draft, json, page, put};
use crate::ledger::{self, LedgerError, Record};
use crate::program::{SourceError, SourceTree};

/// Everything that a report is made of.
#[derive(Clone, Debug)]
pub(super) struct Material {
    pub(super) summary: Summary,
    pub(super) tally: Tally,
    /// Version of the program that made the run.
    pub(super) version: String,
    /// `repro.py`, where there is one.
    pub(super) repro: Option<String>,
    /// The files of `source/` that could be cut.
    pub(super) source: BTreeMap<String, String>,
    /// What `source/` printed in its last cold run; empty where there was none.
    pub(super) crash_log: String,
}

impl Material {
    /// Names of the programs in the bundle.
    pub(super) fn files(&self) -> impl Iterator<Item = &str> {
        self.source.keys().map(String::as_str).chain(["repro.py"])
    }
}

/// The reports as they were written.
#[derive(Clone, Debug)]
pub struct Reports {
    /// `report.json`.
    pub json: Value,
    /// `repro.py`, where there is one.
    pub repro: Option<String>,
}

/// A report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// No bundle.
    #[error("{} is not a bundle: {why}", path.display())]
    NotABundle {
        /// The folder.
        path: PathBuf,
        /// What is missing.
        why: String,
    },
    /// The ledger cannot be read.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The run has not ended.
    #[error("ledger `{}` has no record of how its run ended", path.display())]
    Unfinished {
        /// The ledger.
        path: PathBuf,
    },
    /// The record of the end is not as it should be.
    #[error("ledger `{}`: its `end` record cannot be read: {reason}", path.display())]
    End {
        /// The ledger.
        path: PathBuf,
        /// What is wrong.
        reason: serde_json::Error,
    },
    /// A file of the bundle cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A program file of the bundle cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The page cannot be made.
    #[error("cannot make report.html: {0}")]
    Page(#[from] page::PageError),
    /// A report cannot be written.
    #[error(transparent)]
    Write(#[from] Box<BundleError>),
}

impl ReportError {
    /// The ways out, a line each.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::NotABundle { .. } => {
                vec!["a bundle is a folder that `reduce crash.yaml` wrote, such as crash.reduced".to_owned()]
            }
            Self::Unfinished { .. } => {
                vec!["go on with the run: `reduce --resume crash.yaml`, or wait for it to end".to_owned()]
            }
            Self::Ledger(LedgerError::Schema { .. }) | Self::End { .. } => {
                vec!["use the release of this program that wrote it, or run the case again with `--force`".to_owned()]
            }
            Self::Ledger(LedgerError::Broken { .. }) => {
                vec!["take the ledger from a copy of the bundle, or run the case again with `--force`".to_owned()]
            }
            _ => Vec::new(),
        }
    }
}

/// Makes `report.json`, `REPORT.md` and `report.html` of a bundle again.
///
/// # Errors
/// When the folder is no bundle, its ledger cannot be read, or a file cannot be written.
pub fn rebuild(out: &Path, secrets: &Secrets) -> Result<Reports, ReportError> {
    let material = read(out, secrets)?;
    let json = json::report(&material);
    let text = serde_json::to_string_pretty(&json).unwrap_or_default() + "\n";
    let write = |name: &str, text: &str| put(out, name, text).map_err(Box::new);
    write("report.json", &text)?;
    write("REPORT.md", &draft::markdown(&material))?;
    write("report.html", &page::html(&material)?)?;
    Ok(Reports { json, repro: material.repro })
}

fn read(out: &Path, secrets: &Secrets) -> Result<Material, ReportError> {
    let not = |why: &str| ReportError::NotABundle { path: out.to_owned(), why: why.to_owned() };
    if !out.is_dir() {
        return Err(not("no such folder"));
    }
    let path = out.join("ledger.jsonl");
    if !path.is_file() {
        return Err(not("it holds no ledger.jsonl"));
    }
    let mut records = ledger::read_all(&path)?;
    let version = match records.first() {
        Some(Record::Case { version, .. }) => version.clone(),
        _ => return Err(not("its ledger.jsonl does not begin with a `case`")),
    };
    // What follows the end of a run is a later run that has not ended.
    let Some(Record::End { end }) = records.pop() else { return Err(ReportError::Unfinished { path }) };
    let summary: Summary =
        serde_json::from_value(end).map_err(|reason| ReportError::End { path: path.clone(), reason })?;
    if summary.outcome == Outcome::Interrupted {
        // Its ledger is kept as it is, to be resumed from; the reports leave the machine.
        records = records.into_iter().map(|record| cleaned(record, secrets)).collect();
    }
    let tally = Tally::of(&records, (summary.original.statements, summary.original.tokens));
    let repro = optional(&out.join("repro.py"))?;
    let crash_log = optional(&out.join("crash.log"))?.unwrap_or_default();
    let source = out.join("source");
    let inside = |path: &str| Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    let files = summary.files.keys().filter(|path| inside(path) && source.join(path).is_file());
    let files: Vec<String> = files.cloned().collect();
    let source = SourceTree::read(&source, &files)?;
    let source = source.files.iter().map(|(path, file)| (path.clone(), file.text().to_string())).collect();
    Ok(Material { summary, tally, version, repro, source, crash_log })
}

fn cleaned(record: Record, secrets: &Secrets) -> Record {
    let Ok(mut value) = serde_json::to_value(&record) else { return record };
    secrets.clone().clean_value("ledger.jsonl", &mut value);
    serde_json::from_value(value).unwrap_or(record)
}

fn optional(path: &Path) -> Result<Option<String>, ReportError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ReportError::File { path: path.to_owned(), source }),
    }
}
