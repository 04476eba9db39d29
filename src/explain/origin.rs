//! Owns where the offending value comes from: a row of a data file, an element of an array file, or an expression.
//!
//! Invariant: a row is named only where exactly one row of the files that were read is the record at hand.
//! Must not search files that the program did not open.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::records::{self, Record};
use crate::evidence::Found;
use crate::trial::{AtHand, FirstSeen};

/// Where the offending value comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Origin {
    /// The file: of data, or of the program where the value is made there.
    pub file: String,
    /// Row of a data file from 1, a header not counted; of an array its first index, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row: Option<usize>,
    /// Line from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Column or key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
    /// What names the row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The text from which the value was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub word: Option<String>,
    /// Indices and keys in the file, or in the result of the expression.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub position: Vec<Value>,
    /// The expression that makes the value, where no file holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expression: Option<String>,
}

/// Where the value comes from; `None` where it could not be followed.
pub fn find(found: &Found, project: &Path) -> Option<Origin> {
    let path = found.path.as_ref()?;
    let first = path.origin.as_ref()?;
    let data: Vec<&str> = found
        .opened
        .iter()
        .map(|opened| opened.path.as_str())
        .filter(|path| ![".py", ".pyc", ".so"].iter().any(|end| path.ends_with(end)))
        .collect();
    if first.load
        && let Some(file) = loaded(first, &data)
    {
        let row = first.first.first().and_then(Value::as_u64).and_then(|row| usize::try_from(row).ok());
        return Some(Origin { file, row, position: first.first.clone(), ..Origin::default() });
    }
    if let Some(origin) = of_record(first, &data, project, value_of(found)) {
        return Some(origin);
    }
    first.complete.then(|| Origin {
        file: first.step.file.clone(),
        line: usize::try_from(first.step.line).ok(),
        expression: Some(first.step.text.clone()),
        position: first.step.position.clone(),
        ..Origin::default()
    })
}

fn value_of(found: &Found) -> Option<&str> {
    found.failure.as_ref()?.offence.as_ref()?.value.as_deref()
}

/// The opened file that an expression loads: one of its texts names it.
fn loaded(first: &FirstSeen, data: &[&str]) -> Option<String> {
    let names = |text: &str, file: &str| {
        let text = text.trim_start_matches("./");
        file == text || file.ends_with(&format!("/{text}")) || text.ends_with(&format!("/{file}"))
    };
    let mut files: Vec<&str> =
        data.iter().copied().filter(|file| first.texts.iter().any(|text| names(text, file))).collect();
    files.dedup();
    match files.as_slice() {
        [one] => Some((*one).to_owned()),
        _ => None,
    }
}

fn of_record(first: &FirstSeen, data: &[&str], project: &Path, value: Option<&str>) -> Option<Origin> {
    let mut files: Vec<(&str, Vec<Record>)> = data
        .iter()
        .map(|file| (*file, records::read(&project.join(file))))
        .filter(|(_, rows)| !rows.is_empty())
        .collect();
    files.sort_by_key(|(file, _)| *file);
    files.dedup_by_key(|(file, _)| *file);
    for at_hand in &first.context {
        let mut matching = files
            .iter()
            .flat_map(|(file, rows)| rows.iter().filter(|row| row.is(&at_hand.value)).map(move |row| (*file, row)));
        // Two equal rows cannot be told apart.
        let (Some((file, row)), None) = (matching.next(), matching.next()) else { continue };
        if let Some(origin) = in_row(first, at_hand, file, row, value) {
            return Some(origin);
        }
    }
    None
}

/// The place in a row from which the value was made; none where the row has nothing to do with it.
fn in_row(first: &FirstSeen, at_hand: &AtHand, file: &str, row: &Record, value: Option<&str>) -> Option<Origin> {
    let mut origin =
        Origin { file: file.to_owned(), row: Some(row.row), line: row.line, key: row.key(), ..Origin::default() };
    if let Some(field) = first.field.as_ref().filter(|field| at_hand.value.get(field.as_str()).is_some()) {
        origin.column = Some(field.clone());
        return Some(origin);
    }
    if let Some(word) = first.texts.iter().find(|word| row.has_word(word)) {
        origin.word = Some(word.clone());
        return Some(origin);
    }
    let wanted = value.map(|value| value.parse::<f64>().map_or_else(|_| Value::from(value), number));
    for number in wanted.iter().chain(&first.numbers) {
        let places = row.places_of(number);
        let Some(place) = places.first() else { continue };
        if let [Value::String(column)] = place.as_slice() {
            origin.column = Some(column.clone());
        } else if places.len() == 1 {
            origin.position = row.path.iter().chain(place).cloned().collect();
        }
        return Some(origin);
    }
    None
}

fn number(value: f64) -> Value {
    serde_json::Number::from_f64(value).map_or(Value::Null, Value::Number)
}

impl Origin {
    /// For example `row 137 (S1952, line 138) of data/soil.csv, column soil`.
    pub fn in_words(&self) -> String {
        if let Some(expression) = &self.expression {
            let line = self.line.map_or_else(String::new, |line| format!(":{line}"));
            return format!("`{expression}` at {}{line}", self.file);
        }
        let mut details: Vec<String> = self.key.iter().cloned().collect();
        details.extend(self.line.map(|line| format!("line {line}")));
        let details = if details.is_empty() { String::new() } else { format!(" ({})", details.join(", ")) };
        let row = self.row.map_or_else(String::new, |row| format!("row {row}{details} of "));
        let mut words = format!("{row}{}", self.file);
        if let Some(column) = &self.column {
            words += &format!(", column {column}");
        }
        if let Some(word) = &self.word {
            words += &format!(", word `{word}`");
        }
        if !self.position.is_empty() {
            let parts: Vec<String> = self
                .position
                .iter()
                .map(|part| part.as_str().map_or_else(|| part.to_string(), str::to_owned))
                .collect();
            words += &format!(", at [{}]", parts.join(", "));
        }
        words
    }
}
