//! The integration tests, one binary.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what fails here fails a test; what is printed shows how it went"
)]

mod bad_input;
mod bisect;
mod call;
mod case;
mod corpus;
mod corpus_commands;
mod data;
mod emulated;
mod explain;
mod explain_cases;
mod first;
mod harness;
mod passes;
mod program;
mod report;
mod search;
mod signature;
mod support;
