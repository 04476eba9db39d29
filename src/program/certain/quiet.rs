//! Removals that a run notices at one place only: a name that nothing binds any more, or a value that is handed back no more.
//!
//! Invariant: until that place the run is the one that was seen; there, Python itself raises. Must not be asked about
//! programs with handlers.

use std::collections::BTreeSet;

use super::super::names::ScopeKind;
use super::super::python::{Expr, Stmt, ast};
use super::super::{Program, StmtId, StmtKind, modules};
use super::checks::Checks;
use super::kinds::{At, Kind, Kinds};
use super::left::terminal;
use super::names::{is_builtin, sure_loads};
use super::sooner::behind;
use super::sure::{self, Act, Event};
use super::{Certain, Of, Part, each_part, library, live};

impl Certain {
    /// Whether the run without `gone` is sure to end where it first notices.
    pub(super) fn notices(&self, kinds: &Kinds<'_>, reached: &BTreeSet<StmtId>) -> bool {
        let Kinds { program, gone, .. } = *kinds;
        let mut defs = Vec::new();
        for id in heads(program, gone) {
            if !self.ran.has(id) {
                return false;
            }
            match self.ends_function(program, gone, id) {
                Some(def) => defs.push(def),
                None if self.is_quiet(kinds, id) => {}
                None => return false,
            }
        }
        let Part { reads, all, trusts_values } = &self.heard;
        if defs.is_empty() {
            let live = |id: StmtId| all.contains(&id) && live::is_live(program, reached, id);
            let seen = |_: StmtId| self.ran.of == Of::This;
            return reads.fail_without(program, gone, &live)
                || *trusts_values && self.has_fault(kinds, reached, all, &seen);
        }
        // The first of them that runs ends it.
        !self.is_dynamic && defs.into_iter().all(|def| self.is_refused(program, kinds, def))
    }

    /// Whether what is gone stands in one block, and what follows it there reads a name that nothing binds any more, before
    /// the failure may come.
    pub(super) fn misses_straight(&self, kinds: &Kinds<'_>) -> bool {
        let Kinds { program, gone, .. } = *kinds;
        // What has no effect is noticed by a read of its name, which fails as well.
        let is_quiet = |id: &StmtId| self.ran.has(*id) && self.is_quiet(kinds, *id);
        let heads: Vec<StmtId> = heads(program, gone).into_iter().filter(|id| !is_quiet(id)).collect();
        let Some(&first) = heads.first() else { return false };
        let own = program.statement(first);
        let beside = |id: &StmtId| {
            let one = program.statement(*id);
            (one.parent, one.file, one.arm) == (own.parent, own.file, own.arm)
        };
        if !heads.iter().all(beside) || !self.heard.all.contains(&first) {
            return false;
        }
        let may_fail = |id: StmtId| {
            let one = program.statement(id);
            let blind = || self.leads_blindly && !calls_by_name(kinds, id);
            self.ran.crash.iter().any(|crash| one.contains(*crash))
                || self.mentions.names_any(program, id, &self.leads)
                || blind()
        };
        let mut bound: BTreeSet<&String> = BTreeSet::new();
        let names = |id: StmtId| self.names.facts(id).binds.iter();
        bound.extend(names(first));
        for id in behind(program, first, &may_fail) {
            if gone.contains(&id) {
                bound.extend(names(id));
                continue;
            }
            let Some(node) = program.node(id) else { return false };
            let loads = sure_loads(program, &self.stack, id, node);
            let scope = self.names.scope_of(id);
            let is_missed = |name: &String| bound.contains(name) && self.is_unbound(gone, scope, name);
            if self.heard.all.contains(&id) && loads.iter().any(is_missed) {
                return true;
            }
        }
        false
    }

    /// Whether no binding of a name is left, wherever it may be looked for.
    fn is_unbound(&self, gone: &BTreeSet<StmtId>, scope: usize, name: &String) -> bool {
        let Some(home) = self.names.home_of_use(scope, name) else { return false };
        let around = std::iter::successors(Some(home), |up| self.names.scopes[*up].parent);
        let mut binders = around.filter_map(|up| self.names.scopes[up].bound.get(name)).flatten();
        let is_open =
            self.names.scopes[home].kind == ScopeKind::Module && (self.is_dynamic || self.outside.contains(name));
        !is_open && !is_builtin(name) && binders.all(|binder| gone.contains(binder))
    }

    /// The function that a `return` is the last statement of, if it is sure that it ran.
    fn ends_function(&self, program: &Program, gone: &BTreeSet<StmtId>, id: StmtId) -> Option<StmtId> {
        let parent = program.statement(id).parent?;
        let last = program.children(parent).filter(|child| child.id == id || !gone.contains(&child.id)).last()?;
        let ends = program.statement(id).kind == StmtKind::Return && last.id == id && self.heard.all.contains(&id);
        (ends && program.statement(parent).kind == StmtKind::FunctionDef).then_some(parent)
    }

    /// Whether a statement only binds names, without any effect, and no other statement binds them.
    fn is_quiet(&self, kinds: &Kinds<'_>, id: StmtId) -> bool {
        let Kinds { program, gone, .. } = *kinds;
        let scope = self.names.scope_of(id);
        let (target, value) = match program.node(id) {
            Some(Stmt::Assign(node)) if node.targets.len() == 1 => (&node.targets[0], &*node.value),
            Some(Stmt::AnnAssign(node)) => match &node.value {
                Some(value) => (&*node.target, &**value),
                None => return kinds.class_of(id).is_some_and(|class| self.refuses_fields(kinds, class)),
            },
            Some(Stmt::Import(_) | Stmt::ImportFrom(_) | Stmt::FunctionDef(_) | Stmt::ClassDef(_)) => {
                return self.defines_quietly(program, scope, id)
                    && self.names.facts(id).binds.iter().all(|name| self.is_unbound(gone, scope, name));
            }
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
        sure::names_in(target).iter().all(|name| self.is_unbound(gone, scope, name))
    }

    /// Whether a definition or an import does nothing but bind its names.
    fn defines_quietly(&self, program: &Program, scope: usize, id: StmtId) -> bool {
        let file = program.statement(id).file;
        match program.node(id) {
            Some(Stmt::FunctionDef(def)) => {
                let pure = |one: &Expr| self.is_pure(scope, one);
                let is_plain = self.names.scopes[scope].kind != ScopeKind::Class && def.decorator_list.is_empty();
                is_plain && def.parameters.iter_non_variadic_params().all(|one| one.default().is_none_or(pure))
            }
            Some(Stmt::ClassDef(class)) => {
                let quiet = |child: &super::super::Statement| match program.node(child.id) {
                    Some(Stmt::FunctionDef(def)) => def.decorator_list.is_empty(),
                    Some(Stmt::Pass(_)) => true,
                    Some(Stmt::Assign(node)) => self.is_pure(scope, &node.value),
                    Some(Stmt::AnnAssign(node)) => node.value.iter().all(|value| self.is_pure(scope, value)),
                    _ => false,
                };
                let is_data = |one: &ast::Decorator| {
                    let plain = matches!(&one.expression, Expr::Name(_) | Expr::Attribute(_));
                    plain && terminal(&one.expression) == Some("dataclass")
                };
                class.decorator_list.iter().all(is_data) && class.arguments.is_none() && program.children(id).all(quiet)
            }
            Some(Stmt::Import(import)) => {
                import.names.iter().all(|alias| modules::find(program, file, 0, &alias.name).is_none())
            }
            Some(Stmt::ImportFrom(import)) => import.level == 0 && modules::source_of(program, file, import).is_none(),
            _ => false,
        }
    }

    /// Whether every call of a data class gives it more than it has fields left.
    fn refuses_fields(&self, kinds: &Kinds<'_>, class: StmtId) -> bool {
        let checks = Checks { kinds, ran: &|_| false, is_dynamic: self.is_dynamic, has_open_options: true };
        let calls = kinds.calls_of(class).filter(|calls| !calls.is_empty());
        calls.is_some_and(|calls| calls.into_iter().all(|one| checks.gives_too_much(class, one.call)))
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
                // Generators have a state of their own.
                let makes = ["RandomState", "default_rng", "Random", "Generator"].contains(&method.attr.as_str());
                is_torch && method.attr.as_str() == "device" || makes && pure(&method.value)
            }
            _ => false,
        };
        match expression {
            Expr::Name(_) => true,
            Expr::Attribute(node) => pure(&node.value),
            Expr::Subscript(node) => self.reads_items && pure(&node.value) && pure(&node.slice),
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
        let checks = Checks { kinds, ran: &|_| false, is_dynamic: self.is_dynamic, has_open_options: true };
        calls.into_iter().all(|one| {
            let Some(node) = program.node(one.at).filter(|_| self.is_heard(program, one.at)) else { return false };
            let events = sure::events(node, &|_| false, &|_| true);
            events.iter().any(|event| refuses(&checks, one.at, event, one.call))
        })
    }

    /// Whether what a statement raises comes to the program's own end.
    fn is_heard(&self, program: &Program, id: StmtId) -> bool {
        let def = program.enclosing_function(id);
        super::raises_on(program, id) && !def.is_some_and(|def| super::is_named(program, def, "__len__"))
    }
}

/// Whether an event takes the value of a call, at once, in a way that `None` does not stand.
fn refuses(checks: &Checks<'_, '_>, statement: StmtId, event: &Event<'_>, call: &ast::ExprCall) -> bool {
    let kinds = checks.kinds;
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
            let at = At { statement, hidden: &event.hidden };
            let takes = |other: &Expr| checks.is_plain(at, other) && !calls(other);
            is_plain && (is_it(&node.right) && takes(&node.left) || is_it(&node.left) && takes(&node.right))
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

/// Whether a statement, with all in it, calls only what the text names.
fn calls_by_name(kinds: &Kinds<'_>, id: StmtId) -> bool {
    let own = kinds.program.statement(id);
    let inside = kinds.program.statements().iter().filter(|one| own.contains(one.id));
    !inside.into_iter().any(|one| one.kind == StmtKind::For)
        && kinds.left.calls.iter().filter(|one| own.contains(one.at)).all(|one| {
            let at = At { statement: one.at, hidden: &one.hidden };
            let method = one.call.func.is_attribute_expr();
            method || matches!(kinds.of(at, &one.call.func), Kind::Library(_) | Kind::Function(_) | Kind::Class(_))
        })
}

/// The outermost of what is gone, less what does nothing.
fn heads(program: &Program, gone: &BTreeSet<StmtId>) -> Vec<StmtId> {
    let is_inside = |id: &StmtId| program.ancestors(*id).any(|up| gone.contains(&up));
    let is_idle = |id: &StmtId| program.statement(*id).kind == StmtKind::Pass;
    gone.iter().copied().filter(|id| !is_inside(id) && !is_idle(id)).collect()
}
