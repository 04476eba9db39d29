//! Owns the exit codes: what a script or CI may rely on.
//!
//! Invariant: the numbers are public and never change their meaning; `docs/exit-codes.md` holds the same table and a test compares them.
//! Must not decide which code applies: `cli` does.

use std::process::{ExitCode as ProcessExitCode, Termination};

/// How the program ended, as a number for scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ExitCode {
    /// Reduced and confirmed; check: reproduces; explain: explained; bisect: found; replay: still fails the same way; corpus: all as expected.
    Success = 0,
    /// Internal error.
    Internal = 1,
    /// Wrong usage or wrong `crash.yaml`; corpus: an entry that cannot be read.
    Usage = 2,
    /// The failure does not reproduce.
    NotReproduced = 3,
    /// Reproduces too rarely to decide within the limits; corpus: an entry is flaky.
    TooRare = 4,
    /// A limit ended the run: the best is confirmed, but may not be minimal.
    Limit = 5,
    /// Another failure than expected; corpus: an entry crashes again or fails otherwise.
    OtherFailure = 6,
    /// Cannot run here: no interpreter, no torch, no device, package not available.
    CannotRun = 7,
    /// No failure any more: replay passes; corpus: an entry is fixed now.
    Fixed = 8,
    /// Interrupted: the best is kept and confirmed as far as time allowed.
    Interrupted = 130,
}

impl ExitCode {
    /// All codes, in the order of their numbers.
    pub const ALL: [ExitCode; 10] = [
        ExitCode::Success,
        ExitCode::Internal,
        ExitCode::Usage,
        ExitCode::NotReproduced,
        ExitCode::TooRare,
        ExitCode::Limit,
        ExitCode::OtherFailure,
        ExitCode::CannotRun,
        ExitCode::Fixed,
        ExitCode::Interrupted,
    ];

    /// The number that the process exits with.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// What the code means, as `docs/exit-codes.md` and the help say it.
    pub fn meaning(self) -> &'static str {
        match self {
            ExitCode::Success => {
                "reduced and confirmed; check: reproduces; explain: explained; bisect: found; replay: still fails the same way; corpus: all entries as expected"
            }
            ExitCode::Internal => "internal error",
            ExitCode::Usage => "wrong usage or wrong crash.yaml; corpus: an entry that cannot be read",
            ExitCode::NotReproduced => "the failure does not reproduce",
            ExitCode::TooRare => "reproduces too rarely to decide within the limits; corpus: an entry is flaky",
            ExitCode::Limit => "a limit ended the run: the best is confirmed, but may not be minimal",
            ExitCode::OtherFailure => {
                "another failure than expected; corpus: an entry crashes again or fails otherwise"
            }
            ExitCode::CannotRun => {
                "cannot run here: no interpreter, no torch, no device, package not available; the message names the ways out"
            }
            ExitCode::Fixed => "no failure any more: replay passes; corpus: an entry marked `crashes` is fixed now",
            ExitCode::Interrupted => "interrupted: the best is kept and confirmed as far as time allowed",
        }
    }
}

impl From<ExitCode> for ProcessExitCode {
    fn from(code: ExitCode) -> ProcessExitCode {
        ProcessExitCode::from(code.number())
    }
}

impl Termination for ExitCode {
    fn report(self) -> ProcessExitCode {
        self.into()
    }
}
