//! Which argument of a call becomes which parameter.
//!
//! Invariant: only calls that the trace saw are matched; unpacked arguments match nothing. Must not follow values.

use super::names::{self, Names, ScopeKind};
use super::parse::Program;
use super::python::{Expr, Stmt};
use super::statement::StmtId;
use super::walk;

/// The arguments that a statement's calls give to a function's parameters.
pub(crate) fn matched_arguments<'a>(
    program: &'a Program,
    names: &Names,
    caller: StmtId,
    callee: StmtId,
) -> Vec<(String, &'a Expr)> {
    let (Some(node), Some(Stmt::FunctionDef(def))) = (program.node(caller), program.node(callee)) else {
        return Vec::new();
    };
    let scope = &names.scopes[names.scope_of(callee)];
    let class = scope.owner.filter(|_| scope.kind == ScopeKind::Class);
    let class_name = match class.and_then(|class| program.node(class)) {
        Some(Stmt::ClassDef(class)) => Some(class.name.as_str()),
        _ => None,
    };
    let is_init = def.name.as_str() == "__init__";
    let is_implicit = ["forward", "__call__"].contains(&def.name.as_str());
    let is_static = def
        .decorator_list
        .iter()
        .any(|decorator| decorator.expression.as_name_expr().is_some_and(|name| name.id.as_str() == "staticmethod"));
    let skipped = usize::from(class.is_some() && !is_static);
    let mut matched = Vec::new();
    for call in walk::calls(node) {
        let called = walk::callee_name(call);
        let is_it = called == def.name.as_str() || is_init && Some(called) == class_name;
        // `model(x)` runs `forward`: the outermost call of a statement whose name is no function of ours.
        if !(is_it || is_implicit && matched.is_empty() && !called.is_empty()) {
            continue;
        }
        let positional: Vec<&str> = def
            .parameters
            .posonlyargs
            .iter()
            .chain(&def.parameters.args)
            .skip(skipped)
            .map(|parameter| parameter.parameter.name.as_str())
            .collect();
        let mut place = 0;
        for (keyword, value) in names::arguments(call) {
            let parameter = match keyword {
                Some(keyword) => Some(keyword),
                None => {
                    place += 1;
                    positional.get(place - 1).copied()
                }
            };
            matched.extend(parameter.map(|parameter| (parameter.to_owned(), value)));
        }
    }
    matched
}
