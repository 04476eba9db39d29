//! Why a job ends without a bundle; `cli` gives each its exit code.

use std::path::PathBuf;

use crate::bundle::BundleError;
use crate::harness::HarnessError;
use crate::ledger::LedgerError;
use crate::oracle::OracleError;
use crate::program::{ParseError, SourceError};
use crate::trial::PoolError;

/// Why a job ends without a bundle.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The program does not fail as this tool understands it.
    #[error("the program does not die with a device-side failure: {seen}")]
    NotReproduced {
        /// What was seen instead.
        seen: String,
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
    /// One run takes too much of the time limit.
    #[error("one run takes {seconds:.0} s, more than a tenth of the time limit: no room for a search")]
    Long {
        /// Seconds of the first run.
        seconds: f64,
    },
    /// The bundle folder holds something.
    #[error("`{out}` is there already and not empty")]
    Occupied {
        /// Which.
        out: PathBuf,
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

impl JobError {
    /// What to do about it, one line each.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::NotReproduced { .. } => vec![
                "run the command by hand and compare; `reduce check` shows each step".into(),
                "a failure that needs a certain seed: set `seed:` in crash.yaml".into(),
            ],
            Self::TooRare { .. } => vec![
                "pin what varies: `seed:`, `num_workers: 0`, `launch_blocking: true`, or an `env:` of the program"
                    .into(),
            ],
            Self::OtherFailure { .. } => vec!["change `expect:` in crash.yaml, or leave it out".into()],
            Self::Long { .. } => {
                vec!["raise `limits: {time: ...}` or start from a later checkpoint of the program".into()]
            }
            Self::Occupied { .. } => {
                vec!["`--resume` goes on from its ledger, `--force` replaces it, `--out DIR` goes elsewhere".into()]
            }
            Self::NotABundle { .. } => vec!["choose another folder with `--out DIR`".into()],
            _ => Vec::new(),
        }
    }
}
