//! What the text that is left calls, mentions, sets and hands back.
//!
//! Invariant: it lists all of it; a name that the text does not show is marked as such. Must not follow names.

use std::collections::{BTreeMap, BTreeSet};

use super::super::names::{Names, ScopeId};
use super::super::python::visitor::{self, Visitor};
use super::super::python::{Expr, ExprContext, Stmt, ast};
use super::super::{Program, StmtId, StmtKind};
use super::sure::{header, names_in};

/// A call in the text that is left, with the names that comprehensions and lambdas around it bind.
pub(super) struct Call<'p> {
    pub(super) at: StmtId,
    pub(super) call: &'p ast::ExprCall,
    pub(super) hidden: Vec<String>,
}

/// The text that is left.
#[derive(Default)]
pub(super) struct Left<'p> {
    pub(super) calls: Vec<Call<'p>>,
    /// How often a name is read, or an attribute of that name.
    pub(super) mentions: BTreeMap<&'p str, usize>,
    /// Attributes that are set, and those that are set on something else than a method's own object.
    pub(super) stores: BTreeMap<&'p str, Vec<StmtId>>,
    pub(super) foreign: BTreeSet<&'p str>,
    pub(super) returns: BTreeMap<ScopeId, Vec<StmtId>>,
    pub(super) yields: BTreeSet<ScopeId>,
    /// Names that an import gives another name.
    pub(super) renamed: BTreeSet<&'p str>,
    /// A buffer or module is registered under a name that the text does not show.
    pub(super) is_open: bool,
}

/// The last name of a chain: of a function that is called, its own.
pub(super) fn terminal(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Name(name) => Some(name.id.as_str()),
        Expr::Attribute(attribute) => Some(attribute.attr.as_str()),
        _ => None,
    }
}

impl<'p> Left<'p> {
    pub(super) fn of(program: &'p Program, names: &Names, gone: &BTreeSet<StmtId>) -> Self {
        let mut left = Left::default();
        for statement in program.statements().iter().filter(|one| !gone.contains(&one.id)) {
            let id = statement.id;
            let Some(node) = program.node(id) else { continue };
            let own = names.receiver(id).map(|(_, own)| own);
            if statement.kind == StmtKind::Return {
                left.returns.entry(names.scope_of(id)).or_default().push(id);
            }
            if names.facts(id).yields {
                left.yields.insert(names.scope_of(id));
            }
            if let Stmt::ImportFrom(import) = node {
                let renamed = import.names.iter().filter(|alias| alias.asname.is_some());
                left.renamed.extend(renamed.map(|alias| alias.name.as_str()));
            }
            let mut gather = Gather { left: &mut left, at: id, own, hidden: Vec::new() };
            header(node).into_iter().for_each(|expression| gather.visit_expr(expression));
        }
        left
    }
}

struct Gather<'l, 'p, 'n> {
    left: &'l mut Left<'p>,
    at: StmtId,
    own: Option<&'n str>,
    hidden: Vec<String>,
}

impl<'p> Visitor<'p> for Gather<'_, 'p, '_> {
    fn visit_expr(&mut self, expression: &'p Expr) {
        let before = self.hidden.len();
        match expression {
            Expr::Name(name) if name.ctx == ExprContext::Load => {
                *self.left.mentions.entry(name.id.as_str()).or_default() += 1;
            }
            Expr::Attribute(attribute) => {
                let name = attribute.attr.as_str();
                if attribute.ctx == ExprContext::Load {
                    *self.left.mentions.entry(name).or_default() += 1;
                } else {
                    self.left.stores.entry(name).or_default().push(self.at);
                    let is_own = attribute.value.as_name_expr().is_some_and(|base| Some(base.id.as_str()) == self.own);
                    if !is_own {
                        self.left.foreign.insert(name);
                    }
                }
            }
            Expr::Call(call) => {
                self.left.calls.push(Call { at: self.at, call, hidden: self.hidden.clone() });
                let registers = ["register_buffer", "register_parameter", "register_module", "add_module"];
                if terminal(&call.func).is_some_and(|name| registers.contains(&name)) {
                    match call.arguments.args.first() {
                        Some(Expr::StringLiteral(name)) => {
                            self.left.stores.entry(name.value.to_str()).or_default().push(self.at);
                        }
                        _ => self.left.is_open = true,
                    }
                }
            }
            Expr::ListComp(node) => self.hidden.extend(targets(&node.generators)),
            Expr::SetComp(node) => self.hidden.extend(targets(&node.generators)),
            Expr::DictComp(node) => self.hidden.extend(targets(&node.generators)),
            Expr::Generator(node) => self.hidden.extend(targets(&node.generators)),
            Expr::Lambda(node) => {
                let parameters = node.parameters.iter().flat_map(|parameters| parameters.iter());
                self.hidden.extend(parameters.map(|parameter| parameter.name().to_string()));
            }
            _ => {}
        }
        visitor::walk_expr(self, expression);
        self.hidden.truncate(before);
    }
}

fn targets(generators: &[ast::Comprehension]) -> Vec<String> {
    generators.iter().flat_map(|generator| names_in(&generator.target)).collect()
}
