//! Owns who runs a file that is started by its own name: its `#!` line.
//!
//! Invariant: only the first bytes are read; a file that cannot be read says nothing.
//! Must not decide whether that is Python.

use std::path::Path;

/// What a script says in its first lines about who runs it.
pub(super) struct Starter {
    /// The interpreter and its options; empty when there is none.
    pub(super) words: Vec<String>,
    /// Whether there is such a line at all.
    pub(super) shebang: Shebang,
}

/// Whether a file begins with `#!`.
#[derive(PartialEq, Eq)]
pub(super) enum Shebang {
    Present,
    Absent,
}

impl Starter {
    /// A file that cannot be read says nothing.
    pub(super) fn of(path: &Path) -> Starter {
        use std::io::Read;
        let mut head = Vec::new();
        let read = std::fs::File::open(path).and_then(|file| file.take(1024).read_to_end(&mut head));
        let head = if read.is_ok() { String::from_utf8_lossy(&head).into_owned() } else { String::new() };
        let mut lines = head.lines();
        let Some(first) = lines.next().and_then(|line| line.strip_prefix("#!")) else {
            return Starter { words: Vec::new(), shebang: Shebang::Absent };
        };
        // Installed scripts with a long path start through `sh` and name their interpreter in the second line.
        let second =
            lines.next().and_then(|line| line.strip_prefix("'''exec' ")).and_then(|line| line.split(" \"$0\"").next());
        if let Some(interpreter) = second {
            return Starter { words: vec![interpreter.trim_matches('"').to_owned()], shebang: Shebang::Present };
        }
        let words: Vec<String> = first.split_whitespace().map(str::to_owned).collect();
        let words = match words.first() {
            Some(word) if word.rsplit('/').next() == Some("env") => without_options(&words[1..], &[]).to_vec(),
            _ => words,
        };
        Starter { words, shebang: Shebang::Present }
    }
}

/// The words behind leading options; `valued` are short options whose value may be a word of its own.
pub(super) fn without_options<'a>(words: &'a [String], valued: &[&str]) -> &'a [String] {
    let mut rest = words;
    while let Some((word, tail)) = rest.split_first() {
        if !word.starts_with('-') {
            break;
        }
        rest = if valued.contains(&word.as_str()) { tail.get(1..).unwrap_or_default() } else { tail };
        if word == "--" {
            break;
        }
    }
    rest
}
