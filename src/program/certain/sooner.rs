//! What every run that fails in the same way has come to before.
//!
//! Invariant: a statement is listed only if the way to the failure, through the same calls, leads past it whatever else is
//! gone: it stands before a call of that way in the same block or one around it, or in a function that such a statement
//! calls. Must not use the order of a run.

use std::collections::{BTreeMap, BTreeSet};

use super::super::names::Names;
use super::super::python::{Expr, Stmt};
use super::super::{Program, StmtId, StmtKind, infer};
use super::left::terminal;
use super::{Ran, exits, is_behind_exit, name_of, raises_on, sure};

/// The search for them.
pub(super) struct Sooner<'p> {
    program: &'p Program,
    names: &'p Names,
    ran: &'p Ran,
    /// For each function, and for each module by its file, the first statement of the way to the failure in it.
    way: BTreeMap<(u32, Option<StmtId>), StmtId>,
    known: BTreeMap<StmtId, bool>,
}

impl<'p> Sooner<'p> {
    /// The statements, of those that ran.
    pub(super) fn of(program: &'p Program, names: &'p Names, ran: &'p Ran) -> BTreeSet<StmtId> {
        let mut way = BTreeMap::new();
        for id in &ran.crash {
            let first = way.entry(place(program, *id)).or_insert(*id);
            *first = (*first).min(*id);
        }
        let mut sooner = Sooner { program, names, ran, way, known: BTreeMap::new() };
        ran.all().filter(|id| sooner.has(*id) && raises_on(program, *id)).collect()
    }

    fn has(&mut self, id: StmtId) -> bool {
        if let Some(known) = self.known.get(&id) {
            return *known;
        }
        // A call inside of itself proves nothing.
        self.known.insert(id, false);
        let is_sooner = self.is_straight(id) && self.is_called(id);
        self.known.insert(id, is_sooner);
        is_sooner
    }

    /// Whether a statement runs each time that its function is on the way, or is called.
    fn is_straight(&self, id: StmtId) -> bool {
        let way = self.way.get(&place(self.program, id)).copied();
        if way.is_some_and(|way| id > way) || is_behind_exit(self.program, id) {
            return false;
        }
        let mut inner = id;
        for up in self.program.ancestors(id) {
            match self.program.node(up) {
                Some(Stmt::FunctionDef(_)) => break,
                Some(Stmt::With(_) | Stmt::ClassDef(_)) => {}
                Some(Stmt::If(node)) if is_main(&node.test) => {}
                // The way leads into the same arm.
                Some(Stmt::If(_) | Stmt::For(_) | Stmt::While(_)) => {
                    let arm = self.program.statement(inner).arm;
                    let leads = way.is_some_and(|way| {
                        let mut arms = std::iter::once(way).chain(self.program.ancestors(way));
                        arms.any(|one| {
                            let one = self.program.statement(one);
                            one.parent == Some(up) && one.arm == arm
                        })
                    });
                    if !leads {
                        return false;
                    }
                }
                _ => return false,
            }
            if is_behind_exit(self.program, up) {
                return false;
            }
            inner = up;
        }
        true
    }

    /// Whether the function of a statement is on the way, or is called by a statement before it.
    fn is_called(&mut self, id: StmtId) -> bool {
        let Some(def) = self.program.enclosing_function(id) else { return true };
        if self.way.contains_key(&place(self.program, id)) {
            return true;
        }
        let callers: Vec<StmtId> =
            self.ran.calls.iter().filter(|(_, callee)| *callee == def).map(|(caller, _)| *caller).collect();
        callers.into_iter().any(|caller| self.calls_surely(caller, def) && self.has(caller))
    }

    /// Whether a statement, once it runs, is sure to call a function of the project.
    fn calls_surely(&self, caller: StmtId, def: StmtId) -> bool {
        let (Some(node), Some(name)) = (self.program.node(caller), name_of(self.program, def)) else { return false };
        let class = self.program.statement(def).parent.and_then(|up| match self.program.node(up) {
            Some(Stmt::ClassDef(class)) => Some(class.name.as_str()),
            _ => None,
        });
        // A round of the loop that leads to the failure has taken an item first.
        let takes_item = matches!(node, Stmt::For(_)) && ["__getitem__", "__next__", "__iter__"].contains(&name);
        if takes_item && self.ran.crash.iter().any(|id| self.program.statement(caller).contains(*id)) {
            return true;
        }
        // An `__init__` is called by the name of its class.
        let name = if name == "__init__" { class.unwrap_or(name) } else { name };
        let is_property = matches!(self.program.node(def), Some(Stmt::FunctionDef(def)) if infer::is_property(def));
        let is_only = self.names.binders_of(name).len() == 1;
        let on_way = self.ran.crash.contains(&caller);
        let events = sure::events(node, &|_| on_way, &|_| false);
        is_only
            && events.iter().any(|event| match event.expression {
                Expr::Call(call) => terminal(&call.func) == Some(name),
                Expr::Attribute(one) => is_property && one.attr.as_str() == name,
                _ => false,
            })
    }
}

fn place(program: &Program, id: StmtId) -> (u32, Option<StmtId>) {
    let file = program.statement(id).file;
    (u32::try_from(file.index()).unwrap_or(u32::MAX), program.enclosing_function(id))
}

fn is_main(test: &Expr) -> bool {
    let Expr::Compare(test) = test else { return false };
    test.left.as_name_expr().is_some_and(|left| left.id == *"__name__")
}

/// What follows a statement without fail, until it may come to the failure or leave the block.
pub(super) fn behind(program: &Program, id: StmtId, may_fail: &dyn Fn(StmtId) -> bool) -> Vec<StmtId> {
    let mut found = Vec::new();
    let mut at = id;
    'out: loop {
        let own = program.statement(at);
        let beside = program
            .statements()
            .iter()
            .filter(|one| one.parent == own.parent && one.file == own.file && one.arm == own.arm && one.id > at);
        for next in beside {
            found.push(next.id);
            if may_fail(next.id) || exits(program, next.id) {
                break 'out;
            }
        }
        match own.parent {
            Some(up) if matches!(program.statement(up).kind, StmtKind::With | StmtKind::If) => at = up,
            _ => break,
        }
    }
    found
}
