//! Owns the edits that may make a failing program pass: the nearest passing twin explains more than words.
//!
//! Invariant: each edit is only a proposal; the smallest come first, and a run decides.
//! Must not run anything.

use std::fmt;

use serde::Serialize;
use similar::TextDiff;

use super::Origin;
use crate::trial::{Offence, Step};

/// Most edits that are worth a run each.
const MOST: usize = 6;

/// One changed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// `None` for the program itself, else the data file.
    pub data: Option<String>,
    /// Its whole text after the edit.
    pub text: String,
    /// What was done, in words.
    pub what: String,
}

/// The smallest edit that was seen to pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Twin {
    /// What was done, in words.
    pub what: String,
    /// Unified diff, failing to passing.
    pub diff: String,
}

/// What the edits are made from.
#[derive(Clone, Copy, Debug)]
pub struct Failing<'a> {
    /// Text of the program.
    pub program: &'a str,
    /// Where the value comes from.
    pub origin: Option<&'a Origin>,
    /// The text of the origin's data file, where it is text.
    pub data: Option<&'a str>,
    /// The offending element.
    pub offence: &'a Offence,
    /// Expressions that held the value, the origin first.
    pub path: &'a [Step],
}

/// Edits to try, the smallest first.
pub fn edits(failing: &Failing<'_>) -> Vec<Edit> {
    let value = failing.offence.value.as_deref().unwrap_or_default();
    let near = nearest(failing.offence);
    let mut edits = Vec::new();
    if let (Some(origin), Some(text), Some(near)) = (failing.origin, failing.data, &near)
        && let Some(edit) = in_data(origin, text, value, near)
    {
        edits.push(edit);
    }
    let program = failing.program;
    let mut change = |from: usize, to: usize, new: &str| {
        let what = format!("`{}` becomes `{new}`", &program[from..to]);
        edits.push(Edit { data: None, text: format!("{}{new}{}", &program[..from], &program[to..]), what });
    };
    if let Some(near) = near.as_deref().filter(|_| !value.is_empty()) {
        literals(program)
            .into_iter()
            .filter(|at| &program[at.clone()] == value)
            .for_each(|at| change(at.start, at.end, near));
    }
    for step in failing.path.iter().take(2) {
        let Some(start) = only(program, &step.text) else { continue };
        for at in literals(&step.text) {
            let Ok(number) = step.text[at.clone()].parse::<i64>() else { continue };
            change(start + at.start, start + at.end, &(number - 1).to_string());
        }
    }
    if let (Some(limit), Ok(above)) = (failing.offence.limit.as_deref(), value.parse::<i64>())
        && failing.offence.kind == "above"
    {
        let room = (above + 1).to_string();
        literals(program)
            .into_iter()
            .filter(|at| &program[at.clone()] == limit)
            .for_each(|at| change(at.start, at.end, &room));
    }
    for step in failing.path {
        let Some(start) = only(program, &step.text) else { continue };
        let kept = kept_in(step, failing.offence);
        if let Some(kept) = kept {
            change(start, start + step.text.len(), &kept);
        }
    }
    edits.truncate(MOST);
    edits
}

/// The nearest value that is allowed.
fn nearest(offence: &Offence) -> Option<String> {
    let limit = offence.limit.as_deref()?;
    match (offence.kind.as_str(), limit.parse::<i64>(), offence.value.as_deref()?.parse::<i64>()) {
        // Integers must be below the limit; numbers may be equal to it.
        ("above", Ok(limit), Ok(_)) => Some((limit - 1).to_string()),
        ("above" | "below", ..) => Some(limit.to_owned()),
        _ => None,
    }
}

/// The expression with its result kept in range.
fn kept_in(step: &Step, offence: &Offence) -> Option<String> {
    let text = &step.text;
    let is_tensor = step.value.ends_with(']') && step.value.contains(" [") && !step.value.starts_with('[');
    let limit = offence.limit.as_deref().and_then(|limit| limit.parse::<i64>().ok());
    let integer = offence.value.as_deref().is_some_and(|value| value.parse::<i64>().is_ok());
    match (offence.kind.as_str(), limit, integer, is_tensor) {
        ("above", Some(limit), true, true) => Some(format!("({text}).clamp(max={})", limit - 1)),
        ("above", Some(limit), true, false) => Some(format!("min({text}, {})", limit - 1)),
        ("below", Some(limit), true, true) => Some(format!("({text}).clamp(min={limit})")),
        ("below", Some(limit), true, false) => Some(format!("max({text}, {limit})")),
        ("above" | "below", _, false, true) => Some(format!("({text}).clamp(0, 1)")),
        ("nan" | "inf", _, _, true) => Some(format!("({text}).nan_to_num()")),
        ("negative", _, _, true) => Some(format!("({text}).clamp(min=0)")),
        _ => None,
    }
}

/// The data file with the value replaced in its row.
fn in_data(origin: &Origin, text: &str, value: &str, near: &str) -> Option<Edit> {
    let line = origin.line.filter(|_| origin.expression.is_none())?;
    let (start, old) = line_at(text, line)?;
    let cells = literals(old).into_iter().filter(|at| &old[at.clone()] == value).collect::<Vec<_>>();
    // In a table the column decides, else the value must stand once.
    let at = match (&origin.column, cells.as_slice()) {
        (_, [one]) => one.clone(),
        (Some(column), _) => {
            let header: Vec<&str> = text.lines().next()?.split(',').collect();
            let number = header.iter().position(|name| name.trim() == column)?;
            let from: usize = old.split(',').take(number).map(|cell| cell.len() + 1).sum();
            from..from + old.split(',').nth(number)?.len()
        }
        _ => return None,
    };
    let new = format!("{}{near}{}", &old[..at.start], &old[at.end..]);
    Some(Edit {
        data: Some(origin.file.clone()),
        text: format!("{}{new}{}", &text[..start], &text[start + old.len()..]),
        what: format!("{value} becomes {near} in {}", origin.in_words()),
    })
}

fn line_at(text: &str, line: usize) -> Option<(usize, &str)> {
    let mut start = 0;
    for (number, one) in text.split_inclusive('\n').enumerate() {
        if number + 1 == line {
            return Some((start, one.trim_end_matches(['\n', '\r'])));
        }
        start += one.len();
    }
    None
}

/// Ranges of the numbers of a text that stand alone.
fn literals(text: &str) -> Vec<std::ops::Range<usize>> {
    let bytes = text.as_bytes();
    let word =
        |at: usize| bytes.get(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'));
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let begins = bytes[at].is_ascii_digit() && (at == 0 || !word(at - 1));
        if !begins {
            at += 1;
            continue;
        }
        let start = at;
        while word(at) {
            at += 1;
        }
        let signed = start > 0
            && bytes[start - 1] == b'-'
            && (start == 1 || !(word(start - 2) || bytes[start - 2] == b')' || bytes[start - 2] == b' '));
        found.push(if signed { start - 1..at } else { start..at });
    }
    found
}

/// Where a text stands, if it stands once.
fn only(text: &str, part: &str) -> Option<usize> {
    let mut found = text.match_indices(part);
    let first = found.next().filter(|_| !part.is_empty())?.0;
    found.next().is_none().then_some(first)
}

impl fmt::Display for Twin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "The smallest edit that was seen to pass: {}\n\n{}", self.what, self.diff)
    }
}

/// The twin that an edit makes, as a diff.
pub fn twin(edit: &Edit, before: &str) -> Twin {
    let name = edit.data.as_ref().map_or_else(|| "repro.py".to_owned(), |data| format!("data/{data}"));
    let changes = TextDiff::from_lines(before, &edit.text);
    let diff = changes.unified_diff().context_radius(1).header(&name, &name).to_string();
    Twin { what: edit.what.clone(), diff }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offence(kind: &str, value: &str, limit: &str) -> Offence {
        Offence {
            kind: kind.to_owned(),
            value: Some(value.to_owned()),
            limit: Some(limit.to_owned()),
            ..Offence::default()
        }
    }

    #[test]
    fn the_cell_comes_first_then_numbers_then_the_expression() {
        let offence = offence("above", "10", "10");
        let origin = Origin { file: "a.csv".into(), line: Some(3), column: Some("y".into()), ..Origin::default() };
        let step = Step { text: "labels[i]".into(), value: "int64 [4]".into(), ..Step::default() };
        let failing = Failing {
            program: "C = 10\nx = f(labels[i], C)\n",
            origin: Some(&origin),
            data: Some("x,y\n10,1\n10,10\n"),
            offence: &offence,
            path: &[step],
        };
        let found = edits(&failing);
        assert_eq!(found[0].text, "x,y\n10,1\n10,9\n");
        assert_eq!(found[1].text, "C = 9\nx = f(labels[i], C)\n");
        assert_eq!(found[2].text, "C = 11\nx = f(labels[i], C)\n");
        assert_eq!(found[3].text, "C = 10\nx = f((labels[i]).clamp(max=9), C)\n");
        assert!(twin(&found[0], failing.data.unwrap_or_default()).diff.contains("-10,10\n+10,9\n"));
    }

    #[test]
    fn numbers_stand_alone() {
        let text = "a1 = x10 + 10 - 1.5 + f(-3)";
        let found: Vec<&str> = literals(text).into_iter().map(|at| &text[at]).collect();
        assert_eq!(found, ["10", "1.5", "-3"]);
    }
}
