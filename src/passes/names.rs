//! Which names a program reads, and where.
//!
//! Owns an over-approximation of reads: a name that this file calls unread is read nowhere that its text shows.
//! Invariant: doubt counts as a read. Must not resolve types.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::program::Program;
use crate::program::python::{AnyNodeRef, Expr, ExprContext, Stmt, range};

use super::view::View;
use super::walk::{function, in_class, walk};

/// The reads of a whole program.
#[derive(Default)]
pub(super) struct Names<'a> {
    files: BTreeMap<&'a str, FileNames<'a>>,
    /// How often each attribute is read, in all files.
    attributes: BTreeMap<&'a str, u32>,
    /// Every string literal.
    strings: BTreeMap<String, u32>,
}

/// The reads of one file.
#[derive(Default)]
struct FileNames<'a> {
    loads: BTreeMap<&'a str, Vec<usize>>,
    attributes: BTreeSet<&'a str>,
    /// Names that `global` or `nonlocal` declares: they need their binding.
    shared: BTreeSet<&'a str>,
    imported: BTreeSet<&'a str>,
    star: bool,
    dynamic: Vec<usize>,
}

/// Where a name lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// In a function: its range.
    Function(Range<usize>),
    /// In a class body.
    Class,
    /// At module level.
    Module,
}

impl Scope {
    /// The scope of a name that is bound below these ancestors.
    pub(super) fn below(ancestors: &[AnyNodeRef<'_>]) -> Scope {
        match function(ancestors) {
            _ if in_class(ancestors) => Scope::Class,
            Some(function) => Scope::Function(range(&function)),
            None => Scope::Module,
        }
    }
}

impl<'a> Names<'a> {
    pub(super) fn of(program: &'a Program) -> Names<'a> {
        let mut names = Names::default();
        for view in View::of(program) {
            let mut file = FileNames::default();
            walk(&view, |node, _| names.note(&mut file, node));
            names.files.insert(view.path, file);
        }
        names
    }

    fn note(&mut self, file: &mut FileNames<'a>, node: AnyNodeRef<'a>) {
        match node {
            AnyNodeRef::ExprName(name) if name.ctx != ExprContext::Store => {
                file.loads.entry(name.id.as_str()).or_default().push(range(name).start);
            }
            AnyNodeRef::StmtAugAssign(assign) => match &*assign.target {
                Expr::Name(name) => {
                    file.loads.entry(name.id.as_str()).or_default().push(range(name).start);
                }
                Expr::Attribute(attribute) => *self.attributes.entry(attribute.attr.as_str()).or_default() += 1,
                _ => {}
            },
            AnyNodeRef::ExprAttribute(attribute) if attribute.ctx != ExprContext::Store => {
                file.attributes.insert(attribute.attr.as_str());
                *self.attributes.entry(attribute.attr.as_str()).or_default() += 1;
            }
            AnyNodeRef::ExprCall(call) => {
                let looks_up = match &*call.func {
                    Expr::Name(name) if name.id.as_str() == "vars" => call.arguments.is_empty(),
                    Expr::Name(name) => matches!(name.id.as_str(), "locals" | "globals" | "eval" | "exec"),
                    _ => false,
                };
                if looks_up {
                    file.dynamic.push(range(call).start);
                }
            }
            AnyNodeRef::StringLiteral(literal) => {
                *self.strings.entry(literal.value.to_string()).or_default() += 1;
            }
            AnyNodeRef::StmtGlobal(stmt) => file.shared.extend(stmt.names.iter().map(|name| name.as_str())),
            AnyNodeRef::StmtNonlocal(stmt) => file.shared.extend(stmt.names.iter().map(|name| name.as_str())),
            AnyNodeRef::StmtImportFrom(import) => {
                file.star |= import.names.iter().any(|alias| alias.name.as_str() == "*");
                file.imported.extend(import.names.iter().map(|alias| alias.name.as_str()));
            }
            _ => {}
        }
    }

    /// Whether a name is read within a range of a file.
    pub(super) fn read_in(&self, path: &str, name: &str, within: &Range<usize>) -> bool {
        let Some(file) = self.files.get(path) else { return true };
        let inside = |offsets: &Vec<usize>| offsets.iter().any(|offset| within.contains(offset));
        file.shared.contains(name) || file.loads.get(name).is_some_and(inside) || inside(&file.dynamic)
    }

    /// Whether a name of this scope is read anywhere.
    pub(super) fn read(&self, path: &str, name: &str, scope: &Scope) -> bool {
        let Some(file) = self.files.get(path) else { return true };
        match scope {
            Scope::Function(within) => self.read_in(path, name, within),
            Scope::Class => file.loads.contains_key(name) || self.attributes.contains_key(name) || self.spelled(name),
            Scope::Module => {
                let here = file.loads.contains_key(name) || file.shared.contains(name) || !file.dynamic.is_empty();
                here || self.read_elsewhere(path, name)
            }
        }
    }

    /// Whether another file may read a module-level name of this file.
    pub(super) fn read_elsewhere(&self, path: &str, name: &str) -> bool {
        let listed = self.spelled(name) && self.files.values().any(|file| file.star);
        listed
            || self.files.iter().filter(|(other, _)| **other != path).any(|(_, file)| {
                file.imported.contains(name)
                    || file.attributes.contains(name)
                    || file.star && file.loads.contains_key(name)
            })
    }

    /// Whether some string literal is exactly this name: `getattr`, `__all__`, a key.
    pub(super) fn spelled(&self, name: &str) -> bool {
        self.strings.contains_key(name)
    }

    /// How many string literals are exactly this text.
    pub(super) fn spellings(&self, text: &str) -> u32 {
        self.strings.get(text).copied().unwrap_or(0)
    }

    /// Whether a file loads a name anywhere, or may look it up by a string.
    pub(super) fn loads(&self, path: &str, name: &str) -> bool {
        self.files.get(path).is_none_or(|file| file.loads.contains_key(name) || !file.dynamic.is_empty())
    }

    /// How often an attribute of this name is read.
    pub(super) fn attribute_reads(&self, name: &str) -> u32 {
        self.attributes.get(name).copied().unwrap_or(0)
    }

    /// Whether a name is loaded anywhere at all, in any file.
    pub(super) fn loaded_anywhere(&self, name: &str) -> bool {
        self.files.values().any(|file| file.loads.contains_key(name))
    }
}

/// The names that a target binds; `None` when it stores anything but names.
pub(super) fn bound_names<'a>(target: &'a Expr, names: &mut Vec<&'a str>) -> Option<()> {
    match target {
        Expr::Name(name) => names.push(name.id.as_str()),
        Expr::Tuple(tuple) => tuple.elts.iter().try_for_each(|target| bound_names(target, names))?,
        Expr::List(list) => list.elts.iter().try_for_each(|target| bound_names(target, names))?,
        Expr::Starred(starred) => bound_names(&starred.value, names)?,
        _ => return None,
    }
    Some(())
}

/// Whether a body holds a statement of this loop's own: `break` or `continue` that no inner loop owns.
pub(super) fn jumps<'a>(body: &'a [Stmt], found: &mut Vec<&'a Stmt>) {
    for stmt in body {
        match stmt {
            Stmt::Break(_) | Stmt::Continue(_) => found.push(stmt),
            Stmt::For(inner) => jumps(&inner.orelse, found),
            Stmt::While(inner) => jumps(&inner.orelse, found),
            Stmt::If(inner) => {
                jumps(&inner.body, found);
                inner.elif_else_clauses.iter().for_each(|clause| jumps(&clause.body, found));
            }
            Stmt::With(inner) => jumps(&inner.body, found),
            Stmt::Match(inner) => inner.cases.iter().for_each(|case| jumps(&case.body, found)),
            Stmt::Try(inner) => {
                for body in [&inner.body, &inner.orelse, &inner.finalbody] {
                    jumps(body, found);
                }
                for handler in &inner.handlers {
                    jumps(&handler.as_except_handler().expect("the only kind of handler").body, found);
                }
            }
            _ => {}
        }
    }
}
