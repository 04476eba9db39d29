//! Many proposals at once: the edits of any subset, without overlap.
//!
//! Owns the union of edits. Invariant: what lies inside a larger deletion goes with it, and two words that a deletion
//! brings together stay two words. Must not parse, and must not judge which proposals are worth it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::program::python::TokenKind;
use crate::program::{Edit, Edits, Program, SourceError, SourceTree, StmtSet};

use super::proposal::{Part, Proposal};
use super::sequence::Sequence;
use super::view::View;

/// What a set of proposals does to a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Edits of files that stay; they do not overlap.
    pub edits: Edits,
    /// Files that go.
    pub drop_files: BTreeSet<String>,
}

impl Change {
    /// The tree after the change.
    pub fn apply(&self, tree: &SourceTree) -> Result<SourceTree, SourceError> {
        let edited = tree.with_edits(&self.edits)?;
        Ok(self.drop_files.iter().fold(edited, |tree, path| tree.without(path)))
    }
}

/// A row of a file: its path and its place.
type RowPlace<'a> = (&'a str, (usize, usize, usize));

/// The change that all these proposals make together; of one choice only the first is taken.
pub fn combine<'a>(program: &Program, proposals: impl IntoIterator<Item = &'a Proposal>) -> Change {
    let mut chosen = BTreeSet::new();
    let mut drop_files = BTreeSet::new();
    let mut statements = StmtSet::new();
    let mut edits: Edits = BTreeMap::new();
    let mut rows: BTreeMap<RowPlace<'_>, (&Sequence, BTreeSet<usize>)> = BTreeMap::new();
    for proposal in proposals {
        if proposal.choice.as_ref().is_some_and(|choice| !chosen.insert(choice.clone())) {
            continue;
        }
        drop_files.extend(proposal.drop_files.iter().cloned());
        for part in &proposal.parts {
            match part {
                Part::Edit { file, edit } => edits.entry(file.clone()).or_default().push(edit.clone()),
                Part::Item { file, sequence, index } => {
                    let row = rows.entry((file, sequence.place())).or_insert((sequence, BTreeSet::new()));
                    row.1.insert(*index);
                }
                Part::Statement(id) => {
                    statements.insert(*id);
                }
            }
        }
    }
    for ((file, _), (sequence, gone)) in rows {
        edits.entry(file.to_owned()).or_default().extend(sequence.without(&gone));
    }
    if !statements.is_empty() {
        for (file, deletions) in program.delete(&statements) {
            edits.entry(file).or_default().extend(deletions);
        }
    }
    for view in View::of(program) {
        if let Some(edits) = edits.get_mut(view.path) {
            *edits = apart(&view, union(std::mem::take(edits)));
        }
    }
    edits.retain(|file, edits| !edits.is_empty() && !drop_files.contains(file));
    Change { edits, drop_files }
}

/// Edits in order without overlap: what lies inside another goes with it, what overlaps or touches is joined.
fn union(mut edits: Vec<Edit>) -> Vec<Edit> {
    edits.sort_by(|one, two| {
        (one.range.start, two.range.end, &one.text).cmp(&(two.range.start, one.range.end, &two.text))
    });
    edits.dedup();
    let mut joined: Vec<Edit> = Vec::with_capacity(edits.len());
    for edit in edits {
        match joined.last_mut() {
            Some(last) if edit.range.end <= last.range.end && edit.range.start < last.range.end => {}
            Some(last) if edit.range.start <= last.range.end => {
                last.range.end = edit.range.end.max(last.range.end);
                last.text.push_str(&edit.text);
            }
            _ => joined.push(edit),
        }
    }
    joined
}

/// Puts a blank where an edit would glue two words together.
fn apart(view: &View<'_>, mut edits: Vec<Edit>) -> Vec<Edit> {
    for edit in &mut edits {
        let before = view.text[..edit.range.start].chars().next_back();
        let after = view.text[edit.range.end..].chars().next();
        let first = edit.text.chars().next().or(after);
        let last = edit.text.chars().next_back().or(before);
        if (glue(before, first) || glue(last, after)) && !in_string(view, &edit.range) {
            match edit.text.is_empty() {
                true => edit.text.push(' '),
                false => {
                    if glue(before, first) {
                        edit.text.insert(0, ' ');
                    }
                    if glue(last, after) {
                        edit.text.push(' ');
                    }
                }
            }
        }
    }
    edits
}

fn glue(left: Option<char>, right: Option<char>) -> bool {
    let word = |character: char| character.is_alphanumeric() || character == '_';
    match (left, right) {
        (Some(left), Some(right)) => {
            word(left) && (word(right) || matches!(right, '"' | '\'')) || left == '.' && right.is_ascii_digit()
        }
        _ => false,
    }
}

/// Whether an edit takes elements out of a formatted string.
fn in_string(view: &View<'_>, range: &Range<usize>) -> bool {
    let literal = |kind| {
        matches!(
            kind,
            TokenKind::FStringStart | TokenKind::FStringMiddle | TokenKind::TStringStart | TokenKind::TStringMiddle
        )
    };
    let end = |kind| literal(kind) || matches!(kind, TokenKind::FStringEnd | TokenKind::TStringEnd);
    let before = view.token_ending_at(range.start);
    let after = view.token_starting_at(range.end);
    before.is_some_and(literal) || after.is_some_and(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_inside_goes_with_the_whole_and_neighbours_join() {
        let edits = vec![
            Edit::remove(5..6),
            Edit::remove(0..10),
            Edit::remove(8..12),
            Edit::remove(12..13),
            Edit::remove(20..21),
        ];
        assert_eq!(union(edits), [Edit::remove(0..13), Edit::remove(20..21)]);
    }
}
