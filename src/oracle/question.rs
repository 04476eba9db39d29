//! Owns the words in which the oracle is asked: questions, settings, bounds, and what it keeps an account of.
//!
//! Invariant: a question holds everything that its answer depends on, beside the setting.
//! It runs nothing.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::candidate::Candidate;
use crate::data::DataError;
use crate::ledger::LedgerError;
use crate::trial::{Mode, Observe, Pins, PoolError, Variation, Watch};
use crate::verdict::Target;

/// Failures of our own.
#[derive(Debug, thiserror::Error)]
pub enum OracleError {
    /// The server failed.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The ledger failed.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// A candidate could not be written in its encoding.
    #[error("cannot write candidate file `{path}` in its encoding")]
    Encoding {
        /// Which file.
        path: String,
    },
    /// What is left of a data file could not be written.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The user or a limit ended the run.
    #[error("stopped: {0:?}")]
    Stopped(Stop),
}

/// Why a run ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Ctrl-C.
    Interrupted,
    /// The time limit.
    Time,
    /// The limit of runs.
    Runs,
}

/// One question about one candidate.
#[derive(Clone, Debug)]
pub struct Question {
    /// What to run.
    pub candidate: Candidate,
    /// Statements and tokens, for the record.
    pub size: (usize, usize),
    /// Phase of the job.
    pub phase: &'static str,
    /// Pass within the phase.
    pub pass: String,
    /// What it takes away, in words.
    pub what: String,
}

/// How trials of the search are run.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Its name in the ledger.
    pub name: String,
    /// Forked or cold.
    pub mode: Mode,
    /// What is pinned.
    pub pins: Pins,
    /// Time for one trial.
    pub timeout: Duration,
    /// What a bisection changes.
    pub variation: Variation,
}

/// A run outside the search: preflight and confirmation.
#[derive(Clone, Debug)]
pub struct Look {
    /// What to run.
    pub question: Question,
    /// How.
    pub setting: Setting,
    /// What to observe beside its end.
    pub observe: Observe,
    /// Judged against this failure instead of that of the search.
    pub target: Option<Target>,
    /// Calls to look at before they are made.
    pub watch: Option<Watch>,
    /// The files lie in the server's project as they are to run: nothing is laid over them.
    pub in_place: bool,
}

/// When to stop.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// End of the run.
    pub deadline: Instant,
    /// Most trials.
    pub runs: u64,
    /// Set by Ctrl-C.
    pub interrupted: Arc<AtomicBool>,
}

/// Where time and trials went.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// Trials that were dropped before they ended.
    pub wasted: u64,
    /// Questions answered without a trial.
    pub cached: u64,
    /// Seconds in which no trial ran although the search went on.
    pub idle: f64,
    /// Seconds since the search began, while this oracle was asked.
    pub searched: f64,
}

/// Another failure that was seen on the way.
#[derive(Clone, Debug)]
pub struct OtherFailure {
    /// In one line.
    pub failure: String,
    /// The smallest candidate that shows it.
    pub candidate: Candidate,
    /// Its statements and tokens.
    pub size: (usize, usize),
}
