//! The slice: what the dependency graph says the failure needs, as a search and as the cascade of a removal.
//!
//! Invariant: edges come from the graph alone; a truncated slice leaves out only what functions on the stack returned.

use std::collections::BTreeSet;

use super::machine::{Answer, Ask, Machine as _, Set, Step};
use super::progression::{Closures as _, HardEdges, Probe, Problem, Progression};
use super::removals::StatementRemovals;
use super::sweep::Sweep;
use crate::program::{Graph, Need, Observed, Program, Provenance, StmtId, Strength};

/// What a successful removal leaves without a use goes in one run: the slice of what is present.
#[derive(Clone)]
pub(super) struct Cascade {
    needs: HardEdges,
    required: Set,
    /// What the graph takes to be needless, and a run found otherwise.
    spared: Set,
    /// A removal has just hit.
    due: bool,
    /// The open question is the cascade's.
    asked: bool,
}

impl Cascade {
    /// For a program of which the trace saw this much.
    pub(super) fn new(program: &Program, observed: &Observed, truncated: bool) -> Self {
        let graph = Graph::build(program, observed);
        let count = program.statements().len();
        let needs = HardEdges::new(count, hard_edges(program, observed, &graph, truncated));
        let required = Set::of(count, observed.crash.iter().map(|id| id.index()));
        // The last slice asked for it, and missed.
        let all = Set::full(count);
        let spared = all.difference(&needs.closure(&required, &all));
        Self { needs, required, spared, due: false, asked: false }
    }

    /// What is needed of a set.
    fn needed(&self, present: &Set) -> Set {
        self.needs.closure(&self.required.union(&self.spared.intersection(present)), present)
    }

    /// The cascade's question where one is due, else the sweep's.
    pub(super) fn step(&mut self, machine: &mut Sweep<StatementRemovals>) -> Step {
        if self.due && !self.required.is_empty() {
            let present = machine.present();
            let keep = self.needed(present);
            if keep != *present && self.required.is_subset(present) {
                self.asked = true;
                return Step::Ask(Ask { keep, expect: 0.7, why: "sweep cascade" });
            }
            self.due = false;
        }
        machine.step()
    }

    /// Takes the answer if the open question is the cascade's.
    pub(super) fn take(&mut self, machine: &mut Sweep<StatementRemovals>, answer: &Answer) -> bool {
        if !self.asked {
            self.due = answer.is_hit();
            return false;
        }
        self.asked = false;
        self.due = false;
        let keep = self.needed(machine.present());
        if answer.is_hit() {
            machine.shrink(&keep);
        } else {
            self.spared = self.spared.union(&machine.present().difference(&keep));
        }
        true
    }
}

/// The first stage: binary reduction on closures around the crash.
pub(super) fn slice(original: &Program, observed: &Observed, graph: &Graph, truncated: bool) -> Progression<HardEdges> {
    let count = original.statements().len();
    let required = Set::of(count, observed.crash.iter().map(|id| id.index()));
    let executed = Set::of(count, observed.executed.iter().map(|id| id.index()));
    let mut probes = Vec::new();
    if !executed.is_empty() {
        probes.push(Probe { keep: executed.clone(), expect: 0.8, why: "executed before the crash" });
    }
    let weights = (0..count).map(|at| if executed.is_empty() || executed.contains(at) { 1.0 } else { 0.05 }).collect();
    Progression::new(Problem {
        universe: Set::full(count),
        required,
        closures: HardEdges::new(count, hard_edges(original, observed, graph, truncated)),
        soft: graph
            .edges()
            .into_iter()
            .filter(|(_, _, need)| need.strength == Strength::Soft)
            .map(|(user, definer, _)| (user.index(), definer.index()))
            .collect(),
        probes,
        weights,
    })
}

/// What forces what: hard needs and containment; truncated, without what the functions on the stack returned earlier,
/// which may not matter since they have not returned.
fn hard_edges(program: &Program, observed: &Observed, graph: &Graph, truncated: bool) -> Vec<(usize, usize)> {
    let behind = if truncated { behind(program, &observed.crash) } else { BTreeSet::new() };
    let live = |definer: &StmtId, need: &Need| need.provenance != Provenance::Return || !behind.contains(definer);
    let hard = graph.edges().into_iter().filter(|(_, to, need)| need.strength == Strength::Hard && live(to, need));
    let containment = program.statements().iter().filter_map(|one| Some((one.id.index(), one.parent?.index())));
    hard.map(|(user, definer, _)| (user.index(), definer.index())).chain(containment).collect()
}

/// Statements that stand behind a call on the stack, in its own function: a truncated run never comes to them.
fn behind(program: &Program, crash: &[StmtId]) -> BTreeSet<StmtId> {
    let mut behind = BTreeSet::new();
    for call in crash {
        let function = program.enclosing_function(*call);
        let file = program.statement(*call).file;
        let here = program.statements().iter().filter(|one| one.file == file && one.id > *call);
        let mates = here.filter(|one| program.enclosing_function(one.id) == function);
        behind.extend(mates.filter(|one| !program.statement(*call).contains(one.id)).map(|one| one.id));
    }
    behind
}
