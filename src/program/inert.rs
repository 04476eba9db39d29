//! What can go without a run noticing, and what is likely to go: facts of the text alone.
//!
//! Invariant: a statement is called dead only if nothing that is left names it and it does nothing of its own.
//! Must not know what was executed.

use std::collections::BTreeSet;

use super::modules;
use super::names::{Change, Names, ScopeId, ScopeKind, Step};
use super::python::{Expr, Stmt};
use super::{Program, StmtId, StmtKind};

impl Names {
    /// Whether a statement hands something back or changes what is there already: more often than not a program comes to
    /// its failure without it.
    pub fn is_change(&self, program: &Program, id: StmtId) -> bool {
        let facts = self.facts(id);
        let rebinds =
            facts.loads.iter().filter_map(|access| access.root.as_ref()).any(|root| facts.binds.contains(root));
        let changes = facts.stores.iter().any(|store| store.change != Change::Attribute && facts.binds.is_empty());
        let simple = matches!(
            program.statement(id).kind,
            StmtKind::Assign | StmtKind::AugAssign | StmtKind::Expr | StmtKind::Return | StmtKind::AnnAssign
        );
        simple && (program.statement(id).kind == StmtKind::Return || rebinds || changes)
    }

    /// Names and attributes that a statement sets.
    pub fn set_by(&self, id: StmtId) -> BTreeSet<String> {
        let facts = self.facts(id);
        let steps = facts.stores.iter().filter_map(|store| match &store.step {
            Some(Step::Attribute(name) | Step::Key(name)) => Some(name.clone()),
            _ => None,
        });
        facts.binds.iter().cloned().chain(steps).collect()
    }

    /// Statements that read a name which this one binds, or speak of an attribute or key that it sets; what stands in it is
    /// not asked.
    pub fn speakers_of(&self, program: &Program, id: StmtId) -> Vec<StmtId> {
        let facts = self.facts(id);
        let homes: Vec<(&String, Option<ScopeId>)> =
            facts.binds.iter().map(|name| (name, self.home_of_use(self.scope_of(id), name))).collect();
        let steps: BTreeSet<&Step> = facts.stores.iter().filter_map(|store| store.step.as_ref()).collect();
        let reads = |other: StmtId, root: &String| {
            homes.iter().any(|(name, home)| *name == root && self.home_of_use(self.scope_of(other), root) == *home)
        };
        // A name of a module may be read in another file, as an attribute or by an import.
        let is_exported = self.scopes[self.scope_of(id)].kind != ScopeKind::Function;
        let means = |step: &Step| match step {
            Step::Attribute(name) => steps.contains(step) || is_exported && facts.binds.contains(name),
            _ => steps.contains(step),
        };
        let speaks = |other: &StmtId| {
            let said = self.facts(*other);
            let imports =
                is_exported && matches!(program.statement(*other).kind, StmtKind::Import | StmtKind::ImportFrom);
            said.loads
                .iter()
                .any(|access| access.root.iter().any(|root| reads(*other, root)) || access.steps.iter().any(means))
                || imports && said.binds.iter().any(|name| facts.binds.contains(name))
        };
        let own = program.statement(id);
        let others =
            program.statements().iter().map(|one| one.id).filter(|other| *other != id && !own.contains(*other));
        others.filter(speaks).collect()
    }

    /// Names that a statement reads.
    pub fn read_by(&self, id: StmtId) -> BTreeSet<String> {
        self.facts(id).loads.iter().filter_map(|access| access.root.clone()).collect()
    }

    /// Whether `gone` are definitions and imports of which nothing in `keep` speaks.
    pub fn is_dead(&self, program: &Program, gone: &BTreeSet<StmtId>, keep: &BTreeSet<StmtId>) -> bool {
        let is_inside = |id: StmtId| program.ancestors(id).any(|up| gone.contains(&up));
        let heads = gone.iter().copied().filter(|id| !is_inside(*id));
        let mut spoken = None;
        heads.into_iter().all(|id| {
            let Some(names) = self.defines(program, id) else { return false };
            let spoken = spoken.get_or_insert_with(|| words(program, keep));
            names.iter().all(|name| !spoken.contains(name))
        })
    }

    /// The names that a statement defines, if that is all it does.
    fn defines(&self, program: &Program, id: StmtId) -> Option<Vec<String>> {
        let one = program.statement(id);
        match program.node(id)? {
            Stmt::Pass(_) => Some(Vec::new()),
            Stmt::FunctionDef(def) => {
                let plain = def.decorator_list.is_empty()
                    && def.parameters.iter().all(|parameter| parameter.default().is_none_or(is_plain));
                // A method may be called by a library that knows its name.
                let is_method = self.scopes[self.scope_of(id)].kind == ScopeKind::Class;
                (plain && !is_method).then(|| vec![def.name.to_string()])
            }
            Stmt::ClassDef(class) => {
                let plain = class.decorator_list.is_empty() && class.arguments.is_none();
                let quiet =
                    program.children(id).all(|child| matches!(child.kind, StmtKind::FunctionDef | StmtKind::Pass));
                (plain && quiet).then(|| vec![class.name.to_string()])
            }
            Stmt::Import(import) => {
                let is_library =
                    import.names.iter().all(|alias| modules::find(program, one.file, 0, &alias.name).is_none());
                is_library.then(|| self.facts(id).binds.iter().cloned().collect())
            }
            Stmt::ImportFrom(import) => {
                let is_library = import.level == 0 && modules::source_of(program, one.file, import).is_none();
                is_library.then(|| self.facts(id).binds.iter().cloned().collect())
            }
            _ => None,
        }
    }
}

fn is_plain(default: &Expr) -> bool {
    default.is_literal_expr() || default.is_name_expr()
}

/// All words in the text of statements; texts and comments count as well, which errs on the safe side.
fn words(program: &Program, keep: &BTreeSet<StmtId>) -> BTreeSet<String> {
    let own = |id: &StmtId| {
        let whole = program.text_of(*id);
        // The body of a compound statement speaks for itself.
        let inner = program.children(*id).next().map_or("", |child| program.text_of(child.id));
        let head = if inner.is_empty() { whole.len() } else { whole.find(inner).unwrap_or(whole.len()) };
        whole[..head].to_owned()
    };
    keep.iter()
        .flat_map(|id| {
            let text = own(id);
            let split = text.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned);
            split.collect::<Vec<_>>()
        })
        .collect()
}
