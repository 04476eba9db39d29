//! Whether computing an expression does anything besides giving its value.
//!
//! Owns the list of calls that do not. Invariant: doubt counts as doing something. Must not resolve what a name is bound to.

use crate::program::python::{AnyNodeRef, Expr};

use super::view::last_name;
use super::walk::walk_expr;

/// Builtins and methods of dictionaries that only look at what they are given.
const LOOKS: [&str; 17] = [
    "list", "tuple", "dict", "set", "len", "range", "str", "int", "float", "bool", "sorted", "min", "max", "sum",
    "keys", "values", "items",
];

/// Whether nothing is lost with a value but the value.
pub(super) fn is_plain(value: &Expr) -> bool {
    let mut plain = true;
    walk_expr(value, |node| {
        plain &= match node {
            AnyNodeRef::ExprCall(call) => last_name(&call.func).is_some_and(|name| LOOKS.contains(&name)),
            AnyNodeRef::ExprAwait(_)
            | AnyNodeRef::ExprNamed(_)
            | AnyNodeRef::ExprYield(_)
            | AnyNodeRef::ExprYieldFrom(_) => false,
            _ => true,
        };
    });
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::check::tree_of;
    use crate::passes::view::View;
    use crate::program::python::Stmt;

    #[test]
    fn what_only_looks_is_plain() {
        let plain = |text: &str| {
            let program = tree_of(text);
            let view = View::of(&program).next().expect("it parses");
            let Some(Stmt::Expr(stmt)) = view.body().first() else { panic!("no expression: {text}") };
            is_plain(&stmt.value)
        };
        assert!(["a + 1", "list(d.values())", "[x for x in range(len(y))]"].into_iter().all(plain));
        assert!(!["f(a)", "list(f())", "d.pop()", "(a := 1)", "torch.rand(2)"].into_iter().any(plain));
    }
}
