//! A proposal: what one pass would remove at one place, and how much that is worth.
//!
//! Owns its parts and how they are put together. Invariant: a proposal says what goes, `combine` alone says how; so any
//! number of proposals about one list of items still give text that parses. Must not hold a verdict.

use std::sync::Arc;

use crate::program::{Edit, Program, StmtId};

use super::combine::{Change, combine};
use super::sequence::Sequence;
use super::view::View;

/// One thing to try.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// The pass that made it.
    pub pass: &'static str,
    /// What it does, for people: one line.
    pub label: String,
    /// The same for the same place of the original text, whatever was edited since: what failed alone is not tried again.
    pub key: String,
    /// Tokens that go, comments and line ends not counted.
    pub weight: u32,
    /// The chance that it keeps the failure when it is tried alone, from 0 to 1.
    pub prior: f64,
    /// Whole files that go.
    pub drop_files: Vec<String>,
    /// Proposals of one choice exclude each other: `combine` takes the first.
    pub choice: Option<String>,
    pub(super) parts: Vec<Part>,
}

/// What goes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    /// Text of a file.
    Edit { file: String, edit: Edit },
    /// One item of a row.
    Item { file: String, sequence: Arc<Sequence>, index: usize },
    /// A whole statement.
    Statement(StmtId),
}

impl Proposal {
    /// The change that this proposal alone makes.
    pub fn change(&self, program: &Program) -> Change {
        combine(program, [self])
    }

    /// What it is worth to try first: tokens it is expected to take away.
    pub fn gain(&self) -> f64 {
        f64::from(self.weight) * self.prior
    }
}

/// A proposal in the making.
pub(super) struct Draft {
    proposal: Proposal,
}

impl Draft {
    /// Starts a proposal about the node at an offset of a file; the detail tells proposals about one node apart.
    pub(super) fn new(pass: &'static str, view: &View<'_>, at: usize, detail: &str, prior: f64) -> Draft {
        let (path, line) = (view.path, view.line(at));
        let key = match view.source.origin(at) {
            Some(origin) => format!("{pass} {path}@{origin} {detail}"),
            None => format!("{pass} {path}+{at} {detail}"),
        };
        let label = format!("{detail} at {path}:{line}");
        let (drop_files, choice, parts) = (Vec::new(), None, Vec::new());
        Draft { proposal: Proposal { pass, label, key, weight: 0, prior, drop_files, choice, parts } }
    }

    /// Deletes a range of the file.
    pub(super) fn cut(self, view: &View<'_>, range: std::ops::Range<usize>) -> Draft {
        self.replace(view, range, "")
    }

    /// Deletes ranges of the file.
    pub(super) fn cuts(self, view: &View<'_>, ranges: impl IntoIterator<Item = std::ops::Range<usize>>) -> Draft {
        ranges.into_iter().fold(self, |draft, range| draft.cut(view, range))
    }

    /// Puts a short text in place of a range of the file.
    pub(super) fn replace(mut self, view: &View<'_>, range: std::ops::Range<usize>, text: &str) -> Draft {
        if range.start < range.end || !text.is_empty() {
            let brought_in = u32::from(!text.trim().is_empty());
            self.proposal.weight += view.count(&range).saturating_sub(brought_in);
            self.proposal.parts.push(Part::Edit { file: view.path.to_owned(), edit: Edit::replace(range, text) });
        }
        self
    }

    /// Deletes an item of a row.
    pub(super) fn item(mut self, view: &View<'_>, sequence: &Arc<Sequence>, index: usize) -> Draft {
        let comma = u32::from(sequence.items.len() > 1);
        self.proposal.weight += view.count(&sequence.items[index]) + comma;
        let (file, sequence) = (view.path.to_owned(), Arc::clone(sequence));
        self.proposal.parts.push(Part::Item { file, sequence, index });
        self
    }

    /// Deletes a statement.
    pub(super) fn statement(mut self, view: &View<'_>, id: StmtId, range: &std::ops::Range<usize>) -> Draft {
        self.proposal.weight += view.count(range);
        self.proposal.parts.push(Part::Statement(id));
        self
    }

    /// Drops the whole file.
    pub(super) fn file(mut self, view: &View<'_>) -> Draft {
        self.proposal.weight += view.count(&(0..view.text.len())).max(1);
        self.proposal.drop_files.push(view.path.to_owned());
        self
    }

    /// Excludes the other proposals of the same choice at the same place.
    pub(super) fn choice(mut self, view: &View<'_>, at: usize, what: &str) -> Draft {
        self.proposal.choice = Some(format!("{what} {}+{at}", view.path));
        self
    }

    /// Counts for something even where as many tokens come in as go.
    pub(super) fn weigh(mut self) -> Draft {
        self.proposal.weight = self.proposal.weight.max(1);
        self
    }

    /// The proposal, if it takes anything away.
    pub(super) fn finish(self) -> Option<Proposal> {
        let any = !self.proposal.parts.is_empty() || !self.proposal.drop_files.is_empty();
        (any && self.proposal.weight > 0).then_some(self.proposal)
    }
}
