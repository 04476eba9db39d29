//! What the runs of a case showed, in words: the true line, the operator with its arguments, the value and its path.
//!
//! Invariant: everything said was seen in a run; what was only confirmed on the emulated device is called so.
//! Must not run anything.

use std::path::Path;

use serde::Serialize;

use super::{AdviceFor, Origin, advice, guard, mend, origin};
use crate::evidence::Found;
use crate::program::Program;
use crate::signature::{Catalog, Signature};
use crate::trial::{Argument, Device, Frame, Offence, Step};

/// What the runs of a case showed.
#[derive(Clone, Debug, Serialize)]
pub struct RunExplanation {
    /// The failure.
    pub signature: Signature,
    /// Half a sentence: what kind of failure it is.
    pub title: String,
    /// What went wrong, in a sentence or two.
    pub meaning: String,
    /// The condition in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// Seconds of the first run, and of the others.
    pub seconds: [f64; 2],
    /// Where it was run: `cuda` or `emulated`.
    pub device: &'static str,
    /// The true line in the user's code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<Line>,
    /// The failing operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// Its arguments.
    pub arguments: Vec<Argument>,
    /// The element that breaks its rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offence: Option<Offence>,
    /// Where the value comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Expressions that held it, from the origin to the failing call.
    pub path: Vec<Step>,
    /// The error was caught, and the program went on.
    pub swallowed: bool,
    /// What to do.
    pub mend: String,
    /// Usual mistakes, what to check and how to mend it.
    pub advice: Vec<AdviceFor>,
    /// Lines that would have caught it; empty where values cannot be checked for it.
    pub guard: Vec<String>,
}

/// A statement of the user's program.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Where.
    #[serde(flatten)]
    pub frame: Frame,
    /// Its text, the first line.
    pub text: String,
}

/// Puts what was found into words; `original` is the program that was run.
pub fn of_run(found: &Found, original: &Program, project: &Path, device: Device) -> RunExplanation {
    let signature = found.signature.clone();
    let class = Catalog::embedded().entry(&signature.class);
    let origin = origin::find(found, project);
    let operators: Vec<String> = signature.operator.iter().cloned().collect();
    let failure = found.failure.as_ref();
    let mut explained = RunExplanation {
        guard: Vec::new(),
        title: class.map_or_else(|| signature.class.clone(), |class| class.title.clone()),
        meaning: class.map_or_else(String::new, |class| class.meaning.clone()),
        condition: signature.condition_in_words().map(str::to_owned),
        seconds: [found.seconds[0], found.seconds[1] + found.seconds[2]],
        device: match device {
            Device::Cuda => "cuda",
            Device::Emulated => "emulated",
        },
        line: found.frames.last().map(|frame| Line { text: statement(original, frame), frame: frame.clone() }),
        operator: failure.map(|failure| failure.op.clone()).or_else(|| signature.operator.clone()),
        arguments: failure.map(|failure| failure.args.clone()).unwrap_or_default(),
        offence: failure.and_then(|failure| failure.offence.clone()),
        path: found.path.as_ref().map(|path| path.steps.iter().rev().cloned().collect()).unwrap_or_default(),
        swallowed: failure.is_some_and(|failure| failure.swallowed),
        mend: mend::sentence(&signature, failure, origin.as_ref()),
        advice: advice(&signature, &operators),
        origin,
        signature,
    };
    explained.guard = guard::lines(&explained).unwrap_or_default();
    explained
}

/// The first line of a statement.
fn statement(program: &Program, frame: &Frame) -> String {
    let Some(id) = program.statement_at(&frame.file, frame.line) else { return String::new() };
    let text = program.text_of(id);
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default().trim_end().to_owned();
    if lines.next().is_some() { first + " ..." } else { first }
}
