//! Bisection over the steps of the training loop: which fails, and how much of its history it needs.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::super::{PlainEnd, preflight};
use super::start::{self, Start, Ways};
use super::{Answered, Ending, JobError, Known, Work, ending};
use crate::bisect::axes::steps::{self, Counted, History};
use crate::bisect::axis::{AxisError, Ordered, Place, Ready};
use crate::bisect::{Aim, Answer, Conclusion, Others};
use crate::oracle::Setting;
use crate::trial::{Outcome, Variation};

/// Runs that must agree before a single setting is believed.
const AGREE: usize = 3;

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
    let passes = work.shown.get(&history.key(0)).map_or(0, |shown| shown.counts[1]);
    let mut known = vec![Known::seen(last, Answer::Fails)];
    known.extend((0..passes).map(|_| Known { point: 0, answer: Answer::Passes, why: None }));
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
    let seen = last.as_ref().map_or_else(String::new, preflight::describe);
    let end = last.as_ref().map_or(PlainEnd::Error, preflight::plain_end);
    Err(JobError::NotReproduced { seen: format!("{seen} (with its steps counted)"), end })
}

/// Whether the failing step alone fails.
fn alone(work: &mut Work<'_>, start: &Start, history: &mut History) -> Result<bool, JobError> {
    let Ready::Run(place) = history.prepare(0)? else { return Ok(false) };
    let (key, label) = (history.key(0), history.label(0));
    let said: Vec<Answer> = work.entries.iter().filter(|entry| entry.key == key).map(|entry| entry.answer).collect();
    if said.contains(&Answer::Fails) || said.len() >= AGREE {
        return Ok(said.contains(&Answer::Fails));
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
    answered.found["cut"] = json!(format!("cut/{file}"));
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
