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
    "arguments.py",
    "emulated.py",
    "emulated_asserts.py",
    "emulated_backward.py",
    "emulated_cuda.py",
    "emulated_elsewhere.py",
    "emulated_findings.py",
    "emulated_launch.py",
    "emulated_memory.py",
    "emulated_moves.py",
    "emulated_patches.py",
    "emulated_rules.py",
    "emulated_state.py",
    "emulated_views.py",
    "follow.py",
    "follow_path.py",
    "imports.py",
    "inventory.py",
    "kernel.py",
    "landlock.py",
    "launches.py",
    "outcome.py",
    "pins.py",
    "program.py",
    "report.py",
    "run.py",
    "server.py",
    "serving.py",
    "settings.py",
    "spawned.py",
    "steps.py",
    "supervisor.py",
    "system.py",
    "tracer.py",
    "view.py",
    "watch.py",
    "witness.py",
];

/// The harness could not be put on disk.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the harness to `{path}`: {source}")]
pub struct HarnessError {
    path: PathBuf,
    source: std::io::Error,
}

/// Writes the harness below `dir`, in a folder named by its content, and answers that folder.
///
/// The script to start is `server.py` in it.
/// Safe to call from several processes at once: each file appears whole, and a damaged one is replaced.
///
/// # Errors
/// When the folder or a file cannot be written.
pub fn install(dir: &Path) -> Result<PathBuf, HarnessError> {
    let mut hasher = blake3::Hasher::new();
    for part in FILES.iter().flat_map(|(name, text)| [name, text]) {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    let folder = dir.join(format!("harness-{}", &hasher.finalize().to_hex()[..16]));
    std::fs::create_dir_all(&folder).map_err(|source| HarnessError { path: folder.clone(), source })?;
    for (name, text) in FILES {
        let file = folder.join(name);
        write_whole(&folder, &file, text).map_err(|source| HarnessError { path: file, source })?;
    }
    Ok(folder)
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
        let first = install(dir.path()).unwrap();
        std::fs::write(first.join("server.py"), "damaged").unwrap();
        assert_eq!(install(dir.path()).unwrap(), first);
        let server = std::fs::read_to_string(first.join("server.py")).unwrap();
        assert!(server.starts_with("\"\"\"The fork server"));
    }
}
