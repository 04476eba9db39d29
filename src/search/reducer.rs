//! The whole search as one state machine: slice, structure, sweep, and again until nothing changes.
//!
//! Invariant: a pure function of the answers so far; a clone with an assumed answer shows what would be asked next.
//! It must not run anything; `drive` asks the oracle.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::carry::Carry;
use super::certificate::{self, Certificate};
use super::halving::{self, Halving};
use super::machine::{Answer, Machine, Set, Step};
use super::removals::StatementRemovals;
use super::slice::{Cascade, slice};
use super::stage::{Incumbent, Kind, Stage};
use super::sweep::Sweep;
use super::traced;
use crate::candidate::{Candidate, CandidateId};
use crate::data::Data;
use crate::oracle::Question;
use crate::passes::Facts;
use crate::plan::Plan;
use crate::program::{Graph, Missing as MissingKind, Observed, Of, Program, Ran, StmtId};
use crate::trial::{Frame, Missing, Trace};
use crate::verdict::Verdict;

pub use super::sweep::Certify;

/// Rounds of structure and sweep; more would only chase what a sweep of a sweep removes.
const ROUNDS: u32 = 4;

/// Stages of the strategy that are worth a repetition after a later slice.
const REPEATED: usize = 2;
/// The rank of statements that are likely to go.
const LIKELY: usize = 0;
/// Misses that end a slice which is only a look.
const LOOKS: u32 = 3;

/// What does not change while the search goes on.
#[derive(Debug)]
struct Ground {
    original: Arc<Program>,
    observed: Observed,
    graph: Arc<Graph>,
    plan: Arc<Plan>,
    certify: Certify,
    entry: Option<String>,
}

/// The search for one program.
#[derive(Clone)]
pub struct Reducer {
    ground: Arc<Ground>,
    best: Arc<Incumbent>,
    stage: Stage,
    /// Keys of proposals that failed alone; they are not tried again.
    tried: Arc<BTreeSet<String>>,
    round: u32,
    /// The truncated slice held.
    truncated: bool,
    open: Option<(Arc<Incumbent>, Question, f64)>,
    certificate: Certificate,
    /// What missed in the last sweep and would miss again.
    carry: Carry,
    /// Statements of the original that the last look at a slice went without, and missed.
    looked: BTreeSet<StmtId>,
    /// The best of which the last traced run was.
    traced: Option<CandidateId>,
}

impl Reducer {
    /// A search from the original, which fails in the way that is to be kept.
    pub fn new(
        original: Arc<Program>,
        observed: Observed,
        entry: Option<String>,
        plan: Arc<Plan>,
        certify: Certify,
    ) -> Self {
        Self::over(original, Data::default(), observed, entry, plan, certify)
    }

    /// The same with what is left of its data.
    pub fn over(
        original: Arc<Program>,
        data: Data,
        observed: Observed,
        entry: Option<String>,
        plan: Arc<Plan>,
        certify: Certify,
    ) -> Self {
        let graph = Arc::new(Graph::build(&original, &observed));
        let best = Arc::new(Incumbent::new(Arc::clone(&original), data));
        let kind = if observed.crash.is_empty() { Kind::Whole } else { Kind::Truncated };
        let machine = Box::new(slice(&original, &observed, &graph, kind == Kind::Truncated));
        let stage = Stage::Slice { base: Arc::clone(&best), graph: Arc::clone(&graph), machine, kind, misses: 0 };
        let ground = Arc::new(Ground { original, observed, graph, plan, certify, entry });
        Self {
            ground,
            best,
            stage,
            tried: Arc::new(BTreeSet::new()),
            round: 0,
            truncated: true,
            open: None,
            certificate: Certificate::default(),
            carry: Carry::default(),
            looked: BTreeSet::new(),
            traced: None,
        }
    }

    /// The smallest candidate so far that fails in the way that is to be kept.
    pub fn best(&self) -> Candidate {
        self.best.candidate.clone()
    }

    /// The same, parsed.
    pub fn program(&self) -> &Arc<Program> {
        &self.best.program
    }

    /// The original, parsed.
    pub fn original(&self) -> &Arc<Program> {
        &self.ground.original
    }

    /// The dependency graph of the original.
    pub fn graph(&self) -> &Graph {
        &self.ground.graph
    }

    /// Statements and tokens of the best.
    pub fn size(&self) -> (usize, usize) {
        self.best.size
    }

    /// What speaks for the result being minimal.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// The next question with the probability that its answer is `same`; `None` at the end.
    pub fn next_question(&mut self) -> Option<(Question, f64)> {
        loop {
            if let Some((_, question, expect)) = &self.open {
                return Some((question.clone(), *expect));
            }
            let step = match &mut self.stage {
                Stage::Slice { misses, kind, .. } if *kind != Kind::Whole && *misses >= LOOKS => Step::Done,
                Stage::Slice { machine, .. } => machine.step(),
                Stage::Structure { machine, runs, misses, index, .. } => {
                    let stage = &self.ground.plan.stages()[*index];
                    let is_spent = |most: Option<u32>, spent: u32| most.is_some_and(|most| spent >= most);
                    let ends = is_spent(stage.max_runs, *runs) || is_spent(stage.max_misses, *misses);
                    if ends { Step::Done } else { machine.step() }
                }
                Stage::Sweep { machine, cascade, .. } => cascade.step(machine),
                Stage::Trace { .. } | Stage::Done => return None,
            };
            let Step::Ask(ask) = step else {
                self.advance();
                continue;
            };
            match self.stage.candidate(&ask.keep) {
                Some(incumbent) if incumbent.candidate.id == self.best.candidate.id => self.answer(&Answer::Hit),
                Some(incumbent) => {
                    let (phase, pass) = self.stage.names(ask.why, &self.ground.plan);
                    let question = Question {
                        candidate: incumbent.candidate.clone(),
                        size: incumbent.size,
                        phase,
                        pass,
                        what: self.stage.what(&ask.keep),
                    };
                    self.open = Some((Arc::new(incumbent), question, ask.expect));
                }
                // Text that does not parse cannot fail in the right way: no run.
                None => self.answer(&Answer::Miss),
            }
        }
    }

    /// Takes the verdict on the open question; says whether there is a new best.
    pub fn mark(&mut self, verdict: &Verdict) -> bool {
        let Some((incumbent, _, _)) = self.open.take() else { return false };
        let taken = match &mut self.stage {
            Stage::Structure { machine, .. } => match machine.step() {
                Step::Ask(ask) => Some(ask.keep.difference(machine.applied())),
                Step::Done => None,
            },
            _ => None,
        };
        if let Stage::Structure { runs, misses, .. } = &mut self.stage {
            *runs += 1;
            *misses = if matches!(verdict, Verdict::Same) { 0 } else { *misses + 1 };
        }
        if let (Stage::Slice { base, kind: Kind::Again | Kind::Likely | Kind::Last, .. }, false) =
            (&self.stage, matches!(verdict, Verdict::Same))
        {
            let original = &self.ground.original;
            self.looked = &origins(original, &base.program) - &origins(original, &incumbent.program);
        }
        let answer = match verdict {
            Verdict::Same => Answer::Hit,
            Verdict::Clean | Verdict::Other { .. } => Answer::Miss,
            Verdict::Unresolved { .. } => Answer::Unresolved,
            Verdict::Invalid { missing, at, .. } => self.named(&incumbent.program, missing.as_ref(), at.as_ref()),
        };
        if answer.is_hit() {
            if let (Stage::Structure { proposals, .. }, Some(keep)) = (&self.stage, &taken) {
                let applied = keep.iter().filter_map(|at| proposals.get(at)).map(|one| one.pass);
                self.carry.passed(applied, &self.ground.original, &self.best.program, &incumbent.program);
            }
            self.best = incumbent;
        }
        self.answer(&answer);
        answer.is_hit()
    }

    fn answer(&mut self, answer: &Answer) {
        match &mut self.stage {
            Stage::Slice { machine, misses, .. } => {
                // An error that names what was missing is worth another look; any other miss ends it.
                *misses += match answer {
                    Answer::Hit => 0,
                    Answer::Named(_) => 1,
                    Answer::Miss | Answer::Unresolved => LOOKS,
                };
                machine.mark(answer);
            }
            Stage::Structure { machine, .. } => {
                // Only the slice can make use of a name.
                let answer = if matches!(answer, Answer::Named(_)) { &Answer::Miss } else { answer };
                machine.mark(answer);
            }
            Stage::Sweep { machine, cascade, .. } => {
                if cascade.take(machine, answer) {
                    return;
                }
                let answer = if matches!(answer, Answer::Named(_)) { &Answer::Miss } else { answer };
                machine.mark(answer);
            }
            Stage::Trace { .. } | Stage::Done => {}
        }
    }

    /// The traced run that the search waits for.
    pub fn wants_trace(&self) -> Option<Question> {
        let Stage::Trace { .. } = self.stage else { return None };
        let what = "what the sweep may tell without a run".to_owned();
        let (candidate, size) = (self.best.candidate.clone(), self.best.size);
        Some(Question { candidate, size, phase: "trace", pass: String::new(), what })
    }

    /// Takes what a traced run of the best showed; nothing where it did not come to the failure.
    pub fn traced(&mut self, trace: Option<(&Trace, &[Frame])>) {
        if let Some((trace, frames)) = trace {
            let Ground { original, observed, .. } = &*self.ground;
            let seen = traced::observed(&self.best.program, trace, frames, &observed.argv);
            let seen = seen.lift(&self.best.program, original);
            if seen.crash == observed.crash {
                self.traced = Some(self.best.candidate.id.clone());
                let ground = &self.ground;
                self.ground = Arc::new(Ground {
                    original: Arc::clone(original),
                    observed: seen,
                    graph: Arc::clone(&ground.graph),
                    plan: Arc::clone(&ground.plan),
                    certify: ground.certify,
                    entry: ground.entry.clone(),
                });
            }
        }
        self.stage = match &self.stage {
            Stage::Trace { next: Kind::Last } => self.sweep(usize::MAX),
            _ => self.slice_again(Kind::Again),
        };
    }

    /// The edges that an error names: the statement that raised it needs one of those that bind the name.
    fn named(&self, program: &Program, missing: Option<&Missing>, at: Option<&Frame>) -> Answer {
        let Stage::Slice { base, graph, .. } = &self.stage else { return Answer::Miss };
        let (Some(missing), Some(at)) = (missing, at) else { return Answer::Miss };
        let original = &self.ground.original;
        let origin_in = |program: &Program, id: StmtId| program.origin(id).and_then(|one| original.at_origin(&one));
        let user = program.statement_at(&at.file, at.line).and_then(|statement| origin_in(program, statement));
        let user = base.program.statements().iter().map(|one| one.id).find(|id| origin_in(&base.program, *id) == user);
        let Some(user) = user else { return Answer::Miss };
        let kind = match missing.kind.as_str() {
            "name" | "unbound" => MissingKind::Name,
            "attribute" => MissingKind::Attribute,
            "key" => MissingKind::Key,
            "module" => MissingKind::Module,
            _ => return Answer::Miss,
        };
        let definers = graph.definers_of(&missing.name, kind);
        let mut edges: Vec<(usize, usize)> = definers
            .into_iter()
            .filter(|definer| *definer != user)
            .map(|definer| (user.index(), definer.index()))
            .collect();
        edges.dedup();
        if edges.is_empty() { Answer::Miss } else { Answer::Named(edges) }
    }

    /// The stage is done; the next one begins.
    fn advance(&mut self) {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Slice { kind: Kind::Truncated, base, graph, .. } if self.best.candidate.id == base.candidate.id => {
                self.truncated = false;
                let machine = Box::new(slice(&base.program, &self.ground.observed, &graph, false));
                Stage::Slice { base, graph, machine, kind: Kind::Whole, misses: 0 }
            }
            Stage::Slice { base, kind, .. } => {
                // What the structure stages freed, the slice takes; what that frees, the first stages take.
                let smaller = self.best.candidate.id != base.candidate.id;
                match (kind, smaller) {
                    (Kind::Again, true) => self.structure(0, REPEATED),
                    // What nothing reads any more goes before the sweep asks about everything.
                    (Kind::Last, true) => self.structure(0, 1),
                    (Kind::Truncated | Kind::Whole, _) => self.structure(0, usize::MAX),
                    _ => self.behind(kind),
                }
            }
            Stage::Structure { index, until, proposals, machine, .. } => {
                let failed = machine.rejected().iter().chain(machine.given_up().iter());
                let keys: Vec<String> = failed.filter_map(|at| proposals.get(at)).map(|one| one.key.clone()).collect();
                Arc::make_mut(&mut self.tried).extend(keys);
                self.structure(index + 1, until)
            }
            Stage::Sweep { base, mut machine, cascade } if machine.is_partial() => {
                if machine.removed() == 0 {
                    machine.widen();
                    Stage::Sweep { base, machine, cascade }
                } else {
                    // What went made more of the text needless: that goes before the rest is asked about.
                    self.carry = Carry::of(&self.ground.original, &base.program, machine.misses());
                    self.structure(0, 1)
                }
            }
            Stage::Sweep { base, machine, .. } => {
                self.certificate = Certificate::of(self.ground.certify, &machine);
                self.carry = Carry::of(&self.ground.original, &base.program, machine.misses());
                self.round += 1;
                let smaller = self.best.candidate.id != base.candidate.id;
                if smaller && self.round < ROUNDS { self.structure(0, 1) } else { Stage::Done }
            }
            Stage::Trace { next } => Stage::Trace { next },
            Stage::Done => Stage::Done,
        };
    }

    /// The structure stage from `index` on that has something to propose, else the sweep.
    fn structure(&mut self, from: usize, until: usize) -> Stage {
        let facts = self.facts();
        let ground = Arc::clone(&self.ground);
        for (index, stage) in ground.plan.stages().iter().enumerate().take(until).skip(from) {
            let proposals = stage.untried(&self.best.program, &facts, &self.tried);
            if proposals.is_empty() {
                continue;
            }
            let weights = proposals
                .iter()
                .map(|one| halving::Proposal { weight: f64::from(one.weight), prior: one.prior })
                .collect();
            if self.round > 0 {
                self.certificate = Certificate::default();
            }
            return Stage::Structure {
                index,
                until,
                base: Arc::clone(&self.best),
                proposals: Arc::new(proposals),
                machine: Box::new(Halving::new(weights)),
                runs: 0,
                misses: 0,
            };
        }
        match (self.round, until) {
            // The sweep stands as it is.
            (1.., _) if self.certificate.kind() != certificate::Kind::None => Stage::Done,
            (0, usize::MAX) if self.ground.observed.crash.is_empty() => self.slice_again(Kind::Again),
            (0, usize::MAX) => Stage::Trace { next: Kind::Again },
            (0, REPEATED) => self.slice_again(Kind::Likely),
            (0, _) => self.slice_again(Kind::Last),
            _ => self.sweep(usize::MAX),
        }
    }

    /// What comes behind a look at a slice.
    fn behind(&self, kind: Kind) -> Stage {
        match kind {
            Kind::Last if self.traced.as_ref().is_some_and(|traced| *traced != self.best.candidate.id) => {
                Stage::Trace { next: Kind::Last }
            }
            Kind::Last => self.sweep(usize::MAX),
            _ => self.sweep(LIKELY),
        }
    }

    /// The slice of the best, by a graph of what is left of it.
    fn slice_again(&self, kind: Kind) -> Stage {
        let base = Arc::clone(&self.best);
        let observed = self.observed();
        let graph = Arc::new(Graph::build(&base.program, &observed));
        let mut machine = Box::new(slice(&base.program, &observed, &graph, self.truncated));
        if let Step::Ask(ask) = machine.step() {
            // A slice without what was missed the last time would miss again.
            let origin = |id: StmtId| base.program.origin(id).and_then(|one| self.ground.original.at_origin(&one));
            let (keeps, drops): (Vec<StmtId>, Vec<StmtId>) =
                base.program.statements().iter().map(|one| one.id).partition(|id| ask.keep.contains(id.index()));
            let is_one = |id: &StmtId| origin(*id).is_some_and(|id| self.looked.contains(&id));
            if drops.iter().any(is_one) && !keeps.iter().any(is_one) {
                return self.behind(kind);
            }
        }
        Stage::Slice { base, graph, machine, kind, misses: 0 }
    }

    fn sweep(&self, most_rank: usize) -> Stage {
        let base = Arc::clone(&self.best);
        let facts = self.facts();
        let removals = StatementRemovals::new(&base.program, self.ran(facts));
        let present = Set::full(base.program.statements().len());
        let mut machine = Sweep::new(present, removals, self.ground.certify).likely(most_rank);
        self.carry.keeps(&self.ground.original, &base.program).into_iter().for_each(|keep| machine.missed(keep));
        let observed = self.observed();
        let cascade = Cascade::new(&base.program, &observed, self.truncated);
        Stage::Sweep { base, machine: Box::new(machine), cascade: Box::new(cascade) }
    }

    /// What the run showed of the best; nothing where its failing statement is not known.
    fn ran(&self, facts: Facts) -> Ran {
        let Ground { original, observed, .. } = &*self.ground;
        let failing = facts.crash.last().and_then(|failing| self.best.program.origin(*failing));
        if failing.and_then(|origin| original.at_origin(&origin)).as_ref() != observed.crash.last() {
            return Ran::default();
        }
        let ran = self.observed().before_failure();
        let of = if self.traced.as_ref() == Some(&self.best.candidate.id) { Of::This } else { Of::Larger };
        Ran { before: self.ran_before(&facts), ran, crash: facts.crash, calls: facts.calls, argv: facts.argv, of }
    }

    /// Statements of the best that ran, for the first time, no later than the failing one.
    fn ran_before(&self, facts: &Facts) -> BTreeSet<StmtId> {
        let Ground { original, observed, .. } = &*self.ground;
        let program = &self.best.program;
        let Some(failing) = observed.crash.last() else { return BTreeSet::new() };
        let Some(until) = observed.first.get(failing) else { return BTreeSet::new() };
        let before: BTreeSet<StmtId> =
            observed.first.iter().filter(|(_, first)| *first <= until).map(|(id, _)| *id).collect();
        let ran = |id: &StmtId| {
            let origin = program.origin(*id).and_then(|origin| original.at_origin(&origin));
            origin.is_some_and(|before_edit| before.contains(&before_edit))
        };
        facts.executed.iter().flatten().copied().filter(ran).chain(facts.crash.last().copied()).collect()
    }

    /// What the trace saw, in statements of the best.
    fn observed(&self) -> Observed {
        self.ground.observed.follow(&self.ground.original, &self.best.program)
    }

    /// The same, as the passes want it.
    fn facts(&self) -> Facts {
        let seen = self.observed();
        Facts {
            executed: (!seen.executed.is_empty()).then_some(seen.executed),
            crash: seen.crash,
            calls: seen.calls,
            entry: self.ground.entry.clone(),
            argv: seen.argv,
        }
    }
}

/// The statements of the original of which something is left.
fn origins(original: &Program, program: &Program) -> BTreeSet<StmtId> {
    let statements = program.statements().iter();
    statements.filter_map(|one| program.origin(one.id).and_then(|origin| original.at_origin(&origin))).collect()
}
