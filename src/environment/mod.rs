//! Owns the interpreter: found, or a virtual environment made from requirements once and kept in the user's cache.
//!
//! Invariant: an environment is used only when it was made to the end, and never by two makers at once.
//! Must not read the process environment: `cli` hands in `Surroundings`.

mod index;
mod machine;
mod make;
mod probe;
mod surroundings;

use std::path::{Path, PathBuf};

pub use machine::Machine;
pub use surroundings::Surroundings;
pub(crate) use surroundings::which;

use crate::process::ProcessError;

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

/// Which interpreter a command names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interpreter {
    /// None: a launcher's own, which is the default one.
    Unnamed,
    /// A name to be looked up, such as `python` or `python3.11`.
    Named(String),
    /// A path, absolute.
    Path(PathBuf),
    /// The environment that `uv run` or `poetry run` would use.
    Project {
        /// `uv` or `poetry`.
        tool: &'static str,
        /// Where the tool would be started, absolute.
        folder: PathBuf,
    },
}

/// An interpreter that answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Python {
    /// The path to start it by, absolute; in a virtual environment, the path inside of it.
    pub executable: PathBuf,
    /// Such as `3.11.7`.
    pub version: String,
    /// `sys.prefix`.
    pub prefix: PathBuf,
    /// Its torch, if any.
    pub torch: Option<Torch>,
    /// The version of its numpy, if any.
    pub numpy: Option<String>,
}

/// An installed torch (looked at, not imported).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Torch {
    /// Such as `2.11.0+cpu`.
    pub version: String,
    /// The CUDA version it was built for; none for a CPU build.
    pub cuda: Option<String>,
}

/// What takes time and deserves a line on the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// An environment is being made.
    Making {
        /// Where.
        folder: PathBuf,
        /// `uv` or `pip`.
        by: &'static str,
    },
    /// Another run is making the same environment: waiting for it.
    Waiting {
        /// Where.
        folder: PathBuf,
    },
}

impl std::fmt::Display for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Making { folder, by } => write!(f, "making an environment with {by} in {}", folder.display()),
            Self::Waiting { folder } => write!(f, "another run is making {}: waiting for it", folder.display()),
        }
    }
}

/// Why there is no interpreter to use.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    /// Nothing to start.
    #[error("no interpreter: {0}")]
    NotFound(String),
    /// It does not work.
    #[error("{} does not answer: {reason}", executable.display())]
    NoAnswer {
        /// The interpreter.
        executable: PathBuf,
        /// What it said.
        reason: String,
    },
    /// Too old for the harness.
    #[error("{} is Python {version}; 3.8 or newer is needed", executable.display())]
    TooOld {
        /// The interpreter.
        executable: PathBuf,
        /// Its version.
        version: String,
    },
    /// No torch in it.
    #[error("{} has no torch", executable.display())]
    NoTorch {
        /// The interpreter.
        executable: PathBuf,
    },
    /// An environment could not be made.
    #[error("cannot make the environment: {step} failed: {reason}")]
    NotMade {
        /// What was being done.
        step: String,
        /// The end of what it printed.
        reason: String,
    },
    /// The cache folder could not be used.
    #[error("{}: {source}", path.display())]
    Cache {
        /// The folder or file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A child could not be started.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

impl EnvironmentError {
    /// The ways out, a line each.
    pub fn hints(&self) -> Vec<String> {
        let name_one = "name an interpreter in crash.yaml: `python: path/to/bin/python`".to_owned();
        let make_one =
            "or let one be made: `python: {version: \"3.11\", requirements: [torch==2.11.0, numpy]}`".to_owned();
        let activate = "or activate the environment that the command runs in".to_owned();
        match self {
            EnvironmentError::NotFound(_) | EnvironmentError::NoTorch { .. } => vec![name_one, activate, make_one],
            EnvironmentError::NoAnswer { .. } | EnvironmentError::TooOld { .. } => vec![name_one, make_one],
            EnvironmentError::NotMade { .. } => {
                vec!["check python.version and python.requirements in crash.yaml".to_owned(), name_one]
            }
            EnvironmentError::Cache { .. } => vec!["REDUCE_CACHE_DIR names another cache folder".to_owned()],
            EnvironmentError::Process(_) => Vec::new(),
        }
    }
}

/// Finds or makes the interpreter that a case wants and asks it what it is.
///
/// `named` is what the command names; `folder` is where it is started. A missing torch is no error here: `require_torch`.
///
/// # Errors
/// When there is none, it does not answer, or an environment cannot be made.
pub fn find(
    wanted: &Wanted,
    named: &Interpreter,
    folder: &Path,
    surroundings: &Surroundings,
    notice: &mut dyn FnMut(Notice),
) -> Result<Python, EnvironmentError> {
    let executable = match wanted {
        Wanted::Path(path) => path.clone(),
        Wanted::Made(requirements) => make::make(requirements, surroundings, notice)?,
        Wanted::Default => by_name(named, folder, surroundings)?,
    };
    probe::probe(&executable)
}

/// An environment with packages of its own in front of those of an interpreter: made once, kept in the cache.
#[derive(Debug, Clone)]
pub struct Layers {
    base: PathBuf,
    folders: Vec<PathBuf>,
}

/// What is found behind the packages of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind {
    /// The packages of the interpreter.
    Packages,
    /// Only what was asked for.
    Nothing,
}

impl Layers {
    /// Layers over an interpreter.
    ///
    /// # Errors
    /// When it does not say where its packages are.
    pub fn over(python: &Python) -> Result<Self, EnvironmentError> {
        Ok(Self { base: python.executable.clone(), folders: probe::package_folders(&python.executable)? })
    }

    fn beneath(&self, behind: Behind) -> make::Beneath<'_> {
        match behind {
            Behind::Packages => make::Beneath::Folders(&self.folders),
            Behind::Nothing => make::Beneath::Nothing,
        }
    }

    fn requirements(packages: &[String]) -> Requirements {
        Requirements { version: None, packages: packages.to_vec() }
    }

    /// The interpreter of a layer, made where it is not there yet.
    ///
    /// # Errors
    /// When the packages do not go together, or cannot be had.
    pub fn make(
        &self,
        packages: &[String],
        behind: Behind,
        surroundings: &Surroundings,
        notice: &mut dyn FnMut(Notice),
    ) -> Result<PathBuf, EnvironmentError> {
        let requirements = Self::requirements(packages);
        make::make_with(&requirements, Some(&self.base), self.beneath(behind), surroundings, notice)
    }

    /// Whether a layer is there already.
    pub fn is_made(&self, packages: &[String], behind: Behind, surroundings: &Surroundings) -> bool {
        let requirements = Self::requirements(packages);
        make::place(&requirements, Some(&self.base), self.beneath(behind), surroundings).join("made").is_file()
    }
}

/// Versions of a package that the index of pip has for an interpreter, the oldest first.
///
/// # Errors
/// When pip is not there or does not find the package.
pub fn versions(
    python: &Path,
    package: &str,
    early: Early,
    surroundings: &Surroundings,
) -> Result<Vec<String>, EnvironmentError> {
    index::versions(python, package, early, surroundings)
}

/// What an interpreter has installed, as `pip freeze` says it.
///
/// # Errors
/// When it does not answer.
pub fn installed(python: &Path) -> Result<Vec<(String, String)>, EnvironmentError> {
    probe::installed(python)
}

/// Whether versions before a release count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Early {
    /// They do: release candidates and nightlies.
    Counted,
    /// They do not.
    LeftOut,
}

/// The torch of an interpreter.
///
/// # Errors
/// When it has none; the hints say how to name an interpreter that has.
pub fn require_torch(python: &Python) -> Result<&Torch, EnvironmentError> {
    python.torch.as_ref().ok_or_else(|| EnvironmentError::NoTorch { executable: python.executable.clone() })
}

fn by_name(named: &Interpreter, folder: &Path, surroundings: &Surroundings) -> Result<PathBuf, EnvironmentError> {
    match named {
        Interpreter::Path(path) if path.is_file() => Ok(path.clone()),
        Interpreter::Path(path) => {
            Err(EnvironmentError::NotFound(format!("the command names {}, which is not there", path.display())))
        }
        Interpreter::Unnamed => default(surroundings),
        Interpreter::Named(name) if name == "python" || name == "python3" => {
            let active = surroundings.virtual_env().map(|prefix| prefix.join("bin").join(name));
            match active.filter(|path| path.is_file()).or_else(|| surroundings.which(name)) {
                Some(path) => Ok(path),
                None => default(surroundings),
            }
        }
        Interpreter::Named(name) => surroundings
            .which(name)
            .ok_or_else(|| EnvironmentError::NotFound(format!("the command names `{name}`, which is not on PATH"))),
        Interpreter::Project { tool, folder: start } => project(tool, start, folder, surroundings),
    }
}

/// The active virtual environment, else `python3`, else `python`.
fn default(surroundings: &Surroundings) -> Result<PathBuf, EnvironmentError> {
    let active = surroundings.virtual_env().map(|prefix| prefix.join("bin/python"));
    active
        .filter(|path| path.is_file())
        .or_else(|| surroundings.which("python3"))
        .or_else(|| surroundings.which("python"))
        .ok_or_else(|| EnvironmentError::NotFound("no active virtual environment, and no python3 on PATH".to_owned()))
}

/// The environment of the project around `start`, as `tool run` would choose it.
fn project(tool: &str, start: &Path, folder: &Path, surroundings: &Surroundings) -> Result<PathBuf, EnvironmentError> {
    if tool == "poetry"
        && let Some(prefix) = surroundings.virtual_env()
    {
        return Ok(prefix.join("bin/python"));
    }
    let root = start.ancestors().find(|folder| folder.join("pyproject.toml").is_file());
    let name = if tool == "uv" { surroundings.var("UV_PROJECT_ENVIRONMENT").unwrap_or(".venv") } else { ".venv" };
    for base in root.into_iter().chain([start, folder]) {
        let python = base.join(name).join("bin/python");
        if python.is_file() {
            return Ok(python);
        }
    }
    if tool == "poetry"
        && surroundings.which("poetry").is_some()
        && let Some(python) = probe::ask_poetry(start)?
    {
        return Ok(python);
    }
    match root {
        // Outside of a project `uv run` takes the active environment or the system's.
        None if tool == "uv" => default(surroundings),
        _ => {
            let make = if tool == "uv" { "uv sync" } else { "poetry install" };
            Err(EnvironmentError::NotFound(format!(
                "`{tool} run` has no environment for {} yet (`{make}` makes it)",
                start.display()
            )))
        }
    }
}
