//! Preflight: does the program fail, how, and which pins may be used?
//!
//! Invariant: a pin is used only after a run with it has shown the failure that the run as given showed.
//! Three runs when all goes well: as given (cold), pinned (forked), traced (forked and pinned); and a fourth that follows the
//! offending value where that is known.

use std::time::{Duration, Instant};

use super::session::Session;
use super::{JobError, PlainEnd};
use crate::evidence::Found;
use crate::oracle::Setting;
use crate::signature::Match;
use crate::trial::{self, Failure, Mode, Observe, Outcome, Pins, Report, TrialEnd, ValuePath};
use crate::verdict::{self, Seen};

/// Most runs of a program that does not fail at once, before it counts as one that does not fail.
const REPEATS: u32 = 40;
/// As many of them as fit into this time, and two in any case.
const REPEATS_TIME: Duration = Duration::from_secs(20);
/// Runs that tell a failure that comes and goes from one that a pin hides.
const STEADY: u32 = 4;
/// A trial may take this many times the pinned run.
const PATIENCE: f64 = 10.0;
/// The traced run may take this many times a trial.
const TRACE_PATIENCE: u32 = 10;

/// Runs preflight.
///
/// # Errors
/// When the program does not fail, fails otherwise than expected, fails too rarely, or cannot run here.
pub(super) fn run(session: &mut Session<'_>) -> Result<Found, JobError> {
    let wanted = session.wanted_pins();
    session.say("preflight", "the program as given, in a fresh interpreter");
    let first =
        session.look(&session.setting("as given", Mode::Exec, Pins::NONE, session.first_timeout()), INVENTORY)?;
    let mut seen = verdict::seen(&first);
    if first.end == TrialEnd::TimedOut {
        return Err(JobError::NotReproduced { seen: session.timed_out(&first), end: PlainEnd::Time });
    }
    if seen.is_none() {
        refuse_python_errors(&first)?;
    }
    if let Some(seen) = &seen {
        session.check_expected(seen)?;
    }
    let mut report = first.report.clone().unwrap_or_default();
    if let (true, Some(seen)) = (session.is_long(first.seconds), seen.clone()) {
        return long(session, first, seen);
    }
    session.adopt_inventory(&report)?;
    session.warm_up(&report.modules)?;

    let timeout = session.trial_timeout(first.seconds);
    let mut pins = wanted;
    let mut mode = Mode::Fork;
    let mut hidden = Vec::new();
    session.say("preflight", "the same with pins, forked from a server that has imported torch");
    let pinned = session.look(&session.setting("pinned", mode, pins, timeout), INVENTORY)?;
    let mut base = pinned.clone();
    let mut found = verdict::seen(&pinned);
    if !agrees(found.as_ref(), seen.as_ref()) {
        match &seen {
            Some(first_seen) => {
                let way = find_a_way(session, first_seen, wanted, timeout, &mut hidden)?;
                (mode, pins, base) = (way.mode, way.pins, way.outcome);
                found = verdict::seen(&base);
            }
            None if found.is_none() => seen = Some(repeat(session, &first, wanted, timeout)?),
            None => {}
        }
    }
    let Some(found) = found else {
        return Err(not_reproduced(&base));
    };
    let as_given = match &seen {
        Some(_) => describe(&first),
        None => format!("{}; it fails only with {}", describe(&first), pins_in_words(&pins)),
    };
    session.check_expected(&found)?;
    let timeout = session.case_timeout().unwrap_or_else(|| trial_timeout(&base, mode));
    session.say("preflight", "the same, traced");
    let traced = session.watch(
        &session.setting("traced", mode, pins, timeout * TRACE_PATIENCE),
        Observe { trace: true, ..Observe::default() },
        session.to_watch(&found),
    )?;
    let again = verdict::seen(&traced);
    if !agrees(again.as_ref(), Some(&found)) {
        // Either tracing hides the failure, or it comes and goes.
        check_steady(session, &found, &session.setting("pinned", mode, pins, timeout), &mut hidden)?;
    }
    let trace = again.as_ref().and(traced.trace.clone()).unwrap_or_default();
    let failure = recorded(found.failure.clone(), again.as_ref());
    let found = Seen { failure, ..found };
    let path = follow(session, &found, &session.setting("followed", mode, pins, timeout * TRACE_PATIENCE))?;
    let frames = if found.frames.is_empty() { again.map(|seen| seen.frames).unwrap_or_default() } else { found.frames };
    if let Some(pinned_report) = &base.report {
        report.opened.extend(pinned_report.opened.iter().cloned());
        report.notes.extend(pinned_report.notes.iter().cloned());
    }
    report.opened.sort();
    report.opened.dedup();
    Ok(Found {
        signature: found.signature,
        failure: found.failure,
        frames,
        mode,
        pins,
        hidden,
        as_given,
        sources: session.sources(),
        modules: report.modules,
        opened: report.opened,
        trace,
        timeout: timeout.as_secs_f64(),
        path,
        seconds: [first.seconds, base.seconds, traced.seconds],
        notes: report.notes,
        environment: serde_json::to_value(&report.other).unwrap_or_default(),
        log: tail(&first.stderr, 40),
        untried: Vec::new(),
    })
}

/// The failing call as the recorded run shows it, which says more of it, where it is the same call.
fn recorded(first: Option<Failure>, again: Option<&Seen>) -> Option<Failure> {
    let again = again.and_then(|seen| seen.failure.clone());
    match (first, again) {
        (Some(first), Some(again)) if first.op == again.op && first.frames == again.frames => Some(again),
        (None, again) => again,
        (first, _) => first,
    }
}

/// One more run that follows the offending value; none where it is not known, or where following it changes the failure.
fn follow(session: &mut Session<'_>, found: &Seen, setting: &Setting) -> Result<Option<ValuePath>, JobError> {
    let offence = found.failure.as_ref().and_then(|failure| failure.offence.as_ref());
    let Some(value) = offence.and_then(|offence| offence.value.clone()) else { return Ok(None) };
    session.say("preflight", "the same, following the offending value");
    let observe = Observe { follow: Some(value), ..Observe::default() };
    let outcome = session.watch(setting, observe, session.to_watch(found))?;
    let same = verdict::seen(&outcome).is_some_and(|seen| {
        let again = seen.failure.as_ref().and_then(|failure| failure.offence.as_ref());
        agrees(Some(&seen), Some(found)) && again.zip(offence).is_some_and(|(one, other)| one == other)
    });
    Ok(outcome.report.filter(|_| same).and_then(|report| report.path))
}

/// One run takes so long that there is no room for a search: the first run is all that there is.
fn long(session: &mut Session<'_>, first: Outcome, seen: Seen) -> Result<Found, JobError> {
    let report = first.report.clone().unwrap_or_default();
    session.adopt_inventory(&report)?;
    let limit = session.time_limit().as_secs_f64();
    Ok(Found {
        as_given: describe(&first),
        signature: seen.signature,
        failure: seen.failure,
        frames: seen.frames,
        mode: Mode::Exec,
        pins: Pins::NONE,
        hidden: Vec::new(),
        sources: session.sources(),
        modules: report.modules,
        opened: report.opened,
        trace: trial::Trace::default(),
        timeout: session.first_timeout().as_secs_f64(),
        path: None,
        seconds: [first.seconds; 3],
        notes: report.notes,
        environment: serde_json::to_value(&report.other).unwrap_or_default(),
        log: first.stderr,
        untried: vec![
            format!(
                "one run takes {:.0} s, more than a tenth of the time limit of {limit:.0} s: nothing was removed or simplified",
                first.seconds
            ),
            "no second run: whether the failure comes each time, and whether a seed, blocking launches or DataLoaders \
             without workers hide it, is not known"
                .to_owned(),
            "no program that is made of more than the failing call".to_owned(),
        ],
    })
}

const INVENTORY: Observe = Observe { trace: false, inventory: true, follow: None };

struct Way {
    mode: Mode,
    pins: Pins,
    outcome: Outcome,
}

/// Finds the pins that hide the failure: cold with all of them, then without each, then with none.
fn find_a_way(
    session: &mut Session<'_>,
    wanted: &Seen,
    pins: Pins,
    timeout: Duration,
    hidden: &mut Vec<String>,
) -> Result<Way, JobError> {
    let without = [
        (Pins { launch_blocking: false, ..pins }, "launch_blocking: CUDA_LAUNCH_BLOCKING=1"),
        (Pins { num_workers: None, ..pins }, "num_workers: DataLoaders without workers"),
        (Pins { seed: None, ..pins }, "seed: fixed seeds"),
    ];
    let cold = |session: &mut Session<'_>, pins: Pins, mode: Mode| -> Result<Option<Outcome>, JobError> {
        let outcome =
            session.look(&session.setting("preflight", mode, pins, session.cold_timeout(timeout)), INVENTORY)?;
        Ok(agrees(verdict::seen(&outcome).as_ref(), Some(wanted)).then_some(outcome))
    };
    if let Some(outcome) = cold(session, pins, Mode::Exec)? {
        steady(session, wanted, pins, Mode::Exec, timeout)?;
        hidden.push(
            "fork: a process forked from a server with torch imported changes the failure; each trial starts cold"
                .into(),
        );
        return Ok(Way { mode: Mode::Exec, pins, outcome });
    }
    for (fewer, name) in without {
        if fewer == pins {
            continue;
        }
        if let Some(outcome) = cold(session, fewer, Mode::Fork)? {
            steady(session, wanted, fewer, Mode::Fork, timeout)?;
            hidden.push(format!("{name} hides or changes the failure; switched off"));
            return Ok(Way { mode: Mode::Fork, pins: fewer, outcome });
        }
    }
    for mode in [Mode::Fork, Mode::Exec] {
        if let Some(outcome) = cold(session, Pins::NONE, mode)? {
            steady(session, wanted, Pins::NONE, mode, timeout)?;
            hidden.push("no single pin is to blame; all are switched off".into());
            return Ok(Way { mode, pins: Pins::NONE, outcome });
        }
    }
    let (hits, runs) = count(session, wanted, Pins::NONE, Mode::Exec, timeout, STEADY)?;
    Err(JobError::TooRare { hits: hits + 1, runs: runs + 1, signature: wanted.signature.to_string() })
}

/// A failure that comes and goes looks like one that a pin hides, until it is asked again.
fn steady(session: &mut Session<'_>, wanted: &Seen, pins: Pins, mode: Mode, timeout: Duration) -> Result<(), JobError> {
    let (hits, runs) = count(session, wanted, pins, mode, timeout, STEADY)?;
    if hits == runs {
        return Ok(());
    }
    Err(JobError::TooRare { hits: hits + 2, runs: runs + 3, signature: wanted.signature.to_string() })
}

/// Repeats a program that did not fail, as given and pinned in turn.
fn repeat(session: &mut Session<'_>, first: &Outcome, pins: Pins, timeout: Duration) -> Result<Seen, JobError> {
    session.say("preflight", "no failure yet; trying again");
    let begun = Instant::now();
    let (mut hits, mut runs) = (0, 0);
    let mut last = None;
    for round in 0..REPEATS {
        if round >= 2 && begun.elapsed() >= REPEATS_TIME {
            break;
        }
        runs += 1;
        let chosen = if round % 2 == 0 { Pins::NONE } else { Pins { seed: None, ..pins } };
        let outcome = session.look(&session.setting("as given", Mode::Fork, chosen, timeout), Observe::default())?;
        if let Some(seen) = verdict::seen(&outcome) {
            hits += 1;
            last = Some(seen);
        }
    }
    match last {
        Some(seen) => Err(JobError::TooRare { hits, runs: runs + 2, signature: seen.signature.to_string() }),
        None => Err(JobError::NotReproduced {
            seen: format!("{} ({} runs)", describe(first), runs + 2),
            end: plain_end(first),
        }),
    }
}

fn check_steady(
    session: &mut Session<'_>,
    wanted: &Seen,
    setting: &Setting,
    hidden: &mut Vec<String>,
) -> Result<(), JobError> {
    let (hits, runs) = count(session, wanted, setting.pins, setting.mode, setting.timeout, 5)?;
    if hits < runs {
        return Err(JobError::TooRare { hits: hits + 1, runs: runs + 2, signature: wanted.signature.to_string() });
    }
    hidden.push("tracing hides or changes the failure; the search goes without a trace".into());
    Ok(())
}

fn count(
    session: &mut Session<'_>,
    wanted: &Seen,
    pins: Pins,
    mode: Mode,
    timeout: Duration,
    runs: u32,
) -> Result<(u32, u32), JobError> {
    let mut hits = 0;
    for _ in 0..runs {
        let outcome =
            session.look(&session.setting("repeat", mode, pins, session.cold_timeout(timeout)), Observe::default())?;
        hits += u32::from(agrees(verdict::seen(&outcome).as_ref(), Some(wanted)));
    }
    Ok((hits, runs))
}

/// The two runs show the same failure, at the level that leaves room for a stack that lies.
pub(super) fn agrees(one: Option<&Seen>, other: Option<&Seen>) -> bool {
    matches!((one, other), (Some(one), Some(other)) if one.signature.matches(&other.signature, Match::Normal))
}

/// A Python error on the first run is the program's own, and no case for this tool.
fn refuse_python_errors(outcome: &Outcome) -> Result<(), JobError> {
    if let Some(what) = outcome.report.as_ref().and_then(|report| report.not_emulated.clone()) {
        return Err(JobError::NotEmulated { what });
    }
    if !matches!(outcome.end, TrialEnd::Exited(_)) {
        return Err(not_reproduced(outcome));
    }
    let Some(exception) = outcome.report.as_ref().and_then(|report| report.exception.as_ref()) else { return Ok(()) };
    if let Some(syntax) = &exception.syntax {
        return Err(JobError::NotReproduced {
            seen: format!("{}:{}: {}", syntax.file, syntax.line, syntax.message),
            end: PlainEnd::Error,
        });
    }
    Err(not_reproduced(outcome))
}

/// The error for a run that showed no device-side failure.
pub(super) fn not_reproduced(outcome: &Outcome) -> JobError {
    JobError::NotReproduced { seen: describe(outcome), end: plain_end(outcome) }
}

pub(super) fn plain_end(outcome: &Outcome) -> PlainEnd {
    let exception = outcome.report.as_ref().is_some_and(|report| report.exception.is_some());
    match outcome.end {
        TrialEnd::Exited(0) if !exception => PlainEnd::Clean,
        TrialEnd::Exited(_) => PlainEnd::Error,
        TrialEnd::TimedOut => PlainEnd::Time,
        TrialEnd::OutputLimit => PlainEnd::Output,
        TrialEnd::MemoryLimit | TrialEnd::Signaled(9) => PlainEnd::Memory,
        TrialEnd::Signaled(_) | TrialEnd::Dropped | TrialEnd::Lost => PlainEnd::Signal,
    }
}

/// How a run ended, in one line for people.
pub fn describe(outcome: &Outcome) -> String {
    let exception = outcome.report.as_ref().and_then(|report: &Report| report.exception.as_ref());
    if let Some(seen) = verdict::seen(outcome) {
        return seen.signature.to_string();
    }
    match (exception, outcome.end) {
        (Some(exception), _) => {
            let at =
                exception.frames.last().map_or_else(String::new, |frame| format!(" ({}:{})", frame.file, frame.line));
            format!("{}{at}", verdict::one_line(&exception.kind, &exception.message))
        }
        (None, TrialEnd::Exited(code)) => format!("no device-side failure, exit status {code}"),
        (None, TrialEnd::OutputLimit) => format!("it printed more than {} MiB and was ended", trial::MOST_OUTPUT >> 20),
        (None, TrialEnd::MemoryLimit) => "it took more memory than `limits: {memory: ...}` allows".to_owned(),
        (None, TrialEnd::Signaled(9)) => {
            "killed (signal 9); the system or `limits: {memory: ...}` ran out of memory".to_owned()
        }
        (None, TrialEnd::Signaled(signal)) => format!("ended by signal {signal}"),
        (None, TrialEnd::TimedOut) => format!("no end after {:.0} s", outcome.seconds),
        (None, TrialEnd::Dropped | TrialEnd::Lost) => "lost".to_owned(),
    }
}

fn pins_in_words(pins: &Pins) -> String {
    let mut words = Vec::new();
    if let Some(seed) = pins.seed {
        words.push(format!("seed {seed}"));
    }
    if pins.launch_blocking {
        words.push("CUDA_LAUNCH_BLOCKING=1".to_owned());
    }
    if pins.num_workers.is_some() {
        words.push("DataLoaders without workers".to_owned());
    }
    words.join(", ")
}

fn trial_timeout(base: &Outcome, mode: Mode) -> Duration {
    let floor = if mode == Mode::Fork { 10.0 } else { 30.0 };
    Duration::from_secs_f64((base.seconds * PATIENCE).clamp(floor, 3600.0))
}

/// The last lines of a log.
pub fn tail(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}
