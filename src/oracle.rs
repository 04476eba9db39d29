//! Asks the real program: keeps as many trials in flight as are wanted, and turns their outcomes into verdicts.
//!
//! Invariant: every trial is in the ledger before its verdict is known to anyone; a verdict is asked once for each content.
//! It does not decide what to ask: `search` does.

mod locator;
mod question;

pub use locator::Locator;
pub use question::{Account, Bounds, Look, OracleError, OtherFailure, Question, Setting, Stop};

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::candidate::{Candidate, CandidateId};
use crate::ledger::{Ledger, Record, TrialRecord};
use crate::program::Program;
use crate::trial::{Device, Event, Mode, Observe, Outcome, Pool, Request, TrialId, Watch};
use crate::verdict::{Cause, Difference, Target, Verdict, judge, judge_without};

/// How long a wait lasts before limits and Ctrl-C are looked at again.
const TICK: Duration = Duration::from_millis(50);
/// A traced run may take this many times a trial.
const TRACE_PATIENCE: u32 = 10;
/// How often a trial without an answer is tried before the search goes on without one.
const TRIES: u32 = 2;

struct Flight {
    question: Question,
    at: f64,
    dropped: bool,
}

/// The oracle of one run.
pub struct Oracle {
    pool: Pool,
    ledger: Ledger,
    original: Arc<Program>,
    target: Option<Target>,
    setting: Setting,
    bounds: Bounds,
    begun: Instant,
    next: u64,
    runs: u64,
    flights: BTreeMap<TrialId, Flight>,
    tried: BTreeMap<CandidateId, u32>,
    given_up: BTreeSet<CandidateId>,
    others: BTreeMap<String, OtherFailure>,
    account: Account,
    idle_since: Option<Instant>,
    /// Folders of trials that have ended, to be removed while others run.
    litter: Vec<PathBuf>,
}

impl Oracle {
    /// An oracle over a server, writing to a ledger; the first trial gets the number behind those recorded.
    pub fn new(
        pool: Pool,
        ledger: Ledger,
        original: Arc<Program>,
        setting: Setting,
        bounds: Bounds,
        begun: Instant,
    ) -> Self {
        let next = ledger.trials().map(|trial| trial.trial).max().unwrap_or(0);
        let runs = ledger.trials().count() as u64;
        Self {
            pool,
            ledger,
            original,
            target: None,
            setting,
            bounds,
            begun,
            next,
            runs,
            flights: BTreeMap::new(),
            tried: BTreeMap::new(),
            given_up: BTreeSet::new(),
            others: BTreeMap::new(),
            account: Account::default(),
            idle_since: None,
            litter: Vec::new(),
        }
    }

    /// From now on judge against this failure.
    pub fn aim(&mut self, target: Target) {
        self.target = Some(target);
    }

    /// Changes how trials of the search are run.
    pub fn set(&mut self, setting: Setting) {
        self.setting = setting;
    }

    /// How trials of the search are run.
    pub fn setting(&self) -> &Setting {
        &self.setting
    }

    /// The record.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The record, to append to.
    pub fn ledger_mut(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// Takes the files that may be cut as the original, once the first run has named them.
    pub fn set_original(&mut self, original: Arc<Program>) {
        self.original = original;
    }

    /// Replaces the server, for example by one that has imported what the first run did; gives the old one.
    pub fn replace_pool(&mut self, pool: Pool) -> Pool {
        std::mem::replace(&mut self.pool, pool)
    }

    /// The server.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Where time and trials went.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Other failures seen, one smallest candidate each.
    pub fn others(&self) -> impl Iterator<Item = &OtherFailure> {
        self.others.values()
    }

    /// Trials so far, those of an earlier run included.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Trials in flight.
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// Seconds since the run began.
    pub fn now(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// The verdict on a candidate, if there is one; a candidate that gave none twice counts as unresolved.
    pub fn known(&self, id: &CandidateId) -> Option<Verdict> {
        if let Some(verdict) = self.ledger.known(id, &self.setting.name) {
            return Some(verdict.clone());
        }
        self.given_up.contains(id).then_some(Verdict::Unresolved { cause: Cause::TimeOut })
    }

    /// Counts a question that needed no trial.
    pub fn count_cached(&mut self) {
        self.account.cached += 1;
    }

    /// Makes the trials in flight those of `wanted`, the most wanted first, at most `width` of them.
    ///
    /// # Errors
    /// When a trial cannot be started, or a limit is reached.
    pub fn pursue(&mut self, wanted: &[Question], width: usize) -> Result<(), OracleError> {
        self.check_bounds()?;
        let ids: BTreeSet<&CandidateId> = wanted.iter().map(|question| &question.candidate.id).collect();
        let unwanted: Vec<TrialId> = self
            .flights
            .iter()
            .filter(|(_, flight)| !flight.dropped && !ids.contains(&flight.question.candidate.id))
            .map(|(id, _)| *id)
            .collect();
        for id in unwanted {
            self.pool.drop_trial(id);
            if let Some(flight) = self.flights.get_mut(&id) {
                flight.dropped = true;
            }
            self.account.wasted += 1;
        }
        for question in wanted {
            let live = self.flights.values().filter(|flight| !flight.dropped).count();
            if live >= width || (self.runs >= self.bounds.runs && live > 0) {
                break;
            }
            let flying = self
                .flights
                .values()
                .any(|flight| !flight.dropped && flight.question.candidate.id == question.candidate.id);
            if !flying {
                self.start(question.clone())?;
            }
        }
        Ok(())
    }

    fn start(&mut self, question: Question) -> Result<(), OracleError> {
        let watch = self.watch(&question.candidate);
        let request = Request { watch, ..self.request(&question.candidate, &self.setting, Observe::default())? };
        let id = self.number();
        let at = self.now();
        self.pool.submit(id, &request)?;
        self.end_idle();
        self.flights.insert(id, Flight { question, at, dropped: false });
        Ok(())
    }

    /// On a real device the offending value can only be read before the launch: at the call that is to fail, nowhere else.
    fn watch(&self, candidate: &Candidate) -> Option<Watch> {
        let target = self.target.as_ref().filter(|target| target.offence.is_some())?;
        if self.pool.spec().device == Device::Emulated {
            return None;
        }
        let site = target.chain.last().and_then(|site| Locator::new(&self.original, candidate).lines(*site))?;
        Some(Watch { operator: target.signature.operator.clone(), site: Some(site) })
    }

    fn end_idle(&mut self) {
        if let Some(since) = self.idle_since.take() {
            self.account.idle += since.elapsed().as_secs_f64();
        }
    }

    fn number(&mut self) -> TrialId {
        self.next += 1;
        self.runs += 1;
        TrialId(self.next)
    }

    fn request(&self, candidate: &Candidate, setting: &Setting, observe: Observe) -> Result<Request, OracleError> {
        let original = self.original.tree();
        let changed = candidate
            .tree
            .changed(original)
            .map(|path| {
                let bytes = candidate.tree.get(path).and_then(|file| file.encode());
                bytes
                    .map(|bytes| (path.to_owned(), bytes))
                    .ok_or_else(|| OracleError::Encoding { path: path.to_owned() })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let ready = candidate.data.lay_out(&self.pool.spec().scratch)?;
        let removed = candidate.tree.removed(original).map(str::to_owned).collect();
        let Setting { mode, pins, timeout, variation, .. } = setting.clone();
        Ok(Request { changed, ready, removed, mode, pins, observe, timeout, variation, watch: None, place: None })
    }

    /// Waits until at least one trial has ended, or a moment has passed.
    ///
    /// # Errors
    /// When the ledger or the server fails, or a limit is reached.
    pub fn wait(&mut self) -> Result<(), OracleError> {
        self.check_bounds()?;
        // Not between two trials.
        for scratch in self.litter.drain(..) {
            let _gone = fs::remove_dir_all(scratch);
        }
        let Event::Finished(outcome) = self.pool.next(Instant::now() + TICK) else { return Ok(()) };
        self.settle(*outcome)
    }

    fn settle(&mut self, outcome: Outcome) -> Result<(), OracleError> {
        let Some(flight) = self.flights.remove(&outcome.id) else { return Ok(()) };
        if self.flights.is_empty() {
            self.idle_since = Some(Instant::now());
        }
        let Flight { question, at, dropped } = flight;
        let mut verdict = match (&self.target, dropped) {
            (_, true) => Verdict::Unresolved { cause: Cause::Dropped },
            (Some(target), false) => {
                let locator = Locator::new(&self.original, &question.candidate);
                judge(&outcome, target, &|frame| locator.locate(frame))
            }
            (None, false) => Verdict::Unresolved { cause: Cause::LostWorker },
        };
        if let Verdict::Unresolved { cause } = &mut verdict
            && !dropped
        {
            let tries = self.tried.entry(question.candidate.id.clone()).or_default();
            *tries += 1;
            // What takes too long or cannot be emulated will do so again; a lost worker or a full memory may not.
            let hopeless = matches!(cause, Cause::TimeOut | Cause::NotEmulated);
            if hopeless || *tries >= TRIES {
                self.given_up.insert(question.candidate.id.clone());
            }
        }
        if let Verdict::Other { failure, differs } = &verdict
            && !(matches!(differs, Difference::Value | Difference::Limit) && self.is_only_data(&question.candidate))
        {
            self.keep_other(failure, &question);
        }
        self.record(&question, &outcome, at, self.setting.name.clone(), self.setting.mode, verdict)?;
        self.litter.push(outcome.scratch);
        Ok(())
    }

    /// The program as it is on less data: with other rows, another number of the same failure is no news.
    fn is_only_data(&self, candidate: &Candidate) -> bool {
        let original = self.original.tree();
        let is_whole = candidate.tree.changed(original).next().is_none();
        !candidate.data.is_whole() && is_whole && candidate.tree.removed(original).next().is_none()
    }

    fn keep_other(&mut self, failure: &str, question: &Question) {
        let smaller = self.others.get(failure).is_none_or(|other| question.size.1 < other.size.1);
        if smaller {
            let other = OtherFailure {
                failure: failure.to_owned(),
                candidate: question.candidate.clone(),
                size: question.size,
            };
            self.others.insert(failure.to_owned(), other);
        }
    }

    fn record(
        &mut self,
        question: &Question,
        outcome: &Outcome,
        at: f64,
        setting: String,
        mode: Mode,
        verdict: Verdict,
    ) -> Result<(), OracleError> {
        self.ledger.append(Record::Trial(Box::new(TrialRecord {
            trial: outcome.id.0,
            candidate: question.candidate.id.clone(),
            setting,
            mode,
            phase: question.phase.to_owned(),
            pass: question.pass.clone(),
            what: question.what.clone(),
            verdict,
            seconds: outcome.seconds,
            at,
            statements: question.size.0,
            tokens: question.size.1,
        })))?;
        Ok(())
    }

    /// Runs one candidate to its end, outside the search, and gives the raw facts and the verdict if there is a target.
    ///
    /// # Errors
    /// When the server or the ledger fails, or the user interrupts.
    pub fn observe(&mut self, look: &Look) -> Result<(Outcome, Verdict), OracleError> {
        let mut seen = self.observe_many(std::slice::from_ref(look), 1)?;
        seen.pop().ok_or(OracleError::Stopped(Stop::Interrupted))
    }

    /// Traces one candidate in the setting of the search.
    ///
    /// # Errors
    /// As [`Oracle::observe`].
    pub fn traced(&mut self, question: Question) -> Result<Outcome, OracleError> {
        let mut setting = self.setting.clone();
        setting.name = format!("{}, traced", setting.name);
        setting.timeout *= TRACE_PATIENCE;
        let observe = Observe { trace: true, ..Observe::default() };
        let look = Look { question, setting, observe, target: None, in_place: false, watch: None };
        self.end_idle();
        let seen = self.observe(&look);
        self.idle_since = Some(Instant::now());
        seen.map(|(outcome, _)| outcome)
    }

    /// Runs several candidates, at most `width` at once, and gives facts and verdicts in the order of `looks`.
    ///
    /// # Errors
    /// As [`Oracle::observe`].
    pub fn observe_many(&mut self, looks: &[Look], width: usize) -> Result<Vec<(Outcome, Verdict)>, OracleError> {
        let mut ended: Vec<Option<(Outcome, Verdict)>> = looks.iter().map(|_| None).collect();
        let mut flying: BTreeMap<TrialId, (usize, f64)> = BTreeMap::new();
        let mut next = 0;
        loop {
            while next < looks.len() && flying.len() < width.max(1) {
                self.check_bounds()?;
                let Look { question, setting, observe, in_place, watch, .. } = &looks[next];
                let mut request = self.request(&question.candidate, setting, observe.clone())?;
                request.watch = watch.clone();
                if *in_place {
                    request.changed.clear();
                    request.ready.clear();
                    request.removed.clear();
                }
                request.changed.extend(setting.variation.files.iter().cloned());
                request.removed.extend(setting.variation.removed.iter().cloned());
                let id = self.number();
                flying.insert(id, (next, self.now()));
                self.pool.submit(id, &request)?;
                next += 1;
            }
            if flying.is_empty() {
                return Ok(ended.into_iter().flatten().collect());
            }
            if self.bounds.interrupted.load(Ordering::Relaxed) {
                flying.keys().for_each(|id| self.pool.drop_trial(*id));
                return Err(OracleError::Stopped(Stop::Interrupted));
            }
            let Event::Finished(outcome) = self.pool.next(Instant::now() + TICK) else { continue };
            let Some((index, at)) = flying.remove(&outcome.id) else {
                self.settle(*outcome)?;
                continue;
            };
            let Look { question, setting, target, .. } = &looks[index];
            let verdict = match target.as_ref().or(self.target.as_ref()) {
                Some(target) => {
                    let locator = Locator::new(&self.original, &question.candidate);
                    judge(&outcome, target, &|frame| locator.locate(frame))
                }
                None => first_look(&outcome),
            };
            self.record(question, &outcome, at, setting.name.clone(), setting.mode, verdict.clone())?;
            ended[index] = Some((*outcome, verdict));
        }
    }

    /// Ends all trials in flight and forgets them.
    pub fn drop_all(&mut self) {
        let flying: Vec<TrialId> = self.flights.keys().copied().collect();
        for id in flying {
            self.pool.drop_trial(id);
        }
        self.account.wasted += self.flights.len() as u64;
        self.flights.clear();
        self.idle_since = None;
    }

    /// Whether the user or a limit wants the run to end.
    ///
    /// # Errors
    /// [`OracleError::Stopped`] with the reason.
    pub fn check_bounds(&self) -> Result<(), OracleError> {
        if self.bounds.interrupted.load(Ordering::Relaxed) {
            return Err(OracleError::Stopped(Stop::Interrupted));
        }
        if Instant::now() >= self.bounds.deadline {
            return Err(OracleError::Stopped(Stop::Time));
        }
        if self.runs >= self.bounds.runs && self.flights.is_empty() {
            return Err(OracleError::Stopped(Stop::Runs));
        }
        Ok(())
    }

    /// Lifts the limits of time and runs: what was found must still be confirmed.
    pub fn extend(&mut self, time: Duration, runs: u64) {
        self.bounds.deadline = self.bounds.deadline.max(Instant::now() + time);
        self.bounds.runs = self.bounds.runs.max(self.runs + runs);
    }

    /// Says how long the search took.
    pub fn set_searched(&mut self, seconds: f64) {
        self.account.searched = seconds;
    }
}

/// What a trial says while nothing is aimed at: any device failure is what we look for.
fn first_look(outcome: &Outcome) -> Verdict {
    if crate::verdict::seen(outcome).is_some() { Verdict::Same } else { judge_without(outcome) }
}
