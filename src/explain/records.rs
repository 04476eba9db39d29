//! Owns the rows of text data files: csv, tsv, JSON and JSON lines, or plain lines.
//!
//! Invariant: a row is named as a reader of the file counts: rows from 1 without a header, lines from 1 with it.
//! Must not open more than it is asked for, nor files that are too large to be searched.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

/// Files above this size are not searched.
const LARGEST: u64 = 64 << 20;

/// A row of a data file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Record {
    /// From 1, a header is not counted.
    pub(super) row: usize,
    /// From 1; of a JSON document not known.
    pub(super) line: Option<usize>,
    /// Keys and indices from the document's root to the row.
    pub(super) path: Vec<Value>,
    /// A mapping by column or key, or a text.
    pub(super) value: Value,
}

/// All rows of a file; none where it is no text that holds rows.
pub(super) fn read(path: &Path) -> Vec<Record> {
    if !fs::metadata(path).is_ok_and(|data| data.is_file() && data.len() <= LARGEST) {
        return Vec::new();
    }
    let Ok(text) = fs::read_to_string(path) else { return Vec::new() };
    match path.extension().and_then(|end| end.to_str()) {
        Some("csv") => table(&text, b','),
        Some("tsv") => table(&text, b'\t'),
        Some("json") => document(&text),
        Some("jsonl" | "ndjson") => lines(&text, |line| serde_json::from_str(line).ok()),
        Some("py" | "pyc") => Vec::new(),
        _ => lines(&text, |line| Some(Value::String(line.to_owned()))),
    }
}

fn table(text: &str, delimiter: u8) -> Vec<Record> {
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).flexible(true).from_reader(text.as_bytes());
    let Ok(header) = reader.headers().cloned() else { return Vec::new() };
    let mut records = Vec::new();
    for (at, row) in reader.records().enumerate() {
        let Ok(row) = row else { continue };
        let cells: Map<String, Value> = header
            .iter()
            .zip(row.iter())
            .map(|(name, cell)| (name.to_owned(), Value::String(cell.to_owned())))
            .collect();
        let line = row.position().and_then(|position| usize::try_from(position.line()).ok());
        records.push(Record { row: at + 1, line, path: Vec::new(), value: Value::Object(cells) });
    }
    records
}

fn lines(text: &str, parse: impl Fn(&str) -> Option<Value>) -> Vec<Record> {
    let mut records = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let Some(value) = parse(line) else { continue };
        records.push(Record { row: records.len() + 1, line: Some(at + 1), path: Vec::new(), value });
    }
    records
}

/// The elements of each list of mappings, at most two levels deep: that is how documents hold rows.
fn document(text: &str) -> Vec<Record> {
    let Ok(root) = serde_json::from_str::<Value>(text) else { return Vec::new() };
    let mut records = Vec::new();
    collect(&root, &mut Vec::new(), &mut records);
    records
}

fn collect(value: &Value, path: &mut Vec<Value>, records: &mut Vec<Record>) {
    match value {
        Value::Array(rows) => {
            for (at, row) in rows.iter().enumerate().filter(|(_, row)| row.is_object()) {
                let mut path = path.clone();
                path.push(Value::from(at));
                records.push(Record { row: at + 1, line: None, path, value: row.clone() });
            }
        }
        Value::Object(parts) if path.len() < 2 => {
            for (key, part) in parts {
                path.push(Value::String(key.clone()));
                collect(part, path, records);
                path.pop();
            }
        }
        _ => {}
    }
}

impl Record {
    /// Whether a record of the program is this row: every plain part is equal, and there is one.
    pub(super) fn is(&self, seen: &Value) -> bool {
        match (seen, &self.value) {
            (Value::Object(seen), Value::Object(row)) => {
                let plain = seen.iter().filter(|(_, part)| part.as_str() != Some("..."));
                let mut known = 0;
                for (key, part) in plain {
                    match row.get(key) {
                        Some(cell) if same(part, cell) => known += 1,
                        // What the program added to its record is no part of the row.
                        None => {}
                        Some(_) => return false,
                    }
                }
                known > 0 && row.keys().all(|key| seen.contains_key(key))
            }
            (Value::Array(seen), Value::Object(row)) => {
                seen.len() == row.len() && seen.iter().zip(row.values()).all(|(part, cell)| same(part, cell))
            }
            (Value::String(seen), Value::String(row)) => !row.trim().is_empty() && seen.trim() == row.trim(),
            _ => false,
        }
    }

    /// What names the row: its first plain part, unless that is the offending value itself.
    pub(super) fn key(&self) -> Option<String> {
        self.value.as_object()?.values().find_map(|part| match part {
            Value::String(text) if text.len() <= 60 => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        })
    }

    /// Places in the row that hold a number or its text.
    pub(super) fn places_of(&self, wanted: &Value) -> Vec<Vec<Value>> {
        let mut places = Vec::new();
        search(&self.value, wanted, &mut Vec::new(), &mut places);
        places
    }

    /// Whether a text of the row holds a word.
    pub(super) fn has_word(&self, word: &str) -> bool {
        fn look(value: &Value, word: &str) -> bool {
            match value {
                Value::String(text) => {
                    let lower = text.to_lowercase();
                    lower.split(|c: char| !(c.is_alphanumeric() || c == '\'')).any(|part| part == word.to_lowercase())
                        || text == word
                }
                Value::Array(parts) => parts.iter().any(|part| look(part, word)),
                Value::Object(parts) => parts.values().any(|part| look(part, word)),
                _ => false,
            }
        }
        !word.is_empty() && look(&self.value, word)
    }
}

fn search(value: &Value, wanted: &Value, path: &mut Vec<Value>, places: &mut Vec<Vec<Value>>) {
    match value {
        Value::Array(parts) => {
            for (at, part) in parts.iter().enumerate() {
                path.push(Value::from(at));
                search(part, wanted, path, places);
                path.pop();
            }
        }
        Value::Object(parts) => {
            for (key, part) in parts {
                path.push(Value::String(key.clone()));
                search(part, wanted, path, places);
                path.pop();
            }
        }
        plain if same(wanted, plain) => places.push(path.clone()),
        _ => {}
    }
}

/// Equal as plain values; a number equals its text.
fn same(one: &Value, other: &Value) -> bool {
    let text = |value: &Value| match value {
        Value::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    };
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one == other,
        _ => one == other || text(one) == text(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rows(name: &str, text: &str) -> Vec<Record> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(name);
        fs::write(&path, text).expect("a file");
        read(&path)
    }

    #[test]
    fn rows_are_counted_as_a_reader_does() {
        let found = rows("a.csv", "id,text,label\nx,\"two\nlines\",1\ny,b,10\n");
        assert_eq!((found[1].row, found[1].line), (2, Some(4)));
        assert_eq!(found[1].key().as_deref(), Some("y"));
        assert_eq!(found[1].places_of(&json!(10)), vec![vec![json!("label")]]);
        assert!(found[1].is(&json!({"id": "y", "text": "b", "label": 10})));
        assert!(found[1].is(&json!(["y", "b", "10"])));
        assert!(!found[1].is(&json!({"id": "y", "text": "c", "label": 10})));
        let found = rows("a.jsonl", "{\"a\": 1}\n\n{\"a\": 2, \"w\": \"Two words\"}\n");
        assert_eq!((found[1].row, found[1].line), (2, Some(3)));
        assert!(found[1].has_word("words") && !found[1].has_word("word"));
        let found = rows("a.json", "{\"meta\": {}, \"rows\": [{\"n\": \"a\", \"e\": [{\"to\": 4}]}]}");
        assert_eq!(found[0].path, vec![json!("rows"), json!(0)]);
        assert_eq!(found[0].places_of(&json!(4)), vec![vec![json!("e"), json!(0), json!("to")]]);
        assert!(found[0].is(&json!({"n": "a", "e": "..."})));
        assert!(rows("a.py", "x = 10\n").is_empty());
    }
}
