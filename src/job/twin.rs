//! The nearest passing twin: the smallest edit of the repro with which it no longer fails.
//!
//! Invariant: a twin was run cold and passed the failing line; nothing is said where none did.
//! It must not run in the main job: each edit costs a cold run.

use std::fs;
use std::path::Path;
use std::time::Instant;

use serde::Deserialize;

use super::confirm::{Cold, cold_runs, repro_spec};
use super::session::{Observer, Session};
use super::{JobError, Options, early, first, target};
use crate::bundle::repro::Repro;
use crate::candidate::Candidate;
use crate::evidence::{Found, Ground};
use crate::explain::Origin;
use crate::explain::twin::{self, Edit, Twin};
use crate::ledger::Ledger;
use crate::signature::Signature;
use crate::trial::{Observe, Outcome, Pins, Step};
use crate::verdict::{Target, Verdict};

/// Phase of these runs in the ledger.
const PHASE: &str = "twin";
/// The program that is edited.
const PROGRAM: &str = "repro.py";

/// The program that fails.
#[derive(Clone, Copy, Debug)]
pub enum Failing<'a> {
    /// The failing call of a case, which is made a program first.
    Call(&'a Found),
    /// `repro.py` of a bundle, with its data.
    Bundle(&'a Path),
}

/// What the edits are made from: these fields of an explanation.
#[derive(Clone, Debug, Deserialize)]
pub struct Sought {
    signature: Signature,
    #[serde(default)]
    origin: Option<Origin>,
    #[serde(default)]
    path: Vec<Step>,
}

/// Tries the edits, the smallest first; nothing where the value is not known, or no edit was seen to pass.
///
/// # Errors
/// When a server, a file or the ledger fails, or the user ends it.
pub fn twin(
    ground: Ground,
    options: Options,
    failing: Failing<'_>,
    sought: &Sought,
    observer: Observer<'_>,
) -> Result<Option<Twin>, JobError> {
    let folder = tempfile::tempdir().map_err(|source| JobError::File { path: std::env::temp_dir(), source })?;
    let ledger = Ledger::create(&folder.path().join("ledger.jsonl"), PHASE)?;
    // What is shown of the failing call on the way goes with the folder.
    let options = Options { out: folder.path().to_owned(), ..options };
    let mut session = Session::open(ground, options, ledger, Instant::now(), observer)?;
    let text = match failing {
        Failing::Call(found) => match of_call(&mut session, found).map_err(early)? {
            Some(text) => text,
            None => return Ok(None),
        },
        Failing::Bundle(bundle) => {
            copy(&bundle.join("data"), &folder.path().join("data"))?;
            without_header(&read(&bundle.join(PROGRAM))?)
        }
    };
    session.say(PHASE, "the smallest edit that passes");
    // The program itself first: its offending value, and how often it comes to the failing line.
    let Some((outcome, Verdict::Same)) = run(&mut session, folder.path(), &text, sought)? else { return Ok(None) };
    let failure = outcome.report.as_ref().and_then(|report| report.failure.as_ref());
    let Some(offence) = failure.and_then(|failure| failure.offence.as_ref()) else { return Ok(None) };
    let Some(line) = failing_line(&outcome) else { return Ok(None) };
    let reached = (line, times(&outcome, line));
    let data = sought.origin.as_ref().map(|origin| folder.path().join("data").join(&origin.file));
    let data = data.filter(|path| path.is_file()).and_then(|path| fs::read_to_string(path).ok());
    let edits = twin::edits(&twin::Failing {
        program: &text,
        origin: sought.origin.as_ref(),
        data: data.as_deref(),
        offence,
        path: &sought.path,
    });
    for edit in edits {
        let before = apply(folder.path(), &edit, &text)?;
        let program = if edit.data.is_none() { &edit.text } else { &text };
        let Some((outcome, verdict)) = run(&mut session, folder.path(), program, sought)? else { return Ok(None) };
        if passes(&outcome, &verdict, reached) {
            return Ok(Some(twin::twin(&edit, &before)));
        }
        if let Some(name) = &edit.data {
            write(&folder.path().join("data").join(name), &before)?;
        }
    }
    Ok(None)
}

/// The failing call of a case as a program of its own.
fn of_call(session: &mut Session<'_>, found: &Found) -> Result<Option<String>, JobError> {
    session.take_sources(&found.sources)?;
    let target = target::aim(&session.original, found, session.level());
    Ok(first::find(session, found, &target)?.map(|first| first.repro.text))
}

/// The program of a bundle without the comment at its top, in which no number counts.
fn without_header(text: &str) -> String {
    text.lines().skip_while(|line| line.starts_with('#')).map(|line| line.to_owned() + "\n").collect()
}

/// Changes the data file, or nothing for an edit of the program, which is written by its run; says what was there before.
fn apply(folder: &Path, edit: &Edit, text: &str) -> Result<String, JobError> {
    let Some(name) = &edit.data else { return Ok(text.to_owned()) };
    let path = folder.join("data").join(name);
    let before = read(&path)?;
    write(&path, &edit.text)?;
    Ok(before)
}

/// One cold run without any pin; nothing where a limit or the user ends it.
fn run(
    session: &mut Session<'_>,
    folder: &Path,
    text: &str,
    sought: &Sought,
) -> Result<Option<(Outcome, Verdict)>, JobError> {
    write(&folder.join(PROGRAM), text)?;
    let repro = Repro::alone(text.to_owned());
    let pool = session.cold_pool(folder, ".", repro_spec())?;
    let target = Target {
        signature: sought.signature.clone(),
        level: session.level(),
        chain: Vec::new(),
        offence: None,
        sample_counts: false,
    };
    let cold = Cold {
        phase: PHASE,
        name: PHASE,
        pins: Pins::NONE,
        timeout: session.trial_timeout(0.0).as_secs_f64(),
        observe: Observe { trace: true, ..Observe::default() },
    };
    let seen = cold_runs(session, pool, &cold, &Candidate::new(repro.tree()), repro.size(), &target, 1)?;
    Ok(seen.into_iter().next())
}

/// The line of the repro at which it fails.
fn failing_line(outcome: &Outcome) -> Option<u32> {
    outcome.report.as_ref()?.failure.as_ref()?.frames.last().map(|frame| frame.line)
}

/// How often a line of the repro ran.
fn times(outcome: &Outcome, line: u32) -> u64 {
    let executed = outcome.trace.as_ref().and_then(|trace| trace.executed.get(PROGRAM));
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

fn read(path: &Path) -> Result<String, JobError> {
    fs::read_to_string(path).map_err(|source| JobError::File { path: path.to_owned(), source })
}

fn write(path: &Path, text: &str) -> Result<(), JobError> {
    fs::write(path, text).map_err(|source| JobError::File { path: path.to_owned(), source })
}

/// Copies a folder, if it is there.
fn copy(from: &Path, to: &Path) -> Result<(), JobError> {
    for entry in ignore::WalkBuilder::new(from).standard_filters(false).build().flatten() {
        let path = entry.path();
        let Ok(inside) = path.strip_prefix(from) else { continue };
        let target = to.join(inside);
        let done = if path.is_dir() { fs::create_dir_all(&target) } else { fs::copy(path, &target).map(drop) };
        done.map_err(|source| JobError::File { path: target, source })?;
    }
    Ok(())
}
