//! Owns the sentence that says what to do about a failure, from its class, its value and where that comes from.
//!
//! Invariant: numbers and places are those of the runs; where they do not decide, the sentence names the choices.
//! Must not know how anything was found.

use super::Origin;
use crate::signature::{Catalog, Signature};
use crate::trial::{Failure, Offence};

/// What to do, in a sentence or two.
pub fn sentence(signature: &Signature, failure: Option<&Failure>, origin: Option<&Origin>) -> String {
    let usual = usual(signature);
    let Some(offence) = failure.and_then(|failure| failure.offence.as_ref()) else { return usual };
    let value = offence.value.as_deref().unwrap_or("?");
    let place = origin.map_or_else(String::new, |origin| match &origin.expression {
        Some(_) => format!(" comes from {}", origin.in_words()),
        None => format!(" occurs in {}", origin.in_words()),
    });
    let limit = offence.limit.as_deref();
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
    match (signature.class.as_str(), number(offence.value.as_deref()), number(limit)) {
        ("label_out_of_range", Some(label), Some(classes)) => {
            let what = format!("the input has {classes} classes (0 to {}) and label {label}{place}", classes - 1);
            format!("{what}: {}", label_advice(label, classes))
        }
        ("index_out_of_range", Some(index), Some(size)) => {
            let name = table(signature);
            let what = format!("{name} has size {size} (0 to {}) and index {index}{place}", size - 1);
            format!("{what}: {}", index_advice(index, size, &usual))
        }
        ("probability_out_of_range", ..) => {
            let shown = if offence.kind == "nan" { "NaN" } else { value };
            format!("values must lie in [0, 1] and {shown}{place}: {usual}")
        }
        ("invalid_distribution", ..) => format!("{}{place}: {usual}", distribution(offence)),
        _ if place.is_empty() => usual,
        _ => format!("{value}{place}: {usual}"),
    }
}

/// The first mend of the operator.
fn usual(signature: &Signature) -> String {
    let class = Catalog::embedded().entry(&signature.class);
    let advice = class.map(|class| class.advice_for(signature.operator.as_deref()));
    advice.and_then(|advice| advice.mend.first().cloned()).unwrap_or_else(|| "mend what the assertion says".to_owned())
}

fn label_advice(label: i64, classes: i64) -> String {
    match label {
        -1 | 255 | -100 => format!(
            "if {label} marks data without label, pass `ignore_index={label}`; else map it to a class where it is read"
        ),
        _ if label < 0 => "map negative labels to a class where they are read, or set `ignore_index`".to_owned(),
        _ if label == classes => "labels start at 1, or one class is missing in the last layer".to_owned(),
        _ => "map the labels to class numbers where they are read, or give the last layer more outputs".to_owned(),
    }
}

fn index_advice(index: i64, size: i64, usual: &str) -> String {
    if index < 0 {
        return "a negative index is not allowed here: mask it out, or map it to a row of its own".to_owned();
    }
    if index == size {
        return format!("it is one too far: a size that is one too small, or a count that starts at 1; {usual}");
    }
    usual.to_owned()
}

/// What an operator looks up in.
fn table(signature: &Signature) -> &'static str {
    match signature.operator.as_deref() {
        Some("torch.nn.functional.embedding" | "torch.nn.functional.embedding_bag") => "the table of the embedding",
        Some("torch.nn.functional.one_hot") => "the one-hot coding (`num_classes`)",
        _ => "the indexed dimension",
    }
}

fn distribution(offence: &Offence) -> String {
    let row = match offence.position.as_deref() {
        Some([row, _, ..]) => format!("row {row} of the probabilities"),
        _ => "the probabilities".to_owned(),
    };
    match offence.kind.as_str() {
        "nan" => format!("{row} holds NaN; the first value that is not finite"),
        "inf" => format!("{row} holds an infinite value; it"),
        "zero_sum" => format!("{row} sums to zero; it"),
        _ => format!("{row} holds {}; it", offence.value.as_deref().unwrap_or("a negative value")),
    }
}
