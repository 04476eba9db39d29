//! `statements`: statements that a run is likely to do without.
//!
//! Removes calls for their effect, steps of a chain that give a name a new value made from its old one, and whole blocks
//! that do not lead to the failure.
//! Why it is safe to try: the name keeps its earlier value, or nobody reads a result; a trial decides.
//! Cost: one run for all of them, then about two for each that is needed.
//!
//! ```text
//! x = load()           x = load()
//! x = normalise(x) ->  crash(x)
//! log.info(x)
//! crash(x)
//! ```
//!
//! Invariant: nothing on the stack of the failure is proposed. Must not propose a statement that alone binds a name: the
//! sweep tries those, with their readers.

use crate::program::python::{AnyNodeRef, Expr, range};
use crate::program::{Program, StmtId};

use super::Pass;
use super::facts::Facts;
use super::proposal::{Draft, Proposal};
use super::view::View;
use super::walk::{walk, walk_expr};

/// See the module.
pub(super) struct Statements;

const NAME: &str = "statements";

impl Pass for Statements {
    fn name(&self) -> &'static str {
        NAME
    }

    fn proposals(&self, program: &Program, facts: &Facts) -> Vec<Proposal> {
        let mut proposals = Vec::new();
        for view in View::of(program) {
            walk(&view, |node, _| {
                let Some((prior, what)) = judge(&view, node) else { return };
                let Some(id) = view.id(&node) else { return };
                if leads_to_failure(program, facts, id) {
                    return;
                }
                let statement = program.statement(id);
                let draft = Draft::new(NAME, &view, statement.range.start, what, prior);
                proposals.extend(draft.statement(&view, id, &statement.range).finish());
            });
        }
        proposals
    }
}

/// Whether the failing call is in a statement or on the way to it.
fn leads_to_failure(program: &Program, facts: &Facts, id: StmtId) -> bool {
    facts.crash.iter().any(|crash| *crash == id || program.statement(id).contains(*crash))
}

/// The chance that a statement can go, and what kind of statement it is.
fn judge(view: &View<'_>, node: AnyNodeRef<'_>) -> Option<(f64, &'static str)> {
    match node {
        AnyNodeRef::StmtExpr(stmt) => match &*stmt.value {
            Expr::Call(call) => {
                let name = view.text.get(range(&*call.func)).unwrap_or_default();
                let needed = name.starts_with("super(") || name.ends_with(".add_argument") || name.ends_with(".append");
                (!needed).then_some((0.5, "call"))
            }
            Expr::StringLiteral(_) => None,
            _ => Some((0.6, "expression")),
        },
        AnyNodeRef::StmtAugAssign(_) => Some((0.45, "augmented assignment")),
        AnyNodeRef::StmtAssign(stmt) => {
            let [Expr::Name(target)] = stmt.targets.as_slice() else { return None };
            let value = view.text.get(range(&*stmt.value)).unwrap_or_default();
            let mut reads_itself = false;
            walk_expr(&stmt.value, |node| {
                reads_itself |= matches!(node, AnyNodeRef::ExprName(name) if name.id == target.id);
            });
            let moves = [".to(", ".cuda("].iter().any(|call| value.contains(call));
            reads_itself.then_some((if moves { 0.16 } else { 0.5 }, "step"))
        }
        AnyNodeRef::StmtAssert(_) => Some((0.9, "assertion")),
        AnyNodeRef::StmtFor(_) | AnyNodeRef::StmtWhile(_) => Some((0.35, "loop")),
        AnyNodeRef::StmtIf(_) => Some((0.45, "condition")),
        AnyNodeRef::StmtWith(_) => Some((0.25, "with")),
        AnyNodeRef::StmtDelete(_) => Some((0.8, "del")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    #[test]
    fn effects_steps_and_blocks_go_and_what_alone_binds_a_name_stays() {
        check::all(
            &Statements,
            "x = f()\nx = g(x)\nlog.info(x)\nfor i in x:\n    pass\ny = h(x)\n",
            "x = f()\ny = h(x)\n",
        );
        check::nothing(
            &Statements,
            "p.add_argument('--lr')\nsuper().__init__()\nrows.append(1)\nx = f()\ndevice = torch.device()\n",
        );
    }
}
