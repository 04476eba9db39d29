//! Removals that a run notices at one place only: a name that nothing binds any more, or a value that is handed back no more.
//!
//! Invariant: until that place the run is the one that was seen; there, Python itself raises. Must not be asked about
//! programs with handlers.

use std::collections::BTreeSet;

use super::super::names::ScopeKind;
use super::super::python::{Expr, Stmt, ast};
use super::super::{Program, StmtId, StmtKind};
use super::kinds::{At, Kind, Kinds};
use super::names::is_builtin;
use super::sure::{self, Act, Event};
use super::{Certain, each_part, library};

impl Certain {
    /// Whether the run without `gone` is sure to end where it first notices.
    pub(super) fn notices(&self, program: &Program, gone: &BTreeSet<StmtId>, live: &dyn Fn(StmtId) -> bool) -> bool {
        let mut defs = Vec::new();
        for &id in gone {
            if !self.ran.has(id) {
                return false;
            }
            match self.ends_function(program, gone, id) {
                Some(def) => defs.push(def),
                None if self.is_quiet(program, gone, id) => {}
                None => return false,
            }
        }
        let never = |_: StmtId, _: StmtId| false;
        if defs.is_empty() {
            return self.heard_reads.fail_without(program, gone, live, &never);
        }
        let kinds = Kinds::new(program, &self.names, gone, &self.stack.defs);
        // The first of them that runs ends it.
        !self.is_dynamic && defs.into_iter().all(|def| self.is_refused(program, &kinds, def))
    }

    /// The function that a `return` is the last statement of, if it is sure that it ran.
    fn ends_function(&self, program: &Program, gone: &BTreeSet<StmtId>, id: StmtId) -> Option<StmtId> {
        let parent = program.statement(id).parent?;
        let last = program.children(parent).filter(|child| child.id == id || !gone.contains(&child.id)).last()?;
        let ends = program.statement(id).kind == StmtKind::Return && last.id == id && self.heard.contains(&id);
        (ends && program.statement(parent).kind == StmtKind::FunctionDef).then_some(parent)
    }

    /// Whether a statement only binds names, without any effect, and no other statement binds them.
    fn is_quiet(&self, program: &Program, gone: &BTreeSet<StmtId>, id: StmtId) -> bool {
        let scope = self.names.scope_of(id);
        let (target, value) = match program.node(id) {
            Some(Stmt::Assign(node)) if node.targets.len() == 1 => (&node.targets[0], &*node.value),
            Some(Stmt::AnnAssign(node)) => match &node.value {
                Some(value) => (&*node.target, &**value),
                None => return false,
            },
            _ => return false,
        };
        let is_apart = match target {
            Expr::Name(_) => true,
            Expr::Tuple(tuple) => {
                let plain = matches!(value, Expr::Tuple(_) | Expr::Name(_) | Expr::Attribute(_) | Expr::Subscript(_));
                plain && tuple.elts.iter().all(Expr::is_name_expr)
            }
            _ => false,
        };
        let is_inner = program.enclosing_function(id).is_some_and(|def| program.enclosing_function(def).is_some());
        if !is_apart || is_inner || self.names.scopes[scope].kind == ScopeKind::Class {
            return false;
        }
        // What runs text of the project has effects that the statement does not show.
        if self.ran.calls.iter().any(|(caller, _)| *caller == id) || !self.is_pure(scope, value) {
            return false;
        }
        let module = self.names.module(program.statement(id).file);
        sure::names_in(target).iter().all(|name| {
            let Some(home) = self.names.home_of_use(scope, name) else { return false };
            let is_only = |scope: usize| {
                let all = self.names.scopes[scope].bound.get(name).into_iter().flatten();
                all.copied().all(|binder| gone.contains(&binder))
            };
            !is_builtin(name) && is_only(home) && is_only(module)
        })
    }

    /// Whether evaluating an expression changes nothing.
    fn is_pure(&self, scope: usize, expression: &Expr) -> bool {
        let pure = |part: &Expr| self.is_pure(scope, part);
        let is_known = |call: &ast::ExprCall| match &*call.func {
            Expr::Name(name) => {
                let plain = ["abs", "bool", "float", "int", "len", "range", "round", "str"];
                plain.contains(&name.id.as_str()) && self.names.home_of_use(scope, name.id.as_str()).is_none()
            }
            Expr::Attribute(method) => {
                let is_torch = method.value.as_name_expr().is_some_and(|base| base.id.as_str() == "torch");
                is_torch && method.attr.as_str() == "device"
            }
            _ => false,
        };
        match expression {
            Expr::Name(_) => true,
            Expr::Attribute(node) => pure(&node.value),
            Expr::Subscript(node) => pure(&node.value) && pure(&node.slice),
            Expr::Slice(node) => [&node.lower, &node.upper, &node.step].into_iter().flatten().all(|part| pure(part)),
            Expr::Tuple(node) => node.elts.iter().all(pure),
            Expr::List(node) => node.elts.iter().all(pure),
            Expr::Set(node) => node.elts.iter().all(pure),
            Expr::BinOp(node) => pure(&node.left) && pure(&node.right),
            Expr::UnaryOp(node) => pure(&node.operand),
            Expr::BoolOp(node) => node.values.iter().all(pure),
            Expr::Compare(node) => pure(&node.left) && node.comparators.iter().all(pure),
            Expr::Call(call) => {
                is_known(call) && call.arguments.keywords.is_empty() && call.arguments.args.iter().all(pure)
            }
            _ => expression.is_literal_expr(),
        }
    }

    /// Whether every caller of a function refuses `None` from it, before it does anything else.
    fn is_refused(&self, program: &Program, kinds: &Kinds<'_>, def: StmtId) -> bool {
        let Some(Stmt::FunctionDef(node)) = program.node(def) else { return false };
        let is_generator = self.names.scope_in(def).is_none_or(|scope| kinds.left.yields.contains(&scope));
        let is_method = kinds.class_of(def).is_some();
        let name = node.name.as_str();
        let by_library = name.starts_with("__") || is_method && library::may_have(name);
        if is_generator || node.is_async || by_library || !node.decorator_list.is_empty() {
            return false;
        }
        let Some(calls) = kinds.calls_of(def).filter(|calls| !calls.is_empty()) else { return false };
        calls.into_iter().all(|one| {
            let Some(node) = program.node(one.at).filter(|_| self.is_heard(program, one.at)) else { return false };
            let events = sure::events(node, &|_| false, &|_| true);
            events.iter().any(|event| refuses(kinds, one.at, event, one.call))
        })
    }

    /// Whether what a statement raises comes to the program's own end.
    fn is_heard(&self, program: &Program, id: StmtId) -> bool {
        let def = program.enclosing_function(id);
        super::raises_on(program, id) && !def.is_some_and(|def| super::is_named(program, def, "__len__"))
    }
}

/// Whether an event takes the value of a call, at once, in a way that `None` does not stand.
fn refuses(kinds: &Kinds<'_>, statement: StmtId, event: &Event<'_>, call: &ast::ExprCall) -> bool {
    let is_it = |part: &Expr| part.as_call_expr().is_some_and(|part| std::ptr::eq(part, call));
    let calls = |part: &Expr| {
        let mut found = false;
        each_part(part, &mut |part| found |= matches!(part, Expr::Call(_) | Expr::Await(_) | Expr::Yield(_)));
        found
    };
    match (event.act, event.expression) {
        (Act::Unpack | Act::Iterate | Act::Enter, expression) => is_it(expression),
        (Act::Change, _) => false,
        (Act::Value, Expr::Attribute(node)) => is_it(&node.value) && !node.attr.starts_with("__"),
        (Act::Value, Expr::Subscript(node)) => is_it(&node.value) && !calls(&node.slice),
        (Act::Value, Expr::UnaryOp(node)) => is_it(&node.operand) && node.op != ast::UnaryOp::Not,
        (Act::Value, Expr::BinOp(node)) => {
            let is_plain = !matches!(node.op, ast::Operator::BitOr | ast::Operator::Mod);
            is_plain && (is_it(&node.right) || is_it(&node.left) && !calls(&node.right))
        }
        (Act::Value, Expr::Call(outer)) => {
            let [first] = &*outer.arguments.args else { return false };
            let at = At { statement, hidden: &event.hidden };
            let refuses = |kind| matches!(kind, Kind::Library(path) if library::refuses_none(&path));
            outer.arguments.keywords.is_empty() && is_it(first) && refuses(kinds.of(at, &outer.func))
        }
        _ => false,
    }
}
