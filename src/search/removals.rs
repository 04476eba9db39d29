//! The ways to do without a statement: alone, and together with the later readers of the names that it alone binds.
//!
//! Invariant: a removal is called certain only if the program is certain not to come to the failure then (`Certain`);
//! everything else costs a run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::machine::Set;
use super::sweep::{Removal, Removals};
use crate::program::{Certain, Names, Program, Ran, StmtId, StmtKind};

/// The removals of one program's statements.
#[derive(Clone, Debug)]
pub struct StatementRemovals {
    ground: Arc<Ground>,
}

#[derive(Debug)]
struct Ground {
    program: Arc<Program>,
    certain: Certain,
    /// What was asked before: a sweep asks the same again after each answer.
    known: Mutex<BTreeMap<Set, bool>>,
    /// For each statement: itself with what stands in it, and its later readers with what stands in them.
    table: Vec<(Vec<usize>, Vec<usize>)>,
    /// For each statement: whether it changes what is there already, and who speaks of what it sets.
    uses: Vec<(bool, Vec<usize>)>,
    names: Names,
}

impl StatementRemovals {
    /// The removals of a program that ran so.
    pub fn new(program: &Arc<Program>, ran: Ran) -> Self {
        let names = Names::of(program);
        let count = program.statements().len();
        let mut inside: Vec<Vec<usize>> = (0..count).map(|at| vec![at]).collect();
        for statement in program.statements() {
            for up in program.ancestors(statement.id) {
                inside[up.index()].push(statement.id.index());
            }
        }
        let table = program
            .statements()
            .iter()
            .map(|statement| {
                let own = inside[statement.id.index()].clone();
                let outside = names.readers_of(statement.id).iter().filter(|reader| !own.contains(&reader.index()));
                let readers: BTreeSet<usize> = outside.flat_map(|reader| inside[reader.index()].clone()).collect();
                (own, readers.into_iter().collect())
            })
            .collect();
        let stack: BTreeSet<StmtId> = ran.crash.iter().filter_map(|id| program.enclosing_function(*id)).collect();
        // What calls a function on the stack is how the program comes to its failure.
        let leads: BTreeSet<StmtId> = {
            let callers = ran.calls.iter().filter(|(_, def)| stack.contains(def)).map(|(caller, _)| *caller);
            callers.chain(ran.crash.iter().copied()).collect()
        };
        let index = |ids: Vec<StmtId>| ids.into_iter().map(StmtId::index).collect::<Vec<usize>>();
        let uses = program.statements().iter().map(|one| {
            if one.kind == StmtKind::Return {
                // What nobody calls hands back nothing; what is on the stack did not come to it.
                let def = program.enclosing_function(one.id);
                let callers = def.map(|def| names.speakers_of(program, def)).unwrap_or_default();
                return (def.is_some_and(|def| stack.contains(&def)), index(callers));
            }
            // A library may call a method that the text does not name.
            let is_called = one.kind == StmtKind::FunctionDef && one.parent.is_some();
            let is_block = one.kind.is_compound() && !is_definition(one.kind);
            let sets = !names.set_by(one.id).is_empty() && !is_called && !is_block;
            // A statement that sets nothing is not idle for that.
            let speakers = if sets { index(names.speakers_of(program, one.id)) } else { vec![one.id.index()] };
            // A field of a class may be filled by its place.
            let is_field = one.kind == StmtKind::AnnAssign
                && one.parent.is_some_and(|up| program.statement(up).kind == StmtKind::ClassDef);
            let leads = leads.contains(&one.id) || is_field;
            let speakers = if leads { vec![one.id.index()] } else { speakers };
            (names.is_change(program, one.id) && !leads, speakers)
        });
        let uses = uses.collect();
        let (certain, known) = (Certain::of(program, ran), Mutex::default());
        let ground = Ground { program: Arc::clone(program), certain, known, table, uses, names };
        Self { ground: Arc::new(ground) }
    }

    fn certain(&self, drop: &Set, present: &Set) -> bool {
        let Ground { program, certain, known, .. } = &*self.ground;
        let keep = present.difference(drop);
        if let Some(&known) = known.lock().unwrap_or_else(PoisonError::into_inner).get(&keep) {
            return known;
        }
        // What went before is gone as well.
        let gone = program.statements().iter().map(|one| one.id).filter(|id| !keep.contains(id.index()));
        let is_certain = certain.fail_without(program, &gone.collect());
        known.lock().unwrap_or_else(PoisonError::into_inner).insert(keep, is_certain);
        is_certain
    }
}

fn is_definition(kind: StmtKind) -> bool {
    matches!(kind, StmtKind::FunctionDef | StmtKind::ClassDef)
}

impl Removals for StatementRemovals {
    fn of(&self, element: usize, present: &Set) -> Vec<Removal> {
        let Some((own, readers)) = self.ground.table.get(element) else { return Vec::new() };
        let universe = present.universe();
        let here = |list: &[usize]| list.iter().copied().filter(|at| present.contains(*at)).collect::<Vec<_>>();
        let alone = Set::of(universe, here(own));
        let mut removals = vec![Removal { certain: self.certain(&alone, present), drop: alone.clone() }];
        let readers = here(readers);
        if !readers.is_empty() {
            let drop = alone.union(&Set::of(universe, readers));
            removals.push(Removal { certain: self.certain(&drop, present), drop });
        }
        removals
    }

    fn rank(&self, element: usize, present: &Set) -> usize {
        let Some((is_change, speakers)) = self.ground.uses.get(element) else { return 0 };
        usize::from(!is_change && speakers.iter().any(|speaker| present.contains(*speaker)))
    }

    fn is_inert(&self, gone: &Set, _dropped: &Set, present: &Set) -> bool {
        let Ground { program, names, .. } = &*self.ground;
        let keep = present.difference(gone);
        let ids = |set: &Set| -> BTreeSet<StmtId> {
            program.statements().iter().map(|one| one.id).filter(|id| set.contains(id.index())).collect()
        };
        names.is_dead(program, &ids(gone), &ids(&keep))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::SourceTree;

    fn removals(text: &str, failing: u32, before: &[u32]) -> (StatementRemovals, Set) {
        let program = Arc::new(Program::parse(&SourceTree::from_texts([("a.py", text)])).unwrap());
        let before = before.iter().map(|at| StmtId(*at)).collect();
        let count = program.statements().len();
        let ran = Ran { before, crash: vec![StmtId(failing)], ..Ran::default() };
        (StatementRemovals::new(&program, ran), Set::full(count))
    }

    #[test]
    fn a_definition_that_the_failing_statement_reads_costs_no_run() {
        let (removals, present) = removals("x = f()\ny = g()\ncrash(x)\n", 2, &[0, 1, 2]);
        let of_x = removals.of(0, &present);
        assert_eq!(of_x.iter().map(|one| one.certain).collect::<Vec<_>>(), [true, true]);
        assert_eq!(removals.of(1, &present), [Removal { drop: Set::of(3, [1]), certain: false }]);
        assert!(removals.of(2, &present)[0].certain);
    }

    #[test]
    fn a_reader_that_did_not_run_before_the_failure_proves_nothing() {
        let (removals, present) = removals("x = 1\ny = x\ncrash()\n", 2, &[0, 2]);
        assert!(!removals.of(0, &present)[0].certain);
        assert_eq!(removals.of(0, &present)[1].drop, Set::of(3, [0, 1]));
    }
}
