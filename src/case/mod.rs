//! Owns the case: `crash.yaml` and what it says about the command, the setting, the files and the limits.
//!
//! Invariant: a `Case` is complete and valid: defaults are filled in, paths are absolute, values that this version does not
//! support have been refused.
//! Must not run anything: a script that must be run to be understood comes back as a plan (`Resolved::Spy`).

mod command;
pub mod document;
mod expand;
pub mod globs;
pub mod invocation;
mod launcher;
pub mod quantity;
pub mod read;
pub mod refusal;
pub mod schema;
mod script;
mod shell;
pub mod spy;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

pub use globs::Globs;
pub use invocation::resolve;
pub use read::{parse, read};
pub use spy::Spy;

use crate::environment::{Interpreter, Wanted};
use crate::signature::Match;

/// Everything that `crash.yaml` says.
#[derive(Debug, Clone)]
pub struct Case {
    /// The file as messages name it; `command line` when there is no file.
    pub shown: String,
    /// The folder of the file, absolute; `workdir` and `python` are relative to it.
    pub folder: PathBuf,
    /// Where the command is typed, absolute; `sources`, `data`, `keep` and `sandbox.write` are relative to it.
    pub workdir: PathBuf,
    /// The command as typed.
    pub command: CommandLine,
    /// Files that may be cut; none: the project files that the traced run imported.
    pub sources: Option<Globs>,
    /// Files that may be shrunk; none: the project files that the traced run opened for reading.
    pub data: Option<Globs>,
    /// Files that are never changed.
    pub keep: Globs,
    /// The failure that is expected; empty: whatever the first run shows.
    pub expect: Expect,
    /// How a candidate is run.
    pub setting: Setting,
    /// What the program may reach.
    pub sandbox: Sandbox,
    /// When to stop.
    pub limits: Limits,
    /// Trials at once; none: chosen from the machine.
    pub jobs: Option<u32>,
    /// The strategy by name or file.
    pub strategy: String,
}

/// A command as typed and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// Exactly what was typed.
    pub text: String,
    /// The file that errors name.
    pub shown: String,
    /// 1-based line in that file; none on the command line.
    pub line: Option<usize>,
}

/// How a candidate is run.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Which interpreter.
    pub python: Wanted,
    /// Extra environment variables of the case (those of the command are in `Invocation`).
    pub env: BTreeMap<String, String>,
    /// Where CUDA code runs.
    pub device: Device,
    /// The GPUs to use, by index.
    pub gpus: Vec<u32>,
    /// What makes runs cheaper or steadier.
    pub pins: Pins,
}

/// Where CUDA code runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Device {
    /// A real GPU where there is one, else emulated.
    #[default]
    Auto,
    /// A real GPU.
    Cuda,
    /// CPU tensors that claim to be on a GPU.
    Emulated,
}

impl Device {
    /// The name as written in files and flags.
    pub fn name(self) -> &'static str {
        match self {
            Device::Auto => "auto",
            Device::Cuda => "cuda",
            Device::Emulated => "emulated",
        }
    }
}

/// Changes to how the program is run; each is proven by preflight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pins {
    /// `CUDA_LAUNCH_BLOCKING=1`.
    pub launch_blocking: bool,
    /// The seed of every generator; none leaves seeding alone.
    pub seed: Option<u32>,
    /// `Some(0)` takes the workers out of DataLoaders; none leaves them alone.
    pub num_workers: Option<u32>,
}

/// The failure that a case expects.
#[derive(Debug, Clone, Default)]
pub struct Expect {
    /// The condition of the assert.
    pub assertion: Option<String>,
    /// The kernel function.
    pub kernel: Option<String>,
    /// How alike two failures must be; none: `normal`, and `--match` may say otherwise.
    pub level: Option<Match>,
    /// The line of `expect` in the file, for messages.
    pub line: Option<usize>,
}

impl Expect {
    /// Whether the case names a failure at all.
    pub fn is_open(&self) -> bool {
        self.assertion.is_none() && self.kernel.is_none()
    }
}

/// What the program may reach.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// Whether it may use the network.
    pub network: bool,
    /// Absolute paths that it may really write to.
    pub write: Vec<PathBuf>,
}

/// When to stop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// For the whole run.
    pub time: Option<Duration>,
    /// Trials, preflight and confirmation included.
    pub runs: Option<u64>,
    /// Bytes a trial may use.
    pub memory: Option<u64>,
    /// For one trial; none: from the first run.
    pub timeout: Option<Duration>,
}

/// A Python program as the command starts it, ready to be run again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// Which interpreter the command names.
    pub interpreter: Interpreter,
    /// Options of the interpreter, such as `-u`, `-O` or `-X` and its value.
    pub options: Vec<String>,
    /// What it runs.
    pub program: Program,
    /// `sys.argv[1:]`.
    pub argv: Vec<String>,
    /// Variables that the command sets (not those of the case).
    pub env: BTreeMap<String, String>,
    /// Variables that the command takes away.
    pub unset: BTreeSet<String>,
    /// The project root, absolute: the smallest folder that holds working folder and script.
    pub project: PathBuf,
    /// Where the program is started, relative to the project root; `.` for the root.
    pub workdir: String,
    /// Processes that the command asks for when a launcher was named (`torchrun`, `accelerate`); rank 0 alone is run.
    pub ranks: Option<Ranks>,
}

/// What the interpreter runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// A file, as typed: relative to the working folder, or absolute.
    Script(String),
    /// `-m MODULE`.
    Module(String),
}

/// The processes that a launcher was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ranks {
    /// That many.
    Count(u32),
    /// One a device (`gpu`, `auto`).
    EachDevice,
}

/// A command, understood.
#[derive(Debug, Clone)]
pub enum Resolved {
    /// By reading alone.
    Static(Invocation),
    /// A script that must be run with a recording `python` to see what it starts.
    Spy(Spy),
}
