//! Misses that stand from one sweep to the next.
//!
//! Invariant: a miss is kept only while all that went since is dead text whose words the dropped statements do not set:
//! the candidate would do the very same.

use std::collections::{BTreeMap, BTreeSet};

use super::machine::Set;
use crate::program::{Names, Program, StmtId};

/// Passes whose proposals take away what nothing reads.
const DEAD: [&str; 4] = ["annotations", "imports", "parameters", "targets"];

/// A removal that missed.
#[derive(Clone, Debug)]
struct Miss {
    /// Statements of the original.
    dropped: Vec<StmtId>,
    sets: BTreeSet<String>,
}

/// Removals that missed, by where their statements stood in the original.
#[derive(Clone, Debug, Default)]
pub(super) struct Carry {
    misses: Vec<Miss>,
}

impl Carry {
    /// The misses of a sweep over a program.
    pub(super) fn of(original: &Program, program: &Program, dropped: impl Iterator<Item = Set>) -> Self {
        let names = Names::of(program);
        let before: BTreeMap<StmtId, StmtId> =
            left(original, program).into_iter().map(|(old, new)| (new, old)).collect();
        let miss = |set: Set| {
            let gone = program.statements().iter().map(|one| one.id).filter(|id| set.contains(id.index()));
            let gone: Vec<StmtId> = gone.collect();
            let sets = gone.iter().flat_map(|id| names.set_by(*id)).collect();
            let dropped: Option<Vec<StmtId>> = gone.iter().map(|id| before.get(id).copied()).collect();
            dropped.map(|dropped| Miss { dropped, sets })
        };
        Self { misses: dropped.filter_map(miss).collect() }
    }

    /// Takes a hit of these passes, from one program to the next.
    pub(super) fn passed<'a>(
        &mut self,
        passes: impl Iterator<Item = &'a str>,
        original: &Program,
        before: &Program,
        after: &Program,
    ) {
        if self.misses.is_empty() {
            return;
        }
        let mut passes = passes;
        if !passes.all(|pass| DEAD.contains(&pass)) {
            self.misses.clear();
            return;
        }
        let (old, new) = (Names::of(before), Names::of(after));
        let later = left(original, after);
        let mut lost = BTreeSet::new();
        for statement in before.statements() {
            let now = before.origin(statement.id).and_then(|origin| later.get(&original.at_origin(&origin)?).copied());
            let words = |names: &Names, id| names.read_by(id).union(&names.set_by(id)).cloned().collect();
            let was: BTreeSet<String> = words(&old, statement.id);
            let is: BTreeSet<String> = now.map(|id| words(&new, id)).unwrap_or_default();
            lost.extend(was.difference(&is).cloned());
        }
        self.misses.retain(|miss| miss.sets.is_disjoint(&lost));
    }

    /// The candidates of a program that are known to miss.
    pub(super) fn keeps(&self, original: &Program, program: &Program) -> Vec<Set> {
        let count = program.statements().len();
        let left = left(original, program);
        let here = |miss: &Miss| -> Option<Set> {
            let dropped: Option<Vec<usize>> =
                miss.dropped.iter().map(|old| left.get(old).map(|id| id.index())).collect();
            Some(Set::full(count).difference(&Set::of(count, dropped?)))
        };
        self.misses.iter().filter_map(here).collect()
    }
}

/// Statements of the original to what is left of them, where that is one statement.
fn left(original: &Program, program: &Program) -> BTreeMap<StmtId, StmtId> {
    let mut left = BTreeMap::new();
    let mut twice = BTreeSet::new();
    for statement in program.statements() {
        let before = program.origin(statement.id).and_then(|origin| original.at_origin(&origin));
        if let Some(before) = before
            && left.insert(before, statement.id).is_some()
        {
            twice.insert(before);
        }
    }
    left.retain(|before, _| !twice.contains(before));
    left
}
