//! The axes, each one file: what the points or elements are, and in which setting they are run.
//!
//! Invariant: an axis never writes into the user's project, repository or environment.
//! It asks nothing and judges nothing.

pub mod commits;
mod config;
mod git;
pub mod launches;
pub mod locks;
pub mod packages;
mod rows;
pub mod samples;
pub mod settings;
pub mod steps;
