//! The smallest arguments that break each operator's rule.
//!
//! Invariant: a regular table: operator and kind of offence to arguments, without a look at the recorded shapes; what a
//! version of torch refuses from the host is not proposed for it.
//! A table has one row, so that 1 is the first index above it; -1 is below, or -2 where negative indices count from the end.

use super::Version;
use super::text::{self, make, nested, number};
use crate::trial::{Argument, Failure, Offence};

/// The program of the smallest call; `None` where the operator has no rule here.
pub(super) fn program(failure: &Failure, torch: Version, device: &str) -> Option<String> {
    let args = arguments(failure, failure.offence.as_ref()?, torch, device)?;
    Some(text::program(&text::call(&failure.op, &args)?))
}

/// Name of an operator without its place and the mark of its in-place form.
fn leaf(op: &str) -> &str {
    let leaf = op.rsplit('.').next().unwrap_or(op);
    if leaf.ends_with("__") { leaf } else { leaf.strip_suffix('_').unwrap_or(leaf) }
}

fn arguments(failure: &Failure, offence: &Offence, torch: Version, device: &str) -> Option<Vec<String>> {
    let kind = offence.kind.as_str();
    let on = Some(device);
    let zeros = |shape: &str| make("zeros", shape, None, on);
    let tensor = |value: &str| make("tensor", value, None, on);
    // Indices that may not be negative, and those that count from the end when they are.
    let index = match kind {
        "above" => "1",
        "below" => "-1",
        _ => "",
    };
    let wrapping = if kind == "below" { "-2" } else { index };
    let probability = match kind {
        "above" => "2.0",
        "below" | "negative" => "-1.0",
        "nan" | "inf" => kind,
        _ => "",
    };
    let probability = number(probability);
    let name = leaf(&failure.op);
    let known = match name {
        "cross_entropy" | "nll_loss" | "multi_margin_loss" | "embedding" | "embedding_bag" | "index_select"
        | "gather" | "take_along_dim" | "scatter" | "scatter_add" | "scatter_reduce" | "index_fill" | "index_copy"
        | "index_add" | "index_reduce" | "take" | "put" | "one_hot" | "__getitem__" | "__setitem__" | "index_put"
        | "max_unpool1d" | "max_unpool2d" | "max_unpool3d" | "sparse_csr_tensor" => !index.is_empty(),
        "binary_cross_entropy" | "bernoulli" | "poisson" => !probability.is_empty(),
        _ => true,
    };
    if !known {
        return None;
    }
    let zero = || "0".to_owned();
    Some(match name {
        "cross_entropy" | "nll_loss" | "multi_margin_loss" => vec![zeros("1"), tensor(index)],
        "binary_cross_entropy" if offence.argument.as_deref() == Some("target") => {
            vec![tensor("0.0"), tensor(&probability)]
        }
        "binary_cross_entropy" => vec![tensor(&probability), tensor("0.0")],
        "embedding" if failure.op == "torch.embedding" => vec![zeros("1, 1"), tensor(index)],
        "embedding" => vec![tensor(index), zeros("1, 1")],
        "embedding_bag" if offence.argument.as_deref() == Some("offsets") => {
            vec![tensor("[0]"), zeros("1, 1"), tensor("[0, 1, 0]")]
        }
        "embedding_bag" if failure.op.starts_with("torch.nn.") => vec![tensor(&nested(index, 2)), zeros("1, 1")],
        "index_select" | "gather" => vec![zeros("1"), zero(), tensor(index)],
        "take_along_dim" => vec![zeros("1"), tensor(&nested(index, 1)), zero()],
        "scatter" | "scatter_add" => vec![zeros("1"), zero(), tensor(index), source(failure, &zeros)],
        "scatter_reduce" | "index_reduce" => {
            vec![zeros("1"), zero(), tensor(index), zeros("1"), text_of(failure, 4, "reduce")?]
        }
        "index_fill" => vec![zeros("1"), zero(), tensor(wrapping), zero()],
        "index_copy" | "index_add" => vec![zeros("1"), zero(), tensor(index), zeros("1")],
        "take" => vec![zeros("1"), tensor(wrapping)],
        "put" => vec![zeros("1"), tensor(wrapping), zeros("1")],
        "masked_scatter" => vec![zeros("2"), tensor("[True, True]"), zeros("1")],
        "one_hot" => vec![tensor(index), "1".to_owned()],
        "__getitem__" => vec![zeros("1"), tensor(&nested(wrapping, 1))],
        "__setitem__" => vec![zeros("1"), tensor(&nested(wrapping, 1)), zero()],
        "index_put" => {
            let mut args = vec![zeros("1"), format!("({},)", tensor(&nested(wrapping, 1))), zeros("1")];
            args.extend(text_of(failure, 3, "accumulate").filter(|text| text == "True"));
            args
        }
        "multinomial" => {
            let weights = match kind {
                "zero_sum" => zeros("1"),
                "negative" => tensor("[-1.0]"),
                "nan" | "inf" => tensor(&format!("[{}]", number(kind))),
                _ => return None,
            };
            let mut args = vec![weights, "1".to_owned()];
            // Before 2.1 a draw without replacement is checked on the host.
            args.extend(text_of(failure, 2, "replacement").filter(|text| torch < (2, 1) && text == "True"));
            args
        }
        "bernoulli" if failure.op.ends_with('_') => vec![zeros("1"), tensor(&nested(&probability, 1))],
        "bernoulli" | "poisson" => vec![tensor(&probability)],
        "_assert_async" => {
            let mut args = vec![zeros("1")];
            args.extend(text_of(failure, 1, "assert_msg"));
            args
        }
        "max_unpool1d" | "max_unpool2d" | "max_unpool3d" => {
            let dimensions = if name.ends_with("3d") { 4 } else { if name.ends_with("2d") { 3 } else { 2 } };
            let shape = vec!["1"; dimensions].join(", ");
            vec![zeros(&shape), tensor(&nested(index, dimensions)), "1".to_owned()]
        }
        "sparse_csr_tensor" => {
            let mut args = vec![tensor("[0, 1]"), tensor(&nested(index, 1)), zeros("1"), "(1, 1)".to_owned()];
            args.extend(text_of(failure, 5, "check_invariants").map(|text| format!("check_invariants={text}")));
            args
        }
        _ => return None,
    })
}

/// What is scattered: a tensor where it was one, else a number.
fn source(failure: &Failure, zeros: &impl Fn(&str) -> String) -> String {
    let given = argument(failure, 3, &["src", "value"]);
    if given.is_none_or(|given| given.shape.is_some()) { zeros("1") } else { "0".to_owned() }
}

/// An argument by position, else by one of its names.
fn argument<'a>(failure: &'a Failure, at: usize, names: &[&str]) -> Option<&'a Argument> {
    let named = |one: &&Argument| one.keyword && names.contains(&one.name.as_str());
    failure.args.get(at).filter(|one| !one.keyword).or_else(|| failure.args.iter().find(named))
}

/// Text of an argument that is no tensor.
fn text_of(failure: &Failure, at: usize, name: &str) -> Option<String> {
    argument(failure, at, &[name])?.value.clone().filter(|text| text != "None")
}
