//! `inline`: the body of a function that the module calls directly behind it takes the place of both.
//!
//! Removes the header, one level of indent and the call of a function without parameters whose only call is the next
//! statement of the module, bare or below `if __name__ == "__main__":`.
//! Why it is safe to try: the same statements run in the same order; their names become names of the module, so a function
//! whose names the module binds as well stays.
//! Cost: none of its own, but some runs more of the sweep: less is certain about names of a module.
//!
//! ```text
//! def main():                      loader = make_loader()
//!     loader = make_loader()  ->   train(loader)
//!     train(loader)
//!
//! main()
//! ```
//!
//! Invariant: no statement moves past another. Must not inline a body that returns, yields or shares names.

use std::collections::BTreeSet;

use crate::program::Program;
use crate::program::python::{AnyNodeRef, Expr, ExprContext, Stmt, ast, range};

use super::Pass;
use super::call_sites::{Callee, callees};
use super::facts::Facts;
use super::names::Names;
use super::peel::{Clause, peel};
use super::proposal::{Draft, Proposal};
use super::view::View;
use super::walk::{walk, walk_body};

/// See the module.
pub(super) struct Inline;

const NAME: &str = "inline";

impl Pass for Inline {
    fn name(&self) -> &'static str {
        NAME
    }

    fn proposals(&self, program: &Program, _facts: &Facts) -> Vec<Proposal> {
        let names = Names::of(program);
        let callees = callees(program);
        let mut proposals = Vec::new();
        for view in View::of(program) {
            for pair in view.body().windows(2) {
                let [Stmt::FunctionDef(function), next] = pair else { continue };
                let known = callees.get(function.name.as_str()).filter(|callee| is_its(callee, &view, function));
                if known.is_some() && calls(next, function.name.as_str()) {
                    proposals.extend(inlined(&view, function, next, &names));
                }
            }
        }
        proposals
    }
}

/// Whether all calls of this function are known to be one.
fn is_its(callee: &Callee<'_>, view: &View<'_>, function: &ast::StmtFunctionDef) -> bool {
    callee.view.path == view.path && range(callee.function) == range(function) && callee.calls.len() == 1
}

/// Whether a statement is just the call of this function, or that below `if __name__ == ...`.
fn calls(stmt: &Stmt, name: &str) -> bool {
    match stmt {
        Stmt::Expr(stmt) => {
            let Expr::Call(call) = &*stmt.value else { return false };
            matches!(&*call.func, Expr::Name(called) if called.id.as_str() == name) && call.arguments.is_empty()
        }
        Stmt::If(stmt) if stmt.elif_else_clauses.is_empty() && super::hoist::is_main(&stmt.test) => {
            matches!(&stmt.body[..], [only] if calls(only, name))
        }
        _ => false,
    }
}

fn inlined(view: &View<'_>, function: &ast::StmtFunctionDef, call: &Stmt, names: &Names<'_>) -> Option<Proposal> {
    let plain = function.decorator_list.is_empty() && !function.is_async && function.type_params.is_none();
    let empty = function.parameters.is_empty();
    let alone = |end: usize| {
        let rest = view.text[end..view.line_end(end)].trim();
        rest.is_empty() || rest.starts_with('#')
    };
    let end = range(call).end;
    view.indent(range(call).start)?;
    if !(plain && empty && alone(end) && alone(range(function.body.last()?).end)) {
        return None;
    }
    let own = own_names(&function.body)?;
    let taken = module_names(view, function);
    let clash = |name: &&str| taken.contains(name) || names.read_elsewhere(view.path, name);
    if own.iter().any(clash) {
        return None;
    }
    let whole = range(function).start..end;
    let cuts = peel(view, &whole, &[Clause { keyword: whole.start, body: &function.body }])?;
    let detail = "the body of a function that the next statement calls";
    Draft::new(NAME, view, whole.start, detail, 0.93).cuts(view, cuts).finish()
}

/// The names that a body binds in its own scope; `None` when it cannot stand outside a function.
fn own_names(body: &[Stmt]) -> Option<BTreeSet<&str>> {
    let mut own = BTreeSet::new();
    let mut fits = true;
    walk_body(body, |node, ancestors| {
        use AnyNodeRef::{ExprAwait, ExprYield, ExprYieldFrom, StmtGlobal, StmtNonlocal, StmtReturn};
        fits &= match node {
            StmtNonlocal(_) | StmtGlobal(_) => false,
            StmtReturn(_) | ExprYield(_) | ExprYieldFrom(_) | ExprAwait(_) => is_below(ancestors),
            AnyNodeRef::ExprName(name) => !LOOKS_UP.contains(&name.id.as_str()),
            _ => true,
        };
        if !is_below(ancestors) {
            bound(node, &mut own);
        }
    });
    fits.then_some(own)
}

/// Functions that see the scope they are called in.
const LOOKS_UP: [&str; 6] = ["locals", "globals", "vars", "dir", "eval", "exec"];

/// The names that a file binds at module level outside a function, and those that some function declares global.
fn module_names<'a>(view: &View<'a>, outside: &ast::StmtFunctionDef) -> BTreeSet<&'a str> {
    let mut taken = BTreeSet::new();
    let skipped = range(outside);
    walk(view, |node, ancestors| match node {
        AnyNodeRef::StmtGlobal(stmt) => taken.extend(stmt.names.iter().map(|name| name.as_str())),
        _ if !is_below(ancestors) && !skipped.contains(&range(&node).start) => bound(node, &mut taken),
        _ => {}
    });
    taken
}

/// Whether a node lies in a scope of its own.
fn is_below(ancestors: &[AnyNodeRef<'_>]) -> bool {
    use AnyNodeRef::{
        ExprDictComp, ExprGenerator, ExprLambda, ExprListComp, ExprSetComp, StmtClassDef, StmtFunctionDef,
    };
    let scope = |node: &AnyNodeRef<'_>| {
        matches!(
            node,
            StmtFunctionDef(_)
                | StmtClassDef(_)
                | ExprLambda(_)
                | ExprListComp(_)
                | ExprSetComp(_)
                | ExprDictComp(_)
                | ExprGenerator(_)
        )
    };
    ancestors.iter().any(scope)
}

/// What a node binds.
fn bound<'a>(node: AnyNodeRef<'a>, names: &mut BTreeSet<&'a str>) {
    match node {
        AnyNodeRef::ExprName(name) if name.ctx != ExprContext::Load => {
            names.insert(name.id.as_str());
        }
        AnyNodeRef::StmtFunctionDef(function) => {
            names.insert(function.name.as_str());
        }
        AnyNodeRef::StmtClassDef(class) => {
            names.insert(class.name.as_str());
        }
        AnyNodeRef::Alias(alias) => {
            let name = alias.asname.as_ref().unwrap_or(&alias.name).as_str();
            names.insert(name.split('.').next().unwrap_or(name));
        }
        AnyNodeRef::ExceptHandlerExceptHandler(handler) => names.extend(handler.name.iter().map(|name| name.as_str())),
        AnyNodeRef::PatternMatchAs(pattern) => names.extend(pattern.name.iter().map(|name| name.as_str())),
        AnyNodeRef::PatternMatchStar(pattern) => names.extend(pattern.name.iter().map(|name| name.as_str())),
        AnyNodeRef::PatternMatchMapping(pattern) => names.extend(pattern.rest.iter().map(|name| name.as_str())),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::check::{all, files, nothing};

    #[test]
    fn the_body_takes_the_place_of_the_function_and_its_call() {
        all(&Inline, "def main():\n    x = f()\n    g(x)\n\n\nmain()\n", "x = f()\ng(x)\n");
        all(&Inline, "def main():\r\n\tf()\r\nif __name__ == '__main__':\r\n\tmain()\r\nh()\r\n", "f()\r\nh()\r\n");
        all(&Inline, "def main(): f(); g()\nmain()  # go", "f(); g()\n");
        all(&Inline, "def main() -> None:  # why\n    x = '''\n    y'''\nmain()\n", "x = '''\n    y'''\n");
        all(&Inline, "def main():\n    def f():\n        return 1\n    f()\nmain()\n", "def f():\n    return 1\nf()\n");
    }

    #[test]
    fn a_name_may_be_that_of_another_function_but_not_of_the_module() {
        all(&Inline, "def f(x): h(x)\ndef main():\n    x = 1\n    f(x)\nmain()\n", "def f(x): h(x)\nx = 1\nf(x)\n");
        nothing(&Inline, "x = 2\ndef main():\n    x = 1\nmain()\nf(x)\n");
        nothing(&Inline, "import os.path\ndef main():\n    import os\nmain()\n");
        nothing(&Inline, "def f():\n    global x\n    x = 1\ndef main():\n    x = 1\nmain()\n");
        let before = [("train.py", "def main():\n    x = 1\nmain()\n"), ("other.py", "import train\ntrain.x\n")];
        files(&Inline, &before, &[("train.py", Some(before[0].1))]);
    }

    #[test]
    fn what_needs_its_function_stays() {
        nothing(&Inline, "def main():\n    f()\n    return 1\nmain()\n");
        nothing(&Inline, "def main():\n    yield 1\nmain()\n");
        nothing(&Inline, "async def main():\n    f()\nmain()\n");
        nothing(&Inline, "@hook\ndef main():\n    f()\nmain()\n");
        nothing(&Inline, "def main(x=1):\n    f(x)\nmain()\n");
        nothing(&Inline, "def main():\n    f()\nmain(1)\n");
        nothing(&Inline, "def main():\n    f()\nx = main()\n");
        nothing(&Inline, "def main():\n    f()\nmain()\nmain()\n");
        nothing(&Inline, "def main():\n    f()\nmain(); g()\n");
        nothing(&Inline, "def main():\n    f()\ng()\nmain()\n");
        nothing(&Inline, "def main():\n    f(locals())\nmain()\n");
        nothing(&Inline, "def main():\n    f(main)\nmain()\n");
    }
}
