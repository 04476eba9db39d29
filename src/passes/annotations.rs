//! `annotations`: type annotations and docstrings.
//!
//! Removes annotations of parameters, results and variables, annotations without a value, and statements that are only a
//! string. Class bodies whose annotations are fields (dataclasses, named tuples, typed dictionaries, models) stay.
//! Why it is safe to try: Python does not look at them when it runs, unless something asks for them.
//! Cost: one run for all, as a rule.
//!
//! ```text
//! def step(self, x: Tensor, n: int = 3) -> Tensor:     def step(self, x, n = 3):
//!     """One step."""                              ->      total = 0
//!     total: int = 0
//! ```
//!
//! Invariant: names and values keep every byte. Must not delete a statement that binds.

use std::ops::Range;

use crate::program::Program;
use crate::program::python::{AnyNodeRef, Expr, Stmt, TokenKind, ast, range};

use super::Pass;
use super::decorators::prior as decorator_prior;
use super::facts::Facts;
use super::names::Names;
use super::proposal::{Draft, Proposal};
use super::view::{View, last_name};
use super::walk::{in_class, walk};

/// See the module.
pub(super) struct Annotations;

const NAME: &str = "annotations";

impl Pass for Annotations {
    fn name(&self) -> &'static str {
        NAME
    }

    fn proposals(&self, program: &Program, _facts: &Facts) -> Vec<Proposal> {
        let names = Names::of(program);
        let asked = ["get_type_hints", "__annotations__", "signature", "script", "jit", "beartype", "typechecked"];
        let asked = asked.into_iter().any(|name| names.attribute_reads(name) > 0 || names.loaded_anywhere(name));
        let site = Site { asked, documented: names.attribute_reads("__doc__") > 0 };
        let mut proposals = Vec::new();
        for view in View::of(program) {
            walk(&view, |node, ancestors| {
                proposals.extend(match node {
                    AnyNodeRef::StmtFunctionDef(function) => site.function(&view, function),
                    AnyNodeRef::StmtAnnAssign(stmt) => site.variable(&view, stmt, ancestors),
                    AnyNodeRef::StmtExpr(stmt) => site.string(&view, stmt),
                    _ => None,
                });
            });
        }
        proposals
    }
}

struct Site {
    asked: bool,
    documented: bool,
}

impl Site {
    fn sure(&self) -> f64 {
        if self.asked { 0.4 } else { 0.98 }
    }

    /// All annotations of one function.
    fn function(&self, view: &View<'_>, function: &ast::StmtFunctionDef) -> Option<Proposal> {
        let registers = function.decorator_list.iter().any(|decorator| {
            decorator_prior(decorator) < 0.03 || {
                matches!(last_name(&decorator.expression), Some("command" | "main" | "register" | "script" | "fixture"))
            }
        });
        let prior = if registers { 0.4 } else { self.sure() };
        let draft = Draft::new(NAME, view, range(&function.name).start, "annotations of a function", prior);
        let parameters = &*function.parameters;
        let all = range(parameters);
        let cuts = parameters.iter().filter_map(|parameter| {
            let parameter = parameter.as_parameter();
            let annotation = parameter.annotation.as_deref()?;
            Some(range(&parameter.name).end..view.outer(range(annotation), &all).end)
        });
        draft.cuts(view, cuts.chain(result(view, function))).finish()
    }

    /// `x: int = 1` to `x = 1`; `x: int` away.
    fn variable(&self, view: &View<'_>, stmt: &ast::StmtAnnAssign, ancestors: &[AnyNodeRef<'_>]) -> Option<Proposal> {
        if in_class(ancestors) && !ancestors.iter().rev().find_map(plain_class)? {
            return None;
        }
        let whole = range(stmt);
        let draft = Draft::new(NAME, view, whole.start, "an annotation", self.sure());
        if stmt.value.is_none() {
            return draft.statement(view, view.id(stmt)?, &whole).finish();
        }
        let annotation = range(&*stmt.annotation);
        let colon = view.find(TokenKind::Colon, range(&*stmt.target).end..annotation.start)?;
        let end = view.outer(annotation, &whole).end;
        draft.cut(view, colon..end).finish()
    }

    /// A statement that is only a string.
    fn string(&self, view: &View<'_>, stmt: &ast::StmtExpr) -> Option<Proposal> {
        let Expr::StringLiteral(_) = &*stmt.value else { return None };
        let prior = if self.documented { 0.7 } else { 0.99 };
        let draft = Draft::new(NAME, view, range(stmt).start, "a docstring", prior);
        draft.statement(view, view.id(stmt)?, &range(stmt)).finish()
    }
}

/// ` -> T` of a function.
fn result(view: &View<'_>, function: &ast::StmtFunctionDef) -> Option<Range<usize>> {
    let returns = range(&**function.returns.as_ref()?);
    let arrow = view.find(TokenKind::Rarrow, range(&*function.parameters).end..returns.start)?;
    let body = range(function.body.first()?).start;
    let end = view.outer(returns, &(arrow..body)).end;
    let start = range(view.previous(arrow)?).end;
    Some(start..end)
}

/// Whether annotations in the body of this class, if it is one, are not fields.
fn plain_class(node: &AnyNodeRef<'_>) -> Option<bool> {
    let AnyNodeRef::StmtClassDef(class) = node else { return None };
    let bases = class.arguments.iter().flat_map(|arguments| &arguments.args);
    let plain = |base: &Expr| matches!(last_name(base), Some("object" | "Module" | "Dataset" | "ABC"));
    let keywords = class.arguments.as_ref().is_some_and(|arguments| !arguments.keywords.is_empty());
    Some(class.decorator_list.is_empty() && !keywords && bases.into_iter().all(plain))
}

/// Whether a statement is only a string.
pub(super) fn is_string(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::Expr(stmt) if matches!(&*stmt.value, Expr::StringLiteral(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::check::{all, nothing};

    #[test]
    fn annotations_of_functions_go() {
        all(
            &Annotations,
            "def f(a: int, *b: str, c: 'X' = 1, **d: T) -> Tensor: pass\n",
            "def f(a, *b, c = 1, **d): pass\n",
        );
        all(
            &Annotations,
            "def f(\r\n\ta: (int),  # one\r\n\tb=2) -> (\r\n\tTensor):\r\n\treturn a\r\n",
            "def f(\r\n\ta,  # one\r\n\tb=2):\r\n\treturn a\r\n",
        );
    }

    #[test]
    fn annotations_of_variables_go() {
        all(&Annotations, "x: int = 1\ny: str; z = 2\n", "x = 1\nz = 2\n");
        all(&Annotations, "def f():\n    x: list[int]\n", "def f():\n    pass\n");
        all(
            &Annotations,
            "class A(nn.Module):\n    n: int = 1\n    m = 2\n",
            "class A(nn.Module):\n    n = 1\n    m = 2\n",
        );
    }

    #[test]
    fn fields_keep_their_annotations() {
        nothing(&Annotations, "@dataclass\nclass A:\n    n: int = 1\n");
        nothing(&Annotations, "class A(NamedTuple):\n    n: int = 1\n");
        nothing(&Annotations, "class A(Model, table=True):\n    n: int = 1\n");
    }

    #[test]
    fn docstrings_go() {
        all(&Annotations, "\"\"\"Module.\n\nMore.\"\"\"\nx = 1\n", "x = 1\n");
        all(&Annotations, "def f():\n    'doc'\n", "def f():\n    pass\n");
    }
}
