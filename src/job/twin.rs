//! The nearest passing twin: the smallest edit of the repro with which it no longer fails.
//!
//! Invariant: a twin was run cold and passed the failing line; nothing is said where none did.

use std::fs;

use super::JobError;
use super::confirm::cold_look;
use super::session::Session;
use crate::bundle::{ConfirmedRepro, repro};
use crate::candidate::Candidate;
use crate::evidence::Found;
use crate::explain;
use crate::explain::twin::{self, Failing, Twin};
use crate::oracle::OracleError;
use crate::program::SourceTree;
use crate::trial::{Observe, Outcome, Pins, ProgramSpec};
use crate::verdict::{Target, Verdict};

/// Tries the edits of a confirmed repro, the smallest first.
///
/// # Errors
/// When a server, a file or the ledger fails.
pub(super) fn find(
    session: &mut Session<'_>,
    found: &Found,
    target: &Target,
    confirmed: &ConfirmedRepro,
) -> Result<Option<Twin>, JobError> {
    let Some(offence) = found.failure.as_ref().and_then(|failure| failure.offence.as_ref()) else { return Ok(None) };
    let project = session.ground.invocation.project.clone();
    let origin = explain::origin(found, &project);
    let source = session.options.out.join("source");
    let name = origin.as_ref().map(|origin| origin.file.clone());
    let data = name.filter(|name| confirmed.repro.data.contains(name));
    let data = data.and_then(|name| fs::read_to_string(source.join(name)).ok());
    let path: Vec<_> = found.path.iter().flat_map(|path| path.steps.iter().rev().cloned()).collect();
    let failing = Failing {
        program: &confirmed.repro.text,
        origin: origin.as_ref(),
        data: data.as_deref(),
        offence,
        path: &path,
    };
    let edits = twin::edits(&failing);
    if edits.is_empty() {
        return Ok(None);
    }
    session.say("confirm", "the smallest edit that passes");
    let folder = tempfile::tempdir_in(session.scratch.path())
        .map_err(|source| JobError::File { path: session.scratch.path().to_owned(), source })?;
    let spec = ProgramSpec { kind: "script".into(), target: "repro.py".into(), argv: Vec::new() };
    let plain = Found { pins: Pins::NONE, ..found.clone() };
    let mut reached = None;
    // The first is the repro itself: how often it comes to the failing line.
    let edits = std::iter::once(None).chain(edits.into_iter().map(Some));
    for edit in edits {
        repro::lay_out(folder.path(), &confirmed.repro, "", &source)?;
        let mut program = confirmed.repro.text.as_str();
        let mut before = program;
        if let Some(edit) = &edit {
            let place = match &edit.data {
                Some(name) => folder.path().join("data").join(name),
                None => folder.path().join("repro.py"),
            };
            fs::write(&place, &edit.text).map_err(|source| JobError::File { path: place, source })?;
            match edit.data {
                Some(_) => before = data.as_deref().unwrap_or_default(),
                None => program = edit.text.as_str(),
            }
        }
        let candidate = Candidate::new(SourceTree::from_texts([("repro.py", program)]));
        let pool = session.cold_pool(folder.path(), ".", spec.clone())?;
        let observe = Observe { trace: true, ..Observe::default() };
        let seen = cold_look(session, pool, &plain, &candidate, confirmed.repro.size(), target, "twin", observe, 1);
        let seen = match seen {
            Err(JobError::Oracle(OracleError::Stopped(_))) => return Ok(None),
            other => other?,
        };
        let Some((outcome, verdict)) = seen.first() else { return Ok(None) };
        match (&edit, reached) {
            (Some(edit), Some(reached)) if passes(outcome, verdict, reached) => {
                return Ok(Some(twin::twin(edit, before)));
            }
            (None, _) => {
                let Some(line) = failing_line(outcome) else { return Ok(None) };
                reached = Some((line, times(outcome, line)));
            }
            _ => {}
        }
    }
    Ok(None)
}

/// The line of the repro at which it fails.
fn failing_line(outcome: &Outcome) -> Option<u32> {
    outcome.report.as_ref()?.failure.as_ref()?.frames.last().map(|frame| frame.line)
}

/// How often a line of the repro ran.
fn times(outcome: &Outcome, line: u32) -> u64 {
    let executed = outcome.trace.as_ref().and_then(|trace| trace.executed.get("repro.py"));
    executed.into_iter().flatten().find(|(at, ..)| *at == line).map_or(0, |(_, _, count)| *count)
}

/// It ends well; or it passes the failing line as often as it took to fail, and stumbles only over what was removed behind it.
fn passes(outcome: &Outcome, verdict: &Verdict, (line, count): (u32, u64)) -> bool {
    match verdict {
        Verdict::Clean => true,
        Verdict::Invalid { at: Some(at), .. } => count > 0 && times(outcome, line) >= count && at.line != line,
        _ => false,
    }
}
