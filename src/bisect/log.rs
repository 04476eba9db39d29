//! The log of a bisection: one answer a line, for people to read, edit and replay.
//!
//! Invariant: what is replayed is exactly what stands there; a line that names nothing of the axis, or may have been cut
//! short, is refused with its number.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::answer::Answer;

/// Why a log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file cannot be read or written.
    #[error("cannot use log `{path}`: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A line is wrong.
    #[error("{path}:{line}: {reason}")]
    Line {
        /// The file.
        path: PathBuf,
        /// 1-based.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
}

/// An answer as a log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// 1-based line.
    pub line: usize,
    /// What was run.
    pub key: String,
    /// What it said.
    pub answer: Answer,
}

/// A log, open for appending.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: File,
    answers: usize,
}

impl Log {
    /// Starts a log with a heading.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn create(path: &Path, heading: &str) -> Result<Self, LogError> {
        let fail = |source| LogError::File { path: path.to_owned(), source };
        let mut file = File::create(path).map_err(fail)?;
        for line in heading.lines() {
            writeln!(file, "# {line}").map_err(fail)?;
        }
        Ok(Self { path: path.to_owned(), file, answers: 0 })
    }

    /// Reads a log and goes on behind it.
    ///
    /// # Errors
    /// When it cannot be read, or a line is wrong.
    pub fn resume(path: &Path) -> Result<(Self, Vec<Entry>), LogError> {
        let fail = |source| LogError::File { path: path.to_owned(), source };
        let text = fs::read_to_string(path).map_err(fail)?;
        let ended = text.is_empty() || text.ends_with('\n');
        let lines = text.lines().count();
        let mut entries = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let plain = line.split('#').next().unwrap_or_default();
            let wrong = |reason: String| LogError::Line { path: path.to_owned(), line: at + 1, reason };
            let words: Vec<&str> = plain.split_whitespace().collect();
            // A name that lacks its end may be another name.
            if at + 1 == lines && !ended && !words.is_empty() && !line.contains('#') {
                return Err(wrong("it may have been cut short: end it with a newline, or take it out".to_owned()));
            }
            let (word, key) = match words.as_slice() {
                [] => continue,
                [word, key] => (*word, (*key).to_owned()),
                _ => return Err(wrong("expected a word and what was run, such as `fails 1a2b3c`".to_owned())),
            };
            let answer = match word {
                "fails" => Answer::Fails,
                "passes" => Answer::Passes,
                "skip" => Answer::Skip,
                other => return Err(wrong(format!("`{other}` is none of `fails`, `passes` and `skip`"))),
            };
            entries.push(Entry { line: at + 1, key, answer });
        }
        let mut file = OpenOptions::new().append(true).open(path).map_err(fail)?;
        if !ended {
            file.write_all(b"\n").map_err(fail)?;
        }
        Ok((Self { path: path.to_owned(), file, answers: entries.len() }, entries))
    }

    /// Appends an answer.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn append(&mut self, key: &str, answer: Answer, why: &str) -> Result<(), LogError> {
        let why = why.lines().next().unwrap_or_default();
        self.answers += 1;
        // At once, so that a kill leaves a whole line or none.
        self.file
            .write_all(format!("{:<6} {key}  # {why}\n", answer.word()).as_bytes())
            .map_err(|source| LogError::File { path: self.path.clone(), source })
    }

    /// Whether no answer stands in it.
    pub fn is_empty(&self) -> bool {
        self.answers == 0
    }

    /// A line that names nothing of the axis.
    pub fn refuse(&self, entry: &Entry, reason: String) -> LogError {
        LogError::Line { path: self.path.clone(), line: entry.line, reason }
    }
}

/// Elements as a log has them: `1-3,7`; `none` for no element. 1-based.
pub fn ranges(elements: &[usize]) -> String {
    if elements.is_empty() {
        return "none".to_owned();
    }
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for element in elements {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == *element => *last = *element,
            _ => parts.push((*element, *element)),
        }
    }
    let part = |(first, last): &(usize, usize)| {
        if first == last { format!("{}", first + 1) } else { format!("{}-{}", first + 1, last + 1) }
    };
    parts.iter().map(part).collect::<Vec<_>>().join(",")
}

/// The elements that [`ranges`] wrote, of a universe; none where it is something else.
pub fn elements(text: &str, universe: usize) -> Option<Vec<usize>> {
    if text == "none" {
        return Some(Vec::new());
    }
    let mut found = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first == 0 || last > universe || first > last {
            return None;
        }
        found.extend(first - 1..last);
    }
    found.sort_unstable();
    found.dedup();
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_written_as_ranges_and_read_back() {
        for set in [vec![], vec![0], vec![0, 1, 2, 6], vec![3, 5, 7, 8]] {
            assert_eq!(elements(&ranges(&set), 9), Some(set));
        }
        assert_eq!(elements("4-12", 9), None);
    }

    #[test]
    fn a_log_is_replayed_as_it_stands_and_a_wrong_line_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = Log::create(&path, "over commits").unwrap();
        log.append("1a2b", Answer::Fails, "nll_loss").unwrap();
        log.append("3c4d", Answer::Skip, "does not import").unwrap();
        let (_, entries) = Log::resume(&path).unwrap();
        assert_eq!(entries[1], Entry { line: 3, key: "3c4d".into(), answer: Answer::Skip });
        fs::write(&path, "fails 1a2b\nbad 3c4d\n").unwrap();
        assert!(
            Log::resume(&path).unwrap_err().to_string().ends_with(":2: `bad` is none of `fails`, `passes` and `skip`")
        );
    }

    #[test]
    fn a_last_line_that_may_lack_the_end_of_its_name_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let resume = |text: &str| {
            fs::write(&path, text).unwrap();
            Log::resume(&path).map(|(_, entries)| entries.len())
        };
        assert!(resume("fails 1a2b\npasses 3c").unwrap_err().to_string().contains(":2: it may have been cut short"));
        assert_eq!(resume("fails 1a2b\npasses 3c4d  # half a rea").unwrap(), 2);
        assert!(fs::read_to_string(&path).unwrap().ends_with("rea\n"), "the next answer begins a line");
        assert_eq!(resume("fails 1a2b\npasses 3c\n").unwrap(), 2);
    }
}
