//! The program under reduction: its files, its statements, the edits that remove some of them, and what needs what.
//!
//! Owns `SourceTree` (text with origins), `Program` (statements of every file), deletion and the dependency graph.
//! Invariant: text that no edit touches keeps its bytes and knows where it stood in the original.
//! Must not run code, print, or let a name of the parser's crates out of `python.rs`.

mod arguments;
mod attributes;
mod canonical;
mod certain;
mod edit;
mod encoding;
mod flow;
#[cfg(test)]
mod flow_tests;
mod idioms;
mod inert;
mod infer;
pub mod join;
mod link;
mod modules;
mod names;
mod parse;
pub(crate) mod python;
mod reach;
mod source;
mod statement;
mod walk;

pub use canonical::{Naming, canonical};
pub use certain::{Certain, Of, Ran};
pub use encoding::Encoding;
pub use flow::{Graph, Line, Missing, Need, Observed, Provenance, Strength};
pub use names::Names;
pub use parse::{Opaque, Origin, ParseError, Program};
pub use source::{Edit, Edits, Segment, SourceError, SourceFile, SourceTree};
pub use statement::{Arm, FileId, Statement, StmtId, StmtKind, StmtSet};
