//! What each statement reads, binds and changes, and in which scope: facts of the text alone.
//!
//! Invariant: facts of a compound statement are those of its header; its body speaks for itself. A fact names no other
//! statement, so it holds for any run. Must not know what was executed.

use std::collections::{BTreeMap, BTreeSet};

use super::parse::Program;
use super::python::{Expr, Stmt, ast};
use super::statement::{FileId, StmtId};
use super::walk::{self, Annotations};

/// One step from an object to another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// `.name`
    Attribute(String),
    /// `["key"]` or `[3]`: the text of the literal
    Key(String),
    /// `[anything else]`
    Item,
    /// `(...)`
    Call,
}

/// A name and the steps from it; without a name where the object comes from another expression.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Access {
    pub(crate) root: Option<String>,
    pub(crate) steps: Vec<Step>,
}

/// How an object is changed in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Change {
    /// `object.name = ...`
    Attribute,
    /// `object[...] = ...`, `del object[...]`
    Item,
    /// `object += ...`, an in-place operator, `out=object`
    Whole,
    /// A method that only containers have, or that changes any container: `append`, `extend`.
    Grow,
    /// A method that changes containers and means something else elsewhere: `add`, `update`.
    Maybe,
    /// A method called for its effect: `model.eval()`, `optimizer.step()`.
    Effect,
}

/// A change of an object in place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Store {
    /// The object that is changed.
    pub(crate) object: Access,
    /// The attribute or key that is set, where there is one.
    pub(crate) step: Option<Step>,
    pub(crate) change: Change,
}

/// What a statement's own expressions do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) loads: BTreeSet<Access>,
    pub(crate) binds: BTreeSet<String>,
    pub(crate) stores: BTreeSet<Store>,
    /// Names that stand for (a part of) an object named otherwise: `row` in `for row in rows`.
    pub(crate) aliases: BTreeSet<(String, Access)>,
    /// Whether a `yield` or `await` is in it.
    pub(crate) yields: bool,
}

/// An index into `Names::scopes`.
pub(crate) type ScopeId = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScopeKind {
    Module,
    Class,
    Function,
}

/// A region with names of its own.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) kind: ScopeKind,
    pub(crate) file: FileId,
    /// The `def` or `class`; `None` for a module.
    pub(crate) owner: Option<StmtId>,
    pub(crate) parent: Option<ScopeId>,
    pub(crate) parameters: Vec<String>,
    /// Names bound here, with every statement that binds them in program order; parameters by the `def`.
    pub(crate) bound: BTreeMap<String, Vec<StmtId>>,
    pub(crate) globals: BTreeMap<String, StmtId>,
    pub(crate) nonlocals: BTreeMap<String, StmtId>,
}

/// Facts and scopes of a whole program.
#[derive(Debug)]
pub struct Names {
    pub(crate) facts: Vec<Facts>,
    pub(crate) scopes: Vec<Scope>,
    /// The scope in which a statement's header runs.
    scope_of: Vec<ScopeId>,
    inner: BTreeMap<StmtId, ScopeId>,
    modules: Vec<ScopeId>,
    readers: BTreeMap<StmtId, Vec<StmtId>>,
}

impl Names {
    /// Collects the facts of every statement.
    pub fn of(program: &Program) -> Names {
        let count = program.statements().len();
        let mut names = Names {
            facts: Vec::with_capacity(count),
            scopes: Vec::new(),
            scope_of: Vec::with_capacity(count),
            inner: BTreeMap::new(),
            modules: Vec::new(),
            readers: BTreeMap::new(),
        };
        for index in 0..program.paths().len() {
            let file = FileId(u32::try_from(index).unwrap_or(u32::MAX));
            names.modules.push(names.scopes.len());
            names.scopes.push(Scope::new(ScopeKind::Module, file, None, None));
        }
        let lazy: Vec<bool> = names.modules.iter().map(|&module| is_lazy(program, names.scopes[module].file)).collect();
        for statement in program.statements() {
            let scope = match statement.parent {
                None => names.modules[statement.file.index()],
                Some(parent) => names.inner.get(&parent).copied().unwrap_or_else(|| names.scope_of[parent.index()]),
            };
            names.scope_of.push(scope);
            let facts = match program.node(statement.id) {
                Some(node) => {
                    names.open(statement.id, statement.file, scope, node);
                    walk::facts(node, annotations(&names.scopes[scope], lazy[statement.file.index()]))
                }
                None => Facts::default(),
            };
            names.facts.push(facts);
        }
        for statement in program.statements() {
            let scope = names.scope_of[statement.id.index()];
            for name in names.facts[statement.id.index()].binds.clone() {
                let home = names.home_of_binding(scope, &name);
                names.scopes[home].bound.entry(name).or_default().push(statement.id);
            }
        }
        names.readers = names.sole_readers();
        names
    }

    fn open(&mut self, id: StmtId, file: FileId, scope: ScopeId, node: &Stmt) {
        match node {
            Stmt::FunctionDef(def) => {
                let mut inner = Scope::new(ScopeKind::Function, file, Some(id), Some(scope));
                inner.parameters = def.parameters.iter().map(|parameter| parameter.name().to_string()).collect();
                for parameter in &inner.parameters {
                    inner.bound.entry(parameter.clone()).or_default().push(id);
                }
                self.inner.insert(id, self.scopes.len());
                self.scopes.push(inner);
            }
            Stmt::ClassDef(_) => {
                self.inner.insert(id, self.scopes.len());
                self.scopes.push(Scope::new(ScopeKind::Class, file, Some(id), Some(scope)));
            }
            Stmt::Global(global) => {
                self.scopes[scope].globals.extend(global.names.iter().map(|name| (name.to_string(), id)));
            }
            Stmt::Nonlocal(nonlocal) => {
                self.scopes[scope].nonlocals.extend(nonlocal.names.iter().map(|name| (name.to_string(), id)));
            }
            _ => {}
        }
    }

    /// The facts of one statement.
    pub(crate) fn facts(&self, id: StmtId) -> &Facts {
        &self.facts[id.index()]
    }

    /// The scope in which a statement's header runs.
    pub(crate) fn scope_of(&self, id: StmtId) -> ScopeId {
        self.scope_of[id.index()]
    }

    /// The scope that a `def` or `class` opens.
    pub(crate) fn scope_in(&self, id: StmtId) -> Option<ScopeId> {
        self.inner.get(&id).copied()
    }

    /// The scope of a file's module level.
    pub(crate) fn module(&self, file: FileId) -> ScopeId {
        self.modules[file.index()]
    }

    /// The scope that a binding of a name in this scope goes to.
    fn home_of_binding(&self, scope: ScopeId, name: &str) -> ScopeId {
        let here = &self.scopes[scope];
        if here.globals.contains_key(name) {
            return self.modules[here.file.index()];
        }
        if here.nonlocals.contains_key(name) {
            return self.enclosing(scope, name).unwrap_or(scope);
        }
        scope
    }

    /// The scope whose binding a use of a name in this scope sees; `None` for a builtin, a star import or a mistake.
    pub(crate) fn home_of_use(&self, scope: ScopeId, name: &str) -> Option<ScopeId> {
        let here = &self.scopes[scope];
        let module = self.modules[here.file.index()];
        if here.globals.contains_key(name) {
            return self.scopes[module].bound.contains_key(name).then_some(module);
        }
        if !here.nonlocals.contains_key(name) && here.bound.contains_key(name) {
            return Some(scope);
        }
        self.enclosing(scope, name)
    }

    /// The nearest scope around this one that binds a name; class scopes are not seen from inside.
    fn enclosing(&self, scope: ScopeId, name: &str) -> Option<ScopeId> {
        let mut next = self.scopes[scope].parent;
        while let Some(up) = next {
            let around = &self.scopes[up];
            let is_seen = around.kind != ScopeKind::Class && !around.globals.contains_key(name);
            if is_seen && around.bound.contains_key(name) && !around.nonlocals.contains_key(name) {
                return Some(up);
            }
            next = around.parent;
        }
        None
    }

    /// The class whose method a statement runs in, with the name of the method's first parameter.
    pub(crate) fn receiver(&self, id: StmtId) -> Option<(StmtId, &str)> {
        let mut scope = self.scope_of(id);
        loop {
            let here = &self.scopes[scope];
            let parent = here.parent?;
            if here.kind == ScopeKind::Function && self.scopes[parent].kind == ScopeKind::Class {
                return Some((self.scopes[parent].owner?, here.parameters.first()?.as_str()));
            }
            scope = parent;
        }
    }

    /// The later statements that read a name which only this statement binds: what falls with it when it goes.
    pub fn readers_of(&self, id: StmtId) -> &[StmtId] {
        self.readers.get(&id).map_or(&[], Vec::as_slice)
    }

    fn sole_readers(&self) -> BTreeMap<StmtId, Vec<StmtId>> {
        let mut readers: BTreeMap<StmtId, BTreeSet<StmtId>> = BTreeMap::new();
        for (index, facts) in self.facts.iter().enumerate() {
            let reader = StmtId::new(index);
            let scope = self.scope_of[index];
            for name in facts.loads.iter().filter_map(|access| access.root.as_deref()) {
                let Some(home) = self.home_of_use(scope, name) else { continue };
                if let Some([only]) = self.scopes[home].bound.get(name).map(Vec::as_slice)
                    && *only < reader
                    && self.scope_in(*only) != Some(home)
                {
                    readers.entry(*only).or_default().insert(reader);
                }
            }
        }
        readers.into_iter().map(|(only, readers)| (only, readers.into_iter().collect())).collect()
    }

    /// Every statement that binds a name, in any scope, in program order.
    pub fn binders_of(&self, name: &str) -> Vec<StmtId> {
        let binds = |facts: &&(usize, &Facts)| facts.1.binds.contains(name);
        self.facts.iter().enumerate().filter(|pair| binds(&pair)).map(|(index, _)| StmtId::new(index)).collect()
    }
}

impl Scope {
    fn new(kind: ScopeKind, file: FileId, owner: Option<StmtId>, parent: Option<ScopeId>) -> Scope {
        Scope {
            kind,
            file,
            owner,
            parent,
            parameters: Vec::new(),
            bound: BTreeMap::new(),
            globals: BTreeMap::new(),
            nonlocals: BTreeMap::new(),
        }
    }
}

/// Whether a file puts the evaluation of annotations off.
fn is_lazy(program: &Program, file: FileId) -> bool {
    let imports =
        program.module(file).into_iter().flat_map(|module| module.body()).filter_map(Stmt::as_import_from_stmt);
    let mut future =
        imports.filter(|import| import.module.as_ref().is_some_and(|module| module.as_str() == "__future__"));
    future.any(|import| import.names.iter().any(|alias| alias.name.as_str() == "annotations"))
}

fn annotations(scope: &Scope, is_lazy: bool) -> Annotations {
    match scope.kind {
        _ if is_lazy => Annotations::Never,
        ScopeKind::Function => Annotations::Signatures,
        ScopeKind::Module | ScopeKind::Class => Annotations::All,
    }
}

/// The value that a statement gives a single name or attribute, where it is a plain assignment.
pub(crate) fn assigned_value(node: &Stmt) -> Option<&Expr> {
    match node {
        Stmt::Assign(assign)
            if assign.targets.iter().all(|target| !target.is_tuple_expr() && !target.is_list_expr()) =>
        {
            Some(&assign.value)
        }
        Stmt::AnnAssign(assign) => assign.value.as_deref(),
        _ => None,
    }
}

/// Whether a value is a container at its birth, so that methods that grow it define it.
pub(crate) fn is_container(value: &Expr) -> bool {
    match value {
        Expr::List(_) | Expr::Dict(_) | Expr::Set(_) | Expr::ListComp(_) | Expr::DictComp(_) | Expr::SetComp(_) => true,
        Expr::Call(call) => {
            let name = match &*call.func {
                Expr::Name(name) => name.id.as_str(),
                Expr::Attribute(attribute) => attribute.attr.as_str(),
                _ => "",
            };
            ["list", "dict", "set", "defaultdict", "OrderedDict", "Counter", "deque", "bytearray"].contains(&name)
        }
        _ => false,
    }
}

/// The arguments of a call in the order of the text, with their keywords.
pub(crate) fn arguments(call: &ast::ExprCall) -> impl Iterator<Item = (Option<&str>, &Expr)> {
    let positional = call.arguments.args.iter().map(|argument| (None, argument));
    let keywords = call.arguments.keywords.iter();
    positional.chain(keywords.map(|keyword| (keyword.arg.as_ref().map(|name| name.as_str()), &keyword.value)))
}
