//! One-line tests of passes: a text before, a text after.
//!
//! Owns nothing at run time. Must not be used outside tests.

use std::collections::BTreeSet;

use crate::program::{Program, SourceTree, StmtId};

use super::{Facts, Pass, Proposal, combine};

fn parse(text: &str) -> Program {
    let program = Program::parse(&SourceTree::from_texts([("m.py", text)])).expect("few statements");
    assert!(program.opaque().is_empty(), "{:?}", program.opaque());
    program
}

fn apply<'a>(program: &Program, proposals: impl IntoIterator<Item = &'a Proposal>) -> String {
    let tree = combine(program, proposals).apply(program.tree()).expect("the edits fit");
    let after = Program::parse(&tree).expect("few statements");
    let text = tree.get("m.py").map_or(String::new(), |file| file.text().to_string());
    assert!(after.opaque().is_empty(), "{:?}: {text}", after.opaque());
    text
}

/// The program of one file.
pub(super) fn tree_of(text: &str) -> Program {
    parse(text)
}

/// The text after some proposals.
pub(super) fn subset<'a>(program: &Program, proposals: impl IntoIterator<Item = &'a Proposal>) -> String {
    apply(program, proposals)
}

/// All proposals of a pass together make this of a text.
pub(super) fn all(pass: &dyn Pass, before: &str, after: &str) {
    let program = parse(before);
    assert_eq!(apply(&program, &pass.proposals(&program, &Facts::default())), after);
}

/// Each proposal of a pass alone makes one of these of a text, in order.
pub(super) fn each(pass: &dyn Pass, before: &str, after: &[&str]) {
    let program = parse(before);
    let proposals = pass.proposals(&program, &Facts::default());
    let texts: Vec<String> = proposals.iter().map(|proposal| apply(&program, [proposal])).collect();
    assert_eq!(texts, after);
}

/// A pass has nothing to say about a text.
pub(super) fn nothing(pass: &dyn Pass, text: &str) {
    each(pass, text, &[]);
}

/// All proposals together, when everything ran but the statements that start on these lines.
pub(super) fn traced(pass: &dyn Pass, before: &str, idle: &[u32], after: &str) {
    let program = parse(before);
    let ran = |id: &StmtId| !idle.contains(&program.statement(*id).lines.0);
    let executed: BTreeSet<StmtId> = program.all().iter().filter(ran).collect();
    let facts = Facts { executed: Some(executed), ..Facts::default() };
    assert_eq!(apply(&program, &pass.proposals(&program, &facts)), after);
}

/// All proposals over several files; the first is the entry. Files that go are shown as `None`.
pub(super) fn files(pass: &dyn Pass, before: &[(&str, &str)], after: &[(&str, Option<&str>)]) {
    let program = Program::parse(&SourceTree::from_texts(before.iter().copied())).expect("few statements");
    let facts = Facts { entry: Some(before[0].0.to_owned()), ..Facts::default() };
    let tree = combine(&program, &pass.proposals(&program, &facts)).apply(program.tree()).expect("the edits fit");
    for (path, text) in after {
        assert_eq!(tree.get(path).map(|file| &**file.text()), *text, "{path}");
    }
}
