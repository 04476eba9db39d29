//! What failed and why, in words: from a log alone, or from what the runs of a case showed.
//!
//! Invariant: each sentence repeats a fact of the log, the runs or the catalogue; what is only possible is called so.
//! Must not run anything, and must not print.

mod digest;
mod guard;
mod mend;
mod origin;
mod plain;
mod records;
mod remarks;
mod run;
mod text;
pub mod twin;

use std::collections::BTreeSet;

use serde::Serialize;

pub use digest::{Digest, Printed};
pub use mend::sentence as mend;
pub use origin::{Origin, find as origin};
pub use remarks::{Remark, RemarkKind};
pub use run::{Line, RunExplanation, of_run};

use crate::signature::{self, Advice, Catalog, Evidence, Family, Signature, Stack, TracebackFrame};

/// Version of the JSON form.
const SCHEMA: u32 = 1;

/// What a log shows.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// Version of this form.
    pub schema: u32,
    /// The failure.
    pub signature: Signature,
    /// Half a sentence: what kind of failure it is.
    pub title: String,
    /// What went wrong, in a sentence or two.
    pub meaning: String,
    /// The assertion as printed, and its condition in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assertion: Option<Said>,
    /// Operators that can have failed; one where it is known.
    pub operators: Vec<String>,
    /// Where the log says it was noticed, and whether that can be believed.
    pub stack: Place,
    /// Usual mistakes, what to check and how to mend it: those of the operator where it is known.
    pub advice: Vec<AdviceFor>,
    /// What else there is to know about this log.
    pub remarks: Vec<Remark>,
}

/// An assertion line.
#[derive(Clone, Debug, Serialize)]
pub struct Said {
    /// Base name of the file, as printed.
    pub file: String,
    /// Line in that release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The expression as printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expression: Option<String>,
    /// The condition in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub means: Option<String>,
    /// Lines of this kind: one a thread of the kernel.
    pub lines: u64,
    /// Ranks that printed it.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub ranks: BTreeSet<u32>,
    /// The log that holds it.
    pub log: String,
}

/// Where an exception surfaced.
#[derive(Clone, Debug, Serialize)]
pub struct Place {
    /// Whether it is the true place.
    pub stack: Stack,
    /// The innermost line that is not a library's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame: Option<TracebackFrame>,
    /// In words.
    pub words: String,
}

/// Advice, and the operator that it is for; the class's own where that is not known.
#[derive(Clone, Debug, Serialize)]
pub struct AdviceFor {
    /// Canonical public name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// What users usually did, what to look at, how to mend it.
    #[serde(flatten)]
    pub advice: Advice,
}

/// Reads what one or more logs show; `None` where they show no failure of a device.
pub fn explain(digest: &Digest) -> Option<Explanation> {
    let reading = signature::read(&Evidence { stderr: &digest.text, ..Evidence::default() })?;
    let signature = reading.signature;
    let class = Catalog::embedded().entry(&signature.class);
    let printed = reading.assertion.as_ref().map(|assertion| {
        let same = digest.assertions.iter().find(|printed| printed.assertion.expression == assertion.expression);
        Said {
            file: assertion.file.clone(),
            line: assertion.line,
            function: assertion.function.clone(),
            expression: assertion.expression.clone(),
            means: signature.condition_in_words().map(str::to_owned),
            lines: same.map_or(1, |printed| printed.lines),
            ranks: same.map(|printed| printed.ranks.clone()).unwrap_or_default(),
            log: same.map(|printed| printed.log.clone()).unwrap_or_default(),
        }
    });
    let operators = operators(&signature);
    Some(Explanation {
        schema: SCHEMA,
        title: class.map_or_else(|| title(&signature), |class| class.title.clone()),
        meaning: class.map_or_else(|| meaning(&signature), |class| class.meaning.clone()),
        assertion: printed,
        advice: advice(&signature, &operators),
        stack: place(reading.stack, &reading.traceback, &signature),
        remarks: remarks::all(digest, &signature, reading.stack),
        operators,
        signature,
    })
}

/// The operator, or those that can fire the assertion.
fn operators(signature: &Signature) -> Vec<String> {
    match &signature.operator {
        Some(operator) => vec![operator.clone()],
        None => {
            let Some(class) = Catalog::embedded().entry(&signature.class) else { return Vec::new() };
            let possible = signature.possible_operators();
            // One assertion may serve several classes: only the operators of this one are meant here.
            let listed = class.operators.iter().map(|operator| operator.name.as_str());
            listed.filter(|name| possible.contains(name)).map(str::to_owned).collect()
        }
    }
}

/// The operator's own advice; where several can have failed, that of each that has some; else the class's.
pub fn advice(signature: &Signature, operators: &[String]) -> Vec<AdviceFor> {
    let Some(class) = Catalog::embedded().entry(&signature.class) else { return Vec::new() };
    let whole = class.advice_for(None);
    let mut own: Vec<AdviceFor> = operators
        .iter()
        .map(|name| AdviceFor { operator: Some(name.clone()), advice: class.advice_for(Some(name)) })
        .filter(|one| one.advice != whole)
        .collect();
    if own.is_empty() {
        own.push(AdviceFor { operator: None, advice: whole });
    }
    own
}

fn title(signature: &Signature) -> String {
    match (signature.family, signature.class.as_str()) {
        (_, signature::UNKNOWN_ASSERT) => "an assertion that the catalogue does not hold".to_owned(),
        (_, signature::UNNAMED_ASSERT) => "a device-side assertion whose line was lost".to_owned(),
        _ => "an error of CUDA".to_owned(),
    }
}

fn meaning(signature: &Signature) -> String {
    match signature.class.as_str() {
        signature::UNKNOWN_ASSERT => {
            "A kernel outside of PyTorch, or of a release that is not known here, checked a condition that does not hold."
        }
        signature::UNNAMED_ASSERT => {
            "A kernel checked a condition that does not hold, but the line that names it is not in this log. \
             It goes to standard error of the process that failed, as `FILE:LINE: KERNEL: block: ... Assertion ... failed.`"
        }
        _ => "CUDA reported an error that the catalogue does not hold.",
    }
    .to_owned()
}

fn place(stack: Stack, traceback: &[TracebackFrame], signature: &Signature) -> Place {
    let is_library = |frame: &&TracebackFrame| {
        let file = frame.file.replace('\\', "/");
        ["/site-packages/", "/dist-packages/", "<frozen", "/torch/"].iter().any(|part| file.contains(part))
            || file.contains("/lib/python3")
    };
    let frame = traceback.iter().rev().find(|frame| !is_library(frame)).or(traceback.last()).cloned();
    let device =
        matches!(signature.family, Family::DeviceAssert | Family::MemoryFault | Family::Library | Family::Cuda);
    let words = match (stack, &frame) {
        (_, None) => "the log holds no traceback".to_owned(),
        (_, Some(_)) if !device => "raised where the traceback says".to_owned(),
        (Stack::Asynchronous, Some(_)) => "noticed there, but this line may be innocent: a GPU works on while Python goes \
             on, so an error surfaces at whichever call waits for the GPU next; run it again with CUDA_LAUNCH_BLOCKING=1 \
             to get the true line"
            .to_owned(),
        (Stack::Blocking, Some(_)) => "this is the true line: launches were blocking (the hint that the stack might be \
             incorrect is absent)"
            .to_owned(),
        (Stack::Unknown, Some(_)) => "noticed there; the log does not say whether launches were blocking, so the line \
             may be innocent: a GPU works on while Python goes on; run it again with CUDA_LAUNCH_BLOCKING=1 to be sure"
            .to_owned(),
    };
    Place { stack, frame, words }
}
