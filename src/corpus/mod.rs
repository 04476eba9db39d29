//! The regression corpus: programs that crash, or once did, each with what is expected of it.
//!
//! Invariant: a corpus is only read, but for `add`, which makes a folder, and `--update`, which rewrites what is expected.
//! Must not print, read the process environment or decide an exit code: `cli` does.

mod add;
mod entry;
mod find;
mod junit;
mod judge;
mod run;

pub use add::{Added, Pin, add};
pub use entry::{Entry, Expected, Whose};
pub use find::{Broken, Found, find};
pub use judge::{Answer, Reason, Verdict};
pub use junit::{Case, Mark, Suite, xml};
pub use run::{Done, Gpu, Options, run};

use std::path::PathBuf;

use crate::bundle::archive::ArchiveError;
use crate::harness::HarnessError;
use crate::trial::PoolError;
use crate::yaml;

/// Failures of a whole command, not of one entry.
#[derive(Debug, thiserror::Error)]
pub enum CorpusError {
    /// A path that is not there.
    #[error("no such file or folder: {}", path.display())]
    Missing {
        /// As it was typed.
        path: PathBuf,
    },
    /// No entry below the paths.
    #[error("{paths}: no entries")]
    Empty {
        /// As they were typed.
        paths: String,
    },
    /// A file that is neither an entry nor a tar file.
    #[error("{} is neither a corpus, an entry nor a tar file of one", path.display())]
    NoCorpus {
        /// As it was typed.
        path: PathBuf,
    },
    /// A bundle that proves nothing.
    #[error("{} cannot be an entry: {why}", path.display())]
    NotProven {
        /// The bundle.
        path: PathBuf,
        /// What it lacks.
        why: String,
    },
    /// A file of an entry.
    #[error(transparent)]
    Entry(#[from] yaml::Error),
    /// A file or folder cannot be used.
    #[error("cannot use {}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A tar file was refused.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The harness could not be laid out.
    #[error(transparent)]
    Harness(#[from] HarnessError),
    /// The fork server failed.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

impl CorpusError {
    /// What to do about it, one line each.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Missing { .. } | Self::Empty { .. } => {
                vec!["`reduce corpus add crash.reduced` makes an entry of a bundle, in the folder `corpus`".to_owned()]
            }
            Self::NotProven { .. } => vec!["reduce the case again, or raise its limits".to_owned()],
            Self::Entry(error) => error.hints.clone(),
            _ => Vec::new(),
        }
    }
}
