//! Owns the way from paths to entries: folders are searched, tar files taken apart.
//!
//! Invariant: entries come sorted by their names and each once, however the paths name them; a broken one is a value.
//! Must not run anything.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::CorpusError;
use super::entry::{Entry, FILE};
use crate::bundle::archive::{self, Bounds};
use crate::environment::Surroundings;
use crate::yaml::Error;

/// How deep a corpus is searched.
const DEPTH: usize = 8;

/// An entry that cannot be read.
#[derive(Debug)]
pub struct Broken {
    /// The path as it was typed, down to the entry.
    pub name: String,
    /// What is wrong.
    pub error: Error,
}

/// What the paths hold.
#[derive(Debug, Default)]
pub struct Found {
    /// Entries, sorted by their names.
    pub entries: Vec<Entry>,
    /// Entries that cannot be read, likewise.
    pub broken: Vec<Broken>,
    /// Holds what came from tar files.
    unpacked: Vec<tempfile::TempDir>,
}

impl Found {
    /// Whether an entry came from a tar file: what is written to it is lost.
    pub fn is_packed(&self, entry: &Entry) -> bool {
        let inside =
            |folder: &tempfile::TempDir| folder.path().canonicalize().is_ok_and(|root| entry.folder.starts_with(root));
        self.unpacked.iter().any(inside)
    }
}

/// Finds the entries of a corpus.
///
/// # Errors
/// When a path is missing or no corpus, a tar file is refused, or there is no entry at all.
pub fn find(paths: &[PathBuf], surroundings: &Surroundings) -> Result<Found, CorpusError> {
    let mut found = Found::default();
    let mut folders = Vec::new();
    for path in paths {
        let data = fs::metadata(path).map_err(|_| CorpusError::Missing { path: path.clone() })?;
        let name = path.to_string_lossy().trim_end_matches('/').to_owned();
        if data.is_dir() {
            search(path, &name, 0, &mut folders)?;
            if folders.is_empty() && path.join("report.json").is_file() {
                return Err(CorpusError::NoCorpus { path: path.clone() });
            }
        } else if archive::is_archive(path) {
            let folder = tempfile::Builder::new()
                .prefix("reduce-")
                .tempdir()
                .map_err(|source| CorpusError::File { path: path.clone(), source })?;
            archive::unpack(path, folder.path(), Bounds::default())?;
            search(folder.path(), &name, 0, &mut folders)?;
            found.unpacked.push(folder);
        } else {
            return Err(CorpusError::NoCorpus { path: path.clone() });
        }
    }
    folders.sort();
    let mut seen = BTreeSet::new();
    for (name, folder) in folders {
        let folder = folder.canonicalize().map_err(|source| CorpusError::File { path: folder, source })?;
        if !seen.insert(folder.clone()) {
            continue;
        }
        match Entry::read(&folder, &name, surroundings) {
            Ok(entry) => found.entries.push(entry),
            Err(error) => found.broken.push(Broken { name, error }),
        }
    }
    if found.entries.is_empty() && found.broken.is_empty() {
        let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        return Err(CorpusError::Empty { paths: names.join(", ") });
    }
    Ok(found)
}

/// Collects folders that are entries, or look like one whose `entry.yaml` is lost; links are not followed.
fn search(folder: &Path, name: &str, depth: usize, into: &mut Vec<(String, PathBuf)>) -> Result<(), CorpusError> {
    let bundle = folder.join("report.json").is_file();
    if folder.join(FILE).is_file() || (folder.join("repro.py").is_file() && !bundle) {
        into.push((name.to_owned(), folder.to_owned()));
        return Ok(());
    }
    if bundle || depth >= DEPTH {
        return Ok(());
    }
    let fail = |source| CorpusError::File { path: folder.to_owned(), source };
    for entry in fs::read_dir(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let own = entry.file_name().to_string_lossy().into_owned();
        if !own.starts_with('.') && entry.file_type().map_err(fail)?.is_dir() {
            let name = if name == "." { own } else { format!("{name}/{own}") };
            search(&entry.path(), &name, depth + 1, into)?;
        }
    }
    Ok(())
}
