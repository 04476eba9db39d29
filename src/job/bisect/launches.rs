//! Bisection over the launches of one run: which call fails on the device.
//!
//! Invariant: a call is named only by a run that failed there; where waiting for each launch hides the failure, at most one
//! synchronisation is put in.

use serde_json::{Value, json};

use super::super::PlainEnd;
use super::start::{self, Start, Ways, frames_of};
use super::{Answered, Ending, JobError, Known, Work, ending};
use crate::bisect::axes::launches::{self, Launches};
use crate::bisect::axis::{AxisError, Ordered, Place, Ready};
use crate::bisect::{Aim, Answer, Conclusion, Others};
use crate::oracle::Setting;
use crate::trial::{Device, Failure, Frame, Mode, Observe, Outcome, Pins, Variation};
use crate::verdict;

/// Runs with each launch waited for before that counts as hiding the failure.
const AGREE: usize = 3;
/// Runs of an asynchronous program to see how far it gets.
const COUNTING: usize = 5;
/// Key of the runs with each launch waited for.
const BLOCKING: &str = "blocking";
/// Passes at the point before the first operator: enough to count as the passing end.
const PASSING: usize = 12;

/// Which launch.
pub(super) fn launches(work: &mut Work<'_>) -> Result<Answered, JobError> {
    let start = start::look(work, Ready::with(Variation::default()), Ways::AsGiven)?;
    let mut answered = Answered {
        ending: Ending::Found,
        failure: start.aim.to_string(),
        lines: Vec::new(),
        found: json!({}),
        neighbours: Vec::new(),
        probability: None,
    };
    if !matches!(start.aim, Aim::Device { .. }) {
        return Err(JobError::NotReproduced { seen: start.aim.to_string(), end: PlainEnd::Error });
    }
    let waited = blocking(work, &start)?;
    if let Waited::Fails(outcome) = &waited {
        let failure = verdict::seen(outcome).and_then(|seen| seen.failure);
        describe_call(&mut answered, failure.as_ref(), &frames_of(outcome));
        answered.lines.push("how: one run with every launch waited for; it fails the same way".to_owned());
        answered.found["how"] = json!("blocking");
        answered.neighbours = vec![BLOCKING.to_owned()];
        return Ok(answered);
    }
    let why = if matches!(waited, Waited::Passes) { "hides it" } else { "keeps it from running to its end" };
    answered.lines.push(format!("waiting for every launch {why}: one synchronisation at a time is put in"));
    answered.found["how"] = json!("synchronisation");
    // How far a run gets differs from run to run: what was asked about before stays on the axis.
    let asked = work.entries.iter().filter_map(|entry| entry.key.parse().ok()).max().unwrap_or_default();
    let count = count_launches(work, &start)?.max(asked);
    let mut axis = Launches::new(count, start.aim.clone());
    work.entries.retain(|entry| entry.key != BLOCKING);
    let nothing = Some("before the first operator nothing can have failed");
    let known: Vec<Known> = (0..PASSING).map(|_| Known { point: 0, answer: Answer::Passes, why: nothing }).collect();
    let (_, conclusion, stop) = work.search(&start, &mut axis, &known)?;
    answered.ending = ending(&conclusion, stop);
    match &conclusion {
        Conclusion::Found { first, before, mass } => {
            let launch = first.last().copied().unwrap_or_default();
            let facts = work.shown.get(&axis.key(launch)).map(|shown| shown.facts.clone()).unwrap_or_default();
            let at = &facts["other"]["launches"]["at"];
            if work.session.ground.device == Device::Emulated {
                // What is counted there are the operators that emulate: only the emulation knows the call.
                let failure: Option<Failure> = serde_json::from_value(facts["failure"].clone()).ok();
                let frames: Vec<Frame> = serde_json::from_value(at["frames"].clone()).unwrap_or_default();
                describe_call(&mut answered, failure.as_ref(), &frames);
            } else {
                describe_launch(&mut answered, launch, at);
            }
            for point in before {
                answered.lines.push(format!("waited for behind operator {point}, the device had not failed yet"));
            }
            answered.lines.push(format!("how sure: {:.1} %", mass * 100.0));
            answered.neighbours = before.iter().chain([&launch]).map(|point| axis.key(*point)).collect();
            answered.probability = Some(*mass);
        }
        Conclusion::Among { points, mass } => {
            let (first, last) = (points.iter().min(), points.iter().max());
            answered.lines.push(format!(
                "not decided; with {:.0} % between operators {} and {}",
                mass * 100.0,
                first.copied().unwrap_or_default(),
                last.copied().unwrap_or_default()
            ));
        }
        Conclusion::Nothing(_) => {
            answered
                .lines
                .push("with a synchronisation behind the last operator it does not fail: any wait hides it".to_owned());
        }
    }
    Ok(answered)
}

/// How many operators a failing run starts; more than the failing one needs, fewer than would never be reached.
fn count_launches(work: &mut Work<'_>, start: &Start) -> Result<usize, JobError> {
    let setting = Setting {
        name: "launches counted".to_owned(),
        mode: Mode::Exec,
        pins: Pins::NONE,
        variation: launches::counting(),
        ..start.setting.clone()
    };
    let mut most = 0;
    for _ in 0..COUNTING {
        let outcome = work.session.look(&setting, Observe::default())?;
        if start.aim.read(&outcome, Others::SayNothing).0 == Answer::Fails {
            most = most.max(launches::counted(&outcome));
        }
    }
    if most == 0 {
        return Err(AxisError::wrong(
            "no operator on the device could be counted in a run that fails",
            "counting may hide it; operators are counted where torch has dispatch modes (1.13 and newer)",
        )
        .into());
    }
    Ok(most)
}

/// What comes of waiting for every launch.
#[derive(Debug)]
enum Waited {
    /// The call that raises is the one that failed.
    Fails(Box<Outcome>),
    /// It hides the failure.
    Passes,
    /// The program fails otherwise, or does not end.
    NoAnswer,
}

/// Waits for each launch, unless a log says what comes of it.
fn blocking(work: &mut Work<'_>, start: &Start) -> Result<Waited, JobError> {
    let mut said: Vec<Answer> =
        work.entries.iter().filter(|entry| entry.key == BLOCKING).map(|entry| entry.answer).collect();
    if said.contains(&Answer::Fails) {
        said.clear();
    }
    let env = [("CUDA_LAUNCH_BLOCKING".to_owned(), Some("1".to_owned()))].into();
    let place = Place { variation: Variation { env, ..Variation::default() }, mode: None };
    work.drive(start, 1, |driver| {
        while said.len() < AGREE {
            let read = &mut |aim: &Aim, outcome: &Outcome| aim.read(outcome, Others::SayNothing);
            let (answer, outcome) = driver.run_once("launches", BLOCKING, "every launch waited for", &place, read)?;
            if answer == Answer::Fails {
                return Ok(Waited::Fails(Box::new(outcome)));
            }
            said.push(answer);
        }
        Ok(if said.contains(&Answer::Passes) { Waited::Passes } else { Waited::NoAnswer })
    })
}

/// The failing call as the harness saw it.
fn describe_call(answered: &mut Answered, failure: Option<&Failure>, frames: &[Frame]) {
    if let Some(failure) = failure {
        answered.lines.push(format!("operator: {}", failure.op));
        for argument in failure.args.iter().filter(|argument| argument.shape.is_some()) {
            let dtype = argument.dtype.as_deref().unwrap_or("?");
            answered.lines.push(format!(
                "  {}: {:?} {dtype}",
                argument.name,
                argument.shape.clone().unwrap_or_default()
            ));
        }
        answered.found["operator"] = json!(failure.op);
        answered.found["arguments"] = json!(failure.args);
    }
    if let Some(frame) = frames.last() {
        answered.lines.push(format!("line: {}:{} in {}", frame.file, frame.line, frame.func));
        answered.found["line"] = json!(format!("{}:{}", frame.file, frame.line));
    }
}

/// The operator behind which the device was found to have failed.
fn describe_launch(answered: &mut Answered, launch: usize, at: &Value) {
    answered.lines.push(format!("operator {launch}: {}", at["op"].as_str().unwrap_or("(unknown)")));
    for argument in at["args"].as_array().into_iter().flatten() {
        answered.lines.push(format!("  {} {}", argument["shape"], argument["dtype"].as_str().unwrap_or_default()));
    }
    if let Some(frame) = at["frames"].as_array().and_then(|frames| frames.last()) {
        let place = format!("{}:{}", frame["file"].as_str().unwrap_or_default(), frame["line"]);
        answered.lines.push(format!("line: {place} in {}", frame["func"].as_str().unwrap_or_default()));
        answered.found["line"] = json!(place);
    }
    answered.found["operator"] = at["op"].clone();
    answered.found["number"] = json!(launch);
    answered.found["arguments"] = at["args"].clone();
}
