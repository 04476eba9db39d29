//! Which sure events raise once some statements are gone.
//!
//! Invariant: a fault is reported only where Python itself, or a call of the library that is listed, refuses the value. Must
//! not decide whether the event comes before the failure.

use super::super::names::arguments;
use super::super::python::{Expr, ExprContext, Stmt, ast};
use super::super::{FileId, Program, StmtId, StmtKind, modules};
use super::kinds::{At, Kind, Kinds};
use super::left::{Call, terminal};
use super::library;
use super::options;
use super::sure::{Act, Event};

/// What an event raises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Attribute,
    Type,
}

/// Knows what is left and what ran.
pub(super) struct Checks<'c, 'p> {
    pub(super) kinds: &'c Kinds<'p>,
    /// Whether a statement ran before the failure.
    pub(super) ran: &'c dyn Fn(StmtId) -> bool,
    /// Attributes may be set in ways that the text does not show.
    pub(super) is_dynamic: bool,
    /// Options may be declared in ways that the text does not show.
    pub(super) has_open_options: bool,
}

impl Checks<'_, '_> {
    fn program(&self) -> &Program {
        self.kinds.program
    }

    /// What an event of a statement raises.
    pub(super) fn fault(&self, statement: StmtId, event: &Event<'_>) -> Option<Fault> {
        let at = At { statement, hidden: &event.hidden };
        let kind = || self.kinds.of(at, event.expression);
        match event.act {
            Act::Value => self.value(at, event.expression),
            Act::Iterate => self.iterated(&kind()),
            Act::Unpack => match kind() {
                Kind::None => Some(Fault::Type),
                Kind::Instance(class) => self.iterated(&Kind::Instance(class)),
                _ => None,
            },
            Act::Enter => (kind() == Kind::None).then_some(Fault::Attribute),
            Act::Change => {
                let plain = match self.program().node(statement) {
                    Some(Stmt::AugAssign(node)) => self.is_plain(at, &node.value),
                    _ => false,
                };
                (plain && kind() == Kind::None).then_some(Fault::Type)
            }
        }
    }

    fn value(&self, at: At<'_>, expression: &Expr) -> Option<Fault> {
        match expression {
            Expr::Attribute(attribute) => {
                let name = attribute.attr.as_str();
                let is_load = attribute.ctx == ExprContext::Load;
                match self.kinds.of(at, &attribute.value) {
                    Kind::None if !name.starts_with("__") => Some(Fault::Attribute),
                    Kind::Instance(class) | Kind::Class(class) if is_load => {
                        self.lacks(class, name).then_some(Fault::Attribute)
                    }
                    Kind::Module(file) if is_load => {
                        (self.is_lost(file, name) && !self.is_file(name)).then_some(Fault::Attribute)
                    }
                    Kind::Options if is_load && !self.has_open_options => {
                        options::is_undeclared(&self.kinds.left, name).then_some(Fault::Attribute)
                    }
                    _ => None,
                }
            }
            Expr::Subscript(subscript) => match self.kinds.of(at, &subscript.value) {
                Kind::None => Some(Fault::Type),
                Kind::Instance(class) if subscript.ctx == ExprContext::Load => {
                    self.lacks_special(class, "__getitem__").then_some(Fault::Type)
                }
                _ => None,
            },
            Expr::Call(call) => self.call(at, call),
            Expr::BinOp(node) => {
                let left = self.kinds.of(at, &node.left) == Kind::None && self.is_plain(at, &node.right);
                let right = || self.kinds.of(at, &node.right) == Kind::None && self.is_plain(at, &node.left);
                match node.op {
                    ast::Operator::BitOr => None,
                    // A text takes anything as its argument.
                    ast::Operator::Mod => left.then_some(Fault::Type),
                    _ => (left || right()).then_some(Fault::Type),
                }
            }
            Expr::UnaryOp(node) if node.op != ast::UnaryOp::Not => {
                (self.kinds.of(at, &node.operand) == Kind::None).then_some(Fault::Type)
            }
            Expr::Starred(node) if node.ctx == ExprContext::Load => self.iterated(&self.kinds.of(at, &node.value)),
            _ => None,
        }
    }

    /// Whether an operator of a value refuses `None`: an object of a class of its own may take it.
    pub(super) fn is_plain(&self, at: At<'_>, expression: &Expr) -> bool {
        let display = matches!(expression, Expr::List(_) | Expr::Tuple(_) | Expr::Dict(_) | Expr::Set(_));
        let known = || match self.kinds.of(at, expression) {
            Kind::None => true,
            Kind::Made(path) => path.starts_with("torch.") || ["builtins.int", "builtins.len"].contains(&path.as_str()),
            _ => false,
        };
        display || expression.is_literal_expr() || known()
    }

    fn call(&self, at: At<'_>, call: &ast::ExprCall) -> Option<Fault> {
        let first = call.arguments.args.first();
        match self.kinds.of(at, &call.func) {
            Kind::None => Some(Fault::Type),
            Kind::Class(class) => {
                let given = arguments(call).any(|(_, value)| !value.is_starred_expr())
                    && call.arguments.keywords.iter().all(|keyword| keyword.arg.is_some());
                let lacks = given && self.lacks_special(class, "__init__") && !self.is_decorated(class);
                (lacks || self.gives_too_much(class, call)).then_some(Fault::Type)
            }
            Kind::Instance(class) if self.kinds.is_module(class) => {
                let lacks = self.lacks_special(class, "__call__") && self.lacks_special(class, "forward");
                lacks.then_some(Fault::Type)
            }
            Kind::Instance(class) => self.lacks_special(class, "__call__").then_some(Fault::Type),
            Kind::Library(path) => {
                let given = self.kinds.of(at, first.filter(|first| !first.is_starred_expr())?);
                match (path.as_str(), &given) {
                    (_, Kind::None) => library::refuses_none(&path).then_some(Fault::Type),
                    ("builtins.len", Kind::Instance(class)) => self.has_no_length(*class).then_some(Fault::Type),
                    ("builtins.iter" | "builtins.list" | "builtins.enumerate" | "builtins.sorted", given) => {
                        self.iterated(given)
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn iterated(&self, kind: &Kind) -> Option<Fault> {
        match kind {
            Kind::None => Some(Fault::Type),
            Kind::Instance(class) => {
                let lacks = self.lacks_special(*class, "__iter__") && self.lacks_special(*class, "__getitem__");
                lacks.then_some(Fault::Type)
            }
            Kind::Loader(dataset) => match &**dataset {
                Kind::None => Some(Fault::Type),
                Kind::Instance(class) => {
                    (self.has_no_length(*class) || self.gives_no_items(*class)).then_some(Fault::Type)
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// `len` of an instance raises.
    fn has_no_length(&self, class: StmtId) -> bool {
        self.lacks_special(class, "__len__") || self.gives_none(class, "__len__")
    }

    /// The program took items of an instance before the failure, and now cannot, or gets `None`.
    fn gives_no_items(&self, class: StmtId) -> bool {
        let Some(scope) = self.kinds.names.scope_in(class) else { return false };
        let all = self.kinds.names.scopes[scope].bound.get("__getitem__").into_iter().flatten();
        let took = |def: &StmtId| self.program().children(*def).any(|child| (self.ran)(child.id));
        let own: Vec<StmtId> = all.copied().filter(took).collect();
        !own.is_empty() && (self.lacks_special(class, "__getitem__") || self.gives_none(class, "__getitem__"))
    }

    fn gives_none(&self, class: StmtId, method: &str) -> bool {
        let known = self.is_known(class) && !self.kinds.left.stores.contains_key(method);
        let def = self.kinds.member(class, method);
        known
            && def.is_some_and(|def| {
                self.program().statement(def).kind == StmtKind::FunctionDef && self.kinds.result_of(def) == Kind::None
            })
    }

    /// A class that has its names from the text alone.
    fn is_known(&self, class: StmtId) -> bool {
        !self.is_dynamic && !self.kinds.is_base(class) && self.has_plain_bases(class, 8)
    }

    fn has_plain_bases(&self, class: StmtId, fuel: u32) -> bool {
        let Some(fuel) = fuel.checked_sub(1) else { return false };
        let Some(Stmt::ClassDef(node)) = self.program().node(class) else { return false };
        let decorators = node.decorator_list.iter();
        let is_plain = decorators.map(|one| self.kinds.of(At { statement: class, hidden: &[] }, &one.expression));
        let mut is_plain = is_plain.map(|kind| match kind {
            Kind::Library(path) | Kind::Made(path) => path == "dataclasses.dataclass",
            _ => false,
        });
        let bases = self.kinds.bases(class);
        is_plain.all(|is_plain| is_plain)
            && bases.is_some_and(|bases| {
                bases.iter().all(|base| match base {
                    Kind::Library(path) => library::is_plain_base(path),
                    Kind::Class(base) => self.has_plain_bases(*base, fuel),
                    _ => false,
                })
            })
    }

    /// A call gives a data class more values than it has fields left, or names one that is gone.
    pub(super) fn gives_too_much(&self, class: StmtId, call: &ast::ExprCall) -> bool {
        let Some(Stmt::ClassDef(node)) = self.program().node(class) else { return false };
        let is_plain = node.arguments.is_none() && node.decorator_list.len() == 1 && self.is_decorated(class);
        if !is_plain || !self.has_plain_bases(class, 1) || self.kinds.is_base(class) {
            return false;
        }
        let given = &call.arguments;
        let is_open =
            given.args.iter().any(Expr::is_starred_expr) || given.keywords.iter().any(|one| one.arg.is_none());
        let mut fields = Vec::new();
        let mut gone = Vec::new();
        for child in self.program().children(class) {
            match self.program().node(child.id) {
                Some(Stmt::AnnAssign(field)) => {
                    let Some(name) = field.target.as_name_expr() else { return false };
                    let list = if self.kinds.gone.contains(&child.id) { &mut gone } else { &mut fields };
                    list.push(name.id.as_str());
                }
                Some(Stmt::FunctionDef(def)) if def.name.as_str() == "__init__" => return false,
                Some(_) => {}
                None => return false,
            }
        }
        let names_gone = |name: &str| gone.contains(&name) && !fields.contains(&name);
        let names_one = given.keywords.iter().filter_map(|one| one.arg.as_ref()).any(|name| names_gone(name.as_str()));
        // Fields that are no parameters only make it fewer.
        !is_open && (given.args.len() > fields.len() || names_one)
    }

    fn is_decorated(&self, class: StmtId) -> bool {
        matches!(self.program().node(class), Some(Stmt::ClassDef(node)) if !node.decorator_list.is_empty())
    }

    /// No object of the class has the attribute: nothing that is left sets it anywhere.
    fn lacks(&self, class: StmtId, name: &str) -> bool {
        let left = &self.kinds.left;
        if library::may_have(name) || left.is_open || left.stores.contains_key(name) || !self.is_known(class) {
            return false;
        }
        let mut binders = self.kinds.names.binders_of(name).into_iter().filter(|id| !self.kinds.gone.contains(id));
        binders.all(|id| self.kinds.class_of(id).is_none())
    }

    /// The class has no method of this special name, and neither have its bases.
    fn lacks_special(&self, class: StmtId, name: &str) -> bool {
        self.is_known(class) && self.kinds.member(class, name).is_none() && !self.kinds.left.stores.contains_key(name)
    }

    /// A module of the project no longer binds a name that it bound before the failure.
    fn is_lost(&self, file: FileId, name: &str) -> bool {
        let module = self.kinds.names.module(file);
        let bound = self.kinds.names.scopes[module].bound.get(name);
        let had = bound.is_some_and(|binders| binders.iter().any(|binder| (self.ran)(*binder)));
        let is_set = self.kinds.left.foreign.contains(name);
        had && !is_set && !self.is_dynamic && self.kinds.binders(module, name).is_empty()
    }

    fn is_file(&self, name: &str) -> bool {
        let ends = [format!("{name}.py"), format!("{name}/__init__.py")];
        let same = |path: &String, end: &String| path == end || path.ends_with(&format!("/{end}"));
        self.program().paths().iter().any(|path| ends.iter().any(|end| same(path, end)))
    }

    /// A statement imports a name that its module no longer binds.
    pub(super) fn imports_what_is_gone(&self, statement: StmtId) -> bool {
        let Some(Stmt::ImportFrom(import)) = self.program().node(statement) else { return false };
        let from = self.program().statement(statement).file;
        let Some(source) = modules::source_of(self.program(), from, import) else { return false };
        // Of two files that the import may mean, the other may bind it.
        let stem = |path: &str| path.trim_end_matches(".py").trim_end_matches("/__init__").to_owned();
        let own = stem(self.program().path(source));
        let last = own.rsplit('/').next().unwrap_or(&own);
        let alike = self.program().paths().iter().filter(|path| stem(path).rsplit('/').next() == Some(last)).count();
        alike == 1 && import.names.iter().any(|alias| self.is_lost(source, &alias.name) && !self.is_file(&alias.name))
    }

    /// A statement assigns a module to an attribute of a module whose own `__init__` never runs.
    pub(super) fn assigns_too_early(&self, statement: StmtId) -> bool {
        let Some(Stmt::Assign(assign)) = self.program().node(statement) else { return false };
        let [Expr::Attribute(target)] = assign.targets.as_slice() else { return false };
        let Some((class, own)) = self.kinds.names.receiver(statement) else { return false };
        let Some(def) = self.program().statement(statement).parent else { return false };
        let is_own = target.value.as_name_expr().is_some_and(|base| base.id.as_str() == own);
        let init = matches!(self.program().node(def), Some(Stmt::FunctionDef(def)) if def.name.as_str() == "__init__");
        let bases = self.kinds.bases(class).unwrap_or_default();
        let is_direct = matches!(bases.as_slice(), [Kind::Library(path)] if library::is_module(path));
        if !is_own || !init || !is_direct || !self.is_known(class) || self.kinds.class_of(def) != Some(class) {
            return false;
        }
        let inside = |at: StmtId| at == def || self.program().statement(def).contains(at);
        let mut calls = self.kinds.left.calls.iter().filter(|one| inside(one.at));
        let initialises =
            |one: &Call<'_>| ["super", "__init__"].iter().any(|name| terminal(&one.call.func) == Some(name));
        if calls.any(initialises) {
            return false;
        }
        match self.kinds.of(At { statement, hidden: &[] }, &assign.value) {
            Kind::Made(path) => library::makes_module(&path),
            Kind::Instance(class) => self.kinds.is_module(class) && self.is_known(class),
            _ => false,
        }
    }
}
