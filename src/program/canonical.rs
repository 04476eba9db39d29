//! The canonical form of a program: what is left of it when spelling that does not matter is taken away.
//!
//! Owns which spelling that is: layout, comments, doc strings, how a literal is written, and names that only the program
//! itself can see. Invariant: two texts of one canonical form do the same; where that is not sure they differ.
//! Must not compare files or read them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use super::certain::is_builtin;
use super::python::ast::comparable::ComparableStmt;
use super::python::ast::visitor::transformer::{self, Transformer};
use super::python::ast::{
    Alias, ExceptHandler, Expr, ExprContext, Identifier, InterpolatedStringElement, Keyword, Parameter, Pattern, Stmt,
    StringLiteral, TypeParam,
};
use super::python::{Module, ast};

/// Whether names of the program may be renamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// The file is the whole program: a name that stands for nothing outside of it does not matter.
    Own,
    /// Other files may use its names.
    Shared,
}

/// Functions with which a program looks at its own names.
const LOOKS_AT_NAMES: [&str; 8] = ["dir", "eval", "exec", "getattr", "globals", "inspect", "locals", "vars"];

/// The canonical form of a file; `None` where it is no Python.
pub fn canonical(text: &str, naming: Naming) -> Option<String> {
    let mut body: ast::Suite = Module::parse(text).ok()?.body().iter().cloned().collect();
    let collect = Collect::default();
    collect.visit_body(&mut body);
    if !collect.reads_doc.get() {
        drop_texts(&mut body);
        Strip.visit_body(&mut body);
    }
    if naming == Naming::Own && !collect.looks_at_names.get() {
        // Again, since a doc string that is gone names nothing.
        let again = Collect::default();
        again.visit_body(&mut body);
        let (bound, kept) = (again.bound.into_inner(), again.kept.into_inner());
        let own = bound.difference(&kept).filter(|name| !is_builtin(name)).cloned().collect();
        Rename { own, numbers: RefCell::default() }.visit_body(&mut body);
    }
    let forms: Vec<String> = body.iter().map(|statement| format!("{:?}", ComparableStmt::from(statement))).collect();
    Some(forms.join("\n"))
}

/// Takes statements that do nothing out of a body, but never the last one.
fn drop_texts(body: &mut ast::Suite) {
    let idle = |statement: &Stmt| match statement {
        Stmt::Pass(_) => true,
        Stmt::Expr(expression) => matches!(*expression.value, Expr::StringLiteral(_)),
        _ => false,
    };
    if body.iter().all(idle) {
        body.truncate(1);
        if let Some(Stmt::Expr(text)) = body.first() {
            body[0] = Stmt::Pass(ast::StmtPass { range: text.range, node_index: ast::AtomicNodeIndex::NONE });
        }
    } else {
        body.retain(|statement| !idle(statement));
    }
}

/// Drops the doc strings of functions and classes.
struct Strip;

impl Transformer for Strip {
    fn visit_stmt(&self, statement: &mut Stmt) {
        match statement {
            Stmt::FunctionDef(function) => drop_texts(&mut function.body),
            Stmt::ClassDef(class) => drop_texts(&mut class.body),
            _ => {}
        }
        transformer::walk_stmt(self, statement);
    }
}

/// Which names the program binds, and which of them something outside may see.
#[derive(Default)]
struct Collect {
    bound: RefCell<BTreeSet<String>>,
    kept: RefCell<BTreeSet<String>>,
    in_class: Cell<usize>,
    looks_at_names: Cell<bool>,
    reads_doc: Cell<bool>,
}

impl Collect {
    fn binds(&self, name: &str) {
        self.bound.borrow_mut().insert(name.to_owned());
        // Frameworks look for methods and attributes by name.
        if self.in_class.get() > 0 || name.starts_with("__") {
            self.keeps(name);
        }
    }

    fn keeps(&self, name: &str) {
        self.kept.borrow_mut().insert(name.to_owned());
        if name == "__doc__" {
            self.reads_doc.set(true);
        }
    }

    fn keeps_words(&self, text: &str) {
        text.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
            .filter(|word| !word.is_empty())
            .for_each(|word| self.keeps(word));
    }

    fn outside_class(&self, walk: impl FnOnce()) {
        let before = self.in_class.replace(0);
        walk();
        self.in_class.set(before);
    }
}

impl Transformer for Collect {
    fn visit_stmt(&self, statement: &mut Stmt) {
        match statement {
            Stmt::FunctionDef(function) => {
                self.binds(&function.name);
                self.outside_class(|| transformer::walk_stmt(self, statement));
            }
            Stmt::ClassDef(class) => {
                self.binds(&class.name);
                let before = self.in_class.replace(1);
                transformer::walk_stmt(self, statement);
                self.in_class.set(before);
            }
            Stmt::ImportFrom(import) => {
                // `import *` may bring any name.
                if import.names.iter().any(|alias| alias.name.as_str() == "*") {
                    self.looks_at_names.set(true);
                }
                transformer::walk_stmt(self, statement);
            }
            _ => transformer::walk_stmt(self, statement),
        }
    }

    fn visit_expr(&self, expression: &mut Expr) {
        match expression {
            Expr::Name(name) => {
                if name.ctx != ExprContext::Load {
                    self.binds(&name.id);
                }
                if LOOKS_AT_NAMES.contains(&name.id.as_str()) {
                    self.looks_at_names.set(true);
                }
                if name.id == "__doc__" {
                    self.reads_doc.set(true);
                }
            }
            Expr::Attribute(attribute) => self.keeps(&attribute.attr),
            _ => {}
        }
        transformer::walk_expr(self, expression);
    }

    fn visit_keyword(&self, keyword: &mut Keyword) {
        match &keyword.arg {
            Some(name) => self.keeps(name),
            // `f(**options)`: any parameter may be meant.
            None => self.looks_at_names.set(true),
        }
        transformer::walk_keyword(self, keyword);
    }

    fn visit_parameter(&self, parameter: &mut Parameter) {
        self.binds(&parameter.name);
        transformer::walk_parameter(self, parameter);
    }

    fn visit_alias(&self, alias: &mut Alias) {
        match &alias.asname {
            Some(name) => self.binds(name),
            // What is bound is a name of somebody else.
            None => self.keeps_words(&alias.name),
        }
    }

    fn visit_except_handler(&self, handler: &mut ExceptHandler) {
        let ExceptHandler::ExceptHandler(inner) = &*handler;
        if let Some(name) = &inner.name {
            self.binds(name);
        }
        transformer::walk_except_handler(self, handler);
    }

    fn visit_pattern(&self, pattern: &mut Pattern) {
        // Captures and keywords of patterns are kept: they are rare, and the same text is not read in two ways.
        self.looks_at_names.set(true);
        transformer::walk_pattern(self, pattern);
    }

    fn visit_type_param(&self, parameter: &mut TypeParam) {
        self.looks_at_names.set(true);
        transformer::walk_type_param(self, parameter);
    }

    fn visit_interpolated_string_element(&self, element: &mut InterpolatedStringElement) {
        match element {
            InterpolatedStringElement::Literal(literal) => self.keeps_words(&literal.value),
            // `f"{name=}"` prints the name.
            InterpolatedStringElement::Interpolation(inner) if inner.debug_text.is_some() => {
                self.looks_at_names.set(true);
            }
            InterpolatedStringElement::Interpolation(_) => {}
        }
        transformer::walk_interpolated_string_element(self, element);
    }

    fn visit_string_literal(&self, literal: &mut StringLiteral) {
        self.keeps_words(&literal.value);
    }
}

/// Gives own names numbers in the order in which they stand.
struct Rename {
    own: BTreeSet<String>,
    numbers: RefCell<BTreeMap<String, usize>>,
}

impl Rename {
    fn number(&self, name: &str) -> Option<String> {
        if !self.own.contains(name) {
            return None;
        }
        let mut numbers = self.numbers.borrow_mut();
        let next = numbers.len();
        let number = *numbers.entry(name.to_owned()).or_insert(next);
        // No name of Python begins with a dollar.
        Some(format!("${number}"))
    }

    fn rename(&self, identifier: &mut Identifier) {
        if let Some(number) = self.number(&identifier.id) {
            identifier.id = number.into();
        }
    }
}

impl Transformer for Rename {
    fn visit_stmt(&self, statement: &mut Stmt) {
        match statement {
            Stmt::FunctionDef(function) => self.rename(&mut function.name),
            Stmt::ClassDef(class) => self.rename(&mut class.name),
            Stmt::Global(global) => global.names.iter_mut().for_each(|name| self.rename(name)),
            Stmt::Nonlocal(nonlocal) => nonlocal.names.iter_mut().for_each(|name| self.rename(name)),
            _ => {}
        }
        transformer::walk_stmt(self, statement);
    }

    fn visit_expr(&self, expression: &mut Expr) {
        if let Expr::Name(name) = expression
            && let Some(number) = self.number(&name.id)
        {
            name.id = number.into();
        }
        transformer::walk_expr(self, expression);
    }

    fn visit_parameter(&self, parameter: &mut Parameter) {
        self.rename(&mut parameter.name);
        transformer::walk_parameter(self, parameter);
    }

    fn visit_alias(&self, alias: &mut Alias) {
        if let Some(name) = &mut alias.asname {
            self.rename(name);
        }
    }

    fn visit_except_handler(&self, handler: &mut ExceptHandler) {
        let ExceptHandler::ExceptHandler(inner) = handler;
        if let Some(name) = &mut inner.name {
            self.rename(name);
        }
        transformer::walk_except_handler(self, handler);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(one: &str, two: &str) -> bool {
        let form = |text: &str| canonical(text, Naming::Own).unwrap();
        form(one) == form(two)
    }

    #[test]
    fn names_layout_comments_and_literal_spelling_do_not_matter() {
        assert!(same("import torch\nx = 16\nprint(x)", "import torch  # a comment\nlabel = (0x1_0); print( label )"));
        assert!(same("import torch.nn as nn\nnn.Linear(1, 2)", "import torch.nn as layers\nlayers.Linear(1,\n  2)"));
        assert!(same("x = 'a' 'b'\nf(x, 1.50)", "y = \"ab\"\nf(y, 15e-1)"));
        assert!(same("def f(a):\n    \"\"\"Says.\"\"\"\n    return a\nf(1)", "'x'\ndef g(b):\n    return b\ng(1)"));
        assert!(same(
            "try:\n    f()\nexcept E as e:\n    print(e)",
            "try:\n    f()\nexcept E as error:\n    print(error)"
        ));
        assert!(same("g(*[i for i in range(3)])", "g(*[n for n in range(3)])"));
    }

    #[test]
    fn what_the_program_does_matters() {
        assert!(!same("x = 1\nprint(x)", "x = 2\nprint(x)"));
        assert!(!same("x = 1\ny = 2\nprint(x)", "x = 1\ny = 2\nprint(y)"));
        assert!(!same("x = 1\nprint(x)", "x = 1.0\nprint(x)"));
        assert!(!same("import torch\ntorch.zeros(1)", "import torch\ntorch.ones(1)"));
        assert!(!same("print('a')", "print(b'a')"));
    }

    #[test]
    fn a_name_that_something_else_may_see_matters() {
        assert!(!same("def f(x, y): pass\nf(x=1, y=2)", "def f(y, x): pass\nf(x=1, y=2)"));
        assert!(!same("class M(B):\n    def forward(self): pass", "class M(B):\n    def backward(self): pass"));
        assert!(!same("a = 1\nprint(globals())", "b = 1\nprint(globals())"));
        assert!(!same("a = 1\nprint(f'{a=}')", "b = 1\nprint(f'{b=}')"));
        assert!(!same("def a(): pass\n__all__ = ['a']", "def b(): pass\n__all__ = ['a']"));
        assert!(!same("print(input); input = 1", "print(other); other = 1"));
        assert!(!same("x.a = 1\na = 2", "x.a = 1\nb = 2"));
        assert!(!same("from m import *\na = 1\nf()", "from m import *\nb = 1\nf()"));
    }

    #[test]
    fn a_class_that_reads_its_doc_string_keeps_it() {
        assert!(!same("def f():\n    'a'\nprint(f.__doc__)", "def f():\n    'b'\nprint(f.__doc__)"));
    }

    #[test]
    fn names_of_a_file_among_others_stay() {
        let form = |text: &str| canonical(text, Naming::Shared).unwrap();
        assert_ne!(form("a = 1"), form("b = 1"));
        assert_eq!(form("a = 1  # one"), form("a = 0x1"));
        assert_eq!(canonical("a = = 1", Naming::Shared), None);
    }
}
