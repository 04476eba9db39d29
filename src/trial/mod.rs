//! A trial: one run of one candidate in one setting, and the raw facts that it left.
//!
//! Invariant: nothing here knows what a crash is; an [`Outcome`] holds facts, `verdict` judges them.

mod pool;
mod report;

pub use pool::{Event, Pool, PoolError, PoolSpec, ServerInfo, Started};
pub use report::{
    Argument, AtHand, Exception, Failure, FirstSeen, Frame, Missing, Note, Offence, Opened, Operand, Report, Step,
    SyntaxProblem, Trace, ValuePath,
};

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The harness ends a trial whose output grows beyond this many bytes.
pub const MOST_OUTPUT: u64 = 64 << 20;

/// Number of a trial within a run; the ledger and the log folders use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TrialId(pub u64);

/// How the interpreter of a trial comes to life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Forked from the server, which has imported what the program imports.
    Fork,
    /// A fresh interpreter: what a user would start.
    Exec,
}

/// Where CUDA calls go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    /// A real GPU.
    Cuda,
    /// CPU tensors that claim to be on one.
    Emulated,
}

/// Changes to how the program is run that make it cheaper or steadier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pins {
    /// `CUDA_LAUNCH_BLOCKING=1`.
    pub launch_blocking: bool,
    /// Seed of `random`, NumPy and torch; `None` leaves seeding alone.
    pub seed: Option<u64>,
    /// Workers of each DataLoader; `None` leaves them alone.
    pub num_workers: Option<u32>,
}

impl Pins {
    /// The program as given.
    pub const NONE: Self = Self { launch_blocking: false, seed: None, num_workers: None };
}

/// The Python program of a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramSpec {
    /// `script` or `module`.
    pub kind: String,
    /// Path relative to the working directory, or dotted name.
    pub target: String,
    /// Arguments behind the program.
    pub argv: Vec<String>,
}

/// A program in another folder than that of its server.
#[derive(Clone, Debug)]
pub struct Place {
    /// Root of the project, absolute.
    pub project: PathBuf,
    /// Working directory of the program, relative to the root.
    pub workdir: String,
    /// The program.
    pub program: ProgramSpec,
    /// Environment of the program, beside that of the server.
    pub env: Vec<(String, String)>,
}

/// What a trial is asked to observe beside its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observe {
    /// Executed lines and calls.
    pub trace: bool,
    /// Modules, imported and opened files.
    pub inventory: bool,
    /// The offending value, as text, whose path is wanted.
    pub follow: Option<String>,
}

/// Calls whose arguments are looked at before the launch: on a real device nothing can be read after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Watch {
    /// Public name of the operator; `None` is every operator that can assert.
    pub operator: Option<String>,
    /// Project file with the first and the last line of the statement that calls it; `None` is everywhere.
    pub site: Option<(String, u32, u32)>,
}

/// What a bisection changes about how the program is run; nothing otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Variation {
    /// Variables set, or taken away by `None`.
    pub env: BTreeMap<String, Option<String>>,
    /// Other arguments behind the program.
    pub argv: Option<Vec<String>>,
    /// Another interpreter; only a cold trial can have one.
    pub python: Option<PathBuf>,
    /// Another folder with the project, of the same layout.
    pub project: Option<PathBuf>,
    /// Files laid over those of the project, relative path and bytes.
    pub files: Vec<(String, Vec<u8>)>,
    /// Files of the project that are not there.
    pub removed: Vec<String>,
    /// What the harness does inside of the program: the name of its module, and what that is told.
    pub hook: Option<(&'static str, serde_json::Value)>,
}

/// Everything that a worker needs to run a trial.
#[derive(Clone, Debug)]
pub struct Request {
    /// Files that differ from the project, relative path and bytes.
    pub changed: Vec<(String, Vec<u8>)>,
    /// The same for files that lie ready, relative path and place; many trials may share one.
    pub ready: Vec<(String, PathBuf)>,
    /// Files of the project that are absent in the candidate.
    pub removed: Vec<String>,
    /// Fork or fresh interpreter.
    pub mode: Mode,
    /// Pins of this trial.
    pub pins: Pins,
    /// What to observe.
    pub observe: Observe,
    /// Calls to look at before they are made.
    pub watch: Option<Watch>,
    /// Time until the trial is killed.
    pub timeout: Duration,
    /// What is otherwise than in the case.
    pub variation: Variation,
    /// Where the program is; `None` is the project of the server.
    pub place: Option<Place>,
}

/// How a trial's process tree ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialEnd {
    /// The program's process exited with this status.
    Exited(i32),
    /// A signal ended it.
    Signaled(i32),
    /// Its time was up.
    TimedOut,
    /// It printed more than is kept.
    OutputLimit,
    /// It took more memory than it may.
    MemoryLimit,
    /// The search no longer wanted it.
    Dropped,
    /// The server that ran it was lost.
    Lost,
}

/// Raw facts of a finished trial.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Which trial.
    pub id: TrialId,
    /// How its process tree ended.
    pub end: TrialEnd,
    /// Standard output, at most the first and last megabytes.
    pub stdout: String,
    /// Standard error, likewise.
    pub stderr: String,
    /// What the harness reported; absent when the process was killed or aborted.
    pub report: Option<Report>,
    /// Executed lines and calls, where asked for.
    pub trace: Option<Trace>,
    /// Wall time of the trial in seconds.
    pub seconds: f64,
    /// Folder with its log files; removed when the pool is dropped.
    pub scratch: PathBuf,
}
