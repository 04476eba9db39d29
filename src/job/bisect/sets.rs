//! Bisection over what may be there or not: samples, settings, and packages of two lists.

use serde_json::{Value, json};

use super::start::{self, Start, Ways};
use super::{Answered, Axis, Ending, JobError, SEEN, Work};
use crate::bisect::axes::samples::Samples;
use crate::bisect::axes::settings::Settings;
use crate::bisect::axis::{Ready, Unordered};
use crate::bisect::drive::Sought;
use crate::bisect::log;
use crate::bisect::{Culprits, Empty, Others, Rest, SetOutcome};
use crate::trial::Variation;

/// Which rows.
pub(super) fn samples(work: &mut Work<'_>) -> Result<Answered, JobError> {
    let start = start::look(work, Ready::with(Variation::default()), Ways::Any)?;
    let ground = &work.session.ground;
    let mut axis = Samples::of(&ground.case, &ground.invocation, &start.opened)?;
    // A program without any data fails in its own way, which says nothing.
    let mut culprits = Culprits::new(axis.len(), Empty::Known, Rest::Searched);
    if let Some(outcome) = &start.outcome {
        let all: Vec<usize> = (0..axis.len()).collect();
        axis.suspects(&all, outcome).into_iter().for_each(|set| culprits.suspect(set));
    }
    search(work, &start, &mut axis, culprits)
}

/// Which settings are needed, and which pins hide it.
pub(super) fn settings(work: &mut Work<'_>) -> Result<Answered, JobError> {
    let start = start::look(work, Ready::with(Variation::default()), Ways::AsGiven)?;
    let (needed, hiding) = {
        let ground = &work.session.ground;
        (Settings::of(&ground.case, &ground.invocation, &start.opened), Settings::pins(&ground.invocation))
    };
    let entries = std::mem::take(&mut work.entries);
    // Answers on pins are kept apart in the log by a key that no element has.
    let (pins, own): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry.key.starts_with(PIN));
    work.entries = own;
    let mut needed = needed;
    let mut answered = if needed.is_empty() {
        Answered {
            ending: Ending::Found,
            failure: start.aim.to_string(),
            lines: vec!["the case sets nothing: no variable, option or configuration".to_owned()],
            found: json!({ "sets": [] }),
            neighbours: Vec::new(),
            probability: None,
        }
    } else {
        let count = needed.len();
        search(work, &start, &mut needed, Culprits::new(count, Empty::Asked, Rest::Searched))?
    };
    if answered.ending == Ending::Found {
        hides(work, &start, hiding, &pins, &mut answered)?;
    }
    Ok(answered)
}

/// Mark of answers on pins in a log.
const PIN: &str = "pins:";

/// The pins, with keys that are not those of the elements of the case.
struct Pins(Settings);

impl Unordered for Pins {
    fn name(&self) -> &'static str {
        "settings"
    }
    fn key(&self, elements: &[usize]) -> String {
        format!("{PIN}{}", log::ranges(elements))
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn label(&self, element: usize) -> String {
        self.0.label(element)
    }
    fn prepare(&mut self, elements: &[usize]) -> Result<Ready, crate::bisect::axis::AxisError> {
        self.0.prepare(elements)
    }
    /// A pin that makes the program fail otherwise hides nothing.
    fn others(&self) -> Others {
        Others::SayNothing
    }
}

/// Which pins make the failure go away: all of them are tried first, and where that hides nothing, nothing does.
fn hides(
    work: &mut Work<'_>,
    start: &Start,
    pins: Settings,
    entries: &[log::Entry],
    answered: &mut Answered,
) -> Result<(), JobError> {
    if work.shown.values().any(|shown| shown.counts[0] > 0 && shown.counts[1] > 0) {
        answered
            .lines
            .push("what hides it was not tried: it comes and goes, so that a run without it says little".to_owned());
        return Ok(());
    }
    let mut axis = Pins(pins);
    let mut culprits = Culprits::new(axis.len(), Empty::Known, Rest::Left);
    culprits.set_patience(1);
    let outcome = work.drive(start, 1, |driver| {
        driver.replay_set(entries, &axis, &mut culprits, Sought::Absence)?;
        driver.unordered(&mut axis, &mut culprits, Sought::Absence)
    })?;
    let sets: Vec<Vec<String>> = match outcome {
        Ok(SetOutcome::Found(found)) => named(&axis, &found.sets),
        Ok(SetOutcome::NoAnswer) => {
            answered.lines.push(
                "what hides it is not known: with all of the pins it fails otherwise, or does not end".to_owned(),
            );
            return Ok(());
        }
        Ok(_) => Vec::new(),
        Err(stop) => {
            answered.ending = Ending::Limit(stop);
            return Ok(());
        }
    };
    match sets.first() {
        Some(set) => answered.lines.push(format!("hidden by: {}", set.join(" + "))),
        None => answered
            .lines
            .push("hidden by none of the pins (blocking launches, seed, workers, determinism, ...)".into()),
    }
    answered.found["hidden_by"] = json!(sets);
    Ok(())
}

fn named(axis: &dyn Unordered, sets: &[Vec<usize>]) -> Vec<Vec<String>> {
    sets.iter().map(|set| set.iter().map(|element| axis.label(*element)).collect()).collect()
}

/// The common way of a set.
pub(super) fn search(
    work: &mut Work<'_>,
    start: &Start,
    axis: &mut dyn Unordered,
    mut culprits: Culprits,
) -> Result<Answered, JobError> {
    let count = axis.len();
    work.session.say("bisect", &format!("{count} elements of {}", axis.name()));
    let all: Vec<usize> = (0..count).collect();
    let entries = std::mem::take(&mut work.entries);
    let outcome = work.drive(start, 1, |driver| {
        driver.replay_set(&entries, axis, &mut culprits, Sought::Failure)?;
        if entries.is_empty() {
            for answer in &start.answers {
                driver.log.append(&axis.key(&all), *answer, SEEN)?;
                culprits.mark(&all, *answer);
            }
        }
        driver.unordered(axis, &mut culprits, Sought::Failure)
    })?;
    let mut answered = Answered {
        ending: Ending::Found,
        failure: start.aim.to_string(),
        lines: Vec::new(),
        found: json!({ "elements": count, "questions": culprits.tallies().len() }),
        neighbours: Vec::new(),
        probability: None,
    };
    match outcome {
        Ok(SetOutcome::Found(found)) => {
            let sets = named(axis, &found.sets);
            answered.lines = lines(work.ask.axis, &sets);
            answered.found["sets"] = json!(sets);
            answered.neighbours = neighbours(axis, &culprits, &found.sets);
            let part = culprits.tallies().values().filter(|tally| tally.0 > 0 && tally.1 > 0).count();
            answered.lines.push(if part == 0 {
                "how sure: each set failed alone, and no set that failed ever passed".to_owned()
            } else {
                "how sure: each set failed alone; the failure comes and goes, so an element may be named too many"
                    .to_owned()
            });
        }
        Ok(SetOutcome::NoneFails) => {
            answered.lines.push("it fails without any of them: none is needed".to_owned());
            answered.found["sets"] = Value::Array(Vec::new());
            answered.neighbours = vec![axis.key(&[])];
        }
        Ok(SetOutcome::AllPass) => {
            answered.ending = Ending::NotReproduced;
            answered.lines.push("with all of them it does not fail".to_owned());
        }
        Ok(SetOutcome::NoAnswer) => {
            answered.ending = Ending::Broken;
            answered.lines.push("with all of them it cannot be run".to_owned());
        }
        Ok(SetOutcome::Unsteady(set)) => {
            answered.ending = Ending::Unsteady;
            answered.lines.push(format!(
                "the failure comes and goes too much: each of these was needed, but alone they were not seen to fail: {}",
                crate::bisect::drive::label_of(axis, &set)
            ));
        }
        Err(stop) => {
            answered.ending = Ending::Limit(stop);
            let smallest = culprits.tallies().iter().filter(|(_, tally)| tally.0 > 0).min_by_key(|(set, _)| set.len());
            if let Some((set, _)) = smallest {
                let label = crate::bisect::drive::label_of(axis, set);
                answered.lines.push(format!("not decided; the smallest set that failed: {label}"));
                answered.found["smallest"] = json!(set.iter().take(50).map(|at| axis.label(*at)).collect::<Vec<_>>());
            }
        }
    }
    Ok(answered)
}

fn lines(axis: Axis, sets: &[Vec<String>]) -> Vec<String> {
    let what = match axis {
        Axis::Samples => "bad",
        Axis::Packages => "guilty",
        _ => "needed",
    };
    let mut lines = Vec::new();
    for set in sets {
        match set.as_slice() {
            [one] => lines.push(format!("{what}: {one}")),
            many => lines.push(format!("{what} together: {}", many.join(" + "))),
        }
    }
    if sets.len() > 1 {
        lines.push(format!("each of these {} is enough alone", sets.len()));
    }
    lines
}

/// The first set alone, and the largest of its parts, or of the rest, that was seen to pass.
fn neighbours(axis: &dyn Unordered, culprits: &Culprits, sets: &[Vec<usize>]) -> Vec<String> {
    let Some(set) = sets.first() else { return Vec::new() };
    let passing = culprits
        .tallies()
        .iter()
        .filter(|(probe, tally)| tally.1 > 0 && !set.iter().all(|element| probe.contains(element)))
        .max_by_key(|(probe, _)| probe.len());
    passing.map(|(probe, _)| axis.key(probe)).into_iter().chain([axis.key(set)]).collect()
}
