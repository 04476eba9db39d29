//! The ways to do without a statement: alone, and together with the later readers of the names that it alone binds.
//!
//! Invariant: a removal is called certain only if the failing statement goes with it, or a statement that ran before the
//! failure is sure to read a name that is then bound nowhere; everything else costs a run.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::machine::Set;
use super::sweep::{Removal, Removals};
use crate::program::{Names, Program, StmtId, StmtKind};

/// The removals of one program's statements.
#[derive(Clone, Debug)]
pub struct StatementRemovals {
    table: Arc<Vec<Entry>>,
}

#[derive(Debug)]
struct Entry {
    /// The statement and what stands in it.
    own: Vec<usize>,
    /// Its later readers and what stands in them.
    readers: Vec<usize>,
    /// The failing statement goes with it, or is in it.
    holds_failure: bool,
    /// The failing statement is among the readers, or in one.
    readers_hold_failure: bool,
    /// Readers that are sure to raise a `NameError` before the failure.
    sure: Vec<usize>,
}

impl StatementRemovals {
    /// The removals of a program whose failing statement is `failing`; `before` are the statements that ran before it.
    pub fn new(program: &Program, failing: Option<StmtId>, before: &BTreeSet<StmtId>) -> Self {
        let names = Names::of(program);
        let count = program.statements().len();
        let mut inside: Vec<Vec<usize>> = (0..count).map(|at| vec![at]).collect();
        for statement in program.statements() {
            for up in program.ancestors(statement.id) {
                inside[up.index()].push(statement.id.index());
            }
        }
        let failing = failing.map(StmtId::index);
        let holds = |list: &[usize]| failing.is_some_and(|failing| list.contains(&failing));
        let table = program
            .statements()
            .iter()
            .map(|statement| {
                let own = inside[statement.id.index()].clone();
                let mut readers: Vec<usize> = Vec::new();
                let mut sure = Vec::new();
                for reader in names.readers_of(statement.id) {
                    if own.contains(&reader.index()) {
                        continue;
                    }
                    readers.extend(&inside[reader.index()]);
                    let shadowed = names.facts[statement.id.index()].binds.iter().any(|name| is_builtin(name));
                    if !shadowed && before.contains(reader) && surely_reads(program, *reader) {
                        sure.push(reader.index());
                    }
                }
                readers.sort_unstable();
                readers.dedup();
                Entry { holds_failure: holds(&own), readers_hold_failure: holds(&readers), own, readers, sure }
            })
            .collect();
        Self { table: Arc::new(table) }
    }
}

impl Removals for StatementRemovals {
    fn of(&self, element: usize, present: &Set) -> Vec<Removal> {
        let Some(entry) = self.table.get(element) else { return Vec::new() };
        let universe = present.universe();
        let here = |list: &[usize]| list.iter().copied().filter(|at| present.contains(*at)).collect::<Vec<_>>();
        let alone = Set::of(universe, here(&entry.own));
        let sure = entry.sure.iter().any(|at| present.contains(*at));
        let mut removals = vec![Removal { drop: alone.clone(), certain: entry.holds_failure || sure }];
        let readers = here(&entry.readers);
        if !readers.is_empty() {
            let drop = alone.union(&Set::of(universe, readers));
            removals.push(Removal { drop, certain: entry.holds_failure || entry.readers_hold_failure });
        }
        removals
    }
}

/// Whether a statement that runs is sure to evaluate every name in it, outside of any handler.
fn surely_reads(program: &Program, reader: StmtId) -> bool {
    let statement = program.statement(reader);
    // Annotations may never be evaluated; a header may leave after its first test.
    let plain = matches!(
        statement.kind,
        StmtKind::Expr | StmtKind::Assign | StmtKind::Return | StmtKind::AugAssign | StmtKind::With | StmtKind::For
    );
    let guarded = program.ancestors(reader).any(|up| program.statement(up).kind == StmtKind::Try);
    if !plain || guarded {
        return false;
    }
    let text = match program.children(reader).next() {
        Some(child) => {
            let all = program.text_of(reader);
            let header = child.range.start.saturating_sub(statement.range.start);
            all.get(..header).unwrap_or(all)
        }
        None => program.text_of(reader),
    };
    let words = text.strip_prefix("for ").unwrap_or(text);
    let lazy = ["lambda", " if ", " and ", " or ", " for ", ":="].iter().any(|word| words.contains(word));
    let chained = text.matches(['<', '>']).count() > 1;
    !lazy && !chained
}

/// A name that Python itself binds is still there when the program's own binding goes.
fn is_builtin(name: &str) -> bool {
    const BUILTINS: &[&str] = &[
        "abs", "all", "any", "ascii", "bin", "bool", "breakpoint", "bytearray", "bytes", "callable", "chr", "classmethod",
        "compile", "complex", "copyright", "credits", "delattr", "dict", "dir", "divmod", "enumerate", "eval", "exec",
        "exit", "filter", "float", "format", "frozenset", "getattr", "globals", "hasattr", "hash", "help", "hex", "id",
        "input", "int", "isinstance", "issubclass", "iter", "len", "license", "list", "locals", "map", "max",
        "memoryview", "min", "next", "object", "oct", "open", "ord", "pow", "print", "property", "quit", "range", "repr",
        "reversed", "round", "set", "setattr", "slice", "sorted", "staticmethod", "str", "sum", "super", "tuple", "type",
        "vars", "zip",
    ];
    BUILTINS.binary_search(&name).is_ok() || name.starts_with("__") || name.ends_with("Error") || name == "Exception"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::SourceTree;

    fn removals(text: &str, failing: u32, before: &[u32]) -> (StatementRemovals, Set) {
        let program = Program::parse(&SourceTree::from_texts([("a.py", text)])).unwrap();
        let before = before.iter().map(|at| StmtId(*at)).collect();
        let count = program.statements().len();
        (StatementRemovals::new(&program, Some(StmtId(failing)), &before), Set::full(count))
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
    fn a_name_that_may_not_be_read_costs_a_run() {
        for text in ["x = 1\ny = 2 if c else x\ncrash(y)\n", "x = 1\ny = lambda: x\ncrash(y)\n", "max = 1\ny = max\ncrash(y)\n"] {
            let (removals, present) = removals(text, 2, &[0, 1, 2]);
            assert!(!removals.of(0, &present)[0].certain, "{text}");
        }
    }

    #[test]
    fn a_reader_that_did_not_run_before_the_failure_proves_nothing() {
        let (removals, present) = removals("x = 1\ny = x\ncrash()\n", 2, &[0, 2]);
        assert!(!removals.of(0, &present)[0].certain);
        assert_eq!(removals.of(0, &present)[1].drop, Set::of(3, [0, 1]));
    }
}
