//! `arguments`: arguments of calls that have a default on the other side.
//!
//! Removes keyword arguments, the last positional argument, unpacked ones, what a `print` or a log call shows, the message
//! of an exception, and the arguments of the long form of `super`.
//! Why it is safe to try: most keyword arguments override a default for speed or comfort; the value's own origin is checked.
//! Cost: one run for all likely ones, then halving; limited by the strategy.
//!
//! ```text
//! DataLoader(data, batch_size=8, num_workers=4, pin_memory=True)   ->   DataLoader(data, batch_size=8)
//! super(Model, self).__init__()                                    ->   super().__init__()
//! ```
//!
//! Invariant: positional arguments that stay keep their places. Must not touch definitions (`parameters` does).

use std::collections::BTreeMap;

use crate::program::Program;
use crate::program::python::{AnyNodeRef, Expr, ast, range};

use super::Pass;
use super::call_sites::{Callee, callees};
use super::facts::Facts;
use super::proposal::{Draft, Proposal};
use super::view::{Brackets, View, last_name};
use super::walk::walk;

/// See the module.
pub(super) struct Arguments;

const NAME: &str = "arguments";

impl Pass for Arguments {
    fn name(&self) -> &'static str {
        NAME
    }

    fn proposals(&self, program: &Program, facts: &Facts) -> Vec<Proposal> {
        let callees = callees(program);
        let mut proposals = Vec::new();
        for view in View::of(program) {
            walk(&view, |node, ancestors| {
                let AnyNodeRef::ExprCall(call) = node else { return };
                let raised = matches!(ancestors.last(), Some(AnyNodeRef::StmtRaise(_)));
                proposals.extend(super_form(&view, call));
                let used = match &*call.func {
                    _ if raised => Use::Raised,
                    func if last_name(func) == Some("add_argument") => option_use(call, facts),
                    _ => Use::Called,
                };
                proposals.extend(of_call(&view, call, used, &callees));
            });
        }
        proposals
    }
}

/// What a call is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Called,
    /// It makes an exception.
    Raised,
    /// It declares an option that the command gives.
    Given,
    /// It declares an option that the command leaves at its default.
    Left,
}

/// Whether the command gives the option that a call of `add_argument` declares.
fn option_use(call: &ast::ExprCall, facts: &Facts) -> Use {
    let given = |name: &str| facts.argv.iter().any(|word| word.split('=').next() == Some(name));
    let mut spelled = call.arguments.args.iter().map(|argument| match argument {
        Expr::StringLiteral(name) => Some(name.value.to_str()),
        _ => None,
    });
    let left = spelled.all(|name| name.is_some_and(|name| name.starts_with('-') && !given(name)));
    if left { Use::Left } else { Use::Given }
}

/// `super(Model, self)` to `super()`.
fn super_form(view: &View<'_>, call: &ast::ExprCall) -> Option<Proposal> {
    let plain = call.arguments.args.len() == 2 && call.arguments.keywords.is_empty();
    if !plain || !matches!(&*call.func, Expr::Name(name) if name.id.as_str() == "super") {
        return None;
    }
    let row = view.arguments(&call.arguments, Brackets::Stay);
    let draft = Draft::new(NAME, view, row.items[0].start, "the arguments of `super`", 0.95);
    draft.item(view, &row, 0).item(view, &row, 1).finish()
}

fn of_call(view: &View<'_>, call: &ast::ExprCall, used: Use, callees: &BTreeMap<&str, Callee<'_>>) -> Vec<Proposal> {
    let row = view.arguments(&call.arguments, Brackets::Stay);
    let name = last_name(&call.func).unwrap_or_default();
    let callee = callees.get(name);
    let last = call.arguments.args.last().map(range);
    let mut proposals = Vec::new();
    for (place, item) in row.items.iter().enumerate() {
        let keyword = call.arguments.keywords.iter().find(|keyword| range(*keyword).start == item.start);
        let value =
            call.arguments.args.iter().find(|value| item.start <= range(*value).start && range(*value).end <= item.end);
        let (detail, prior) = match (keyword, value) {
            (Some(keyword), _) => ("a keyword argument", keyword_prior(name, keyword, used, callee)),
            (None, Some(value)) => {
                let trailing = last.as_ref() == Some(&range(value));
                ("an argument", positional_prior(name, call, value, trailing, used, callee))
            }
            (None, None) => continue,
        };
        if let Some(prior) = prior {
            let draft = Draft::new(NAME, view, item.start, detail, prior);
            proposals.extend(draft.item(view, &row, place).finish());
        }
    }
    proposals
}

/// Whether the callee has a default for a parameter of this name; `None` when the callee is not known.
fn has_default(callee: Option<&Callee<'_>>, name: &str) -> Option<bool> {
    let parameter = callee?.parameters.iter().find(|parameter| parameter.name == name);
    Some(parameter.is_none_or(|parameter| parameter.default.is_some()))
}

fn keyword_prior(callee_name: &str, keyword: &ast::Keyword, used: Use, callee: Option<&Callee<'_>>) -> Option<f64> {
    let Some(name) = &keyword.arg else { return Some(0.3) };
    let name = name.as_str();
    match (used, name) {
        (Use::Given | Use::Left, "help" | "metavar") => return Some(0.97),
        (Use::Given | Use::Left, "required" | "choices") => return Some(0.9),
        (Use::Left, "type" | "nargs") => return Some(0.85),
        (Use::Given, "default") => return Some(0.9),
        (Use::Given | Use::Left, _) => return Some(0.1),
        (Use::Called | Use::Raised, _) => {}
    }
    if let Some(default) = has_default(callee, name) {
        return default.then_some(0.5);
    }
    if LOGS.contains(&callee_name) || IDLE.contains(&name) {
        return Some(0.95);
    }
    Some(match name {
        "weight_decay" | "betas" | "eps" | "momentum" | "nesterov" | "label_smoothing" | "drop_last" | "max_norm"
        | "timeout" => 0.8,
        "exist_ok" | "parents" | "encoding" | "errors" | "level" | "inplace" | "memory_format" => 0.6,
        "device" | "dtype" | "num_classes" | "num_embeddings" | "embedding_dim" | "metaclass" => 0.05,
        "dim" | "axis" | "index" | "target" | "input" | "default" | "type" | "batch_size" | "default_factory" => 0.15,
        "key" | "collate_fn" | "dataset" | "generator" | "padding_idx" | "ignore_index" => 0.2,
        _ => 0.4,
    })
}

fn positional_prior(
    name: &str,
    call: &ast::ExprCall,
    value: &Expr,
    trailing: bool,
    used: Use,
    callee: Option<&Callee<'_>>,
) -> Option<f64> {
    if used == Use::Raised {
        return Some(0.9);
    }
    if LOGS.contains(&name) {
        return Some(0.85);
    }
    if !trailing || name == "super" {
        return None;
    }
    if matches!(value, Expr::Starred(_)) {
        return Some(0.2);
    }
    let count = call.arguments.args.len();
    if let Some(callee) = callee {
        let parameter = callee.parameters.get(count - 1);
        return parameter.is_none_or(|parameter| parameter.default.is_some()).then_some(0.45);
    }
    match name {
        "open" if count == 2 && matches!(value, Expr::StringLiteral(mode) if mode.value.to_str() == "r") => Some(0.95),
        "get" | "getattr" | "pop" | "next" if count > 1 => Some(0.6),
        "Sequential" | "max" | "min" | "chain" | "add_argument" | "Linear" | "Conv2d" | "Conv1d" | "Embedding"
        | "isinstance" | "setattr" | "zip" | "map" => None,
        _ if count > 1 && call.arguments.keywords.is_empty() => Some(0.15),
        _ if count > 1 => Some(0.1),
        _ => None,
    }
}

/// Calls that only show something.
const LOGS: [&str; 17] = [
    "print",
    "info",
    "debug",
    "warning",
    "warn",
    "error",
    "exception",
    "critical",
    "set_postfix",
    "set_description",
    "add_scalar",
    "log_metrics",
    "basicConfig",
    "getLogger",
    "StreamHandler",
    "Formatter",
    "filterwarnings",
];

/// Keywords that override a default for speed, comfort or style.
const IDLE: [&str; 31] = [
    "num_workers",
    "pin_memory",
    "non_blocking",
    "persistent_workers",
    "prefetch_factor",
    "foreach",
    "fused",
    "desc",
    "leave",
    "disable",
    "total",
    "unit",
    "ncols",
    "dynamic_ncols",
    "flush",
    "end",
    "sep",
    "file",
    "help",
    "description",
    "metavar",
    "epilog",
    "prog",
    "newline",
    "set_to_none",
    "stacklevel",
    "verbose",
    "indent",
    "sort_keys",
    "ensure_ascii",
    "formatter_class",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::check::{all, each, nothing};

    #[test]
    fn keywords_and_the_last_argument_go() {
        each(&Arguments, "g(a, b, k=1)\n", &["g(a, k=1)\n", "g(a, b)\n"]);
        all(&Arguments, "DataLoader(d, batch_size=8, num_workers=4,)\r\n", "DataLoader(d,)\r\n");
        all(&Arguments, "g(\n\ta,\n\t# why\n\tk=1,\n)\n", "g(\n\ta,\n)\n");
        all(&Arguments, "g(a, *b)\n", "g(a)\n");
        nothing(&Arguments, "len(x)\n");
    }

    #[test]
    fn logs_and_errors_say_nothing() {
        all(&Arguments, "print('a', x, sep='')\n", "print()\n");
        all(&Arguments, "raise ValueError(f'no {x}')\n", "raise ValueError()\n");
    }

    #[test]
    fn options_keep_what_the_command_needs() {
        let prior = |argv: &[&str]| -> Vec<f64> {
            let program = crate::passes::check::tree_of("p.add_argument('--lr', type=float, default=1, help='')\n");
            let argv = argv.iter().map(|word| (*word).to_owned()).collect();
            let facts = Facts { argv, ..Facts::default() };
            Arguments.proposals(&program, &facts).iter().map(|proposal| proposal.prior).collect()
        };
        assert_eq!(prior(&[]), [0.85, 0.1, 0.97]);
        assert_eq!(prior(&["--lr=2"]), [0.1, 0.9, 0.97]);
    }

    #[test]
    fn super_loses_its_long_form() {
        all(&Arguments, "super(A, self).__init__()\n", "super().__init__()\n");
    }

    #[test]
    fn arguments_without_a_default_stay() {
        nothing(&Arguments, "def f(a, b): return a, b\nf(1, b=2)\n");
        all(&Arguments, "def f(a, b=1): return a, b\nf(1, b=2)\n", "def f(a, b=1): return a, b\nf(1)\n");
    }
}
