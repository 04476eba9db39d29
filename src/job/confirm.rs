//! Confirmation: cold runs of the final files, where they lie in the bundle.
//!
//! Invariant: a hit is counted only when a fresh interpreter ran the file that the user gets.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::error::JobError;
use super::session::{Session, program_spec};
use crate::bundle::repro;
use crate::bundle::{Confirmed, ConfirmedRepro};
use crate::candidate::Candidate;
use crate::evidence::Found;
use crate::oracle::{Look, OracleError, Question, Setting};
use crate::search::reducer::Reducer;
use crate::trial::{Mode, Observe, Outcome, Pins, Pool, ProgramSpec, Variation};
use crate::verdict::{Target, Verdict};

/// Cold runs of the reduced program.
const RUNS: usize = 3;
/// Time that confirmation may take beyond the limits of the run.
const EXTRA_TIME: Duration = Duration::from_secs(600);
/// Trials that confirmation may take beyond the limits of the run.
const EXTRA_RUNS: u64 = 40;

/// Runs `source/` and the single-file programs made from it, cold.
///
/// # Errors
/// When a server or the ledger fails.
pub(super) fn run(
    session: &mut Session<'_>,
    found: &Found,
    target: &Target,
    reducer: &Reducer,
) -> Result<Confirmed, JobError> {
    session.oracle.extend(EXTRA_TIME, EXTRA_RUNS);
    session.say("confirm", "cold runs of the final files");
    let candidate = reducer.best();
    let out = session.options.out.clone();
    let spec = program_spec(&session.ground.invocation);
    let workdir = session.ground.invocation.workdir.clone();
    let pool = session.cold_pool(&out.join("source"), &workdir, spec)?;
    let seen = cold_runs(session, pool, found, &candidate, reducer.size(), target, "source", RUNS)?;
    let mut confirmed = tally(&seen);
    confirmed.repro = confirm_repro(session, found, target, reducer, &out)?;
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

/// Tries the forms of a single-file program, the most readable first; the first that fails in the right way is it.
fn confirm_repro(
    session: &mut Session<'_>,
    found: &Found,
    target: &Target,
    reducer: &Reducer,
    out: &Path,
) -> Result<Option<ConfirmedRepro>, JobError> {
    // Values and places may change in `repro.py`; class and operator may not.
    let loose = Target { chain: Vec::new(), offence: None, sample_counts: false, ..target.clone() };
    let spec = ProgramSpec { kind: "script".into(), target: "repro.py".into(), argv: Vec::new() };
    for repro in repro::forms(reducer.program(), &session.ground.invocation, found) {
        let folder = tempfile::tempdir_in(session.scratch.path())
            .map_err(|source| JobError::File { path: session.scratch.path().to_owned(), source })?;
        repro::lay_out(folder.path(), &repro, "", &out.join("source"))?;
        let pool = session.cold_pool(folder.path(), ".", spec.clone())?;
        let candidate = Candidate::new(repro.tree());
        let size = repro.size();
        // Run plainly: without any pin.
        let plain = Found { pins: Pins::NONE, ..found.clone() };
        let first = cold_runs(session, pool, &plain, &candidate, size, &loose, "repro", 1)?;
        let fails = |seen: &[(Outcome, Verdict)]| {
            seen.iter().filter(|(outcome, verdict)| *verdict == Verdict::Same && fails_plainly(outcome)).count()
        };
        if fails(&first) == 1 {
            return Ok(Some(ConfirmedRepro { repro, runs: 1, hits: 1 }));
        }
    }
    Ok(None)
}

/// The process itself says that it failed.
fn fails_plainly(outcome: &Outcome) -> bool {
    !matches!(outcome.end, crate::trial::TrialEnd::Exited(0))
}

#[expect(clippy::too_many_arguments, reason = "one call in two places; a struct would only rename them")]
fn cold_runs(
    session: &mut Session<'_>,
    pool: Pool,
    found: &Found,
    candidate: &Candidate,
    size: (usize, usize),
    target: &Target,
    name: &'static str,
    runs: usize,
) -> Result<Vec<(Outcome, Verdict)>, JobError> {
    let setting = Setting {
        name: format!("cold {name}"),
        mode: Mode::Exec,
        pins: Pins { ..found.pins },
        timeout: session.cold_timeout(Duration::from_secs_f64(found.timeout)),
        variation: Variation::default(),
    };
    let look = Look {
        question: Question {
            candidate: candidate.clone(),
            size,
            phase: "confirm",
            pass: name.to_owned(),
            what: String::new(),
        },
        setting,
        observe: Observe::default(),
        target: Some(target.clone()),
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
