//! A candidate: a version of the program and of its data, known by the hash of its content.
//!
//! Invariant: equal content has the equal id, whatever edits led to it; what is left of the data counts as a selection.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::data::Data;
use crate::program::SourceTree;

/// Hash of a candidate's content.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CandidateId(pub String);

/// A version of the program and of its data.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its files.
    pub tree: Arc<SourceTree>,
    /// What is left of the data files that it reads.
    pub data: Data,
    /// Hash of both.
    pub id: CandidateId,
}

impl Candidate {
    /// A candidate of these files, with all data.
    pub fn new(tree: SourceTree) -> Self {
        Self::with(tree, Data::default())
    }

    /// A candidate of these files and this data.
    pub fn with(tree: SourceTree, data: Data) -> Self {
        let mut hasher = blake3::Hasher::new();
        for (path, file) in &tree.files {
            for part in [path.as_bytes(), file.text().as_bytes()] {
                hasher.update(&(part.len() as u64).to_le_bytes());
                hasher.update(part);
            }
        }
        data.feed(&mut hasher);
        let id = CandidateId(hasher.finalize().to_hex().as_str()[..24].to_owned());
        Self { tree: Arc::new(tree), data, id }
    }
}
