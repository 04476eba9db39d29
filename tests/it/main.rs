//! The integration tests, one binary.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what fails here fails a test; what is printed shows how it went"
)]

mod bad_input;
mod bisect;
mod case;
mod corpus;
mod harness;
mod passes;
mod program;
mod search;
mod signature;
mod support;
