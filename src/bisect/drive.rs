//! Drives the machines against the oracle: prepares points, runs them, and takes what they say.
//!
//! Invariant: an answer is in the log before the machine knows of it; answers are taken in the order of the questions.
//! It decides neither what to ask nor what a failure is.

use std::collections::BTreeMap;
use std::fs;

use super::Point;
use super::answer::{Aim, Answer};
use super::axis::{AxisError, Ordered, Place, Ready, Unordered};
use super::bisector::{Bisector, Conclusion, Step};
use super::culprits::{Culprits, Next, Outcome as SetOutcome};
use super::log::{self, Entry, Log, LogError};
use crate::candidate::Candidate;
use crate::oracle::{Look, Oracle, OracleError, Question, Setting, Stop};
use crate::trial::{Observe, Outcome, TrialEnd};

/// Lines of output that are kept of a run.
const KEPT_LINES: usize = 12;
/// Runs that may be lost on our side before a lost run counts as a point that cannot be run.
const MOST_LOSSES: u32 = 5;
/// Positions of the drawing of a posterior.
const BINS: usize = 48;

/// Why a bisection ends without a conclusion.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The oracle failed.
    #[error(transparent)]
    Oracle(#[from] OracleError),
    /// The axis failed.
    #[error(transparent)]
    Axis(#[from] AxisError),
    /// The log failed.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// What happens, for those who watch.
pub enum Turn<'a> {
    /// A point was run, or could not be.
    Ran {
        /// What a person calls it.
        label: &'a str,
        /// What it said.
        answer: Answer,
        /// In words.
        why: &'a str,
        /// Runs so far.
        runs: u64,
    },
    /// What the answers so far say.
    Posterior {
        /// Probability along the axis, from the passing end to the failing end, in equal parts.
        bins: Vec<f64>,
        /// The likeliest change.
        favourite: String,
        /// Its probability.
        mass: f64,
        /// Changes that are still likely.
        left: usize,
    },
}

/// What a point showed, for the report.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// What a person calls it.
    pub label: String,
    /// Failures, passes and runs without an answer.
    pub counts: [u32; 3],
    /// The last words of a run that failed.
    pub fails: Option<String>,
    /// The last words of a run that passed.
    pub passes: Option<String>,
    /// Why there was no answer.
    pub skip: Option<String>,
    /// What the harness said of the last run that failed.
    pub facts: serde_json::Value,
}

/// What a machine is driven with.
pub struct Driver<'a> {
    /// Who is asked.
    pub oracle: &'a mut Oracle,
    /// The failure that is followed.
    pub aim: Aim,
    /// How points are run, where they do not say otherwise.
    pub setting: Setting,
    /// What is run.
    pub candidate: Candidate,
    /// Runs at once.
    pub width: usize,
    /// Where answers are written.
    pub log: &'a mut Log,
    /// Who is told.
    pub watch: &'a mut dyn FnMut(Turn<'_>),
    /// What each point showed, by its key.
    pub shown: BTreeMap<String, Shown>,
    /// Runs that were lost on our side.
    pub losses: u32,
}

/// Whether the failure or its absence is searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sought {
    /// What the failure needs.
    Failure,
    /// What hides it.
    Absence,
}

impl Driver<'_> {
    /// Takes the answers of a log.
    ///
    /// # Errors
    /// When a line names no point of the axis.
    pub fn replay(&mut self, entries: &[Entry], axis: &dyn Ordered, bisector: &mut Bisector) -> Result<(), DriveError> {
        let points: BTreeMap<String, Point> =
            (0..bisector.order().len()).map(|point| (axis.key(point), point)).collect();
        for entry in entries {
            let Some(point) = points.get(&entry.key).copied().or_else(|| axis.find(&entry.key)) else {
                let reason = format!("`{}` is not on this axis", entry.key);
                return Err(self.log.refuse(entry, reason).into());
            };
            bisector.mark(point, entry.answer);
            self.note(&axis.key(point), axis.label(point), entry.answer, "from the log", None);
        }
        Ok(())
    }

    /// Searches an order to its end, or until a limit ends it.
    ///
    /// # Errors
    /// When something of ours fails; a limit is no error.
    pub fn ordered(
        &mut self,
        axis: &mut dyn Ordered,
        bisector: &mut Bisector,
    ) -> Result<(Conclusion, Option<Stop>), DriveError> {
        loop {
            (0..bisector.order().len()).for_each(|point| bisector.set_cost(point, axis.cost(point)));
            let points = match bisector.step(self.width) {
                Step::Done(conclusion) => return Ok((conclusion, None)),
                Step::Ask(points) => points,
            };
            match self.batch(axis, bisector, &points) {
                Ok(()) => self.tell(axis, bisector),
                Err(DriveError::Oracle(OracleError::Stopped(stop))) => return Ok((bisector.conclude(), Some(stop))),
                Err(error) => return Err(error),
            }
        }
    }

    fn batch(&mut self, axis: &mut dyn Ordered, bisector: &mut Bisector, points: &[Point]) -> Result<(), DriveError> {
        self.oracle.check_bounds()?;
        let mut ready: BTreeMap<Point, Ready> = BTreeMap::new();
        for point in points {
            if !ready.contains_key(point) {
                let prepared = axis.prepare(*point);
                // What was cut off by an interruption says nothing of the point.
                self.oracle.check_bounds()?;
                ready.insert(*point, prepared?);
            }
        }
        let mut looks = Vec::new();
        let mut run = Vec::new();
        for point in points {
            match ready.get(point) {
                Some(Ready::Run(place)) => {
                    looks.push(self.look(axis.name(), &axis.key(*point), &axis.label(*point), place));
                    run.push(*point);
                }
                Some(Ready::Skip(why)) => {
                    self.take(&axis.key(*point), axis.label(*point), Answer::Skip, why, None)?;
                    bisector.mark(*point, Answer::Skip);
                    ready.remove(point);
                }
                None => {}
            }
        }
        let seen = self.oracle.observe_many(&looks, self.width)?;
        for (point, (outcome, _)) in run.into_iter().zip(seen) {
            let (answer, why) = match axis.read(point, &outcome) {
                Some(known) => known,
                None => self.aim.read(&outcome, axis.others()),
            };
            self.take(&axis.key(point), axis.label(point), answer, &why, Some(&outcome))?;
            if !self.lost(&outcome, answer) {
                bisector.mark(point, answer);
            }
        }
        Ok(())
    }

    /// Searches a set to its end, or until a limit ends it.
    ///
    /// # Errors
    /// When something of ours fails.
    pub fn unordered(
        &mut self,
        axis: &mut dyn Unordered,
        culprits: &mut Culprits,
        sought: Sought,
    ) -> Result<Result<SetOutcome, Stop>, DriveError> {
        loop {
            let probe = match culprits.step() {
                Next::Done(outcome) => return Ok(Ok(outcome)),
                Next::Ask(probe) => probe,
            };
            let key = axis.key(&probe);
            let label = label_of(axis, &probe);
            let prepared = axis.prepare(&probe);
            match self.oracle.check_bounds() {
                Ok(()) => {}
                Err(OracleError::Stopped(stop)) => return Ok(Err(stop)),
                Err(error) => return Err(error.into()),
            }
            let place = match prepared? {
                Ready::Run(place) => place,
                Ready::Skip(why) => {
                    self.take(&key, label, Answer::Skip, &why, None)?;
                    culprits.mark(&probe, Answer::Skip);
                    continue;
                }
            };
            let look = self.look(axis.name(), &key, &label, &place);
            let outcome = match self.oracle.observe(&look) {
                Ok((outcome, _)) => outcome,
                Err(OracleError::Stopped(stop)) => return Ok(Err(stop)),
                Err(error) => return Err(error.into()),
            };
            let (answer, why) = self.aim.read(&outcome, axis.others());
            if answer == Answer::Fails && sought == Sought::Failure {
                axis.suspects(&probe, &outcome).into_iter().for_each(|set| culprits.suspect(set));
            }
            self.take(&key, label, answer, &why, Some(&outcome))?;
            if !self.lost(&outcome, answer) {
                culprits.mark(&probe, sought.answer(answer));
            }
        }
    }

    /// Takes the answers of a log of a set.
    ///
    /// # Errors
    /// When a line names no elements.
    pub fn replay_set(
        &mut self,
        entries: &[Entry],
        axis: &dyn Unordered,
        culprits: &mut Culprits,
        sought: Sought,
    ) -> Result<(), DriveError> {
        for entry in entries {
            // A key may have a mark of its axis in front.
            let numbers = entry.key.rsplit(':').next().unwrap_or_default();
            let Some(probe) = log::elements(numbers, axis.len()) else {
                let reason = format!("`{}` names no elements of 1 to {}", entry.key, axis.len());
                return Err(self.log.refuse(entry, reason).into());
            };
            culprits.mark(&probe, sought.answer(entry.answer));
            self.note(&entry.key, label_of(axis, &probe), entry.answer, "from the log", None);
        }
        Ok(())
    }

    /// One run outside of a machine, with its answer in the log.
    ///
    /// # Errors
    /// When the oracle or the log fails.
    pub fn run_once(
        &mut self,
        axis: &'static str,
        key: &str,
        label: &str,
        place: &Place,
        read: &mut dyn FnMut(&Aim, &Outcome) -> (Answer, String),
    ) -> Result<(Answer, Outcome), DriveError> {
        let look = self.look(axis, key, label, place);
        let (outcome, _) = self.oracle.observe(&look)?;
        let (answer, why) = read(&self.aim, &outcome);
        self.take(key, label.to_owned(), answer, &why, Some(&outcome))?;
        Ok((answer, outcome))
    }

    /// A run that was lost on our side says nothing of the point and is asked again, a few times.
    fn lost(&mut self, outcome: &Outcome, answer: Answer) -> bool {
        let lost = answer == Answer::Skip && matches!(outcome.end, TrialEnd::Lost | TrialEnd::Dropped);
        self.losses += u32::from(lost);
        lost && self.losses <= MOST_LOSSES
    }

    fn look(&self, axis: &'static str, key: &str, label: &str, place: &Place) -> Look {
        let setting = Setting {
            name: format!("{axis} {key}"),
            mode: place.mode.unwrap_or(self.setting.mode),
            variation: place.variation.clone(),
            ..self.setting.clone()
        };
        Look {
            question: Question {
                candidate: self.candidate.clone(),
                size: (0, 0),
                phase: "bisect",
                pass: axis.to_owned(),
                what: label.to_owned(),
            },
            setting,
            observe: Observe::default(),
            target: None,
            watch: None,
            in_place: true,
        }
    }

    fn take(
        &mut self,
        key: &str,
        label: String,
        answer: Answer,
        why: &str,
        outcome: Option<&Outcome>,
    ) -> Result<(), DriveError> {
        self.log.append(key, answer, &format!("{label}: {why}"))?;
        self.note(key, label.clone(), answer, why, outcome);
        let runs = self.oracle.runs();
        (self.watch)(Turn::Ran { label: &label, answer, why, runs });
        if let Some(outcome) = outcome {
            let _gone = fs::remove_dir_all(&outcome.scratch);
        }
        Ok(())
    }

    fn note(&mut self, key: &str, label: String, answer: Answer, why: &str, outcome: Option<&Outcome>) {
        let shown = self.shown.entry(key.to_owned()).or_default();
        shown.label = label;
        let words = outcome.map(last_words).filter(|words| !words.is_empty()).unwrap_or_else(|| why.to_owned());
        match answer {
            Answer::Fails => {
                shown.counts[0] += 1;
                shown.fails = Some(words);
                if let Some(report) = outcome.and_then(|outcome| outcome.report.as_ref()) {
                    shown.facts = serde_json::json!({ "failure": report.failure, "other": report.other });
                }
            }
            Answer::Passes => {
                shown.counts[1] += 1;
                shown.passes = Some(words);
            }
            Answer::Skip => {
                shown.counts[2] += 1;
                shown.skip = Some(why.to_owned());
            }
        }
    }

    fn tell(&mut self, axis: &dyn Ordered, bisector: &Bisector) {
        let belief = bisector.belief();
        let points = belief.weight.len().saturating_sub(1).max(1);
        let mut bins = vec![0.0; BINS.min(points)];
        let count = bins.len();
        let mut sizes = vec![0.0_f64; count];
        let mut best = (0, 0.0);
        for (change, weight) in belief.weight.iter().enumerate().skip(1) {
            bins[(change - 1) * count / points] += weight;
            sizes[(change - 1) * count / points] += 1.0;
            if *weight > best.1 {
                best = (change, *weight);
            }
        }
        // Parts of unequal length are drawn by their density.
        bins.iter_mut().zip(&sizes).for_each(|(bin, size)| *bin *= points as f64 / count as f64 / size.max(1.0));
        let left = belief.weight.iter().filter(|weight| **weight > 0.005).count();
        (self.watch)(Turn::Posterior { bins, favourite: axis.label(best.0), mass: best.1, left });
    }
}

impl Sought {
    fn answer(self, answer: Answer) -> Answer {
        match (self, answer) {
            (Self::Absence, Answer::Fails) => Answer::Passes,
            (Self::Absence, Answer::Passes) => Answer::Fails,
            _ => answer,
        }
    }
}

/// A few elements by name, many by number.
pub fn label_of(axis: &dyn Unordered, elements: &[usize]) -> String {
    match elements {
        [] => "none".to_owned(),
        few if few.len() <= 4 => few.iter().map(|element| axis.label(*element)).collect::<Vec<_>>().join(" + "),
        many if many.len() == axis.len() => format!("all {}", many.len()),
        many => format!("{} of {}", many.len(), axis.len()),
    }
}

/// The end of what a run printed.
fn last_words(outcome: &Outcome) -> String {
    let text = if outcome.stderr.trim().is_empty() { &outcome.stdout } else { &outcome.stderr };
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(KEPT_LINES)..].join("\n")
}
