//! Finds where the units of a file begin: rows of csv and tsv, lines of text and of JSON lines.
//!
//! Invariant: all units together, behind the heading, are the file; nothing is decoded.
//! It reads no file.

/// A byte order mark belongs to the file, not to its first unit.
const MARK: &[u8] = b"\xef\xbb\xbf";
/// A zero byte among the first bytes says that the text has wide characters, or that it is none.
const LOOKED_AT: usize = 64 << 10;

/// The units of a file.
pub(super) struct Found {
    /// Bytes before the first.
    pub(super) heading: u64,
    /// Whether these hold the first line of a table.
    pub(super) headed: bool,
    /// Where each begins.
    pub(super) starts: Vec<u64>,
}

/// Whether files of this name may have units.
pub(super) fn has_kind(path: &str) -> bool {
    is_table(path) || matches!(extension(path).as_str(), "jsonl" | "ndjson" | "txt")
}

/// Whether it is a table by its name.
pub(super) fn is_table(path: &str) -> bool {
    matches!(extension(path).as_str(), "csv" | "tsv")
}

fn extension(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase()).unwrap_or_default()
}

/// The units of a file with this name; `None` where it is no such text.
pub(super) fn find(path: &str, bytes: &[u8]) -> Option<Found> {
    if bytes[..bytes.len().min(LOOKED_AT)].contains(&0) {
        return None;
    }
    let begin = if bytes.starts_with(MARK) { MARK.len() } else { 0 };
    if !is_table(path) {
        return Some(Found { heading: begin as u64, headed: false, starts: lines(bytes, begin) });
    }
    let mut starts = records(bytes, begin, if extension(path) == "tsv" { b'\t' } else { separator(&bytes[begin..]) })?;
    let first = starts.get(1).map_or(bytes.len(), |start| usize::try_from(*start).unwrap_or(bytes.len()));
    let headed = !has_number(&bytes[begin..first]);
    if headed && !starts.is_empty() {
        starts.remove(0);
    }
    let heading = if headed { first } else { begin };
    Some(Found { heading: heading as u64, headed, starts })
}

fn lines(bytes: &[u8], begin: usize) -> Vec<u64> {
    let ends = memchr::memchr_iter(b'\n', &bytes[begin..]).map(|at| begin + at + 1);
    std::iter::once(begin).chain(ends).filter(|start| *start < bytes.len()).map(|start| start as u64).collect()
}

/// A quoted field may hold the end of a line, so that the reader of tables says where rows begin.
fn records(bytes: &[u8], begin: usize, delimiter: u8) -> Option<Vec<u64>> {
    let mut reader =
        csv::ReaderBuilder::new().has_headers(false).flexible(true).delimiter(delimiter).from_reader(&bytes[begin..]);
    let (mut starts, mut record) = (Vec::new(), csv::ByteRecord::new());
    loop {
        let mut at = begin + usize::try_from(reader.position().byte()).ok()?;
        // The reader takes the second half of `\r\n` with the row behind it.
        if at > begin && bytes.get(at) == Some(&b'\n') && bytes[at - 1] == b'\r' {
            at += 1;
        }
        if !reader.read_byte_record(&mut record).ok()? {
            return Some(starts);
        }
        starts.push(at as u64);
    }
}

/// What separates the fields of the first line: the one of the usual that is there most often.
fn separator(bytes: &[u8]) -> u8 {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let count = |wanted: u8| line.iter().filter(|byte| **byte == wanted).count();
    [b',', b';', b'\t'].into_iter().rev().max_by_key(|wanted| count(*wanted)).unwrap_or(b',')
}

/// A first line without any number is a heading.
fn has_number(line: &[u8]) -> bool {
    let line = String::from_utf8_lossy(line);
    line.split([',', '\t', ';']).any(|field| field.trim().trim_matches('"').parse::<f64>().is_ok())
}
