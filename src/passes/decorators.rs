//! `decorators`: decorators of functions and classes, one by one.
//!
//! Why it is safe to try: most decorators only watch, cache, check or register.
//! Cost: one run for all, then about two for each that must stay.
//!
//! ```text
//! @torch.no_grad()
//! @timed               ->   def evaluate(model): ...
//! def evaluate(model): ...
//! ```
//!
//! Invariant: the definition itself keeps every byte. Must not touch `def` or `class` lines.

use crate::program::Program;
use crate::program::python::{AnyNodeRef, TokenKind, ast, range};

use super::Pass;
use super::facts::Facts;
use super::proposal::{Draft, Proposal};
use super::view::{View, last_name};
use super::walk::walk;

/// See the module.
pub(super) struct Decorators;

const NAME: &str = "decorators";

impl Pass for Decorators {
    fn name(&self) -> &'static str {
        NAME
    }

    fn proposals(&self, program: &Program, _facts: &Facts) -> Vec<Proposal> {
        let mut proposals = Vec::new();
        for view in View::of(program) {
            walk(&view, |node, _| {
                let (list, end) = match node {
                    AnyNodeRef::StmtFunctionDef(stmt) => (&stmt.decorator_list, range(&stmt.name).start),
                    AnyNodeRef::StmtClassDef(stmt) => (&stmt.decorator_list, range(&stmt.name).start),
                    _ => return,
                };
                for (index, decorator) in list.iter().enumerate() {
                    let start = range(decorator).start;
                    let next = match list.get(index + 1) {
                        Some(next) => Some(range(next).start),
                        None => keyword(&view, range(decorator).end..end),
                    };
                    let Some(next) = next else { continue };
                    let draft = Draft::new(NAME, &view, start, "a decorator", prior(decorator));
                    proposals.extend(draft.cut(&view, start..next).finish());
                }
            });
        }
        proposals
    }
}

fn keyword(view: &View<'_>, within: std::ops::Range<usize>) -> Option<usize> {
    let first = [TokenKind::Async, TokenKind::Def, TokenKind::Class].map(|kind| view.find(kind, within.clone()));
    first.into_iter().flatten().min()
}

/// What decorators of these names mean to a caller.
pub(super) fn prior(decorator: &ast::Decorator) -> f64 {
    match last_name(&decorator.expression) {
        Some("property" | "setter" | "getter" | "deleter" | "cached_property") => 0.03,
        Some("staticmethod" | "classmethod" | "contextmanager" | "asynccontextmanager") => 0.03,
        Some("dataclass" | "define" | "attrs" | "s" | "total_ordering") => 0.05,
        Some("overload" | "override" | "final" | "abstractmethod" | "runtime_checkable" | "no_type_check") => 0.95,
        Some("cache" | "lru_cache" | "wraps" | "unique" | "deprecated" | "unused" | "ignore") => 0.9,
        Some("no_grad" | "inference_mode" | "enable_grad" | "autocast" | "record_function" | "custom_fwd") => 0.85,
        Some("compile" | "script" | "jit" | "script_method") => 0.5,
        Some("fixture" | "command" | "main" | "option" | "argument" | "group") => 0.1,
        _ => 0.5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::check::{all, each};

    #[test]
    fn decorators_go_one_by_one() {
        let text = "@a\n@b(1)  # why\ndef f(): pass\n";
        each(&Decorators, text, &["@b(1)  # why\ndef f(): pass\n", "@a\ndef f(): pass\n"]);
        all(&Decorators, text, "def f(): pass\n");
        all(
            &Decorators,
            "class A:\r\n\t@a\r\n\t# note\r\n\tasync def f(self): pass\r\n",
            "class A:\r\n\tasync def f(self): pass\r\n",
        );
        all(&Decorators, "@a\n@b\nclass A: pass\n", "class A: pass\n");
    }
}
