//! Which executed bindings reach a use inside one scope.
//!
//! Invariant: only executed statements define; a use sees the bindings of every executed path that leads to it. Precise
//! before sound: a branch that was always taken hides what stood before it. Must not cross a call.

use std::collections::{BTreeMap, BTreeSet};

use super::flow::{Observed, Strength};
use super::names::{self, Change, Names, ScopeId, Step, Store};
use super::parse::Program;
use super::python::Stmt;
use super::statement::{Arm, StmtId, StmtKind};

/// A statement that changes an object in place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Weak {
    pub(crate) by: StmtId,
    pub(crate) strength: Strength,
    /// The part of the object that changes, where it is known.
    pub(crate) part: Option<Step>,
}

/// The bindings that reach a point, and the changes since.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Defs {
    pub(crate) strong: BTreeSet<StmtId>,
    pub(crate) weak: BTreeSet<Weak>,
}

pub(crate) type Env = BTreeMap<String, Defs>;

/// What reaches every use, and what leaves every scope.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    /// The definitions that reach each statement's loads of names of its own scope.
    pub(crate) uses: BTreeMap<StmtId, Env>,
    /// What holds where a scope is left, or at the crash.
    pub(crate) exits: Vec<Env>,
    /// Changes of a scope's objects by statements of other scopes.
    pub(crate) foreign: BTreeMap<(ScopeId, String), BTreeSet<Weak>>,
}

impl Reach {
    /// Follows every scope that ran.
    pub(crate) fn of(program: &Program, names: &Names, observed: &Observed) -> Reach {
        let mut reach = Reach { exits: vec![Env::new(); names.scopes.len()], ..Reach::default() };
        let changed = changed_parameters(program, names, observed);
        for scope in 0..names.scopes.len() {
            let aliases = aliases(program, names, observed, scope);
            let mut walk = Walk {
                program,
                names,
                observed,
                changed: &changed,
                scope,
                aliases,
                reach: &mut reach,
                loops: Vec::new(),
                guards: Vec::new(),
            };
            walk.scope();
        }
        reach
    }
}

/// Parameters that a function changes in place, with the statements that do it, and whether only a container changes so.
type Changed = BTreeMap<StmtId, BTreeMap<String, Vec<(StmtId, bool)>>>;

fn changed_parameters(program: &Program, names: &Names, observed: &Observed) -> Changed {
    let mut changed = Changed::new();
    for id in observed.executed.iter().copied().filter(|id| id.index() < program.statements().len()) {
        let scope = &names.scopes[names.scope_of(id)];
        let Some(owner) = scope.owner else { continue };
        for store in &names.facts(id).stores {
            let is_part = !store.object.steps.iter().any(|step| matches!(step, Step::Attribute(_)));
            let is_real = !matches!(store.change, Change::Effect | Change::Attribute);
            match &store.object.root {
                Some(root) if is_part && is_real && scope.parameters.contains(root) => {
                    changed
                        .entry(owner)
                        .or_default()
                        .entry(root.clone())
                        .or_default()
                        .push((id, store.change == Change::Maybe));
                }
                _ => {}
            }
        }
    }
    changed
}

/// For each name of a scope the other names that hold (a part of) the same object.
fn aliases(
    program: &Program,
    names: &Names,
    observed: &Observed,
    scope: ScopeId,
) -> BTreeMap<String, BTreeSet<String>> {
    let mut aliases: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for statement in program.statements() {
        if names.scope_of(statement.id) == scope && observed.ran(statement.id) {
            for (name, access) in &names.facts(statement.id).aliases {
                let is_plain = !access.steps.iter().any(|step| matches!(step, Step::Attribute(_)));
                if let (Some(root), true) = (&access.root, is_plain && access.root.as_ref() != Some(name)) {
                    aliases.entry(name.clone()).or_default().insert(root.clone());
                }
            }
        }
    }
    aliases
}

struct Walk<'a> {
    program: &'a Program,
    names: &'a Names,
    observed: &'a Observed,
    changed: &'a Changed,
    scope: ScopeId,
    aliases: BTreeMap<String, BTreeSet<String>>,
    reach: &'a mut Reach,
    /// What holds at the `break`s and `continue`s of the loops around.
    loops: Vec<(Option<Env>, Option<Env>)>,
    /// What may hold where an exception leaves the `try` bodies around.
    guards: Vec<Option<Env>>,
}

impl Walk<'_> {
    fn scope(&mut self) {
        let scope = &self.names.scopes[self.scope];
        let mut env = Env::new();
        let body: Vec<StmtId> = match scope.owner {
            Some(owner) => {
                for parameter in &scope.parameters {
                    env.insert(parameter.clone(), Defs { strong: BTreeSet::from([owner]), weak: BTreeSet::new() });
                }
                self.program.children(owner).map(|child| child.id).collect()
            }
            None => {
                let all = self.program.statements_in(scope.file).iter();
                all.filter(|statement| statement.parent.is_none()).map(|statement| statement.id).collect()
            }
        };
        if let Some(end) = self.block(&body, Some(env)) {
            self.leave(&end);
        }
    }

    fn leave(&mut self, env: &Env) {
        let exit = &mut self.reach.exits[self.scope];
        merge(exit, env);
    }

    fn arm(&self, id: StmtId, arm: Arm) -> Vec<StmtId> {
        self.program.children(id).filter(|child| child.arm == arm).map(|child| child.id).collect()
    }

    fn ran(&self, body: &[StmtId]) -> bool {
        body.iter().any(|&id| self.observed.ran(id))
    }

    fn block(&mut self, body: &[StmtId], mut env: Option<Env>) -> Option<Env> {
        for &id in body {
            let here = env.take()?;
            env = if self.observed.ran(id) { self.statement(id, here) } else { Some(here) };
        }
        env
    }

    fn statement(&mut self, id: StmtId, mut env: Env) -> Option<Env> {
        if let Some(guard) = self.guards.last_mut() {
            join(guard, Some(env.clone()));
        }
        self.record(id, &env);
        if self.observed.crash.contains(&id) {
            self.leave(&env);
        }
        match self.program.statement(id).kind {
            StmtKind::If => self.branch(id, env),
            StmtKind::Match => self.cases(id, env),
            StmtKind::For | StmtKind::While => self.repeat(id, env),
            StmtKind::Try => self.guard(id, env),
            StmtKind::With => {
                self.apply(id, &mut env);
                let body = self.arm(id, Arm::Body);
                self.block(&body, Some(env))
            }
            StmtKind::Return | StmtKind::Raise => {
                self.apply(id, &mut env);
                self.leave(&env);
                None
            }
            StmtKind::Break => {
                if let Some(around) = self.loops.last_mut() {
                    join(&mut around.0, Some(env));
                }
                None
            }
            StmtKind::Continue => {
                if let Some(around) = self.loops.last_mut() {
                    join(&mut around.1, Some(env));
                }
                None
            }
            _ => {
                self.apply(id, &mut env);
                Some(env)
            }
        }
    }

    /// Notes what reaches the loads of a statement.
    fn record(&mut self, id: StmtId, env: &Env) {
        let roots = self.names.facts(id).loads.iter().filter_map(|access| access.root.as_deref());
        let uses = self.reach.uses.entry(id).or_default();
        for root in roots {
            if let Some(defs) = env.get(root) {
                let known = uses.entry(root.to_owned()).or_default();
                known.strong.extend(&defs.strong);
                known.weak.extend(defs.weak.iter().cloned());
            }
        }
    }

    /// What a statement binds and changes.
    fn apply(&mut self, id: StmtId, env: &mut Env) {
        let facts = self.names.facts(id);
        for store in &facts.stores {
            self.change(id, store, env);
        }
        for weak in self.changes_by_calls(id, env) {
            let (name, weak) = weak;
            self.touch(&name, weak, env);
        }
        for name in &facts.binds {
            let scope = &self.names.scopes[self.scope];
            if !scope.globals.contains_key(name) && !scope.nonlocals.contains_key(name) {
                env.insert(name.clone(), Defs { strong: BTreeSet::from([id]), weak: BTreeSet::new() });
            }
        }
    }

    fn change(&mut self, id: StmtId, store: &Store, env: &mut Env) {
        let Some(root) = &store.object.root else { return };
        let attribute = store.object.steps.iter().position(|step| matches!(step, Step::Attribute(_)));
        let strength = match store.change {
            _ if attribute.is_some() => return,
            Change::Item | Change::Whole | Change::Grow => Strength::Hard,
            Change::Maybe if self.is_container(root, env) => Strength::Hard,
            Change::Attribute | Change::Maybe | Change::Effect => Strength::Soft,
        };
        let part = store.object.steps.first().or(store.step.as_ref()).cloned();
        self.touch(root, Weak { by: id, strength, part }, env);
    }

    fn is_container(&self, name: &str, env: &Env) -> bool {
        let births = match env.get(name) {
            Some(defs) => defs.strong.iter().copied().collect(),
            None => self
                .names
                .home_of_use(self.scope, name)
                .map_or(Vec::new(), |home| self.names.scopes[home].bound.get(name).cloned().unwrap_or_default()),
        };
        births
            .into_iter()
            .filter_map(|birth| self.program.node(birth))
            .filter_map(names::assigned_value)
            .any(names::is_container)
    }

    /// Adds a change of a name's object, and of the objects that it is a part of.
    fn touch(&mut self, name: &str, weak: Weak, env: &mut Env) {
        let mut seen = BTreeSet::new();
        let mut queue = vec![(name.to_owned(), weak)];
        while let Some((name, weak)) = queue.pop() {
            if !seen.insert(name.clone()) {
                continue;
            }
            for whole in self.aliases.get(&name).into_iter().flatten() {
                queue.push((whole.clone(), Weak { part: None, ..weak.clone() }));
            }
            match env.get_mut(&name) {
                Some(defs) => {
                    defs.weak.insert(weak);
                }
                None => {
                    if let Some(home) = self.names.home_of_use(self.scope, &name).filter(|&home| home != self.scope) {
                        self.reach.foreign.entry((home, name)).or_default().insert(weak);
                    }
                }
            }
        }
    }

    /// Changes that calls in a statement make to the objects they are given.
    fn changes_by_calls(&self, id: StmtId, env: &Env) -> Vec<(String, Weak)> {
        let mut changes = Vec::new();
        for callee in self.observed.callees(id) {
            let Some(parameters) = self.changed.get(&callee) else { continue };
            for (parameter, argument) in super::arguments::matched_arguments(self.program, self.names, id, callee) {
                let (Some(by), Some(access)) = (parameters.get(&parameter), super::walk::place(argument)) else {
                    continue;
                };
                if let (Some(root), true) = (access.root, access.steps.is_empty()) {
                    let is_container = self.is_container(&root, env);
                    for &(by, is_maybe) in by {
                        let strength = if is_maybe && !is_container { Strength::Soft } else { Strength::Hard };
                        for by in [by, id] {
                            changes.push((root.clone(), Weak { by, strength, part: None }));
                        }
                    }
                }
            }
        }
        changes
    }

    fn branch(&mut self, id: StmtId, mut env: Env) -> Option<Env> {
        self.apply(id, &mut env);
        let Some(Stmt::If(test)) = self.program.node(id) else { return Some(env) };
        let mut arms = vec![Arm::Body];
        for (n, clause) in test.elif_else_clauses.iter().enumerate() {
            arms.push(if clause.test.is_some() { Arm::Elif(u16::try_from(n).unwrap_or(u16::MAX)) } else { Arm::Else });
        }
        let mut after = None;
        let mut taken = 0;
        let mut ran = 0;
        for &arm in &arms {
            let body = self.arm(id, arm);
            if self.ran(&body) {
                ran += 1;
                taken += body.first().map_or(0, |&first| self.observed.count(first));
                let end = self.block(&body, Some(env.clone()));
                join(&mut after, end);
            }
        }
        let is_exhaustive = ran > 0 && arms.contains(&Arm::Else) || taken > 0 && taken >= self.observed.count(id);
        if !is_exhaustive {
            join(&mut after, Some(env));
        }
        after
    }

    fn cases(&mut self, id: StmtId, mut env: Env) -> Option<Env> {
        self.apply(id, &mut env);
        let Some(Stmt::Match(subject)) = self.program.node(id) else { return Some(env) };
        let mut after = None;
        let mut ran = false;
        for n in 0..subject.cases.len() {
            let body = self.arm(id, Arm::Case(u16::try_from(n).unwrap_or(u16::MAX)));
            if self.ran(&body) {
                ran = true;
                let end = self.block(&body, Some(env.clone()));
                join(&mut after, end);
            }
        }
        if ran { after } else { Some(env) }
    }

    fn repeat(&mut self, id: StmtId, env: Env) -> Option<Env> {
        let body = self.arm(id, Arm::Body);
        let is_endless = matches!(self.program.node(id), Some(Stmt::While(each)) if is_true(&each.test));
        let mut back: Option<Env> = None;
        let mut breaks = None;
        if self.ran(&body) {
            for _ in 0..4 {
                let mut start = Some(env.clone());
                join(&mut start, back.clone());
                let mut start = start.unwrap_or_default();
                self.record(id, &start);
                self.apply(id, &mut start);
                self.loops.push((None, None));
                let mut end = self.block(&body, Some(start));
                let (out, next) = self.loops.pop().unwrap_or_default();
                join(&mut end, next);
                join(&mut breaks, out);
                if end == back {
                    break;
                }
                join(&mut back, end);
            }
        }
        let mut after = match back {
            _ if is_endless => None,
            Some(back) => {
                self.record(id, &back);
                Some(back)
            }
            // The body never came to its end: the loop was left inside, or did not run.
            None if self.ran(&body) && breaks.is_some() => None,
            None => Some(env),
        };
        let orelse = self.arm(id, Arm::Else);
        if self.ran(&orelse) {
            after = self.block(&orelse, after);
        }
        join(&mut after, breaks);
        after
    }

    fn guard(&mut self, id: StmtId, mut env: Env) -> Option<Env> {
        let Some(Stmt::Try(guard)) = self.program.node(id) else { return Some(env) };
        let body = self.arm(id, Arm::Body);
        self.guards.push(None);
        let mut after = self.block(&body, Some(env.clone()));
        let caught = self.guards.pop().flatten();
        if body.last().is_some_and(|&last| !self.observed.ran(last)) {
            after = None;
        }
        let orelse = self.arm(id, Arm::Else);
        after = self.block(&orelse, after);
        if let (Some(outer), Some(caught)) = (self.guards.last_mut(), &caught) {
            join(outer, Some(caught.clone()));
        }
        for n in 0..guard.handlers.len() {
            let handler = self.arm(id, Arm::Handler(u16::try_from(n).unwrap_or(u16::MAX)));
            if self.ran(&handler) {
                let mut start = caught.clone().unwrap_or_else(|| env.clone());
                self.apply(id, &mut start);
                let end = self.block(&handler, Some(start));
                join(&mut after, end);
            }
        }
        let last = self.arm(id, Arm::Finally);
        if self.ran(&last) {
            if after.is_none() {
                // Left by an exception or a return: the bindings inside still reach the `finally`.
                let mut start = caught.unwrap_or_else(|| std::mem::take(&mut env));
                merge(&mut start, &env);
                self.block(&last, Some(start));
                return None;
            }
            after = self.block(&last, after);
        }
        after
    }
}

fn is_true(test: &super::python::Expr) -> bool {
    use super::python::Expr;
    match test {
        Expr::BooleanLiteral(literal) => literal.value,
        Expr::NumberLiteral(_) => super::walk::literal(test).is_some_and(|text| text != "0"),
        _ => false,
    }
}

fn merge(into: &mut Env, from: &Env) {
    for (name, defs) in from {
        match into.get_mut(name) {
            Some(known) => {
                known.strong.extend(&defs.strong);
                known.weak.extend(defs.weak.iter().cloned());
            }
            None => {
                into.insert(name.clone(), defs.clone());
            }
        }
    }
}

fn join(into: &mut Option<Env>, from: Option<Env>) {
    match (into.as_mut(), from) {
        (Some(into), Some(from)) => merge(into, &from),
        (None, Some(from)) => *into = Some(from),
        (_, None) => {}
    }
}
