//! Deletion of statements, as edits of the text.
//!
//! Invariant: deleting any set of statements from text that parses leaves text that parses, and every other statement keeps
//! its bytes. Must not decide what to delete.
//!
//! What goes with a statement: its decorators, its body, its line end and the comment behind it on that line.
//! A *paragraph* is a run of lines of one body without a blank line or a full-line comment between them. When all
//! statements of a paragraph go, so do the comment lines directly above it at its own indentation (never a `#!` or coding
//! line), and one of the two runs of blank lines around it. Every other comment and blank line stays.
//! A body that loses everything becomes `pass`; an `else` or a `finally` that loses everything goes, as does the last `elif`
//! when its test calls nothing that could do something: no later arm can run in its place and no effect is lost.

use std::ops::Range;

use super::encoding::declared_coding;
use super::parse::{Program, arms_of};
use super::python::{self, Expr, Module, Stmt, TokenKind};
use super::source::{Edit, Edits};
use super::statement::{Arm, FileId, Statement, StmtSet};

impl Program {
    /// The edits that delete these statements, with everything inside them.
    pub fn delete(&self, doomed: &StmtSet) -> Edits {
        let mut all = Edits::new();
        for (index, path) in self.paths().iter().enumerate() {
            let Ok(number) = u32::try_from(index) else {
                break;
            };
            let file = FileId(number);
            let statements = self.statements_in(file);
            if !statements
                .iter()
                .any(|statement| doomed.contains(statement.id))
            {
                continue;
            }
            let edits = match self.module(file) {
                None => vec![Edit::remove(0..self.text(file).len())],
                Some(module) => {
                    let mut cut = Cut {
                        program: self,
                        module,
                        text: self.text(file),
                        doomed,
                        edits: Vec::new(),
                    };
                    let top: Vec<&Statement> = statements
                        .iter()
                        .filter(|statement| statement.parent.is_none())
                        .collect();
                    cut.lines(&top);
                    merge(cut.edits)
                }
            };
            let text = self.text(file);
            let edits: Vec<Edit> = edits
                .into_iter()
                .filter(|edit| text[edit.range.clone()] != edit.text)
                .collect();
            if !edits.is_empty() {
                all.insert(path.clone(), edits);
            }
        }
        all
    }
}

/// Edits of one file in the making.
struct Cut<'a> {
    program: &'a Program,
    module: &'a Module,
    text: &'a str,
    doomed: &'a StmtSet,
    edits: Vec<Edit>,
}

/// Simple statements that share a line, or one compound statement.
struct Line<'a> {
    members: Vec<&'a Statement>,
    /// From its indentation to behind its line end.
    range: Range<usize>,
}

/// A line without a statement.
struct Gap {
    range: Range<usize>,
    /// Where its comment starts; `None` for a blank line.
    comment: Option<usize>,
}

impl<'a> Cut<'a> {
    fn is_doomed(&self, statement: &Statement) -> bool {
        self.doomed.contains(statement.id)
    }

    /// The statements of one body: some stay, or it is the module's.
    fn lines(&mut self, body: &[&'a Statement]) {
        let lines = self.split(body);
        let mut from = 0;
        while from < lines.len() {
            let mut to = from + 1;
            while to < lines.len()
                && self
                    .gaps(lines[to - 1].range.end, lines[to].range.start)
                    .is_empty()
            {
                to += 1;
            }
            self.paragraph(&lines, from..to);
            from = to;
        }
        for statement in body {
            if !self.is_doomed(statement) && statement.kind.is_compound() {
                self.compound(statement);
            }
        }
    }

    fn paragraph(&mut self, lines: &[Line<'a>], which: Range<usize>) {
        let goes =
            |cut: &Self, line: &Line<'a>| line.members.iter().all(|member| cut.is_doomed(member));
        let mut whole = true;
        for line in &lines[which.clone()] {
            if goes(self, line) {
                let end = self.behind(line);
                self.edits.push(Edit::remove(line.range.start..end));
            } else {
                whole = false;
                self.part_of(line);
            }
        }
        // A one-line suite stands behind its header: nothing above belongs to it.
        let first = &lines[which.start];
        if !whole || !self.is_own_line(first.members[0]) {
            return;
        }
        let above = match which.start.checked_sub(1) {
            Some(before) => self.gaps(lines[before].range.end, first.range.start),
            None => self.gaps_above(first.range.start),
        };
        let attached = self.attached(&above, first);
        if let Some(comment) = above.get(attached) {
            self.edits
                .push(Edit::remove(comment.range.start..first.range.start));
        }
        let last = &lines[which.end - 1];
        let last_end = self.behind(last);
        let below = match lines.get(which.end) {
            Some(next) => self.gaps(last_end, next.range.start),
            None => Vec::new(),
        };
        let blanks = above[..attached]
            .iter()
            .rev()
            .take_while(|gap| gap.comment.is_none())
            .count();
        let is_last = which.end == lines.len();
        if which.start > 0
            && blanks > 0
            && (is_last || below.first().is_some_and(|gap| gap.comment.is_none()))
        {
            let start = above[attached - blanks].range.start;
            let end = above[attached - 1].range.end;
            self.edits.push(Edit::remove(start..end));
        } else if which.start == 0 && attached == 0 {
            let blanks: Vec<&Gap> = below
                .iter()
                .take_while(|gap| gap.comment.is_none())
                .collect();
            if let (Some(first), Some(last)) = (blanks.first(), blanks.last()) {
                self.edits
                    .push(Edit::remove(first.range.start..last.range.end));
            }
        }
    }

    /// The index of the first of the comment lines directly above a line that belong to it; the length if there is none.
    fn attached(&self, above: &[Gap], line: &Line<'_>) -> usize {
        let indent = &self.text[line.range.start..line.members[0].range.start];
        let belongs = |gap: &&Gap| {
            gap.comment.is_some_and(|at| {
                let comment = &self.text[at..gap.range.end];
                let is_head = comment.starts_with("#!")
                    || declared_coding(comment.trim_end().as_bytes()).is_some();
                self.text[gap.range.start..at] == *indent
                    && !(is_head && self.is_head(gap.range.start))
            })
        };
        above.len() - above.iter().rev().take_while(belongs).count()
    }

    /// Whether an offset is on the first two lines, where `#!` and coding lines mean something.
    fn is_head(&self, offset: usize) -> bool {
        self.text[..offset]
            .bytes()
            .filter(|&byte| byte == b'\n' || byte == b'\r')
            .count()
            <= 2
    }

    /// A line of which something stays.
    fn part_of(&mut self, line: &Line<'a>) {
        let members = &line.members;
        let mut at = 0;
        while at < members.len() {
            if !self.is_doomed(members[at]) {
                at += 1;
                continue;
            }
            let first = at;
            while at < members.len() && self.is_doomed(members[at]) {
                at += 1;
            }
            let range = match (members.get(at), first.checked_sub(1)) {
                (Some(next), _) => members[first].range.start..next.range.start,
                (None, Some(kept)) => members[kept].range.end..members[at - 1].range.end,
                (None, None) => continue,
            };
            self.edits.push(Edit::remove(range));
        }
    }

    /// A compound statement that stays.
    fn compound(&mut self, statement: &'a Statement) {
        let Some(node) = self.program.node(statement.id) else {
            return;
        };
        let children: Vec<&Statement> = self.program.children(statement.id).collect();
        let dropped = self.dropped_arms(node, &children);
        for arm in arms_of(node) {
            let body: Vec<&Statement> = children
                .iter()
                .copied()
                .filter(|child| child.arm == arm)
                .collect();
            let is_empty = body.iter().all(|child| self.is_doomed(child));
            if is_empty && dropped.contains(&arm) {
                self.drop_arm(node, arm, &body);
            } else if is_empty {
                self.pass(&body);
            } else {
                self.lines(&body);
            }
        }
    }

    /// The arms that lose everything and can go with their headers.
    fn dropped_arms(&self, node: &Stmt, children: &[&Statement]) -> Vec<Arm> {
        let is_empty = |arm: Arm| {
            children
                .iter()
                .filter(|child| child.arm == arm)
                .all(|child| self.is_doomed(child))
        };
        let mut dropped = Vec::new();
        for arm in arms_of(node)
            .into_iter()
            .rev()
            .take_while(|&arm| arm != Arm::Body)
        {
            let can_go = match (node, arm) {
                (Stmt::If(test), Arm::Elif(n)) => test
                    .elif_else_clauses
                    .get(usize::from(n))
                    .and_then(|clause| clause.test.as_ref())
                    .is_some_and(is_inert),
                (Stmt::Try(guard), Arm::Finally) => !guard.handlers.is_empty(),
                (_, Arm::Else) => true,
                _ => false,
            };
            if can_go && is_empty(arm) {
                dropped.push(arm);
            } else if matches!(node, Stmt::If(_)) {
                break;
            }
        }
        dropped
    }

    fn drop_arm(&mut self, node: &Stmt, arm: Arm, body: &[&'a Statement]) {
        let (Some(first), Some(last)) = (body.first(), body.last()) else {
            return;
        };
        let header = match (node, arm) {
            (Stmt::If(test), Arm::Elif(n)) => test
                .elif_else_clauses
                .get(usize::from(n))
                .map(|clause| python::range(clause).start),
            (Stmt::Try(guard), Arm::Handler(n)) => guard
                .handlers
                .get(usize::from(n))
                .map(|handler| python::range(handler).start),
            (Stmt::Match(subject), Arm::Case(n)) => subject
                .cases
                .get(usize::from(n))
                .map(|case| python::range(case).start),
            _ => {
                let before = &self.module.tokens()[..self.module.token_from(first.range.start)];
                let word = before
                    .iter()
                    .rev()
                    .find(|token| matches!(token.kind(), TokenKind::Else | TokenKind::Finally));
                word.map(|token| python::range(token).start)
            }
        };
        let Some(header) = header else { return };
        let start = self.line_start(header);
        let end = self.deeper_comments(self.line_end(last.range.end), &self.text[start..header]);
        self.edits.push(Edit::remove(start..end));
    }

    /// Puts `pass` in the place of a whole body.
    fn pass(&mut self, body: &[&'a Statement]) {
        let (Some(first), Some(last)) = (body.first(), body.last()) else {
            return;
        };
        if !self.is_own_line(first) {
            self.edits
                .push(Edit::replace(first.range.start..last.range.end, "pass"));
            return;
        }
        let start = self.line_start(first.range.start);
        let line = Line {
            members: vec![first],
            range: start..start,
        };
        let above = self.gaps_above(start);
        let (from, text) = match above.get(self.attached(&above, &line)) {
            Some(comment) => (
                comment.range.start,
                format!("{}pass", &self.text[start..first.range.start]),
            ),
            None => (first.range.start, "pass".to_owned()),
        };
        let newline = self.newline(last.range.end);
        self.edits.push(Edit::replace(from..newline.start, text));
        let indent = &self.text[start..first.range.start];
        let end = if last.kind.is_compound() {
            self.deeper_comments(newline.end, indent)
        } else {
            newline.end
        };
        if end > newline.end {
            self.edits.push(Edit::remove(newline.end..end));
        }
    }

    /// Groups the statements of a body by line.
    fn split(&self, body: &[&'a Statement]) -> Vec<Line<'a>> {
        let mut lines: Vec<Line<'a>> = Vec::new();
        for &statement in body {
            let range = self.line_start(statement.range.start)..self.line_end(statement.range.end);
            match lines.last_mut() {
                Some(line) if !self.is_own_line(statement) => {
                    line.members.push(statement);
                    line.range.end = range.end;
                }
                _ => lines.push(Line {
                    members: vec![statement],
                    range,
                }),
            }
        }
        lines
    }

    /// One past a line that goes, with the comments that hung in its body.
    fn behind(&self, line: &Line<'_>) -> usize {
        match line.members.last() {
            Some(last) if last.kind.is_compound() => {
                let indent = &self.text[line.range.start..line.members[0].range.start];
                self.deeper_comments(line.range.end, indent)
            }
            _ => line.range.end,
        }
    }

    /// Whether a statement is the first on its logical line.
    fn is_own_line(&self, statement: &Statement) -> bool {
        let before = &self.module.tokens()[..self.module.token_from(statement.range.start)];
        let seen = before.iter().rev().map(|token| token.kind()).find(|kind| {
            !matches!(
                kind,
                TokenKind::Indent
                    | TokenKind::Dedent
                    | TokenKind::NonLogicalNewline
                    | TokenKind::Comment
            )
        });
        matches!(seen, None | Some(TokenKind::Newline))
    }

    /// Where the logical line of an offset starts, given that no bracket is open there.
    fn line_start(&self, offset: usize) -> usize {
        let before = &self.module.tokens()[..self.module.token_from(offset)];
        let newline = before.iter().rev().find(|token| is_newline(token.kind()));
        newline.map_or(0, |token| python::range(token).end)
    }

    /// The token that ends the logical line on which a statement ends.
    fn newline(&self, offset: usize) -> Range<usize> {
        let after = &self.module.tokens()[self.module.token_from(offset)..];
        let newline = after
            .iter()
            .find(|token| token.kind() == TokenKind::Newline);
        newline.map_or(self.text.len()..self.text.len(), python::range)
    }

    fn line_end(&self, offset: usize) -> usize {
        self.newline(offset).end
    }

    /// The lines without statements between two offsets that are starts of lines.
    fn gaps(&self, from: usize, to: usize) -> Vec<Gap> {
        let mut gaps = Vec::new();
        let mut start = from;
        let mut comment = None;
        for token in &self.module.tokens()[self.module.token_from(from)..] {
            let range = python::range(token);
            if range.start >= to {
                break;
            }
            match token.kind() {
                TokenKind::Comment => comment = Some(range.start),
                kind if is_newline(kind) => {
                    gaps.push(Gap {
                        range: start..range.end,
                        comment: comment.take(),
                    });
                    start = range.end;
                }
                _ => {}
            }
        }
        gaps
    }

    /// The lines without statements directly above the start of a line.
    fn gaps_above(&self, to: usize) -> Vec<Gap> {
        let before = &self.module.tokens()[..self.module.token_from(to)];
        let newline = before
            .iter()
            .rev()
            .find(|token| token.kind() == TokenKind::Newline);
        self.gaps(newline.map_or(0, |token| python::range(token).end), to)
    }

    /// One past the last of the comment lines from here on that are indented deeper than this.
    fn deeper_comments(&self, from: usize, indent: &str) -> usize {
        let mut end = from;
        for token in &self.module.tokens()[self.module.token_from(from)..] {
            let range = python::range(token);
            match token.kind() {
                TokenKind::Comment if width(self.line_indent(range.start)) > width(indent) => {
                    end = self.next_newline(range.end)
                }
                TokenKind::NonLogicalNewline | TokenKind::Dedent | TokenKind::Indent => {}
                _ => break,
            }
        }
        end
    }

    fn line_indent(&self, offset: usize) -> &'a str {
        &self.text[self.line_start(offset)..offset]
    }

    fn next_newline(&self, offset: usize) -> usize {
        let after = &self.module.tokens()[self.module.token_from(offset)..];
        let newline = after.iter().find(|token| is_newline(token.kind()));
        newline.map_or(self.text.len(), |token| python::range(token).end)
    }
}

fn is_newline(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::Newline | TokenKind::NonLogicalNewline)
}

/// The column that Python gives an indentation.
fn width(indent: &str) -> usize {
    indent.chars().fold(0, |column, character| match character {
        '\t' => column / 8 * 8 + 8,
        '\x0c' => 0,
        _ => column + 1,
    })
}

/// Whether a test can be left unevaluated: it calls nothing but questions about values and binds nothing.
fn is_inert(test: &Expr) -> bool {
    match test {
        Expr::UnaryOp(unary) => is_inert(&unary.operand),
        Expr::BoolOp(all) => all.values.iter().all(is_inert),
        Expr::BinOp(pair) => is_inert(&pair.left) && is_inert(&pair.right),
        Expr::Compare(compare) => {
            is_inert(&compare.left) && compare.comparators.iter().all(is_inert)
        }
        Expr::Attribute(attribute) => is_inert(&attribute.value),
        Expr::Subscript(subscript) => is_inert(&subscript.value) && is_inert(&subscript.slice),
        Expr::Tuple(tuple) => tuple.elts.iter().all(is_inert),
        Expr::List(list) => list.elts.iter().all(is_inert),
        Expr::Set(set) => set.elts.iter().all(is_inert),
        Expr::Call(call) => {
            let asks = call
                .func
                .as_name_expr()
                .is_some_and(|name| QUESTIONS.contains(&name.id.as_str()));
            asks && call.arguments.keywords.is_empty() && call.arguments.args.iter().all(is_inert)
        }
        _ => test.is_name_expr() || test.is_literal_expr(),
    }
}

/// Built-in functions that only look at their arguments.
const QUESTIONS: [&str; 6] = [
    "callable",
    "hasattr",
    "isinstance",
    "issubclass",
    "len",
    "type",
];

/// Sorts edits and joins those that overlap or touch.
fn merge(mut edits: Vec<Edit>) -> Vec<Edit> {
    edits.sort_by_key(|edit| (edit.range.start, edit.range.end));
    let mut merged: Vec<Edit> = Vec::new();
    for edit in edits {
        match merged.last_mut() {
            Some(last) if edit.range.start <= last.range.end => {
                last.range.end = last.range.end.max(edit.range.end);
                last.text.push_str(&edit.text);
            }
            _ => merged.push(edit),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::super::source::SourceTree;
    use super::super::statement::{StmtId, StmtKind};
    use super::*;

    /// Deletes the statements whose text starts with one of the words, and compares.
    #[track_caller]
    fn check(text: &str, words: &[&str], expected: &str) {
        let tree = SourceTree::from_texts([("a.py", text)]);
        let program = Program::parse(&tree).expect("small");
        assert!(program.opaque().is_empty(), "{:?}", program.opaque());
        let starts = |id: StmtId| {
            words
                .iter()
                .any(|word| program.text_of(id).starts_with(word))
        };
        let doomed: StmtSet = program
            .statements()
            .iter()
            .map(|statement| statement.id)
            .filter(|&id| starts(id))
            .collect();
        assert!(!doomed.is_empty());
        let after = tree
            .with_edits(&program.delete(&doomed))
            .expect("edits fit");
        assert_eq!(&**after.get("a.py").expect("the file").text(), expected);
        assert!(
            Program::parse(&after).expect("small").opaque().is_empty(),
            "broken: {expected}"
        );
    }

    #[test]
    fn a_line_goes_with_its_end_and_its_comment() {
        check("a\nb  # why\nc\n", &["b"], "a\nc\n");
        check("a\r\nb\r\nc", &["c"], "a\r\nb\r\n");
        check("a\nb", &["a"], "b");
        check("a\rb\rc\r", &["b"], "a\rc\r");
        check("x = (1,\n  2)  # two\ny\n", &["x"], "y\n");
        check("a\n\x0c\nb\nc\n", &["b"], "a\n\x0c\nc\n");
        check("s = '''\n  b\n'''\nb\n", &["b"], "s = '''\n  b\n'''\n");
        check("a\n", &["a"], "");
    }

    #[test]
    fn semicolons_keep_what_stays() {
        check("a; b; c\n", &["a"], "b; c\n");
        check("a; b; c  # d\n", &["b"], "a; c  # d\n");
        check("a; b; c;\n", &["c"], "a; b;\n");
        check("a; b; c\nd\n", &["a", "b", "c"], "d\n");
        check("a; \\\n  b\nc\n", &["b"], "a\nc\n");
        check("a; \\\n  b\nc\n", &["a"], "b\nc\n");
        check("a; b; c; d; e\n", &["b", "c", "e"], "a; d\n");
        check("x = (\n1); b\n", &["x"], "b\n");
    }

    #[test]
    fn continuations_go_with_their_statement() {
        check("a = 1 + \\\n  2\nb\n", &["a"], "b\n");
        check("# c:\\\na\nb\n", &["b"], "# c:\\\na\n");
        check("a\n\\\n\\\nb = 2\nc\n", &["b"], "a\nc\n");
        check("if x: \\\n  b\nc\n", &["b"], "if x: \\\n  pass\nc\n");
    }

    #[test]
    fn an_empty_body_becomes_pass() {
        check("if x:\n    a\n", &["a"], "if x:\n    pass\n");
        check("if x: a; b  # c\n", &["a", "b"], "if x: pass  # c\n");
        check("if x: a; b\n", &["a"], "if x: b\n");
        check("if x: a; b\n", &["b"], "if x: a\n");
        check(
            "def f():\n\t'''doc\n\t'''\n\treturn 1  # one\ny\n",
            &["'''", "return"],
            "def f():\n\tpass\ny\n",
        );
        check(
            "class A:\n    # why\n    x = 1\n\n    # how\n    y = 2\n    # end\n",
            &["x", "y"],
            "class A:\n    pass\n    # end\n",
        );
        check(
            "async def f():\n    async with a as b:\n        await c",
            &["await"],
            "async def f():\n    async with a as b:\n        pass",
        );
        check("if x:\n    pass\n", &["pass"], "if x:\n    pass\n");
    }

    #[test]
    fn decorators_and_bodies_go() {
        check(
            "@a\n# c\n@b(1)\nasync def f(x):\n    x\n    # end\n\ny\n",
            &["@a"],
            "y\n",
        );
        check(
            "class A:\n    @property\n    def p(self): return 1\n\n    q = 1\n",
            &["@prop"],
            "class A:\n    q = 1\n",
        );
        check("if x:\n  a\n  # in\n# out\nb\n", &["if"], "# out\nb\n");
        check(
            "def f[T](x: T) -> T:\n    return x\ntype X[T] = list[T]\n",
            &["def"],
            "type X[T] = list[T]\n",
        );
    }

    #[test]
    fn comments_go_with_the_last_of_their_paragraph() {
        check(
            "# one\na\n\n# two\nb\nc\n",
            &["b"],
            "# one\na\n\n# two\nc\n",
        );
        check("# one\na\n\n# two\nb\nc\n", &["b", "c"], "# one\na\n");
        check("# one\na\n\n# two\nb\n\nc\n", &["b"], "# one\na\n\nc\n");
        check("a\n\n# two\nb\n# three\nc\n", &["b"], "a\n\n# three\nc\n");
        check(
            "#!/usr/bin/env python\n# coding: utf-8\n# note\nimport a\nb\n",
            &["import"],
            "#!/usr/bin/env python\n# coding: utf-8\n# note\nb\n",
        );
        check(
            "#!/usr/bin/env python\n# coding: utf-8\n# note\nimport a\n\nb\n",
            &["import"],
            "#!/usr/bin/env python\n# coding: utf-8\n\nb\n",
        );
        check("import a\n\n\nb\n", &["import"], "b\n");
        check(
            "def f():\n    a\n\n    # two\n    b\n\n\nc\n",
            &["b"],
            "def f():\n    a\n\n\nc\n",
        );
    }

    #[test]
    fn arms_that_lose_everything_go_when_that_changes_nothing_else() {
        check(
            "if x:\n    a\nelse:\n    b\nc\n",
            &["b"],
            "if x:\n    a\nc\n",
        );
        check(
            "if x:\n    a\nelse:\n    b\nc\n",
            &["a"],
            "if x:\n    pass\nelse:\n    b\nc\n",
        );
        check(
            "if x:\n    a\nelif y:\n    b\nelse:\n    c\n",
            &["b"],
            "if x:\n    a\nelif y:\n    pass\nelse:\n    c\n",
        );
        check(
            "if x:\n    a\nelif y:\n    b\nelse:\n    c\n",
            &["b", "c"],
            "if x:\n    a\n",
        );
        check(
            "if x:\n    a\nelif f():\n    b\nelse: c\n",
            &["b", "c"],
            "if x:\n    a\nelif f():\n    pass\n",
        );
        check(
            "for x in y:\n    a\nelse:\n    b\n",
            &["b"],
            "for x in y:\n    a\n",
        );
        check("while x: a\nelse: b\nc\n", &["b"], "while x: a\nc\n");
        check(
            "while x: a\nelse: b\nc\n",
            &["a", "b"],
            "while x: pass\nc\n",
        );
        check(
            "try:\n    a\nexcept E:\n    b\nelse:\n    c\nfinally:\n    d\n",
            &["b", "c", "d"],
            "try:\n    a\nexcept E:\n    pass\n",
        );
        check(
            "try:\n    a\nfinally:\n    d\n",
            &["d"],
            "try:\n    a\nfinally:\n    pass\n",
        );
        check(
            "try:\n    a\nexcept* E as e:\n    b\nelse:\n    c\n",
            &["a", "c"],
            "try:\n    pass\nexcept* E as e:\n    b\n",
        );
        check(
            "if a:\n    x\n    # in a\nelse:  # not\n    y\n    # in else\nz\n",
            &["y"],
            "if a:\n    x\n    # in a\nz\n",
        );
        check(
            "match x:\n    case 1:\n        a\n    case _: b\n",
            &["a", "b"],
            "match x:\n    case 1:\n        pass\n    case _: pass\n",
        );
    }

    #[test]
    fn a_statement_inside_a_deleted_one_adds_nothing() {
        check("if x:\n    a\nb\n", &["a", "if"], "b\n");
        check(
            "from __future__ import annotations\nimport a\nf'{a}' f\"b\"\n",
            &["import a"],
            "from __future__ import annotations\nf'{a}' f\"b\"\n",
        );
    }

    #[test]
    fn kept_statements_are_all_that_is_left() {
        let text = "if a:\n  b\nelse:\n  c\n";
        let program = Program::parse(&SourceTree::from_texts([("a.py", text)])).expect("small");
        let doomed = StmtSet::from_iter([StmtId(2)]);
        let after = program
            .tree()
            .with_edits(&program.delete(&doomed))
            .expect("fits");
        let kinds: Vec<_> = Program::parse(&after)
            .expect("small")
            .statements()
            .iter()
            .map(|s| s.kind)
            .collect();
        assert_eq!(kinds, [StmtKind::If, StmtKind::Expr]);
    }
}
