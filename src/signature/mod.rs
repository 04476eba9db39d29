//! Owns the identity of a failure: read from what a program printed and raised, normalised, and compared.
//!
//! Invariant: a signature holds nothing that differs between two runs of one failure (no line, block, thread, path or count),
//! and `device-side assert triggered` alone is never a match.
//! Must not run anything or read files; the catalogue is part of the build.

mod assertion;
mod catalog;
mod condition;
mod entries;
mod exception;
mod matching;
mod operators;
mod reading;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use assertion::{Assertion, first as first_assertion};
pub use catalog::{Advice, Catalog, Class, CpuText, Device, Error, Operator};
pub use entries::{Alias, Entry};
pub use exception::Frame as TracebackFrame;
pub use reading::{Reading, Stack, read};

/// Class of an assertion that the catalogue does not hold.
pub const UNKNOWN_ASSERT: &str = "unknown_assert";
/// Class of an assertion whose line was not printed.
pub const UNNAMED_ASSERT: &str = "unnamed_assert";
/// Class of an error of CUDA that the catalogue does not hold.
pub const CUDA_ERROR: &str = "cuda_error";

/// What kind of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// A device-side assertion.
    DeviceAssert,
    /// The host refused the values; what a CPU tensor does.
    HostCheck,
    /// A kernel touched memory or an instruction that it must not.
    MemoryFault,
    /// An error status of a library of CUDA.
    Library,
    /// A sanitizer's finding.
    Sanitizer,
    /// A worker process or its start.
    Worker,
    /// A collective of several ranks.
    Collective,
    /// Memory or device not there: says nothing about the program.
    Resource,
    /// Another error of CUDA.
    Cuda,
}

/// How closely two signatures must agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Match {
    /// File, function, condition, class and operator.
    Strict,
    /// Class and operator.
    #[default]
    Normal,
    /// Class only.
    Loose,
}

/// The identity of a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// What kind of failure it is.
    pub family: Family,
    /// Class of the catalogue, or one of the three classes for what it does not hold.
    pub class: String,
    /// Canonical public name of the operator, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// Base name of the kernel's file, in today's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The kernel function, in today's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The condition that failed, without message; for other families the status that tells failures apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The message that the assertion carries; never compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The exception in one line; never compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exception: Option<String>,
}

/// What a run left behind; text that is not UTF-8 is decoded with replacement before.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence<'a> {
    /// Standard error.
    pub stderr: &'a str,
    /// Standard output: device `printf` ends up there.
    pub stdout: &'a str,
    /// Class of the exception that ended the program.
    pub exception_type: Option<&'a str>,
    /// Its whole message.
    pub exception_message: Option<&'a str>,
    /// The first torch call that raised, as the witness names it.
    pub operator: Option<&'a str>,
}

/// The signature of the failure that a run shows; `None` for a run without one, for a plain Python error, and for a full or
/// absent device ([`read`] tells that one).
pub fn parse(evidence: &Evidence<'_>) -> Option<Signature> {
    read(evidence).map(|reading| reading.signature).filter(|signature| signature.family != Family::Resource)
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.class)?;
        if self.family == Family::HostCheck {
            f.write_str(" (checked on the host)")?;
        }
        if let Some(operator) = &self.operator {
            write!(f, " in {operator}")?;
        }
        let kernel: Vec<&str> = [&self.file, &self.function].into_iter().flatten().map(String::as_str).collect();
        let condition = self.condition.as_deref();
        match (kernel.is_empty(), condition) {
            (false, Some(condition)) => write!(f, ": {} `{condition}`", kernel.join(" ")),
            (false, None) => write!(f, ": {}", kernel.join(" ")),
            (true, Some(condition)) => write!(f, ": {condition}"),
            (true, None) => match &self.exception {
                Some(exception) => write!(f, ": {exception}"),
                None => Ok(()),
            },
        }
    }
}
