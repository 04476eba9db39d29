//! Owns what a trial says to a bisection: the failure that is followed, and what counts as its absence.
//!
//! Invariant: a trial that gave no answer, or failed in another way where that says nothing, never counts for one side.
//! It does no I/O.

use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::signature::{Match, Signature};
use crate::trial::{Outcome, TrialEnd};
use crate::verdict::{self, Verdict, judge_without};

/// What one run of a point says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It shows the failure.
    Fails,
    /// It does not.
    Passes,
    /// It says nothing: it cannot be run, or fails otherwise.
    Skip,
}

impl Answer {
    /// Its word in logs and reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Fails => "fails",
            Self::Passes => "passes",
            Self::Skip => "skip",
        }
    }
}

/// What a failure of another kind says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// Nothing: an old commit or another version may be broken in its own way.
    SayNothing,
    /// That the failure is not there: parts of a program that are taken away may be missed.
    Pass,
}

/// The failure that is followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Aim {
    /// One of a device.
    Device {
        /// Its identity.
        signature: Box<Signature>,
        /// How closely another must agree.
        level: Match,
    },
    /// An exception of Python.
    Exception {
        /// Its type.
        kind: String,
        /// First line of its message, numbers and addresses left out.
        message: String,
    },
    /// An exit status.
    Status {
        /// Which.
        code: i32,
    },
    /// A signal.
    Signal {
        /// Which.
        number: i32,
    },
}

static NUMBERS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"0x[0-9a-fA-F]+|\d+|/[\w./-]+").expect("the pattern is fixed"));

impl Aim {
    /// The failure that a run shows, if it fails at all.
    pub fn of(outcome: &Outcome, level: Match) -> Option<Self> {
        if let Some(seen) = verdict::seen(outcome) {
            return Some(Self::Device { signature: Box::new(seen.signature), level });
        }
        let exception = outcome.report.as_ref().and_then(|report| report.exception.as_ref());
        match (exception, outcome.end) {
            (Some(exception), _) => {
                Some(Self::Exception { kind: exception.kind.clone(), message: normal(&exception.message) })
            }
            (None, TrialEnd::Exited(0)) => None,
            (None, TrialEnd::Exited(code)) => Some(Self::Status { code }),
            (None, TrialEnd::Signaled(number)) if number != 9 => Some(Self::Signal { number }),
            (None, _) => None,
        }
    }

    /// What a run says, and in words.
    pub fn read(&self, outcome: &Outcome, others: Others) -> (Answer, String) {
        if let verdict @ Verdict::Unresolved { cause } = &judge_without(outcome)
            && (verdict::seen(outcome).is_none() || matches!(outcome.end, TrialEnd::TimedOut))
        {
            return (Answer::Skip, format!("{}: {cause:?}", verdict.name()));
        }
        let found = Self::of(outcome, Match::Normal);
        match found {
            None => (Answer::Passes, "no failure".to_owned()),
            Some(found) if self.is(&found) => (Answer::Fails, found.to_string()),
            Some(found) => {
                let answer = match others {
                    Others::SayNothing => Answer::Skip,
                    Others::Pass => Answer::Passes,
                };
                (answer, format!("fails otherwise: {found}"))
            }
        }
    }

    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Device { signature, level }, Self::Device { signature: found, .. }) => {
                found.matches(signature, *level)
            }
            _ => self == other,
        }
    }
}

/// The first line of a message without what differs between two runs, or between two versions of a library: numbers,
/// addresses, paths, and how it is punctuated.
fn normal(message: &str) -> String {
    let line = NUMBERS.replace_all(message.lines().next().unwrap_or_default(), "#");
    let words = line.split(|sign: char| !sign.is_alphanumeric() && !matches!(sign, '#' | '_' | '.'));
    words.map(|word| word.trim_end_matches('.')).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

impl std::fmt::Display for Aim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Device { signature, .. } => write!(f, "{signature}"),
            Self::Exception { kind, message } if message.is_empty() => f.write_str(kind),
            Self::Exception { kind, message } => write!(f, "{kind}: {message}"),
            Self::Status { code } => write!(f, "exit status {code}"),
            Self::Signal { number } => write!(f, "ended by signal {number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_the_same_whatever_its_numbers_and_its_full_stop() {
        assert_eq!(
            normal("module 'numpy' has no attribute 'float'.\nmore"),
            normal("module 'numpy' has no attribute 'float'")
        );
        assert_eq!(normal("index 12 is out of bounds at 0x7f"), normal("index 7 is out of bounds at 0x12"));
        assert_ne!(normal("no attribute 'float'"), normal("no attribute 'int'"));
        assert_ne!(
            normal("cannot import name 'Markup' from 'flask'"),
            normal("cannot import name 'url_quote' from 'flask'")
        );
    }
}
