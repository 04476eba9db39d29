//! The lock of a ledger: one run writes into a bundle folder at a time.
//!
//! Invariant: the lock is the system's own, on the ledger's file itself, so that it goes with the process however that ends
//! and leaves nothing in the folder.
//! It must not touch what stands in the file.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use super::LedgerError;

/// A ledger's file that no other run writes into while this lives; none where the file system knows no locks.
#[derive(Debug)]
pub struct Hold {
    _lock: Option<Flock<File>>,
}

impl Hold {
    /// Takes the ledger of a bundle that is there already.
    ///
    /// # Errors
    /// [`LedgerError::Busy`] while another run has it.
    pub fn take(path: &Path) -> Result<Self, LedgerError> {
        Ok(open(path, OpenOptions::new().write(true))?.1)
    }
}

/// Opens a ledger for this run alone.
///
/// # Errors
/// [`LedgerError::Busy`] while another run has it.
pub(super) fn open(path: &Path, how: &OpenOptions) -> Result<(File, Hold), LedgerError> {
    let fail = |source| LedgerError::File { path: path.to_owned(), source };
    loop {
        let file = how.open(path).map_err(fail)?;
        let hold = match Flock::lock(file.try_clone().map_err(fail)?, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Hold { _lock: Some(lock) },
            Err((_, Errno::EWOULDBLOCK)) => {
                let process = holder(&file.metadata().map_err(fail)?);
                return Err(LedgerError::Busy { path: path.to_owned(), process });
            }
            Err(_) => Hold { _lock: None },
        };
        // Whoever had it before may have replaced the file meanwhile: then this is a lock on nothing.
        let (ours, there) = (file.metadata().map_err(fail)?, fs::metadata(path));
        match there {
            Ok(there) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => return Ok((file, hold)),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
            _ => {}
        }
    }
}

/// The process that has a lock on this file, as far as this user may see it.
fn holder(wanted: &fs::Metadata) -> Option<u32> {
    let has_it = |process: &Path| {
        fs::read_dir(process.join("fd")).into_iter().flatten().flatten().any(|entry| {
            let same = fs::metadata(entry.path()).is_ok_and(|it| (it.dev(), it.ino()) == (wanted.dev(), wanted.ino()));
            let facts = || fs::read_to_string(process.join("fdinfo").join(entry.file_name())).unwrap_or_default();
            same && facts().contains("FLOCK")
        })
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .find_map(|(number, path)| has_it(&path).then_some(number))
}
