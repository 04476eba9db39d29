//! `hoist`: a body takes the place of the statement around it.
//!
//! Removes the header, the other arms and one level of indent of `if` (the arm that ran), `with`, `try` (without its
//! handlers), `for` and `while` (the body runs once), `if __name__ == "__main__":` and the `case` that ran.
//! Why it is safe to try: the failing call stays where it was, and what the header bound is read nowhere.
//! Cost: one run for all, then about two runs for each that must stay (halving).
//!
//! ```text
//! with torch.no_grad():            logits = model(x)
//!     logits = model(x)       ->   for _ in range(3): ...
//!     for _ in range(3): ...
//! ```
//!
//! Invariant: never leaves a `break` or `continue` without its loop. Must not inline functions.

use std::ops::Range;

use crate::program::Program;
use crate::program::python::{AnyNodeRef, Expr, Stmt, ast, range};

use super::facts::Facts;
use super::names::{Names, Scope, bound_names, jumps};
use super::peel::{Clause, peel, tail};
use super::proposal::{Draft, Proposal};
use super::view::{View, last_name};
use super::walk::walk;
use super::{Pass, arms};

/// See the module.
pub(super) struct Hoist;

const NAME: &str = "hoist";

impl Pass for Hoist {
    fn name(&self) -> &'static str {
        NAME
    }

    fn proposals(&self, program: &Program, facts: &Facts) -> Vec<Proposal> {
        let names = Names::of(program);
        let mut proposals = Vec::new();
        for view in View::of(program) {
            let site = Site { view, names: &names, facts };
            walk(&view, |node, ancestors| {
                let scope = || Scope::below(ancestors);
                proposals.extend(match node {
                    AnyNodeRef::StmtIf(stmt) => site.conditional(stmt),
                    AnyNodeRef::StmtWith(stmt) => site.with(stmt, &scope()),
                    AnyNodeRef::StmtTry(stmt) => site.attempt(stmt),
                    AnyNodeRef::StmtFor(stmt) => site.loop_over(stmt, &scope()),
                    AnyNodeRef::StmtWhile(stmt) => site.loop_while(stmt),
                    AnyNodeRef::StmtMatch(stmt) => site.case(stmt, &scope()),
                    _ => None,
                });
            });
        }
        proposals
    }
}

struct Site<'a> {
    view: View<'a>,
    names: &'a Names<'a>,
    facts: &'a Facts,
}

impl Site<'_> {
    fn propose(&self, detail: &str, prior: f64, whole: Range<usize>, kept: &[Clause<'_>]) -> Option<Proposal> {
        let cuts = peel(&self.view, &whole, kept)?;
        Draft::new(NAME, &self.view, whole.start, detail, prior).cuts(&self.view, cuts).finish()
    }

    fn ran(&self, body: &[Stmt]) -> Option<bool> {
        arms::ran(&self.view, self.facts, body)
    }

    /// The arm that ran; of several the one on the way to the failure, else the first.
    fn conditional(&self, stmt: &ast::StmtIf) -> Option<Proposal> {
        let mut clauses = vec![Clause { keyword: range(stmt).start, body: &stmt.body }];
        let others = stmt.elif_else_clauses.iter();
        clauses.extend(others.map(|clause| Clause { keyword: range(clause).start, body: &clause.body }));
        let fails = |clause: &&Clause<'_>| arms::on_the_way(&self.view, self.facts, clause.body);
        let ran = |clause: &&Clause<'_>| self.ran(clause.body) == Some(true);
        let chosen = *clauses
            .iter()
            .find(fails)
            .or_else(|| clauses.iter().find(ran))
            .or_else(|| self.facts.executed.is_none().then(|| &clauses[0]))?;
        let several = clauses.iter().filter(ran).count() > 1;
        let main = is_main(&stmt.test) && chosen.keyword == range(stmt).start;
        let (detail, prior) = match (main, several, self.facts.executed.is_some()) {
            (true, ..) => ("body of `if __name__ == ...`", 0.95),
            (false, true, _) => ("one arm of `if`", 0.3),
            (false, false, true) => ("the arm of `if` that ran", 0.75),
            (false, false, false) => ("body of `if`", 0.4),
        };
        self.propose(detail, prior, range(stmt), &[chosen])
    }

    fn with(&self, stmt: &ast::StmtWith, scope: &Scope) -> Option<Proposal> {
        for item in &stmt.items {
            if let Some(target) = &item.optional_vars {
                self.unread(target, scope)?;
            }
        }
        let harmless =
            |item: &ast::WithItem| last_name(&item.context_expr).is_some_and(|name| CONTEXTS.contains(&name));
        let prior = if stmt.items.iter().all(harmless) { 0.85 } else { 0.5 };
        let body = Clause { keyword: range(stmt).start, body: &stmt.body };
        self.propose("body of `with`", prior, range(stmt), &[body])
    }

    fn attempt(&self, stmt: &ast::StmtTry) -> Option<Proposal> {
        let handlers = || stmt.handlers.iter().filter_map(|handler| handler.as_except_handler());
        let swallowed = handlers().any(|handler| self.ran(&handler.body) == Some(true));
        let prior = match (swallowed, self.facts.executed.is_some()) {
            (true, _) => 0.05,
            (false, true) => 0.85,
            (false, false) => 0.6,
        };
        let mut kept = vec![Clause { keyword: range(stmt).start, body: &stmt.body }];
        let tails = [&stmt.orelse, &stmt.finalbody].into_iter().filter_map(|body| tail(&self.view, body));
        kept.extend(tails.filter(|clause| self.ran(clause.body) != Some(false)));
        self.propose("body of `try`", prior, range(stmt), &kept)
    }

    fn loop_over(&self, stmt: &ast::StmtFor, scope: &Scope) -> Option<Proposal> {
        self.unread(&stmt.target, scope)?;
        self.once("body of `for`", 0.6, range(stmt), &stmt.body, &stmt.orelse)
    }

    fn loop_while(&self, stmt: &ast::StmtWhile) -> Option<Proposal> {
        self.once("body of `while`", 0.5, range(stmt), &stmt.body, &stmt.orelse)
    }

    /// A loop's body once: jumps of the loop become `pass`.
    fn once(&self, detail: &str, prior: f64, whole: Range<usize>, body: &[Stmt], orelse: &[Stmt]) -> Option<Proposal> {
        let mut kept = vec![Clause { keyword: whole.start, body }];
        kept.extend(tail(&self.view, orelse).filter(|clause| self.ran(clause.body) != Some(false)));
        let mut own = Vec::new();
        jumps(body, &mut own);
        let prior = if own.is_empty() { prior } else { prior / 2.0 };
        let cuts = peel(&self.view, &whole, &kept)?;
        let mut draft = Draft::new(NAME, &self.view, whole.start, detail, prior).cuts(&self.view, cuts);
        for jump in own {
            draft = draft.replace(&self.view, range(jump), "pass");
        }
        draft.finish()
    }

    fn case(&self, stmt: &ast::StmtMatch, scope: &Scope) -> Option<Proposal> {
        let case = stmt.cases.iter().find(|case| self.ran(&case.body) == Some(true))?;
        let mut bound = Vec::new();
        super::walk::walk_pattern(&case.pattern, |node| match node {
            AnyNodeRef::PatternMatchAs(node) => bound.extend(node.name.as_ref()),
            AnyNodeRef::PatternMatchStar(node) => bound.extend(node.name.as_ref()),
            AnyNodeRef::PatternMatchMapping(node) => bound.extend(node.rest.as_ref()),
            _ => {}
        });
        if bound.iter().any(|name| self.names.read(self.view.path, name.as_str(), scope)) {
            return None;
        }
        let kept = Clause { keyword: range(case).start, body: &case.body };
        self.propose("the `case` that ran", 0.6, range(stmt), &[kept])
    }

    /// Nothing reads what the target binds.
    fn unread(&self, target: &Expr, scope: &Scope) -> Option<()> {
        let mut bound = Vec::new();
        bound_names(target, &mut bound)?;
        bound.iter().all(|name| !self.names.read(self.view.path, name, scope)).then_some(())
    }
}

/// Contexts whose body runs the same without them, as far as a failing kernel is concerned.
const CONTEXTS: [&str; 16] = [
    "no_grad",
    "inference_mode",
    "enable_grad",
    "set_grad_enabled",
    "autocast",
    "profile",
    "record_function",
    "suppress",
    "catch_warnings",
    "detect_anomaly",
    "set_detect_anomaly",
    "no_sync",
    "sdpa_kernel",
    "Lock",
    "RLock",
    "device",
];

pub(super) fn is_main(test: &Expr) -> bool {
    let Expr::Compare(compare) = test else { return false };
    let dunder = |expr: &Expr| matches!(expr, Expr::Name(name) if name.id.as_str() == "__name__");
    dunder(&compare.left) || compare.comparators.iter().any(dunder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::check::{all, nothing, traced};

    #[test]
    fn a_body_takes_the_place_of_its_statement() {
        all(&Hoist, "if a:\n    x()\n    y()\nz()\n", "x()\ny()\nz()\n");
        all(&Hoist, "with no_grad():  # why\n\tx()\n", "x()\n");
        all(&Hoist, "for _ in range(3):\r\n    x()\r\n    y()\r\n", "x()\r\ny()\r\n");
        all(&Hoist, "while True:\n    x()\n", "x()\n");
        all(&Hoist, "if __name__ == \"__main__\":\n    main()", "main()");
        all(&Hoist, "def f():\n\tif a:\n\t\tx()\n\treturn 1\n", "def f():\n\tx()\n\treturn 1\n");
        all(&Hoist, "if a: x(); y()\nz()\n", "x(); y()\nz()\n");
        all(&Hoist, "if a: x()  # one\nelse: y()\nz()\n", "x()  # one\nz()\n");
    }

    #[test]
    fn nested_bodies_move_out_level_by_level() {
        all(&Hoist, "with a():\n  if b:\n      for _ in c:\n          x()\n  y()\n", "x()\ny()\n");
        all(
            &Hoist,
            "def f():\n    with a():\n        def g():\n            return 1\n        g()\n",
            "def f():\n    def g():\n        return 1\n    g()\n",
        );
    }

    #[test]
    fn strings_over_several_lines_keep_their_bytes() {
        all(
            &Hoist,
            "if a:\n    x = '''\n    keep\n      this'''\n    y()\n",
            "x = '''\n    keep\n      this'''\ny()\n",
        );
        all(&Hoist, "if a:\n    x = f'''{b(\n    1)}\n    '''\n    y()\n", "x = f'''{b(\n    1)}\n    '''\ny()\n");
        all(
            &Hoist,
            "if a:\n    x = (1,\n  2)\n    # note\n  # far\n    y = \\\n    3\n",
            "x = (1,\n  2)\n# note\n  # far\ny = \\\n3\n",
        );
    }

    #[test]
    fn try_loses_its_handlers_and_keeps_the_rest() {
        let text = "try:\n    x()\nexcept E:\n    y()\nelse:\n    z()\nfinally:\n    w()\nv()\n";
        all(&Hoist, text, "x()\nz()\nw()\nv()\n");
        traced(&Hoist, text, &[4, 8], "x()\nz()\nv()\n");
        all(&Hoist, "try: x()\nexcept E: y()\nfinally: z()\n", "x()\nz()\n");
    }

    #[test]
    fn the_arm_that_ran_is_the_one_that_stays() {
        let text = "if a:\n    x()\nelif b:\n    y()\nelse:\n    z()\n";
        traced(&Hoist, text, &[2, 6], "y()\n");
        traced(&Hoist, text, &[2, 4], "z()\n");
        traced(&Hoist, text, &[2, 4, 6], text);
        traced(&Hoist, "match a:\n    case 1:\n        x()\n    case _:\n        y()\n", &[3], "y()\n");
    }

    #[test]
    fn what_the_header_binds_is_read_nowhere() {
        nothing(&Hoist, "for x in xs:\n    f(x)\n");
        nothing(&Hoist, "with open(p) as g:\n    f()\ng.name\n");
        all(&Hoist, "with open(p) as g:\n    f()\n", "f()\n");
        all(&Hoist, "for i, (a, b) in xs:\n    f()\n", "f()\n");
        nothing(&Hoist, "def f():\n    global x\n    for x in xs:\n        g()\n    print(x)\n");
    }

    #[test]
    fn jumps_of_a_loop_that_goes_become_pass() {
        all(&Hoist, "while a:\n    x()\n    break\n", "x()\npass\n");
        all(&Hoist, "while a:\n    for x in xs:\n        f(x)\n        break\n", "for x in xs:\n    f(x)\n    break\n");
    }
}
