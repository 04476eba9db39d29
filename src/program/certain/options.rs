//! Command line options: which are declared, and which the command gives.
//!
//! Invariant: an option counts as undeclared only if no declaration of any parser in the text may stand for it. Must not know
//! what ran.

use std::collections::BTreeSet;

use super::super::names::arguments;
use super::super::python::{Expr, Stmt, ast};
use super::super::{Program, StmtId};
use super::left::{Left, terminal};

/// Words in whose presence options may come from elsewhere.
const OPEN: &[&str] = &[
    "set_defaults",
    "add_subparsers",
    "parents=",
    "parse_known",
    "Namespace",
    "prefix_chars",
    "sys.argv",
    "REMAINDER",
    "add_argument_group",
    "add_mutually",
    "allow_abbrev",
    "exit_on_error",
    "conflict_handler",
    "\"...\"",
    "'...'",
];

/// Whether the text declares options in other ways than by plain `add_argument`.
pub(super) fn is_open(program: &Program) -> bool {
    program.tree().files.values().any(|file| OPEN.iter().any(|word| file.text().contains(word)))
}

/// The names of one declaration; `None` where the text does not show them.
fn declared(call: &ast::ExprCall) -> Option<Vec<String>> {
    let names = call.arguments.args.iter().map(|argument| match argument {
        Expr::StringLiteral(name) => Some(name.value.to_str().to_owned()),
        _ => None,
    });
    let shown = call.arguments.keywords.iter().all(|keyword| keyword.arg.is_some());
    names.collect::<Option<Vec<String>>>().filter(|names| shown && !names.is_empty())
}

fn has(call: &ast::ExprCall, keyword: &str) -> bool {
    arguments(call).any(|(name, _)| name == Some(keyword))
}

fn is_declaration(call: &ast::ExprCall) -> bool {
    terminal(&call.func) == Some("add_argument")
}

/// Whether what `parse_args` gives has no attribute of this name: no declaration that is left gives it one.
pub(super) fn is_undeclared(left: &Left<'_>, name: &str) -> bool {
    let mut declarations = left.calls.iter().map(|one| one.call).filter(|call| is_declaration(call));
    let gives = |call: &ast::ExprCall| {
        let Some(names) = declared(call) else { return true };
        has(call, "dest") || names.iter().any(|one| one.trim_start_matches('-').replace('-', "_") == name)
    };
    !name.starts_with('_') && !left.foreign.contains(name) && !declarations.any(gives)
}

/// Whether the parser refuses the command line once `gone` is gone: an option or a file name that nothing declares any more.
pub(super) fn is_refused(program: &Program, left: &Left<'_>, gone: &BTreeSet<StmtId>, argv: &[String]) -> bool {
    let lost: Vec<&ast::ExprCall> = gone
        .iter()
        .filter_map(|id| match program.node(*id) {
            Some(Stmt::Expr(node)) => node.value.as_call_expr().filter(|call| is_declaration(call)),
            _ => None,
        })
        .collect();
    if lost.is_empty() {
        return false;
    }
    let mut kept = Vec::new();
    for call in left.calls.iter().map(|one| one.call).filter(|call| is_declaration(call)) {
        let Some(names) = declared(call) else { return false };
        kept.push((call, names));
    }
    let options = || kept.iter().flat_map(|(_, names)| names).filter(|name| name.starts_with('-'));
    for call in lost {
        let Some(lost) = declared(call) else { continue };
        if lost.iter().all(|name| !name.starts_with('-')) {
            // All that is left takes one text each, so there is one text too many.
            let takes_one = |(call, names): &(&ast::ExprCall, Vec<String>)| {
                names.iter().any(|name| name.starts_with('-')) || !has(call, "nargs")
            };
            if !has(call, "nargs") && !argv.iter().any(|text| text == "--") && kept.iter().all(takes_one) {
                return true;
            }
            continue;
        }
        let texts = argv.iter().take_while(|text| *text != "--");
        let given = texts.filter(|text| text.starts_with('-') && !text.contains(' '));
        for text in given.map(|text| text.split('=').next().unwrap_or(text)) {
            // A shorter form of another option would be taken for that.
            if lost.iter().any(|name| name == text) && !options().any(|name| name.starts_with(text)) {
                return true;
            }
        }
    }
    false
}
