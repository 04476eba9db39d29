//! The call with the arguments that were recorded, its tensors filled with what keeps the failure.
//!
//! Invariant: types, devices and everything that is no tensor are as recorded; only the tensor that holds the offending
//! value has values, all others are zero.

use super::text::{self, literal, make, nested, number, place, sizes, tuple};
use crate::trial::{Argument, Failure};

/// The shapes of the tensors.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shapes {
    /// As recorded, but no dimension has more elements than this.
    AtMost(i64),
    /// As recorded, with the recorded values where these are few.
    AsRecorded,
}

/// Arguments that are given by name and are no tensors.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Options {
    /// As recorded, less those that torch adds by itself.
    Kept,
    /// Left out.
    Dropped,
}

/// Arguments that torch adds by itself: what a reader need not see.
const DEFAULTS: [(&str, &str); 9] = [
    ("reduction", "'mean'"),
    ("ignore_index", "-100"),
    ("label_smoothing", "0.0"),
    ("norm_type", "2.0"),
    ("scale_grad_by_freq", "False"),
    ("sparse", "False"),
    ("mode", "'mean'"),
    ("include_last_offset", "False"),
    ("p", "1"),
];

/// The program; `None` where an argument cannot be written.
pub(super) fn program(failure: &Failure, shapes: Shapes, options: Options) -> Option<String> {
    if matches!(failure.op.rsplit('.').next(), Some("backward" | "grad")) {
        return None;
    }
    let offence = failure.offence.as_ref();
    let value = offence.and_then(|offence| offence.value.as_deref());
    let holder = offence.and_then(|offence| offence.argument.as_deref());
    let mut args = Vec::new();
    for argument in &failure.args {
        let dropped = options == Options::Dropped && argument.shape.is_none() && argument.items.is_empty();
        if argument.keyword && (dropped || is_default(argument)) {
            continue;
        }
        let wrong = value.filter(|_| holder == Some(argument.name.as_str()));
        let text = written(argument, wrong, shapes)?;
        args.push(if argument.keyword { format!("{}={text}", argument.name) } else { text });
    }
    Some(text::program(&text::call(&failure.op, &args)?))
}

fn is_default(argument: &Argument) -> bool {
    let value = argument.value.as_deref();
    value == Some("None") || DEFAULTS.iter().any(|(name, text)| argument.name == *name && value == Some(*text))
}

fn written(argument: &Argument, wrong: Option<&str>, shapes: Shapes) -> Option<String> {
    if argument.shape.is_some() {
        return tensor(argument, wrong, shapes);
    }
    if !argument.items.is_empty() {
        let items: Option<Vec<String>> = argument.items.iter().map(|item| written(item, wrong, shapes)).collect();
        return Some(format!("({},)", items?.join(", ")));
    }
    let text = argument.value.as_deref()?;
    // What Python shows of an object is no program, and a long text was cut.
    let is_literal = !text.starts_with('<') && !text.contains(" object at ") && !text.ends_with("...");
    let text = if text.starts_with("device(") { format!("torch.{text}") } else { text.to_owned() };
    is_literal.then_some(text)
}

fn tensor(argument: &Argument, wrong: Option<&str>, shapes: Shapes) -> Option<String> {
    let recorded = argument.shape.as_deref()?;
    let dtype = argument.dtype.as_deref()?;
    let device = place(argument);
    let shape: Vec<i64> = match shapes {
        Shapes::AtMost(most) => recorded.iter().map(|size| most.min(*size)).collect(),
        Shapes::AsRecorded => recorded.to_vec(),
    };
    let shape = shape.as_slice();
    let integers = !dtype.starts_with("float") && !dtype.starts_with("bfloat") && dtype != "bool";
    // A tensor of Python integers is int64, one of floats float32.
    let unsaid = |dtype: &str| if integers { dtype == "int64" } else { dtype == "float32" };
    let said = (!unsaid(dtype) && dtype != "bool").then_some(dtype);
    if let (Shapes::AsRecorded, Some(_), Some(values)) = (shapes, wrong, &argument.values) {
        return Some(make("tensor", &literal(values), said, device));
    }
    match wrong {
        Some(value) if shape.iter().all(|size| *size == 1) => {
            Some(make("tensor", &nested(&number(value), shape.len()), said, device))
        }
        Some(value) => Some(make("full", &format!("{}, {}", tuple(shape), number(value)), said, device)),
        None => Some(make("zeros", &sizes(shape), (dtype != "float32").then_some(dtype), device)),
    }
}
