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
    /// What goes when no item stays, brackets included; `None`: the first item cannot go when no other stays.
    pub(super) whole: Option<Range<usize>>,
    /// Text right behind the last item that a single item left over needs: `,` for tuples.
    pub(super) single: &'static str,
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
                edits.push(Edit::remove(self.items[run].start..self.items[index].start));
            }
            run = index + 1;
        }
        let last = run - 1;
        let single = if kept.len() == 1 { self.single } else { "" };
        if run < self.items.len() {
            let end = self.items[self.items.len() - 1].end;
            edits.push(Edit::replace(self.items[last].end..end, single));
        } else if !single.is_empty() && self.items.len() > 1 {
            edits.push(Edit::replace(self.items[last].end..self.items[last].end, single));
        }
        edits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::SourceFile;

    fn check(text: &str, items: &[&str], gone: &[usize], single: &'static str, after: &str) {
        let mut at = 0;
        let items = items
            .iter()
            .map(|item| {
                let start = at + text[at..].find(item).expect("the item is in the text");
                at = start + item.len();
                start..at
            })
            .collect();
        let whole = text.find('(').map(|open| open..text.len());
        let sequence = Sequence { items, whole, single };
        let edits = sequence.without(&gone.iter().copied().collect());
        let file = SourceFile::from_text(text).with_edits(&edits).expect("the edits do not overlap");
        assert_eq!(&**file.text(), after);
    }

    #[test]
    fn any_subset_of_items_goes_with_its_commas() {
        check("f(a, b, c)", &["a", "b", "c"], &[0], "", "f(b, c)");
        check("f(a, b, c)", &["a", "b", "c"], &[1], "", "f(a, c)");
        check("f(a, b, c)", &["a", "b", "c"], &[2], "", "f(a, b)");
        check("f(a, b, c)", &["a", "b", "c"], &[0, 2], "", "f(b)");
        check("f(a, b, c)", &["a", "b", "c"], &[1, 2], "", "f(a)");
        check("f(a, b, c,)", &["a", "b", "c"], &[0, 1], "", "f(c,)");
        check("f(a, b, c)", &["a", "b", "c"], &[0, 1, 2], "", "f");
        check("import a, b", &["a", "b"], &[0, 1], "", "import a");
    }

    #[test]
    fn the_last_item_of_a_tuple_keeps_its_comma() {
        check("(a, b)", &["a", "b"], &[0], ",", "(b,)");
        check("(a, b)", &["a", "b"], &[1], ",", "(a,)");
    }
}
