//! `parameters`: parameters that the body does not read, with their arguments at every call.
//!
//! Removes such parameters where all calls are known (`call_sites`), rests that nobody fills, and defaults that every call
//! overrides.
//! Why it is safe to try: nothing inside the function can tell; only what an argument does while it is computed is lost.
//! Cost: one run for all, as a rule.
//!
//! ```text
//! def loss(x, y, weight=None): return ce(x, y)        def loss(x, y): return ce(x, y)
//! loss(a, b, weight=table())                     ->   loss(a, b)
//! ```
//!
//! Invariant: definition and calls change together. Must not touch `self`, `forward` or special methods but `__init__`.

use crate::program::Program;
use crate::program::python::{ast, range};

use super::Pass;
use super::call_sites::{Callee, Parameter, ParameterKind, callees, row};
use super::facts::Facts;
use super::names::Names;
use super::plain::is_plain;
use super::proposal::{Draft, Proposal};

/// See the module.
pub(super) struct Parameters;

const NAME: &str = "parameters";

impl Pass for Parameters {
    fn name(&self) -> &'static str {
        NAME
    }

    fn proposals(&self, program: &Program, _facts: &Facts) -> Vec<Proposal> {
        let names = Names::of(program);
        let callees = callees(program);
        let mut proposals = Vec::new();
        for callee in callees.values().filter(|callee| !callee.calls.is_empty()) {
            for (at, parameter) in callee.parameters.iter().enumerate() {
                let unread = unread(callee, parameter, &names).then(|| dropped(callee, at, &names)).flatten();
                proposals.extend(unread.or_else(|| overridden(callee, at)));
            }
        }
        proposals
    }
}

fn unread(callee: &Callee<'_>, parameter: &Parameter<'_>, names: &Names<'_>) -> bool {
    let body = &callee.function.body;
    let (Some(first), Some(last)) = (body.first(), body.last()) else { return false };
    !names.read_in(callee.view.path, parameter.name, &(range(first).start..range(last).end))
}

/// The parameter and what every call gives it.
fn dropped(callee: &Callee<'_>, at: usize, names: &Names<'_>) -> Option<Proposal> {
    let Callee { view, function, parameters, calls } = callee;
    let parameter = parameters[at];
    let keyword_only = &function.parameters.kwonlyargs;
    let holds_star = parameter.kind == ParameterKind::Keyword
        && function.parameters.vararg.is_none()
        && keyword_only.len() > 1
        && keyword_only[0].name().as_str() == parameter.name;
    let frees_star = parameter.kind == ParameterKind::Rest && !keyword_only.is_empty();
    if holds_star || frees_star {
        return None;
    }
    let simple = calls
        .iter()
        .all(|call| call.bound[at].iter().all(|&place| has_no_effect(call.arguments, &call.row.items[place])));
    let prior = match (names.spelled(parameter.name), simple) {
        (true, _) => 0.7,
        (false, true) => 0.97,
        (false, false) => 0.85,
    };
    let row = row(view, &function.parameters)?;
    let start = row.items.get(parameter.place)?.start;
    let mut draft = Draft::new(NAME, view, start, "an unread parameter", prior).item(view, &row, parameter.place);
    for call in calls {
        for &place in &call.bound[at] {
            draft = draft.item(&call.view, &call.row, place);
        }
    }
    draft.finish()
}

/// Whether nothing is lost with an argument but its value.
fn has_no_effect(arguments: &ast::Arguments, item: &std::ops::Range<usize>) -> bool {
    let values = arguments.args.iter().chain(arguments.keywords.iter().map(|keyword| &keyword.value));
    let mut own = values.filter(|value| item.start <= range(*value).start && range(*value).end <= item.end);
    own.all(is_plain)
}

/// The default that every call overrides; the first default only, so that none stands before a parameter without.
fn overridden(callee: &Callee<'_>, at: usize) -> Option<Proposal> {
    let Callee { view, function, parameters, calls } = callee;
    let parameter = parameters[at];
    let default = range(parameter.default?);
    let positional = |other: &Parameter<'_>| other.kind == ParameterKind::Positional && other.default.is_some();
    let first = parameters.iter().position(positional);
    let can = parameter.kind == ParameterKind::Keyword || first == Some(at);
    if !can || calls.iter().any(|call| call.bound[at].is_empty()) {
        return None;
    }
    let node = function.parameters.find(parameter.name)?;
    let cut = range(&node.parameter).end..range(node).end.max(default.end);
    Draft::new(NAME, view, range(node).start, "a default that no call needs", 0.97).cut(view, cut).finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::check::{all, files, nothing};

    #[test]
    fn a_parameter_goes_with_its_arguments_at_every_call() {
        all(
            &Parameters,
            "def f(a, b, c=1): return a + c\nf(1, 2, 3)\nf(4, b=5, c=6)\n",
            "def f(a, c): return a + c\nf(1, 3)\nf(4, c=6)\n",
        );
        all(&Parameters, "def f(a): pass\nf(1)\n", "def f(): pass\nf()\n");
        all(&Parameters, "def f(a, *, b): return a\nf(1, b=2)\n", "def f(a): return a\nf(1)\n");
        all(&Parameters, "def f(a, *r, **k): return a\nf(1)\n", "def f(a): return a\nf(1)\n");
        all(
            &Parameters,
            "class A:\n\tdef __init__(self, a, b): self.a = a\nA(1, g(2))\n",
            "class A:\n\tdef __init__(self, a): self.a = a\nA(1)\n",
        );
        all(
            &Parameters,
            "class A:\n    def go(self, n=0): pass\nx.go(n=3)\nx.go()\n",
            "class A:\n    def go(self): pass\nx.go()\nx.go()\n",
        );
    }

    #[test]
    fn a_default_goes_when_every_call_overrides_it() {
        all(&Parameters, "def f(a=1, b=2): return a, b\nf(3, 4)\n", "def f(a, b=2): return a, b\nf(3, 4)\n");
        all(&Parameters, "def f(*, b=2, c=3): return b, c\nf(b=1)\n", "def f(*, b, c=3): return b, c\nf(b=1)\n");
    }

    #[test]
    fn functions_with_unknown_callers_stay() {
        nothing(&Parameters, "def f(a): pass\nf(1)\nmap(f, xs)\n");
        nothing(&Parameters, "def f(a): pass\nf(*x)\n");
        nothing(&Parameters, "def f(a): pass\nf(1)\nf = g\n");
        nothing(&Parameters, "@hook\ndef f(a): pass\nf(1)\n");
        nothing(&Parameters, "class A:\n    def forward(self, x): pass\na.forward(1)\n");
        nothing(&Parameters, "class A:\n    def __init__(self, x): pass\nclass B(A): pass\nA(1)\n");
        nothing(&Parameters, "def f(a): return locals()\nf(1)\n");
    }

    #[test]
    fn calls_in_other_files_change_too() {
        let before = [
            ("train.py", "import util\nfrom util import f\nf(1, 2)\nutil.f(3, b=4)\n"),
            ("util.py", "def f(a, b): return a\n"),
        ];
        files(
            &Parameters,
            &before,
            &[
                ("train.py", Some("import util\nfrom util import f\nf(1)\nutil.f(3)\n")),
                ("util.py", Some("def f(a): return a\n")),
            ],
        );
    }
}
