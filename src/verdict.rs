//! Judges an outcome against the failure that is to be kept.
//!
//! Invariant: `Same` needs the failure class and operator, and for `source/` also the call site and the offending value;
//! a time-out, a lost worker or a device that is full is `Unresolved`, never an answer.
//! It does no I/O and runs nothing.

use serde::{Deserialize, Serialize};

use crate::program::StmtId;
use crate::signature::{self, Evidence, Match, Signature};
use crate::trial::{Failure, Frame, Missing, Offence, Outcome, TrialEnd};

/// Why a trial gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Its time was up.
    TimeOut,
    /// Host or device memory ran out.
    OutOfMemory,
    /// The device was busy or broken.
    DeviceBusy,
    /// The server or the process was lost.
    LostWorker,
    /// The emulated device cannot do what the program asked for.
    NotEmulated,
    /// The search no longer wanted the answer.
    Dropped,
}

/// What a trial says about a candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Verdict {
    /// It fails in the way that is to be kept.
    Same,
    /// It fails in another way, which is kept for the user.
    Other {
        /// The other failure in one line.
        failure: String,
        /// In what it differs.
        differs: Difference,
    },
    /// It does not fail.
    Clean,
    /// The edit itself caused a Python error.
    Invalid {
        /// The error in one line.
        error: String,
        /// What was missing, where the error names it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        missing: Option<Missing>,
        /// The innermost project line that raised it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Frame>,
    },
    /// No answer.
    Unresolved {
        /// Why.
        cause: Cause,
    },
}

/// In what another failure differs from the one that is to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// Failure class or operator.
    Failure,
    /// The statement that fails.
    Site,
    /// The limit that the offending value breaks.
    Limit,
    /// The offending value or its sample.
    Value,
}

impl Verdict {
    /// Whether it may be remembered as the answer for its candidate.
    pub fn is_answer(&self) -> bool {
        !matches!(self, Self::Unresolved { .. })
    }

    /// Name used in ledgers and reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Other { .. } => "other",
            Self::Clean => "clean",
            Self::Invalid { .. } => "invalid",
            Self::Unresolved { .. } => "unresolved",
        }
    }
}

/// The failure that is to be kept.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its identity.
    pub signature: Signature,
    /// How closely another must agree.
    pub level: Match,
    /// Statements of the original on the way to the failing call, outermost first; empty when unknown.
    pub chain: Vec<StmtId>,
    /// The offending element; `None` when its value could not be read.
    pub offence: Option<Offence>,
    /// Whether the sample's number tells two equal values apart.
    pub sample_counts: bool,
}

/// A failure as one trial showed it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its identity.
    pub signature: Signature,
    /// The failing call, where the witness saw it.
    pub failure: Option<Failure>,
    /// Project frames at the failing call, or of the exception that ended the program.
    pub frames: Vec<Frame>,
}

/// The device failure that an outcome shows, if any.
pub fn seen(outcome: &Outcome) -> Option<Seen> {
    let report = outcome.report.as_ref();
    let exception = report.and_then(|report| report.exception.as_ref());
    let failure = report.and_then(|report| report.failure.clone());
    let signature = signature::parse(&Evidence {
        stderr: &outcome.stderr,
        stdout: &outcome.stdout,
        exception_type: exception.map(|exception| exception.kind.as_str()),
        exception_message: exception.map(|exception| exception.message.as_str()),
        operator: failure.as_ref().map(|failure| failure.op.as_str()),
    })?;
    let frames = match (&failure, exception) {
        (Some(failure), _) => failure.frames.clone(),
        (None, Some(exception)) => exception.frames.clone(),
        (None, None) => Vec::new(),
    };
    Some(Seen { signature, failure, frames })
}

/// Judges an outcome; `locate` maps a frame of the candidate to a statement of the original.
pub fn judge(outcome: &Outcome, target: &Target, locate: &dyn Fn(&Frame) -> Option<StmtId>) -> Verdict {
    if let Some(cause) = no_answer(outcome) {
        return Verdict::Unresolved { cause };
    }
    match seen(outcome) {
        Some(seen) => compare(&seen, target, locate),
        None => judge_without(outcome),
    }
}

/// Judges an outcome that shows no device failure.
pub fn judge_without(outcome: &Outcome) -> Verdict {
    if let Some(cause) = no_answer(outcome) {
        return Verdict::Unresolved { cause };
    }
    let report = outcome.report.as_ref();
    if let Some(exception) = report.and_then(|report| report.exception.as_ref()) {
        if is_out_of_memory(&exception.kind, &exception.message) {
            return Verdict::Unresolved { cause: Cause::OutOfMemory };
        }
        return Verdict::Invalid {
            error: one_line(&exception.kind, &exception.message),
            missing: exception.missing.clone(),
            at: exception.frames.last().cloned(),
        };
    }
    match outcome.end {
        TrialEnd::Exited(0) => Verdict::Clean,
        TrialEnd::Exited(code) => Verdict::Invalid { error: format!("exit status {code}"), missing: None, at: None },
        TrialEnd::Signaled(9) => Verdict::Unresolved { cause: Cause::OutOfMemory },
        TrialEnd::Signaled(signal) => {
            Verdict::Other { failure: format!("ended by signal {signal}"), differs: Difference::Failure }
        }
        TrialEnd::OutputLimit | TrialEnd::MemoryLimit => Verdict::Unresolved { cause: Cause::OutOfMemory },
        TrialEnd::TimedOut | TrialEnd::Dropped | TrialEnd::Lost => Verdict::Unresolved { cause: Cause::LostWorker },
    }
}

fn no_answer(outcome: &Outcome) -> Option<Cause> {
    match outcome.end {
        TrialEnd::TimedOut => return Some(Cause::TimeOut),
        TrialEnd::Dropped => return Some(Cause::Dropped),
        TrialEnd::Lost => return Some(Cause::LostWorker),
        TrialEnd::OutputLimit | TrialEnd::MemoryLimit => return Some(Cause::OutOfMemory),
        TrialEnd::Exited(_) | TrialEnd::Signaled(_) => {}
    }
    let report = outcome.report.as_ref()?;
    report.not_emulated.as_ref().map(|_| Cause::NotEmulated)
}

fn compare(seen: &Seen, target: &Target, locate: &dyn Fn(&Frame) -> Option<StmtId>) -> Verdict {
    let other = |differs, detail: String| Verdict::Other { failure: detail, differs };
    if !seen.signature.matches(&target.signature, target.level) {
        return other(Difference::Failure, seen.signature.to_string());
    }
    let at = seen.frames.last().map_or_else(String::new, |frame| format!(" at {}:{}", frame.file, frame.line));
    if !target.chain.is_empty() {
        let chain = statements(&seen.frames, locate);
        if !same_site(&chain, &target.chain) {
            return other(Difference::Site, format!("{}{at}", seen.signature));
        }
    }
    let offence = seen.failure.as_ref().and_then(|failure| failure.offence.as_ref());
    if let (Some(wanted), Some(found)) = (&target.offence, offence)
        && !same_offence(found, wanted, target.sample_counts)
    {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "?".to_owned());
        let differs = if is_integer(&wanted.value) && found.kind == wanted.kind && found.limit != wanted.limit {
            Difference::Limit
        } else {
            Difference::Value
        };
        return other(
            differs,
            format!("{}{at}: {} against {}", seen.signature, text(&found.value), text(&found.limit)),
        );
    }
    Verdict::Same
}

/// Statements of the original on the way to the failing call; a statement that appears twice in a row counts once.
pub fn statements(frames: &[Frame], locate: &dyn Fn(&Frame) -> Option<StmtId>) -> Vec<StmtId> {
    let mut chain: Vec<StmtId> = frames.iter().filter_map(locate).collect();
    chain.dedup();
    chain
}

/// The innermost statement is the same, and nothing on the way is new.
fn same_site(chain: &[StmtId], wanted: &[StmtId]) -> bool {
    if chain.last() != wanted.last() {
        return false;
    }
    let mut rest = wanted.iter();
    chain.iter().all(|statement| rest.any(|other| other == statement))
}

/// Integers keep value and limit; computed floats move when a layer goes, so that only the kind of offence counts.
fn same_offence(found: &Offence, wanted: &Offence, sample_counts: bool) -> bool {
    if found.kind != wanted.kind {
        return false;
    }
    if is_integer(&wanted.value) && (found.value != wanted.value || found.limit != wanted.limit) {
        return false;
    }
    match (sample_counts, found.sample, wanted.sample) {
        (true, Some(found), Some(wanted)) => found == wanted,
        _ => true,
    }
}

fn is_integer(value: &Option<String>) -> bool {
    value.as_ref().is_some_and(|value| value.parse::<i128>().is_ok())
}

fn is_out_of_memory(kind: &str, message: &str) -> bool {
    kind.ends_with("OutOfMemoryError")
        || kind == "MemoryError"
        || message.contains("out of memory")
        || message.contains("can't allocate memory")
}

/// Type and first line of an exception.
pub fn one_line(kind: &str, message: &str) -> String {
    match message.lines().next() {
        Some(line) if !line.is_empty() => format!("{kind}: {line}"),
        _ => kind.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offence(value: &str, limit: &str, sample: Option<i64>) -> Offence {
        Offence {
            kind: "above".into(),
            value: Some(value.into()),
            limit: Some(limit.into()),
            position: None,
            sample,
            argument: None,
        }
    }

    #[test]
    fn the_site_is_the_innermost_statement_and_the_way_may_only_get_shorter() {
        let ids = |list: &[u32]| list.iter().copied().map(StmtId).collect::<Vec<_>>();
        assert!(same_site(&ids(&[1, 5, 9]), &ids(&[1, 5, 9])));
        assert!(same_site(&ids(&[1, 9]), &ids(&[1, 5, 9])));
        assert!(!same_site(&ids(&[1, 5, 8]), &ids(&[1, 5, 9])));
        assert!(!same_site(&ids(&[2, 9]), &ids(&[1, 5, 9])));
    }

    #[test]
    fn another_value_or_limit_is_another_failure_but_a_float_may_move() {
        assert!(same_offence(&offence("10", "10", None), &offence("10", "10", Some(3)), true));
        assert!(!same_offence(&offence("10", "9", None), &offence("10", "10", None), false));
        assert!(!same_offence(&offence("11", "10", None), &offence("10", "10", None), false));
        assert!(same_offence(&offence("1.5", "1", None), &offence("1.25", "1", None), false));
    }

    #[test]
    fn the_sample_counts_only_where_values_are_ambiguous() {
        assert!(!same_offence(&offence("10", "10", Some(4)), &offence("10", "10", Some(3)), true));
        assert!(same_offence(&offence("10", "10", Some(4)), &offence("10", "10", Some(3)), false));
    }
}
