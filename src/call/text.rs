//! Python text of tensors and calls.
//!
//! Invariant: what is written evaluates with `import torch` alone, and the last statement waits for the device.

use serde_json::Value;

use crate::trial::{Argument, Failure};

/// The device of the failing tensors as a program writes it: `cuda`, or `cuda:1`; `None` where no tensor was on one.
pub(super) fn device(failure: &Failure) -> Option<String> {
    let all = failure.args.iter().flat_map(|one| std::iter::once(one).chain(&one.items));
    let name = all.filter_map(|one| one.device.as_deref()).find(|device| device.starts_with("cuda"))?;
    Some(if name == "cuda:0" { "cuda".to_owned() } else { name.to_owned() })
}

/// `torch.NAME(WHAT, device="cuda")`, with a type where it is not the one that torch takes by itself.
pub(super) fn make(name: &str, what: &str, dtype: Option<&str>, device: Option<&str>) -> String {
    let dtype = dtype.map_or_else(String::new, |dtype| format!(", dtype=torch.{dtype}"));
    let device = device.map_or_else(String::new, |device| format!(", device=\"{device}\""));
    format!("torch.{name}({what}{dtype}{device})")
}

/// The device of an argument as a program writes it; nothing for the host.
pub(super) fn place(argument: &Argument) -> Option<&str> {
    match argument.device.as_deref() {
        Some("cuda:0") => Some("cuda"),
        Some(device) if device.starts_with("cuda") => Some(device),
        _ => None,
    }
}

/// A shape as arguments: `2, 3`; a tensor without dimensions has `()`.
pub(super) fn sizes(shape: &[i64]) -> String {
    if shape.is_empty() {
        return "()".to_owned();
    }
    shape.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
}

/// A shape as a tuple.
pub(super) fn tuple(shape: &[i64]) -> String {
    if let [one] = shape { format!("({one},)") } else { format!("({})", sizes(shape).trim_matches(['(', ')'])) }
}

/// A number as Python has it; those that are no literals are torch's.
pub(super) fn number(text: &str) -> String {
    match text {
        "nan" => "torch.nan".to_owned(),
        "inf" => "torch.inf".to_owned(),
        "-inf" => "-torch.inf".to_owned(),
        other => other.to_owned(),
    }
}

/// Nested values as a literal.
pub(super) fn literal(values: &Value) -> String {
    match values {
        Value::Array(list) => format!("[{}]", list.iter().map(literal).collect::<Vec<_>>().join(", ")),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::String(text) => number(text),
        other => other.to_string(),
    }
}

/// A value nested in as many lists as there are dimensions, each with one element.
pub(super) fn nested(value: &str, dimensions: usize) -> String {
    format!("{}{value}{}", "[".repeat(dimensions), "]".repeat(dimensions))
}

/// How a call is written, by its public name; the first argument of a method stands before it.
pub(super) fn call(op: &str, args: &[String]) -> Option<Call> {
    let leaf = op.rsplit('.').next()?;
    let (first, rest) = args.split_first()?;
    let text = match leaf {
        "__getitem__" => format!("{first}[{}]", rest.first()?),
        "__setitem__" => return Some(Call::Statement(format!("{first}[{}] = {}", rest.first()?, rest.get(1)?))),
        _ if op.starts_with("torch.Tensor.") => format!("{first}.{leaf}({})", rest.join(", ")),
        _ => format!("{op}({})", args.join(", ")),
    };
    Some(if leaf == "_assert_async" { Call::Statement(text) } else { Call::Tensor(text) })
}

/// A call, by what it gives.
pub(super) enum Call {
    /// A tensor: to print it waits for the device.
    Tensor(String),
    /// Nothing.
    Statement(String),
}

/// The program of a call.
pub(super) fn program(call: &Call) -> String {
    match call {
        Call::Tensor(text) => format!("import torch\n\nprint({text})\n"),
        Call::Statement(text) => format!("import torch\n\n{text}\ntorch.cuda.synchronize()\n"),
    }
}
