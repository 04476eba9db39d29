//! The integration tests, one binary.

mod case;
mod program;
mod search;
mod passes;
