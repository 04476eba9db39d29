//! The integration tests, one binary.

mod program;
mod search;
mod passes;
