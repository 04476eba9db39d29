//! One file as a pass sees it: text, syntax tree, tokens, lines.
//!
//! Owns the questions about layout (lines, indents, parentheses, separators). Invariant: every offset handed out is a
//! character boundary of the text. Must not decide what goes.

use std::ops::Range;
use std::sync::Arc;

use crate::program::python::{Expr, Module, Ranged, Stmt, Token, TokenKind, ast, range};
use crate::program::{FileId, Program, SourceFile, StmtId};

use super::sequence::{Line, Sequence, Single, Tail};

/// A file that parses.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) path: &'a str,
    pub(super) text: &'a str,
    pub(super) source: &'a SourceFile,
    program: &'a Program,
    file: FileId,
    module: &'a Module,
}

impl<'a> View<'a> {
    /// The files of a program that parse, in path order.
    pub(super) fn of(program: &'a Program) -> impl Iterator<Item = View<'a>> {
        program.paths().iter().filter_map(move |path| {
            let file = program.file_named(path)?;
            let (module, source) = (program.module(file)?, program.tree().get(path)?);
            Some(View { path, text: program.text(file), source, program, file, module })
        })
    }

    pub(super) fn body(&self) -> &'a [Stmt] {
        self.module.body()
    }

    /// The statement of a node.
    pub(super) fn id(&self, node: &impl Ranged) -> Option<StmtId> {
        let start = node.start().to_usize();
        let statements = self.program.statements_in(self.file);
        let found = statements.binary_search_by_key(&start, |statement| statement.range.start).ok()?;
        Some(statements[found].id)
    }

    /// Where a statement of this file starts.
    pub(super) fn start_of(&self, id: StmtId) -> Option<usize> {
        let statement = self.program.statements().get(id.index())?;
        (statement.file == self.file).then_some(statement.range.start)
    }

    /// The line of an offset, 1-based.
    pub(super) fn line(&self, at: usize) -> u32 {
        self.program.line_of(self.file, at)
    }

    /// Where the line of an offset starts.
    pub(super) fn line_start(&self, at: usize) -> usize {
        self.text[..at].rfind(['\n', '\r']).map_or(0, |found| found + 1)
    }

    /// Where the line behind an offset starts: past the line end, or the end of the text.
    pub(super) fn line_end(&self, at: usize) -> usize {
        let Some(found) = self.text[at..].find(['\n', '\r']) else { return self.text.len() };
        let end = at + found;
        if self.text[end..].starts_with("\r\n") { end + 2 } else { end + 1 }
    }

    /// The blanks before an offset, if nothing else stands before it on its line.
    pub(super) fn indent(&self, at: usize) -> Option<&'a str> {
        let blanks = &self.text[self.line_start(at)..at];
        blanks.chars().all(|character| matches!(character, ' ' | '\t')).then_some(blanks)
    }

    pub(super) fn tokens(&self) -> &'a [Token] {
        self.module.tokens()
    }

    /// The tokens that start in a range.
    pub(super) fn tokens_in(&self, range: &Range<usize>) -> &'a [Token] {
        let first = self.module.token_from(range.start);
        let end = self.module.token_from(range.end).max(first);
        &self.tokens()[first..end]
    }

    /// Tokens in a range as sizes count them: comments, line ends and indents left out.
    pub(super) fn count(&self, range: &Range<usize>) -> u32 {
        let count = self.tokens_in(range).iter().filter(|token| is_code(token.kind())).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// The first token of code that starts at an offset or after it.
    pub(super) fn next(&self, at: usize) -> Option<&'a Token> {
        self.tokens()[self.module.token_from(at)..].iter().find(|token| is_code(token.kind()))
    }

    /// The last token of code that ends at an offset or before it.
    pub(super) fn previous(&self, at: usize) -> Option<&'a Token> {
        let before = &self.tokens()[..self.module.token_from(at)];
        before.iter().rev().find(|token| is_code(token.kind()) && token.end().to_usize() <= at)
    }

    /// The kind of the token that ends at an offset.
    pub(super) fn token_ending_at(&self, at: usize) -> Option<TokenKind> {
        let before = self.module.token_from(at).checked_sub(1)?;
        let token = &self.tokens()[before];
        (token.end().to_usize() == at).then(|| token.kind())
    }

    /// The kind of the token that starts at an offset.
    pub(super) fn token_starting_at(&self, at: usize) -> Option<TokenKind> {
        let token = self.tokens().get(self.module.token_from(at))?;
        (token.start().to_usize() == at).then(|| token.kind())
    }

    /// Where the next token of a kind starts, at an offset or after it.
    pub(super) fn find(&self, kind: TokenKind, within: Range<usize>) -> Option<usize> {
        self.tokens_in(&within).iter().find(|token| token.kind() == kind).map(|token| token.start().to_usize())
    }

    /// The range of an expression with the parentheses around it, as far as they lie within bounds.
    pub(super) fn outer(&self, inner: Range<usize>, within: &Range<usize>) -> Range<usize> {
        let mut outer = inner;
        while let (Some(open), Some(close)) = (self.previous(outer.start), self.next(outer.end)) {
            let around = range(open).start..range(close).end;
            let inside = within.start <= around.start && around.end <= within.end;
            if open.kind() != TokenKind::Lpar || close.kind() != TokenKind::Rpar || !inside {
                break;
            }
            outer = around;
        }
        outer
    }

    /// The row of these items between two offsets.
    pub(super) fn sequence(
        &self,
        items: impl IntoIterator<Item = Range<usize>>,
        inside: &Range<usize>,
        whole: Option<Range<usize>>,
    ) -> Sequence {
        let items: Vec<Range<usize>> = items.into_iter().map(|item| self.outer(item, inside)).collect();
        let tails = items.iter().map(|item| self.tail(item.end)).collect();
        Sequence { items, tails, whole, single: Single::Nothing }
    }

    /// The row of operands of an operator: no commas, and a comment goes with the operator.
    pub(super) fn operands(&self, items: impl IntoIterator<Item = Range<usize>>, inside: &Range<usize>) -> Sequence {
        let items: Vec<Range<usize>> = items.into_iter().map(|item| self.outer(item, inside)).collect();
        let starts = items.iter().skip(1).map(|item| item.start).chain([inside.end]);
        let tail = |(item, next): (&Range<usize>, usize)| Tail { comma: None, end: item.end, next, line: Line::Open };
        let tails = items.iter().zip(starts).map(tail).collect();
        Sequence { items, tails, whole: None, single: Single::Nothing }
    }

    /// What follows an item that ends here: its comma, and the comment on its line if the row goes on behind it.
    fn tail(&self, item: usize) -> Tail {
        let comma = self.next(item).filter(|token| token.kind() == TokenKind::Comma).map(range);
        let mut end = comma.as_ref().map_or(item, |comma| comma.end);
        let mut rest = self.tokens()[self.module.token_from(end)..].iter().map(|token| (token.kind(), range(token)));
        let line = match (rest.next(), rest.next()) {
            (Some((TokenKind::Comment, comment)), Some((TokenKind::NonLogicalNewline, _))) => {
                end = comment.end;
                Line::Commented
            }
            (Some((TokenKind::NonLogicalNewline, _)), _) => Line::Ended,
            _ => Line::Open,
        };
        let blank = |character: char| character.is_whitespace() || character == '\\';
        let next = self.text[end..].find(|character| !blank(character)).map_or(self.text.len(), |found| end + found);
        Tail { comma: comma.map(|comma| comma.start), end, next, line }
    }

    /// The row of arguments of a call or a class; all of them may go, of a class with the brackets.
    pub(super) fn arguments(&self, arguments: &ast::Arguments, brackets: Brackets) -> Arc<Sequence> {
        let whole = range(arguments);
        let inside = whole.start + 1..whole.end.saturating_sub(1).max(whole.start + 1);
        let mut items: Vec<Range<usize>> = arguments.args.iter().map(range).collect();
        items.extend(arguments.keywords.iter().map(range));
        items.sort_by_key(|item| item.start);
        let empty = match brackets {
            Brackets::Stay => inside.clone(),
            Brackets::Go => whole,
        };
        Arc::new(self.sequence(items, &inside, Some(empty)))
    }
}

/// What becomes of brackets around nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Brackets {
    /// `f()`
    Stay,
    /// `class A:`
    Go,
}

/// Whether a token counts as code.
pub(super) fn is_code(kind: TokenKind) -> bool {
    !matches!(
        kind,
        TokenKind::Comment
            | TokenKind::Newline
            | TokenKind::NonLogicalNewline
            | TokenKind::Indent
            | TokenKind::Dedent
            | TokenKind::EndOfFile
    )
}

/// The last name of a dotted expression or of what it calls: `nn.Linear(2, 3)` gives `Linear`.
pub(super) fn last_name(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Name(name) => Some(name.id.as_str()),
        Expr::Attribute(attribute) => Some(attribute.attr.as_str()),
        Expr::Call(call) => last_name(&call.func),
        Expr::Subscript(subscript) => last_name(&subscript.value),
        _ => None,
    }
}
