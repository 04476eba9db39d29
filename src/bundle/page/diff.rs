//! The difference between the original and the result, side by side, file by file.
//!
//! Invariant: what is too long for a page is counted and named, never left out in silence.

use std::collections::BTreeMap;

use similar::{DiffTag, TextDiff};

/// Unchanged lines that stay around a change.
const CONTEXT: usize = 3;
/// Removed lines in a row that are shown at once; the middle of more is counted.
const RUN: usize = 120;
/// Bytes of text that are shown, over all files.
const MOST: usize = 300_000;

/// A file of the original.
pub(super) struct FileDiff {
    pub(super) path: String,
    pub(super) before: usize,
    pub(super) after: Option<usize>,
    pub(super) blocks: Vec<Block>,
    /// Why there are no blocks.
    pub(super) instead: &'static str,
}

/// Lines that belong together.
pub(super) struct Block {
    /// `equal`, `change`, or `gap` for lines that are only counted.
    pub(super) kind: &'static str,
    pub(super) left: Vec<Numbered>,
    pub(super) right: Vec<Numbered>,
    /// In words, for a gap.
    pub(super) note: String,
}

/// A line with its number in its file.
pub(super) struct Numbered {
    pub(super) number: usize,
    pub(super) text: String,
}

/// Compares the files of the original with those of the result.
pub(super) fn compare(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<FileDiff> {
    let mut room = MOST;
    let file = |(path, old): (&String, &String)| {
        let new = after.get(path);
        let text = new.map_or("", String::as_str);
        let mut file = FileDiff {
            path: path.clone(),
            before: old.lines().count(),
            after: new.map(|text| text.lines().count()),
            blocks: Vec::new(),
            instead: "",
        };
        if old == text {
            file.instead = "nothing was changed";
        } else if old.len() + text.len() > room {
            file.instead = "too long for this page: see source.diff";
        } else {
            room -= old.len() + text.len();
            file.blocks = blocks(old, text);
        }
        file
    };
    before.iter().map(file).collect()
}

fn blocks(old: &str, new: &str) -> Vec<Block> {
    let diff = TextDiff::from_lines(old, new);
    let numbered = |lines: &[&str], range: std::ops::Range<usize>| -> Vec<Numbered> {
        let lines = lines.get(range.clone()).unwrap_or_default();
        let text = |line: &&str| line.trim_end_matches(['\n', '\r']).to_owned();
        range.zip(lines).map(|(place, line)| Numbered { number: place + 1, text: text(line) }).collect()
    };
    let ops = diff.ops();
    let mut blocks = Vec::new();
    for (place, op) in ops.iter().enumerate() {
        let left = numbered(diff.old_slices(), op.old_range());
        let right = numbered(diff.new_slices(), op.new_range());
        if op.tag() == DiffTag::Equal {
            let (first, last) = (place == 0, place + 1 == ops.len());
            let (head, tail) = (if first { 0 } else { CONTEXT }, if last { 0 } else { CONTEXT });
            push_cut(&mut blocks, "equal", left, right, (head, tail), "unchanged");
        } else {
            push_cut(&mut blocks, "change", left, right, (RUN / 2, RUN / 2), "more removed");
        }
    }
    blocks
}

/// Adds lines; of more than head and tail (and a few) the middle becomes a gap.
fn push_cut(
    blocks: &mut Vec<Block>,
    kind: &'static str,
    mut left: Vec<Numbered>,
    mut right: Vec<Numbered>,
    (head, tail): (usize, usize),
    what: &str,
) {
    let block = |kind, left, right| Block { kind, left, right, note: String::new() };
    let cut = left.len().saturating_sub(head + tail);
    if cut <= 2 {
        blocks.push(block(kind, left, right));
        return;
    }
    let rest = left.split_off(head + cut);
    left.truncate(head);
    // Unchanged lines stand on both sides; what stands in the place of removed ones is short and stays whole.
    let other = if kind == "equal" {
        let other = right.split_off(head + cut);
        right.truncate(head);
        other
    } else {
        Vec::new()
    };
    if !left.is_empty() {
        blocks.push(block(kind, left, right));
    }
    let lines = if cut == 1 { "line" } else { "lines" };
    blocks.push(Block { note: format!("{cut} {what} {lines}"), ..block("gap", Vec::new(), Vec::new()) });
    if !rest.is_empty() {
        blocks.push(block(kind, rest, other));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unchanged_lines_far_from_a_change_and_the_middle_of_a_long_removal_are_counted() {
        let same: String = (0..20).map(|n| format!("a{n}\n")).collect();
        let gone: String = (0..200).map(|n| format!("b{n}\n")).collect();
        let before = BTreeMap::from([("x.py".to_owned(), format!("{same}{gone}end\n"))]);
        let after = BTreeMap::from([("x.py".to_owned(), format!("{same}end\n"))]);
        let files = compare(&before, &after);
        let shown: Vec<_> =
            files[0].blocks.iter().map(|block| (block.kind, block.left.len(), block.note.as_str())).collect();
        assert_eq!(
            shown,
            [
                ("gap", 0, "17 unchanged lines"),
                ("equal", 3, ""),
                ("change", 60, ""),
                ("gap", 0, "80 more removed lines"),
                ("change", 60, ""),
                ("equal", 1, ""),
            ]
        );
        assert_eq!(files[0].blocks[1].right[0].number, 18);
    }

    #[test]
    fn a_file_that_went_and_one_that_is_too_long_are_named() {
        let before = BTreeMap::from([("a.py".to_owned(), "x\n".repeat(MOST)), ("b.py".to_owned(), "y\n".to_owned())]);
        let files = compare(&before, &BTreeMap::new());
        assert_eq!((files[0].instead, files[0].after), ("too long for this page: see source.diff", None));
        assert_eq!(files[1].blocks.len(), 1);
    }
}
