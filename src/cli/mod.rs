//! Owns the command line: what was typed, and what is printed.
//!
//! Invariant: only `cli` prints, reads the environment or decides an exit code.
//! Must not hold anything that the search or a trial needs.

pub mod args;
mod bisect;
mod columns;
mod corpus;
pub mod corpus_args;
mod explain;
mod follow;
mod ground;
mod init;
mod progress;
mod replay;
mod report;
mod run;
mod screen;
mod verdicts;

pub use run::main;
