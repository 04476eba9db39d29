//! The first repro: the failing call as a program of its own, seconds after the evidence and before the search.
//!
//! Invariant: what is shown was seen to fail in the right way by a cold run of this very text; at most one run a form, and
//! on a resumed job none that the ledger knows.

use super::confirm::{Cold, cold_runs, fails_plainly};
use super::error::JobError;
use super::session::Session;
use super::{Happening, confirm};
use crate::bundle::repro::{self, Repro};
use crate::call::{self, Form};
use crate::candidate::Candidate;
use crate::evidence::Found;
use crate::trial::{Observe, Pins};
use crate::verdict::{Target, Verdict};

/// A single-call program that one cold run has shown to fail in the right way.
pub(super) struct First {
    pub(super) repro: Repro,
    pub(super) how: &'static str,
    /// Standard error of that run; nothing where an earlier run of the job made it.
    pub(super) log: String,
}

/// Phase of these runs in the ledger and the report.
const PHASE: &str = "repro";

/// Tries the forms of the failing call, smallest first.
///
/// # Errors
/// When a server, the ledger or the bundle folder fails.
pub(super) fn find(session: &mut Session<'_>, found: &Found, target: &Target) -> Result<Option<First>, JobError> {
    let Some(failure) = &found.failure else { return Ok(None) };
    let torch = session.ground.python.torch.as_ref().map_or((0, 0), |torch| call::version(&torch.version));
    let forms = call::forms(failure, &found.signature, torch);
    if forms.is_empty() {
        return Ok(None);
    }
    session.say(PHASE, "the failing call as a program of its own");
    let loose = confirm::loose(target);
    for form in forms {
        let smaller = form.smaller.clone();
        let Some(mut first) = holds(session, found, &loose, form)? else { continue };
        for form in smaller {
            if let Some(less) = holds(session, found, &loose, form)? {
                first = less;
                break;
            }
        }
        return Ok(Some(first));
    }
    Ok(None)
}

/// A form that fails in the right way when it is run plainly; it is shown as soon as it has.
fn holds(session: &mut Session<'_>, found: &Found, target: &Target, form: Form) -> Result<Option<First>, JobError> {
    // What is confirmed is what the user gets: without secrets.
    let text = session.secrets.clone().clean("repro.py", &form.text);
    let repro = Repro::alone(text);
    let Some(log) = runs_so(session, found, target, &repro)? else { return Ok(None) };
    let first = First { repro, how: form.how, log };
    show(session, found, &first)?;
    Ok(Some(first))
}

/// What the run printed, where it failed in the right way.
fn runs_so(
    session: &mut Session<'_>,
    found: &Found,
    target: &Target,
    repro: &Repro,
) -> Result<Option<String>, JobError> {
    let candidate = Candidate::new(repro.tree());
    let cold =
        Cold { phase: PHASE, name: "repro", pins: Pins::NONE, timeout: found.timeout, observe: Observe::default() };
    if let Some(known) = session.oracle.ledger().known(&candidate.id, &cold.setting()) {
        return Ok((*known == Verdict::Same).then(String::new));
    }
    let pool = confirm::alone(session, repro, &repro::header(found, &session.ground))?;
    let seen = cold_runs(session, pool, &cold, &candidate, repro.size(), target, 1)?;
    let mut hits = seen.into_iter().filter(|(outcome, verdict)| *verdict == Verdict::Same && fails_plainly(outcome));
    Ok(hits.next().map(|(outcome, _)| outcome.stderr))
}

/// Tells the user, and puts the program where it will lie in the end.
fn show(session: &mut Session<'_>, found: &Found, first: &First) -> Result<(), JobError> {
    let header = repro::header(found, &session.ground);
    let out = session.options.out.clone();
    repro::lay_out(&out, &first.repro, &header, &out.join("source"))?;
    let runs = session.oracle.runs();
    (session.observer)(Happening::Repro { text: &first.repro.text, how: first.how, size: first.repro.size(), runs });
    Ok(())
}
