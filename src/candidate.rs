//! A candidate: a version of the program, known by the hash of its content.
//!
//! Invariant: equal content has the equal id, whatever edits led to it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::program::SourceTree;

/// Hash of a candidate's content.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CandidateId(pub String);

/// A version of the program.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its files.
    pub tree: Arc<SourceTree>,
    /// Hash of them.
    pub id: CandidateId,
}

impl Candidate {
    /// A candidate of these files.
    pub fn new(tree: SourceTree) -> Self {
        let mut hasher = blake3::Hasher::new();
        for (path, file) in &tree.files {
            for part in [path.as_bytes(), file.text().as_bytes()] {
                hasher.update(&(part.len() as u64).to_le_bytes());
                hasher.update(part);
            }
        }
        let id = CandidateId(hasher.finalize().to_hex().as_str()[..24].to_owned());
        Self { tree: Arc::new(tree), id }
    }
}
