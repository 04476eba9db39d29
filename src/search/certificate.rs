//! The certificate: what speaks for no single statement being superfluous.
//!
//! Invariant: it speaks of the final program; what was inferred without a run is counted as such.

use serde::Serialize;
use serde_json::{Value, json};

use super::removals::StatementRemovals;
use super::sweep::{Certify, Proof, Sweep};

/// How the result was proven minimal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Every removal was run, or is certain to lose the failure.
    Full,
    /// Removals of a subset of what missed were inferred.
    Sinks,
    /// The sweep did not end, or some removals got no answer.
    #[default]
    None,
}

/// What speaks for the result being minimal.
#[derive(Clone, Debug, Default)]
pub struct Certificate {
    kind: Kind,
    total: Proof,
    statements: usize,
}

impl Certificate {
    /// From a sweep that is done.
    pub fn of(certify: Certify, sweep: &Sweep<StatementRemovals>) -> Self {
        let mut total = Proof::default();
        for proof in sweep.proofs().values() {
            total.run += proof.run;
            total.certain += proof.certain;
            total.implied += proof.implied;
            total.unresolved += proof.unresolved;
        }
        let kind = match certify {
            _ if total.unresolved > 0 => Kind::None,
            Certify::Full => Kind::Full,
            Certify::Sinks => Kind::Sinks,
        };
        Self { kind, total, statements: sweep.proofs().len() }
    }

    /// Which kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Removals that cost no run.
    pub fn inferred(&self) -> usize {
        self.total.certain + self.total.implied
    }

    /// How many removals were run, certain, implied, and without an answer.
    pub fn counts(&self) -> Value {
        json!({
            "statements": self.statements, "run": self.total.run, "certain": self.total.certain,
            "implied": self.total.implied, "unresolved": self.total.unresolved,
        })
    }

    /// In words, for the report.
    pub fn in_words(&self) -> String {
        let Proof { run, certain, implied, unresolved } = self.total;
        match self.kind {
            Kind::Full => format!(
                "full: removing any one of the {} statements loses the failure ({run} runs, {certain} certain without one)",
                self.statements
            ),
            Kind::Sinks => format!("sinks: {run} runs, {certain} certain, {implied} implied by larger removals"),
            Kind::None if unresolved > 0 => format!("none: {unresolved} removals got no answer"),
            Kind::None => "none: the sweep did not end".to_owned(),
        }
    }
}
