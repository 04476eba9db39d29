//! Which removals are certain to lose the failure, so that they need no run.
//!
//! Owns what is inferred without a run: names, attributes, values that become `None`, options, functions out of reach.
//! Invariant: it errs on the side of a run. A fault counts only where Python is sure to come to it before the failure, in a
//! program without handlers; a rule that finds a fault in the program as it is has misread it and is not asked again.

mod again;
mod checks;
mod kinds;
mod left;
mod library;
mod live;
mod names;
mod options;
mod quiet;
mod sooner;
mod sure;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use self::checks::{Checks, Fault};
use self::kinds::{At, Kind, Kinds};
use self::left::terminal;
use self::live::Mentions;
use self::names::SureReads;
pub(super) use self::names::is_builtin;
use self::sooner::Sooner;
use super::names::Names;
use super::python::visitor::{self, Visitor};
use super::python::{Expr, Stmt};
use super::{Arm, Program, StmtId, StmtKind};

/// What a run of the program showed.
#[derive(Clone, Debug, Default)]
pub struct Ran {
    /// The statements that ran, for the first time, no later than the failing one.
    pub before: BTreeSet<StmtId>,
    /// The statements that ran before the failure.
    pub ran: BTreeSet<StmtId>,
    /// The statements on the stack at the failure, outermost first; the last one failed.
    pub crash: Vec<StmtId>,
    /// Who called whom: the calling statement and the function.
    pub calls: Vec<(StmtId, StmtId)>,
    /// The program's arguments.
    pub argv: Vec<String>,
    /// Which program it was that ran.
    pub of: Of,
}

/// Which program a run was of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Of {
    /// A larger one, that fails in the same way: what stands under a condition may not run now.
    #[default]
    Larger,
    /// This very program.
    This,
}

impl Ran {
    /// Whether a statement ran before the failure.
    fn has(&self, id: StmtId) -> bool {
        self.before.contains(&id) || self.ran.contains(&id)
    }

    /// All of them.
    fn all(&self) -> impl Iterator<Item = StmtId> {
        self.before.union(&self.ran).copied()
    }
}

/// What can be told without a run.
#[derive(Debug)]
pub struct Certain {
    names: Names,
    ran: Ran,
    stack: Stack,
    mentions: Mentions,
    /// What every run that fails in the same way comes to before.
    sooner: Part,
    /// What ran before the failure, where the end of the run is sure to follow what it raises.
    heard: Part,
    /// Functions that may lead to the failure, and whether it may come to pass without a name in the text.
    leads: BTreeSet<String>,
    leads_blindly: bool,
    is_caught: bool,
    is_dynamic: bool,
    /// Attributes that are set on something else than a method's own object: they may be names of a module.
    outside: BTreeSet<String>,
    /// Reading an item changes nothing.
    reads_items: bool,
    has_open_options: bool,
    trusts_reach: bool,
}

impl Certain {
    /// Collects what the text and the run tell.
    pub fn of(program: &Program, ran: Ran) -> Self {
        let names = Names::of(program);
        let in_finally = |id: &StmtId| {
            let mut around = std::iter::once(*id).chain(program.ancestors(*id));
            around.any(|up| program.statement(up).arm == Arm::Finally)
        };
        let is_caught = has_handlers(program) || ran.crash.iter().any(in_finally);
        let stack = Stack::of(program, &ran.crash);
        let sooner = if is_caught { BTreeSet::new() } else { Sooner::of(program, &names, &ran) };
        let heard = match ran.of {
            Of::Larger => sooner.clone(),
            Of::This => ran.all().filter(|id| !is_caught && raises_on(program, *id)).collect(),
        };
        let is_dynamic = has_words(program, library::DYNAMIC) || is_odd(program);
        let outside = names::set_from_outside(program, &names);
        let part = |all: BTreeSet<StmtId>| Part {
            reads: SureReads::of(program, &names, &all, &stack, &|name| is_dynamic || outside.contains(name)),
            all,
            trusts_values: !is_dynamic,
        };
        let (sooner, heard) = (part(sooner), part(heard));
        let mentions = Mentions::of(program);
        let mut certain = Self {
            leads: mentions.leading(program, &ran.crash),
            leads_blindly: ran.crash.iter().any(|id| is_method(program, *id)),
            mentions,
            is_dynamic,
            outside,
            reads_items: !has_words(program, library::GROWING),
            has_open_options: options::is_open(program),
            trusts_reach: true,
            names,
            ran,
            stack,
            sooner,
            heard,
            is_caught,
        };
        let nothing = BTreeSet::new();
        let reached = certain.reached(program, &nothing);
        certain.trusts_reach = certain.is_reachable(program, &reached);
        let kinds = Kinds::new(program, &certain.names, &nothing, &certain.stack.defs);
        let misreads = |part: &Part, ran: &dyn Fn(StmtId) -> bool| {
            part.trusts_values && certain.has_fault(&kinds, &reached, &part.all, ran)
        };
        let misread = (misreads(&certain.sooner, &|_| false), misreads(&certain.heard, &|id| certain.ran.has(id)));
        certain.sooner.trusts_values &= !misread.0;
        certain.heard.trusts_values &= !misread.1;
        certain
    }

    /// Whether the program without `gone` is certain not to come to the failure.
    pub fn fail_without(&self, program: &Program, gone: &BTreeSet<StmtId>) -> bool {
        if self.ran.crash.last().is_some_and(|failing| gone.contains(failing)) {
            return true;
        }
        let reached = self.reached(program, gone);
        if self.trusts_reach && !self.is_reachable(program, &reached) {
            return true;
        }
        if self.is_caught {
            return false;
        }
        let live = |id: StmtId| live::is_live(program, &reached, id);
        let Part { reads, all, trusts_values } = &self.sooner;
        if reads.fail_without(program, gone, &|id| all.contains(&id) && live(id)) {
            return true;
        }
        let kinds = Kinds::new(program, &self.names, gone, &self.stack.defs);
        *trusts_values && self.has_fault(&kinds, &reached, all, &|_| false)
            || self.notices(&kinds, &reached)
            || self.misses_straight(&kinds)
    }

    fn reached(&self, program: &Program, gone: &BTreeSet<StmtId>) -> BTreeSet<StmtId> {
        self.mentions.reached(program, &self.names, gone)
    }

    /// Whether the failing statement can be come to.
    fn is_reachable(&self, program: &Program, reached: &BTreeSet<StmtId>) -> bool {
        let failing = self.ran.crash.last();
        self.is_dynamic || failing.is_none_or(|failing| live::is_live(program, reached, *failing))
    }

    /// Whether a sure statement raises.
    fn has_fault(
        &self,
        kinds: &Kinds<'_>,
        reached: &BTreeSet<StmtId>,
        sure: &BTreeSet<StmtId>,
        as_seen: &dyn Fn(StmtId) -> bool,
    ) -> bool {
        let Kinds { program, gone, .. } = *kinds;
        let ran = |id: StmtId| self.ran.before.contains(&id);
        let checks = Checks { kinds, ran: &ran, is_dynamic: self.is_dynamic, has_open_options: self.has_open_options };
        let live = |id: StmtId| !gone.contains(&id) && live::is_live(program, reached, id);
        if !self.is_dynamic && !again::may_call(program, kinds, &self.stack, &self.ran, &live) {
            return true;
        }
        sure.iter().copied().filter(|id| live(*id)).any(|id| {
            let Some(node) = program.node(id) else { return false };
            let ends = |expression: &Expr| self.stack.ends(program, id, expression);
            let element = |expression: &Expr| as_seen(id) && self.has_run(program, kinds, expression);
            let in_length = program.enclosing_function(id).is_some_and(|def| is_named(program, def, "__len__"));
            let fault = |event: &sure::Event<'_>| match checks.fault(id, event) {
                // Python takes a `TypeError` there for an object without a length, in some places.
                Some(Fault::Type) => !in_length,
                Some(Fault::Attribute) => true,
                None if self.has_open_options || event.act != sure::Act::Value => false,
                None => {
                    self.parses(kinds, id, event) && { options::is_refused(program, &kinds.left, gone, &self.ran.argv) }
                }
            };
            checks.assigns_too_early(id)
                || checks.imports_what_is_gone(id)
                || sure::events(node, &ends, &element).iter().any(fault)
        })
    }

    /// Whether an event is `parser.parse_args()`.
    fn parses(&self, kinds: &Kinds<'_>, statement: StmtId, event: &sure::Event<'_>) -> bool {
        let Expr::Call(call) = event.expression else { return false };
        terminal(&call.func) == Some("parse_args")
            && kinds.of(At { statement, hidden: &event.hidden }, event.expression) == Kind::Options
    }

    /// Whether a part of an expression is the only call of a function that ran.
    fn has_run(&self, program: &Program, kinds: &Kinds<'_>, expression: &Expr) -> bool {
        let mut found = false;
        each_part(expression, &mut |part| {
            let Expr::Call(call) = part else { return };
            let Some(name) = terminal(&call.func) else { return };
            let defs: Vec<StmtId> = self.names.binders_of(name);
            let [def] = defs.as_slice() else { return };
            let is_def = program.statement(*def).kind == StmtKind::FunctionDef && is_named(program, *def, name);
            let ran = program.children(*def).next().is_some_and(|first| self.ran.before.contains(&first.id));
            found |= is_def && ran && kinds.left.mentions.get(name) == Some(&1);
        });
        found
    }
}

/// A part of the run.
#[derive(Debug)]
struct Part {
    all: BTreeSet<StmtId>,
    reads: SureReads,
    /// No rule found a fault in the program as it is.
    trusts_values: bool,
}

/// The statements on the stack at the failure, with what each of them called.
#[derive(Debug, Default)]
pub(super) struct Stack {
    next: BTreeMap<StmtId, Option<String>>,
    /// The functions on the stack.
    defs: BTreeSet<StmtId>,
    /// Names of functions of the project that are defined once and bound nowhere else.
    functions: BTreeSet<String>,
}

impl Stack {
    fn of(program: &Program, crash: &[StmtId]) -> Self {
        let mut stack = Self::default();
        for (index, id) in crash.iter().enumerate() {
            let next = crash.get(index + 1).and_then(|next| program.enclosing_function(*next));
            let name = next.and_then(|def| name_of(program, def)).map(str::to_owned);
            let known = stack.next.entry(*id).or_insert_with(|| name.clone());
            if *known != name {
                *known = None;
            }
            stack.defs.extend(program.enclosing_function(*id));
        }
        let names = Names::of(program);
        let defs = program.statements().iter().filter(|one| one.kind == StmtKind::FunctionDef && one.parent.is_none());
        let found = defs.filter_map(|one| name_of(program, one.id)).filter(|name| names.binders_of(name).len() == 1);
        stack.functions = found.map(str::to_owned).collect();
        stack
    }

    /// Whether the failure may have come from inside an expression of a statement.
    pub(super) fn ends(&self, program: &Program, statement: StmtId, expression: &Expr) -> bool {
        let Some(next) = self.next.get(&statement) else { return false };
        let called = match expression {
            Expr::Call(call) => terminal(&call.func),
            _ => None,
        };
        if let (Some(next), Some(node)) = (next, program.node(statement)) {
            let mut shown = false;
            sure::header(node).into_iter().for_each(|part| {
                each_part(part, &mut |part| {
                    shown |= matches!(part, Expr::Call(call) if terminal(&call.func) == Some(next));
                });
            });
            if shown {
                return called == Some(next);
            }
        }
        match expression {
            Expr::Call(call) => {
                // A function of the project would stand on the stack itself.
                let is_other = call.func.is_name_expr() && called.is_some_and(|name| self.functions.contains(name));
                !is_other || called == next.as_deref()
            }
            Expr::Name(_) | Expr::Attribute(_) | Expr::Tuple(_) | Expr::List(_) | Expr::Starred(_) => false,
            _ => !expression.is_literal_expr(),
        }
    }
}

fn each_part(expression: &Expr, found: &mut dyn FnMut(&Expr)) {
    struct Parts<'f>(&'f mut dyn FnMut(&Expr));
    impl<'a> Visitor<'a> for Parts<'_> {
        fn visit_expr(&mut self, expression: &'a Expr) {
            (self.0)(expression);
            visitor::walk_expr(self, expression);
        }
    }
    Parts(found).visit_expr(expression);
}

fn name_of(program: &Program, def: StmtId) -> Option<&str> {
    match program.node(def)? {
        Stmt::FunctionDef(def) => Some(def.name.as_str()),
        _ => None,
    }
}

fn is_named(program: &Program, def: StmtId, name: &str) -> bool {
    name_of(program, def) == Some(name)
}

/// Whether a statement before this one, in the same block, may leave the function or the round of a loop.
fn is_behind_exit(program: &Program, id: StmtId) -> bool {
    let own = program.statement(id);
    let beside = |one: &&super::Statement| one.parent == own.parent && one.file == own.file && one.id < id;
    let before = program.statements().iter().filter(beside).filter(|one| one.kind.is_compound());
    before.into_iter().any(|one| exits(program, one.id))
}

/// Whether a statement, or one in it, may leave the function or the round of a loop that it stands in.
fn exits(program: &Program, id: StmtId) -> bool {
    let (own, function) = (program.statement(id), program.enclosing_function(id));
    let exits = [StmtKind::Return, StmtKind::Raise, StmtKind::Break, StmtKind::Continue];
    program
        .statements()
        .iter()
        .any(|one| own.contains(one.id) && exits.contains(&one.kind) && program.enclosing_function(one.id) == function)
}

/// Python calls some methods in places where it takes an error for an answer: what they raise need not end the run.
fn raises_on(program: &Program, id: StmtId) -> bool {
    let special =
        ["__init__", "__getitem__", "__call__", "__len__", "__iter__", "__next__", "__enter__", "__post_init__"];
    let mut ups = program.ancestors(id).take_while(|up| program.statement(*up).kind != StmtKind::ClassDef);
    ups.all(|up| match program.node(up) {
        Some(Stmt::FunctionDef(def)) => {
            let name = def.name.as_str();
            // Where a library asks whether there is such an attribute, it takes an error for an answer.
            let is_plain = program.statement(up).parent.is_some_and(
                |class| matches!(program.node(class), Some(Stmt::ClassDef(class)) if class.arguments.is_none()),
            );
            let is_asked = super::infer::is_property(def) && !is_plain;
            !is_asked && (!name.starts_with("__") || special.contains(&name))
        }
        _ => true,
    })
}

/// A handler may catch what is raised; text that is run by name may bind or read anything.
fn has_handlers(program: &Program) -> bool {
    let handler = program.statements().iter().any(|statement| {
        let leaves = matches!(statement.kind, StmtKind::Return | StmtKind::Break | StmtKind::Continue);
        match program.node(statement.id) {
            Some(Stmt::Try(node)) => !node.handlers.is_empty(),
            _ if leaves => {
                let mut around = std::iter::once(statement.id).chain(program.ancestors(statement.id));
                around.any(|up| program.statement(up).arm == Arm::Finally)
            }
            _ => statement.kind == StmtKind::Opaque,
        }
    });
    handler || has_words(program, library::CATCHING)
}

/// Whether a statement is in a method, which may be called by a library.
fn is_method(program: &Program, id: StmtId) -> bool {
    let def = program.enclosing_function(id);
    let class = def.and_then(|def| program.statement(def).parent);
    class.is_some_and(|class| program.statement(class).kind == StmtKind::ClassDef)
}

/// Whether a file holds one of these words; a call is meant as such, so that `model.eval()` is not `eval()`.
fn has_words(program: &Program, words: &[&str]) -> bool {
    program.tree().files.values().any(|file| words.iter().any(|word| library::holds(file.text(), word)))
}

/// Statements whose names the analysis does not collect.
fn is_odd(program: &Program) -> bool {
    program.statements().iter().any(|one| matches!(one.kind, StmtKind::Match | StmtKind::TypeAlias | StmtKind::Opaque))
}
