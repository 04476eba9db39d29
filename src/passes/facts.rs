//! What the traced run knows about the current program, as the passes need it.
//!
//! Owns nothing else. Invariant: ids belong to the `Program` that the facts are handed over with. Must not hold values.

use std::collections::BTreeSet;

use crate::program::StmtId;

/// What a trace knows; everything may be unknown.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The statements that ran; `None` when there was no trace.
    pub executed: Option<BTreeSet<StmtId>>,
    /// The statements on the stack when the failure came, outermost first.
    pub crash: Vec<StmtId>,
    /// Who called whom: the calling statement and the function definition.
    pub calls: Vec<(StmtId, StmtId)>,
    /// The file that the command runs; it is never dropped.
    pub entry: Option<String>,
    /// What the program got as arguments.
    pub argv: Vec<String>,
}

impl Facts {
    /// Whether a statement ran; `None` when nobody knows.
    pub fn ran(&self, id: StmtId) -> Option<bool> {
        self.executed.as_ref().map(|executed| executed.contains(&id) || self.crash.contains(&id))
    }
}
