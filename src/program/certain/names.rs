//! Which removals are certain to end in a `NameError` before the failure, so that they need no run.
//!
//! Invariant: a read counts only in a sure event, and where no other binding can come before it. Must not know handlers.

use std::collections::{BTreeMap, BTreeSet};

use super::super::names::{Names, ScopeKind};
use super::super::python::visitor::{self, Visitor};
use super::super::python::{Expr, ExprContext, Stmt};
use super::super::{Program, StmtId, StmtKind};
use super::Stack;
use super::sure::{self, Act};

/// A name of one scope: who binds it, who is sure to read it.
#[derive(Debug, Default)]
struct Entry {
    binders: Vec<StmtId>,
    readers: Vec<StmtId>,
    /// The scope is a function's: each call has names of its own.
    local: bool,
}

/// Sure reads of a program's names.
#[derive(Debug)]
pub(super) struct SureReads {
    entries: Vec<Entry>,
    by_binder: BTreeMap<StmtId, Vec<usize>>,
}

impl SureReads {
    /// Collects them from the statements that are sure to run before the failure.
    pub(super) fn of(
        program: &Program,
        names: &Names,
        before: &BTreeSet<StmtId>,
        stack: &Stack,
        is_open: &dyn Fn(&str) -> bool,
    ) -> Self {
        let mut sure = Self { entries: Vec::new(), by_binder: BTreeMap::new() };
        let mut found: BTreeMap<(usize, String), Entry> = BTreeMap::new();
        for statement in program.statements() {
            let reader = statement.id;
            let Some(node) = program.node(reader).filter(|_| before.contains(&reader)) else { continue };
            let scope = names.scope_of(reader);
            for name in sure_loads(program, stack, reader, node) {
                if is_builtin(&name) {
                    continue;
                }
                let Some(home) = names.home_of_use(scope, &name) else { continue };
                let Some(binders) = names.scopes[home].bound.get(&name) else { continue };
                // A name of a module may be set from outside.
                let is_global = names.scopes[home].kind == ScopeKind::Module;
                if is_global && is_open(&name) {
                    continue;
                }
                let local = names.scopes[home].kind == ScopeKind::Function && home == scope;
                let entry = found.entry((home, name.clone())).or_insert_with(|| {
                    // Without a binding in its function a name is that of a scope further out.
                    let outer = std::iter::successors(names.scopes[home].parent, |up| names.scopes[*up].parent);
                    let outer = outer.filter(|up| names.scopes[*up].kind != ScopeKind::Class);
                    let wider = outer.filter_map(|up| names.scopes[up].bound.get(&name)).flatten();
                    Entry { binders: binders.iter().chain(wider).copied().collect(), readers: Vec::new(), local }
                });
                entry.local &= local;
                entry.readers.push(reader);
            }
        }
        for (index, (_, entry)) in found.into_iter().enumerate() {
            for binder in &entry.binders {
                sure.by_binder.entry(*binder).or_default().push(index);
            }
            sure.entries.push(entry);
        }
        sure
    }

    /// Whether the program without `gone` is sure to raise a `NameError` before the failure.
    pub(super) fn fail_without(
        &self,
        program: &Program,
        gone: &BTreeSet<StmtId>,
        is_live: &dyn Fn(StmtId) -> bool,
    ) -> bool {
        let entries: BTreeSet<usize> = gone.iter().filter_map(|id| self.by_binder.get(id)).flatten().copied().collect();
        entries.into_iter().any(|index| {
            let entry = &self.entries[index];
            entry.readers.iter().any(|reader| {
                let left = |binder: &&StmtId| !gone.contains(binder) && *binder != reader;
                !gone.contains(reader)
                    && is_live(*reader)
                    && entry
                        .binders
                        .iter()
                        .filter(left)
                        .all(|binder| entry.local && comes_after(program, *binder, *reader))
            })
        })
    }
}

/// Attributes that the text sets on something else than a method's own object.
pub(super) fn set_from_outside(program: &Program, names: &Names) -> BTreeSet<String> {
    struct Stores<'n> {
        own: Option<&'n str>,
        found: BTreeSet<String>,
    }
    impl<'p> Visitor<'p> for Stores<'_> {
        fn visit_expr(&mut self, expression: &'p Expr) {
            if let Expr::Attribute(attribute) = expression
                && attribute.ctx != ExprContext::Load
                && attribute.value.as_name_expr().is_none_or(|base| Some(base.id.as_str()) != self.own)
            {
                self.found.insert(attribute.attr.to_string());
            }
            visitor::walk_expr(self, expression);
        }
    }
    let mut stores = Stores { own: None, found: BTreeSet::new() };
    for statement in program.statements() {
        let Some(node) = program.node(statement.id) else { continue };
        stores.own = names.receiver(statement.id).map(|(_, own)| own);
        sure::header(node).into_iter().for_each(|part| stores.visit_expr(part));
    }
    stores.found
}

/// A binding that stands behind the read in the same function body cannot come before it, unless a loop holds both.
fn comes_after(program: &Program, binder: StmtId, reader: StmtId) -> bool {
    let in_loop = program.ancestors(reader).any(|up| {
        let is_loop = matches!(program.statement(up).kind, StmtKind::For | StmtKind::While);
        is_loop && program.statement(up).contains(binder)
    });
    let is_beside = program.enclosing_function(binder) == program.enclosing_function(reader);
    binder > reader && is_beside && !in_loop && !program.statement(binder).contains(reader)
}

/// Names that a statement, once it runs, is sure to read, before or without anything that its body does.
pub(super) fn sure_loads(program: &Program, stack: &Stack, reader: StmtId, node: &Stmt) -> BTreeSet<String> {
    let ends = |expression: &Expr| stack.ends(program, reader, expression);
    let events = sure::events(node, &ends, &|_| false);
    let loads = events.into_iter().filter_map(|event| match event.expression {
        Expr::Name(name) if event.act == Act::Change || name.ctx == ExprContext::Load => Some(name.id.to_string()),
        _ => None,
    });
    loads.collect()
}

/// A name that Python itself binds is still there when the program's own binding goes.
pub(in crate::program) fn is_builtin(name: &str) -> bool {
    const BUILTINS: &[&str] = &[
        "abs",
        "aiter",
        "all",
        "anext",
        "any",
        "ascii",
        "bin",
        "bool",
        "breakpoint",
        "bytearray",
        "bytes",
        "callable",
        "chr",
        "classmethod",
        "compile",
        "complex",
        "copyright",
        "credits",
        "delattr",
        "dict",
        "dir",
        "divmod",
        "enumerate",
        "eval",
        "exec",
        "exit",
        "filter",
        "float",
        "format",
        "frozenset",
        "getattr",
        "globals",
        "hasattr",
        "hash",
        "help",
        "hex",
        "id",
        "input",
        "int",
        "isinstance",
        "issubclass",
        "iter",
        "len",
        "license",
        "list",
        "locals",
        "map",
        "max",
        "memoryview",
        "min",
        "next",
        "object",
        "oct",
        "open",
        "ord",
        "pow",
        "print",
        "property",
        "quit",
        "range",
        "repr",
        "reversed",
        "round",
        "set",
        "setattr",
        "slice",
        "sorted",
        "staticmethod",
        "str",
        "sum",
        "super",
        "tuple",
        "type",
        "vars",
        "zip",
    ];
    let exception = name.chars().next().is_some_and(char::is_uppercase)
        && [
            "Error",
            "Exception",
            "Warning",
            "Exit",
            "Interrupt",
            "Iteration",
            "ExceptionGroup",
            "Ellipsis",
            "NotImplemented",
        ]
        .iter()
        .any(|end| name.ends_with(end));
    BUILTINS.binary_search(&name).is_ok() || name.starts_with("__") || exception
}
