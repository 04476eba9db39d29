//! Owns sets of files given by paths and glob patterns.
//!
//! Invariant: a pattern is taken from one folder, whatever the current one; listing is sorted and the same each time.
//! Must not read the files.

use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::WalkBuilder;

/// A set of files given by patterns.
#[derive(Debug, Clone, Default)]
pub struct Globs {
    patterns: Vec<Pattern>,
    set: GlobSet,
}

/// One pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// As written.
    pub text: String,
    /// The folder, or the file itself, that the pattern starts from; absolute, without wildcards.
    pub start: PathBuf,
    /// Whether wildcards follow.
    pub wild: bool,
}

/// Why a pattern was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    /// A path without wildcards is not there.
    #[error("no such file: {0}")]
    Missing(String),
    /// No file fits.
    #[error("matches no file: {0}")]
    Nothing(String),
    /// Not a pattern.
    #[error("not a glob pattern: {0}")]
    Syntax(String),
}

impl Globs {
    /// Makes a set of patterns that are relative to `folder` (absolute). Files need not exist.
    pub fn new(folder: &Path, patterns: &[String]) -> Result<Globs, GlobError> {
        let mut builder = GlobSetBuilder::new();
        let mut list = Vec::new();
        for text in patterns {
            let (pattern, globs) = Pattern::new(folder, text);
            for glob in globs {
                let glob = GlobBuilder::new(&glob)
                    .literal_separator(true)
                    .build()
                    .map_err(|error| GlobError::Syntax(error.kind().to_string()))?;
                builder.add(glob);
            }
            list.push(pattern);
        }
        let set = builder.build().map_err(|error| GlobError::Syntax(error.kind().to_string()))?;
        Ok(Globs { patterns: list, set })
    }

    /// The patterns as written.
    pub fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }

    /// Whether the set holds the file, given by its absolute path.
    pub fn matches(&self, path: &Path) -> bool {
        self.set.is_match(path)
    }

    /// The files of the set, absolute and sorted; environments, caches and hidden folders are left out unless named.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = self.patterns.iter().flat_map(|pattern| self.walk(pattern)).collect();
        files.sort();
        files.dedup();
        files
    }

    /// Checks that a pattern names at least one file.
    pub fn check(&self, pattern: &Pattern) -> Result<(), GlobError> {
        if pattern.wild {
            return match self.walk(pattern).next() {
                Some(_) => Ok(()),
                None => Err(GlobError::Nothing(pattern.text.clone())),
            };
        }
        if pattern.start.exists() { Ok(()) } else { Err(GlobError::Missing(pattern.text.clone())) }
    }

    fn walk<'a>(&'a self, pattern: &Pattern) -> impl Iterator<Item = PathBuf> + use<'a> {
        let mut walk = WalkBuilder::new(&pattern.start);
        walk.standard_filters(false).sort_by_file_name(Ord::cmp).filter_entry(|entry| {
            let folder = entry.file_type().is_some_and(|kind| kind.is_dir());
            entry.depth() == 0 || !folder || !is_foreign(entry.path())
        });
        let files = walk.build().filter_map(|entry| entry.ok()).map(ignore::DirEntry::into_path);
        files.filter(|path| self.set.is_match(path) && path.is_file())
    }
}

/// Whether a folder holds no files of the user: environments, caches, version control, results of ours.
fn is_foreign(folder: &Path) -> bool {
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.starts_with('.')
        || name == "__pycache__"
        || name == "site-packages"
        || name == "node_modules"
        || name.ends_with(".reduced")
        || folder.join("pyvenv.cfg").exists()
}

impl Pattern {
    /// The pattern and its globs on absolute paths; a folder means all that is in it.
    fn new(folder: &Path, text: &str) -> (Pattern, Vec<String>) {
        let is_wild = |part: &str| part.contains(['*', '?', '[', '{']);
        // A file may have such characters in its name.
        let whole = normal(&folder.join(text));
        if !is_wild(text) || whole.exists() {
            let literal = globset::escape(&whole.to_string_lossy());
            let globs = vec![format!("{}/**", literal.trim_end_matches('/')), literal];
            return (Pattern { text: text.to_owned(), start: whole, wild: false }, globs);
        }
        let parts: Vec<&str> = text.split('/').collect();
        let first_wild = parts.iter().position(|part| is_wild(part)).unwrap_or(parts.len());
        let before = parts[..first_wild].join("/");
        let start = match before.as_str() {
            "" if text.starts_with('/') => PathBuf::from("/"),
            before => normal(&folder.join(before)),
        };
        let rest: Vec<&str> = parts[first_wild..].iter().copied().filter(|part| *part != "." && !part.is_empty()).collect();
        let glob = format!("{}/{}", globset::escape(&start.to_string_lossy()).trim_end_matches('/'), rest.join("/"));
        (Pattern { text: text.to_owned(), start, wild: true }, vec![glob])
    }
}

/// The path without `.`, `..` and doubled separators, by its text alone.
pub fn normal(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path, patterns: &[&str]) -> Vec<String> {
        let patterns: Vec<String> = patterns.iter().map(|text| (*text).to_owned()).collect();
        let files = Globs::new(folder, &patterns).unwrap().files();
        files.iter().map(|file| file.strip_prefix(folder).unwrap_or(file).to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn patterns_name_files_of_the_project_and_leave_out_environments() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for file in ["a.py", "pkg/b.py", "pkg/deep/c.py", ".venv/lib/d.py", "env/pyvenv.cfg", "env/e.py", "data/[x].csv", "data/y.npy"] {
            let path = root.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        assert_eq!(names(&root, &["**/*.py"]), ["a.py", "pkg/b.py", "pkg/deep/c.py"]);
        assert_eq!(names(&root, &["*.py"]), ["a.py"]);
        assert_eq!(names(&root, &["data"]), ["data/[x].csv", "data/y.npy"]);
        assert_eq!(names(&root, &["data/[x].csv"]), ["data/[x].csv"]);
        assert_eq!(names(&root, &["./pkg/*.py", "data/*.{npy,csv}"]), ["data/[x].csv", "data/y.npy", "pkg/b.py"]);
        assert_eq!(names(&root.join("pkg"), &["../data/*.npy"]), [root.join("data/y.npy").to_string_lossy()]);
        assert_eq!(names(&root, &[".venv/**/*.py"]), [".venv/lib/d.py"]);
    }

    #[test]
    fn a_pattern_that_cannot_be_read_is_refused() {
        let error = Globs::new(Path::new("/x"), &["a[".to_owned()]).unwrap_err();
        assert!(matches!(error, GlobError::Syntax(_)));
    }
}
