//! Owns the way from a frame of a candidate to the statement of the original that it is.
//!
//! Invariant: statements are found by the origin of their text, never by their line.
//! It judges nothing.

use crate::candidate::Candidate;
use crate::program::{Program, StmtId};
use crate::trial::Frame;

/// Maps frames of a candidate to statements of the original.
pub struct Locator<'a> {
    original: &'a Program,
    program: Option<Program>,
}

impl<'a> Locator<'a> {
    /// A locator for one candidate.
    pub fn new(original: &'a Program, candidate: &Candidate) -> Self {
        Self { original, program: original.parse_next(&candidate.tree).ok() }
    }

    /// The statement of the original that a frame of the candidate is in.
    pub fn locate(&self, frame: &Frame) -> Option<StmtId> {
        let program = self.program.as_ref()?;
        let statement = program.statement_at(&frame.file, frame.line)?;
        let origin = program.origin(statement)?;
        self.original.at_origin(&origin)
    }

    /// Where a statement of the original lies in the candidate: file, first and last line.
    pub fn lines(&self, wanted: StmtId) -> Option<(String, u32, u32)> {
        let program = self.program.as_ref()?;
        let is_it = |id: StmtId| program.origin(id).and_then(|origin| self.original.at_origin(&origin)) == Some(wanted);
        let statement = program.statements().iter().find(|statement| is_it(statement.id))?;
        Some((program.path(statement.file).to_owned(), statement.lines.0, statement.lines.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Edit, Edits, SourceTree};

    #[test]
    fn a_statement_is_found_where_it_has_moved() {
        let tree = SourceTree::from_texts([("a.py", "import os\nimport sys\nx = f(\n    1,\n)\n")]);
        let original = Program::parse(&tree).unwrap();
        let wanted = original.statement_at("a.py", 4).unwrap();
        let mut edits = Edits::new();
        edits.entry("a.py".to_owned()).or_default().push(Edit::remove(0..10));
        let candidate = Candidate::new(tree.with_edits(&edits).unwrap());
        let locator = Locator::new(&original, &candidate);
        assert_eq!(locator.lines(wanted), Some(("a.py".to_owned(), 2, 4)));
        assert_eq!(locator.lines(original.statement_at("a.py", 1).unwrap()), None);
    }
}
