//! `reduce`: the smallest program that still dies the same way.
//!
//! The modules stand in the order of the flow: a case becomes trials, trials become verdicts, verdicts steer the search.
//! A module imports only from lower ranks and its own folder (`docs/architecture.md`; `tests/architecture.rs` enforces it).

pub mod bisect;
pub mod bundle;
pub mod call;
pub mod candidate;
pub mod case;
pub mod cli;
pub mod corpus;
pub mod data;
pub mod environment;
pub mod evidence;
pub mod exit;
pub mod explain;
pub mod harness;
pub mod job;
pub mod ledger;
pub mod oracle;
pub mod passes;
pub mod plan;
pub mod process;
pub mod program;
pub mod scratch;
pub mod search;
pub mod signature;
pub mod trial;
pub mod verdict;
pub mod yaml;
