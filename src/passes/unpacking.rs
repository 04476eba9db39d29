//! `unpacking`: names that an assignment takes apart and that nothing reads.
//!
//! Removes `a, b =` before a call when nothing reads any of the names, and of `a, b = x, y` each pair that nothing reads.
//! Why it is safe to try: a name that nothing reads cannot carry the bad value; and once nothing takes the result of a call
//! apart, its `return` may go as well.
//! Cost: none of its own, it goes with what is all but certain.
//!
//! ```text
//! loss, losses = compute(x)                 compute(x)
//! train, val = Sub(xs, a), Sub(xs, b)  ->   train = Sub(xs, a)
//! fit(train)                                fit(train)
//! ```
//!
//! Invariant: a target and its value go together. Must not touch a target that stores into anything but names.

use std::sync::Arc;

use crate::program::Program;
use crate::program::python::{AnyNodeRef, Expr, TokenKind, ast, range};

use super::Pass;
use super::facts::Facts;
use super::names::{Names, Scope, bound_names};
use super::plain::is_plain;
use super::proposal::{Draft, Proposal};
use super::view::View;
use super::walk::walk;

/// See the module.
pub(super) struct Unpacking;

const NAME: &str = "unpacking";

impl Pass for Unpacking {
    fn name(&self) -> &'static str {
        NAME
    }

    fn proposals(&self, program: &Program, _facts: &Facts) -> Vec<Proposal> {
        let names = Names::of(program);
        let mut proposals = Vec::new();
        for view in View::of(program) {
            walk(&view, |node, ancestors| {
                let AnyNodeRef::StmtAssign(stmt) = node else { return };
                let ([Expr::Tuple(targets)], scope) = (stmt.targets.as_slice(), Scope::below(ancestors)) else {
                    return;
                };
                if scope == Scope::Class {
                    return;
                }
                let unread = |target: &Expr| {
                    let mut bound = Vec::new();
                    bound_names(target, &mut bound).is_some()
                        && bound.iter().all(|name| !names.read(view.path, name, &scope))
                };
                match &*stmt.value {
                    Expr::Tuple(values) => proposals.extend(pairs(&view, targets, values, unread)),
                    Expr::Call(_) if targets.elts.iter().all(unread) => proposals.extend(whole(&view, stmt)),
                    _ => {}
                }
            });
        }
        proposals
    }
}

/// `a, b = f()` to `f()`.
fn whole(view: &View<'_>, stmt: &ast::StmtAssign) -> Option<Proposal> {
    let all = range(stmt);
    let value = view.outer(range(&*stmt.value), &all);
    let draft = Draft::new(NAME, view, all.start, "targets that nothing reads", 0.93);
    draft.cut(view, all.start..value.start).finish()
}

/// `a, b = x, y` to `a = x`.
fn pairs(
    view: &View<'_>,
    targets: &ast::ExprTuple,
    values: &ast::ExprTuple,
    unread: impl Fn(&Expr) -> bool,
) -> Vec<Proposal> {
    let starred = |elements: &[Expr]| elements.iter().any(|element| matches!(element, Expr::Starred(_)));
    let alike = targets.elts.len() == values.elts.len() && !starred(&targets.elts) && !starred(&values.elts);
    let (Some(left), Some(right), true) = (row(view, targets), row(view, values), alike) else { return Vec::new() };
    let one = |at: usize| {
        let prior = if is_plain(&values.elts[at]) { 0.97 } else { 0.9 };
        let draft = Draft::new(NAME, view, left.items[at].start, "a target and its value that nothing reads", prior);
        draft.item(view, &left, at).item(view, &right, at).finish()
    };
    (0..targets.elts.len()).filter(|at| unread(&targets.elts[*at])).filter_map(one).collect()
}

/// The elements of a tuple; not where a comma behind the last one makes a tuple of a single element.
fn row(view: &View<'_>, tuple: &ast::ExprTuple) -> Option<Arc<super::sequence::Sequence>> {
    let whole = range(tuple);
    let inside = if tuple.parenthesized { whole.start + 1..whole.end - 1 } else { whole };
    let row = view.sequence(tuple.elts.iter().map(range), &inside, None);
    let ends = row.items.last()?.end;
    (view.next(ends).is_none_or(|token| token.kind() != TokenKind::Comma)).then(|| Arc::new(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::check::{all, nothing};

    #[test]
    fn targets_that_nothing_reads_go() {
        all(&Unpacking, "a, b = f(x)\n", "f(x)\n");
        all(&Unpacking, "def g():\r\n\t(a, *b) = (f()); return 1\r\n", "def g():\r\n\t(f()); return 1\r\n");
        nothing(&Unpacking, "a, b = f()\nprint(b)\n");
        nothing(&Unpacking, "a, b = xs\na, self.b = f()\n[a, b] = f()\na = b = f()\n");
        nothing(&Unpacking, "def f():\n    global a\n    a, b = g()\n");
        nothing(&Unpacking, "class A:\n    a, b = f()\n");
    }

    #[test]
    fn pairs_that_nothing_reads_go() {
        all(&Unpacking, "a, b = f(), g(1)\nh(a)\n", "a = f()\nh(a)\n");
        all(&Unpacking, "a, b, c = 1, (2), 3\nh(a, c)\n", "a, c = 1, 3\nh(a, c)\n");
        all(&Unpacking, "(a, b) = (  # why\n    f(),\n    g()\n)\nh(b)\n", "(b) = (  # why\n    g()\n)\nh(b)\n");
        nothing(&Unpacking, "a, b = (f(), g(),)\nh(b)\n");
        all(&Unpacking, "a, (b, c) = f(), g()\nh(a)\n", "a = f()\nh(a)\n");
        all(&Unpacking, "a, b = 1, 2\n", "a = 1\n");
        nothing(&Unpacking, "a, b = 1, 2\nh(a, b)\n");
        nothing(&Unpacking, "a, b, = 1, 2\nh(a)\n");
        nothing(&Unpacking, "a, *b = 1, 2\nh(a)\n");
        nothing(&Unpacking, "a, b = *c, 2\nh(a)\n");
    }
}
