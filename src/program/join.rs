//! Joins the files of a program into one, for a reader and for a bug report.
//!
//! Invariant: modules keep their order of import and their text, less the imports between them; where names would clash or
//! a module is used as an object, there is no such joining and the answer is `None`. It never guesses: a trial decides.

use std::collections::{BTreeMap, BTreeSet};

use super::python::{Expr, Stmt};
use super::{Program, StmtId, StmtKind, StmtSet};

/// The text of one file that stands for all; `None` where flattening would change a meaning.
///
/// `entry` is the path of the file that is run; modules are found relative to `roots`, folders relative to the project
/// (`""` for the project root itself).
pub fn flatten(program: &Program, entry: &str, roots: &[String]) -> Option<String> {
    let names = module_names(program, roots);
    let mut order = Vec::new();
    let mut open = BTreeSet::new();
    visit(program, entry, &names, &mut open, &mut order)?;
    let mut bound: BTreeSet<String> = BTreeSet::new();
    let mut imports: Vec<String> = Vec::new();
    let mut bodies: Vec<String> = Vec::new();
    let mut futures: BTreeSet<String> = BTreeSet::new();
    for path in &order {
        let mut doomed = StmtSet::new();
        let mut aliases = Vec::new();
        let file = program.file_named(path)?;
        for statement in program.statements_in(file) {
            let node = program.node(statement.id)?;
            if let Some(inner) = project_import(program, path, node, &names) {
                aliases.extend(inner?);
                doomed.insert(statement.id);
            } else if statement.parent.is_none() {
                lift_import(program, statement.id, node, &mut doomed, &mut imports, &mut futures);
            }
        }
        if path != entry && has_main_guard(program, path) {
            return None;
        }
        for name in top_level_names(program, path, &doomed) {
            if !bound.insert(name) {
                return None;
            }
        }
        let edits = program.delete(&doomed);
        let tree = program.tree().with_edits(&edits).ok()?;
        let text = tree.get(path)?.text().trim_matches('\n').to_owned();
        let mut body = aliases.join("\n");
        if !body.is_empty() && !text.is_empty() {
            body.push('\n');
        }
        body += &text;
        if !body.trim().is_empty() && body.trim() != "pass" {
            bodies.push(body);
        }
    }
    let mut parts: Vec<String> = futures.into_iter().collect();
    let mut seen = BTreeSet::new();
    parts.extend(imports.into_iter().filter(|line| seen.insert(line.clone())));
    let head = parts.join("\n");
    if !head.is_empty() {
        bodies.insert(0, head);
    }
    Some(bodies.join("\n\n\n") + "\n")
}

/// Module name to path for every file of the program.
pub fn module_names(program: &Program, roots: &[String]) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for path in program.paths() {
        for root in roots {
            let inside = if root.is_empty() || root == "." {
                Some(path.as_str())
            } else {
                path.strip_prefix(root.as_str()).and_then(|rest| rest.strip_prefix('/'))
            };
            let Some(stem) = inside.and_then(|inside| inside.strip_suffix(".py")) else { continue };
            let stem = stem.strip_suffix("/__init__").unwrap_or(stem);
            names.entry(stem.replace('/', ".")).or_insert_with(|| path.clone());
        }
    }
    names
}

/// Imports before importers, the entry last; `None` on an import cycle.
fn visit(
    program: &Program,
    path: &str,
    names: &BTreeMap<String, String>,
    open: &mut BTreeSet<String>,
    order: &mut Vec<String>,
) -> Option<()> {
    if order.iter().any(|done| done == path) {
        return Some(());
    }
    if !open.insert(path.to_owned()) {
        return None;
    }
    let file = program.file_named(path)?;
    for statement in program.statements_in(file) {
        for target in targets(path, program.node(statement.id)?, names) {
            if target != path {
                visit(program, &target, names, open, order)?;
            }
        }
    }
    open.remove(path);
    order.push(path.to_owned());
    Some(())
}

/// Paths of the project files that an import statement names, packages on the way included.
fn targets(path: &str, node: &Stmt, names: &BTreeMap<String, String>) -> Vec<String> {
    let mut found = Vec::new();
    let mut add = |module: &str| {
        let mut prefix = String::new();
        for part in module.split('.') {
            if !prefix.is_empty() {
                prefix.push('.');
            }
            prefix.push_str(part);
            if let Some(path) = names.get(&prefix) {
                found.push(path.clone());
            }
        }
    };
    match node {
        Stmt::Import(import) => import.names.iter().for_each(|alias| add(alias.name.as_str())),
        Stmt::ImportFrom(import) => {
            let module = import.module.as_ref().map(|name| name.as_str());
            if let Some(module) = absolute(path, import.level, module, names) {
                add(&module);
                for alias in &import.names {
                    add(&format!("{module}.{}", alias.name.as_str()));
                }
            }
        }
        _ => {}
    }
    found
}

/// Absolute name of the module of a `from` import.
fn absolute(path: &str, level: u32, module: Option<&str>, names: &BTreeMap<String, String>) -> Option<String> {
    if level == 0 {
        return module.map(str::to_owned);
    }
    let (name, _) = names.iter().find(|(_, file)| file.as_str() == path)?;
    let mut parts: Vec<&str> = name.split('.').collect();
    let up = if path.ends_with("__init__.py") { level - 1 } else { level };
    for _ in 0..up {
        parts.pop()?;
    }
    parts.extend(module);
    Some(parts.join("."))
}

/// For an import of project files: the aliases that must be written instead, or `Some(None)` where it cannot be flattened.
fn project_import(
    program: &Program,
    path: &str,
    node: &Stmt,
    names: &BTreeMap<String, String>,
) -> Option<Option<Vec<String>>> {
    match node {
        Stmt::Import(import) => {
            let ours = import.names.iter().any(|alias| {
                let top = alias.name.as_str().split('.').next().unwrap_or_default();
                names.keys().any(|name| name == top || name.starts_with(&format!("{top}.")))
            });
            // `import pkg.mod` binds a module object.
            ours.then_some(None)
        }
        Stmt::ImportFrom(import) => {
            let module = absolute(path, import.level, import.module.as_ref().map(|name| name.as_str()), names)?;
            let file = names.get(&module);
            let mut aliases = Vec::new();
            for alias in &import.names {
                let name = alias.name.as_str();
                if names.contains_key(&format!("{module}.{name}")) && !binds(program, file, name) {
                    return Some(None);
                }
                if let Some(other) = &alias.asname
                    && other.as_str() != name
                {
                    aliases.push(format!("{} = {name}", other.as_str()));
                }
            }
            if file.is_none() {
                let ours = names.keys().any(|name| name.starts_with(&format!("{module}.")));
                return ours.then_some(None);
            }
            Some(Some(aliases))
        }
        _ => None,
    }
}

fn binds(program: &Program, path: Option<&String>, name: &str) -> bool {
    path.is_some_and(|path| top_level_names(program, path, &StmtSet::new()).contains(name))
}

/// Moves a plain top-level import to the head of the joined file.
fn lift_import(
    program: &Program,
    id: StmtId,
    node: &Stmt,
    doomed: &mut StmtSet,
    imports: &mut Vec<String>,
    futures: &mut BTreeSet<String>,
) {
    match node {
        Stmt::ImportFrom(import) if import.module.as_ref().is_some_and(|name| name.as_str() == "__future__") => {
            futures.insert(program.text_of(id).to_owned());
            doomed.insert(id);
        }
        Stmt::Import(_) | Stmt::ImportFrom(_) => {
            imports.push(program.text_of(id).to_owned());
            doomed.insert(id);
        }
        _ => {}
    }
}

fn has_main_guard(program: &Program, path: &str) -> bool {
    let Some(file) = program.file_named(path) else { return false };
    program.statements_in(file).iter().any(|statement| {
        statement.parent.is_none()
            && statement.kind == StmtKind::If
            && program.text_of(statement.id).contains("__name__")
    })
}

/// Names that a file's top level binds, imports left out.
fn top_level_names(program: &Program, path: &str, without: &StmtSet) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let Some(file) = program.file_named(path) else { return names };
    for statement in program.statements_in(file) {
        if statement.parent.is_some() || without.contains(statement.id) {
            continue;
        }
        match program.node(statement.id) {
            Some(Stmt::FunctionDef(def)) => {
                names.insert(def.name.as_str().to_owned());
            }
            Some(Stmt::ClassDef(def)) => {
                names.insert(def.name.as_str().to_owned());
            }
            Some(Stmt::Assign(assign)) => assign.targets.iter().for_each(|target| bind(target, &mut names)),
            Some(Stmt::AnnAssign(assign)) => bind(&assign.target, &mut names),
            Some(Stmt::For(node)) => bind(&node.target, &mut names),
            _ => {}
        }
    }
    names
}

fn bind(target: &Expr, names: &mut BTreeSet<String>) {
    match target {
        Expr::Name(name) => {
            names.insert(name.id.as_str().to_owned());
        }
        Expr::Tuple(tuple) => tuple.elts.iter().for_each(|one| bind(one, names)),
        Expr::List(list) => list.elts.iter().for_each(|one| bind(one, names)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::SourceTree;

    fn joined(files: &[(&str, &str)]) -> Option<String> {
        let program = Program::parse(&SourceTree::from_texts(files.iter().copied())).unwrap();
        flatten(&program, "train.py", &[String::new()])
    }

    #[test]
    fn modules_stand_before_those_that_import_them_and_shared_imports_once() {
        let text = joined(&[
            ("pkg/data.py", "import torch\nfrom .names import N\ndef load():\n    return torch.zeros(N)\n"),
            ("pkg/names.py", "N = 3\n"),
            ("train.py", "import torch\nfrom pkg.data import load as read\nprint(read())\n"),
        ]);
        assert_eq!(
            text.unwrap(),
            "import torch\n\n\nN = 3\n\n\ndef load():\n    return torch.zeros(N)\n\n\nread = load\nprint(read())\n"
        );
    }

    #[test]
    fn a_module_used_as_an_object_and_a_clash_of_names_are_not_flattened() {
        assert_eq!(joined(&[("m.py", "A = 1\n"), ("train.py", "import m\nprint(m.A)\n")]), None);
        assert_eq!(joined(&[("m.py", "A = 1\n"), ("train.py", "from m import A as B\nA = 2\nprint(B)\n")]), None);
    }
}
