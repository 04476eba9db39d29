//! What an expression surely is once some statements are gone.
//!
//! Invariant: over all bindings that are left and all calls that the text shows, in any order; `Unknown` wherever two answers
//! differ or the text does not show all. Must not rely on what was executed.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use super::super::modules;
use super::super::names::{Names, ScopeId, ScopeKind, arguments};
use super::super::python::{Expr, Stmt, ast};
use super::super::{FileId, Program, StmtId, StmtKind};
use super::left::{Call, Left, terminal};
use super::library;
use super::sure::{binds_inside, names_in};

/// What an expression is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing gives it a value.
    Bottom,
    Unknown,
    None,
    Instance(StmtId),
    Class(StmtId),
    Function(StmtId),
    /// A module, function or class of the library, or a builtin.
    Library(String),
    /// What a call of the library gives.
    Made(String),
    /// A loader of a data set, without a sampler or a function of its own.
    Loader(Box<Kind>),
    /// What `parse_args` of a parser gives.
    Options,
    Tuple(Vec<Kind>),
    Module(FileId),
}

impl Kind {
    fn join(self, other: Kind) -> Kind {
        match (self, other) {
            (Kind::Bottom, other) | (other, Kind::Bottom) => other,
            (one, other) if one == other => one,
            _ => Kind::Unknown,
        }
    }
}

/// Where an expression stands.
#[derive(Clone, Copy)]
pub(super) struct At<'s> {
    pub(super) statement: StmtId,
    pub(super) hidden: &'s [String],
}

/// Answers about the program without `gone`.
pub(super) struct Kinds<'p> {
    pub(super) program: &'p Program,
    pub(super) names: &'p Names,
    pub(super) gone: &'p BTreeSet<StmtId>,
    /// Functions that were on the stack at the failure: a call of them need not have come back.
    pub(super) stack: &'p BTreeSet<StmtId>,
    pub(super) left: Left<'p>,
    open: RefCell<Vec<(StmtId, String)>>,
    budget: Cell<u32>,
}

const FUEL: u32 = 24;
const BUDGET: u32 = 400;

impl<'p> Kinds<'p> {
    pub(super) fn new(
        program: &'p Program,
        names: &'p Names,
        gone: &'p BTreeSet<StmtId>,
        stack: &'p BTreeSet<StmtId>,
    ) -> Self {
        let left = Left::of(program, names, gone);
        Self { program, names, gone, stack, left, open: RefCell::default(), budget: Cell::new(0) }
    }

    /// What an expression is.
    pub(super) fn of(&self, at: At<'_>, expression: &Expr) -> Kind {
        self.budget.set(BUDGET);
        match self.expression(at, expression, FUEL) {
            Kind::Bottom => Kind::Unknown,
            kind => kind,
        }
    }

    fn expression(&self, at: At<'_>, expression: &Expr, fuel: u32) -> Kind {
        let Some(fuel) = fuel.checked_sub(1) else { return Kind::Unknown };
        let Some(budget) = self.budget.get().checked_sub(1) else { return Kind::Unknown };
        self.budget.set(budget);
        match expression {
            Expr::NoneLiteral(_) => Kind::None,
            Expr::Name(name) if at.hidden.iter().any(|hidden| hidden == name.id.as_str()) => Kind::Unknown,
            Expr::Name(name) => self.name(at.statement, name.id.as_str(), fuel),
            Expr::Tuple(tuple) if tuple.elts.iter().all(|one| !one.is_starred_expr()) => {
                Kind::Tuple(tuple.elts.iter().map(|one| self.expression(at, one, fuel)).collect())
            }
            Expr::Attribute(attribute) => {
                let base = self.expression(at, &attribute.value, fuel);
                self.attribute(&base, attribute.attr.as_str(), fuel)
            }
            Expr::Call(call) => self.call(at, call, fuel),
            _ => Kind::Unknown,
        }
    }

    /// What a name is at a statement.
    fn name(&self, at: StmtId, name: &str, fuel: u32) -> Kind {
        match self.names.home_of_use(self.names.scope_of(at), name) {
            Some(home) => self.in_scope(home, name, fuel),
            None => Kind::Library(format!("builtins.{name}")),
        }
    }

    /// The bindings of a name that are left.
    pub(super) fn binders(&self, home: ScopeId, name: &str) -> Vec<StmtId> {
        let all = self.names.scopes[home].bound.get(name).into_iter().flatten();
        all.copied().filter(|binder| !self.gone.contains(binder)).collect()
    }

    fn in_scope(&self, home: ScopeId, name: &str, fuel: u32) -> Kind {
        let scope = &self.names.scopes[home];
        if scope.kind == ScopeKind::Class || scope.kind == ScopeKind::Module && self.left.foreign.contains(name) {
            return Kind::Unknown;
        }
        let binders = self.binders(home, name);
        // Text behind a read that has no binding left at all fails there; the name rule knows it.
        binders.into_iter().fold(Kind::Bottom, |kind, binder| kind.join(self.bound(home, binder, name, fuel)))
    }

    fn bound(&self, home: ScopeId, binder: StmtId, name: &str, fuel: u32) -> Kind {
        let key = (binder, name.to_owned());
        if self.open.borrow().contains(&key) {
            return Kind::Bottom;
        }
        self.open.borrow_mut().push(key);
        let kind = self.definition(home, binder, name, fuel);
        self.open.borrow_mut().pop();
        kind
    }

    fn definition(&self, home: ScopeId, binder: StmtId, name: &str, fuel: u32) -> Kind {
        let Some(fuel) = fuel.checked_sub(1) else { return Kind::Unknown };
        let at = At { statement: binder, hidden: &[] };
        let file = self.program.statement(binder).file;
        match self.program.node(binder) {
            Some(Stmt::FunctionDef(def)) if self.names.scope_in(binder) == Some(home) => {
                self.parameter(binder, def, name, fuel)
            }
            Some(Stmt::FunctionDef(_)) => Kind::Function(binder),
            Some(Stmt::ClassDef(_)) => Kind::Class(binder),
            Some(Stmt::Assign(assign)) if !binds_inside(&assign.value, name) => {
                assign.targets.iter().fold(Kind::Bottom, |kind, target| match target {
                    Expr::Name(target) if target.id.as_str() == name => {
                        kind.join(self.expression(at, &assign.value, fuel))
                    }
                    Expr::Tuple(targets) if names_in(target).iter().any(|target| target == name) => {
                        let place = |one: &Expr| one.as_name_expr().is_some_and(|one| one.id.as_str() == name);
                        let places: Vec<usize> =
                            (0..targets.elts.len()).filter(|at| place(&targets.elts[*at])).collect();
                        match (places.as_slice(), self.expression(at, &assign.value, fuel)) {
                            ([place], Kind::Tuple(parts)) if parts.len() == targets.elts.len() => {
                                kind.join(parts[*place].clone())
                            }
                            _ => Kind::Unknown,
                        }
                    }
                    target if names_in(target).iter().any(|target| target == name) => match target {
                        Expr::Attribute(_) | Expr::Subscript(_) => kind,
                        _ => Kind::Unknown,
                    },
                    _ => kind,
                })
            }
            Some(Stmt::AnnAssign(assign)) => match &assign.value {
                Some(value) => self.expression(at, value, fuel),
                None => Kind::Bottom,
            },
            Some(Stmt::Import(import)) => {
                let found = import.names.iter().find(|alias| match &alias.asname {
                    Some(asname) => asname.as_str() == name,
                    None => alias.name.split('.').next() == Some(name),
                });
                let Some(alias) = found else { return Kind::Unknown };
                let module = if alias.asname.is_some() { alias.name.as_str() } else { name };
                match modules::find(self.program, file, 0, module) {
                    Some(file) => Kind::Module(file),
                    None => Kind::Library(module.to_owned()),
                }
            }
            Some(Stmt::ImportFrom(import)) => {
                let is_it = |alias: &&ast::Alias| alias.asname.as_ref().unwrap_or(&alias.name).as_str() == name;
                let Some(alias) = import.names.iter().find(is_it) else { return Kind::Unknown };
                if let Some(source) = modules::source_of(self.program, file, import) {
                    let module = self.names.module(source);
                    if self.names.scopes[module].bound.contains_key(alias.name.as_str()) {
                        return self.in_scope(module, &alias.name, fuel);
                    }
                }
                match modules::submodule(self.program, file, import, &alias.name) {
                    Some(file) => Kind::Module(file),
                    None => match &import.module {
                        Some(_) if self.left.foreign.contains(alias.name.as_str()) => Kind::Unknown,
                        Some(module) if import.level == 0 => Kind::Library(format!("{module}.{}", alias.name)),
                        _ => Kind::Unknown,
                    },
                }
            }
            _ => Kind::Unknown,
        }
    }

    /// The class that a method belongs to.
    pub(super) fn class_of(&self, def: StmtId) -> Option<StmtId> {
        let scope = &self.names.scopes[self.names.scope_of(def)];
        if scope.kind == ScopeKind::Class { scope.owner } else { None }
    }

    /// What the calls in the text give a parameter.
    fn parameter(&self, def: StmtId, node: &ast::StmtFunctionDef, name: &str, fuel: u32) -> Kind {
        let class = self.class_of(def);
        let decorators = self.decorators(node);
        let is_static = decorators.contains(&"staticmethod");
        let mut place = node.parameters.posonlyargs.iter().chain(&node.parameters.args);
        let position = place.position(|parameter| parameter.name().as_str() == name);
        if let (Some(class), Some(0), false) = (class, position, is_static) {
            return if decorators.contains(&"classmethod") { Kind::Class(class) } else { Kind::Instance(class) };
        }
        let by_name = node.parameters.iter_non_variadic_params().find(|parameter| parameter.name().as_str() == name);
        let Some(parameter) = by_name else { return Kind::Unknown };
        if !decorators.iter().all(|decorator| library::is_transparent(decorator)) {
            return Kind::Unknown;
        }
        let own = node.name.as_str();
        let skipped = usize::from(class.is_some() && !is_static);
        let called = match class {
            Some(class) if own == "__init__" => {
                if self.is_base(class) {
                    return Kind::Unknown;
                }
                self.calls_of(class)
            }
            Some(_) if own.starts_with("__") || library::may_have(own) => return Kind::Unknown,
            _ => self.calls_of(def),
        };
        let Some(called) = called.filter(|called| !called.is_empty()) else { return Kind::Unknown };
        let mut kind = Kind::Bottom;
        for Call { at, call, hidden } in called {
            let at = At { statement: *at, hidden };
            let stars = call.arguments.args.iter().any(Expr::is_starred_expr)
                || call.arguments.keywords.iter().any(|keyword| keyword.arg.is_none());
            if stars {
                return Kind::Unknown;
            }
            let by_name = arguments(call).find(|(keyword, _)| *keyword == Some(name)).map(|(_, value)| value);
            let by_place = position.and_then(|place| call.arguments.args.get(place.checked_sub(skipped)?));
            let next = match (by_name.or(by_place), &parameter.default) {
                (Some(value), _) => self.expression(at, value, fuel),
                (None, Some(default)) => self.expression(At { statement: def, hidden: &[] }, default, fuel),
                (None, None) => Kind::Unknown,
            };
            kind = kind.join(next);
        }
        kind
    }

    /// Every call of a function or class that is left, where all mentions of its name are such calls.
    pub(super) fn calls_of(&self, def: StmtId) -> Option<Vec<&Call<'p>>> {
        let name = match self.program.node(def)? {
            Stmt::FunctionDef(def) => def.name.as_str(),
            Stmt::ClassDef(class) => class.name.as_str(),
            _ => return None,
        };
        let is_class = self.program.statement(def).kind == StmtKind::ClassDef;
        if self.left.renamed.contains(name) || self.left.stores.contains_key(name) || self.is_defined_twice(name) {
            return None;
        }
        let mut found = Vec::new();
        let mut named = 0;
        for one in &self.left.calls {
            let terminal = terminal(&one.call.func);
            let is_own = is_class && terminal == Some("cls");
            // `Class.build(...)` mentions the class without making an instance.
            if let Expr::Attribute(attribute) = &*one.call.func {
                named += usize::from(is_class && attribute.value.as_name_expr().is_some_and(|base| base.id == *name));
            }
            if terminal != Some(name) && !is_own {
                continue;
            }
            named += usize::from(!is_own);
            found.push(one);
        }
        (self.left.mentions.get(name).copied().unwrap_or(0) == named).then_some(found)
    }

    /// Whether more than one statement that is left defines a function or class of this name, or binds the name otherwise.
    fn is_defined_twice(&self, name: &str) -> bool {
        let is_left = |id: &StmtId| !self.gone.contains(id);
        let imports = [StmtKind::Import, StmtKind::ImportFrom];
        let is_own = |id: &StmtId| !imports.contains(&self.program.statement(*id).kind);
        self.names.binders_of(name).into_iter().filter(is_left).filter(is_own).count() > 1
    }

    /// Whether a class of the project derives from this one.
    pub(super) fn is_base(&self, class: StmtId) -> bool {
        let others = self.program.statements().iter().filter(|one| one.kind == StmtKind::ClassDef);
        others.map(|one| one.id).filter(|id| *id != class && !self.gone.contains(id)).any(|id| {
            let bases = self.bases(id);
            bases.is_none_or(|bases| bases.contains(&Kind::Class(class)) || bases.contains(&Kind::Unknown))
        })
    }

    /// The bases of a class; `None` where it has keywords or stars.
    pub(super) fn bases(&self, class: StmtId) -> Option<Vec<Kind>> {
        let Some(Stmt::ClassDef(node)) = self.program.node(class) else { return None };
        let at = At { statement: class, hidden: &[] };
        let Some(arguments) = &node.arguments else { return Some(Vec::new()) };
        if !arguments.keywords.is_empty() {
            return None;
        }
        Some(arguments.args.iter().map(|base| self.expression(at, base, FUEL)).collect())
    }

    /// The texts of a function's decorators.
    fn decorators(&self, node: &'p ast::StmtFunctionDef) -> Vec<&'p str>
    where
        Self: 'p,
    {
        node.decorator_list
            .iter()
            .map(|one| match &one.expression {
                Expr::Name(name) => name.id.as_str(),
                Expr::Call(call) if call.arguments.is_empty() => match terminal(&call.func) {
                    Some("no_grad") => "torch.no_grad()",
                    Some("inference_mode") => "torch.inference_mode()",
                    _ => "",
                },
                _ => "",
            })
            .collect()
    }

    /// The method or class-level name of a class, its bases in the project included.
    pub(super) fn member(&self, class: StmtId, name: &str) -> Option<StmtId> {
        let scope = self.names.scope_in(class)?;
        if let Some(last) = self.binders(scope, name).last() {
            return Some(*last);
        }
        self.bases(class)?.iter().find_map(|base| match base {
            Kind::Class(base) if *base != class => self.member(*base, name),
            _ => None,
        })
    }

    /// Whether an instance is a `torch.nn.Module` for all that the text shows.
    pub(super) fn is_module(&self, class: StmtId) -> bool {
        self.bases(class).into_iter().flatten().any(|base| match base {
            Kind::Library(path) => library::is_module(&path),
            Kind::Class(base) => base != class && self.is_module(base),
            _ => false,
        })
    }

    fn attribute(&self, base: &Kind, name: &str, fuel: u32) -> Kind {
        match base {
            // Somebody may have put something else in its place.
            Kind::Library(_) if self.left.foreign.contains(name) => Kind::Unknown,
            Kind::Library(path) => Kind::Library(format!("{path}.{name}")),
            Kind::Module(file) => self.in_scope(self.names.module(*file), name, fuel),
            Kind::Instance(class) | Kind::Class(class) => match (self.member(*class, name), self.left.stores.get(name))
            {
                (Some(member), None) if self.program.statement(member).kind == StmtKind::FunctionDef => {
                    match self.program.node(member) {
                        Some(Stmt::FunctionDef(node)) if self.decorators(node) == ["property"] => {
                            if matches!(base, Kind::Instance(_)) { self.result(member, fuel) } else { Kind::Unknown }
                        }
                        _ => Kind::Function(member),
                    }
                }
                (None, Some(stores)) => match (stores.as_slice(), base) {
                    ([store], Kind::Instance(_)) => self.stored(*store, *class, name, fuel),
                    _ => Kind::Unknown,
                },
                _ => Kind::Unknown,
            },
            _ => Kind::Unknown,
        }
    }

    /// What the only store of an attribute in the whole project gives it.
    fn stored(&self, store: StmtId, class: StmtId, name: &str, fuel: u32) -> Kind {
        let Some(Stmt::Assign(assign)) = self.program.node(store) else { return Kind::Unknown };
        let [Expr::Attribute(target)] = assign.targets.as_slice() else { return Kind::Unknown };
        let Some((owner, own)) = self.names.receiver(store) else { return Kind::Unknown };
        let is_own = target.value.as_name_expr().is_some_and(|base| base.id.as_str() == own);
        if !is_own || owner != class || target.attr.as_str() != name || library::may_have(name) {
            return Kind::Unknown;
        }
        let key = (store, format!(".{name}"));
        if self.open.borrow().contains(&key) {
            return Kind::Bottom;
        }
        self.open.borrow_mut().push(key);
        let kind = self.expression(At { statement: store, hidden: &[] }, &assign.value, fuel);
        self.open.borrow_mut().pop();
        kind
    }

    fn call(&self, at: At<'_>, call: &ast::ExprCall, fuel: u32) -> Kind {
        if let Expr::Attribute(method) = &*call.func {
            let base = self.expression(at, &method.value, fuel);
            match (&base, method.attr.as_str()) {
                (Kind::Made(path), "parse_args") if path == "argparse.ArgumentParser" => {
                    let reads_command = call.arguments.keywords.is_empty()
                        && call.arguments.args.len() < 2
                        && call.arguments.args.iter().all(|given| self.expression(at, given, fuel) == Kind::None);
                    return if reads_command { Kind::Options } else { Kind::Unknown };
                }
                (Kind::Instance(class), "to" | "cuda" | "cpu" | "eval" | "train" | "float" | "double" | "half")
                    if self.is_module(*class) && self.member(*class, &method.attr).is_none() =>
                {
                    return base;
                }
                _ => {}
            }
        }
        match self.expression(at, &call.func, fuel) {
            Kind::Class(class) => Kind::Instance(class),
            Kind::Function(def) => self.result(def, fuel),
            Kind::Instance(class) if self.is_module(class) && self.member(class, "__call__").is_none() => {
                match self.member(class, "forward") {
                    Some(def) if self.program.statement(def).kind == StmtKind::FunctionDef && !self.is_base(class) => {
                        self.result(def, fuel)
                    }
                    _ => Kind::Unknown,
                }
            }
            Kind::Library(path) if library::is_loader(&path) => self.loader(at, call, fuel),
            Kind::Library(path) => Kind::Made(path),
            _ => Kind::Unknown,
        }
    }

    fn loader(&self, at: At<'_>, call: &ast::ExprCall, fuel: u32) -> Kind {
        let plain = ["dataset", "batch_size", "shuffle", "num_workers", "pin_memory", "drop_last", "generator"];
        let keywords = &call.arguments.keywords;
        let is_plain = keywords.iter().all(|keyword| {
            keyword.arg.as_ref().is_some_and(|name| plain.contains(&name.as_str()))
                && !keyword.value.is_none_literal_expr()
        });
        let dataset = arguments(call).find(|(keyword, _)| keyword.is_none_or(|keyword| keyword == "dataset"));
        match dataset {
            Some((_, dataset)) if is_plain && call.arguments.args.len() <= 3 && !dataset.is_starred_expr() => {
                Kind::Loader(Box::new(self.expression(at, dataset, fuel)))
            }
            _ => Kind::Unknown,
        }
    }

    /// What a function gives back.
    pub(super) fn result(&self, def: StmtId, fuel: u32) -> Kind {
        let Some(Stmt::FunctionDef(node)) = self.program.node(def) else { return Kind::Unknown };
        let Some(scope) = self.names.scope_in(def) else { return Kind::Unknown };
        let decorators = self.decorators(node);
        let is_transparent =
            decorators == ["property"] || decorators.iter().all(|decorator| library::is_transparent(decorator));
        if !is_transparent || node.is_async || self.left.yields.contains(&scope) || self.stack.contains(&def) {
            return Kind::Unknown;
        }
        let key = (def, "return".to_owned());
        if self.open.borrow().contains(&key) {
            return Kind::Bottom;
        }
        self.open.borrow_mut().push(key);
        let last = self.program.children(def).filter(|child| !self.gone.contains(&child.id)).last();
        let falls = last.is_none_or(|last| last.kind != StmtKind::Return && last.kind != StmtKind::Raise);
        let mut kind = if falls { Kind::None } else { Kind::Bottom };
        for &id in self.left.returns.get(&scope).into_iter().flatten() {
            let Some(Stmt::Return(node)) = self.program.node(id) else { continue };
            let at = At { statement: id, hidden: &[] };
            kind = kind.join(node.value.as_ref().map_or(Kind::None, |value| self.expression(at, value, fuel)));
        }
        self.open.borrow_mut().pop();
        kind
    }

    /// What a function gives back, for a question of its own.
    pub(super) fn result_of(&self, def: StmtId) -> Kind {
        self.budget.set(BUDGET);
        self.result(def, FUEL)
    }
}
