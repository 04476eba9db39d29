//! Which functions and classes the text that is left can still reach.
//!
//! Invariant: a function is out of reach only if no reachable statement outside it reads its name, as a name or as an
//! attribute, and nothing decorates it. Must not be asked about programs that look names up by their text.

use std::collections::BTreeSet;

use super::super::names::{Names, ScopeKind};
use super::super::python::visitor::{self, Visitor};
use super::super::python::{Expr, Stmt};
use super::super::{Program, StmtId, StmtKind};
use super::sure::header;

/// What each statement's own text names.
#[derive(Debug)]
pub(super) struct Mentions {
    of: Vec<BTreeSet<String>>,
}

impl Mentions {
    /// Collects them.
    pub(super) fn of(program: &Program) -> Self {
        let of = program.statements().iter().map(|one| program.node(one.id).map(mentioned).unwrap_or_default());
        Self { of: of.collect() }
    }

    /// The names of functions and classes whose text leads to the failure.
    pub(super) fn leading(&self, program: &Program, crash: &[StmtId]) -> BTreeSet<String> {
        let defs =
            program.statements().iter().filter(|one| matches!(one.kind, StmtKind::FunctionDef | StmtKind::ClassDef));
        let defs: Vec<_> = defs.collect();
        let mut leads: BTreeSet<String> = BTreeSet::new();
        loop {
            let before = leads.len();
            for def in &defs {
                let holds = crash.iter().any(|id| def.contains(*id));
                let inside = program.statements().iter().filter(|one| def.contains(one.id));
                if holds || inside.into_iter().any(|one| !self.of[one.id.index()].is_disjoint(&leads)) {
                    match program.node(def.id) {
                        Some(Stmt::FunctionDef(node)) => leads.insert(node.name.to_string()),
                        Some(Stmt::ClassDef(node)) => leads.insert(node.name.to_string()),
                        _ => false,
                    };
                }
            }
            if leads.len() == before {
                return leads;
            }
        }
    }

    /// Whether a statement, or one in it, names one of these.
    pub(super) fn names_any(&self, program: &Program, id: StmtId, words: &BTreeSet<String>) -> bool {
        let own = program.statement(id);
        program.statements().iter().any(|one| own.contains(one.id) && !self.of[one.id.index()].is_disjoint(words))
    }

    /// The functions and classes that can be reached without `gone`.
    pub(super) fn reached(&self, program: &Program, names: &Names, gone: &BTreeSet<StmtId>) -> BTreeSet<StmtId> {
        let defs: Vec<StmtId> = program
            .statements()
            .iter()
            .filter(|one| matches!(one.kind, StmtKind::FunctionDef | StmtKind::ClassDef) && !gone.contains(&one.id))
            .map(|one| one.id)
            .collect();
        let mut reached = BTreeSet::new();
        loop {
            let before = reached.len();
            for &def in &defs {
                if !reached.contains(&def) && self.is_reached(program, names, gone, &reached, def) {
                    reached.insert(def);
                }
            }
            if reached.len() == before {
                return reached;
            }
        }
    }

    fn is_reached(
        &self,
        program: &Program,
        names: &Names,
        gone: &BTreeSet<StmtId>,
        reached: &BTreeSet<StmtId>,
        def: StmtId,
    ) -> bool {
        if !is_live(program, reached, def) {
            return false;
        }
        let (name, is_decorated) = match program.node(def) {
            Some(Stmt::FunctionDef(node)) => (node.name.as_str(), !node.decorator_list.is_empty()),
            Some(Stmt::ClassDef(node)) => {
                let keywords = node.arguments.iter().any(|arguments| !arguments.keywords.is_empty());
                (node.name.as_str(), keywords || !node.decorator_list.is_empty())
            }
            _ => return true,
        };
        if is_decorated || names.scopes[names.scope_of(def)].kind == ScopeKind::Class {
            return true;
        }
        let body = program.statement(def);
        program.statements().iter().any(|one| {
            !gone.contains(&one.id)
                && one.id != def
                && !body.contains(one.id)
                && self.of[one.id.index()].contains(name)
                && is_live(program, reached, one.id)
        })
    }
}

/// Whether all functions and classes around a statement are among those that are reached.
pub(super) fn is_live(program: &Program, reached: &BTreeSet<StmtId>, id: StmtId) -> bool {
    let mut around = program
        .ancestors(id)
        .filter(|up| matches!(program.statement(*up).kind, StmtKind::FunctionDef | StmtKind::ClassDef));
    around.all(|up| reached.contains(&up))
}

fn mentioned(node: &Stmt) -> BTreeSet<String> {
    struct Found(BTreeSet<String>);
    impl<'a> Visitor<'a> for Found {
        fn visit_expr(&mut self, expression: &'a Expr) {
            match expression {
                Expr::Name(name) => {
                    self.0.insert(name.id.to_string());
                }
                Expr::Attribute(attribute) => {
                    self.0.insert(attribute.attr.to_string());
                }
                _ => {}
            }
            visitor::walk_expr(self, expression);
        }
    }
    let mut found = Found(BTreeSet::new());
    header(node).into_iter().for_each(|expression| found.visit_expr(expression));
    if let Stmt::ImportFrom(import) = node {
        let renamed = import.names.iter().filter(|alias| alias.asname.is_some());
        found.0.extend(renamed.map(|alias| alias.name.to_string()));
    }
    found.0
}
