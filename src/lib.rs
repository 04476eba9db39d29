//! `reduce`: the smallest program that still dies the same way.
//!
//! The modules stand in the order of the flow: a case becomes trials, trials become verdicts, verdicts steer the search.
//! A module imports only from lower ranks and its own folder (`docs/architecture.md`; `tests/architecture.rs` enforces it).

pub mod process;
pub mod yaml;
pub mod program;
pub mod harness;
pub mod signature;
pub mod environment;
pub mod case;
pub mod candidate;
pub mod evidence;
pub mod passes;
pub mod trial;
pub mod plan;
pub mod verdict;
pub mod ledger;
pub mod oracle;
pub mod search;
pub mod bundle;
pub mod job;
pub mod exit;
pub mod cli;
