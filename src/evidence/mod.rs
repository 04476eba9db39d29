//! Evidence: what the first runs saw, and on what ground the trials stand.
//!
//! Invariant: evidence proposes, only a trial decides; it is kept in the ledger, so that a resumed run starts from the same.

use serde::{Deserialize, Serialize};

use crate::case::{Case, Invocation};
use crate::environment::Python;
use crate::signature::Signature;
use crate::trial::{Device, Failure, Frame, Mode, Note, Opened, Pins, Trace, ValuePath};

/// What a run stands on: the case, its command understood, the interpreter and the device.
#[derive(Clone, Debug)]
pub struct Ground {
    /// The case.
    pub case: Case,
    /// Its command, understood.
    pub invocation: Invocation,
    /// Its interpreter.
    pub python: Python,
    /// Where CUDA calls go.
    pub device: Device,
}

/// What preflight found; the ledger keeps it, so that a resumed run starts from the same facts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Found {
    /// The failure.
    pub signature: Signature,
    /// The failing call, where the witness saw it.
    pub failure: Option<Failure>,
    /// Project frames at the failing call, outermost first.
    pub frames: Vec<Frame>,
    /// How trials are run.
    pub mode: Mode,
    /// Pins that are proven.
    pub pins: Pins,
    /// What was tried and hides or changes the failure, in words.
    pub hidden: Vec<String>,
    /// How the first run, as given, ended.
    pub as_given: String,
    /// Files that may be cut.
    pub sources: Vec<String>,
    /// Modules to preload.
    pub modules: Vec<String>,
    /// Files that the program opened.
    pub opened: Vec<Opened>,
    /// Executed lines and calls.
    pub trace: Trace,
    /// Time for one trial in seconds.
    pub timeout: f64,
    /// The path of the offending value, where it could be followed.
    #[serde(default)]
    pub path: Option<ValuePath>,
    /// Seconds of the run as given, the pinned and the traced run.
    pub seconds: [f64; 3],
    /// What the harness noticed.
    pub notes: Vec<Note>,
    /// Everything else that the first run said of its environment.
    pub environment: serde_json::Value,
    /// Last lines of the run as given.
    pub log: String,
    /// What was not tried, because one run is too long; empty otherwise.
    #[serde(default)]
    pub untried: Vec<String>,
}
