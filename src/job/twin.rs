//! The nearest passing twin: the smallest edit of the repro with which it no longer fails.
//!
//! Invariant: a twin was run cold and passed; nothing is said where none did.

use std::fs;

use super::JobError;
use super::confirm::cold_look;
use super::session::Session;
use crate::bundle::{ConfirmedRepro, repro};
use crate::candidate::Candidate;
use crate::evidence::Found;
use crate::explain::twin::{self, Failing, Twin};
use crate::explain::{self};
use crate::oracle::OracleError;
use crate::program::SourceTree;
use crate::trial::{Pins, ProgramSpec};
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
    for edit in edits {
        repro::lay_out(folder.path(), &confirmed.repro, "", &source)?;
        let (place, before) = match &edit.data {
            Some(name) => (folder.path().join("data").join(name), data.as_deref().unwrap_or_default()),
            None => (folder.path().join("repro.py"), confirmed.repro.text.as_str()),
        };
        fs::write(&place, &edit.text).map_err(|source| JobError::File { path: place, source })?;
        let program = if edit.data.is_none() { &edit.text } else { &confirmed.repro.text };
        let candidate = Candidate::new(SourceTree::from_texts([("repro.py", program.as_str())]));
        let pool = session.cold_pool(folder.path(), ".", spec.clone())?;
        match cold_look(session, pool, &plain, &candidate, confirmed.repro.size(), target, "twin", 1) {
            Ok(seen) if seen.iter().any(|(_, verdict)| *verdict == Verdict::Clean) => {
                return Ok(Some(twin::twin(&edit, before)));
            }
            Ok(seen) if seen.is_empty() => return Ok(None),
            Ok(_) => {}
            Err(JobError::Oracle(OracleError::Stopped(_))) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}
