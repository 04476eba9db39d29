//! What `corpus run` says of its entries: lines, a matrix, JSON events, annotations of GitHub, JUnit XML, and the exit code.
//!
//! Invariant: the same text for every number of workers: no time and no order of completion in it, but for JSON and JUnit.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;

use super::progress::{Style, print, say};
use crate::corpus::{Broken, Case, Done, Entry, Expected, Mark, Reason, Suite, Verdict};
use crate::exit::ExitCode;
use crate::trial::Device;

/// One entry with one interpreter.
pub(super) struct Cell {
    /// What came of it; `None` where Ctrl-C kept it from a verdict.
    pub(super) done: Option<Done>,
    /// What was expected.
    pub(super) expected: Expected,
    /// Whether the expectation was rewritten.
    pub(super) updated: Updated,
}

/// Whether `--update` rewrote what is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Updated {
    /// Yes.
    Yes,
    /// No, or it was not asked to.
    No,
}

/// All entries with one interpreter.
pub(super) struct Outcome {
    /// Such as `torch 2.11.0`.
    pub(super) name: String,
    pub(super) torch: String,
    /// One an entry, in their order.
    pub(super) cells: Vec<Cell>,
}

/// Whether annotations for GitHub are wanted.
#[derive(Clone, Debug)]
pub(super) enum Annotate {
    /// Paths are relative to this folder.
    From(String),
    /// Not run there.
    Not,
}

/// One entry of a run with one interpreter, as soon as it is known.
pub(super) fn entry(style: Style, torch: &str, entry: &Entry, expected: Expected, done: &Done) {
    let Done { verdict, .. } = done;
    match style {
        Style::Json => print(
            &json!({
                "event": "entry", "entry": entry.name, "torch": torch, "device": device(done.device),
                "expected": expected, "verdict": verdict.name(), "detail": verdict.detail(),
                "signature": entry.signature.to_string(), "runs": done.runs, "seconds": done.seconds,
            })
            .to_string(),
        ),
        Style::Quiet if *verdict == Verdict::AsExpected => {}
        Style::Quiet | Style::Normal | Style::Verbose => {
            print(&line(entry, verdict));
            if style == Style::Verbose && *verdict != Verdict::AsExpected {
                // The bar keeps a workflow from taking a printed `::` for a command of its own.
                done.log.lines().for_each(|line| print(&format!("    | {line}")));
            }
        }
    }
}

fn line(entry: &Entry, verdict: &Verdict) -> String {
    let detail = verdict.detail();
    let colon = if detail.is_empty() { "" } else { ": " };
    let lines: Vec<&str> = detail.lines().collect();
    visible(&format!("{:<16} {}{colon}{}", verdict.name(), entry.name, lines.join(" ")))
}

/// One line whatever a name or a message holds: a line end in it could begin a command of a workflow.
pub(super) fn visible(text: &str) -> String {
    let escape = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escape).collect()
}

/// An entry that cannot be read.
pub(super) fn broken(style: Style, broken: &Broken) {
    if style == Style::Json {
        print(&json!({ "event": "broken", "entry": broken.name, "error": broken.error.to_string() }).to_string());
        return;
    }
    print(&visible(&format!("{:<16} {}", "broken entry", broken.error)));
    broken.error.hints.iter().for_each(|hint| print(&visible(&format!("{:<16}   hint: {hint}", ""))));
}

/// What each version of torch does with each entry; `!` marks what is not as expected.
pub(super) fn matrix(entries: &[Entry], outcomes: &[Outcome]) {
    let mut rows = vec![vec!["entry".to_owned()]];
    rows[0].extend(outcomes.iter().map(|outcome| outcome.name.clone()));
    for (number, entry) in entries.iter().enumerate() {
        let mut row = vec![visible(&entry.name)];
        row.extend(outcomes.iter().map(|outcome| word(&outcome.cells[number])));
        rows.push(row);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(text, width)| format!("{text:<width$}")).collect();
        print(cells.join("  ").trim_end());
    }
    for outcome in outcomes {
        for (entry, cell) in entries.iter().zip(&outcome.cells) {
            if let Some(done) = &cell.done
                && done.verdict != Verdict::AsExpected
            {
                print(&format!("{}: {}", outcome.name, line(entry, &done.verdict)));
            }
        }
    }
}

/// What an entry does, in a word or two.
fn word(cell: &Cell) -> String {
    let Some(done) = &cell.done else { return "not run".to_owned() };
    match (&done.verdict, cell.expected) {
        (Verdict::AsExpected, Expected::Crashes) => "crashes".to_owned(),
        (Verdict::AsExpected, Expected::Fixed) => "passes".to_owned(),
        (Verdict::FixedNow, _) => "passes !".to_owned(),
        (Verdict::CrashesAgain, _) => "crashes !".to_owned(),
        (Verdict::FailsOtherwise(_), _) => "fails otherwise !".to_owned(),
        (Verdict::Flaky { hits, runs }, _) => format!("crashes {hits} of {runs} !"),
        (Verdict::CannotRun(_), _) => "cannot run".to_owned(),
    }
}

/// The last lines, and the exit code.
pub(super) fn end(style: Style, entries: usize, wrong: &[Broken], outcomes: &[Outcome]) -> ExitCode {
    let code = code(wrong, outcomes);
    let mut all: BTreeMap<String, BTreeMap<&str, usize>> = BTreeMap::new();
    for outcome in outcomes {
        let (counts, updated) = counts(outcome);
        let words: Vec<String> = ORDER
            .iter()
            .filter_map(|name| counts.get(name).map(|count| format!("{count} {name}")))
            .chain((updated > 0).then(|| format!("{updated} rewritten")))
            .collect();
        if style != Style::Json {
            print(&format!("{}: {entries} {}: {}", outcome.name, plural(entries), words.join(", ")));
        }
        all.insert(outcome.torch.clone(), counts);
    }
    if style == Style::Json {
        print(&json!({ "event": "end", "counts": all, "broken": wrong.len(), "exit": code.number() }).to_string());
    } else if !wrong.is_empty() {
        print(&format!("{} that cannot be read: {}", plural(wrong.len()), wrong.len()));
    }
    code
}

const ORDER: [&str; 7] =
    ["as expected", "fixed now", "crashes again", "fails otherwise", "flaky", "cannot run here", "not run"];

fn plural(count: usize) -> &'static str {
    if count == 1 { "entry" } else { "entries" }
}

fn counts(outcome: &Outcome) -> (BTreeMap<&'static str, usize>, usize) {
    let mut counts = BTreeMap::new();
    for cell in &outcome.cells {
        *counts.entry(cell.done.as_ref().map_or("not run", |done| done.verdict.name())).or_default() += 1;
    }
    (counts, outcome.cells.iter().filter(|cell| cell.updated == Updated::Yes).count())
}

/// The gravest of all cells. An entry that runs with one of the versions may be tied to it.
fn code(wrong: &[Broken], outcomes: &[Outcome]) -> ExitCode {
    let mut graves = Vec::new();
    if !wrong.is_empty() {
        graves.push(ExitCode::Usage);
    }
    let runs = |number: usize| {
        outcomes.iter().filter_map(|outcome| outcome.cells[number].done.as_ref()).any(|done| done.runs > 0)
    };
    for outcome in outcomes {
        for (number, cell) in outcome.cells.iter().enumerate() {
            graves.push(match cell.done.as_ref().map(|done| &done.verdict) {
                None => ExitCode::Interrupted,
                _ if cell.updated == Updated::Yes => ExitCode::Success,
                Some(Verdict::AsExpected) => ExitCode::Success,
                Some(Verdict::FixedNow) => ExitCode::Fixed,
                Some(Verdict::CrashesAgain | Verdict::FailsOtherwise(_)) => ExitCode::OtherFailure,
                Some(Verdict::Flaky { .. }) => ExitCode::TooRare,
                Some(Verdict::CannotRun(Reason::WrongTorch(_))) if runs(number) => ExitCode::Success,
                Some(Verdict::CannotRun(_)) => ExitCode::CannotRun,
            });
        }
    }
    let order = [
        ExitCode::Interrupted,
        ExitCode::Usage,
        ExitCode::OtherFailure,
        ExitCode::TooRare,
        ExitCode::Fixed,
        ExitCode::CannotRun,
    ];
    order.into_iter().find(|code| graves.contains(code)).unwrap_or(ExitCode::Success)
}

/// Annotations beside the files, where GitHub runs this; they are read from both outputs.
pub(super) fn annotate(style: Style, to: &Annotate, entries: &[Entry], wrong: &[Broken], outcomes: &[Outcome]) {
    let Annotate::From(root) = to else { return };
    let show = |text: &str| if style == Style::Json { say(text) } else { print(text) };
    for broken in wrong {
        show(&command("error", &broken.error.file, "broken entry", &broken.error.to_string()));
    }
    for outcome in outcomes {
        for (entry, cell) in entries.iter().zip(&outcome.cells) {
            let Some(done) = &cell.done else { continue };
            let level = match &done.verdict {
                Verdict::AsExpected => continue,
                _ if cell.updated == Updated::Yes => continue,
                Verdict::CannotRun(_) => "warning",
                _ => "error",
            };
            let path = entry.folder.join(&entry.file);
            let inside = path.strip_prefix(root).ok().filter(|_| !root.is_empty());
            let inside = inside.map(|path| path.to_string_lossy().into_owned());
            let file = inside.unwrap_or_else(|| format!("{}/{}", entry.name, entry.file));
            let title = format!("{} with {}", done.verdict.name(), outcome.name);
            show(&command(level, &file, &title, &message(entry, &done.verdict)));
        }
    }
}

fn message(entry: &Entry, verdict: &Verdict) -> String {
    match verdict.detail() {
        detail if detail.is_empty() => entry.signature.to_string(),
        detail => format!("{detail}; recorded: {}", entry.signature),
    }
}

/// A command of a workflow: `%`, line ends, and in properties `:` and `,` are escaped.
fn command(level: &str, file: &str, title: &str, message: &str) -> String {
    let text = |text: &str| text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let property = |value: &str| text(value).replace(':', "%3A").replace(',', "%2C");
    format!("::{level} file={},line=1,title={}::{}", property(file), property(title), text(message))
}

/// The suites of the JUnit document.
pub(super) fn suites(entries: &[Entry], wrong: &[Broken], outcomes: &[Outcome]) -> Vec<Suite> {
    outcomes.iter().map(|outcome| suite(entries, wrong, outcome)).collect()
}

fn suite(entries: &[Entry], wrong: &[Broken], outcome: &Outcome) -> Suite {
    let mut cases = Vec::new();
    for (entry, cell) in entries.iter().zip(&outcome.cells) {
        let (group, name) = split(&entry.name);
        let (mark, kind, text) = match &cell.done {
            None => (Mark::Skipped, "not run", "interrupted".to_owned()),
            Some(done) => {
                let mark = match &done.verdict {
                    Verdict::AsExpected => Mark::Passed,
                    _ if cell.updated == Updated::Yes => Mark::Passed,
                    Verdict::CannotRun(_) => Mark::Skipped,
                    _ => Mark::Failure,
                };
                (mark, done.verdict.name(), format!("{}: {}", done.verdict.name(), message(entry, &done.verdict)))
            }
        };
        let (seconds, log) = cell.done.as_ref().map_or((0.0, ""), |done| (done.seconds, done.log.as_str()));
        cases.push(Case { name, group, seconds, mark, kind: kind.to_owned(), message: text, log: log.to_owned() });
    }
    for broken in wrong {
        let (group, name) = split(&broken.name);
        cases.push(Case {
            name,
            group,
            seconds: 0.0,
            mark: Mark::Error,
            kind: "broken entry".to_owned(),
            message: broken.error.to_string(),
            log: broken.error.hints.join("\n"),
        });
    }
    let devices: std::collections::BTreeSet<&str> =
        outcome.cells.iter().filter_map(|cell| cell.done.as_ref()).map(|done| device(done.device)).collect();
    let devices: Vec<&str> = devices.into_iter().collect();
    let properties = vec![("torch".to_owned(), outcome.torch.clone()), ("device".to_owned(), devices.join(", "))];
    Suite { name: outcome.name.clone(), properties, cases }
}

/// Folder and last part of an entry's path.
fn split(name: &str) -> (String, String) {
    let path = Path::new(name);
    let last = path.file_name().map_or_else(|| name.to_owned(), |last| last.to_string_lossy().into_owned());
    let folder = path.parent().map(|folder| folder.to_string_lossy().into_owned()).unwrap_or_default();
    (if folder.is_empty() { "corpus".to_owned() } else { folder }, last)
}

fn device(device: Device) -> &'static str {
    match device {
        Device::Cuda => "cuda",
        Device::Emulated => "emulated",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_begin_a_line_of_its_own() {
        assert_eq!(visible("a\n::error::b\u{1b}[31m ü"), "a\\n::error::b\\u{1b}[31m ü");
    }

    #[test]
    fn a_command_of_a_workflow_escapes_what_would_end_it() {
        assert_eq!(
            command("error", "a,b:c", "50%", "one\ntwo: 3"),
            "::error file=a%2Cb%3Ac,line=1,title=50%25::one%0Atwo: 3"
        );
    }
}
