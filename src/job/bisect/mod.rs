//! Bisection as a job: the failure is seen at the failing end, an axis is opened, its machine is driven, and the answer is
//! written down.
//!
//! Invariant: what is reported was shown by runs of both sides; the log on disk holds every answer before it counts.

mod files;
mod launches;
mod report;
mod sets;
mod start;
mod steps;
mod versions;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::Value;

use self::start::Start;
use super::error::JobError;
use super::session::{Observer, Session};
use super::{Existing, Happening, Options, identity, new_ledger, replace};
use crate::bisect::axes::commits;
use crate::bisect::axis::{AxisError, Ordered};
use crate::bisect::drive::{Driver, Shown};
use crate::bisect::log::{Entry, Log, LogError};
use crate::bisect::{Answer, Bisector, Conclusion, Options as Search, Trouble};
use crate::candidate::Candidate;
use crate::environment::Surroundings;
use crate::evidence::Ground;
use crate::ledger::{Ledger, Record};
use crate::oracle::{OracleError, Stop};
use crate::program::SourceTree;

/// What is bisected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Kernel launches of one run.
    Launches,
    /// Steps of the training loop.
    Steps,
    /// Rows of the data.
    Samples,
    /// Commits of the repository.
    Commits,
    /// Versions of packages.
    Packages,
    /// Variables, arguments, configuration and pins.
    Settings,
}

impl Axis {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Launches, Self::Steps, Self::Samples, Self::Commits, Self::Packages, Self::Settings];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Launches => "launches",
            Self::Steps => "steps",
            Self::Samples => "samples",
            Self::Commits => "commits",
            Self::Packages => "packages",
            Self::Settings => "settings",
        }
    }
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Ask {
    /// What is bisected.
    pub axis: Axis,
    /// The end that passes: a revision, `PACKAGE==VERSION` or a list of packages.
    pub good: Option<String>,
    /// The end that fails.
    pub bad: Option<String>,
    /// Whether the change is searched that broke it or the one that mended it.
    pub sought: commits::Change,
    /// Which parents of merges are followed.
    pub parents: commits::Parents,
    /// Only commits that touch these.
    pub paths: Vec<String>,
    /// The log; none: in the bundle folder.
    pub log: Option<PathBuf>,
    /// Where environments and checkouts are kept, and what is on `PATH`.
    pub surroundings: Surroundings,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The answer is there.
    Found,
    /// A limit ended it: what is likely is named.
    Limit(Stop),
    /// The failing end does not fail.
    NotReproduced,
    /// The passing end fails as well.
    GoodFails,
    /// An end cannot be run.
    Broken,
    /// It comes and goes too much to decide.
    Unsteady,
}

/// The result of a bisection.
#[derive(Clone, Debug)]
pub struct Bisected {
    /// How it ended.
    pub ending: Ending,
    /// The folder of log, ledger and report.
    pub out: PathBuf,
    /// The answer for people, a line each.
    pub lines: Vec<String>,
    /// `report.json`.
    pub report: Value,
}

/// Bisects, and writes log and report.
///
/// # Errors
/// When there is nothing to bisect or something of ours fails; a limit or an interruption is an ending, not an error.
pub fn run(ground: Ground, options: Options, ask: &Ask, observer: Observer<'_>) -> Result<Bisected, JobError> {
    let begun = Instant::now();
    let out =
        std::path::absolute(&options.out).map_err(|source| JobError::File { path: options.out.clone(), source })?;
    let options = Options { out: out.clone(), ..options };
    let (ledger, log, entries) = open(&ground, &options, ask)?;
    let resumed = options.existing == Existing::Resume;
    let session = Session::open(ground, options, ledger, begun, observer)?;
    let mut work = Work { session, ask, log, entries, shown: BTreeMap::new(), out, failure: String::new() };
    let answer = match ask.axis {
        Axis::Commits => versions::commits(&mut work),
        Axis::Packages => versions::packages(&mut work),
        Axis::Samples => sets::samples(&mut work),
        Axis::Settings => sets::settings(&mut work),
        Axis::Steps => steps::steps(&mut work),
        Axis::Launches => launches::launches(&mut work),
    };
    let answer = match answer {
        Err(JobError::Oracle(OracleError::Stopped(stop))) if work.log.is_empty() && !resumed => {
            Err(JobError::Early { stop })
        }
        Err(JobError::Oracle(OracleError::Stopped(stop))) => Ok(Answered {
            ending: Ending::Limit(stop),
            failure: work.failure.clone(),
            lines: vec!["not decided: it ended before there was anything to choose from".to_owned()],
            found: serde_json::json!({}),
            neighbours: Vec::new(),
            probability: None,
        }),
        other => other,
    };
    match answer {
        Ok(answer) => report::write(&mut work, answer, begun.elapsed().as_secs_f64()),
        Err(error) => {
            if work.log.is_empty() && !resumed {
                let _gone = fs::remove_file(log_path(&work.out, ask));
                super::leave(&work.out);
            }
            Err(error)
        }
    }
}

fn log_path(out: &Path, ask: &Ask) -> PathBuf {
    ask.log.clone().unwrap_or_else(|| out.join("log"))
}

/// A bisection on its way.
struct Work<'a> {
    session: Session<'a>,
    ask: &'a Ask,
    log: Log,
    /// Answers of an earlier run.
    entries: Vec<Entry>,
    shown: BTreeMap<String, Shown>,
    out: PathBuf,
    /// The failure that is followed, once it was seen.
    failure: String,
}

/// What a bisection found, before it is written down.
struct Answered {
    ending: Ending,
    /// The failure.
    failure: String,
    /// In words, a line each.
    lines: Vec<String>,
    /// What the axis found, for programs.
    found: Value,
    /// Keys of the runs to show: the last that passes and the first that fails.
    neighbours: Vec<String>,
    /// Probability that the answer is right, where one is known.
    probability: Option<f64>,
}

/// An answer that is there before the search.
struct Known {
    point: usize,
    answer: Answer,
    /// Why, for the log; none where it stands there already.
    why: Option<&'static str>,
}

impl Known {
    /// A run of the failing end.
    fn seen(point: usize, answer: Answer) -> Self {
        Self { point, answer, why: Some(SEEN) }
    }
}

/// What the log says of runs of the failing end.
const SEEN: &str = "seen before the search";

impl Work<'_> {
    /// What was cut off by an interruption is no error of its own.
    fn unless_stopped<T>(&mut self, made: Result<T, AxisError>) -> Result<T, JobError> {
        self.session.oracle.check_bounds()?;
        Ok(made?)
    }

    /// Drives the machine of an ordered axis, after what was seen already.
    fn search(
        &mut self,
        start: &Start,
        axis: &mut dyn Ordered,
        known: &[Known],
    ) -> Result<(Bisector, Conclusion, Option<Stop>), JobError> {
        let mut bisector = Bisector::new(axis.order(), Search::default());
        // Where a point must be fetched and installed, one that need not be tried costs more than a wait.
        let width = if self.ask.axis == Axis::Packages { 1 } else { self.session.jobs() };
        self.session.say("bisect", &format!("{} points of {}", axis.order().len(), axis.name()));
        let entries = std::mem::take(&mut self.entries);
        let fresh = entries.is_empty();
        let (conclusion, stop) = self.drive(start, width, |driver| {
            driver.replay(&entries, axis, &mut bisector)?;
            if fresh {
                for Known { point, answer, why } in known {
                    if let Some(why) = why {
                        driver.log.append(&axis.key(*point), *answer, why)?;
                    }
                    bisector.mark(*point, *answer);
                }
            }
            driver.ordered(axis, &mut bisector)
        })?;
        Ok((bisector, conclusion, stop))
    }

    /// Hands a driver to a machine.
    fn drive<T>(
        &mut self,
        start: &Start,
        width: usize,
        act: impl FnOnce(&mut Driver<'_>) -> Result<T, crate::bisect::drive::DriveError>,
    ) -> Result<T, JobError> {
        let observer = &mut self.session.observer;
        let mut watch = |turn: crate::bisect::drive::Turn<'_>| observer(Happening::Bisect(turn));
        let mut driver = Driver {
            oracle: &mut self.session.oracle,
            aim: start.aim.clone(),
            setting: start.setting.clone(),
            candidate: Candidate::new(SourceTree::default()),
            width,
            log: &mut self.log,
            watch: &mut watch,
            shown: std::mem::take(&mut self.shown),
            losses: 0,
        };
        let result = act(&mut driver);
        self.shown = std::mem::take(&mut driver.shown);
        result.map_err(JobError::from)
    }
}

/// The folder, its ledger and its log, new or gone on with.
fn open(ground: &Ground, options: &Options, ask: &Ask) -> Result<(Ledger, Log, Vec<Entry>), JobError> {
    let out = &options.out;
    let (ledger_path, log_path) = (out.join("ledger.jsonl"), log_path(out, ask));
    let case = format!(
        "{}-{:?}-{:?}-{:?}-{:?}-{:?}-{:?}",
        identity(ground, options),
        ask.axis,
        ask.good,
        ask.bad,
        ask.sought,
        ask.parents,
        ask.paths
    );
    let occupied = fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some());
    let (ours, logged) = (ledger_path.is_file(), log_path.is_file());
    match options.existing {
        Existing::Refuse if occupied => return Err(JobError::Occupied { out: out.clone() }),
        Existing::Refuse if logged => return Err(JobError::Occupied { out: log_path }),
        Existing::Replace | Existing::Resume if occupied && !ours => {
            return Err(JobError::NotABundle { out: out.clone() });
        }
        Existing::Resume if ours || logged => {
            let resumed = if ours { Some(Ledger::resume(&ledger_path, &case)?) } else { None };
            // A kill may have come before the log.
            let (log, entries) =
                if logged { Log::resume(&log_path)? } else { (begin_log(&log_path, ask)?, Vec::new()) };
            let ledger = resumed.map_or_else(|| new_ledger(out, &case), Ok)?;
            return Ok((ledger, log, entries));
        }
        _ => {}
    }
    let apart = ask.log.as_ref().and_then(|log| log.parent()).filter(|folder| !folder.as_os_str().is_empty());
    if apart.is_some_and(|folder| !folder.is_dir()) {
        return Err(LogError::File { path: log_path, source: std::io::Error::other("its folder is not there") }.into());
    }
    let begin = || new_ledger(out, &case);
    let ledger = if occupied { replace(out, begin)? } else { begin()? };
    let log = begin_log(&log_path, ask).inspect_err(|_| super::leave(out))?;
    Ok((ledger, log, Vec::new()))
}

fn begin_log(path: &Path, ask: &Ask) -> Result<Log, JobError> {
    let heading = format!(
        "reduce bisect {}: one answer a line, `fails`, `passes` or `skip`, and what was run\n\
         edit it and go on from it with `--resume`",
        ask.axis.name()
    );
    Ok(Log::create(path, &heading)?)
}

/// The ending that a conclusion is.
fn ending(conclusion: &Conclusion, stop: Option<Stop>) -> Ending {
    match (conclusion, stop) {
        (_, Some(stop)) => Ending::Limit(stop),
        (Conclusion::Found { .. }, None) => Ending::Found,
        (Conclusion::Among { .. }, None) => Ending::Unsteady,
        (Conclusion::Nothing(trouble), None) => match trouble {
            Trouble::FailingEndPasses => Ending::NotReproduced,
            Trouble::PassingEndFails => Ending::GoodFails,
            Trouble::FailingEndBroken | Trouble::PassingEndBroken => Ending::Broken,
        },
    }
}

/// Keeps what a resumed run needs to know without running anything again.
fn remember(session: &mut Session<'_>, evidence: Value) -> Result<(), JobError> {
    session.oracle.ledger_mut().append(Record::Evidence { evidence })?;
    Ok(())
}

/// A path relative to where the case lies, where it is not absolute.
fn beside(ground: &Ground, path: &str) -> PathBuf {
    let typed = Path::new(path);
    if typed.is_file() { typed.to_path_buf() } else { ground.case.folder.join(path) }
}
