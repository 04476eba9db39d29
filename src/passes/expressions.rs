//! `expressions`: a part of an expression in place of the whole.
//!
//! Removes method calls from chains, wrappers such as `list(...)`, operands of `and`, `or`, `+`, `-`, `*`, bounds of slices,
//! conditions of comprehensions, parts of formatted strings, the message of an `assert`, the cause of a `raise`.
//! Why it is safe to try: shapes and classes of values mostly survive, and the origin of the bad value is checked.
//! Cost: one run for the sure ones, then halving; limited by the strategy. Most priors are low.
//!
//! ```text
//! y = list(x.detach().clone())      y = x
//! loss = ce + 0.1 * reg         ->  loss = ce
//! assert n > 0, f"empty {n}"        assert n > 0
//! ```
//!
//! Invariant: what stays is text that stood there. Must not touch comparisons or targets.

use std::ops::Range;
use std::sync::Arc;

use crate::program::Program;
use crate::program::python::{AnyNodeRef, Expr, ExprContext, ast, range};

use super::Pass;
use super::facts::Facts;
use super::proposal::{Draft, Proposal};
use super::view::{View, last_name};
use super::walk::walk;

/// See the module.
pub(super) struct Expressions;

const NAME: &str = "expressions";

impl Pass for Expressions {
    fn name(&self) -> &'static str {
        NAME
    }

    fn proposals(&self, program: &Program, _facts: &Facts) -> Vec<Proposal> {
        let mut proposals = Vec::new();
        for view in View::of(program) {
            let site = Site { view };
            walk(&view, |node, ancestors| match node {
                AnyNodeRef::StmtAssert(stmt) => proposals.extend(site.message(stmt)),
                AnyNodeRef::StmtRaise(stmt) => proposals.extend(site.cause(stmt)),
                AnyNodeRef::ExprCall(call) => {
                    proposals.extend(site.link(call));
                    proposals.extend(site.wrapper(call));
                }
                AnyNodeRef::ExprBoolOp(expr) => site.operands(expr, &mut proposals),
                AnyNodeRef::ExprBinOp(expr) => proposals.extend(site.sides(expr)),
                AnyNodeRef::ExprSlice(slice) => proposals.extend(site.bounds(slice)),
                AnyNodeRef::ExprSubscript(expr) => proposals.extend(site.subscript(expr, ancestors)),
                AnyNodeRef::Comprehension(comprehension) => proposals.extend(site.conditions(comprehension)),
                AnyNodeRef::FString(string) => site.string(string, ancestors, &mut proposals),
                _ => {}
            });
        }
        proposals
    }
}

struct Site<'a> {
    view: View<'a>,
}

/// Methods that give the same tensor as far as a kernel is concerned.
const LINKS: [&str; 10] =
    ["detach", "contiguous", "clone", "float", "requires_grad_", "eval", "train", "copy", "strip", "squeeze"];

/// Calls around a value that mostly give the value again.
const WRAPPERS: [&str; 12] = [
    "list",
    "tuple",
    "sorted",
    "iter",
    "int",
    "float",
    "str",
    "tqdm",
    "trange",
    "deepcopy",
    "Variable",
    "DataParallel",
];

impl Site<'_> {
    fn draft(&self, at: usize, detail: &str, prior: f64) -> Draft {
        Draft::new(NAME, &self.view, at, detail, prior)
    }

    fn message(&self, stmt: &ast::StmtAssert) -> Option<Proposal> {
        stmt.msg.as_ref()?;
        let whole = range(stmt);
        let test = self.view.outer(range(&*stmt.test), &whole);
        self.draft(whole.start, "the message of an assert", 0.98).cut(&self.view, test.end..whole.end).finish()
    }

    fn cause(&self, stmt: &ast::StmtRaise) -> Option<Proposal> {
        stmt.cause.as_ref()?;
        let whole = range(stmt);
        let raised = self.view.outer(range(&**stmt.exc.as_ref()?), &whole);
        self.draft(whole.start, "the cause of a raise", 0.97).cut(&self.view, raised.end..whole.end).finish()
    }

    /// `a.b()` to `a`.
    fn link(&self, call: &ast::ExprCall) -> Option<Proposal> {
        let Expr::Attribute(attribute) = &*call.func else { return None };
        // `torch.zeros(3)` is no chain: of dotted names only the known methods go, and `super()` is nothing by itself.
        let known = LINKS.contains(&attribute.attr.as_str()) && dotted_root(&attribute.value) != Some("torch");
        let value = &*attribute.value;
        if dotted_root(value).is_some() && !known || matches!(value, Expr::Call(_)) && last_name(value) == Some("super")
        {
            return None;
        }
        let whole = range(call);
        if self.view.outer(range(attribute), &(whole.start..range(&call.arguments).start)) != range(attribute) {
            return None;
        }
        let value = self.view.outer(range(&*attribute.value), &whole);
        let prior = if LINKS.contains(&attribute.attr.as_str()) { 0.5 } else { 0.1 };
        let start = range(&attribute.attr).start;
        let draft = self.draft(start, "a method call of a chain", prior).choice(&self.view, whole.end, "call");
        draft.cut(&self.view, value.end..whole.end).finish()
    }

    /// `list(x)` to `x`; the brackets stay where they are needed.
    fn wrapper(&self, call: &ast::ExprCall) -> Option<Proposal> {
        let name = last_name(&call.func).filter(|name| WRAPPERS.contains(name))?;
        let value = call.arguments.args.first()?;
        if call.arguments.len() > 1 && !matches!(name, "tqdm" | "sorted") || matches!(value, Expr::Starred(_)) {
            return None;
        }
        let (whole, brackets) = (range(call), range(&call.arguments));
        let inside = brackets.start + 1..brackets.end - 1;
        let inner = self.view.outer(range(value), &inside);
        let atom = matches!(
            value,
            Expr::Name(_) | Expr::Attribute(_) | Expr::Call(_) | Expr::Subscript(_) | Expr::List(_) | Expr::Dict(_)
        );
        let text = &self.view.text[whole.clone()];
        let prior = if name == "tqdm" { 0.85 } else { 0.3 };
        let draft = self.draft(whole.start, "a wrapper", prior).choice(&self.view, whole.end, "call");
        if (atom || inner != range(value)) && !text.contains(['\n', '\r']) {
            return draft.cuts(&self.view, [whole.start..inner.start, inner.end..whole.end]).finish();
        }
        if matches!(value, Expr::Generator(generator) if !generator.parenthesized) && call.arguments.len() > 1 {
            return None;
        }
        let after = inner.end..inside.end;
        draft.cuts(&self.view, [whole.start..brackets.start, after]).finish()
    }

    fn operands(&self, expr: &ast::ExprBoolOp, proposals: &mut Vec<Proposal>) {
        let row = Arc::new(self.view.operands(expr.values.iter().map(range), &range(expr)));
        for (at, item) in row.items.iter().enumerate() {
            let draft = self.draft(item.start, "an operand", 0.4);
            proposals.extend(draft.item(&self.view, &row, at).finish());
        }
    }

    /// `a + b` to `a` or `b`.
    fn sides(&self, expr: &ast::ExprBinOp) -> Vec<Proposal> {
        if !matches!(expr.op, ast::Operator::Add | ast::Operator::Sub | ast::Operator::Mult | ast::Operator::Div) {
            return Vec::new();
        }
        let whole = range(expr);
        let left = self.view.outer(range(&*expr.left), &whole);
        let right = self.view.outer(range(&*expr.right), &whole);
        let choose = |detail, prior, cut| {
            let draft = self.draft(range(&*expr.right).start, detail, prior);
            draft.choice(&self.view, range(&*expr.right).start, "side").cut(&self.view, cut).finish()
        };
        let first = choose("`a + b` to `a`", 0.2, left.end..whole.end);
        let second = choose("`a + b` to `b`", 0.15, whole.start..right.start);
        first.into_iter().chain(second).collect()
    }

    fn bounds(&self, slice: &ast::ExprSlice) -> Vec<Proposal> {
        let whole = range(slice);
        let bounds = [&slice.lower, &slice.upper, &slice.step].into_iter().filter_map(|bound| bound.as_deref());
        let drop = |bound: &Expr| {
            let bound = self.view.outer(range(bound), &whole);
            self.draft(bound.start, "a bound of a slice", 0.25).cut(&self.view, bound).finish()
        };
        bounds.filter_map(drop).collect()
    }

    /// `x[:n]` to `x`.
    fn subscript(&self, expr: &ast::ExprSubscript, ancestors: &[AnyNodeRef<'_>]) -> Option<Proposal> {
        let called = matches!(ancestors.last(), Some(AnyNodeRef::StmtDelete(_)));
        if !matches!(&*expr.slice, Expr::Slice(_)) || expr.ctx != ExprContext::Load || called {
            return None;
        }
        let whole = range(expr);
        let value = self.view.outer(range(&*expr.value), &whole);
        let at = range(&*expr.slice).start;
        self.draft(at, "a slice", 0.25).cut(&self.view, value.end..whole.end).finish()
    }

    fn conditions(&self, comprehension: &ast::Comprehension) -> Vec<Proposal> {
        let whole = range(comprehension);
        let mut end = self.view.outer(range(&comprehension.iter), &whole).end;
        let mut proposals = Vec::new();
        for condition in &comprehension.ifs {
            let condition = self.view.outer(range(condition), &whole);
            let draft = self.draft(condition.start, "a condition of a comprehension", 0.3);
            proposals.extend(draft.cut(&self.view, end..condition.end).finish());
            end = condition.end;
        }
        proposals
    }

    /// What a formatted string shows, piece by piece.
    fn string(&self, string: &ast::FString, ancestors: &[AnyNodeRef<'_>], proposals: &mut Vec<Proposal>) {
        let shown = ancestors.iter().any(|node| match node {
            AnyNodeRef::ExprCall(call) => last_name(&call.func).is_some_and(|name| name == "print" || name == "info"),
            node => matches!(node, AnyNodeRef::StmtRaise(_) | AnyNodeRef::StmtAssert(_)),
        });
        let prior = if shown { 0.8 } else { 0.15 };
        for element in string.elements.interpolations() {
            let own: Range<usize> = range(element);
            // In a raw string the brace may be all that keeps a backslash from the quote.
            if self.view.text[..own.start].ends_with('\\') {
                continue;
            }
            let draft = self.draft(own.start, "a part of a formatted string", prior);
            proposals.extend(draft.cut(&self.view, own).finish());
        }
    }
}

/// The first name of a dotted name.
fn dotted_root(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Name(name) => Some(name.id.as_str()),
        Expr::Attribute(attribute) => dotted_root(&attribute.value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::check::{all, each, nothing};

    #[test]
    fn links_and_wrappers_go() {
        all(&Expressions, "y = x.detach().contiguous()\n", "y = x\n");
        all(&Expressions, "y = list(x)\n", "y = x\n");
        all(&Expressions, "y = list(a or b)\n", "y = (a)\n");
        all(&Expressions, "y = tuple(x for x in z)\n", "y = (x for x in z)\n");
        all(&Expressions, "for x in tqdm(\n\txs, total=3): f(x)\n", "for x in (\n\txs): f(x)\n");
        all(&Expressions, "y = 1 if list(x)else 2\n", "y = 1 if x else 2\n");
        all(&Expressions, "y = self.x.detach().mean()\n", "y = self.x\n");
        nothing(&Expressions, "super().f()\na.b.g(1)\ny = torch.zeros(3)\n(None\n.f)()\nz = rf'\\{x}'\n");
    }

    #[test]
    fn operands_and_sides_go() {
        each(&Expressions, "x = a and (b)\n", &["x = (b)\n", "x = a\n"]);
        each(&Expressions, "x = a + b\n", &["x = a\n", "x = b\n"]);
        all(&Expressions, "x = a + b * c - d\n", "x = a\n");
    }

    #[test]
    fn bounds_slices_and_conditions_go() {
        each(&Expressions, "y = x[a:b]\n", &["y = x\n", "y = x[:b]\n", "y = x[a:]\n"]);
        each(&Expressions, "x[1:] = y\n", &["x[:] = y\n"]);
        all(&Expressions, "[x for x in y if a if b]\n", "[x for x in y]\n");
    }

    #[test]
    fn messages_go() {
        all(&Expressions, "assert (a), f'{b}'\n", "assert (a)\n");
        all(&Expressions, "raise E from None\n", "raise E\n");
        all(&Expressions, "print(f'a{b}c{d!r:>{e}}')\n", "print(f'ac')\n");
    }
}
