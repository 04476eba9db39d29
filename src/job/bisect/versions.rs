//! Bisection over what the program is run with: commits, and versions of packages.

use serde_json::json;

use super::start::{self, Ways};
use super::{Answered, Axis, Ending, JobError, Known, Work, beside, ending};
use crate::bisect::axes::commits::{Change, Commits, Range};
use crate::bisect::axes::locks::Locks;
use crate::bisect::axes::packages::{Versions, canonical, pinned};
use crate::bisect::axis::{AxisError, Ordered, Unordered};
use crate::bisect::{Bisector, Conclusion, Culprits, Empty, Rest};
use crate::environment::{self, Notice};

/// Which commit.
pub(super) fn commits(work: &mut Work<'_>) -> Result<Answered, JobError> {
    let range = Range {
        good: work.ask.good.clone(),
        bad: work.ask.bad.clone(),
        paths: work.ask.paths.clone(),
        parents: work.ask.parents,
        sought: work.ask.sought,
    };
    let width = work.session.jobs();
    let mut axis = Commits::open(
        &work.session.ground.invocation,
        &range,
        &work.ask.surroundings,
        work.session.scratch.path(),
        width,
    )?;
    let last = axis.order().len() - 1;
    let end = axis.prepare(last);
    let end = work.unless_stopped(end)?;
    let start = start::look(work, end, Ways::Any)?;
    ordered(work, &start, &mut axis)
}

/// Which version, or which packages of two lists.
pub(super) fn packages(work: &mut Work<'_>) -> Result<Answered, JobError> {
    let ask = work.ask;
    let mut notices: Vec<String> = Vec::new();
    let mut notice = |notice: Notice| notices.push(notice.to_string());
    let named = |text: &Option<String>| text.as_deref().and_then(pinned).map(|(a, b)| (a.to_owned(), b.to_owned()));
    let (good, bad) = (named(&ask.good), named(&ask.bad));
    let python = work.session.ground.python.clone();
    let name = good.as_ref().or(bad.as_ref()).map(|(name, _)| name.clone());
    let Some(name) = name else { return locks(work, &mut notice) };
    let current = || -> Result<String, AxisError> {
        let all = environment::installed(&python.executable)?;
        let found = all.into_iter().find(|(other, _)| canonical(other) == canonical(&name));
        found.map(|(_, version)| version).ok_or_else(|| {
            AxisError::wrong(
                format!("{name} is not installed in the environment of the case"),
                format!("name both ends: `--good {name}==VERSION --bad {name}==VERSION`"),
            )
        })
    };
    let version = |end: Option<(String, String)>| match end {
        Some((other, version)) if canonical(&other) == canonical(&name) => Ok(version),
        Some((other, _)) => Err(AxisError::wrong(
            format!("`{other}` and `{name}` are two packages"),
            "for several packages give two lists: `--good old.txt --bad new.txt` (outputs of `pip freeze`)",
        )),
        None => current(),
    };
    let (good, bad) = (version(good)?, version(bad)?);
    work.session.say("preflight", &format!("versions of {name} between {good} and {bad}"));
    let mut axis = Versions::between(&name, &good, &bad, &python, &ask.surroundings, &mut notice)?;
    let last = axis.order().len() - 1;
    let end = axis.prepare(last);
    let end = work.unless_stopped(end)?;
    let start = start::look(work, end, Ways::AsGiven)?;
    let mut answered = ordered(work, &start, &mut axis)?;
    drop(axis);
    answered.found["environments_made"] = json!(notices.len());
    Ok(answered)
}

/// The common way of an ordered axis.
fn ordered(work: &mut Work<'_>, start: &start::Start, axis: &mut dyn Ordered) -> Result<Answered, JobError> {
    let last = axis.order().len() - 1;
    let known: Vec<Known> = start.answers.iter().map(|answer| Known::seen(last, *answer)).collect();
    let (bisector, conclusion, stop) = work.search(start, axis, &known)?;
    Ok(conclude(work, start, axis, &bisector, &conclusion, ending(&conclusion, stop)))
}

fn conclude(
    work: &Work<'_>,
    start: &start::Start,
    axis: &dyn Ordered,
    bisector: &Bisector,
    conclusion: &Conclusion,
    ending: Ending,
) -> Answered {
    let labels = |points: &[usize]| points.iter().map(|point| axis.label(*point)).collect::<Vec<_>>();
    let described = |points: &[usize]| -> serde_json::Value {
        points.iter().map(|point| json!({ "key": axis.key(*point), "label": axis.label(*point) })).collect()
    };
    let mended = work.ask.sought == Change::Mended;
    let points = bisector.tallies().iter().filter(|tally| tally.hits + tally.misses + tally.skips > 0).count();
    let rate = bisector.belief().expected_rate();
    let mut answered = Answered {
        ending,
        failure: start.aim.to_string(),
        lines: Vec::new(),
        found: json!({ "points": bisector.order().len(), "points_tried": points, "rate": rate }),
        neighbours: Vec::new(),
        probability: None,
    };
    match conclusion {
        Conclusion::Found { first, before, mass } => {
            let (change, other) = if mended { (before, first) } else { (first, before) };
            let verb = match (work.ask.axis, mended) {
                (Axis::Commits, false) => "broken by",
                (_, false) => "first fails with",
                (_, true) => "mended by",
            };
            match labels(change).as_slice() {
                [one] => answered.lines.push(format!("{verb}: {one}")),
                many => {
                    answered
                        .lines
                        .push(format!("{verb} one of these {} (those before the last cannot be run):", many.len()));
                    answered.lines.extend(many.iter().map(|label| format!("  {label}")));
                }
            }
            let word = if mended { "fails before" } else { "passes before" };
            answered.lines.extend(labels(other).iter().map(|label| format!("{word}: {label}")));
            answered.lines.push(format!(
                "how sure: {:.1} %; a failing point fails {:.0} % of the time",
                mass * 100.0,
                rate * 100.0
            ));
            answered.found["change"] = described(change);
            answered.found["before"] = described(other);
            answered.neighbours.extend(before.iter().chain(first.last()).map(|point| axis.key(*point)));
            answered.probability = Some(*mass);
        }
        Conclusion::Among { points, mass } => {
            answered
                .lines
                .push(format!("not decided; with {:.0} % it is one of these, the likeliest first:", mass * 100.0));
            answered.lines.extend(labels(points).iter().take(20).map(|label| format!("  {label}")));
            if points.len() > 20 {
                answered.lines.push(format!("  and {} more", points.len() - 20));
            }
            answered.found["among"] = described(points);
            answered.probability = Some(*mass);
        }
        Conclusion::Nothing(_) => {
            let last = bisector.order().len() - 1;
            answered.lines.push(match ending {
                Ending::NotReproduced => format!("the failing end passes: {}", axis.label(last)),
                Ending::GoodFails => format!("the passing end fails as well: {}", axis.label(0)),
                _ => "an end cannot be run".to_owned(),
            });
            answered.neighbours = vec![axis.key(0), axis.key(last)];
        }
    }
    answered
}

/// Which of the differences of two lists.
fn locks(work: &mut Work<'_>, notice: &mut dyn FnMut(Notice)) -> Result<Answered, JobError> {
    let ask = work.ask;
    let (Some(good), Some(bad)) = (&ask.good, &ask.bad) else {
        return Err(AxisError::wrong(
            "bisection over packages needs `--good` with a version, or two lists",
            "`--good numpy==1.23.5` (and `--bad`, else what is installed), or two lists: `--good old.txt --bad new.txt`",
        )
        .into());
    };
    let (good, bad) = (beside(&work.session.ground, good), beside(&work.session.ground, bad));
    let mut made = 0;
    let mut counting = |one: Notice| {
        made += 1;
        notice(one);
    };
    let python = work.session.ground.python.clone();
    let mut axis = Locks::between(&good, &bad, &python, &ask.surroundings, &mut counting)?;
    let all: Vec<usize> = (0..axis.len()).collect();
    let end = axis.prepare(&all);
    let end = work.unless_stopped(end)?;
    let start = start::look(work, end, Ways::AsGiven)?;
    let culprits = Culprits::new(axis.len(), Empty::Asked, Rest::Searched);
    let mut answered = super::sets::search(work, &start, &mut axis, culprits)?;
    drop(axis);
    answered.found["environments_made"] = json!(made);
    Ok(answered)
}
