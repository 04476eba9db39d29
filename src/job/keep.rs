//! The best candidate on disk: `source/` in the bundle folder, replaced as a whole.
//!
//! Invariant: whatever kills us, `source/` is a whole candidate that was judged `same`.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use super::error::JobError;
use crate::candidate::Candidate;
use crate::evidence::Found;
use crate::oracle::OracleError;

/// Keeper of `source/`.
pub(super) struct Best {
    out: PathBuf,
    project: PathBuf,
    /// Project files that the program reads beside its sources, relative.
    data: BTreeSet<String>,
    scratch: PathBuf,
}

impl Best {
    /// A keeper for a bundle folder.
    pub(super) fn new(out: &Path, project: PathBuf, found: &Found) -> Self {
        let sources: BTreeSet<&String> = found.sources.iter().collect();
        let reads = |mode: &str| !mode.contains(['w', 'a', 'x', '+']);
        let data = found
            .opened
            .iter()
            .filter(|opened| opened.project && reads(&opened.mode) && !sources.contains(&opened.path))
            .map(|opened| opened.path.clone())
            .filter(|path| project.join(path).is_file())
            .collect();
        Self { out: out.to_owned(), project, data, scratch: PathBuf::new() }
    }

    /// The same for candidates whose data may be cut: what is left of it is written below a temporary folder.
    pub(super) fn over(self, scratch: &Path) -> Self {
        Self { scratch: scratch.to_owned(), ..self }
    }

    /// Bytes of the data files: of the program as given, and in `source/`.
    pub(super) fn data_bytes(&self) -> (u64, u64) {
        let sum = |folder: &Path| {
            let files = self.data.iter().filter_map(|path| fs::metadata(folder.join(path)).ok());
            files.map(|facts| facts.len()).sum()
        };
        (sum(&self.project), sum(&self.out.join("source")))
    }

    /// Puts a candidate in place; its data files are links to the originals until the run ends.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(super) fn keep(&self, candidate: &Candidate) -> Result<(), JobError> {
        self.place(candidate, &|from, to| symlink(from, to))
    }

    /// Puts the final candidate in place with copies of its data files.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(super) fn finish(&self, candidate: &Candidate) -> Result<(), JobError> {
        self.place(candidate, &|from, to| fs::copy(from, to).map(|_| ()))
    }

    fn place(
        &self,
        candidate: &Candidate,
        bring: &dyn Fn(&Path, &Path) -> std::io::Result<()>,
    ) -> Result<(), JobError> {
        let (new, source) = (self.out.join(".source.new"), self.out.join("source"));
        let fail = |path: &Path| {
            let path = path.to_owned();
            move |source| JobError::File { path, source }
        };
        if new.exists() {
            fs::remove_dir_all(&new).map_err(fail(&new))?;
        }
        fs::create_dir_all(&new).map_err(fail(&new))?;
        candidate.tree.write_all(&new)?;
        for (path, from) in candidate.data.lay_out(&self.scratch).map_err(OracleError::from)? {
            let to = new.join(path);
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent).map_err(fail(parent))?;
            }
            fs::copy(&from, &to).map_err(fail(&to))?;
        }
        for path in &self.data {
            let (from, to) = (self.project.join(path), new.join(path));
            if to.exists() || !from.is_file() {
                continue;
            }
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent).map_err(fail(parent))?;
            }
            bring(&from, &to).map_err(fail(&to))?;
        }
        if source.exists() {
            let swapped = renameat2(AT_FDCWD, &new, AT_FDCWD, &source, RenameFlags::RENAME_EXCHANGE);
            if swapped.is_err() {
                // A file system without the exchange: the old one goes a moment before the new one comes.
                fs::remove_dir_all(&source).map_err(fail(&source))?;
                return fs::rename(&new, &source).map_err(fail(&source));
            }
            return fs::remove_dir_all(&new).map_err(fail(&new));
        }
        fs::rename(&new, &source).map_err(fail(&source))
    }
}
