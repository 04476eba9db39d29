//! What a statement, once it runs, is sure to evaluate, in the order in which Python does so.
//!
//! Invariant: an event is listed only if its operation is attempted each time the statement runs (no lambda's body, no second
//! operand of `and`, no annotation), and, on the stack of the failure, before the call that led there. Must not know names.

use super::super::python::visitor::{self, Visitor};
use super::super::python::{Expr, Stmt, ast};

/// What is done with an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// It is evaluated.
    Value,
    /// It is iterated over.
    Iterate,
    /// It is taken apart into several targets.
    Unpack,
    /// It is entered as a context.
    Enter,
    /// It is read and changed by an operator: `x += 1`.
    Change,
}

/// One sure event, with the names that a comprehension around it binds.
#[derive(Clone, Debug)]
pub(super) struct Event<'a> {
    pub(super) act: Act,
    pub(super) expression: &'a Expr,
    pub(super) hidden: Vec<String>,
}

/// Answers about expressions.
pub(super) type Judge<'f> = &'f dyn Fn(&Expr) -> bool;

/// The walk; `ends` tells after which expression nothing more is sure, `element` whether a comprehension has an element.
pub(super) struct Sure<'a, 'f> {
    pub(super) events: Vec<Event<'a>>,
    ends: Judge<'f>,
    element: Judge<'f>,
    hidden: Vec<String>,
    over: bool,
}

/// The sure events of a statement.
pub(super) fn events<'a>(node: &'a Stmt, ends: Judge<'_>, element: Judge<'_>) -> Vec<Event<'a>> {
    let mut sure = Sure { events: Vec::new(), ends, element, hidden: Vec::new(), over: false };
    sure.statement(node);
    sure.events
}

impl<'a> Sure<'a, '_> {
    fn statement(&mut self, node: &'a Stmt) {
        match node {
            Stmt::Expr(node) => self.visit_expr(&node.value),
            Stmt::Assign(node) => {
                self.visit_expr(&node.value);
                for target in &node.targets {
                    if target.is_tuple_expr() || target.is_list_expr() {
                        self.push(Act::Unpack, &node.value);
                    }
                    self.visit_expr(target);
                }
            }
            Stmt::AugAssign(node) => {
                if node.target.is_name_expr() {
                    self.push(Act::Change, &node.target);
                } else {
                    self.visit_expr(&node.target);
                }
                self.visit_expr(&node.value);
            }
            Stmt::AnnAssign(node) => {
                if let Some(value) = &node.value {
                    self.visit_expr(value);
                    self.visit_expr(&node.target);
                }
            }
            Stmt::Return(node) => node.value.iter().for_each(|value| self.visit_expr(value)),
            Stmt::For(node) => {
                self.visit_expr(&node.iter);
                self.push(Act::Iterate, &node.iter);
            }
            Stmt::If(node) => self.visit_expr(&node.test),
            Stmt::While(node) => self.visit_expr(&node.test),
            Stmt::With(node) => {
                for item in &node.items {
                    self.visit_expr(&item.context_expr);
                    self.push(Act::Enter, &item.context_expr);
                }
            }
            Stmt::Assert(node) => self.visit_expr(&node.test),
            Stmt::Raise(node) => node.exc.iter().for_each(|value| self.visit_expr(value)),
            Stmt::FunctionDef(node) => {
                node.decorator_list.iter().for_each(|one| self.visit_expr(&one.expression));
                for parameter in node.parameters.iter_non_variadic_params() {
                    parameter.default.iter().for_each(|value| self.visit_expr(value));
                }
            }
            Stmt::ClassDef(node) => {
                node.decorator_list.iter().for_each(|one| self.visit_expr(&one.expression));
                if let Some(arguments) = &node.arguments {
                    arguments.args.iter().for_each(|base| self.visit_expr(base));
                    arguments.keywords.iter().for_each(|keyword| self.visit_expr(&keyword.value));
                }
            }
            _ => {}
        }
    }

    fn push(&mut self, act: Act, expression: &'a Expr) {
        if !self.over {
            self.events.push(Event { act, expression, hidden: self.hidden.clone() });
        }
    }

    /// The first iterable of a comprehension is sure to be evaluated; the element where it is known that there is one.
    fn comprehension(&mut self, whole: &'a Expr, generators: &'a [ast::Comprehension], elements: &[&'a Expr]) {
        let Some(first) = generators.first() else { return };
        self.visit_expr(&first.iter);
        if whole.is_generator_expr() {
            return;
        }
        self.push(Act::Iterate, &first.iter);
        let sure = elements.iter().any(|element| (self.element)(element));
        if sure && generators.len() == 1 && first.ifs.is_empty() {
            let before = self.hidden.len();
            self.hidden.extend(names_in(&first.target));
            elements.iter().for_each(|element| self.visit_expr(element));
            self.hidden.truncate(before);
        }
    }

    fn done(&mut self, expression: &'a Expr) {
        self.push(Act::Value, expression);
        self.over |= (self.ends)(expression);
    }
}

impl<'a> Visitor<'a> for Sure<'a, '_> {
    fn visit_expr(&mut self, expression: &'a Expr) {
        if self.over {
            return;
        }
        match expression {
            Expr::Lambda(node) => {
                for parameter in node.parameters.iter().flat_map(|parameters| parameters.iter_non_variadic_params()) {
                    parameter.default.iter().for_each(|value| self.visit_expr(value));
                }
                return;
            }
            Expr::If(node) => {
                self.visit_expr(&node.test);
                // Which of the two is evaluated is open, so it is whether one of them ends it.
                self.over |= ends_inside(expression, self.ends);
                return;
            }
            Expr::BoolOp(node) => {
                node.values.iter().take(1).for_each(|value| self.visit_expr(value));
                self.over |= ends_inside(expression, self.ends);
                return;
            }
            Expr::Compare(node) => {
                self.visit_expr(&node.left);
                node.comparators.iter().take(1).for_each(|value| self.visit_expr(value));
                self.over |= node.comparators.len() > 1 && ends_inside(expression, self.ends);
            }
            Expr::ListComp(node) => {
                self.comprehension(expression, &node.generators, &[&*node.elt]);
                self.over |= ends_inside(expression, self.ends);
            }
            Expr::SetComp(node) => {
                self.comprehension(expression, &node.generators, &[&*node.elt]);
                self.over |= ends_inside(expression, self.ends);
            }
            Expr::DictComp(node) => {
                self.comprehension(expression, &node.generators, &[]);
                self.over |= ends_inside(expression, self.ends);
            }
            Expr::Generator(node) => {
                self.comprehension(expression, &node.generators, &[]);
                self.over |= ends_inside(expression, self.ends);
            }
            // What comes after it runs only if the caller goes on.
            Expr::Yield(_) | Expr::YieldFrom(_) | Expr::Await(_) => {
                visitor::walk_expr(self, expression);
                self.over = true;
            }
            _ => visitor::walk_expr(self, expression),
        }
        self.done(expression);
    }

    fn visit_annotation(&mut self, _: &'a Expr) {}
}

/// Whether an expression or a part of it, sure or not, is one that ends it.
fn ends_inside(expression: &Expr, ends: Judge<'_>) -> bool {
    struct Any<'f> {
        ends: Judge<'f>,
        found: bool,
    }
    impl<'a> Visitor<'a> for Any<'_> {
        fn visit_expr(&mut self, expression: &'a Expr) {
            self.found |= (self.ends)(expression);
            visitor::walk_expr(self, expression);
        }
    }
    let mut any = Any { ends, found: false };
    any.visit_expr(expression);
    any.found
}

/// The names in a target.
pub(super) fn names_in(target: &Expr) -> Vec<String> {
    struct Found(Vec<String>);
    impl<'a> Visitor<'a> for Found {
        fn visit_expr(&mut self, expression: &'a Expr) {
            if let Expr::Name(name) = expression {
                self.0.push(name.id.to_string());
            }
            visitor::walk_expr(self, expression);
        }
    }
    let mut found = Found(Vec::new());
    found.visit_expr(target);
    found.0
}

/// Whether a walrus inside an expression binds the name.
pub(super) fn binds_inside(expression: &Expr, name: &str) -> bool {
    struct Named<'n>(&'n str, bool);
    impl<'a> Visitor<'a> for Named<'_> {
        fn visit_expr(&mut self, expression: &'a Expr) {
            if let Expr::Named(named) = expression {
                self.1 |= named.target.as_name_expr().is_some_and(|target| target.id.as_str() == self.0);
            }
            visitor::walk_expr(self, expression);
        }
    }
    let mut named = Named(name, false);
    named.visit_expr(expression);
    named.1
}

/// The expressions of a statement's own header, annotations included.
pub(super) fn header(node: &Stmt) -> Vec<&Expr> {
    let mut found: Vec<&Expr> = Vec::new();
    match node {
        Stmt::Expr(node) => found.push(&node.value),
        Stmt::Assign(node) => {
            found.push(&node.value);
            found.extend(&node.targets);
        }
        Stmt::AugAssign(node) => found.extend([&*node.target, &*node.value]),
        Stmt::AnnAssign(node) => {
            found.extend(node.value.as_deref());
            found.extend([&*node.target, &*node.annotation]);
        }
        Stmt::Return(node) => found.extend(node.value.as_deref()),
        Stmt::For(node) => found.extend([&*node.iter, &*node.target]),
        Stmt::If(node) => {
            found.push(&node.test);
            found.extend(node.elif_else_clauses.iter().filter_map(|clause| clause.test.as_ref()));
        }
        Stmt::While(node) => found.push(&node.test),
        Stmt::With(node) => {
            for item in &node.items {
                found.push(&item.context_expr);
                found.extend(item.optional_vars.as_deref());
            }
        }
        Stmt::Match(node) => found.push(&node.subject),
        Stmt::Assert(node) => {
            found.push(&node.test);
            found.extend(node.msg.as_deref());
        }
        Stmt::Raise(node) => {
            found.extend(node.exc.as_deref());
            found.extend(node.cause.as_deref());
        }
        Stmt::Delete(node) => found.extend(&node.targets),
        Stmt::FunctionDef(node) => {
            found.extend(node.decorator_list.iter().map(|one| &one.expression));
            for parameter in node.parameters.iter_non_variadic_params() {
                found.extend(parameter.default.as_deref());
            }
            found.extend(node.parameters.iter().filter_map(|parameter| parameter.annotation()));
            found.extend(node.returns.as_deref());
        }
        Stmt::ClassDef(node) => {
            found.extend(node.decorator_list.iter().map(|one| &one.expression));
            if let Some(arguments) = &node.arguments {
                found.extend(&arguments.args);
                found.extend(arguments.keywords.iter().map(|keyword| &keyword.value));
            }
        }
        _ => {}
    }
    found
}
