//! `displays`: elements of lists, tuples, sets and dictionaries, and of calls that are lists in disguise.
//!
//! Removes elements one by one: of literals, of `nn.Sequential(...)`, `ModuleList([...])`, `Compose([...])`, and entries of
//! dictionaries, first those whose key nothing reads.
//! Why it is safe to try: a list of layers, callbacks or options does its work with fewer.
//! Cost: one run for all likely ones, then halving; limited by the strategy.
//!
//! ```text
//! config = {"lr": 0.1, "note": "a"}            config = {"lr": 0.1}
//! nn.Sequential(conv, nn.ReLU(), head)   ->    nn.Sequential(conv, head)
//! ```
//!
//! Invariant: tuples and sets keep an element, so that they stay what they are. Must not touch targets or subscripts.

use std::ops::Range;
use std::sync::Arc;

use crate::program::Program;
use crate::program::python::{AnyNodeRef, Expr, ExprContext, ast, range};

use super::Pass;
use super::facts::Facts;
use super::names::Names;
use super::proposal::{Draft, Proposal};
use super::sequence::{Sequence, Single};
use super::view::{Brackets, View, last_name};
use super::walk::walk;

/// See the module.
pub(super) struct Displays;

const NAME: &str = "displays";

impl Pass for Displays {
    fn name(&self) -> &'static str {
        NAME
    }

    fn proposals(&self, program: &Program, _facts: &Facts) -> Vec<Proposal> {
        let names = Names::of(program);
        let mut proposals = Vec::new();
        for view in View::of(program) {
            walk(&view, |node, ancestors| match node {
                AnyNodeRef::ExprList(list) if list.ctx == ExprContext::Load => {
                    let row = row(&view, list.elts.iter().map(range), range(list), Least::None);
                    let prior = |at: usize| list.elts.get(at).map_or(0.1, element_prior);
                    each(&view, &row, "an element of a list", prior, &mut proposals);
                }
                AnyNodeRef::ExprSet(set) => {
                    let row = row(&view, set.elts.iter().map(range), range(set), Least::One);
                    each(&view, &row, "an element of a set", |_| 0.25, &mut proposals);
                }
                AnyNodeRef::ExprTuple(tuple) if is_value(tuple, ancestors) => {
                    let row = tuple_row(&view, tuple);
                    each(&view, &row, "an element of a tuple", |_| 0.1, &mut proposals);
                }
                AnyNodeRef::ExprDict(dict) => {
                    let items = dict.items.iter().map(|item| entry(&view, dict, item));
                    let row = row(&view, items, range(dict), Least::None);
                    let prior = |at: usize| key_prior(&names, dict.items.get(at));
                    each(&view, &row, "an entry of a dictionary", prior, &mut proposals);
                }
                AnyNodeRef::ExprCall(call) if last_name(&call.func).is_some_and(|name| ROWS.contains(&name)) => {
                    let row = view.arguments(&call.arguments, Brackets::Stay);
                    each(&view, &row, "an item of a call that takes many", |_| 0.25, &mut proposals);
                }
                _ => {}
            });
        }
        proposals
    }
}

/// Calls whose positional arguments are a list.
const ROWS: [&str; 4] = ["Sequential", "max", "min", "chain"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Least {
    None,
    One,
}

fn row(view: &View<'_>, items: impl Iterator<Item = Range<usize>>, whole: Range<usize>, least: Least) -> Arc<Sequence> {
    let inside = whole.start + 1..whole.end - 1;
    Arc::new(view.sequence(items, &inside, (least == Least::None).then(|| inside.clone())))
}

fn tuple_row(view: &View<'_>, tuple: &ast::ExprTuple) -> Arc<Sequence> {
    let whole = range(tuple);
    let inside = if tuple.parenthesized { whole.start + 1..whole.end - 1 } else { whole };
    let row = view.sequence(tuple.elts.iter().map(range), &inside, None);
    Arc::new(Sequence { single: Single::Comma, ..row })
}

/// A tuple that is built, not taken apart, indexed with or annotated with.
fn is_value(tuple: &ast::ExprTuple, ancestors: &[AnyNodeRef<'_>]) -> bool {
    let parent = ancestors.last();
    tuple.ctx == ExprContext::Load
        && tuple.elts.len() > 1
        && !matches!(
            parent,
            Some(
                AnyNodeRef::ExprSubscript(_)
                    | AnyNodeRef::InterpolatedElement(_)
                    | AnyNodeRef::ExceptHandlerExceptHandler(_)
            )
        )
}

/// An entry of a dictionary: `key: value` or `**value`, with the parentheses around both.
fn entry(view: &View<'_>, dict: &ast::ExprDict, item: &ast::DictItem) -> Range<usize> {
    let whole = range(dict);
    let value = view.outer(range(&item.value), &whole);
    let start = match &item.key {
        Some(key) => view.outer(range(key), &(whole.start + 1..value.start)).start,
        None => view.previous(value.start).map_or(value.start, |stars| range(stars).start),
    };
    start..value.end
}

/// Layers, callbacks, transforms go more easily than the rows and names that data stands for.
fn element_prior(element: &Expr) -> f64 {
    match element {
        Expr::Call(_) | Expr::Starred(_) => 0.3,
        Expr::Name(_) | Expr::Attribute(_) | Expr::Tuple(_) | Expr::Dict(_) | Expr::List(_) => 0.2,
        _ => 0.1,
    }
}

fn key_prior(names: &Names<'_>, item: Option<&ast::DictItem>) -> f64 {
    match item.and_then(|item| item.key.as_ref()) {
        Some(Expr::StringLiteral(key)) => {
            let key = key.value.to_str();
            let read = names.spellings(key) > 1 || names.attribute_reads(key) > 0 || names.loaded_anywhere(key);
            if read { 0.15 } else { 0.8 }
        }
        _ => 0.2,
    }
}

fn each(
    view: &View<'_>,
    row: &Arc<Sequence>,
    detail: &str,
    prior: impl Fn(usize) -> f64,
    proposals: &mut Vec<Proposal>,
) {
    if row.items.len() == 1 && row.whole.is_none() {
        return;
    }
    for (at, item) in row.items.iter().enumerate() {
        let draft = Draft::new(NAME, view, item.start, detail, prior(at));
        proposals.extend(draft.item(view, row, at).finish());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::check::{all, each, nothing};

    #[test]
    fn elements_go_one_by_one() {
        each(&Displays, "x = [a, (b)]\n", &["x = [(b)]\n", "x = [a]\n"]);
        all(&Displays, "x = [\n\ta,  # one\n\tb,\n]\n", "x = []\n");
        all(&Displays, "x = {a, b}\n", "x = {a}\n");
        each(&Displays, "x = {'a': 1, **b}\n", &["x = {**b}\n", "x = {'a': 1}\n"]);
        each(&Displays, "nn.Sequential(a, b)\n", &["nn.Sequential(b)\n", "nn.Sequential(a)\n"]);
    }

    #[test]
    fn tuples_stay_tuples() {
        each(&Displays, "return_ = a, b\n", &["return_ = b,\n", "return_ = a,\n"]);
        each(&Displays, "f((a, b,))\n", &["f((b,))\n", "f((a,))\n"]);
        all(&Displays, "f((a, b))\n", "f((a,))\n");
    }

    #[test]
    fn targets_and_subscripts_stay() {
        nothing(&Displays, "a, b = f()\nx[a, b]\nfor c, d in e: pass\nx: Dict[str, int]\n");
    }
}
