//! `arms`: arms that did not run.
//!
//! Removes `elif`, `else`, `except` and `finally` clauses that the trace did not see, first arms before the one that ran,
//! and of `a if c else b` one of the two.
//! Why it is safe to try: what did not run before the failure cannot have caused it.
//! Cost: one run for all of them, as a rule.
//!
//! ```text
//! if a:            if a:
//!     x()     ->       x()
//! else:
//!     y()
//! ```
//!
//! Invariant: a `try` keeps a handler or its `finally`. Must not touch arms that ran: deleting statements does that.

use crate::program::Program;
use crate::program::python::{AnyNodeRef, Stmt, ast, range};

use super::Pass;
use super::facts::Facts;
use super::peel::{Clause, clause_lines, tail};
use super::proposal::{Draft, Proposal};
use super::view::View;
use super::walk::walk;

/// See the module.
pub(super) struct Arms;

const NAME: &str = "arms";
const CERTAIN: f64 = 0.95;
const UNKNOWN: f64 = 0.4;

impl Pass for Arms {
    fn name(&self) -> &'static str {
        NAME
    }

    fn proposals(&self, program: &Program, facts: &Facts) -> Vec<Proposal> {
        let mut proposals = Vec::new();
        for view in View::of(program) {
            let site = Site { view, facts };
            walk(&view, |node, _| match node {
                AnyNodeRef::StmtIf(stmt) => site.conditional(stmt, &mut proposals),
                AnyNodeRef::StmtTry(stmt) => site.attempt(stmt, &mut proposals),
                AnyNodeRef::StmtFor(stmt) => proposals.extend(site.tail(&stmt.orelse)),
                AnyNodeRef::StmtWhile(stmt) => proposals.extend(site.tail(&stmt.orelse)),
                AnyNodeRef::ExprIf(expr) => proposals.extend(site.ternary(expr)),
                _ => {}
            });
        }
        proposals
    }
}

/// Whether any statement of a body ran; `None` when nobody knows.
pub(super) fn ran(view: &View<'_>, facts: &Facts, body: &[Stmt]) -> Option<bool> {
    facts.executed.as_ref()?;
    Some(body.iter().filter_map(|stmt| view.id(stmt)).any(|id| facts.ran(id) == Some(true)))
}

/// Whether a body holds a statement of the stack of the failure.
pub(super) fn on_the_way(view: &View<'_>, facts: &Facts, body: &[Stmt]) -> bool {
    let (Some(first), Some(last)) = (body.first(), body.last()) else { return false };
    let within = range(first).start..range(last).end;
    facts.crash.iter().any(|&id| view.start_of(id).is_some_and(|start| within.contains(&start)))
}

struct Site<'a> {
    view: View<'a>,
    facts: &'a Facts,
}

impl Site<'_> {
    /// The chance that a clause can go; `None` for one that ran.
    fn prior(&self, body: &[Stmt]) -> Option<f64> {
        match ran(&self.view, self.facts, body) {
            Some(true) => None,
            Some(false) => Some(CERTAIN),
            None => Some(UNKNOWN),
        }
    }

    fn clause(&self, detail: &str, clause: Clause<'_>) -> Option<Proposal> {
        let prior = self.prior(clause.body)?;
        let lines = clause_lines(&self.view, clause)?;
        Draft::new(NAME, &self.view, clause.keyword, detail, prior).cut(&self.view, lines).finish()
    }

    fn tail(&self, body: &[Stmt]) -> Option<Proposal> {
        self.clause("`else` or `finally`", tail(&self.view, body)?)
    }

    fn conditional(&self, stmt: &ast::StmtIf, proposals: &mut Vec<Proposal>) {
        let clauses = stmt.elif_else_clauses.iter();
        let drop = |clause: &ast::ElifElseClause| {
            self.clause("an arm of `if`", Clause { keyword: range(clause).start, body: &clause.body })
        };
        proposals.extend(clauses.filter_map(drop));
        proposals.extend(self.first_arms(stmt));
    }

    /// `if a: x()` before the `elif` that ran: the `elif` becomes the `if`.
    fn first_arms(&self, stmt: &ast::StmtIf) -> Option<Proposal> {
        if ran(&self.view, self.facts, &stmt.body)? {
            return None;
        }
        let happened = |clause: &&ast::ElifElseClause| ran(&self.view, self.facts, &clause.body) == Some(true);
        let clause = stmt.elif_else_clauses.iter().find(happened).filter(|clause| clause.test.is_some())?;
        let start = range(stmt).start;
        let cut = start..range(clause).start + "el".len();
        Draft::new(NAME, &self.view, start, "the first arms of `if`", 0.9).cut(&self.view, cut).finish()
    }

    /// The handlers but one, `else`, `finally`; of a `try` without handlers nothing.
    fn attempt(&self, stmt: &ast::StmtTry, proposals: &mut Vec<Proposal>) {
        let handlers: Vec<_> = stmt.handlers.iter().filter_map(|handler| handler.as_except_handler()).collect();
        let used =
            |handler: &&&ast::ExceptHandlerExceptHandler| ran(&self.view, self.facts, &handler.body) == Some(true);
        let Some(kept) = handlers.iter().find(used).or(handlers.first()) else { return };
        for handler in &handlers {
            if range(*handler) != range(*kept) {
                let clause = Clause { keyword: range(*handler).start, body: &handler.body };
                proposals.extend(self.clause("`except`", clause));
            }
        }
        proposals.extend(self.tail(&stmt.orelse));
        proposals.extend(self.tail(&stmt.finalbody));
    }

    /// `a if c else b`: the trace does not know which one was taken.
    fn ternary(&self, expr: &ast::ExprIf) -> Vec<Proposal> {
        let whole = range(expr);
        let body = self.view.outer(range(&*expr.body), &whole);
        let orelse = self.view.outer(range(&*expr.orelse), &whole);
        let draft = |detail, cut| {
            Draft::new(NAME, &self.view, whole.start, detail, 0.45)
                .choice(&self.view, whole.start, "ternary")
                .cut(&self.view, cut)
                .finish()
        };
        let first = draft("`a if c else b` to `a`", body.end..whole.end);
        let second = draft("`a if c else b` to `b`", whole.start..orelse.start);
        first.into_iter().chain(second).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::check::{each, traced};

    #[test]
    fn arms_that_did_not_run_go() {
        traced(&Arms, "if a:\n    x()\nelif b:\n    y()\nelse:\n    z()\nw()\n", &[4, 6], "if a:\n    x()\nw()\n");
        traced(
            &Arms,
            "def f():\r\n\tif a: x()\r\n\telse: y()\r\n\tz()\r\n",
            &[3],
            "def f():\r\n\tif a: x()\r\n\tz()\r\n",
        );
        traced(&Arms, "for x in xs:\n    f(x)\nelse:\n    g()\n", &[4], "for x in xs:\n    f(x)\n");
    }

    #[test]
    fn the_arm_that_ran_becomes_the_first() {
        traced(&Arms, "if a:\n    x()\nelif b:\n    y()\nelif c:\n    z()\n", &[2, 4], "if c:\n    z()\n");
        traced(&Arms, "if a:\n    x()\nelse:\n    z()\n", &[2], "if a:\n    x()\nelse:\n    z()\n");
    }

    #[test]
    fn a_try_keeps_a_handler() {
        let text = "try:\n    x()\nexcept A:\n    a()\nexcept B:\n    b()\nelse:\n    c()\nfinally:\n    d()\n";
        traced(&Arms, text, &[4, 6, 8, 10], "try:\n    x()\nexcept A:\n    a()\n");
        traced(&Arms, text, &[4, 8], "try:\n    x()\nexcept B:\n    b()\nfinally:\n    d()\n");
        traced(&Arms, "try:\n    x()\nfinally:\n    d()\n", &[4], "try:\n    x()\nfinally:\n    d()\n");
    }

    #[test]
    fn a_conditional_expression_becomes_either_arm() {
        each(&Arms, "x = (a) if c else b\n", &["x = (a)\n", "x = b\n"]);
        traced(&Arms, "x = a if c else b\n", &[], "x = a\n");
    }
}
