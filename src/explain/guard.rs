//! Owns the lines that would have caught the failure in the user's own code.
//!
//! Invariant: they name tensors as the failing statement does, and hold for every value that the operator accepts.
//! Must not claim a check where the class has none.

use super::RunExplanation;

/// Lines to put in front of the failing statement; none where the class has no check that values can fail.
pub(super) fn lines(explained: &RunExplanation) -> Option<Vec<String>> {
    let statement = explained.line.as_ref()?;
    let tensor = operand(explained)?;
    let limit = explained.offence.as_ref().and_then(|offence| offence.limit.clone());
    let mut lines = vec![format!("# in front of {}:{}", statement.frame.file, statement.frame.line)];
    let class = explained.signature.class.as_str();
    match class {
        "label_out_of_range" => {
            let classes = input(explained).map(|input| format!("{input}.shape[1]")).or(limit)?;
            let ignored = explained.arguments.iter().find(|one| one.name == "ignore_index");
            let ignored = ignored.and_then(|one| one.value.clone()).unwrap_or_else(|| "-100".to_owned());
            lines.push(format!("_known = {tensor}[{tensor} != {ignored}]"));
            lines.push(format!(
                "assert ((_known >= 0) & (_known < {classes})).all(), \\\n    f\"labels {{_known.min()}} to {{_known.max()}}, classes 0 to {{{classes} - 1}}\""
            ));
        }
        "index_out_of_range" | "max_unpool_index" => {
            let size = limit?;
            // Indexing counts negative numbers from the end; nothing else does.
            let wraps = explained.operator.as_deref().is_some_and(|name| name.ends_with("__getitem__") || name.ends_with("__setitem__"));
            let low = if wraps { format!("-{size}") } else { "0".to_owned() };
            lines.push(format!(
                "assert (({tensor} >= {low}) & ({tensor} < {size})).all(), \\\n    f\"indices {{{tensor}.min()}} to {{{tensor}.max()}}, size {size}\""
            ));
        }
        "probability_out_of_range" => lines.push(format!(
            "assert (({tensor} >= 0) & ({tensor} <= 1)).all(), \\\n    f\"values {{{tensor}.min()}} to {{{tensor}.max()}}, {{{tensor}.isnan().sum()}} NaN\""
        )),
        "invalid_distribution" => lines.push(format!(
            "assert {tensor}.isfinite().all() and ({tensor} >= 0).all() and ({tensor}.sum(-1) > 0).all(), \\\n    f\"{{(~{tensor}.isfinite()).sum()}} values are not finite, smallest row sum {{{tensor}.sum(-1).min()}}\""
        )),
        "poisson_rate" | "repeats_negative" | "segment_lengths" => {
            lines.push(format!("assert ({tensor} >= 0).all(), f\"smallest {{{tensor}.min()}}\""));
        }
        "misaligned_address" => lines.push(format!("assert {tensor}.is_contiguous(), {tensor}.stride()")),
        _ => return None,
    }
    lines.push("# each check waits for the GPU: keep it where it runs once a batch, or behind a switch".to_owned());
    // Quotes of the tensor's own name would end the text.
    Some(lines.into_iter().map(|line| quoted(&line)).collect())
}

/// The tensor that held the value, as the failing statement names it.
fn operand(explained: &RunExplanation) -> Option<String> {
    let text = explained.path.last().map(|step| step.text.clone())?;
    let whole = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let simple = whole.chars().all(|c| c.is_alphanumeric() || "_.[]\"'".contains(c));
    Some(if simple { whole } else { format!("({whole})") })
}

/// The first argument of the failing call, where it is a plain name.
fn input(explained: &RunExplanation) -> Option<String> {
    let text = &explained.line.as_ref()?.text;
    let name = explained.operator.as_deref()?.rsplit('.').next()?;
    let (_, rest) = text.split_once(&format!("{name}("))?;
    let first: String = rest.chars().take_while(|c| c.is_alphanumeric() || "_.".contains(*c)).collect();
    let next = rest.get(first.len()..)?.trim_start().chars().next()?;
    (next == ',' && !first.is_empty() && !first.starts_with(char::is_numeric)).then_some(first)
}

/// In a formatted text of older Pythons a name may not hold the same quotes.
fn quoted(line: &str) -> String {
    match line.split_once("f\"") {
        Some((head, text)) => {
            let inner = text.strip_suffix('"').unwrap_or(text).replace('"', "'");
            format!("{head}f\"{inner}\"")
        }
        None => line.to_owned(),
    }
}
