//! Layout of bodies: taking the header off a compound statement and moving its body one level out.
//!
//! Owns the ranges that go. Invariant: only headers, arms and the indent of lines go; lines inside multi-line strings keep
//! every byte. Must not decide whether that is worth a trial.

use std::ops::Range;

use crate::program::python::{Stmt, TokenKind, range};

use super::view::{View, is_code};

/// A body and where the keyword of its clause starts.
#[derive(Clone, Copy)]
pub(super) struct Clause<'a> {
    pub(super) keyword: usize,
    pub(super) body: &'a [Stmt],
}

/// The `else` or `finally` clause of a body; `None` for an empty body.
pub(super) fn tail<'a>(view: &View<'a>, body: &'a [Stmt]) -> Option<Clause<'a>> {
    let colon = view.previous(range(body.first()?).start)?;
    let keyword = view.previous(range(colon).start)?;
    matches!(keyword.kind(), TokenKind::Else | TokenKind::Finally)
        .then(|| Clause { keyword: range(keyword).start, body })
}

/// What goes so that of a statement only these bodies stay, in its place, in order; `None` when the layout forbids it.
pub(super) fn peel(view: &View<'_>, whole: &Range<usize>, kept: &[Clause<'_>]) -> Option<Vec<Range<usize>>> {
    let outer = view.indent(whole.start)?;
    let mut cuts = Vec::new();
    let mut done = view.line_start(whole.start);
    for clause in kept {
        let (first, last) = (clause.body.first()?, clause.body.last()?);
        let end = view.line_end(range(last).end);
        match header_end(view, clause.keyword, range(first).start) {
            Some(header) => {
                cuts.push(done..header);
                outdent(view, header..end, outer, view.indent(range(first).start)?, &mut cuts)?;
            }
            None => {
                cuts.push(done..view.line_start(clause.keyword));
                cuts.push(clause.keyword..range(first).start);
            }
        }
        done = end;
    }
    cuts.push(done..view.line_end(whole.end).max(done));
    cuts.retain(|cut| cut.start < cut.end);
    Some(cuts)
}

/// What goes so that a clause with its body is gone.
pub(super) fn clause_lines(view: &View<'_>, clause: Clause<'_>) -> Option<Range<usize>> {
    view.indent(clause.keyword)?;
    Some(view.line_start(clause.keyword)..view.line_end(range(clause.body.last()?).end))
}

/// Where the line of the header ends when the body stands on lines of its own.
fn header_end(view: &View<'_>, keyword: usize, body: usize) -> Option<usize> {
    let header = view.tokens_in(&(keyword..body));
    let line_end = header.iter().rev().find(|token| token.kind() == TokenKind::Newline)?;
    Some(range(line_end).end)
}

/// The part of the indent that goes from each line.
fn outdent(view: &View<'_>, lines: Range<usize>, outer: &str, inner: &str, cuts: &mut Vec<Range<usize>>) -> Option<()> {
    if !inner.starts_with(outer) || inner.len() == outer.len() {
        return None;
    }
    let strings = multi_line_strings(view, &lines);
    let mut line = lines.start;
    while line < lines.end {
        let in_string = strings.iter().any(|string| string.start < line && line < string.end);
        if view.text[line..].starts_with(inner) {
            if !in_string {
                cuts.push(line + outer.len()..line + inner.len());
            }
        } else if !in_string && starts_statement(view, line) {
            return None;
        }
        line = view.line_end(line);
    }
    Some(())
}

/// Whether a line begins with code that does not continue the line before.
fn starts_statement(view: &View<'_>, line: usize) -> bool {
    let layout = |kind| matches!(kind, TokenKind::Indent | TokenKind::Dedent);
    let rest = view.tokens_in(&(line..view.line_end(line)));
    let first = rest.iter().find(|token| !layout(token.kind()));
    let before = view
        .tokens_in(&(0..line))
        .iter()
        .rev()
        .find(|token| is_code(token.kind()) || token.kind() == TokenKind::Newline);
    first.is_some_and(|token| is_code(token.kind())) && before.is_none_or(|token| token.kind() == TokenKind::Newline)
}

/// The strings in a range that go over several lines, formatted ones with all that is in them.
fn multi_line_strings(view: &View<'_>, lines: &Range<usize>) -> Vec<Range<usize>> {
    let mut strings = Vec::new();
    let mut open = Vec::new();
    for token in view.tokens_in(lines) {
        let own = range(token);
        match token.kind() {
            TokenKind::String => strings.push(own),
            TokenKind::FStringStart | TokenKind::TStringStart => open.push(own.start),
            TokenKind::FStringEnd | TokenKind::TStringEnd => strings.extend(open.pop().map(|start| start..own.end)),
            _ => {}
        }
    }
    strings.retain(|string| view.text[string.clone()].contains(['\n', '\r']));
    strings
}
