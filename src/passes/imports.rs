//! `imports`: names that nothing reads, import by import, and files that nothing imports.
//!
//! Why it is safe to try: a name that is read nowhere can only matter by what its module does on import.
//! Cost: one run for all, as a rule.
//!
//! ```text
//! import os, sys                      import sys
//! from losses import focal, dice  ->  from losses import dice
//! import logging
//! ```
//!
//! Invariant: the file that the command runs stays, and `from __future__` stays. Must not resolve modules outside the
//! project.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::program::Program;
use crate::program::python::{AnyNodeRef, ast, range};

use super::Pass;
use super::facts::Facts;
use super::names::Names;
use super::proposal::{Draft, Proposal};
use super::view::View;
use super::walk::walk;

/// See the module.
pub(super) struct Imports;

const NAME: &str = "imports";

impl Pass for Imports {
    fn name(&self) -> &'static str {
        NAME
    }

    fn proposals(&self, program: &Program, facts: &Facts) -> Vec<Proposal> {
        let names = Names::of(program);
        let mut proposals = Vec::new();
        for view in View::of(program) {
            walk(&view, |node, _| match node {
                AnyNodeRef::StmtImport(stmt) => {
                    unused(&view, &names, AnyNodeRef::from(stmt), &stmt.names, &mut proposals);
                }
                AnyNodeRef::StmtImportFrom(stmt) => {
                    let future = stmt.module.as_ref().is_some_and(|module| module.as_str() == "__future__");
                    if !future {
                        unused(&view, &names, AnyNodeRef::from(stmt), &stmt.names, &mut proposals);
                    }
                }
                _ => {}
            });
        }
        proposals.extend(files(program, facts, &names));
        proposals
    }
}

/// The unused names of one statement: the whole statement when all are.
fn unused(
    view: &View<'_>,
    names: &Names<'_>,
    stmt: AnyNodeRef<'_>,
    aliases: &[ast::Alias],
    proposals: &mut Vec<Proposal>,
) {
    let idle: Vec<bool> = aliases.iter().map(|alias| is_idle(view, names, alias)).collect();
    let start = range(&stmt).start;
    if idle.iter().all(|idle| *idle) {
        let Some(id) = view.id(&stmt) else { return };
        let draft = Draft::new(NAME, view, start, "an unused import", 0.93);
        proposals.extend(draft.statement(view, id, &range(&stmt)).finish());
        return;
    }
    let sequence = Arc::new(view.sequence(aliases.iter().map(range), &(start..start), None));
    for (index, _) in idle.iter().enumerate().filter(|(_, idle)| **idle) {
        let draft = Draft::new(NAME, view, range(&aliases[index]).start, "an unused name of an import", 0.97);
        proposals.extend(draft.item(view, &sequence, index).finish());
    }
}

fn is_idle(view: &View<'_>, names: &Names<'_>, alias: &ast::Alias) -> bool {
    let bound = match &alias.asname {
        Some(name) => name.as_str(),
        None => alias.name.as_str().split('.').next().unwrap_or_default(),
    };
    bound != "*" && !names.loads(view.path, bound) && !names.read_elsewhere(view.path, bound)
}

/// Files that no other file imports.
fn files(program: &Program, facts: &Facts, names: &Names<'_>) -> Vec<Proposal> {
    let Some(entry) = &facts.entry else { return Vec::new() };
    let imported = imported(program);
    let mut proposals = Vec::new();
    for view in View::of(program) {
        let module = module_of(view.path);
        let spelled = names.spelled(&module) || names.spelled(view.path) || names.spelled(leaf(&module));
        if view.path == entry || imported.contains(&module) || spelled || view.path.ends_with("__main__.py") {
            continue;
        }
        let package = view.path.ends_with("__init__.py");
        let used = package && imported.iter().any(|other| other.starts_with(&format!("{module}.")));
        let ran = facts.executed.is_some() && super::arms::ran(&view, facts, view.body()) == Some(true);
        let prior = match (used, ran) {
            (true, _) if !view.body().iter().all(super::annotations::is_string) => continue,
            (true, _) => 0.6,
            (false, true) => 0.8,
            (false, false) => 0.97,
        };
        let draft = Draft::new(NAME, &view, 0, "a file that nothing imports", prior);
        proposals.extend(draft.file(&view).finish());
    }
    proposals
}

/// Every module that an import statement of the program may mean, under each name by which a file could answer.
fn imported(program: &Program) -> BTreeSet<String> {
    let modules: Vec<String> = program.paths().iter().map(|path| module_of(path)).collect();
    let mut found = BTreeSet::new();
    let mut mean = |dotted: &str| {
        // A project's root is not known here: `pkg.mod` may be `src/pkg/mod.py`.
        for module in &modules {
            let parents = || module.match_indices('.').map(|(at, _)| &module[at + 1..]);
            if module == dotted || parents().any(|suffix| suffix == dotted) {
                found.insert(module.clone());
            }
        }
    };
    for view in View::of(program) {
        walk(&view, |node, _| match node {
            AnyNodeRef::StmtImport(stmt) => {
                for alias in &stmt.names {
                    let dotted = alias.name.as_str();
                    dotted.match_indices('.').for_each(|(at, _)| mean(&dotted[..at]));
                    mean(dotted);
                }
            }
            AnyNodeRef::StmtImportFrom(stmt) => {
                let base = base_of(view.path, stmt);
                base.match_indices('.').for_each(|(at, _)| mean(&base[..at]));
                mean(&base);
                for alias in &stmt.names {
                    let name = alias.name.as_str();
                    let whole = if base.is_empty() { name.to_owned() } else { format!("{base}.{name}") };
                    mean(&whole);
                }
            }
            _ => {}
        });
    }
    found
}

/// The dotted name of the module that a `from` names.
fn base_of(path: &str, stmt: &ast::StmtImportFrom) -> String {
    let module = stmt.module.as_ref().map_or("", |module| module.as_str());
    if stmt.level == 0 {
        return module.to_owned();
    }
    let mut parts: Vec<&str> = path.split('/').collect();
    for _ in 0..stmt.level {
        parts.pop();
    }
    parts.extend(module.split('.').filter(|part| !part.is_empty()));
    parts.join(".")
}

fn module_of(path: &str) -> String {
    let stem = path.strip_suffix(".py").unwrap_or(path);
    let stem = stem.strip_suffix("/__init__").unwrap_or(stem);
    stem.replace('/', ".")
}

fn leaf(module: &str) -> &str {
    module.rsplit('.').next().unwrap_or(module)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::check::{all, files, nothing};

    #[test]
    fn names_that_nothing_reads_go() {
        all(&Imports, "import os, sys as s, re\ns.exit()\n", "import sys as s\ns.exit()\n");
        all(&Imports, "from m import a, b, c\nb()\n", "from m import b\nb()\n");
        all(&Imports, "from m import (\n\ta,\n\tb,  # why\n)\na()\n", "from m import (\n\ta,\n)\na()\n");
        all(&Imports, "import os; x = 1\nif x:\n    import re\n", "x = 1\nif x:\n    pass\n");
    }

    #[test]
    fn what_may_be_read_stays() {
        nothing(&Imports, "import torch.nn.functional as F\nF.relu\n");
        nothing(&Imports, "import torch.nn\ntorch.nn\n");
        nothing(&Imports, "from m import *\n");
        nothing(&Imports, "from __future__ import annotations\n");
        nothing(&Imports, "import os\nprint(eval('os'))\n");
    }

    #[test]
    fn files_that_nothing_imports_go() {
        let before = [
            ("train.py", "from pkg.a import f\nf()\n"),
            ("pkg/__init__.py", "X = 1\n"),
            ("pkg/a.py", "from .b import f\n"),
            ("pkg/b.py", "def f(): pass\n"),
            ("pkg/c.py", "def g(): pass\n"),
        ];
        let after = [
            ("train.py", Some("from pkg.a import f\nf()\n")),
            ("pkg/__init__.py", Some("X = 1\n")),
            ("pkg/a.py", Some("from .b import f\n")),
            ("pkg/b.py", Some("def f(): pass\n")),
            ("pkg/c.py", None),
        ];
        files(&Imports, &before, &after);
    }

    #[test]
    fn names_that_another_file_reads_stay() {
        let before = [("train.py", "from util import os\nos.getcwd()\n"), ("util.py", "import os, re\n")];
        files(
            &Imports,
            &before,
            &[("train.py", Some("from util import os\nos.getcwd()\n")), ("util.py", Some("import os\n"))],
        );
    }
}
