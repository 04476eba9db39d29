//! Items in a row with separators: arguments, parameters, bases, elements, operands, imported names.
//!
//! Owns how any subset of the items is deleted so that what stays still parses. Invariant: a deletion takes whole items
//! with one separator each and touches no byte of an item that stays. Must not know what the items mean.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::program::Edit;

/// A row of items in one file, in order of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sequence {
    /// The items, their own parentheses included.
    pub(super) items: Vec<Range<usize>>,
    /// What follows each item.
    pub(super) tails: Vec<Tail>,
    /// What goes when no item stays, brackets included; `None`: the first item cannot go when no other stays.
    pub(super) whole: Option<Range<usize>>,
    /// Whether a single item that is left over needs a comma: in tuples.
    pub(super) single: Single,
}

/// What follows an item and goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    /// Where its comma starts.
    pub(super) comma: Option<usize>,
    /// Behind its comma and behind the comment on the same line.
    pub(super) end: usize,
    /// Where the next text starts: a comment on a line of its own, an item, a bracket.
    pub(super) next: usize,
    /// What stands directly before and after `end`.
    pub(super) line: Line,
}

/// How the line of an item ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// More code follows.
    Open,
    /// It is at an end.
    Ended,
    /// It is at an end with a comment.
    Commented,
}

/// What a single item left over needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Single {
    Nothing,
    Comma,
}

impl Sequence {
    /// What tells rows of one file apart: where they start and end, and how many items they have.
    pub(super) fn place(&self) -> (usize, usize, usize) {
        let start = self.items.first().map_or(0, |item| item.start);
        let end = self.items.last().map_or(0, |item| item.end);
        (start, end, self.items.len())
    }

    /// The edits that delete the items at these places.
    pub(super) fn without(&self, gone: &BTreeSet<usize>) -> Vec<Edit> {
        let mut kept: Vec<usize> = (0..self.items.len()).filter(|index| !gone.contains(index)).collect();
        if kept.is_empty() {
            match &self.whole {
                Some(whole) => return vec![Edit::remove(whole.clone())],
                None if self.items.is_empty() => return Vec::new(),
                None => kept.push(0),
            }
        }
        let mut edits = Vec::new();
        let mut run = 0;
        for &index in &kept {
            if run < index {
                edits.push(Edit::remove(self.items[run].start..self.tails[index - 1].next));
            }
            run = index + 1;
        }
        if run < self.items.len() {
            self.end_after(run - 1, kept.len(), &mut edits);
        } else if kept.len() == 1 && self.single == Single::Comma && self.items.len() > 1 && self.trailing().is_none() {
            let end = self.items[run - 1].end;
            edits.push(Edit::replace(end..end, ","));
        }
        edits
    }

    fn trailing(&self) -> Option<usize> {
        self.tails.last().and_then(|tail| tail.comma)
    }

    /// The items behind this one go, which becomes the last.
    fn end_after(&self, last: usize, kept: usize, edits: &mut Vec<Edit>) {
        let (tail, final_tail) = (self.tails[last], self.tails[self.items.len() - 1]);
        let keeps_comma = self.trailing().is_some() || kept == 1 && self.single == Single::Comma;
        if let (Some(comma), false) = (tail.comma, keeps_comma) {
            edits.push(Edit::remove(comma..comma + 1));
        }
        let start = match (tail.comma, tail.line, final_tail.line) {
            (_, Line::Commented, Line::Open) => self.items[last + 1].start,
            (None, ..) => self.items[last].end,
            _ => tail.end,
        };
        edits.push(Edit::remove(start..final_tail.end));
    }
}

#[cfg(test)]
mod tests {
    use crate::passes::Facts;
    use crate::passes::check::{subset, tree_of};

    /// Items of the arguments of the only call, or of the names of the only import, by place.
    fn check(text: &str, gone: &[usize], after: &str) {
        let pass = if text.contains("import") { "imports" } else { "displays" };
        let program = tree_of(text);
        let proposals = crate::passes::by_name(pass).expect("it is registered").proposals(&program, &Facts::default());
        assert_eq!(subset(&program, gone.iter().map(|&at| &proposals[at])), after);
    }

    #[test]
    fn any_subset_of_items_goes_with_its_commas() {
        check("[a, b, c]", &[0], "[b, c]");
        check("[a, b, c]", &[1], "[a, c]");
        check("[a, b, c]", &[2], "[a, b]");
        check("[a, b, c]", &[0, 2], "[b]");
        check("[a, b, c]", &[1, 2], "[a]");
        check("[a, b, c,]", &[0, 1], "[c,]");
        check("[a, b, c,]", &[1, 2], "[a,]");
        check("[a, b, c]", &[0, 1, 2], "[]");
        check("import a, b, c  # why\nc", &[0], "import b, c  # why\nc");
        check("import a, b, c  # why\na", &[0, 1], "import a  # why\na");
        check("import a, \\\n  b\na", &[0], "import a\na");
    }

    #[test]
    fn the_last_item_of_a_tuple_keeps_its_comma() {
        check("x = (a, b)", &[0], "x = (b,)");
        check("x = (a, b)", &[1], "x = (a,)");
        check("x = (a, b, c)", &[1, 2], "x = (a,)");
        check("x = (a, b,)", &[0], "x = (b,)");
    }

    #[test]
    fn comments_go_with_their_items_and_stay_with_them() {
        let text = "[\n  a,  # one\n  # about b\n  b,  # two\n  c,  # three\n]";
        check(text, &[0], "[\n  # about b\n  b,  # two\n  c,  # three\n]");
        check(text, &[1], "[\n  a,  # one\n  # about b\n  c,  # three\n]");
        check(text, &[2], "[\n  a,  # one\n  # about b\n  b,  # two\n]");
        check("[a,  # one\n b]", &[1], "[a  # one\n ]");
        check("[a,  # one\n b  # two\n]", &[1], "[a  # one\n]");
        check("[a\n  # sep\n  , b]", &[1], "[a\n  # sep\n  ]");
    }
}
