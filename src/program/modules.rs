//! Which file of the project an import means.
//!
//! Invariant: only files of the program are found; everything else is the library's. Must not know what was executed.

use super::parse::Program;
use super::python::ast;
use super::statement::FileId;

/// The file of a module, seen from a file that imports it with so many leading dots.
pub(crate) fn find(program: &Program, from: FileId, level: u32, module: &str) -> Option<FileId> {
    let inner = module.replace('.', "/");
    if level > 0 {
        let mut folder: Vec<&str> = program.path(from).split('/').collect();
        for _ in 0..level {
            folder.pop()?;
        }
        let mut base = folder.join("/");
        if !inner.is_empty() {
            if !base.is_empty() {
                base.push('/');
            }
            base.push_str(&inner);
        }
        return file_of(program, &base);
    }
    if inner.is_empty() {
        return None;
    }
    // `sys.path` is not known: the nearest folder upwards from the importing file that has it, then any that has it.
    let mut folder: Vec<&str> = program.path(from).split('/').collect();
    while folder.pop().is_some() {
        let base = if folder.is_empty() { inner.clone() } else { format!("{}/{inner}", folder.join("/")) };
        if let Some(file) = file_of(program, &base) {
            return Some(file);
        }
    }
    let tails = [format!("/{inner}.py"), format!("/{inner}/__init__.py")];
    let ends = |path: &&String| tails.iter().any(|tail| path.ends_with(tail.as_str()));
    let path = program.paths().iter().filter(ends).min_by_key(|path| (path.len(), path.as_str()))?;
    program.file_named(path)
}

fn file_of(program: &Program, base: &str) -> Option<FileId> {
    let package = if base.is_empty() { "__init__.py".to_owned() } else { format!("{base}/__init__.py") };
    program.file_named(&package).or_else(|| program.file_named(&format!("{base}.py")))
}

/// The module that a `from ... import` names.
pub(crate) fn source_of(program: &Program, from: FileId, import: &ast::StmtImportFrom) -> Option<FileId> {
    find(program, from, import.level, import.module.as_ref().map_or("", |module| module.as_str()))
}

/// The submodule that one name of a `from ... import` means, where it is a file.
pub(crate) fn submodule(program: &Program, from: FileId, import: &ast::StmtImportFrom, name: &str) -> Option<FileId> {
    let module = match &import.module {
        Some(module) => format!("{module}.{name}"),
        None => name.to_owned(),
    };
    find(program, from, import.level, &module)
}

#[cfg(test)]
mod tests {
    use super::super::source::SourceTree;
    use super::*;

    #[test]
    fn imports_find_the_files_of_the_project() {
        let paths = ["pkg/__init__.py", "pkg/data.py", "pkg/sub/__init__.py", "pkg/sub/a.py", "src/lib/m.py", "train.py"];
        let program = Program::parse(&SourceTree::from_texts(paths.map(|path| (path, "x = 1\n")))).expect("small");
        let file = |path: &str| program.file_named(path).expect("listed");
        let found = |from: &str, level, module| find(&program, file(from), level, module).map(|file| program.path(file));
        assert_eq!(found("train.py", 0, "pkg.data"), Some("pkg/data.py"));
        assert_eq!(found("train.py", 0, "pkg"), Some("pkg/__init__.py"));
        assert_eq!(found("train.py", 0, "lib.m"), Some("src/lib/m.py"));
        assert_eq!(found("train.py", 0, "torch"), None);
        assert_eq!(found("pkg/sub/a.py", 2, "data"), Some("pkg/data.py"));
        assert_eq!(found("pkg/sub/a.py", 1, ""), Some("pkg/sub/__init__.py"));
        assert_eq!(found("pkg/data.py", 1, "sub.a"), Some("pkg/sub/a.py"));
        assert_eq!(found("pkg/sub/a.py", 9, "a"), None);
    }
}
