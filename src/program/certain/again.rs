//! Whether the failing function may be called once its callers are gone.
//!
//! Invariant: it may, unless every statement that is left ran before the failure without calling it, and nothing is left to
//! run after it. Must not be asked about programs that look names up by their text.

use super::super::python::{Expr, Stmt};
use super::super::{Program, StmtId, StmtKind};
use super::kinds::{At, Kind, Kinds};
use super::{Ran, Stack, each_part};

/// Whether something that is left may call the failing function; `live` are the statements that are left and in reach.
pub(super) fn may_call(
    program: &Program,
    kinds: &Kinds<'_>,
    stack: &Stack,
    ran: &Ran,
    live: &dyn Fn(StmtId) -> bool,
) -> bool {
    let [.., caller, failing] = ran.crash.as_slice() else { return true };
    let Some(def) = program.enclosing_function(*failing) else { return true };
    if matches!(program.node(def), Some(Stmt::FunctionDef(node)) if !node.decorator_list.is_empty()) {
        return true;
    }
    let callers: Vec<StmtId> =
        ran.calls.iter().filter(|(_, callee)| *callee == def).map(|(caller, _)| *caller).collect();
    if !callers.contains(caller) || callers.iter().any(|caller| live(*caller)) {
        return true;
    }
    program.statements().iter().map(|one| one.id).filter(|id| live(*id)).any(|id| {
        if stack.next.contains_key(&id) {
            !ends_with_call(program, stack, id)
        } else if ran.has(id) {
            calls_blindly(kinds, id)
        } else {
            !is_idle(program, id)
        }
    })
}

/// Whether the call on the stack is the last thing that a statement does, but for binding names.
fn ends_with_call(program: &Program, stack: &Stack, id: StmtId) -> bool {
    let value = match program.node(id) {
        Some(Stmt::Expr(node)) => &*node.value,
        Some(Stmt::Assign(node)) if node.targets.iter().all(binds_names) => &*node.value,
        Some(Stmt::Return(node)) => match &node.value {
            Some(value) => value,
            None => return false,
        },
        _ => return false,
    };
    let mut ends = 0;
    each_part(value, &mut |part| ends += usize::from(stack.ends(program, id, part)));
    value.is_call_expr() && stack.ends(program, id, value) && ends == 1
}

fn binds_names(target: &Expr) -> bool {
    let mut only = true;
    each_part(target, &mut |part| only &= matches!(part, Expr::Name(_) | Expr::Tuple(_) | Expr::List(_)));
    only
}

/// Whether a statement calls what the text does not tell: another time it may be something else.
fn calls_blindly(kinds: &Kinds<'_>, id: StmtId) -> bool {
    kinds.left.calls.iter().filter(|one| one.at == id).any(|one| {
        let at = At { statement: id, hidden: &one.hidden };
        match kinds.of(at, &one.call.func) {
            Kind::Unknown => !one.call.func.is_attribute_expr(),
            Kind::Instance(_) => true,
            _ => false,
        }
    })
}

/// Whether a statement that did not run before does nothing of its own.
fn is_idle(program: &Program, id: StmtId) -> bool {
    match program.node(id) {
        Some(Stmt::Return(node)) => {
            let mut calls = false;
            node.value.iter().for_each(|value| {
                each_part(value, &mut |part| {
                    calls |=
                        !matches!(part, Expr::Name(_) | Expr::Attribute(_) | Expr::Tuple(_)) && !part.is_literal_expr();
                });
            });
            !calls
        }
        _ => matches!(
            program.statement(id).kind,
            StmtKind::Pass | StmtKind::Break | StmtKind::Continue | StmtKind::Global | StmtKind::FunctionDef
        ),
    }
}
