//! Owns the interpreter: found, or a virtual environment made from requirements once and kept in the user's cache.
//!
//! Invariant: an environment is used only when it was made to the end, and never by two makers at once.
//! Must not read the process environment (`cli` hands in `Surroundings`) nor spawn by itself (`process` does).

use std::path::PathBuf;

/// Which interpreter a case wants (`python:`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Wanted {
    /// What the command names, else the active virtual environment, else `python3`.
    #[default]
    Default,
    /// This one, absolute.
    Path(PathBuf),
    /// A virtual environment made from requirements.
    Made(Requirements),
}

/// What a made environment holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Requirements {
    /// Python's version, such as `3.11`; none: that of the default interpreter.
    pub version: Option<String>,
    /// Packages as pip takes them.
    pub packages: Vec<String>,
}

/// An interpreter that answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Python {
    /// `sys.executable`, absolute.
    pub executable: PathBuf,
    /// Such as `3.11.7`.
    pub version: String,
    /// `sys.prefix`.
    pub prefix: PathBuf,
    /// Its torch, if any.
    pub torch: Option<Torch>,
}

/// An installed torch (looked at, not imported).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Torch {
    /// Such as `2.11.0+cpu`.
    pub version: String,
    /// The CUDA version it was built for; none for a CPU build.
    pub cuda: Option<String>,
}
