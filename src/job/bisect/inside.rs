//! Bisection inside of one run: steps of the training loop, and launches of kernels.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::start::{self, Start, Ways, frames_of};
use super::{Answered, Ending, JobError, Work, ending};
use crate::bisect::axes::launches::{self, Launches};
use crate::bisect::axes::steps::{self, Counted, History};
use crate::bisect::axis::{AxisError, Ordered, Place, Ready};
use crate::bisect::{Aim, Answer, Conclusion, Others};
use crate::oracle::Setting;
use crate::trial::{Mode, Outcome, Pins, Variation};
use crate::verdict;

/// Runs that must agree before a single setting is believed.
const AGREE: usize = 3;
/// Runs of an asynchronous program to see how far it gets.
const COUNTING: usize = 5;

/// Which step, and how much of its history it needs.
pub(super) fn steps(work: &mut Work<'_>) -> Result<Answered, JobError> {
    let start = start::look(work, Ready::with(Variation::default()), Ways::Any)?;
    let (outcome, counted) = count_steps(work, &start)?;
    let (Some(file), Some(line)) = (counted.file.clone(), counted.line) else {
        return Err(AxisError::wrong(
            "no `for` loop of the project is around the failing call",
            "bisection over steps counts the rounds of a `for` loop",
        )
        .into());
    };
    let Some(step) = counted.step else {
        return Err(AxisError::wrong(
            format!("it fails before the first step of the loop at {file}:{line}"),
            "there is nothing to cut",
        )
        .into());
    };
    let states = outcome.scratch.join(steps::STATES);
    let mut answered = Answered {
        ending: Ending::Found,
        failure: start.aim.to_string(),
        lines: vec![format!(
            "fails at step {step} of the loop at {file}:{line} (pass {}, round {} of it; all from 0 but the pass)",
            counted.pass,
            counted.in_pass.unwrap_or_default()
        )],
        found: json!({ "loop": format!("{file}:{line}"), "step": step, "pass": counted.pass, "in_pass": counted.in_pass }),
        neighbours: Vec::new(),
        probability: None,
    };
    let mut history = History::new(start.frames.clone(), step, states, start.aim.clone());
    let fresh = alone(work, &start, &mut history)?;
    if fresh {
        answered
            .lines
            .push(format!("it fails from a fresh state: steps 0 to {} are not needed", step.saturating_sub(1)));
        answered.found["history"] = json!("none");
        answered.neighbours = vec![history.key(0)];
        cut(work, &start, &counted, &mut answered)?;
        return Ok(answered);
    }
    // The whole run has failed, the fresh one has passed: how late may it start?
    let last = step;
    let mut known = vec![(last, Answer::Fails)];
    known.extend(
        work.shown
            .get(&history.key(0))
            .map(|shown| vec![(0, Answer::Passes); shown.counts[1] as usize])
            .into_iter()
            .flatten(),
    );
    let (_, conclusion, stop) = work.search(&start, &mut history, &known)?;
    answered.ending = ending(&conclusion, stop);
    if let Conclusion::Found { first, before, mass } = &conclusion {
        let from = first.iter().map(|point| history.start(*point)).min().unwrap_or_default();
        answered.lines.push(format!("it needs its history from step {from} on: started later it passes"));
        answered.lines.push(format!("how sure: {:.1} %", mass * 100.0));
        answered.found["history"] = json!(from);
        answered.neighbours = before.iter().chain(first.last()).map(|point| history.key(*point)).collect();
        answered.probability = Some(*mass);
    } else {
        answered.lines.push("how much of its history it needs is not decided".to_owned());
    }
    Ok(answered)
}

/// The whole run with its steps counted and the states of its random generators saved; its folder stays.
fn count_steps(work: &mut Work<'_>, start: &Start) -> Result<(Outcome, Counted), JobError> {
    let session = &mut work.session;
    session.say("bisect", "the whole run with its steps counted");
    let setting = Setting {
        name: "steps counted".to_owned(),
        variation: steps::counting(&start.frames),
        timeout: start.setting.timeout * 3,
        ..start.setting.clone()
    };
    let mut last = None;
    for _ in 0..20 {
        let outcome = session.look(&setting, crate::trial::Observe::default())?;
        let counted = steps::counted(&outcome);
        if start.aim.read(&outcome, Others::Pass).0 == Answer::Fails {
            return Ok((outcome, counted));
        }
        last = Some(outcome);
    }
    let seen = last.map_or_else(String::new, |outcome| super::super::preflight::describe(&outcome));
    Err(JobError::NotReproduced { seen: format!("{seen} (with its steps counted)"), clean: false })
}

/// Whether the failing step alone fails.
fn alone(work: &mut Work<'_>, start: &Start, history: &mut History) -> Result<bool, JobError> {
    let Ready::Run(place) = history.prepare(0)? else { return Ok(false) };
    let (key, label) = (history.key(0), history.label(0));
    if !work.entries.is_empty() {
        let (fails, passes) =
            work.entries.iter().filter(|entry| entry.key == key).fold((0, 0), |(fails, passes), entry| {
                (
                    fails + usize::from(entry.answer == Answer::Fails),
                    passes + usize::from(entry.answer == Answer::Passes),
                )
            });
        return Ok(fails > 0 && passes == 0);
    }
    let read =
        &mut |aim: &Aim, outcome: &Outcome| history.read(0, outcome).unwrap_or_else(|| aim.read(outcome, Others::Pass));
    let answers = repeat(work, start, "steps", (&key, &label), &place, read)?;
    Ok(answers.contains(&Answer::Fails))
}

/// Runs one place until it has said the same thing often enough.
fn repeat(
    work: &mut Work<'_>,
    start: &Start,
    axis: &'static str,
    (key, label): (&str, &str),
    place: &Place,
    read: &mut dyn FnMut(&Aim, &Outcome) -> (Answer, String),
) -> Result<Vec<Answer>, JobError> {
    work.drive(start, 1, |driver| {
        let mut answers = Vec::new();
        while answers.len() < AGREE {
            answers.push(driver.run_once(axis, key, label, place, read)?.0);
        }
        Ok(answers)
    })
}

/// Writes the loop cut to its failing step, where that still fails without any help of ours.
fn cut(work: &mut Work<'_>, start: &Start, counted: &Counted, answered: &mut Answered) -> Result<(), JobError> {
    let Some(file) = &counted.file else { return Ok(()) };
    let path = work.session.ground.invocation.project.join(file);
    let Ok(text) = fs::read(&path) else { return Ok(()) };
    let Some(text) = cut_text(&text, &counted.cuts) else { return Ok(()) };
    let variation = Variation { files: vec![(file.clone(), text.clone())], ..Variation::default() };
    let place = Place { variation, mode: None };
    let read = &mut |aim: &Aim, outcome: &Outcome| aim.read(outcome, Others::Pass);
    let answers = repeat(work, start, "steps", ("cut", "the loop cut to that step"), &place, read)?;
    if answers.contains(&Answer::Passes) || answers.contains(&Answer::Skip) {
        answered.lines.push(
            "cut to that step in its text it does not fail each time: it needs the state of its random generators"
                .to_owned(),
        );
        return Ok(());
    }
    let target = work.out.join("cut").join(file);
    let fail = |source| JobError::File { path: target.clone(), source };
    fs::create_dir_all(target.parent().unwrap_or(Path::new("."))).map_err(fail)?;
    fs::write(&target, text).map_err(fail)?;
    answered.lines.push(format!("the loop cut to that step: {}", target.display()));
    answered.found["cut"] = json!(target);
    Ok(())
}

/// The text with each loop going over one of its rounds only; places are lines and columns in bytes.
fn cut_text(text: &[u8], cuts: &[([usize; 4], u64)]) -> Option<Vec<u8>> {
    let mut starts = vec![0];
    starts.extend(text.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1));
    let mut places: Vec<(usize, usize, u64)> = cuts
        .iter()
        .map(|([line, column, last_line, last_column], round)| {
            let begin = starts.get(line.checked_sub(1)?)? + column;
            let end = starts.get(last_line.checked_sub(1)?)? + last_column;
            (begin < end && end <= text.len()).then_some((begin, end, *round))
        })
        .collect::<Option<_>>()?;
    // The later place first, so that the earlier ones stay where they are.
    places.sort_unstable();
    let mut cut = text.to_vec();
    for (begin, end, round) in places.into_iter().rev() {
        let mut new = b"__import__(\"itertools\").islice(".to_vec();
        new.extend_from_slice(&text[begin..end]);
        new.extend_from_slice(format!(", {round}, {})", round + 1).as_bytes());
        cut.splice(begin..end, new);
    }
    (!cuts.is_empty()).then_some(cut)
}

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
    // With each launch waited for, the call that raises is the one that failed.
    let blocking =
        Variation { env: [("CUDA_LAUNCH_BLOCKING".to_owned(), Some("1".to_owned()))].into(), ..Variation::default() };
    let place = Place { variation: blocking, mode: None };
    let mut failure = None;
    let entries = work.entries.clone();
    if entries.is_empty() {
        let outcomes = work.drive(&start, 1, |driver| {
            let mut outcomes = Vec::new();
            for _ in 0..AGREE {
                let read = &mut |aim: &Aim, outcome: &Outcome| aim.read(outcome, Others::SayNothing);
                let (answer, outcome) =
                    driver.run_once("launches", "blocking", "every launch waited for", &place, read)?;
                let failed = answer == Answer::Fails;
                outcomes.push((answer, outcome));
                if failed {
                    break;
                }
            }
            Ok(outcomes)
        })?;
        failure = outcomes.into_iter().find(|(answer, _)| *answer == Answer::Fails).map(|(_, outcome)| outcome);
    }
    if let Some(outcome) = failure {
        describe_call(&mut answered, &outcome);
        answered.lines.push("how: one run with every launch waited for; it fails the same way".to_owned());
        answered.found["how"] = json!("blocking");
        answered.neighbours = vec!["blocking".to_owned()];
        return Ok(answered);
    }
    answered.lines.push("waiting for every launch hides it: one synchronisation at a time is put in".to_owned());
    answered.found["how"] = json!("synchronisation");
    let count = count_launches(work, &start)?;
    let mut axis = Launches::new(count, start.aim.clone());
    work.entries.retain(|entry| entry.key != "blocking");
    // Before the first operator nothing can have failed.
    let known: Vec<(usize, Answer)> = vec![(0, Answer::Passes); 12];
    let (_, conclusion, stop) = work.search(&start, &mut axis, &known)?;
    answered.ending = ending(&conclusion, stop);
    match &conclusion {
        Conclusion::Found { first, before, mass } => {
            let launch = first.last().copied().unwrap_or_default();
            let facts = work.shown.get(&axis.key(launch)).map(|shown| shown.facts["other"]["launches"]["at"].clone());
            describe_launch(&mut answered, launch, &facts.unwrap_or_default());
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
        let outcome = work.session.look(&setting, crate::trial::Observe::default())?;
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

/// The failing call as the witness saw it.
fn describe_call(answered: &mut Answered, outcome: &Outcome) {
    let seen = verdict::seen(outcome);
    let failure = seen.and_then(|seen| seen.failure);
    let frames = frames_of(outcome);
    if let Some(failure) = &failure {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_are_cut_in_their_text() {
        let text = "for epoch in range(3):\n    for x in load(\n            1):\n        step(x)\n";
        let cuts = [([2, 13, 3, 14], 7), ([1, 13, 1, 21], 2)];
        let cut = String::from_utf8(cut_text(text.as_bytes(), &cuts).unwrap()).unwrap();
        assert_eq!(
            cut,
            "for epoch in __import__(\"itertools\").islice(range(3), 2, 3):\n    for x in __import__(\"itertools\")\
             .islice(load(\n            1), 7, 8):\n        step(x)\n"
        );
        assert_eq!(cut_text(b"x\n", &[([9, 0, 9, 3], 0)]), None);
    }
}
