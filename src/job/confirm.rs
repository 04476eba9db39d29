//! Confirmation: cold runs of the final files, where they lie in the bundle.
//!
//! Invariant: a hit is counted only when a fresh interpreter ran the file that the user gets.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::error::JobError;
use super::first::First;
use super::session::{Session, program_spec};
use crate::bundle::repro::{self, Repro};
use crate::bundle::{Confirmed, ConfirmedRepro};
use crate::candidate::Candidate;
use crate::evidence::Found;
use crate::oracle::{Look, OracleError, Question, Setting};
use crate::search::reducer::Reducer;
use crate::trial::{Mode, Observe, Outcome, Pins, Pool, ProgramSpec, Variation};
use crate::verdict::{Target, Verdict};

/// Phase of these runs in the ledger and the report.
const PHASE: &str = "confirm";
/// Cold runs of the reduced program, and of the program of the failing call.
const RUNS: usize = 3;
/// Time that confirmation may take beyond the limits of the run.
const EXTRA_TIME: Duration = Duration::from_secs(600);
/// Trials that confirmation may take beyond the limits of the run.
const EXTRA_RUNS: u64 = 40;

/// Runs `source/` and the single-file program, cold.
///
/// # Errors
/// When a server or the ledger fails.
pub(super) fn run(
    session: &mut Session<'_>,
    found: &Found,
    target: &Target,
    reducer: &Reducer,
    first: Option<First>,
) -> Result<Confirmed, JobError> {
    session.oracle.extend(EXTRA_TIME, EXTRA_RUNS);
    session.say("confirm", "cold runs of the final files");
    let candidate = reducer.best();
    let out = session.options.out.clone();
    let spec = program_spec(&session.ground.invocation);
    let workdir = session.ground.invocation.workdir.clone();
    let pool = session.cold_pool(&out.join("source"), &workdir, spec)?;
    let cold =
        Cold { phase: PHASE, name: "source", pins: found.pins, timeout: found.timeout, observe: Observe::default() };
    let seen = cold_runs(session, pool, &cold, &candidate, reducer.size(), target, RUNS)?;
    let mut confirmed = tally(&seen);
    confirmed.repro = match again(session, found, target, first)? {
        Some(repro) => Some(repro),
        None if session.is_interrupted() => None,
        None => confirm_joined(session, found, target, reducer, &out)?,
    };
    Ok(confirmed)
}

fn tally(seen: &[(Outcome, Verdict)]) -> Confirmed {
    let mut hits = seen.iter().filter(|(_, verdict)| *verdict == Verdict::Same);
    Confirmed {
        runs: u32::try_from(seen.len()).unwrap_or(u32::MAX),
        hits: u32::try_from(hits.clone().count()).unwrap_or(u32::MAX),
        crash_log: hits.next_back().map(|(outcome, _)| outcome.stderr.clone()).unwrap_or_default(),
        repro: None,
    }
}

/// Values and places may change in `repro.py`; class and operator may not.
pub(super) fn loose(target: &Target) -> Target {
    Target { chain: Vec::new(), offence: None, sample_counts: false, ..target.clone() }
}

/// The runs that the first repro still lacks; nothing where not all of them fail in the right way. After Ctrl-C those that
/// came to an end count.
pub(super) fn again(
    session: &mut Session<'_>,
    found: &Found,
    target: &Target,
    first: Option<First>,
) -> Result<Option<ConfirmedRepro>, JobError> {
    let Some(first) = first else { return Ok(None) };
    let First { repro, .. } = &first;
    let header = repro::header(found, &session.ground);
    let pool = alone(session, repro, &header)?;
    let plain = plain_runs(session, pool, found, &loose(target), repro, RUNS - 1)?;
    if session.is_interrupted() {
        return Ok(so_far(session, first));
    }
    let First { repro, how, .. } = first;
    let all = number(RUNS);
    Ok((plain.hits == RUNS - 1).then_some(ConfirmedRepro { repro, how, runs: all, hits: all, log: plain.log }))
}

/// The first repro with the cold runs that the ledger has of it; nothing where one of them did not fail in the right way.
pub(super) fn so_far(session: &Session<'_>, first: First) -> Option<ConfirmedRepro> {
    let First { repro, how, log } = first;
    let candidate = Candidate::new(repro.tree());
    let trials = session.oracle.ledger().trials();
    let trials = trials.filter(|trial| trial.mode == Mode::Exec && trial.candidate == candidate.id);
    let answers: Vec<&Verdict> = trials.map(|trial| &trial.verdict).filter(|verdict| verdict.is_answer()).collect();
    let runs = number(answers.len());
    let held = runs > 0 && answers.iter().all(|verdict| **verdict == Verdict::Same);
    held.then_some(ConfirmedRepro { repro, how, runs, hits: runs, log })
}

fn number(runs: usize) -> u32 {
    u32::try_from(runs).unwrap_or(u32::MAX)
}

/// Tries the forms of a single-file program, the most readable first; the first that fails in the right way is it.
fn confirm_joined(
    session: &mut Session<'_>,
    found: &Found,
    target: &Target,
    reducer: &Reducer,
    out: &Path,
) -> Result<Option<ConfirmedRepro>, JobError> {
    let loose = loose(target);
    for mut repro in repro::forms(reducer.program(), &session.ground.invocation, found, &out.join("source")) {
        // What is confirmed is what the user gets: without secrets.
        repro.text = session.secrets.clone().clean("repro.py", &repro.text);
        let header = repro::header(found, &session.ground);
        let folder = laid_out(session, &repro, &header, &out.join("source"))?;
        let pool = session.cold_pool(folder.path(), ".", repro_spec())?;
        let how = "the reduced program, its files joined into one";
        if plain_runs(session, pool, found, &loose, &repro, 1)?.hits != 1 {
            continue;
        }
        let pool = session.cold_pool(folder.path(), ".", repro_spec())?;
        let Plain { hits, log } = plain_runs(session, pool, found, &loose, &repro, RUNS - 1)?;
        if hits == RUNS - 1 {
            let all = number(RUNS);
            return Ok(Some(ConfirmedRepro { repro, how, runs: all, hits: all, log }));
        }
    }
    Ok(None)
}

/// Runs of a single-file program without any pin.
struct Plain {
    /// Those that failed in the right way.
    hits: usize,
    /// What the last of these printed.
    log: String,
}

/// Runs a single-file program without any pin.
fn plain_runs(
    session: &mut Session<'_>,
    pool: Pool,
    found: &Found,
    target: &Target,
    repro: &Repro,
    runs: usize,
) -> Result<Plain, JobError> {
    let cold =
        Cold { phase: PHASE, name: "repro", pins: Pins::NONE, timeout: found.timeout, observe: Observe::default() };
    let candidate = Candidate::new(repro.tree());
    let seen = cold_runs(session, pool, &cold, &candidate, repro.size(), target, runs)?;
    let mut hits = seen.iter().filter(|(outcome, verdict)| *verdict == Verdict::Same && fails_plainly(outcome));
    let count = hits.clone().count();
    let log = hits.next_back().map(|(outcome, _)| outcome.stderr.clone()).unwrap_or_default();
    Ok(Plain { hits: count, log })
}

/// A server over a folder of its own that holds a program without data files; the folder goes with the session.
pub(super) fn alone(session: &Session<'_>, repro: &Repro, header: &str) -> Result<Pool, JobError> {
    let folder = laid_out(session, repro, header, Path::new(""))?.keep();
    session.cold_pool(&folder, ".", repro_spec())
}

fn laid_out(session: &Session<'_>, repro: &Repro, header: &str, source: &Path) -> Result<tempfile::TempDir, JobError> {
    let folder = tempfile::tempdir_in(session.scratch.path())
        .map_err(|source| JobError::File { path: session.scratch.path().to_owned(), source })?;
    repro::lay_out(folder.path(), repro, header, source)?;
    Ok(folder)
}

pub(super) fn repro_spec() -> ProgramSpec {
    ProgramSpec { kind: "script".into(), target: "repro.py".into(), argv: Vec::new() }
}

/// The process itself says that it failed.
pub(super) fn fails_plainly(outcome: &Outcome) -> bool {
    !matches!(outcome.end, crate::trial::TrialEnd::Exited(0))
}

/// How cold runs are made and recorded.
pub(super) struct Cold {
    /// Phase in the ledger.
    pub(super) phase: &'static str,
    /// What is run: `source` or `repro`.
    pub(super) name: &'static str,
    pub(super) pins: Pins,
    /// Seconds of a forked trial.
    pub(super) timeout: f64,
    pub(super) observe: Observe,
}

impl Cold {
    /// Name of the setting in the ledger.
    pub(super) fn setting(&self) -> String {
        format!("cold {}", self.name)
    }
}

/// Runs a candidate cold, as often as asked; fewer results where a limit or the user ends the run.
///
/// # Errors
/// When the server or the ledger fails.
pub(super) fn cold_runs(
    session: &mut Session<'_>,
    pool: Pool,
    cold: &Cold,
    candidate: &Candidate,
    size: (usize, usize),
    target: &Target,
    runs: usize,
) -> Result<Vec<(Outcome, Verdict)>, JobError> {
    let setting = Setting {
        name: cold.setting(),
        mode: Mode::Exec,
        pins: cold.pins,
        timeout: session.cold_timeout(Duration::from_secs_f64(cold.timeout)),
        variation: Variation::default(),
    };
    let question = Question {
        candidate: candidate.clone(),
        size,
        phase: cold.phase,
        pass: cold.name.to_owned(),
        what: String::new(),
    };
    let look = Look {
        question,
        setting,
        observe: cold.observe.clone(),
        target: Some(target.clone()),
        watch: None,
        in_place: true,
    };
    let looks = vec![look; runs];
    let width = session.jobs().min(runs);
    let warm = session.oracle.replace_pool(pool);
    let seen = session.oracle.observe_many(&looks, width);
    drop(session.oracle.replace_pool(warm));
    let seen = match seen {
        Err(OracleError::Stopped(_)) => Vec::new(),
        other => other?,
    };
    for (outcome, _) in &seen {
        let _gone = fs::remove_dir_all(&outcome.scratch);
    }
    Ok(seen)
}
