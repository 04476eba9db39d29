//! The Python that runs inside the interpreter: fork server, view, pins, tracer, emulated device.
//!
//! Owns the files' text and puts them on disk; a folder holds exactly one version of them, named by its content.
//! The harness judges nothing and reports everything; this module must not start it (`process` does).

use std::io::Write;
use std::path::{Path, PathBuf};

/// A harness file: its name in the folder and its text.
type File = (&'static str, &'static str);

macro_rules! files {
    ($($name:literal),+ $(,)?) => { &[$(($name, include_str!($name))),+] };
}

const FILES: &[File] = files![
    "imports.py",
    "inventory.py",
    "kernel.py",
    "landlock.py",
    "outcome.py",
    "pins.py",
    "program.py",
    "report.py",
    "run.py",
    "server.py",
    "serving.py",
    "supervisor.py",
    "tracer.py",
    "view.py",
];

/// The harness could not be put on disk.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the harness to {path}")]
pub struct HarnessError {
    path: PathBuf,
    source: std::io::Error,
}

/// A folder that holds the harness, complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HarnessDir {
    path: PathBuf,
}

impl HarnessDir {
    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The script that an interpreter is started with.
    pub fn server(&self) -> PathBuf {
        self.path.join("server.py")
    }
}

/// Writes the harness below `dir`, in a folder named by its content, and says where.
///
/// Safe to call from several processes at once: each file appears whole, and a damaged one is replaced.
pub fn install(dir: &Path) -> Result<HarnessDir, HarnessError> {
    install_with(dir, &[])
}

/// The same with further files (name, text) beside the harness, such as the catalogue as JSON.
pub fn install_with(dir: &Path, more: &[(&str, &str)]) -> Result<HarnessDir, HarnessError> {
    let files = || FILES.iter().copied().chain(more.iter().copied());
    let mut hasher = blake3::Hasher::new();
    for (name, text) in files() {
        for part in [name, text] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
    }
    let path = dir.join(format!("harness-{}", &hasher.finalize().to_hex()[..16]));
    std::fs::create_dir_all(&path).map_err(|source| HarnessError { path: path.clone(), source })?;
    for (name, text) in files() {
        let file = path.join(name);
        write_whole(&path, &file, text).map_err(|source| HarnessError { path: file, source })?;
    }
    Ok(HarnessDir { path })
}

/// Leaves a file that is right alone: its byte code stays valid.
fn write_whole(folder: &Path, file: &Path, text: &str) -> std::io::Result<()> {
    if std::fs::read(file).is_ok_and(|found| found == text.as_bytes()) {
        return Ok(());
    }
    let mut fresh = tempfile::NamedTempFile::new_in(folder)?;
    fresh.write_all(text.as_bytes())?;
    fresh.persist(file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_python_file_beside_this_one_is_installed() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/harness");
        let mut found: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".py"))
            .collect();
        found.sort();
        let listed: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
        assert_eq!(found, listed);
    }

    #[test]
    fn installing_twice_gives_the_same_folder_and_repairs_a_damaged_file() {
        let dir = tempfile::tempdir().unwrap();
        let first = install_with(dir.path(), &[("catalog.json", "{}")]).unwrap();
        std::fs::write(first.server(), "damaged").unwrap();
        assert_eq!(install_with(dir.path(), &[("catalog.json", "{}")]).unwrap(), first);
        let server = std::fs::read_to_string(first.server()).unwrap();
        assert!(server.starts_with("\"\"\"The fork server"));
        assert!(first.path().join("catalog.json").is_file());
        assert_ne!(install(dir.path()).unwrap(), first);
    }
}
