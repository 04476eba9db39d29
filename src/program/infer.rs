//! What kind of object an expression is, as far as the text and the trace tell.
//!
//! Invariant: `Unknown` wherever two answers differ. Must not be relied on for more than leaving edges out.

use std::collections::BTreeSet;

use super::link::Linker;
use super::modules;
use super::names::{Access, ScopeKind, Step, assigned_value};
use super::python::{Expr, Stmt};
use super::statement::{FileId, StmtId};

/// What an expression is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Unknown,
    /// No object at all: joins with anything.
    Nothing,
    /// A module or function of the library.
    Library,
    /// An object that the library made, or a literal.
    Foreign,
    /// What `parse_args` gives.
    Options,
    /// Instances of classes of the project.
    Instance(BTreeSet<StmtId>),
    /// A class of the project itself.
    Class(StmtId),
    /// A function of the project.
    Function(StmtId),
    /// A file of the project.
    Module(FileId),
}

impl Kind {
    fn join(self, other: Kind) -> Kind {
        match (self, other) {
            (Kind::Nothing, other) | (other, Kind::Nothing) => other,
            (Kind::Instance(mut classes), Kind::Instance(others)) => {
                classes.extend(others);
                Kind::Instance(classes)
            }
            (one, other) if one == other => one,
            _ => Kind::Unknown,
        }
    }
}

/// Methods of the library that give back the object itself.
const FLUENT: [&str; 17] = [
    "to",
    "cuda",
    "cpu",
    "eval",
    "train",
    "half",
    "float",
    "double",
    "bfloat16",
    "requires_grad_",
    "apply",
    "to_empty",
    "share_memory",
    "type",
    "compile",
    "xpu",
    "npu",
];

/// How deep an answer may be looked for; one hop from a name to its value takes about four.
const FUEL: u32 = 32;
/// How many accesses one question may look at.
const BUDGET: u32 = 2_000;

impl Linker<'_> {
    /// What an access from a statement is.
    pub(crate) fn kind_of(&self, at: StmtId, root: Option<&str>, steps: &[Step]) -> Kind {
        self.budget.set(BUDGET);
        self.access(at, root, steps, FUEL)
    }

    /// What an expression of a statement is.
    pub(crate) fn kind_of_value(&self, at: StmtId, expression: &Expr) -> Kind {
        self.budget.set(BUDGET);
        self.expression(at, expression, FUEL)
    }

    fn access(&self, at: StmtId, root: Option<&str>, steps: &[Step], fuel: u32) -> Kind {
        let (Some(root), Some(fuel)) = (root, fuel.checked_sub(1)) else { return Kind::Unknown };
        let Some(budget) = self.budget.get().checked_sub(1) else { return Kind::Unknown };
        self.budget.set(budget);
        let mut kind = self.name(at, root, fuel);
        let mut before = None;
        for (index, step) in steps.iter().enumerate() {
            let next = match (&kind, step) {
                (Kind::Library, Step::Attribute(_)) => Kind::Library,
                (Kind::Library, Step::Call) => Kind::Foreign,
                (Kind::Foreign, Step::Attribute(name)) if steps.get(index + 1) == Some(&Step::Call) => {
                    match name.as_str() {
                        "parse_args" | "parse_known_args" => Kind::Options,
                        _ => Kind::Unknown,
                    }
                }
                (Kind::Foreign, Step::Item | Step::Key(_)) => Kind::Unknown,
                (Kind::Options, Step::Call) => Kind::Options,
                (Kind::Options, Step::Key(key)) if key == "0" => Kind::Options,
                (Kind::Class(class), Step::Call) => Kind::Instance(BTreeSet::from([*class])),
                (Kind::Function(def), Step::Call) => self.returned(*def, fuel),
                (Kind::Module(file), Step::Attribute(name)) => self.member(*file, name, fuel),
                (Kind::Instance(classes), Step::Attribute(name)) => {
                    let found = self.attribute(&classes.clone(), name, fuel);
                    let is_fluent = FLUENT.contains(&name.as_str()) && steps.get(index + 1) == Some(&Step::Call);
                    before = is_fluent.then(|| kind.clone());
                    found
                }
                (Kind::Class(class), Step::Attribute(name)) => self.attribute(&BTreeSet::from([*class]), name, fuel),
                (Kind::Unknown, Step::Call) => before.take().unwrap_or(Kind::Unknown),
                _ => Kind::Unknown,
            };
            kind = next;
        }
        kind
    }

    /// What a name is where a statement reads it.
    fn name(&self, at: StmtId, name: &str, fuel: u32) -> Kind {
        let home = self.names.home_of_use(self.names.scope_of(at), name);
        if let Some(home) = home {
            let scope = &self.names.scopes[home];
            let around = scope.parent.map(|parent| &self.names.scopes[parent]);
            if let (ScopeKind::Function, Some(around)) = (scope.kind, around)
                && around.kind == ScopeKind::Class
                && scope.parameters.first().is_some_and(|first| first == name)
            {
                return around.owner.map_or(Kind::Unknown, |class| Kind::Instance(BTreeSet::from([class])));
            }
        }
        let defs = self.definitions(at, name);
        if defs.strong.is_empty() {
            return if home.is_none() { Kind::Library } else { Kind::Unknown };
        }
        defs.strong.iter().fold(Kind::Nothing, |kind, &def| kind.join(self.definition(def, name, fuel)))
    }

    /// What a statement binds to a name.
    fn definition(&self, def: StmtId, name: &str, fuel: u32) -> Kind {
        let Some(fuel) = fuel.checked_sub(1) else { return Kind::Unknown };
        let file = self.program.statement(def).file;
        match self.program.node(def) {
            Some(Stmt::ClassDef(_)) => Kind::Class(def),
            Some(Stmt::FunctionDef(node)) if node.name.as_str() == name && !self.is_parameter(def, name) => {
                Kind::Function(def)
            }
            Some(Stmt::FunctionDef(_)) => self.parameter(def, name, fuel),
            Some(Stmt::Import(import)) => {
                let alias = import.names.iter().find(|alias| match &alias.asname {
                    Some(asname) => asname.as_str() == name,
                    None => alias.name.split('.').next() == Some(name),
                });
                let module = alias.map(|alias| if alias.asname.is_some() { alias.name.as_str() } else { name });
                let found = module.and_then(|module| modules::find(self.program, file, 0, module));
                found.map_or(Kind::Library, Kind::Module)
            }
            Some(Stmt::ImportFrom(import)) => {
                let is_it =
                    |alias: &&super::python::ast::Alias| alias.asname.as_ref().unwrap_or(&alias.name).as_str() == name;
                let Some(alias) = import.names.iter().find(is_it) else { return Kind::Unknown };
                let source = modules::source_of(self.program, file, import);
                let known = source.filter(|&source| self.exports(source, &alias.name));
                match (known, modules::submodule(self.program, file, import, &alias.name)) {
                    (Some(source), _) => self.member(source, &alias.name, fuel),
                    (None, Some(module)) => Kind::Module(module),
                    (None, None) if source.is_none() => Kind::Library,
                    (None, None) => Kind::Unknown,
                }
            }
            Some(Stmt::With(with)) => {
                let bound = with.items.iter().find(|item| {
                    item.optional_vars
                        .as_ref()
                        .and_then(|target| target.as_name_expr())
                        .is_some_and(|target| target.id == *name)
                });
                bound.map_or(Kind::Unknown, |item| self.expression(def, &item.context_expr, fuel))
            }
            Some(node @ (Stmt::Assign(_) | Stmt::AnnAssign(_))) => {
                assigned_value(node).map_or(Kind::Unknown, |value| self.expression(def, value, fuel))
            }
            _ => Kind::Unknown,
        }
    }

    fn is_parameter(&self, def: StmtId, name: &str) -> bool {
        let scope = self.names.scope_in(def).map(|scope| &self.names.scopes[scope]);
        scope.is_some_and(|scope| scope.parameters.iter().any(|parameter| parameter == name))
    }

    /// What a function is given for a parameter.
    fn parameter(&self, def: StmtId, name: &str, fuel: u32) -> Kind {
        let mut kind = Kind::Nothing;
        let mut given = false;
        for caller in self.observed.callers(def).into_iter().take(4) {
            for (parameter, argument) in super::arguments::matched_arguments(self.program, self.names, caller, def) {
                if parameter == name {
                    given = true;
                    kind = kind.join(self.expression(caller, argument, fuel));
                }
            }
        }
        if given { kind } else { Kind::Unknown }
    }

    /// What a function gives back.
    fn returned(&self, def: StmtId, fuel: u32) -> Kind {
        let Some(fuel) = fuel.checked_sub(1) else { return Kind::Unknown };
        let mut kind = Kind::Nothing;
        for &id in self.returns.get(&def).into_iter().flatten() {
            let value = match self.program.node(id) {
                Some(Stmt::Return(node)) => node.value.as_deref(),
                _ => return Kind::Unknown,
            };
            kind = kind.join(value.map_or(Kind::Nothing, |value| self.expression(id, value, fuel)));
        }
        if kind == Kind::Nothing { Kind::Unknown } else { kind }
    }

    /// What a name of a module is.
    fn member(&self, file: FileId, name: &str, fuel: u32) -> Kind {
        let defs = self.reach.exits[self.names.module(file)].get(name);
        let strong = defs.into_iter().flat_map(|defs| &defs.strong);
        let kind = strong.fold(Kind::Nothing, |kind, &def| kind.join(self.definition(def, name, fuel)));
        if kind == Kind::Nothing { Kind::Unknown } else { kind }
    }

    /// What an attribute of these classes is.
    fn attribute(&self, classes: &BTreeSet<StmtId>, name: &str, fuel: u32) -> Kind {
        let Some(fuel) = fuel.checked_sub(1) else { return Kind::Unknown };
        let related = self.related(classes);
        let mut kind = Kind::Nothing;
        for attribute in self.attributes.get(name).into_iter().flatten() {
            if attribute.owner.iter().any(|owner| related.contains(owner)) && attribute.is_whole {
                let next = match self.program.node(attribute.by) {
                    Some(Stmt::FunctionDef(node)) if is_property(node) => self.returned(attribute.by, fuel),
                    Some(Stmt::FunctionDef(_)) => Kind::Function(attribute.by),
                    Some(node) => {
                        assigned_value(node).map_or(Kind::Unknown, |value| self.expression(attribute.by, value, fuel))
                    }
                    None => Kind::Unknown,
                };
                kind = kind.join(next);
            }
        }
        if kind == Kind::Nothing { Kind::Unknown } else { kind }
    }

    /// What an expression is.
    fn expression(&self, at: StmtId, expression: &Expr, fuel: u32) -> Kind {
        let Some(fuel) = fuel.checked_sub(1) else { return Kind::Unknown };
        match expression {
            Expr::Name(_) | Expr::Attribute(_) | Expr::Subscript(_) | Expr::Call(_) => {
                let Some(access) = chain(expression) else { return Kind::Unknown };
                self.access(at, access.root.as_deref(), &access.steps, fuel)
            }
            Expr::If(test) => self.expression(at, &test.body, fuel).join(self.expression(at, &test.orelse, fuel)),
            Expr::BoolOp(any) => {
                any.values.iter().fold(Kind::Nothing, |kind, value| kind.join(self.expression(at, value, fuel)))
            }
            Expr::NoneLiteral(_) => Kind::Nothing,
            _ if expression.is_literal_expr() => Kind::Foreign,
            Expr::List(_) | Expr::Dict(_) | Expr::Set(_) | Expr::Tuple(_) | Expr::FString(_) => Kind::Foreign,
            Expr::ListComp(_) | Expr::DictComp(_) | Expr::SetComp(_) | Expr::Compare(_) => Kind::Foreign,
            _ => Kind::Unknown,
        }
    }

    /// The classes, all their bases and all their subclasses.
    pub(crate) fn related(&self, classes: &BTreeSet<StmtId>) -> BTreeSet<StmtId> {
        let mut above = classes.clone();
        let mut below = classes.clone();
        loop {
            let before = above.len() + below.len();
            for (class, bases) in &self.bases {
                if above.contains(class) {
                    above.extend(bases);
                }
                if bases.iter().any(|base| below.contains(base)) {
                    below.insert(*class);
                }
            }
            if above.len() + below.len() == before {
                above.extend(below);
                return above;
            }
        }
    }
}

/// Whether reading a method's name runs it.
pub(crate) fn is_property(def: &super::python::ast::StmtFunctionDef) -> bool {
    def.decorator_list.iter().any(|decorator| {
        let name = match &decorator.expression {
            Expr::Name(name) => name.id.as_str(),
            Expr::Attribute(attribute) => attribute.attr.as_str(),
            _ => "",
        };
        ["property", "cached_property", "setter", "getter"].contains(&name)
    })
}

/// The access that an expression is, calls included.
fn chain(expression: &Expr) -> Option<Access> {
    let mut steps = Vec::new();
    let mut base = expression;
    loop {
        match base {
            Expr::Attribute(attribute) => {
                steps.push(Step::Attribute(attribute.attr.to_string()));
                base = &attribute.value;
            }
            Expr::Subscript(subscript) => {
                steps.push(super::walk::literal(&subscript.slice).map_or(Step::Item, Step::Key));
                base = &subscript.value;
            }
            Expr::Call(call) => {
                steps.push(Step::Call);
                base = &call.func;
            }
            Expr::Name(name) => {
                steps.reverse();
                return Some(Access { root: Some(name.id.to_string()), steps });
            }
            _ => return None,
        }
    }
}
