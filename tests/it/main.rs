//! The integration tests, one binary.

mod case;
mod passes;
mod program;
mod search;
mod signature;
