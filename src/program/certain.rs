//! Which removals are certain to end in a `NameError` before the failure, so that they need no run.
//!
//! Invariant: it errs on the side of a run. A read counts only where Python is sure to evaluate it (no lambda, no second
//! operand of `and`, no annotation), in a program without handlers, and where no other binding can come before it.

use std::collections::{BTreeMap, BTreeSet};

use super::names::{Names, ScopeKind};
use super::python::visitor::{self, Visitor};
use super::python::{Expr, ExprContext, Stmt, ast};
use super::{Program, StmtId, StmtKind};

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
pub struct SureReads {
    entries: Vec<Entry>,
    by_binder: BTreeMap<StmtId, Vec<usize>>,
}

impl SureReads {
    /// Collects them; `before` are the statements that ran no later than the failing one.
    pub fn of(program: &Program, before: &BTreeSet<StmtId>) -> Self {
        let mut sure = Self { entries: Vec::new(), by_binder: BTreeMap::new() };
        if has_handlers(program) {
            return sure;
        }
        let names = Names::of(program);
        let mut found: BTreeMap<(usize, String), Entry> = BTreeMap::new();
        for statement in program.statements() {
            let reader = statement.id;
            let Some(node) = program.node(reader).filter(|_| before.contains(&reader)) else { continue };
            let scope = names.scope_of(reader);
            for name in sure_loads(node) {
                if is_builtin(&name) {
                    continue;
                }
                let Some(home) = names.home_of_use(scope, &name) else { continue };
                let Some(binders) = names.scopes[home].bound.get(&name) else { continue };
                let local = names.scopes[home].kind == ScopeKind::Function && home == scope;
                let entry = found.entry((home, name)).or_insert_with(|| Entry {
                    binders: binders.clone(),
                    readers: Vec::new(),
                    local,
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
    pub fn fail_without(&self, program: &Program, gone: &BTreeSet<StmtId>) -> bool {
        let entries: BTreeSet<usize> = gone.iter().filter_map(|id| self.by_binder.get(id)).flatten().copied().collect();
        entries.into_iter().any(|index| {
            let entry = &self.entries[index];
            entry.readers.iter().any(|reader| {
                let left = |binder: &&StmtId| !gone.contains(binder) && *binder != reader;
                !gone.contains(reader)
                    && entry
                        .binders
                        .iter()
                        .filter(left)
                        .all(|binder| entry.local && comes_after(program, *binder, *reader))
            })
        })
    }
}

/// A binding that stands behind the read in the same function body cannot come before it, unless a loop holds both.
fn comes_after(program: &Program, binder: StmtId, reader: StmtId) -> bool {
    let in_loop = program.ancestors(reader).any(|up| {
        let is_loop = matches!(program.statement(up).kind, StmtKind::For | StmtKind::While);
        is_loop && program.statement(up).contains(binder)
    });
    binder > reader && !in_loop && !program.statement(binder).contains(reader)
}

/// A handler may catch the `NameError`; text that is run by name may bind or read anything.
fn has_handlers(program: &Program) -> bool {
    let handler = program.statements().iter().any(|statement| match program.node(statement.id) {
        Some(Stmt::Try(node)) => !node.handlers.is_empty(),
        _ => statement.kind == StmtKind::Opaque,
    });
    let words = ["exec(", "eval(", "globals(", "locals(", "import *", "suppress("];
    handler || program.tree().files.values().any(|file| words.iter().any(|word| file.text().contains(word)))
}

/// Names that a statement, once it runs, is sure to read, before or without anything that its body does.
fn sure_loads(node: &Stmt) -> BTreeSet<String> {
    let mut sure = Sure::default();
    match node {
        Stmt::Expr(node) => sure.visit_expr(&node.value),
        Stmt::Assign(node) => {
            sure.visit_expr(&node.value);
            node.targets.iter().for_each(|target| sure.visit_expr(target));
        }
        Stmt::AugAssign(node) => {
            if let Expr::Name(name) = &*node.target {
                sure.names.insert(name.id.to_string());
            }
            sure.visit_expr(&node.target);
            sure.visit_expr(&node.value);
        }
        Stmt::AnnAssign(node) => node.value.iter().for_each(|value| sure.visit_expr(value)),
        Stmt::Return(node) => node.value.iter().for_each(|value| sure.visit_expr(value)),
        Stmt::For(node) => sure.visit_expr(&node.iter),
        Stmt::If(node) => sure.visit_expr(&node.test),
        Stmt::While(node) => sure.visit_expr(&node.test),
        Stmt::With(node) => node.items.iter().for_each(|item| sure.visit_expr(&item.context_expr)),
        Stmt::Assert(node) => sure.visit_expr(&node.test),
        Stmt::Raise(node) => node.exc.iter().for_each(|value| sure.visit_expr(value)),
        Stmt::FunctionDef(node) => {
            node.decorator_list.iter().for_each(|one| sure.visit_expr(&one.expression));
            for parameter in node.parameters.iter_non_variadic_params() {
                parameter.default.iter().for_each(|value| sure.visit_expr(value));
            }
        }
        Stmt::ClassDef(node) => {
            node.decorator_list.iter().for_each(|one| sure.visit_expr(&one.expression));
            if let Some(arguments) = &node.arguments {
                arguments.args.iter().for_each(|base| sure.visit_expr(base));
                arguments.keywords.iter().for_each(|keyword| sure.visit_expr(&keyword.value));
            }
        }
        _ => {}
    }
    sure.names
}

#[derive(Default)]
struct Sure {
    names: BTreeSet<String>,
}

impl Sure {
    /// Only the first iterable of a comprehension is sure to be evaluated.
    fn comprehension(&mut self, generators: &[ast::Comprehension]) {
        generators.iter().take(1).for_each(|first| self.visit_expr(&first.iter));
    }
}

impl<'a> Visitor<'a> for Sure {
    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Name(name) => {
                if name.ctx == ExprContext::Load {
                    self.names.insert(name.id.to_string());
                }
            }
            Expr::Lambda(node) => {
                for parameter in node.parameters.iter().flat_map(|parameters| parameters.iter_non_variadic_params()) {
                    parameter.default.iter().for_each(|value| self.visit_expr(value));
                }
            }
            Expr::If(node) => self.visit_expr(&node.test),
            Expr::BoolOp(node) => node.values.iter().take(1).for_each(|value| self.visit_expr(value)),
            Expr::Compare(node) => {
                self.visit_expr(&node.left);
                node.comparators.iter().take(1).for_each(|value| self.visit_expr(value));
            }
            Expr::ListComp(node) => self.comprehension(&node.generators),
            Expr::SetComp(node) => self.comprehension(&node.generators),
            Expr::DictComp(node) => self.comprehension(&node.generators),
            Expr::Generator(node) => self.comprehension(&node.generators),
            _ => visitor::walk_expr(self, expression),
        }
    }

    fn visit_annotation(&mut self, _: &'a Expr) {}
}

/// A name that Python itself binds is still there when the program's own binding goes.
fn is_builtin(name: &str) -> bool {
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
        && ["Error", "Exception", "Warning", "Exit", "Interrupt", "Iteration", "Ellipsis", "NotImplemented"]
            .iter()
            .any(|end| name.ends_with(end));
    BUILTINS.binary_search(&name).is_ok() || name.starts_with("__") || exception
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::SourceTree;

    fn fails(text: &str, gone: &[u32]) -> bool {
        let program = Program::parse(&SourceTree::from_texts([("a.py", text)])).unwrap();
        let all = program.statements().iter().map(|one| one.id).collect();
        SureReads::of(&program, &all).fail_without(&program, &gone.iter().map(|at| StmtId(*at)).collect())
    }

    #[test]
    fn a_name_that_is_sure_to_be_read_fails_without_its_binding() {
        assert!(fails("x = f()\ncrash(x)\n", &[0]));
        assert!(fails("import torch\ny = torch.zeros(1)\n", &[0]));
        assert!(fails("def f():\n    m = g()\n    m = m.to(d)\n    crash(m)\nf()\n", &[1]));
        assert!(fails("with open(p) as h:\n    rows = list(h)\ncrash(rows)\n", &[0, 1]));
        assert!(fails("x = [1]\ny = [i for i in x]\n", &[0]));
    }

    #[test]
    fn a_name_that_may_not_be_read_or_may_be_bound_otherwise_does_not() {
        assert!(!fails("x = 1\ny = 2 if c else x\n", &[0]));
        assert!(!fails("x = 1\ny = lambda: x\n", &[0]));
        assert!(!fails("x = 1\ny = c and x\n", &[0]));
        assert!(!fails("x = 1\ny = [x for i in c]\n", &[0]));
        assert!(!fails("max = 1\ny = max\n", &[0]));
        assert!(!fails("x = 1\ny: x = 2\n", &[0]));
        assert!(!fails("m = g()\nm = m.to(d)\ncrash(m)\n", &[1]));
        assert!(!fails("def f():\n    for i in r:\n        print(x)\n        x = 1\nx = 2\n", &[4]));
        assert!(!fails("x = f()\ntry:\n    crash(x)\nexcept NameError:\n    pass\n", &[0]));
    }
}
