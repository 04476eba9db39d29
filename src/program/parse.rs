//! A source tree as statements.
//!
//! Owns `Program`: the statements of all files with their places, and the way back to syntax trees. Invariant: a file that
//! does not parse is one opaque statement, so a program always exists. Must not change text.

use std::sync::Arc;

use super::python::{self, Module, Stmt, TokenKind, ast};
use super::source::SourceTree;
use super::statement::{Arm, FileId, Statement, StmtId, StmtKind, StmtSet};

/// Why a source tree is not a program.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// More statements or files than ids.
    #[error("the program has more than {limit} statements")]
    TooLarge {
        /// The most that is handled.
        limit: usize,
    },
}

/// A file that is kept whole because it does not parse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opaque {
    /// The file.
    pub file: String,
    /// The line of the first error, 1-based.
    pub line: u32,
    /// What the parser said.
    pub message: String,
}

/// Where a statement stood in the original program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// The file.
    pub file: String,
    /// The byte offset of its first word.
    pub offset: u32,
}

/// One file, parsed.
#[derive(Debug)]
pub(crate) struct Unit {
    pub(crate) text: Arc<str>,
    pub(crate) module: Result<Module, python::Refusal>,
    /// Ids count from 0 in this file.
    statements: Vec<Statement>,
    line_starts: Vec<u32>,
}

/// All files of a source tree as statements.
#[derive(Clone, Debug)]
pub struct Program {
    tree: SourceTree,
    paths: Vec<String>,
    units: Vec<Arc<Unit>>,
    statements: Arc<[Statement]>,
    /// The id of the first statement of each file, and one past the last id.
    firsts: Vec<u32>,
}

const LIMIT: usize = 16_000_000;

impl Program {
    /// Parses every file.
    pub fn parse(tree: &SourceTree) -> Result<Program, ParseError> {
        Program::build(tree, |_, _| None)
    }

    /// Parses a later version of this program; files with the same text are not parsed again.
    pub fn parse_next(&self, tree: &SourceTree) -> Result<Program, ParseError> {
        Program::build(tree, |path, text| {
            let file = self.file_named(path)?;
            let unit = &self.units[file.index()];
            (Arc::ptr_eq(&unit.text, text) || unit.text == *text).then(|| Arc::clone(unit))
        })
    }

    fn build(tree: &SourceTree, known: impl Fn(&str, &Arc<str>) -> Option<Arc<Unit>>) -> Result<Program, ParseError> {
        let mut paths = Vec::new();
        let mut units = Vec::new();
        let mut statements: Vec<Statement> = Vec::new();
        let mut firsts = vec![0];
        for (path, source) in &tree.files {
            let unit = match known(path, source.text()) {
                Some(unit) => unit,
                None => Arc::new(Unit::parse(source.text(), source.encoding() == super::Encoding::Raw)),
            };
            let base = firsts[firsts.len() - 1];
            let file = FileId(u32::try_from(paths.len()).unwrap_or(u32::MAX));
            if statements.len() + unit.statements.len() > LIMIT {
                return Err(ParseError::TooLarge { limit: LIMIT });
            }
            statements.extend(unit.statements.iter().map(|local| Statement {
                id: StmtId(local.id.0 + base),
                file,
                parent: local.parent.map(|parent| StmtId(parent.0 + base)),
                end: StmtId(local.end.0 + base),
                ..local.clone()
            }));
            firsts.push(base + u32::try_from(unit.statements.len()).unwrap_or(u32::MAX));
            paths.push(path.clone());
            units.push(unit);
        }
        Ok(Program { tree: tree.clone(), paths, units, statements: statements.into(), firsts })
    }

    /// The text that was parsed.
    pub fn tree(&self) -> &SourceTree {
        &self.tree
    }

    /// Every statement, in program order; the index is the id.
    pub fn statements(&self) -> &[Statement] {
        &self.statements
    }

    /// One statement.
    pub fn statement(&self, id: StmtId) -> &Statement {
        &self.statements[id.index()]
    }

    /// All statements as a set.
    pub fn all(&self) -> StmtSet {
        self.statements.iter().map(|statement| statement.id).collect()
    }

    /// The files, in order of their ids.
    pub fn paths(&self) -> &[String] {
        &self.paths
    }

    /// The path of a file.
    pub fn path(&self, file: FileId) -> &str {
        &self.paths[file.index()]
    }

    /// The file at a path.
    pub fn file_named(&self, path: &str) -> Option<FileId> {
        let index = self.paths.binary_search_by(|known| known.as_str().cmp(path)).ok()?;
        Some(FileId(u32::try_from(index).ok()?))
    }

    /// The text of a file.
    pub fn text(&self, file: FileId) -> &str {
        &self.units[file.index()].text
    }

    /// The text of a statement, decorators and body included.
    pub fn text_of(&self, id: StmtId) -> &str {
        let statement = self.statement(id);
        &self.text(statement.file)[statement.range.clone()]
    }

    /// The statements of a file, in order.
    pub fn statements_in(&self, file: FileId) -> &[Statement] {
        &self.statements[self.firsts[file.index()] as usize..self.firsts[file.index() + 1] as usize]
    }

    /// The direct children of a statement, all arms, in order.
    pub fn children(&self, id: StmtId) -> impl Iterator<Item = &Statement> + '_ {
        let end = self.statement(id).end;
        let mut next = StmtId(id.0 + 1);
        std::iter::from_fn(move || {
            if next >= end {
                return None;
            }
            let child = self.statement(next);
            next = child.end;
            Some(child)
        })
    }

    /// The statements that this one stands in, innermost first.
    pub fn ancestors(&self, id: StmtId) -> impl Iterator<Item = StmtId> + '_ {
        std::iter::successors(self.statement(id).parent, |&up| self.statement(up).parent)
    }

    /// The function (or class, with `Class`) that a statement runs in: the nearest enclosing `def`.
    pub fn enclosing_function(&self, id: StmtId) -> Option<StmtId> {
        self.ancestors(id).find(|&up| self.statement(up).kind == StmtKind::FunctionDef)
    }

    /// The files that do not parse.
    pub fn opaque(&self) -> Vec<Opaque> {
        let refused = self.units.iter().zip(&self.paths).filter_map(|(unit, path)| {
            let refusal = unit.module.as_ref().err()?;
            let line = unit.line_of(refusal.offset);
            Some(Opaque { file: path.clone(), line, message: refusal.message.clone() })
        });
        refused.collect()
    }

    /// The innermost statement on a line; of several beside each other the first.
    pub fn statement_at(&self, file: &str, line: u32) -> Option<StmtId> {
        let on_line = |statement: &&Statement| statement.lines.0 <= line && line <= statement.lines.1;
        let mut found: Option<&Statement> = None;
        for statement in self.statements_in(self.file_named(file)?).iter().filter(on_line) {
            if found.is_none_or(|outer| outer.contains(statement.id)) {
                found = Some(statement);
            }
        }
        found.map(|statement| statement.id)
    }

    /// Every statement of which a line event on this line can speak: those whose own lines (without their bodies) hold it.
    pub fn statements_on(&self, file: &str, line: u32) -> Vec<StmtId> {
        let Some(file) = self.file_named(file) else {
            return Vec::new();
        };
        let on_line = |statement: &&Statement| statement.lines.0 <= line && line <= statement.lines.1;
        let own = |statement: &&Statement| {
            self.children(statement.id).all(|child| {
                line < child.lines.0
                    || child.lines.1 < line
                    || line == child.lines.0 && self.shares_line(statement, line)
            })
        };
        self.statements_in(file).iter().filter(on_line).filter(own).map(|statement| statement.id).collect()
    }

    /// Whether the header of a statement ends on this line (a body on the header's own line).
    fn shares_line(&self, statement: &Statement, line: u32) -> bool {
        let unit = &self.units[statement.file.index()];
        unit.line_of(statement.keyword) == line
    }

    /// The innermost statement of this program over a byte of one of its files.
    pub fn statement_over(&self, file: FileId, offset: usize) -> Option<StmtId> {
        let covers = |statement: &&Statement| statement.range.start <= offset && offset < statement.range.end;
        self.statements_in(file).iter().rfind(covers).map(|statement| statement.id)
    }

    /// Where a statement stood in the original: the origin of its first word, or of its first byte that has one.
    pub fn origin(&self, id: StmtId) -> Option<Origin> {
        let statement = self.statement(id);
        let path = self.path(statement.file);
        let source = self.tree.get(path)?;
        let first = source.origin(statement.keyword).or_else(|| {
            let inside = source.origins().iter().filter(|segment| {
                let at = segment.at as usize;
                statement.keyword <= at && at < statement.range.end
            });
            inside.filter_map(|segment| segment.from).next()
        });
        Some(Origin { file: path.to_owned(), offset: first? })
    }

    /// The statement of this (original) program at an origin: the innermost over that byte.
    pub fn at_origin(&self, origin: &Origin) -> Option<StmtId> {
        self.statement_over(self.file_named(&origin.file)?, origin.offset as usize)
    }

    /// The line of a byte, 1-based.
    pub fn line_of(&self, file: FileId, offset: usize) -> u32 {
        self.units[file.index()].line_of(offset)
    }

    /// How many statements, as Python's `ast` counts them: an `elif` is one more; an opaque file counts as none.
    pub fn statements_count(&self) -> usize {
        let elifs =
            self.statements.iter().filter(|statement| matches!(statement.arm, Arm::Elif(_)) && statement.place == 0);
        let own = self.statements.iter().filter(|statement| statement.kind != StmtKind::Opaque);
        own.count() + elifs.count()
    }

    /// How many tokens, as Python's `tokenize` gives them (before 3.12: an f-string is one), without comments, newlines,
    /// indentation and the marks of the encoding and the end.
    pub fn tokens_count(&self) -> usize {
        self.units.iter().filter_map(|unit| unit.module.as_ref().ok()).map(count_tokens).sum()
    }

    /// The syntax tree of a file; `None` for an opaque one.
    pub(crate) fn module(&self, file: FileId) -> Option<&Module> {
        self.units[file.index()].module.as_ref().ok()
    }

    /// The syntax tree of a statement; `None` for an opaque file.
    pub(crate) fn node(&self, id: StmtId) -> Option<&Stmt> {
        let statement = self.statement(id);
        let body = match statement.parent {
            None => self.module(statement.file)?.body(),
            Some(parent) => body_of(self.node(parent)?, statement.arm),
        };
        body.get(statement.place as usize)
    }
}

/// The statements of one arm of a compound statement; empty where it has no such arm.
pub(crate) fn body_of(node: &Stmt, arm: Arm) -> &[Stmt] {
    let elifs = |clauses: &'_ [ast::ElifElseClause]| -> Option<usize> {
        match arm {
            Arm::Elif(n) => Some(usize::from(n)),
            Arm::Else => clauses.iter().position(|clause| clause.test.is_none()),
            _ => None,
        }
    };
    match (node, arm) {
        (Stmt::FunctionDef(def), Arm::Body) => &def.body,
        (Stmt::ClassDef(class), Arm::Body) => &class.body,
        (Stmt::For(each), Arm::Body) => &each.body,
        (Stmt::For(each), Arm::Else) => &each.orelse,
        (Stmt::While(each), Arm::Body) => &each.body,
        (Stmt::While(each), Arm::Else) => &each.orelse,
        (Stmt::If(test), Arm::Body) => &test.body,
        (Stmt::If(test), _) => elifs(&test.elif_else_clauses)
            .and_then(|n| test.elif_else_clauses.get(n))
            .map_or(&[], |clause| &clause.body),
        (Stmt::With(with), Arm::Body) => &with.body,
        (Stmt::Match(subject), Arm::Case(n)) => subject.cases.get(usize::from(n)).map_or(&[], |case| &case.body),
        (Stmt::Try(guard), Arm::Body) => &guard.body,
        (Stmt::Try(guard), Arm::Handler(n)) => {
            guard.handlers.get(usize::from(n)).map_or(&[], |ast::ExceptHandler::ExceptHandler(handler)| &handler.body)
        }
        (Stmt::Try(guard), Arm::Else) => &guard.orelse,
        (Stmt::Try(guard), Arm::Finally) => &guard.finalbody,
        _ => &[],
    }
}

/// The arms of a compound statement that hold statements, in order of the text.
pub(crate) fn arms_of(node: &Stmt) -> Vec<Arm> {
    let number = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
    let mut arms = Vec::new();
    match node {
        Stmt::Match(subject) => arms.extend((0..subject.cases.len()).map(|n| Arm::Case(number(n)))),
        Stmt::If(test) => {
            arms.push(Arm::Body);
            let clauses = test.elif_else_clauses.iter().enumerate();
            arms.extend(clauses.map(
                |(n, clause)| {
                    if clause.test.is_some() { Arm::Elif(number(n)) } else { Arm::Else }
                },
            ));
        }
        Stmt::Try(guard) => {
            arms.push(Arm::Body);
            arms.extend((0..guard.handlers.len()).map(|n| Arm::Handler(number(n))));
            arms.extend([Arm::Else, Arm::Finally]);
        }
        Stmt::For(_) | Stmt::While(_) => arms.extend([Arm::Body, Arm::Else]),
        _ if StmtKind::of(node).is_compound() => arms.push(Arm::Body),
        _ => {}
    }
    arms.retain(|&arm| !body_of(node, arm).is_empty());
    arms
}

impl Unit {
    fn parse(text: &Arc<str>, raw: bool) -> Unit {
        let module = if raw {
            Err(python::Refusal { offset: 0, message: "not text in its declared encoding".to_owned() })
        } else {
            Module::parse(text)
        };
        let mut unit = Unit { text: Arc::clone(text), module, statements: Vec::new(), line_starts: line_starts(text) };
        let mut statements = Vec::new();
        match &unit.module {
            Ok(module) => unit.list(module, module.body(), None, Arm::Body, &mut statements),
            Err(_) => statements.push(Statement {
                id: StmtId(0),
                file: FileId(0),
                kind: StmtKind::Opaque,
                range: 0..text.len(),
                keyword: 0,
                lines: (1, unit.line_of(text.len())),
                parent: None,
                arm: Arm::Body,
                place: 0,
                end: StmtId(1),
            }),
        }
        unit.statements = statements;
        unit
    }

    fn list(&self, module: &Module, body: &[Stmt], parent: Option<StmtId>, arm: Arm, out: &mut Vec<Statement>) {
        for (place, node) in body.iter().enumerate() {
            let id = StmtId::new(out.len());
            let range = python::range(node);
            out.push(Statement {
                id,
                file: FileId(0),
                kind: StmtKind::of(node),
                keyword: keyword(node, module),
                lines: (self.line_of(range.start), self.line_of(range.end.saturating_sub(1).max(range.start))),
                range,
                parent,
                arm,
                place: u32::try_from(place).unwrap_or(u32::MAX),
                end: id,
            });
            for arm in arms_of(node) {
                self.list(module, body_of(node, arm), Some(id), arm, out);
            }
            out[id.index()].end = StmtId::new(out.len());
        }
    }

    fn line_of(&self, offset: usize) -> u32 {
        let line = self.line_starts.partition_point(|&start| start as usize <= offset);
        u32::try_from(line).unwrap_or(u32::MAX)
    }
}

/// Where the first word behind the decorators starts.
fn keyword(node: &Stmt, module: &Module) -> usize {
    let decorators: &[ast::Decorator] = match node {
        Stmt::FunctionDef(def) => &def.decorator_list,
        Stmt::ClassDef(class) => &class.decorator_list,
        _ => &[],
    };
    let start = python::range(node).start;
    let Some(last) = decorators.last() else {
        return start;
    };
    let tokens = &module.tokens()[module.token_from(python::range(last).end)..];
    let word = tokens.iter().find(|token| matches!(token.kind(), TokenKind::Async | TokenKind::Def | TokenKind::Class));
    word.map_or(start, |token| python::range(token).start)
}

/// Where each line starts; `\n`, `\r\n` and `\r` all end one, as they do for Python.
fn line_starts(text: &str) -> Vec<u32> {
    let bytes = text.as_bytes();
    let mut starts = vec![0];
    for (at, &byte) in bytes.iter().enumerate() {
        if byte == b'\n' || byte == b'\r' && bytes.get(at + 1) != Some(&b'\n') {
            starts.push(u32::try_from(at + 1).unwrap_or(u32::MAX));
        }
    }
    starts
}

/// Tokens of a module as `tokenize` before 3.12 counts them: an f-string with all its parts is one token.
fn count_tokens(module: &Module) -> usize {
    let mut depth = 0_usize;
    let mut count = 0;
    for token in module.tokens() {
        match token.kind() {
            TokenKind::FStringStart | TokenKind::TStringStart => {
                count += usize::from(depth == 0);
                depth += 1;
            }
            TokenKind::FStringEnd | TokenKind::TStringEnd => depth = depth.saturating_sub(1),
            TokenKind::Comment
            | TokenKind::Newline
            | TokenKind::NonLogicalNewline
            | TokenKind::Indent
            | TokenKind::Dedent
            | TokenKind::EndOfFile => {}
            _ => count += usize::from(depth == 0),
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Program {
        Program::parse(&SourceTree::from_texts([("a.py", text)])).expect("small")
    }

    #[test]
    fn statements_stand_in_program_order_with_their_places() {
        let text = "@mark\n@other\ndef f():\n    if a:\n        b\n    elif c: d; e\n    else:\n        g\ntry:\n    h\nexcept E:\n    i\nfinally:\n    j\n";
        let program = one(text);
        let listed: Vec<_> = program
            .statements()
            .iter()
            .map(|s| (s.kind, s.parent.map(|p| p.0), s.arm, s.place, s.end.0, s.lines))
            .collect();
        use StmtKind::{Expr, FunctionDef, If, Try};
        assert_eq!(
            listed,
            [
                (FunctionDef, None, Arm::Body, 0, 6, (1, 8)),
                (If, Some(0), Arm::Body, 0, 6, (4, 8)),
                (Expr, Some(1), Arm::Body, 0, 3, (5, 5)),
                (Expr, Some(1), Arm::Elif(0), 0, 4, (6, 6)),
                (Expr, Some(1), Arm::Elif(0), 1, 5, (6, 6)),
                (Expr, Some(1), Arm::Else, 0, 6, (8, 8)),
                (Try, None, Arm::Body, 1, 10, (9, 14)),
                (Expr, Some(6), Arm::Body, 0, 8, (10, 10)),
                (Expr, Some(6), Arm::Handler(0), 0, 9, (12, 12)),
                (Expr, Some(6), Arm::Finally, 0, 10, (14, 14)),
            ]
        );
        assert_eq!(&text[program.statement(StmtId(0)).keyword..][..3], "def");
        assert_eq!(program.text_of(StmtId(4)), "e");
        assert!(program.statements().iter().all(|s| StmtKind::of(program.node(s.id).expect("parsed")) == s.kind));
        assert_eq!(program.statement_at("a.py", 7), Some(StmtId(1)));
        assert_eq!(program.statement_at("a.py", 2), Some(StmtId(0)));
        assert_eq!(
            program.statements_on("a.py", 6),
            [StmtId(1), StmtId(3), StmtId(4)].into_iter().filter(|s| s.0 != 1).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_file_that_does_not_parse_is_one_opaque_statement() {
        let tree = SourceTree::from_texts([("a.py", "x = 1\n"), ("b.py", "ok\nif\n"), ("c.py", "y = 2\n")]);
        let program = Program::parse(&tree).expect("small");
        let kinds: Vec<_> = program.statements().iter().map(|s| (s.kind, s.file.0)).collect();
        assert_eq!(kinds, [(StmtKind::Assign, 0), (StmtKind::Opaque, 1), (StmtKind::Assign, 2)]);
        assert_eq!((program.opaque()[0].file.as_str(), program.opaque()[0].line), ("b.py", 2));
        assert_eq!((program.statements_count(), program.tokens_count()), (2, 6));
    }

    #[test]
    fn the_deepest_expression_that_is_taken_fits_a_small_stack() {
        let deep = format!("x = a{}\ny = a{}\n", "+a".repeat(1_990), ".a(1)".repeat(900));
        let program = one(&deep);
        assert_eq!(program.opaque(), []);
        assert!(super::super::Names::of(&program).readers_of(StmtId(0)).is_empty());
    }

    #[test]
    fn an_origin_survives_edits_above_and_a_lost_decorator() {
        use super::super::source::{Edit, Edits};
        let tree = SourceTree::from_texts([("a.py", "x = 1\n@mark\ndef f(): pass\n")]);
        let before = Program::parse(&tree).expect("small");
        let edits = Edits::from([("a.py".to_owned(), vec![Edit::remove(0..12)])]);
        let after = before.parse_next(&tree.with_edits(&edits).expect("fits")).expect("small");
        let origin = after.origin(StmtId(0)).expect("not inserted");
        assert_eq!(origin, Origin { file: "a.py".into(), offset: 12 });
        assert_eq!(before.at_origin(&origin), Some(StmtId(1)));
        assert_eq!(before.origin(StmtId(1)), Some(origin));
    }
}
