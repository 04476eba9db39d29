//! Why a job ends without a bundle; `cli` gives each its exit code.

use std::path::PathBuf;

use crate::bisect::axis::AxisError;
use crate::bisect::drive::DriveError;
use crate::bisect::log::LogError;
use crate::bundle::BundleError;
use crate::harness::HarnessError;
use crate::ledger::LedgerError;
use crate::oracle::{OracleError, Stop};
use crate::program::{ParseError, SourceError};
use crate::trial::PoolError;

/// How a run ended that showed no device-side failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainEnd {
    /// Without any error.
    Clean,
    /// With an error of Python's own, or an exit status.
    Error,
    /// It was ended for its time.
    Time,
    /// It was ended for what it printed.
    Output,
    /// It was ended for its memory.
    Memory,
    /// By a signal.
    Signal,
}

/// Why a job ends without a bundle.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The program does not fail as this tool understands it.
    #[error("the program does not die with a device-side failure: {seen}")]
    NotReproduced {
        /// What was seen instead.
        seen: String,
        /// How that run ended.
        end: PlainEnd,
    },
    /// It fails now and then.
    #[error("the failure comes and goes: {hits} of {runs} runs show it ({signature})")]
    TooRare {
        /// Runs that showed it.
        hits: u32,
        /// All runs.
        runs: u32,
        /// The failure.
        signature: String,
    },
    /// It fails otherwise than the case expects.
    #[error("another failure than expected\n  expected: {expected}\n  seen:     {seen}")]
    OtherFailure {
        /// From `expect`.
        expected: String,
        /// From the first run.
        seen: String,
    },
    /// The emulated device cannot do what the program asks for.
    #[error("the program needs what the emulated device does not have: {what}")]
    NotEmulated {
        /// What it asks for.
        what: String,
    },
    /// The failing end of a bisection does not fail.
    #[error("the failing end does not fail: {seen}")]
    EndPasses {
        /// What it did.
        seen: String,
    },
    /// An end of a bisection cannot be run.
    #[error("the failing end cannot be run: {why}")]
    EndBroken {
        /// Why.
        why: String,
    },
    /// The axis of a bisection does not fit, or failed.
    #[error(transparent)]
    Axis(#[from] AxisError),
    /// The log of a bisection.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Ctrl-C or a limit, before there was anything to keep.
    #[error("{} before the failure was understood: there is nothing to keep", stop_in_words(*stop))]
    Early {
        /// Which.
        stop: Stop,
    },
    /// The files of the program are not those that the ledger speaks of.
    #[error("the program has changed since the run in `{out}`: {files}")]
    Changed {
        /// The bundle folder.
        out: PathBuf,
        /// The files that may be cut.
        files: String,
    },
    /// The bundle folder holds something.
    #[error("`{out}` is there already and not empty")]
    Occupied {
        /// Which.
        out: PathBuf,
    },
    /// The bundle folder cannot be made or written into.
    #[error("cannot write a bundle into `{out}`: {source}")]
    NoFolder {
        /// Which.
        out: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The folder to be replaced is none of ours.
    #[error("`{out}` is not a bundle of this program and is not replaced")]
    NotABundle {
        /// Which.
        out: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("cannot use `{path}`: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The harness could not be laid out.
    #[error(transparent)]
    Harness(HarnessError),
    /// The server failed.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A source file could not be read or written.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A source file could not be taken in.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// The oracle failed or was stopped.
    #[error(transparent)]
    Oracle(#[from] OracleError),
    /// The ledger failed.
    #[error(transparent)]
    Ledger(LedgerError),
    /// The bundle could not be written.
    #[error(transparent)]
    Bundle(#[from] BundleError),
}

impl PlainEnd {
    fn hints(self) -> &'static [&'static str] {
        match self {
            Self::Clean => &[
                "run the command by hand and compare; `reduce check` shows each step",
                "a failure that needs a certain seed: set `seed:` in crash.yaml",
            ],
            Self::Error => &["run the command by hand: an error of Python's own must be mended first"],
            Self::Time => &[
                "a program that takes longer: raise `timeout:` in crash.yaml, or `--timeout`",
                "a program that never ends: run the command by hand and see what it waits for",
            ],
            Self::Output => &["print less, such as one line an epoch, or write it into a file"],
            Self::Memory => &["raise `limits: {memory: ...}` in crash.yaml, or make the program smaller"],
            Self::Signal => &["run the command by hand and see what ends it"],
        }
    }
}

impl JobError {
    /// What to do about it, one line each.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::NotReproduced { end, .. } => end.hints().iter().map(|hint| (*hint).to_owned()).collect(),
            Self::TooRare { .. } => vec![
                "pin what varies: `seed:`, `num_workers: 0`, `launch_blocking: true`, or an `env:` of the program"
                    .into(),
            ],
            Self::Axis(AxisError::Wrong { hints, .. }) => hints.clone(),
            Self::Axis(AxisError::Environment(error)) => error.hints(),
            Self::EndPasses { .. } => vec!["run the command by hand and compare, or name another `--bad`".into()],
            Self::EndBroken { .. } => vec!["name another `--bad`".into()],
            Self::OtherFailure { .. } => vec!["change `expect:` in crash.yaml, or leave it out".into()],
            Self::NotEmulated { .. } => vec!["run it on a machine with a GPU: `--device cuda`".into()],
            Self::Early { stop: Stop::Interrupted } => Vec::new(),
            Self::Early { stop: Stop::Time } => {
                vec!["raise `--limit-time`, or `limits: {time: ...}` in crash.yaml".into()]
            }
            Self::Early { stop: Stop::Runs } => {
                vec!["raise `--limit-runs`, or `limits: {runs: ...}` in crash.yaml; understanding the failure takes 3 runs".into()]
            }
            Self::Ledger(LedgerError::Busy { .. }) => {
                vec!["wait until it has ended or end it, or `--out DIR` goes elsewhere".into()]
            }
            Self::Changed { .. } => vec!["`--force` starts anew, `--out DIR` goes elsewhere".into()],
            Self::Occupied { .. } => {
                vec!["`--resume` goes on from its ledger, `--force` replaces it, `--out DIR` goes elsewhere".into()]
            }
            Self::NotABundle { .. } | Self::NoFolder { .. } => vec!["choose another folder with `--out DIR`".into()],
            _ => Vec::new(),
        }
    }
}

impl From<DriveError> for JobError {
    fn from(error: DriveError) -> Self {
        match error {
            DriveError::Oracle(error) => Self::Oracle(error),
            DriveError::Axis(error) => Self::Axis(error),
            DriveError::Log(error) => Self::Log(error),
        }
    }
}

fn stop_in_words(stop: Stop) -> &'static str {
    match stop {
        Stop::Interrupted => "interrupted",
        Stop::Time => "the time limit ended the run",
        Stop::Runs => "the limit of runs ended the run",
    }
}
