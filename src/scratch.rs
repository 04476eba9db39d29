//! The temporary folder of a run: it goes with the run, and what a killed run left goes with the next one.
//!
//! Invariant: a folder is removed only by its owner, or when the lock on its file is free: then its owner is dead.
//! It must not hold anything that a user gets.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;

const PREFIX: &str = "reduce-run-";
const LOCK: &str = ".owner";

/// A fresh folder.
#[derive(Debug)]
pub struct Scratch {
    // Before the lock, so that the folder is gone when its lock is free.
    folder: tempfile::TempDir,
    _lock: Option<Flock<File>>,
}

impl Scratch {
    /// Makes one in the system's folder for temporary files, and removes there what dead runs of this user left.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new() -> io::Result<Self> {
        Self::new_in(&std::env::temp_dir())
    }

    fn new_in(place: &Path) -> io::Result<Self> {
        sweep(place);
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(place)?;
        // Locked before it has its name: nobody finds it free.
        let young = folder.path().join(".owner.new");
        let lock = Flock::lock(File::create(&young)?, FlockArg::LockExclusiveNonblock).ok();
        if lock.is_some() {
            fs::rename(&young, folder.path().join(LOCK))?;
        }
        Ok(Self { folder, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn sweep(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            remove_dead(&entry.path());
        }
    }
}

/// Removes the folder of a run of this user whose process is gone.
fn remove_dead(folder: &Path) {
    let ours = fs::symlink_metadata(folder).is_ok_and(|facts| facts.is_dir() && facts.uid() == geteuid().as_raw());
    if !ours {
        return;
    }
    let Ok(owner) = File::open(folder.join(LOCK)) else { return };
    if let Ok(_free) = Flock::lock(owner, FlockArg::LockExclusiveNonblock) {
        let _gone = fs::remove_dir_all(folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_removed_when_its_owner_is_gone_and_not_before() {
        let place = tempfile::tempdir().unwrap();
        let other = place.path().join("reduce-run-of-nobody");
        fs::create_dir(&other).unwrap();
        let living = Scratch::new_in(place.path()).unwrap();
        // As after a kill: the lock is free, the folder is there.
        let dead = place.path().join("reduce-run-dead");
        fs::create_dir_all(dead.join("trial-000001")).unwrap();
        fs::write(dead.join(LOCK), "").unwrap();
        let next = Scratch::new_in(place.path()).unwrap();
        assert!(living.path().exists() && next.path().exists() && other.exists() && !dead.exists());
        let path = next.path().to_owned();
        drop(next);
        assert!(!path.exists());
    }
}
