//! The data files that the program reads, cut before its text is: every later run is faster.
//!
//! Invariant: the row that evidence names is never asked to go, and what is left counts only when a traced run of it failed
//! in the right way and, where more than that row is left, a followed run found the same origin.
//! The same questions in the same order for any number of workers. The user's files are only read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::session::Session;
use super::{Happening, JobError};
use crate::bundle;
use crate::candidate::Candidate;
use crate::data::{Data, DataFile};
use crate::evidence::Found;
use crate::explain::Origin;
use crate::oracle::{Look, Question};
use crate::search::machine::{Answer, Machine, Step};
use crate::search::thinning::Thinning;
use crate::trial::{Frame, Observe, Offence, Outcome, Trace};
use crate::verdict::{self, Difference, Seen, Target, Verdict};

/// Phase of these runs in the ledger and the report.
const PHASE: &str = "data";
/// Most runs for all files, those that look at the result not counted.
const MOST_RUNS: u32 = 40;
/// The runs that look at the result may take this many times a trial.
const LOOK_PATIENCE: u32 = 10;

/// What is left of the data, and what a run of the program with it showed.
pub(super) struct Thinned {
    pub(super) data: Data,
    pub(super) trace: Trace,
    pub(super) frames: Vec<Frame>,
    /// The failure that is to be kept, with the sample's number in what is left.
    pub(super) target: Target,
}

/// Project files that the program reads and never writes, beside its sources, in order.
pub(super) fn read_files(found: &Found) -> BTreeSet<&str> {
    let sources: BTreeSet<&str> = found.sources.iter().map(String::as_str).collect();
    let inside = found.opened.iter().filter(|opened| opened.project);
    let (written, read): (Vec<_>, Vec<_>) = inside.partition(|opened| opened.mode.contains(['w', 'a', 'x', '+']));
    let written: BTreeSet<&str> = written.into_iter().map(|opened| opened.path.as_str()).collect();
    read.into_iter()
        .map(|opened| opened.path.as_str())
        .filter(|path| !written.contains(path) && !sources.contains(path))
        .collect()
}

/// Cuts the data files; nothing where none can be cut.
///
/// # Errors
/// When the oracle fails or is stopped; data that was cut so far is whole again then.
pub(super) fn thin(session: &mut Session<'_>, found: &Found, target: &Target) -> Result<Option<Thinned>, JobError> {
    let origin = bundle::origin(found, &session.ground);
    let mut groups = groups(session, found);
    if groups.is_empty() {
        return Ok(None);
    }
    let suspect = |group: &[Arc<DataFile>]| {
        let origin = origin.as_ref().filter(|origin| origin.expression.is_none())?;
        let file = group.iter().find(|file| file.path() == origin.file)?;
        let unit = if is_element(origin) { origin.row } else { file.unit(origin.row, origin.line) };
        unit.filter(|unit| *unit < file.units())
    };
    groups.sort_by_key(|group| suspect(group).is_none());
    session.say(PHASE, "rows of the data files that it reads");
    // The number of a sample moves when rows before it go.
    session.oracle.aim(Target { sample_counts: false, ..target.clone() });
    let mut search = Search { session, data: Data::default(), runs: 0 };
    for group in &groups {
        search.thin(group, suspect(group))?;
    }
    let Search { session, data, .. } = search;
    if data.is_whole() {
        return Ok(None);
    }
    // That row alone: nothing else can be where the value comes from.
    let sure = origin.is_none() || groups.iter().any(|group| suspect(group).is_some() && data.units(&group[0]) == 1);
    if !sure && !has_origin(session, found, &data, &groups, origin.as_ref())? {
        session.say(PHASE, "the value comes from elsewhere without the other rows: the data stays whole");
        return Ok(None);
    }
    seen_again(session, found, target, data)
}

/// The place is an element of what the program loaded, counted from 0, not a row as a reader of the file counts.
fn is_element(origin: &Origin) -> bool {
    origin.line.is_none() && !origin.position.is_empty()
}

/// Files with as many units as each other, whose units go together.
fn groups(session: &mut Session<'_>, found: &Found) -> Vec<Vec<Arc<DataFile>>> {
    let project = session.ground.invocation.project.clone();
    let case = session.ground.case.clone();
    let may_go = |path: &&str| {
        let absolute = project.join(path);
        !case.keep.matches(&absolute) && case.data.as_ref().is_none_or(|data| data.matches(&absolute))
    };
    let mut groups: BTreeMap<usize, Vec<Arc<DataFile>>> = BTreeMap::new();
    for path in read_files(found).into_iter().filter(may_go) {
        match DataFile::open(&project, path) {
            Ok(Some(file)) => groups.entry(file.units()).or_default().push(Arc::new(file)),
            Ok(None) => {}
            Err(error) => session.say(PHASE, &format!("data file `{path}` stays whole: {error}")),
        }
    }
    groups.into_values().collect()
}

struct Search<'s, 'a> {
    session: &'s mut Session<'a>,
    data: Data,
    runs: u32,
}

impl Search<'_, '_> {
    fn thin(&mut self, group: &[Arc<DataFile>], suspect: Option<usize>) -> Result<(), JobError> {
        let whole = self.data.clone();
        let mut machine = Thinning::new(group[0].units(), suspect);
        while let Step::Ask(ask) = machine.step() {
            if self.runs >= MOST_RUNS {
                break;
            }
            let units: Vec<usize> = ask.keep.iter().collect();
            let data = group.iter().fold(self.data.clone(), |data, file| data.with(file, units.iter().copied()));
            let names: Vec<&str> = group.iter().map(|file| file.path()).collect();
            let what = format!("keeps {} of {} rows of {}", units.len(), group[0].units(), names.join(", "));
            let verdict = self.ask(data.clone(), ask.why, what)?;
            let answer = match &verdict {
                Verdict::Same => Answer::Hit,
                Verdict::Unresolved { .. } => Answer::Unresolved,
                Verdict::Other { .. } | Verdict::Clean | Verdict::Invalid { .. } => Answer::Miss,
            };
            if matches!(verdict, Verdict::Other { differs: Difference::Limit, .. }) {
                // The other rows have a say in the limit: what can go of them says nothing, and costs many runs.
                self.data = whole;
                return Ok(());
            }
            machine.mark(&answer);
            let scratch = self.session.scratch.path();
            if answer.is_hit() {
                self.data.forget(scratch, &data);
                self.data = data;
            } else {
                data.forget(scratch, &self.data);
            }
        }
        Ok(())
    }

    fn ask(&mut self, data: Data, pass: &str, what: String) -> Result<Verdict, JobError> {
        let question = Question { pass: pass.to_owned(), what, ..question(self.session, data) };
        let oracle = &mut self.session.oracle;
        self.runs += 1;
        let verdict = loop {
            if let Some(verdict) = oracle.known(&question.candidate.id) {
                break verdict;
            }
            oracle.pursue(std::slice::from_ref(&question), 1)?;
            oracle.wait()?;
            (self.session.observer)(Happening::Tick { in_flight: oracle.in_flight() });
        };
        // The time until the next trial is not the search's: one question follows another here, with looks in between.
        oracle.drop_all();
        let (pass, what, runs) = (question.pass.as_str(), question.what.as_str(), oracle.runs());
        (self.session.observer)(Happening::Trial { phase: PHASE, pass, what, verdict: &verdict, runs });
        Ok(verdict)
    }
}

/// The program as it is, with this data.
fn question(session: &Session<'_>, data: Data) -> Question {
    Question {
        candidate: Candidate::with(session.original.tree().clone(), data),
        size: (session.original.statements_count(), session.original.tokens_count()),
        phase: PHASE,
        pass: "look".to_owned(),
        what: String::new(),
    }
}

/// One more run of the program with this data.
fn look(
    session: &mut Session<'_>,
    found: &Found,
    data: &Data,
    name: &str,
    observe: Observe,
) -> Result<(Outcome, Verdict), JobError> {
    let mut setting = session.oracle.setting().clone();
    setting.name = format!("{}, {name}", setting.name);
    setting.timeout *= LOOK_PATIENCE;
    let (signature, failure) = (found.signature.clone(), found.failure.clone());
    let watch = session.to_watch(&Seen { signature, failure, frames: found.frames.clone() });
    let question = question(session, data.clone());
    let look = Look { question, setting, observe, target: None, watch, in_place: false };
    Ok(session.oracle.observe(&look)?)
}

/// Whether the offending value still comes from where it came from.
fn has_origin(
    session: &mut Session<'_>,
    found: &Found,
    data: &Data,
    groups: &[Vec<Arc<DataFile>>],
    origin: Option<&Origin>,
) -> Result<bool, JobError> {
    let offence = found.failure.as_ref().and_then(|failure| failure.offence.as_ref());
    let Some(value) = offence.and_then(|offence| offence.value.clone()) else { return Ok(false) };
    let observe = Observe { follow: Some(value), ..Observe::default() };
    let (outcome, verdict) = look(session, found, data, "followed", observe)?;
    let path = outcome.report.and_then(|report| report.path);
    let mut now = bundle::origin(&Found { path, ..found.clone() }, &session.ground);
    // A row is looked up in the user's file; the number of an element is that in what is left.
    if let Some(now) = now.as_mut().filter(|now| is_element(now)) {
        let file = groups.iter().flatten().find(|file| file.path() == now.file);
        now.row = file.zip(now.row).and_then(|(file, row)| data.original(file, row));
    }
    let place = |origin: &Origin| (origin.file.clone(), origin.row, origin.expression.clone());
    Ok(verdict == Verdict::Same && now.as_ref().map(place) == origin.map(place))
}

/// What the search starts from: the traced run of before had other data.
fn seen_again(
    session: &mut Session<'_>,
    found: &Found,
    target: &Target,
    data: Data,
) -> Result<Option<Thinned>, JobError> {
    if found.trace.executed.is_empty() {
        let target = Target { sample_counts: false, ..target.clone() };
        return Ok(Some(Thinned { data, trace: Trace::default(), frames: found.frames.clone(), target }));
    }
    let observe = Observe { trace: true, ..Observe::default() };
    let (outcome, verdict) = look(session, found, &data, "traced", observe)?;
    let seen = verdict::seen(&outcome).filter(|_| verdict == Verdict::Same);
    let (Some(seen), Some(trace)) = (seen, outcome.trace) else {
        session.say(PHASE, "a traced run with what is left fails otherwise: the data stays whole");
        return Ok(None);
    };
    let sample = seen.failure.and_then(|failure| failure.offence).and_then(|offence| offence.sample);
    let offence = target.offence.clone().map(|offence| Offence { sample, ..offence });
    let target = Target { offence, sample_counts: target.sample_counts && sample.is_some(), ..target.clone() };
    Ok(Some(Thinned { data, trace, frames: seen.frames, target }))
}
