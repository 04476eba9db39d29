//! The stages of the search: slice, structure, trace and sweep, each with the machine that it asks.
//!
//! Invariant: a stage turns the set that its machine asks about into one candidate, and into words.
//! It must not decide which stage comes next.

use std::sync::Arc;

use super::halving::Halving;
use super::machine::Set;
use super::progression::{HardEdges, Progression};
use super::removals::StatementRemovals;
use super::slice::Cascade;
use super::sweep::Sweep;
use crate::candidate::Candidate;
use crate::data::Data;
use crate::passes::{Proposal, combine};
use crate::plan::Plan;
use crate::program::{Graph, Program, SourceTree, StmtSet};

/// A candidate that was judged `same`, or may be, taken apart.
#[derive(Debug)]
pub(super) struct Incumbent {
    pub(super) program: Arc<Program>,
    pub(super) candidate: Candidate,
    /// Statements and tokens.
    pub(super) size: (usize, usize),
}

impl Incumbent {
    pub(super) fn new(program: Arc<Program>, data: Data) -> Self {
        Self {
            candidate: Candidate::with(program.tree().clone(), data),
            size: (program.statements_count(), program.tokens_count()),
            program,
        }
    }
}

/// What the search is at.
#[derive(Clone)]
pub(super) enum Stage {
    Slice {
        base: Arc<Incumbent>,
        graph: Arc<Graph>,
        machine: Box<Progression<HardEdges>>,
        kind: Kind,
        misses: u32,
    },
    Structure {
        index: usize,
        until: usize,
        base: Arc<Incumbent>,
        proposals: Arc<Vec<Proposal>>,
        machine: Box<Halving>,
        runs: u32,
        /// Misses in a row.
        misses: u32,
    },
    /// Waits for a traced run of the best: what is left of a program runs in another order.
    Trace {
        /// The look before which it is made.
        next: Kind,
    },
    Sweep {
        base: Arc<Incumbent>,
        machine: Box<Sweep<StatementRemovals>>,
        cascade: Box<Cascade>,
    },
    Done,
}

/// Which slice a stage looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing behind the calls on the stack, as far as earlier rounds of a loop do not need it: a look.
    Truncated,
    /// What the graph says the failure needs: a search where that is not enough.
    Whole,
    /// The same for what is left after structure: a look.
    Again,
    /// What the structure after that freed: the same before the sweep looks at what is likely to go.
    Likely,
    /// And before it asks about everything.
    Last,
}

impl Stage {
    /// Phase and pass of a question of this stage.
    pub(super) fn names(&self, why: &'static str, plan: &Plan) -> (&'static str, String) {
        match self {
            Stage::Slice { kind: Kind::Again | Kind::Likely | Kind::Last, .. } => ("slice", "again".to_owned()),
            Stage::Slice { kind: Kind::Truncated, .. } => ("slice", "truncated".to_owned()),
            Stage::Slice { .. } => ("slice", why.to_owned()),
            Stage::Structure { index, .. } => ("structure", plan.stages()[*index].name.clone()),
            Stage::Sweep { .. } => ("sweep", why.to_owned()),
            Stage::Trace { .. } | Stage::Done => ("done", String::new()),
        }
    }

    /// What a question takes away, in words.
    pub(super) fn what(&self, keep: &Set) -> String {
        match self {
            Stage::Slice { base, .. } => {
                format!("keeps {} of {} statements", keep.len(), base.program.statements().len())
            }
            Stage::Structure { proposals, machine, .. } => {
                let new = keep.difference(machine.applied());
                let first = new.iter().next().and_then(|at| proposals.get(at)).map_or("", |one| one.label.as_str());
                format!("{} changes, first: {first}", new.len())
            }
            Stage::Sweep { base, machine, .. } => {
                let gone = machine.present().difference(keep);
                let first = gone.iter().next().and_then(|at| base.program.statements().get(at));
                let text = first.map_or("", |one| base.program.text_of(one.id).lines().next().unwrap_or_default());
                format!("{} statements, first: `{text}`", gone.len())
            }
            Stage::Trace { .. } | Stage::Done => String::new(),
        }
    }

    /// What a question's set stands for; `None` when its text does not parse.
    pub(super) fn candidate(&self, keep: &Set) -> Option<Incumbent> {
        let (base, tree) = match self {
            Stage::Slice { base, .. } => (base, without(&base.program, keep)?),
            Stage::Structure { base, proposals, .. } => {
                let chosen = keep.iter().filter_map(|index| proposals.get(index));
                (base, combine(&base.program, chosen).apply(base.program.tree()).ok()?)
            }
            Stage::Sweep { base, .. } => (base, without(&base.program, keep)?),
            Stage::Trace { .. } | Stage::Done => return None,
        };
        let program = base.program.parse_next(&tree).ok()?;
        if program.opaque().len() > base.program.opaque().len() {
            return None;
        }
        Some(Incumbent::new(Arc::new(program), base.candidate.data.clone()))
    }
}

/// The files of a program with only these statements.
fn without(program: &Program, keep: &Set) -> Option<SourceTree> {
    let mut doomed = StmtSet::new();
    for statement in program.statements() {
        if !keep.contains(statement.id.index()) {
            doomed.insert(statement.id);
        }
    }
    program.tree().with_edits(&program.delete(&doomed)).ok()
}
