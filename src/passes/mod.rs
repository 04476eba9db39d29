//! Passes: ways to make a program smaller, one a file, each a pure function from a program to proposals.
//!
//! Owns `Proposal`, `combine` and the register of passes. Invariant: any subset of the proposals of a pass can be combined,
//! and no proposal brings in a value that the program did not have: it removes, or leaves a part in place of the whole.
//! Must not run code, know verdicts, or decide the order of trials (strategies and the search do).

mod annotations;
mod arguments;
mod arms;
mod bases;
mod call_sites;
mod combine;
mod decorators;
mod displays;
mod expressions;
mod facts;
mod hoist;
mod imports;
mod inline;
mod names;
mod parameters;
mod peel;
mod plain;
mod proposal;
mod sequence;
mod statements;
mod targets;
mod unpacking;
mod view;
mod walk;

pub use combine::{Change, combine};
pub use facts::Facts;
pub use proposal::Proposal;

use crate::program::Program;

/// A way to make a program smaller.
///
/// The contract of a pass:
/// - it is a pure function: the same program and facts give the same proposals, in program order;
/// - a proposal deletes text, or moves nothing and inserts at most a keyword or a bracket;
/// - every subset of its proposals combines into text that parses;
/// - the key of a proposal names the place in the *original* text, so that it is the same after edits elsewhere;
/// - its prior is the honest chance that the proposal alone keeps the failure, to judge by the syntax and the facts.
pub trait Pass: Sync {
    /// The name in strategies, in progress and in the ledger.
    fn name(&self) -> &'static str;

    /// What it would try on this program, in program order.
    fn proposals(&self, program: &Program, facts: &Facts) -> Vec<Proposal>;
}

/// Every pass, in the order in which the documents list them.
pub const ALL: [&dyn Pass; 14] = [
    &hoist::Hoist,
    &arms::Arms,
    &decorators::Decorators,
    &bases::Bases,
    &arguments::Arguments,
    &parameters::Parameters,
    &imports::Imports,
    &annotations::Annotations,
    &expressions::Expressions,
    &displays::Displays,
    &targets::Targets,
    &unpacking::Unpacking,
    &inline::Inline,
    &statements::Statements,
];

/// The pass of a name.
pub fn by_name(name: &str) -> Option<&'static dyn Pass> {
    ALL.into_iter().find(|pass| pass.name() == name)
}

#[cfg(test)]
mod check;
