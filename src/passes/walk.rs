//! One walk over a syntax tree that knows the ancestors of each node.
//!
//! Invariant: nodes come in order of the text, a node before its parts. Must not collect anything itself.

use crate::program::python::visitor::source_order::{SourceOrderVisitor, TraversalSignal};
use crate::program::python::{AnyNodeRef, Expr, Pattern, Stmt};

use super::view::View;

/// Calls a function on each node of a file with its ancestors, outermost first.
pub(super) fn walk<'a>(view: &View<'a>, visit: impl FnMut(AnyNodeRef<'a>, &[AnyNodeRef<'a>])) {
    walk_body(view.body(), visit);
}

/// Calls a function on each node of these statements with its ancestors inside them.
pub(super) fn walk_body<'a>(body: &'a [Stmt], visit: impl FnMut(AnyNodeRef<'a>, &[AnyNodeRef<'a>])) {
    let mut walk = Walk { visit, ancestors: Vec::new() };
    for statement in body {
        walk.visit_stmt(statement);
    }
}

/// Calls a function on each node of an expression.
pub(super) fn walk_expr<'a>(expr: &'a Expr, mut visit: impl FnMut(AnyNodeRef<'a>)) {
    Walk { visit: |node, _: &[AnyNodeRef<'a>]| visit(node), ancestors: Vec::new() }.visit_expr(expr);
}

/// The innermost function around a node.
pub(super) fn function<'a>(ancestors: &[AnyNodeRef<'a>]) -> Option<AnyNodeRef<'a>> {
    ancestors
        .iter()
        .rev()
        .copied()
        .find(|node| matches!(node, AnyNodeRef::StmtFunctionDef(_) | AnyNodeRef::ExprLambda(_)))
}

/// Whether the innermost definition around a node is a class.
pub(super) fn in_class(ancestors: &[AnyNodeRef<'_>]) -> bool {
    let definition = ancestors
        .iter()
        .rev()
        .find(|node| matches!(node, AnyNodeRef::StmtFunctionDef(_) | AnyNodeRef::StmtClassDef(_)));
    matches!(definition, Some(AnyNodeRef::StmtClassDef(_)))
}

struct Walk<'a, F> {
    visit: F,
    ancestors: Vec<AnyNodeRef<'a>>,
}

impl<'a, F: FnMut(AnyNodeRef<'a>, &[AnyNodeRef<'a>])> SourceOrderVisitor<'a> for Walk<'a, F> {
    fn enter_node(&mut self, node: AnyNodeRef<'a>) -> TraversalSignal {
        (self.visit)(node, &self.ancestors);
        self.ancestors.push(node);
        TraversalSignal::Traverse
    }

    fn leave_node(&mut self, _node: AnyNodeRef<'a>) {
        self.ancestors.pop();
    }
}

/// Calls a function on each node of a pattern.
pub(super) fn walk_pattern<'a>(pattern: &'a Pattern, mut visit: impl FnMut(AnyNodeRef<'a>)) {
    Walk { visit: |node, _: &[AnyNodeRef<'a>]| visit(node), ancestors: Vec::new() }.visit_pattern(pattern);
}
