//! `targets`: names that are bound and never read.
//!
//! Removes `x =` before a call whose result nothing reads, `as x` of `with` and `except`, `i` of `for i, x in enumerate(xs)`
//! and its kin (`zip`, `items`), and `x :=`.
//! Why it is safe to try: a name that nothing reads cannot carry the bad value.
//! Cost: one run for all, as a rule.
//!
//! ```text
//! out = model(x)                        model(x)
//! for i, x in enumerate(xs): use(x) ->  for x in xs: use(x)
//! with autocast() as ctx: step()        with autocast(): step()
//! ```
//!
//! Invariant: the value is computed as before. Must not touch targets that unpack.

use std::ops::Range;

use crate::program::Program;
use crate::program::python::{AnyNodeRef, Expr, ast, range};

use super::Pass;
use super::facts::Facts;
use super::names::{Names, Scope, bound_names};
use super::proposal::{Draft, Proposal};
use super::view::{View, last_name};
use super::walk::walk;

/// See the module.
pub(super) struct Targets;

const NAME: &str = "targets";

impl Pass for Targets {
    fn name(&self) -> &'static str {
        NAME
    }

    fn proposals(&self, program: &Program, _facts: &Facts) -> Vec<Proposal> {
        let names = Names::of(program);
        let mut proposals = Vec::new();
        for view in View::of(program) {
            let site = Site { view, names: &names };
            walk(&view, |node, ancestors| {
                let scope = || Scope::below(ancestors);
                match node {
                    AnyNodeRef::StmtAssign(stmt) => proposals.extend(site.assign(stmt, &scope())),
                    AnyNodeRef::StmtFor(stmt) => {
                        let found = site.iteration(&stmt.target, &stmt.iter, &range(stmt), &scope());
                        proposals.extend(found);
                    }
                    AnyNodeRef::Comprehension(part) => {
                        let around = ancestors.last().map_or(Scope::Module, |node| Scope::Function(range(node)));
                        let whole = range(part);
                        proposals.extend(site.iteration(&part.target, &part.iter, &whole, &around));
                    }
                    AnyNodeRef::WithItem(item) => proposals.extend(site.with_item(item, &scope())),
                    AnyNodeRef::ExceptHandlerExceptHandler(handler) => proposals.extend(site.handler(handler)),
                    AnyNodeRef::ExprNamed(named) => proposals.extend(site.named(named, &scope())),
                    _ => {}
                }
            });
        }
        proposals
    }
}

struct Site<'a> {
    view: View<'a>,
    names: &'a Names<'a>,
}

impl Site<'_> {
    fn draft(&self, at: usize, detail: &str, prior: f64) -> Draft {
        Draft::new(NAME, &self.view, at, detail, prior)
    }

    /// How sure it is that nothing reads a target; `None` for one that is read or that unpacks.
    fn unread(&self, target: &Expr, scope: &Scope) -> Option<f64> {
        match target {
            Expr::Name(name) => (!self.names.read(self.view.path, name.id.as_str(), scope)).then_some(0.95),
            Expr::Attribute(attribute) => {
                let name = attribute.attr.as_str();
                let read = self.names.attribute_reads(name) > 0 || self.names.spelled(name);
                (!read).then_some(0.5)
            }
            _ => None,
        }
    }

    /// `x = f()` to `f()`; of `a = b = f()` each.
    fn assign(&self, stmt: &ast::StmtAssign, scope: &Scope) -> Vec<Proposal> {
        let single = stmt.targets.len() == 1;
        let worth = matches!(&*stmt.value, Expr::Call(_) | Expr::Await(_) | Expr::Yield(_) | Expr::Subscript(_));
        if *scope == Scope::Class || single && !worth {
            return Vec::new();
        }
        let whole = range(stmt);
        let mut proposals = Vec::new();
        for (at, target) in stmt.targets.iter().enumerate() {
            let Some(prior) = self.unread(target, scope) else { continue };
            let start = self.view.outer(range(target), &whole).start;
            let next = stmt.targets.get(at + 1).map_or(range(&*stmt.value), range);
            let next = self.view.outer(next, &(start..whole.end)).start;
            let draft = self.draft(start, "a target that nothing reads", prior);
            proposals.extend(draft.cut(&self.view, start..next).finish());
        }
        proposals
    }

    fn with_item(&self, item: &ast::WithItem, scope: &Scope) -> Option<Proposal> {
        let target = item.optional_vars.as_deref()?;
        let mut bound = Vec::new();
        bound_names(target, &mut bound)?;
        if bound.iter().any(|name| self.names.read(self.view.path, name, scope)) {
            return None;
        }
        let whole = range(item);
        let context = self.view.outer(range(&item.context_expr), &whole);
        let draft = self.draft(whole.start, "`as` of a `with` that nothing reads", 0.97);
        draft.cut(&self.view, context.end..whole.end).finish()
    }

    fn handler(&self, handler: &ast::ExceptHandlerExceptHandler) -> Option<Proposal> {
        let name = handler.name.as_ref()?;
        let (own, kind) = (range(name), range(&**handler.type_.as_ref()?));
        if self.names.read_in(self.view.path, name.as_str(), &range(handler)) {
            return None;
        }
        let kind = self.view.outer(kind, &(range(handler).start..own.start));
        let draft = self.draft(own.start, "`as` of an `except` that nothing reads", 0.98);
        draft.cut(&self.view, kind.end..own.end).finish()
    }

    fn named(&self, named: &ast::ExprNamed, scope: &Scope) -> Option<Proposal> {
        let prior = self.unread(&named.target, scope)?;
        let whole = range(named);
        let value = self.view.outer(range(&*named.value), &whole);
        self.draft(whole.start, "`:=` that nothing reads", prior).cut(&self.view, whole.start..value.start).finish()
    }

    /// `for i, x in enumerate(xs)` without `i`, `zip(a, b)` without one, `d.items()` without the key or the value.
    fn iteration(&self, target: &Expr, iter: &Expr, whole: &Range<usize>, scope: &Scope) -> Option<Proposal> {
        let (Expr::Tuple(pair), Expr::Call(call)) = (target, iter) else { return None };
        let [first, second] = &pair.elts[..] else { return None };
        let idle = |target: &Expr| {
            let mut bound = Vec::new();
            bound_names(target, &mut bound).is_some()
                && bound.iter().all(|name| !self.names.read(self.view.path, name, scope))
        };
        let stays = match (idle(first), idle(second)) {
            (true, _) => 1,
            (false, true) => 0,
            (false, false) => return None,
        };
        if matches!(&pair.elts[stays], Expr::Starred(_)) || !call.arguments.keywords.is_empty() {
            return None;
        }
        let inside = range(pair);
        let target = self.view.outer(range(&pair.elts[stays]), &inside);
        let mut cuts = vec![inside.start..target.start, target.end..inside.end];
        let args = &call.arguments.args;
        let name = last_name(&call.func)?;
        let at = range(iter).start;
        let draft = |prior| self.draft(at, "a loop variable that nothing reads", prior);
        match (name, args.len()) {
            ("enumerate", 1 | 2) if stays == 1 => cuts.extend(self.only(call, &args[0])?),
            ("zip", 2) => {
                cuts.extend(self.only(call, &args[stays])?);
                return draft(0.7).cuts(&self.view, cuts).finish();
            }
            ("items", 0) => {
                let Expr::Attribute(attribute) = &*call.func else { return None };
                let method = range(&attribute.attr);
                if stays == 1 {
                    return draft(0.95).cuts(&self.view, cuts).replace(&self.view, method, "values").weigh().finish();
                }
                let value = self.view.outer(range(&*attribute.value), &range(call));
                cuts.push(value.end..range(call).end);
            }
            _ => return None,
        }
        debug_assert!(whole.start <= inside.start, "a loop holds its target");
        draft(0.95).cuts(&self.view, cuts).finish()
    }

    /// What goes so that of a call only one argument stays; not when that would lose brackets that hold lines together.
    fn only(&self, call: &ast::ExprCall, value: &Expr) -> Option<[Range<usize>; 2]> {
        let (whole, brackets) = (range(call), range(&call.arguments));
        let inner = self.view.outer(range(value), &(brackets.start + 1..brackets.end - 1));
        let bare = matches!(value, Expr::Generator(generator) if !generator.parenthesized);
        let breaks = self.view.text[whole.clone()].contains(['\n', '\r']);
        let loose = matches!(value, Expr::Starred(_) | Expr::If(_) | Expr::Lambda(_) | Expr::Named(_));
        (!bare && !breaks && !loose).then_some([whole.start..inner.start, inner.end..whole.end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::check::{all, nothing};

    #[test]
    fn targets_that_nothing_reads_go() {
        all(&Targets, "x = f()\n", "f()\n");
        all(&Targets, "def g():\r\n\tx = self.y = f(); return 1\r\n", "def g():\r\n\tf(); return 1\r\n");
        all(&Targets, "if (n := f()) > 1: pass\n", "if (f()) > 1: pass\n");
        nothing(&Targets, "x = f()\nprint(x)\n");
        nothing(&Targets, "a, b = f()\nx += f()\nx = 1\n");
        nothing(&Targets, "def f():\n    x = g()\n    def h():\n        nonlocal x\n        x = 1\n");
        nothing(&Targets, "class A:\n    x = f()\n");
    }

    #[test]
    fn as_goes() {
        all(&Targets, "with (a()) as b, c() as d: d\n", "with (a()), c() as d: d\n");
        all(&Targets, "try: x()\nexcept (A, B) as e: pass\n", "try: x()\nexcept (A, B): pass\n");
    }

    #[test]
    fn loop_variables_go() {
        all(&Targets, "for i, x in enumerate(xs): f(x)\n", "for x in xs: f(x)\n");
        all(&Targets, "for (i, (a, b)) in enumerate(xs, 1): f(a)\n", "for (a, b) in xs: f(a)\n");
        all(&Targets, "for k, v in d.items(): f(k)\n", "for k in d: f(k)\n");
        all(&Targets, "for k, v in d.items(): f(v)\n", "for v in d.values(): f(v)\n");
        all(&Targets, "[a for a, b in zip(x, y)]\n", "[a for a in x]\n");
        nothing(&Targets, "for i, x in enumerate(xs): f(i)\n");
    }
}
