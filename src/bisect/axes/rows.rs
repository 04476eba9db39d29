//! Owns the rows of data files: found, and a file written with some of them.
//!
//! Invariant: the bytes of a row are never changed; a file that is not understood has no rows.
//! It reads no file.

use std::ops::Range;

use serde_json::Value;

/// The rows of one file.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    bytes: Vec<u8>,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// A heading, and the bytes of each row.
    Text { heading: Range<usize>, rows: Vec<Range<usize>> },
    /// Elements of a list in JSON.
    Json(Vec<Value>),
    /// Rows of an array: where the data begins, bytes of a row, number of rows, header behind the shape's first number.
    Array { begin: usize, row: usize, count: usize },
}

impl Rows {
    /// The rows of a file, by its name; `None` where it has none.
    pub(super) fn parse(name: &str, bytes: Vec<u8>) -> Option<Self> {
        let extension = name.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
        let kind = match extension.as_str() {
            "csv" | "tsv" => table(&bytes),
            "jsonl" | "ndjson" | "txt" => Kind::Text { heading: 0..0, rows: lines(&bytes, 0, Quotes::Plain) },
            "json" => match serde_json::from_slice(&bytes).ok()? {
                Value::Array(list) => Kind::Json(list),
                _ => return None,
            },
            "npy" => array(&bytes)?,
            _ => return None,
        };
        let rows = Self { bytes, kind };
        (rows.len() > 1).then_some(rows)
    }

    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        match &self.kind {
            Kind::Text { rows, .. } => rows.len(),
            Kind::Json(list) => list.len(),
            Kind::Array { count, .. } => *count,
        }
    }

    /// 1-based line of a row in its file; for what has no lines, its number from 0.
    pub(super) fn place(&self, row: usize) -> String {
        match &self.kind {
            Kind::Text { rows, .. } => {
                let before = &self.bytes[..rows[row].start];
                format!("line {}", 1 + before.iter().filter(|byte| **byte == b'\n').count())
            }
            Kind::Json(_) | Kind::Array { .. } => format!("row {row}"),
        }
    }

    /// Places within a row, counted by field, that hold exactly this text.
    pub(super) fn fields(&self, row: usize, text: &str) -> Vec<usize> {
        let places = |line: &str| {
            let fields = line.split([',', '\t', ';', ' ', ':', '{', '}', '[', ']', '"', '\r', '\n']);
            fields.enumerate().filter(|(_, field)| *field == text).map(|(place, _)| place).collect()
        };
        match &self.kind {
            Kind::Text { rows, .. } => places(&String::from_utf8_lossy(&self.bytes[rows[row].clone()])),
            Kind::Json(list) => places(&list[row].to_string()),
            Kind::Array { .. } => Vec::new(),
        }
    }

    /// The file with these rows only, in their order.
    pub(super) fn with(&self, wanted: &[usize]) -> Vec<u8> {
        match &self.kind {
            Kind::Text { heading, rows } => {
                let mut bytes = self.bytes[heading.clone()].to_vec();
                wanted.iter().for_each(|row| bytes.extend_from_slice(&self.bytes[rows[*row].clone()]));
                bytes
            }
            Kind::Json(list) => {
                let list: Vec<&Value> = wanted.iter().map(|row| &list[*row]).collect();
                serde_json::to_vec(&list).unwrap_or_default()
            }
            Kind::Array { begin, row, .. } => {
                let mut bytes = header(&self.bytes[..*begin], wanted.len());
                for number in wanted {
                    let at = begin + number * row;
                    bytes.extend_from_slice(&self.bytes[at..at + row]);
                }
                bytes
            }
        }
    }
}

/// Whether a quoted field may hold the end of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quotes {
    Plain,
    Quoted,
}

fn lines(bytes: &[u8], from: usize, quotes: Quotes) -> Vec<Range<usize>> {
    let (mut rows, mut start, mut inside) = (Vec::new(), from, false);
    for (at, byte) in bytes.iter().enumerate().skip(from) {
        match byte {
            b'"' if quotes == Quotes::Quoted => inside = !inside,
            b'\n' if !inside => {
                if !bytes[start..at].trim_ascii().is_empty() {
                    rows.push(start..at + 1);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
    if !bytes[start..].trim_ascii().is_empty() {
        rows.push(start..bytes.len());
    }
    rows
}

/// The first line is a heading when it has no number and the second has one.
fn table(bytes: &[u8]) -> Kind {
    let mut rows = lines(bytes, 0, Quotes::Quoted);
    let has_number = |range: &Range<usize>| {
        let line = String::from_utf8_lossy(&bytes[range.clone()]);
        line.split([',', '\t', ';']).any(|field| field.trim().trim_matches('"').parse::<f64>().is_ok())
    };
    let heading = match rows.as_slice() {
        [first, second, ..] if !has_number(first) && has_number(second) => rows.remove(0),
        _ => 0..0,
    };
    Kind::Text { heading, rows }
}

/// An array file: magic, version, length of the header, the header as a Python dict, the data.
fn array(bytes: &[u8]) -> Option<Kind> {
    if !bytes.starts_with(b"\x93NUMPY") {
        return None;
    }
    let (length, head) = match bytes.get(6)? {
        1 => (usize::from(u16::from_le_bytes(bytes.get(8..10)?.try_into().ok()?)), 10),
        _ => (usize::try_from(u32::from_le_bytes(bytes.get(8..12)?.try_into().ok()?)).ok()?, 12),
    };
    let begin = head + length;
    let text = std::str::from_utf8(bytes.get(head..begin)?).ok()?;
    if !text.contains("'fortran_order': False") {
        return None;
    }
    let shape = text.split("'shape': (").nth(1)?.split(')').next()?;
    let count: usize = shape.split(',').next()?.trim().parse().ok()?;
    let data = bytes.len().checked_sub(begin)?;
    (count > 0 && data % count == 0).then_some(Kind::Array { begin, row: data / count, count })
}

/// The header of an array with another number of rows, of the same length.
fn header(old: &[u8], rows: usize) -> Vec<u8> {
    let key = b"'shape': (";
    let Some(at) = old.windows(key.len()).position(|part| part == key) else { return old.to_vec() };
    let start = at + key.len();
    let digits = old[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = rows.to_string();
    let mut bytes: Vec<u8> = old[..start].to_vec();
    bytes.extend_from_slice(number.as_bytes());
    bytes.extend_from_slice(&old[start + digits..]);
    // The header is padded with blanks before its last newline: fewer digits leave room for more of them.
    while bytes.len() < old.len() {
        bytes.insert(bytes.len() - 1, b' ');
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_keeps_its_heading_and_quoted_lines() {
        let rows = Rows::parse("a.csv", b"x,y\n1,\"a\nb\"\n2,c\n3,d".to_vec()).unwrap();
        assert_eq!(rows.len(), 3);
        assert_eq!(rows.with(&[0, 2]), b"x,y\n1,\"a\nb\"\n3,d");
        assert_eq!(rows.place(1), "line 4");
        assert_eq!((rows.fields(1, "2"), rows.fields(1, "1")), (vec![0], vec![]));
    }

    #[test]
    fn rows_of_lists_and_lines_are_taken_out() {
        let rows = Rows::parse("a.jsonl", b"{\"y\": 1}\n{\"y\": 12}\n".to_vec()).unwrap();
        assert_eq!(rows.with(&[1]), b"{\"y\": 12}\n");
        assert!(rows.fields(0, "1").len() == 1 && rows.fields(1, "1").is_empty());
        let rows = Rows::parse("a.json", b"[1, [2, 3], 4]".to_vec()).unwrap();
        assert_eq!(rows.with(&[0, 1]), b"[1,[2,3]]");
        assert!(Rows::parse("a.json", b"{\"a\": 1}".to_vec()).is_none());
    }

    #[test]
    fn an_array_gets_fewer_rows_in_a_header_of_the_same_length() {
        let dict = "{'descr': '<i2', 'fortran_order': False, 'shape': (12, 2), }";
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        let padded = format!("{dict:<117}\n");
        bytes.extend_from_slice(&u16::try_from(padded.len()).unwrap().to_le_bytes());
        bytes.extend_from_slice(padded.as_bytes());
        (0..24_i16).for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
        let rows = Rows::parse("a.npy", bytes).unwrap();
        assert_eq!(rows.len(), 12);
        let few = Rows::parse("a.npy", rows.with(&[3, 5])).unwrap();
        assert_eq!(few.len(), 2);
        assert_eq!(&few.with(&[1])[128..], [10, 0, 11, 0]);
    }
}
