//! The integration tests, one binary.

mod bad_input;
mod case;
mod corpus;
mod harness;
mod passes;
mod program;
mod search;
mod signature;
mod support;
