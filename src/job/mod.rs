//! The main job: preflight, evidence, search, confirmation, bundle.
//!
//! Invariant: nothing is reported that a cold run of the final files did not show, and the folder on disk always
//! reproduces: it is replaced as a whole, only after a `same` verdict.

pub mod bisect;
mod confirm;
mod data;
mod error;
mod explain;
mod first;
mod keep;
mod preflight;
mod session;
mod target;
mod twin;

pub use error::{JobError, PlainEnd};
pub use explain::explain;
pub use preflight::{describe, tail};
pub use twin::{Failing, Sought, twin};

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::bundle::secrets::Private;
use crate::bundle::{self, Bundle, Confirmed, Contents, Outcome as BundleOutcome, repro};
use crate::candidate::Candidate;
use crate::evidence::{Found, Ground};
use crate::ledger::{Hold, Ledger, LedgerError, Record};
use crate::oracle::{Setting, Stop};
use crate::plan::Plan;
use crate::search::drive::{self, Turn};
use crate::search::reducer::{Certify, Reducer};
use crate::search::traced;
use crate::signature::Match;
use crate::trial::{Mode, Observe, Pins, Variation};
use crate::verdict::{self, Seen, Verdict};

use self::first::First;
use self::keep::Best;
use self::session::{Observer, Session};

/// What the command line says beside the case.
#[derive(Clone, Debug)]
pub struct Options {
    /// The bundle folder.
    pub out: PathBuf,
    /// What to do with a bundle that is there already.
    pub existing: Existing,
    /// Trials at once.
    pub jobs: Option<u32>,
    /// How the result is proven minimal.
    pub certify: Certify,
    /// The level at which failures are compared.
    pub level: Option<Match>,
    /// Time for one trial.
    pub timeout: Option<Duration>,
    /// Time for the run.
    pub limit_time: Option<Duration>,
    /// Most trials.
    pub limit_runs: Option<u64>,
    /// Whether trials are kept from writing elsewhere.
    pub sandbox: bool,
    /// What is known of the user's machine, and must not leave it.
    pub private: Private,
    /// The strategy.
    pub plan: Arc<Plan>,
    /// Set by Ctrl-C.
    pub interrupted: Arc<AtomicBool>,
}

/// What to do with a bundle that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Refuse.
    Refuse,
    /// Go on from its ledger.
    Resume,
    /// Replace it.
    Replace,
}

/// What happens, for those who watch.
pub enum Happening<'a> {
    /// A phase begins or goes on.
    Phase {
        /// Its name.
        phase: &'static str,
        /// In words.
        text: &'a str,
    },
    /// Preflight is over.
    Found(&'a Found),
    /// A verdict was adopted.
    Trial {
        /// Phase of the job.
        phase: &'a str,
        /// Pass within the phase.
        pass: &'a str,
        /// What it took away, in words.
        what: &'a str,
        /// The verdict.
        verdict: &'a Verdict,
        /// Trials so far.
        runs: u64,
    },
    /// The first program that fails in the right way is there: the failing call alone.
    Repro {
        /// Its text.
        text: &'a str,
        /// How it was made, in words.
        how: &'a str,
        /// Statements and tokens.
        size: (usize, usize),
        /// Trials so far.
        runs: u64,
    },
    /// A new best.
    Win {
        /// Statements now and at the start.
        statements: (usize, usize),
        /// Tokens now and at the start.
        tokens: (usize, usize),
        /// Phase that found it.
        phase: &'a str,
        /// Pass within the phase.
        pass: &'a str,
        /// Trials so far.
        runs: u64,
    },
    /// Something happened to a bisection.
    Bisect(crate::bisect::drive::Turn<'a>),
    /// A moment passes, with this many trials in flight.
    Tick {
        /// Trials in flight.
        in_flight: usize,
    },
}

/// Runs preflight alone.
///
/// # Errors
/// As preflight.
pub fn check(ground: Ground, options: Options, observer: Observer<'_>) -> Result<Found, JobError> {
    let begun = Instant::now();
    let folder = tempfile::tempdir().map_err(|source| JobError::File { path: std::env::temp_dir(), source })?;
    let ledger = Ledger::create(&folder.path().join("ledger.jsonl"), "check")?;
    let mut session = Session::open(ground, options, ledger, begun, observer)?;
    preflight::run(&mut session).map_err(early)
}

/// Runs the program once in a fresh interpreter, as given, or with the pins of its case.
///
/// # Errors
/// When it does not fail as this tool understands it, or cannot run here.
pub fn first(ground: Ground, options: Options, pinned: bool, observer: Observer<'_>) -> Result<Seen, JobError> {
    let folder = tempfile::tempdir().map_err(|source| JobError::File { path: std::env::temp_dir(), source })?;
    let ledger = Ledger::create(&folder.path().join("ledger.jsonl"), "first")?;
    let mut session = Session::open(ground, options, ledger, Instant::now(), observer)?;
    session.say("run", "the program as given, in a fresh interpreter");
    let pins = if pinned { session.wanted_pins() } else { Pins::NONE };
    let setting = session.setting("as given", Mode::Exec, pins, session.first_timeout());
    let outcome = session.look(&setting, Observe::default()).map_err(early)?;
    verdict::seen(&outcome).ok_or_else(|| preflight::not_reproduced(&outcome))
}

/// A stop while there is nothing to keep yet.
fn early(error: JobError) -> JobError {
    match error {
        JobError::Oracle(crate::oracle::OracleError::Stopped(stop)) => JobError::Early { stop },
        other => other,
    }
}

/// Runs the main job and writes the bundle.
///
/// # Errors
/// When there is nothing to reduce or something of ours fails; a limit or an interruption is an outcome, not an error.
pub fn run(ground: Ground, options: Options, observer: Observer<'_>) -> Result<Bundle, JobError> {
    let begun = Instant::now();
    let out =
        std::path::absolute(&options.out).map_err(|source| JobError::File { path: options.out.clone(), source })?;
    let options = Options { out: out.clone(), ..options };
    let resumes = options.existing == Existing::Resume;
    let ledger = open_ledger(&ground, &options)?;
    if resumes && ledger.trials().next().is_none() {
        observer(Happening::Phase { phase: "resume", text: "there is no earlier run to go on from: starting anew" });
    }
    let evidence = ledger.evidence().cloned().and_then(|value| serde_json::from_value::<Found>(value).ok());
    let mut session = Session::open(ground, options, ledger, begun, observer)?;
    let found = match evidence {
        Some(found) => {
            session.say("resume", "going on from the ledger");
            session.take_sources(&found.sources)?;
            session.check_unchanged()?;
            session.warm_up(&found.modules)?;
            found
        }
        None => {
            let found = match preflight::run(&mut session) {
                Ok(found) => found,
                Err(error) => {
                    leave(&out);
                    return Err(early(error));
                }
            };
            if !found.untried.is_empty() {
                (session.observer)(Happening::Found(&found));
                return as_it_is(&mut session, &found, &out);
            }
            let evidence = serde_json::to_value(&found).unwrap_or_default();
            session.oracle.ledger_mut().append(Record::Evidence { evidence })?;
            found
        }
    };
    (session.observer)(Happening::Found(&found));
    reduce(&mut session, &found, &out)
}

/// Takes back a ledger that says nothing, and the folder with it if nothing else is there.
fn leave(out: &Path) {
    let _gone = fs::remove_file(out.join("ledger.jsonl"));
    let _not_empty = fs::remove_dir(out);
}

/// The bundle of a program that is too long to be searched: the original, and what its one run showed.
fn as_it_is(session: &mut Session<'_>, found: &Found, out: &Path) -> Result<Bundle, JobError> {
    let original = Arc::clone(&session.original);
    let argv = session.ground.invocation.argv.clone();
    let reducer = Reducer::new(
        Arc::clone(&original),
        traced::observed(&original, &found.trace, &found.frames, &argv),
        repro::entry_of(&original, &session.ground.invocation),
        Arc::clone(&session.options.plan),
        session.options.certify,
    );
    let best = Best::new(out, session.ground.invocation.project.clone(), found);
    best.finish(&reducer.best())?;
    session.clean_source(out)?;
    let target = target::aim(&original, found, session.level());
    let first = first::find(session, found, &target)?;
    let repro = confirm::again(session, found, &target, first)?;
    // The first run was a cold run of these very files.
    let confirmed = Confirmed { runs: 1, hits: 1, crash_log: found.log.clone(), repro };
    let contents = Contents {
        outcome: BundleOutcome::Limit,
        found,
        reducer: &reducer,
        confirmed: &confirmed,
        oracle: &session.oracle,
        ground: &session.ground,
        jobs: session.jobs(),
        seconds: session.begun.elapsed().as_secs_f64(),
        data_bytes: best.data_bytes(),
    };
    let mut secrets = session.secrets.clone();
    Ok(bundle::write(out, &contents, &mut secrets)?)
}

fn reduce(session: &mut Session<'_>, found: &Found, out: &Path) -> Result<Bundle, JobError> {
    let original = Arc::clone(&session.original);
    let target = target::aim(&original, found, session.level());
    let setting = Setting {
        name: "pinned".to_owned(),
        mode: found.mode,
        pins: found.pins,
        timeout: Duration::from_secs_f64(found.timeout),
        variation: Variation::default(),
    };
    session.oracle.aim(target.clone());
    session.oracle.set(setting);
    let argv = session.ground.invocation.argv.clone();
    let best = Best::new(out, session.ground.invocation.project.clone(), found).over(session.scratch.path());
    best.keep(&Candidate::new(original.tree().clone()))?;
    let first = first::find(session, found, &target)?;
    // A stop is seen again at once by the search.
    let thinned = stop_of(data::thin(session, found, &target))?.unwrap_or_default();
    let (trace, frames) = thinned.as_ref().map_or((&found.trace, &found.frames), |one| (&one.trace, &one.frames));
    let mut reducer = Reducer::over(
        Arc::clone(&original),
        thinned.as_ref().map(|one| one.data.clone()).unwrap_or_default(),
        traced::observed(&original, trace, frames, &argv),
        repro::entry_of(&original, &session.ground.invocation),
        Arc::clone(&session.options.plan),
        session.options.certify,
    );
    let target = thinned.as_ref().map_or(target, |one| one.target.clone());
    session.oracle.aim(target.clone());
    if thinned.is_some() {
        best.keep(&reducer.best())?;
    }
    let width = session.jobs();
    let start = (original.statements_count(), original.tokens_count());
    let observer = &mut session.observer;
    let stopped = {
        let mut phase = (String::new(), String::new());
        let watch = &mut |turn: Turn<'_>, oracle: &mut crate::oracle::Oracle| -> Result<(), JobError> {
            match turn {
                Turn::Answered { question, verdict } => {
                    phase = (question.phase.to_owned(), question.pass.clone());
                    observer(Happening::Trial {
                        phase: &phase.0,
                        pass: &phase.1,
                        what: &question.what,
                        verdict,
                        runs: oracle.runs(),
                    });
                }
                Turn::Adopted { reducer } => {
                    let (candidate, size) = (reducer.best(), reducer.size());
                    best.keep(&candidate)?;
                    let at = oracle.now();
                    oracle.ledger_mut().append(Record::Best {
                        candidate: candidate.id.clone(),
                        statements: size.0,
                        tokens: size.1,
                        phase: phase.0.clone(),
                        at,
                    })?;
                    observer(Happening::Win {
                        statements: (size.0, start.0),
                        tokens: (size.1, start.1),
                        phase: &phase.0,
                        pass: &phase.1,
                        runs: oracle.runs(),
                    });
                }
                Turn::Waited => observer(Happening::Tick { in_flight: oracle.in_flight() }),
            }
            Ok(())
        };
        stop_of(drive::run(&mut reducer, &mut session.oracle, width, watch))?.err()
    };
    session.oracle.drop_all();
    finish(session, found, &target, &reducer, best, first, stopped)
}

/// A stop is an outcome; everything else stays an error.
fn stop_of<T>(result: Result<T, JobError>) -> Result<Result<T, Stop>, JobError> {
    match result {
        Ok(done) => Ok(Ok(done)),
        Err(JobError::Oracle(crate::oracle::OracleError::Stopped(stop))) => Ok(Err(stop)),
        Err(error) => Err(error),
    }
}

fn finish(
    session: &mut Session<'_>,
    found: &Found,
    target: &verdict::Target,
    reducer: &Reducer,
    best: Best,
    first: Option<First>,
    stopped: Option<Stop>,
) -> Result<Bundle, JobError> {
    let candidate = reducer.best();
    best.finish(&candidate)?;
    // Before the cold runs: what is confirmed is what the user gets.
    let out = session.options.out.clone();
    session.clean_source(&out)?;
    let confirmed = match stopped {
        Some(Stop::Interrupted) => {
            let repro = first.and_then(|first| confirm::so_far(session, first));
            Confirmed { repro, ..Confirmed::default() }
        }
        _ => confirm::run(session, found, target, reducer, first)?,
    };
    // Ctrl-C during the cold runs, all of which hit so far, speaks against nothing.
    let interrupted = session.is_interrupted() && confirmed.hits == confirmed.runs;
    let outcome = match (stopped, confirmed.runs > 0 && confirmed.hits == confirmed.runs) {
        (Some(Stop::Interrupted), _) => BundleOutcome::Interrupted,
        _ if interrupted => BundleOutcome::Interrupted,
        (_, false) => BundleOutcome::Unconfirmed,
        (Some(_), true) => BundleOutcome::Limit,
        (None, true) => BundleOutcome::Reduced,
    };
    let contents = Contents {
        outcome,
        found,
        reducer,
        confirmed: &confirmed,
        oracle: &session.oracle,
        ground: &session.ground,
        jobs: session.jobs(),
        seconds: session.begun.elapsed().as_secs_f64(),
        data_bytes: best.data_bytes(),
    };
    let mut secrets = session.secrets.clone();
    Ok(bundle::write(&session.options.out, &contents, &mut secrets)?)
}

/// Makes the bundle folder ready and opens its ledger.
fn open_ledger(ground: &Ground, options: &Options) -> Result<Ledger, JobError> {
    let out = &options.out;
    let path = out.join("ledger.jsonl");
    let case = identity(ground, options);
    let occupied = fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some());
    match options.existing {
        Existing::Resume if path.is_file() => return Ok(Ledger::resume(&path, &case)?),
        Existing::Resume if occupied => return Err(JobError::NotABundle { out: out.clone() }),
        Existing::Refuse if occupied => return Err(JobError::Occupied { out: out.clone() }),
        Existing::Replace if occupied => {
            if !path.is_file() {
                return Err(JobError::NotABundle { out: out.clone() });
            }
            return replace(out, || new_ledger(out, &case));
        }
        _ => {}
    }
    new_ledger(out, &case)
}

/// Takes away an earlier bundle, unless a run works in it, and begins the next one in its place.
fn replace<T>(out: &Path, begin: impl FnOnce() -> Result<T, JobError>) -> Result<T, JobError> {
    // Held until the next one is: no third run may come between.
    let _held = Hold::take(&out.join("ledger.jsonl"))?;
    fs::remove_dir_all(out).map_err(|source| JobError::NoFolder { out: out.to_owned(), source })?;
    begin()
}

/// Makes the bundle folder where it is not there, and begins its ledger.
fn new_ledger(out: &Path, case: &str) -> Result<Ledger, JobError> {
    let fail = |source| JobError::NoFolder { out: out.to_owned(), source };
    if out.is_file() {
        return Err(fail(std::io::Error::other("it is a file, and a bundle is a folder")));
    }
    fs::create_dir_all(out).map_err(fail)?;
    Ledger::create(&out.join("ledger.jsonl"), case).map_err(|error| match error {
        LedgerError::File { source, .. } => fail(source),
        other => other.into(),
    })
}

/// What must be equal for a ledger to be gone on with: the command, its settings, and the program's text.
fn identity(ground: &Ground, options: &Options) -> String {
    let Ground { case, invocation, python, device, .. } = ground;
    let text = format!(
        "{:?}|{:?}|{}|{:?}|{:?}|{:?}|{:?}|{:?}",
        invocation,
        case.setting.env,
        python.executable.display(),
        device,
        case.setting.pins,
        options.level,
        options.certify,
        options.plan,
    );
    blake3::hash(text.as_bytes()).to_hex().as_str()[..24].to_owned()
}

impl From<LedgerError> for JobError {
    fn from(error: LedgerError) -> Self {
        Self::Ledger(error)
    }
}
