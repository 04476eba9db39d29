//! Draws the edges of the dependency graph.
//!
//! Invariant: both ends of an edge ran. Precise edges before sound ones: a use goes to the definitions that reached it in
//! the trace, an attribute to the stores of the receiver's class where that is known, a call to what it ran.
//! Must not know the graph's container.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use super::flow::{Need, Observed, Provenance, Strength};
use super::infer::Kind;
use super::modules;
use super::names::{self, Access, Change, Names, ScopeKind, Step};
use super::parse::Program;
use super::python::{Expr, Stmt};
use super::reach::{Defs, Reach, Weak};
use super::statement::{FileId, StmtId, StmtKind};
use super::walk;

/// A statement that gives an attribute its value, or changes the object in it.
#[derive(Clone, Debug)]
pub(crate) struct Attribute {
    pub(crate) by: StmtId,
    /// The classes whose instances have it; empty where that is not known.
    pub(crate) owner: BTreeSet<StmtId>,
    /// Whether it sets the attribute, rather than changing the object in it.
    pub(crate) is_whole: bool,
    pub(crate) is_method: bool,
    /// Whether it declares a command line option.
    pub(crate) is_option: bool,
    pub(crate) strength: Strength,
}

/// What the graph is made of.
pub(crate) struct Linked {
    pub(crate) needs: BTreeSet<(StmtId, StmtId, Need)>,
    pub(crate) attributes: BTreeMap<String, Vec<StmtId>>,
}

/// The edges in the making.
pub(crate) struct Linker<'a> {
    pub(crate) program: &'a Program,
    pub(crate) names: &'a Names,
    pub(crate) observed: &'a Observed,
    pub(crate) reach: Reach,
    pub(crate) attributes: BTreeMap<String, Vec<Attribute>>,
    /// The statements that hand a function's values out.
    pub(crate) returns: BTreeMap<StmtId, Vec<StmtId>>,
    pub(crate) bases: BTreeMap<StmtId, BTreeSet<StmtId>>,
    /// What is left of one question about kinds.
    pub(crate) budget: Cell<u32>,
    needs: BTreeSet<(StmtId, StmtId, Need)>,
}

/// Draws all edges.
pub(crate) fn link(program: &Program, names: &Names, observed: &Observed) -> Linked {
    let reach = Reach::of(program, names, observed);
    let mut linker = Linker {
        program,
        names,
        observed,
        reach,
        attributes: BTreeMap::new(),
        returns: BTreeMap::new(),
        bases: BTreeMap::new(),
        budget: Cell::new(0),
        needs: BTreeSet::new(),
    };
    linker.collect();
    for statement in program.statements() {
        if let Some(parent) = statement.parent {
            linker.hard(statement.id, parent, Provenance::Containment);
        }
    }
    let ran: Vec<StmtId> =
        observed.executed.iter().copied().filter(|id| id.index() < program.statements().len()).collect();
    for &id in &ran {
        linker.names_of(id);
        linker.imports_of(id);
        linker.attributes_of(id);
        linker.calls_of(id);
        linker.generators_of(id);
        linker.effects_of(id);
    }
    linker.crash();
    linker.idioms();
    let attributes = linker.attributes.iter().map(|(name, all)| {
        let mut by: Vec<StmtId> = all.iter().map(|attribute| attribute.by).collect();
        by.dedup();
        (name.clone(), by)
    });
    Linked { attributes: attributes.collect(), needs: linker.needs }
}

impl<'a> Linker<'a> {
    pub(crate) fn need(&mut self, from: StmtId, to: StmtId, strength: Strength, provenance: Provenance) {
        if from != to && (self.observed.ran(to) || provenance == Provenance::Containment) {
            self.needs.insert((from, to, Need { strength, provenance }));
        }
    }

    pub(crate) fn hard(&mut self, from: StmtId, to: StmtId, provenance: Provenance) {
        self.need(from, to, Strength::Hard, provenance);
    }

    pub(crate) fn soft(&mut self, from: StmtId, to: StmtId, provenance: Provenance) {
        self.need(from, to, Strength::Soft, provenance);
    }

    /// Attributes, returns and bases of everything that ran.
    fn collect(&mut self) {
        let ran: Vec<StmtId> = self.observed.executed.iter().copied().collect();
        for &id in &ran {
            let scope = &self.names.scopes[self.names.scope_of(id)];
            let Some(owner) = scope.owner else { continue };
            match scope.kind {
                ScopeKind::Class => {
                    for name in &self.names.facts(id).binds {
                        let is_method = self.program.statement(id).kind == StmtKind::FunctionDef;
                        self.attributes.entry(name.clone()).or_default().push(Attribute {
                            by: id,
                            owner: BTreeSet::from([owner]),
                            is_whole: true,
                            is_method,
                            is_option: false,
                            strength: Strength::Hard,
                        });
                    }
                }
                _ if self.program.statement(id).kind == StmtKind::Return || self.names.facts(id).yields => {
                    self.returns.entry(owner).or_default().push(id);
                }
                _ => {}
            }
        }
        for &id in &ran {
            let Some(Stmt::ClassDef(class)) = self.program.node(id) else { continue };
            let bases = class.arguments.iter().flat_map(|arguments| arguments.args.iter());
            let found = bases.filter_map(|base| match self.kind_of_value(id, base) {
                Kind::Class(class) => Some(class),
                _ => None,
            });
            let found = found.collect();
            self.bases.insert(id, found);
        }
        // Stores on the method's own object first: what other objects are is told by these.
        let mut others = Vec::new();
        for &id in &ran {
            for store in self.names.facts(id).stores.clone() {
                let is_own = store
                    .object
                    .root
                    .as_deref()
                    .is_some_and(|root| self.names.receiver(id).is_some_and(|(_, own)| own == root));
                if is_own { self.store(id, &store) } else { others.push((id, store)) }
            }
        }
        others.iter().for_each(|(id, store)| self.store(*id, store));
        self.options();
    }

    /// A store that sets an attribute, or changes the object in one.
    fn store(&mut self, id: StmtId, store: &names::Store) {
        let Access { root, steps } = &store.object;
        let (name, receiver, is_whole, strength) = match (&store.step, store.change) {
            (Some(Step::Attribute(name)), Change::Attribute) => (name.clone(), steps.len(), true, Strength::Hard),
            _ => {
                let last = steps.iter().rposition(|step| matches!(step, Step::Attribute(_)));
                let Some((last, Step::Attribute(name))) = last.map(|last| (last, &steps[last])) else { return };
                let strength = match store.change {
                    Change::Item | Change::Whole | Change::Grow | Change::Attribute => Strength::Hard,
                    Change::Maybe if self.holds_container(name) => Strength::Hard,
                    Change::Maybe | Change::Effect => Strength::Soft,
                };
                (name.clone(), last, false, strength)
            }
        };
        let owner = match self.kind_of(id, root.as_deref(), &steps[..receiver]) {
            Kind::Instance(classes) => classes,
            Kind::Class(class) => BTreeSet::from([class]),
            _ => BTreeSet::new(),
        };
        let attribute = Attribute { by: id, owner, is_whole, is_method: false, is_option: false, strength };
        self.attributes.entry(name).or_default().push(attribute);
    }

    fn holds_container(&self, attribute: &str) -> bool {
        let stores = self.attributes.get(attribute).into_iter().flatten().filter(|store| store.is_whole);
        stores
            .filter_map(|store| self.program.node(store.by))
            .filter_map(names::assigned_value)
            .any(names::is_container)
    }

    /// The definitions of a name that reach a statement's use of it.
    pub(crate) fn definitions(&self, at: StmtId, name: &str) -> Defs {
        let scope = self.names.scope_of(at);
        let Some(home) = self.names.home_of_use(scope, name) else {
            let file = self.program.statement(at).file;
            let strong = self.star_imports(file).filter(|&(_, source)| self.exports(source, name));
            return Defs { strong: strong.map(|(import, _)| import).collect(), weak: BTreeSet::new() };
        };
        let is_class = self.names.scopes[scope].kind == ScopeKind::Class;
        let here = self.reach.uses.get(&at).and_then(|uses| uses.get(name)).filter(|_| home == scope);
        // A class body reads the name from outside until it binds it.
        let outside = || {
            let parent = self.names.scopes[scope].parent.filter(|_| home == scope && is_class)?;
            self.reach.exits[parent].get(name)
        };
        let known = here.or_else(outside).or_else(|| self.reach.exits[home].get(name));
        let mut defs = known.cloned().unwrap_or_default();
        // Functions that declare the name `global` or `nonlocal` bind it as well; without any other, so does what ran.
        let is_elsewhere = |id: &StmtId| self.names.scope_of(*id) != home && self.names.scope_in(*id) != Some(home);
        let bound = self.names.scopes[home].bound.get(name).into_iter().flatten().copied();
        let mut others: Vec<StmtId> = bound.filter(|id| self.observed.ran(*id)).collect();
        if !defs.strong.is_empty() {
            others.retain(is_elsewhere);
        }
        defs.strong.extend(others);
        if let Some(weak) = self.reach.foreign.get(&(home, name.to_owned())) {
            defs.weak.extend(weak.iter().cloned());
        }
        defs
    }

    fn star_imports(&self, file: FileId) -> impl Iterator<Item = (StmtId, FileId)> + '_ {
        let statements =
            self.program.statements_in(file).iter().filter(|statement| statement.kind == StmtKind::ImportFrom);
        statements.filter_map(move |statement| match self.program.node(statement.id) {
            Some(Stmt::ImportFrom(import)) if import.names.iter().any(|alias| alias.name.as_str() == "*") => {
                Some((statement.id, modules::source_of(self.program, file, import)?))
            }
            _ => None,
        })
    }

    /// Whether a module has a name at its top level.
    pub(crate) fn exports(&self, file: FileId, name: &str) -> bool {
        !self.module_definitions(file, name, 6).is_empty()
    }

    /// The statements that give a module's name its value at the end.
    pub(crate) fn module_definitions(&self, file: FileId, name: &str, fuel: u32) -> BTreeSet<StmtId> {
        let module = self.names.module(file);
        if let Some(defs) = self.reach.exits[module].get(name) {
            return defs.strong.clone();
        }
        let bound = self.names.scopes[module].bound.get(name).into_iter().flatten().copied();
        let mut found: BTreeSet<StmtId> = bound.filter(|&id| self.observed.ran(id)).collect();
        if let (true, Some(fuel)) = (found.is_empty(), fuel.checked_sub(1)) {
            let stars: Vec<(StmtId, FileId)> = self.star_imports(file).collect();
            for (import, source) in stars {
                let inner = if source == file { BTreeSet::new() } else { self.module_definitions(source, name, fuel) };
                if !inner.is_empty() {
                    found.insert(import);
                    found.extend(inner);
                }
            }
        }
        found
    }

    fn names_of(&mut self, id: StmtId) {
        let facts = self.names.facts(id);
        for access in &facts.loads {
            let Some(root) = &access.root else { continue };
            let defs = self.definitions(id, root);
            for &def in &defs.strong {
                let kind = self.program.statement(def).kind;
                let provenance = match kind {
                    StmtKind::Import | StmtKind::ImportFrom => Provenance::Import,
                    StmtKind::ClassDef => Provenance::Class,
                    _ => Provenance::Name,
                };
                self.hard(id, def, provenance);
                if matches!(kind, StmtKind::Import | StmtKind::ImportFrom) {
                    self.through_import(id, def, root, &access.steps);
                }
            }
            for weak in &defs.weak {
                if reads(access, weak) {
                    let is_setting = weak.strength == Strength::Soft;
                    let provenance = if is_setting { Provenance::Setting } else { Provenance::Mutation };
                    self.need(id, weak.by, weak.strength, provenance);
                }
            }
        }
        let scope = &self.names.scopes[self.names.scope_of(id)];
        for name in &facts.binds {
            let declared = scope.globals.get(name).or_else(|| scope.nonlocals.get(name)).copied();
            if let Some(declared) = declared {
                self.hard(id, declared, Provenance::Name);
            }
        }
        if self.program.statement(id).kind == StmtKind::Nonlocal {
            let declared: Vec<&String> =
                scope.nonlocals.iter().filter(|&(_, &by)| by == id).map(|(name, _)| name).collect();
            for name in declared {
                // Without a binding outside, the declaration is a syntax error.
                let outside = scope.parent.and_then(|parent| self.names.home_of_use(parent, name));
                let bound = outside.and_then(|home| self.names.scopes[home].bound.get(name)?.first().copied());
                if let Some(bound) = bound {
                    self.hard(id, bound, Provenance::Name);
                }
            }
        }
    }

    /// What an access through an imported module of the project reads there.
    fn through_import(&mut self, id: StmtId, import: StmtId, root: &str, steps: &[Step]) {
        let file = self.program.statement(import).file;
        let mut module = match self.program.node(import) {
            Some(Stmt::ImportFrom(node)) if node.names.iter().any(|alias| alias.name.as_str() == "*") => {
                if let Some(source) = modules::source_of(self.program, file, node) {
                    for def in self.module_definitions(source, root, 6) {
                        self.hard(id, def, Provenance::Import);
                    }
                }
                return;
            }
            Some(_) => match self.kind_of(id, Some(root), &[]) {
                Kind::Module(module) => module,
                _ => return,
            },
            None => return,
        };
        let mut rest = steps;
        while let Some((Step::Attribute(name), next)) = rest.split_first() {
            let defs = self.module_definitions(module, name, 6);
            for &def in &defs {
                self.hard(id, def, Provenance::Import);
            }
            let path = self.program.path(module);
            let package = path.strip_suffix("__init__.py");
            let inner = package.and_then(|_| modules::find(self.program, module, 1, name)).filter(|_| defs.is_empty());
            match inner {
                Some(inner) => (module, rest) = (inner, next),
                None => return,
            }
        }
    }

    /// What an import statement needs in the project: the names that it takes.
    fn imports_of(&mut self, id: StmtId) {
        let file = self.program.statement(id).file;
        let Some(Stmt::ImportFrom(import)) = self.program.node(id) else { return };
        let Some(source) = modules::source_of(self.program, file, import) else { return };
        for alias in &import.names {
            for def in self.module_definitions(source, &alias.name, 6) {
                self.hard(id, def, Provenance::Import);
            }
        }
    }

    /// What a statement calls, and what it uses of the answers.
    fn calls_of(&mut self, id: StmtId) {
        let callees: Vec<StmtId> = self.observed.callees(id).collect();
        for callee in callees {
            match self.program.node(callee) {
                Some(Stmt::FunctionDef(def)) => {
                    self.hard(id, callee, Provenance::Call);
                    let name = def.name.as_str();
                    let is_bare = match self.program.node(id) {
                        Some(Stmt::Expr(bare)) => match &*bare.value {
                            Expr::Call(call) => walk::callee_name(call) == name,
                            _ => false,
                        },
                        _ => false,
                    };
                    if name != "__init__" && !is_bare {
                        for returned in self.returns.get(&callee).cloned().unwrap_or_default() {
                            self.hard(id, returned, Provenance::Return);
                        }
                    }
                }
                // The body of a lambda; the code of modules and classes has edges of its own.
                Some(node) if walk::has_lambda(node) => self.hard(id, callee, Provenance::Call),
                _ => {}
            }
        }
    }

    /// A trace shows only the first start of a generator: who makes or runs over one needs what it yields.
    fn generators_of(&mut self, id: StmtId) {
        let mut made = BTreeSet::new();
        for access in &self.names.facts(id).loads {
            for (index, _) in access.steps.iter().enumerate().filter(|(_, step)| **step == Step::Call) {
                if let Kind::Function(def) = self.kind_of(id, access.root.as_deref(), &access.steps[..index]) {
                    made.insert(def);
                }
            }
        }
        let over = match self.program.node(id) {
            Some(Stmt::For(each)) => self.kind_of_value(id, &each.iter),
            _ => Kind::Nothing,
        };
        if let Kind::Instance(classes) = over {
            let related = self.related(&classes);
            let iterators = self.attributes.get("__iter__").into_iter().flatten();
            made.extend(iterators.filter(|method| !method.owner.is_disjoint(&related)).map(|method| method.by));
        }
        for def in made {
            let yields = self.returns.get(&def).cloned().unwrap_or_default();
            if yields.iter().any(|&id| self.names.facts(id).yields) {
                self.hard(id, def, Provenance::Call);
                yields.into_iter().for_each(|by| self.hard(id, by, Provenance::Return));
            }
        }
    }

    /// A statement that changes what others see needs the call that ran it.
    fn effects_of(&mut self, id: StmtId) {
        let scope = &self.names.scopes[self.names.scope_of(id)];
        let (ScopeKind::Function, Some(owner)) = (scope.kind, scope.owner) else { return };
        let is_init =
            matches!(self.program.node(owner), Some(Stmt::FunctionDef(def)) if def.name.as_str() == "__init__");
        let facts = self.names.facts(id);
        let escapes = facts.stores.iter().any(|store| {
            let is_local = store.object.root.as_ref().is_some_and(|root| scope.bound.contains_key(root));
            let is_attribute = store.change == Change::Attribute
                || store.object.steps.iter().any(|step| matches!(step, Step::Attribute(_)));
            store.change != Change::Effect && (is_attribute || !is_local)
        });
        let is_global =
            facts.binds.iter().any(|name| scope.globals.contains_key(name) || scope.nonlocals.contains_key(name));
        if is_global || escapes && !is_init {
            for (index, caller) in self.observed.callers(owner).into_iter().enumerate() {
                let is_sure = index == 0 || self.observed.callers(owner).len() <= 3;
                let strength = if is_sure { Strength::Hard } else { Strength::Soft };
                self.need(id, caller, strength, Provenance::Call);
            }
        }
    }

    /// The stack at the crash: each statement needs the one that called it.
    fn crash(&mut self) {
        let crash = self.observed.crash.clone();
        for pair in crash.windows(2) {
            self.hard(pair[1], pair[0], Provenance::Call);
        }
    }
}

/// Whether an access reads what a change changed.
fn reads(access: &Access, weak: &Weak) -> bool {
    match (access.steps.first(), &weak.part) {
        (Some(Step::Key(read)), Some(Step::Key(written))) => read == written,
        _ => true,
    }
}
