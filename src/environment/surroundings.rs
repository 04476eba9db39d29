//! Owns the snapshot of the process environment that everything below `cli` works with.
//!
//! Invariant: taken once; the same for the whole run.
//! Must not read the process environment itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::unistd::{AccessFlags, access};

/// The environment variables that the user started us with.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// By name.
    pub vars: BTreeMap<String, String>,
    /// Set once the user wants the run to end: what is being installed then is ended.
    pub(super) interrupted: Option<Arc<AtomicBool>>,
}

impl Surroundings {
    /// A snapshot, for example of `std::env::vars_os`; values that are not UTF-8 are left out.
    pub fn new(vars: impl IntoIterator<Item = (std::ffi::OsString, std::ffi::OsString)>) -> Surroundings {
        let vars =
            vars.into_iter().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Surroundings { vars: vars.collect(), interrupted: None }
    }

    /// The same, until this is set.
    #[must_use]
    pub fn until(self, interrupted: &Arc<AtomicBool>) -> Surroundings {
        Surroundings { interrupted: Some(Arc::clone(interrupted)), ..self }
    }

    /// The same with these variables set.
    #[must_use]
    pub fn with(&self, vars: &BTreeMap<String, String>) -> Surroundings {
        let mut more = self.clone();
        more.vars.extend(vars.iter().map(|(name, value)| (name.clone(), value.clone())));
        more
    }

    /// A variable that is set and not empty.
    pub fn var(&self, name: &str) -> Option<&str> {
        self.vars.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The active virtual environment.
    pub fn virtual_env(&self) -> Option<PathBuf> {
        self.var("VIRTUAL_ENV").map(PathBuf::from).filter(|prefix| prefix.join("bin/python").is_file())
    }

    /// An executable by its name, as a shell finds it on `PATH`.
    pub fn which(&self, name: &str) -> Option<PathBuf> {
        which(name, self.var("PATH")?)
    }

    /// The folder of our cache: `REDUCE_CACHE_DIR`, else `reduce` in the user's cache folder.
    pub fn cache(&self) -> PathBuf {
        match (self.var("REDUCE_CACHE_DIR"), self.var("XDG_CACHE_HOME"), self.var("HOME")) {
            (Some(folder), ..) => PathBuf::from(folder),
            (None, Some(folder), _) if folder.starts_with('/') => Path::new(folder).join("reduce"),
            (None, _, Some(home)) => Path::new(home).join(".cache/reduce"),
            (None, _, None) => PathBuf::from("/tmp/reduce-cache"),
        }
    }
}

/// An executable by its name on a `PATH`.
pub(crate) fn which(name: &str, path: &str) -> Option<PathBuf> {
    let folders = path.split(':').filter(|folder| folder.starts_with('/'));
    folders.map(|folder| Path::new(folder).join(name)).find(|file| is_executable(file))
}

/// Whether a path is a file that may be executed.
pub(crate) fn is_executable(file: &Path) -> bool {
    file.is_file() && access(file, AccessFlags::X_OK).is_ok()
}
