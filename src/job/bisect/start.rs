//! The failing end: which failure is followed, and how trials are run.
//!
//! Invariant: pins and the fork server are used only when a run with them has shown the failure of the run as given.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::error::JobError;
use super::super::preflight::describe;
use super::super::session::Session;
use super::files::Files;
use super::{Axis, Work, remember};
use crate::bisect::axis::{Place, Ready};
use crate::bisect::{Aim, Answer, Others};
use crate::oracle::Setting;
use crate::trial::{Frame, Mode, Observe, Opened, Outcome, Pins};
use crate::verdict;

/// Runs of the failing end before it counts as one that passes.
const PATIENCE: u32 = 20;
/// Runs with pins before they count as hiding the failure.
const PINNED: u32 = 4;

/// How trials of a bisection may be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ways {
    /// Forked and pinned where that shows the failure.
    Any,
    /// As given, in a fresh interpreter: what the axis varies is read while modules are imported.
    AsGiven,
}

/// What the failing end showed.
#[derive(Clone, Debug)]
pub(super) struct Start {
    pub(super) aim: Aim,
    pub(super) setting: Setting,
    pub(super) frames: Vec<Frame>,
    pub(super) opened: Vec<Opened>,
    /// What the runs said that count for the failing end.
    pub(super) answers: Vec<Answer>,
    /// The last run that failed.
    pub(super) outcome: Option<Outcome>,
}

/// The same in the ledger.
#[derive(Serialize, Deserialize)]
struct Kept {
    aim: Aim,
    mode: Mode,
    pins: Pins,
    timeout: f64,
    modules: Vec<String>,
    frames: Vec<Frame>,
    opened: Vec<Opened>,
    /// Files that the answers speak of.
    files: Files,
}

/// Runs the failing end until it fails.
///
/// # Errors
/// When it does not, cannot be run, or fails otherwise than the case expects.
pub(super) fn look(work: &mut Work<'_>, end: Ready, ways: Ways) -> Result<Start, JobError> {
    let kept = work.session.oracle.ledger().evidence().cloned();
    if let Some(kept) = kept.and_then(|value| serde_json::from_value::<Kept>(value).ok()) {
        let changed = kept.files.changed(&work.session.ground.invocation.project);
        if !changed.is_empty() {
            return Err(JobError::Changed { out: work.out.clone(), files: changed.join(", ") });
        }
        work.failure = kept.aim.to_string();
        return resume(&mut work.session, kept);
    }
    let place = match end {
        Ready::Run(place) => place,
        Ready::Skip(why) => return Err(JobError::EndBroken { why }),
    };
    let session = &mut work.session;
    session.say("preflight", "the failing end as given, in a fresh interpreter");
    let mut answers = Vec::new();
    let given = setting(session, "as given", Mode::Exec, Pins::NONE, session.first_timeout(), &place);
    let mut first = None;
    let mut failing = None;
    for _ in 0..PATIENCE {
        let outcome = session.look(&given, INVENTORY)?;
        if let Some(what) = outcome.report.as_ref().and_then(|report| report.not_emulated.clone()) {
            return Err(JobError::NotEmulated { what });
        }
        let aim = Aim::of(&outcome, session.level());
        answers.push(if aim.is_some() { Answer::Fails } else { Answer::Passes });
        if let Some(aim) = aim {
            failing = Some((aim, outcome));
            break;
        }
        first.get_or_insert(outcome);
    }
    let Some((aim, outcome)) = failing else {
        let seen = first.as_ref().map(describe).unwrap_or_default();
        return Err(JobError::EndPasses { seen: format!("{seen} ({PATIENCE} runs)") });
    };
    if let Some(seen) = verdict::seen(&outcome) {
        session.check_expected(&seen)?;
    }
    let report = outcome.report.clone().unwrap_or_default();
    let timeout = session.trial_timeout(outcome.seconds);
    let mut start = Start {
        setting: setting(session, "as given", Mode::Exec, Pins::NONE, session.cold_timeout(timeout), &Place::default()),
        frames: frames_of(&outcome),
        opened: report.opened.clone(),
        aim,
        answers,
        outcome: Some(outcome),
    };
    if ways == Ways::Any {
        pin(session, &mut start, &report.modules, timeout, &place)?;
    }
    let kept = Kept {
        aim: start.aim.clone(),
        mode: start.setting.mode,
        pins: start.setting.pins,
        timeout: start.setting.timeout.as_secs_f64(),
        modules: report.modules.clone(),
        frames: start.frames.clone(),
        opened: start.opened.clone(),
        // A checkout has the files of its commit.
        files: if work.ask.axis == Axis::Commits { Files::default() } else { Files::of(work, &report, &start.opened) },
    };
    work.failure = start.aim.to_string();
    let session = &mut work.session;
    remember(session, serde_json::to_value(kept).unwrap_or_default())?;
    Ok(start)
}

const INVENTORY: Observe = Observe { trace: false, inventory: true, follow: None };

/// Forked from a server, with the pins of the case: far cheaper, where it shows the same failure.
fn pin(
    session: &mut Session<'_>,
    start: &mut Start,
    modules: &[String],
    timeout: Duration,
    place: &Place,
) -> Result<(), JobError> {
    session.warm_up(modules)?;
    session.say("preflight", "the same with pins, forked from a server that has its imports");
    let pins = session.wanted_pins();
    let pinned = setting(session, "pinned", Mode::Fork, pins, timeout, place);
    let mut seen = Vec::new();
    for _ in 0..PINNED {
        let outcome = session.look(&pinned, INVENTORY)?;
        let (answer, _) = start.aim.read(&outcome, Others::Pass);
        seen.push(answer);
        if answer == Answer::Fails {
            let base = Duration::from_secs_f64((outcome.seconds * 10.0).clamp(10.0, 3600.0));
            start.setting = setting(
                session,
                "pinned",
                Mode::Fork,
                pins,
                session.case_timeout().unwrap_or(base.max(timeout)),
                &Place::default(),
            );
            if let Some(report) = &outcome.report {
                start.opened.extend(report.opened.iter().cloned());
                start.opened.sort();
                start.opened.dedup();
            }
            // With launches waited for, the line is that of the failing call and not where the failure was noticed.
            let frames = frames_of(&outcome);
            if start.frames.is_empty() || (pins.launch_blocking && !frames.is_empty()) {
                start.frames = frames;
            }
            // Runs in another way than the search's say nothing of its rate.
            start.answers = seen;
            start.outcome = Some(outcome);
            return Ok(());
        }
    }
    Ok(())
}

fn resume(session: &mut Session<'_>, kept: Kept) -> Result<Start, JobError> {
    session.say("resume", "going on from the log");
    if kept.mode == Mode::Fork {
        session.warm_up(&kept.modules)?;
    }
    let timeout = Duration::from_secs_f64(kept.timeout);
    Ok(Start {
        setting: setting(session, "resumed", kept.mode, kept.pins, timeout, &Place::default()),
        aim: kept.aim,
        frames: kept.frames,
        opened: kept.opened,
        answers: Vec::new(),
        outcome: None,
    })
}

fn setting(session: &Session<'_>, name: &str, mode: Mode, pins: Pins, timeout: Duration, place: &Place) -> Setting {
    Setting { variation: place.variation.clone(), ..session.setting(name, place.mode.unwrap_or(mode), pins, timeout) }
}

/// Project frames of a failure, outermost first.
pub(super) fn frames_of(outcome: &Outcome) -> Vec<Frame> {
    if let Some(seen) = verdict::seen(outcome)
        && !seen.frames.is_empty()
    {
        return seen.frames;
    }
    let exception = outcome.report.as_ref().and_then(|report| report.exception.as_ref());
    exception.map(|exception| exception.frames.clone()).unwrap_or_default()
}
