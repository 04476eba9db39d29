//! The append-only record of every trial: looked up by the oracle, replayed by `--resume`, read by every report.
//!
//! Invariant: a record is on disk before anyone acts on it; a line cut short by a kill is dropped when the file is read.
//! It judges nothing.

mod hold;

pub use hold::Hold;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::candidate::CandidateId;
use crate::trial::Mode;
use crate::verdict::Verdict;

/// Version of the format.
pub const SCHEMA: u32 = 1;

/// One line of the ledger.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// The first line: what the ledger belongs to.
    Case {
        /// Version of the format.
        schema: u32,
        /// Version of the program that wrote it.
        version: String,
        /// Hash of the case: another case must not resume from it.
        case: String,
    },
    /// What preflight found; resume takes it from here instead of running it again.
    Evidence {
        /// As the main job wrote it.
        evidence: serde_json::Value,
    },
    /// A finished trial.
    Trial(Box<TrialRecord>),
    /// A new smallest candidate that fails the same way.
    Best {
        /// Which.
        candidate: CandidateId,
        /// Statements left.
        statements: usize,
        /// Tokens left.
        tokens: usize,
        /// Phase that found it.
        phase: String,
        /// Seconds since the run began.
        at: f64,
    },
    /// How the run ended, once it has: what the reports need beside the trials.
    End {
        /// As the bundle wrote it.
        end: serde_json::Value,
    },
}

/// A finished trial.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Number within the run.
    pub trial: u64,
    /// What was run.
    pub candidate: CandidateId,
    /// How it was run: the setting's name, such as `as given` or `pinned`.
    pub setting: String,
    /// Forked or cold.
    pub mode: Mode,
    /// Phase of the job.
    pub phase: String,
    /// Pass within the phase.
    pub pass: String,
    /// What the candidate lacks beside the best, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub what: String,
    /// The verdict.
    pub verdict: Verdict,
    /// Wall time in seconds.
    pub seconds: f64,
    /// Seconds since the run began when it was started.
    pub at: f64,
    /// Statements of the candidate.
    pub statements: usize,
    /// Tokens of the candidate.
    pub tokens: usize,
}

/// Failures of the ledger's file.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The file cannot be opened, read or written.
    #[error("cannot use ledger `{path}`: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Another run has it.
    #[error("another run works in `{}`: {}", folder(path).display(), named(*process))]
    Busy {
        /// Which.
        path: PathBuf,
        /// The process of that run, where it could be seen.
        process: Option<u32>,
    },
    /// It was written for another case.
    #[error("ledger `{path}` belongs to another case or version; use `--force` to start anew")]
    Foreign {
        /// Which.
        path: PathBuf,
    },
    /// A line is not what this program writes.
    #[error("ledger `{path}` is broken: line {line}: {reason}")]
    Broken {
        /// Which.
        path: PathBuf,
        /// 1-based.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// Its format is another one.
    #[error("ledger `{path}` has format {found}, and this program reads format {SCHEMA}")]
    Schema {
        /// Which.
        path: PathBuf,
        /// Its format.
        found: u64,
    },
}

/// The bundle folder of a ledger.
fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

fn named(process: Option<u32>) -> String {
    process.map_or_else(|| "a process that is not seen from here".to_owned(), |number| format!("process {number}"))
}

/// The ledger of one run, open for appending; no other run writes into it.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    file: File,
    _hold: Hold,
    records: Vec<Record>,
    known: BTreeMap<(CandidateId, String), Verdict>,
    resumed: usize,
}

impl Ledger {
    /// Starts a new ledger.
    ///
    /// # Errors
    /// When the file cannot be made, or another run has it.
    pub fn create(path: &Path, case: &str) -> Result<Self, LedgerError> {
        let fail = |source| LedgerError::File { path: path.to_owned(), source };
        // What stands there may be another run's: it goes only under the lock.
        let (file, hold) = hold::open(path, OpenOptions::new().write(true).create(true).truncate(false))?;
        file.set_len(0).map_err(fail)?;
        let mut ledger =
            Self { path: path.to_owned(), file, _hold: hold, records: Vec::new(), known: BTreeMap::new(), resumed: 0 };
        ledger.append(Record::Case {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            case: case.to_owned(),
        })?;
        Ok(ledger)
    }

    /// Opens the ledger of an earlier run and goes on behind its last whole line.
    ///
    /// # Errors
    /// When it cannot be read, belongs to another case, or another run has it.
    pub fn resume(path: &Path, case: &str) -> Result<Self, LedgerError> {
        let fail = |source| LedgerError::File { path: path.to_owned(), source };
        let (mut file, hold) = hold::open(path, OpenOptions::new().write(true))?;
        let (records, whole) = read(path).map_err(fail)?;
        let fits = matches!(records.first(), Some(Record::Case { schema, version, case: written })
            if *schema == SCHEMA && version == env!("CARGO_PKG_VERSION") && written == case);
        if !fits {
            return Err(LedgerError::Foreign { path: path.to_owned() });
        }
        file.set_len(whole).map_err(fail)?;
        file.seek(SeekFrom::End(0)).map_err(fail)?;
        let mut ledger = Self {
            path: path.to_owned(),
            file,
            _hold: hold,
            resumed: records.iter().filter(|record| matches!(record, Record::Trial(_))).count(),
            records: Vec::new(),
            known: BTreeMap::new(),
        };
        for record in records {
            ledger.note(record);
        }
        Ok(ledger)
    }

    /// Appends a record and hands it to the system.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn append(&mut self, record: Record) -> Result<(), LedgerError> {
        let fail = |source| LedgerError::File { path: self.path.clone(), source };
        let mut line = serde_json::to_vec(&record).map_err(|error| fail(error.into()))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(fail)?;
        self.note(record);
        Ok(())
    }

    /// The verdict on a candidate in a setting, if a trial has given one that counts as an answer.
    pub fn known(&self, candidate: &CandidateId, setting: &str) -> Option<&Verdict> {
        self.known.get(&(candidate.clone(), setting.to_owned()))
    }

    /// Everything recorded, in order.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The trials, in the order in which they ended.
    pub fn trials(&self) -> impl Iterator<Item = &TrialRecord> {
        self.records.iter().filter_map(|record| match record {
            Record::Trial(trial) => Some(trial.as_ref()),
            _ => None,
        })
    }

    /// What preflight found, if it was recorded.
    pub fn evidence(&self) -> Option<&serde_json::Value> {
        self.records.iter().rev().find_map(|record| match record {
            Record::Evidence { evidence } => Some(evidence),
            _ => None,
        })
    }

    /// Number of trials that an earlier run made.
    pub fn resumed(&self) -> usize {
        self.resumed
    }

    fn note(&mut self, record: Record) {
        if let Record::Trial(trial) = &record
            && trial.verdict.is_answer()
        {
            self.known.insert((trial.candidate.clone(), trial.setting.clone()), trial.verdict.clone());
        }
        self.records.push(record);
    }
}

/// Reads the whole lines of a ledger, and says where they end.
///
/// # Errors
/// When the file cannot be read.
pub fn read(path: &Path) -> std::io::Result<(Vec<Record>, u64)> {
    let mut reader = BufReader::new(File::open(path)?);
    let mut records = Vec::new();
    let mut whole = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = reader.read_until(b'\n', &mut line)?;
        if length == 0 || line.last() != Some(&b'\n') {
            break;
        }
        let Ok(record) = serde_json::from_slice(&line) else { break };
        records.push(record);
        whole += length as u64;
    }
    Ok((records, whole))
}

/// Reads a ledger that is whole: for reports, which must not be made of a part.
///
/// # Errors
/// When it cannot be read, is of another format, or holds a line that this program does not write.
pub fn read_all(path: &Path) -> Result<Vec<Record>, LedgerError> {
    let owned = || path.to_owned();
    let bytes = std::fs::read(path).map_err(|source| LedgerError::File { path: owned(), source })?;
    let mut records = Vec::new();
    for (number, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let broken = |reason: String| LedgerError::Broken { path: owned(), line: number + 1, reason };
        if number == 0
            && let Ok(first) = serde_json::from_slice::<serde_json::Value>(line)
            && let Some(found) = first.get("schema").and_then(serde_json::Value::as_u64)
            && found != u64::from(SCHEMA)
        {
            return Err(LedgerError::Schema { path: owned(), found });
        }
        if !line.ends_with(b"\n") {
            return Err(broken("it is cut short".to_owned()));
        }
        records.push(serde_json::from_slice(line).map_err(|error| broken(error.to_string()))?);
    }
    Ok(records)
}

/// Appends a record to a ledger that nobody has open for writing any more, or that has said its last word.
///
/// # Errors
/// When the file cannot be written.
pub fn conclude(path: &Path, record: &Record) -> Result<(), LedgerError> {
    let fail = |source: std::io::Error| LedgerError::File { path: path.to_owned(), source };
    let mut line = serde_json::to_vec(record).map_err(|error| fail(error.into()))?;
    line.push(b'\n');
    let mut file = OpenOptions::new().append(true).open(path).map_err(fail)?;
    file.write_all(&line).map_err(fail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(number: u64, verdict: Verdict) -> Record {
        Record::Trial(Box::new(TrialRecord {
            trial: number,
            candidate: CandidateId("c".to_owned() + &number.to_string()),
            setting: "pinned".to_owned(),
            mode: Mode::Fork,
            phase: "slice".to_owned(),
            pass: String::new(),
            what: String::new(),
            verdict,
            seconds: 0.1,
            at: 0.0,
            statements: 1,
            tokens: 2,
        }))
    }

    #[test]
    fn a_line_cut_short_is_dropped_and_the_rest_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.jsonl");
        let mut ledger = Ledger::create(&path, "case").unwrap();
        ledger.append(trial(1, Verdict::Same)).unwrap();
        ledger.append(trial(2, Verdict::Clean)).unwrap();
        drop(ledger);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
        let mut ledger = Ledger::resume(&path, "case").unwrap();
        assert_eq!(ledger.resumed(), 1);
        assert_eq!(ledger.known(&CandidateId("c1".into()), "pinned"), Some(&Verdict::Same));
        assert_eq!(ledger.known(&CandidateId("c2".into()), "pinned"), None);
        ledger.append(trial(3, Verdict::Clean)).unwrap();
        drop(ledger);
        assert_eq!(Ledger::resume(&path, "case").unwrap().resumed(), 2);
    }

    #[test]
    fn a_report_is_not_made_of_a_part_of_a_ledger_nor_of_another_format() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.jsonl");
        let mut ledger = Ledger::create(&path, "case").unwrap();
        ledger.append(trial(1, Verdict::Same)).unwrap();
        ledger.append(trial(2, Verdict::Clean)).unwrap();
        drop(ledger);
        assert_eq!(read_all(&path).unwrap().len(), 3);
        let whole = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 5]).unwrap();
        assert!(read_all(&path).unwrap_err().to_string().contains("line 3"));
        std::fs::write(&path, whole.replacen("\"trial\":1", "\"trial\":one", 1)).unwrap();
        assert!(read_all(&path).unwrap_err().to_string().contains("is broken: line 2"));
        std::fs::write(&path, whole.replacen("\"schema\":1", "\"schema\":7", 1)).unwrap();
        assert!(matches!(read_all(&path), Err(LedgerError::Schema { found: 7, .. })));
    }

    #[test]
    fn a_ledger_is_one_run_s_until_that_run_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.jsonl");
        let mut first = Ledger::create(&path, "case").unwrap();
        first.append(trial(1, Verdict::Same)).unwrap();
        let own = std::process::id();
        for second in [Ledger::create(&path, "case"), Ledger::resume(&path, "case")] {
            assert!(matches!(second, Err(LedgerError::Busy { process: Some(found), .. }) if found == own));
        }
        conclude(&path, &trial(2, Verdict::Same)).unwrap();
        drop(read(&path).unwrap());
        assert!(matches!(Hold::take(&path), Err(LedgerError::Busy { .. })), "reading or concluding it gave it up");
        drop(first);
        assert_eq!(Ledger::resume(&path, "case").unwrap().resumed(), 2);
    }

    #[test]
    fn a_ledger_of_another_case_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.jsonl");
        drop(Ledger::create(&path, "one").unwrap());
        assert!(matches!(Ledger::resume(&path, "two"), Err(LedgerError::Foreign { .. })));
    }

    #[test]
    fn an_unresolved_verdict_is_never_an_answer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.jsonl");
        let mut ledger = Ledger::create(&path, "case").unwrap();
        ledger.append(trial(1, Verdict::Unresolved { cause: crate::verdict::Cause::TimeOut })).unwrap();
        assert_eq!(ledger.known(&CandidateId("c1".into()), "pinned"), None);
    }
}
