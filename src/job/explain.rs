//! The shortest way to an explanation: the program as given, and once more while the value is followed.
//!
//! Invariant: both runs must show one failure; where they do not, the whole of preflight decides.

use std::time::Instant;

use super::preflight::{self, agrees, describe, tail};
use super::session::{Observer, Session};
use super::{JobError, Options, early};
use crate::evidence::{Found, Ground};
use crate::ledger::Ledger;
use crate::trial::{Mode, Observe, Pins, Trace};
use crate::verdict;

/// Finds what fails, and the path of the offending value.
///
/// # Errors
/// As preflight.
pub fn explain(ground: Ground, options: Options, observer: Observer<'_>) -> Result<Found, JobError> {
    let folder = tempfile::tempdir().map_err(|source| JobError::File { path: std::env::temp_dir(), source })?;
    let ledger = Ledger::create(&folder.path().join("ledger.jsonl"), "explain")?;
    let mut session = Session::open(ground, options, ledger, Instant::now(), observer)?;
    match quickly(&mut session).map_err(early)? {
        Some(found) => Ok(found),
        None => preflight::run(&mut session).map_err(early),
    }
}

/// Two runs in fresh interpreters; nothing where they do not agree.
fn quickly(session: &mut Session<'_>) -> Result<Option<Found>, JobError> {
    session.say("explain", "the program as given, in a fresh interpreter");
    let inventory = Observe { inventory: true, ..Observe::default() };
    let given = session.setting("as given", Mode::Exec, Pins::NONE, session.first_timeout());
    let first = session.look(&given, inventory.clone())?;
    let Some(seen) = verdict::seen(&first) else { return Ok(None) };
    session.check_expected(&seen)?;
    let report = first.report.clone().unwrap_or_default();
    session.adopt_inventory(&report)?;
    let offence = seen.failure.as_ref().and_then(|failure| failure.offence.as_ref());
    let Some(value) = offence.and_then(|offence| offence.value.clone()) else { return Ok(None) };
    if session.is_long(first.seconds) {
        return Ok(None);
    }
    session.say("explain", "the same, following the offending value");
    let timeout = session.cold_timeout(session.trial_timeout(first.seconds));
    let pins = session.wanted_pins();
    let again = session
        .look(&session.setting("followed", Mode::Exec, pins, timeout), Observe { follow: Some(value), ..inventory })?;
    let Some(followed) = verdict::seen(&again).filter(|again| agrees(Some(again), Some(&seen))) else {
        return Ok(None);
    };
    let Some(last) = again.report else { return Ok(None) };
    if last.path.is_none() {
        return Ok(None);
    }
    Ok(Some(Found {
        as_given: describe(&first),
        signature: followed.signature,
        failure: followed.failure,
        frames: followed.frames,
        mode: Mode::Exec,
        pins,
        hidden: Vec::new(),
        sources: session.sources(),
        modules: report.modules,
        opened: last.opened,
        trace: Trace::default(),
        timeout: timeout.as_secs_f64(),
        path: last.path,
        seconds: [first.seconds, again.seconds, 0.0],
        notes: report.notes,
        environment: serde_json::to_value(&report.other).unwrap_or_default(),
        log: tail(&first.stderr, 40),
        untried: Vec::new(),
    }))
}
