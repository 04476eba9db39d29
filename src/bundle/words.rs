//! What the failure is, in words: the three lines of the last screen and of the report's top.
//!
//! Invariant: each sentence repeats a fact of the evidence or of the catalogue; a guess is called one.

use std::fs;

use super::Contents;
use crate::case::Program as CaseProgram;
use crate::evidence::{Found, Ground};
use crate::signature::Catalog;
use crate::trial::Device;

/// Data files above this size are not searched for the offending value.
const LARGEST: u64 = 8 << 20;

/// Where the offending value stands in the program's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// File, relative to the project root.
    pub file: String,
    /// 1-based line.
    pub line: usize,
    /// Column, by its name in the first line, where the file is a table.
    pub column: Option<String>,
}

/// Three lines: what failed, where, and what value did it.
pub fn explanation(contents: &Contents<'_>) -> Vec<String> {
    let Contents { found, ground, .. } = contents;
    let class = Catalog::embedded().entry(&found.signature.class);
    let mut lines = vec![match class {
        Some(class) => format!("{}: {}", found.signature, first_sentence(&class.meaning)),
        None => found.signature.to_string(),
    }];
    if let Some(frame) = found.frames.last() {
        let text = statement_text(contents, &frame.file, frame.line);
        lines.push(format!("at {}:{}: {text}", frame.file, frame.line));
    }
    if let Some(offence) = found.failure.as_ref().and_then(|failure| failure.offence.as_ref()) {
        let value = offence.value.as_deref().unwrap_or("?");
        let mut line = match &offence.limit {
            Some(limit) => format!("offending value {value}, limit {limit} ({})", offence.kind),
            None => format!("offending value {value} ({})", offence.kind),
        };
        if let Some(position) = &offence.position {
            line += &format!(", at position {position:?} of the operand");
        }
        if let Some(sample) = offence.sample {
            line += &format!(", sample {sample} of the data set");
        }
        match origin(found, ground).as_slice() {
            [only] => line += &format!("; it stands in {}", only.in_words()),
            [] => {}
            many => line += &format!("; it stands in {} places, first {}", many.len(), many[0].in_words()),
        }
        lines.push(line);
    }
    if let Some(class) = class
        && let Some(mistake) = class.mistakes.first()
    {
        lines.push(format!("usual mistake: {mistake}"));
    }
    lines
}

impl Origin {
    /// For example `line 38 of labels.csv, column label`.
    pub fn in_words(&self) -> String {
        let column = self.column.as_ref().map_or_else(String::new, |column| format!(", column {column}"));
        format!("line {} of {}{column}", self.line, self.file)
    }
}

/// The places of the program's own text data that hold the offending value.
pub fn origin(found: &Found, ground: &Ground) -> Vec<Origin> {
    let offence = found.failure.as_ref().and_then(|failure| failure.offence.as_ref());
    let Some(value) = offence.and_then(|offence| offence.value.as_deref()) else { return Vec::new() };
    let mut places = Vec::new();
    for opened in &found.opened {
        let path = ground.invocation.project.join(&opened.path);
        let readable = opened.project
            && !opened.path.ends_with(".py")
            && fs::metadata(&path).is_ok_and(|data| data.is_file() && data.len() <= LARGEST);
        if !readable {
            continue;
        }
        let Ok(text) = fs::read_to_string(&path) else { continue };
        search(&opened.path, &text, value, &mut places);
    }
    places
}

fn search(file: &str, text: &str, value: &str, places: &mut Vec<Origin>) {
    let separator = match file.rsplit('.').next() {
        Some("csv") => Some(','),
        Some("tsv") => Some('\t'),
        _ => None,
    };
    let header: Vec<&str> = match separator {
        Some(separator) => text.lines().next().unwrap_or_default().split(separator).collect(),
        None => Vec::new(),
    };
    for (number, line) in text.lines().enumerate() {
        let mut hit = |column: Option<String>| places.push(Origin { file: file.to_owned(), line: number + 1, column });
        match separator {
            Some(separator) => {
                for (at, cell) in line.split(separator).enumerate() {
                    if cell.trim().trim_matches('"') == value {
                        hit(header.get(at).map(|name| name.trim().to_owned()));
                    }
                }
            }
            None => {
                let words = line.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '.');
                if words.into_iter().any(|word| word == value) {
                    hit(None);
                }
            }
        }
    }
}

/// The text of the failing statement in the original, its first line.
pub(super) fn statement_text(contents: &Contents<'_>, file: &str, line: u32) -> String {
    let original = contents.reducer.original();
    let Some(statement) = original.statement_at(file, line) else { return String::new() };
    let text = original.text_of(statement);
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default().trim_end().to_owned();
    if lines.next().is_some() { first + " ..." } else { first }
}

/// The command that runs the reduced program, with the interpreter's plain name.
pub(super) fn command(ground: &Ground) -> String {
    let invocation = &ground.invocation;
    let mut words = vec!["python".to_owned()];
    words.extend(invocation.options.iter().cloned());
    match &invocation.program {
        CaseProgram::Script(path) => words.push(path.clone()),
        CaseProgram::Module(name) => words.extend(["-m".to_owned(), name.clone()]),
    }
    words.extend(invocation.argv.iter().cloned());
    words.iter().map(|word| shell_words::quote(word).into_owned()).collect::<Vec<_>>().join(" ")
}

/// Where it was confirmed.
pub(super) fn device(ground: &Ground) -> &'static str {
    match ground.device {
        Device::Cuda => "cuda",
        Device::Emulated => "emulated",
    }
}

/// Whether the catalogue calls this class the user's own mistake rather than a bug of PyTorch.
pub(super) fn is_users_own(found: &Found) -> bool {
    let class = Catalog::embedded().entry(&found.signature.class);
    class.is_some_and(|class| !class.mistakes.is_empty()) && found.signature.class != "pytorch_internal"
}

fn first_sentence(text: &str) -> &str {
    text.split_once(". ").map_or(text, |(first, _)| first).trim().trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_in_its_cell_and_not_inside_other_numbers() {
        let mut places = Vec::new();
        search("labels.csv", "path,label\na.png,1\nb10.png,10\nc.png,110\n", "10", &mut places);
        assert_eq!(places, vec![Origin { file: "labels.csv".into(), line: 3, column: Some("label".into()) }]);
        assert_eq!(places[0].in_words(), "line 3 of labels.csv, column label");
    }

    #[test]
    fn a_value_is_found_as_a_word_of_json_lines() {
        let mut places = Vec::new();
        search("edges.jsonl", "{\"a\": 1}\n{\"a\": 12, \"b\": -12}\n{\"a\": 123}\n", "12", &mut places);
        assert_eq!(places.iter().map(|place| place.line).collect::<Vec<_>>(), vec![2]);
    }
}
