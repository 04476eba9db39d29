//! Owns the reasons why a command cannot be reduced, and the ways out.
//!
//! Invariant: shown with file, line and key, as all errors about `crash.yaml`.
//! Must not decide anything.

use super::CommandLine;
use crate::yaml::Error;

/// Why a command is not one that can be reduced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Not Python.
    #[error("not a Python command: `{0}`")]
    NotPython(String),
    /// Starts no program.
    #[error("`{0}` names no program to run")]
    NoProgram(String),
    /// The program is in the command itself.
    #[error("`python -c` holds its program in the command")]
    Inline,
    /// The program comes on standard input.
    #[error("the program is read from standard input")]
    StandardInput,
    /// A tool of Python, not a program of the user.
    #[error("`{0}` runs no program of yours")]
    Tool(String),
    /// A launcher that starts its programs elsewhere or in its own way.
    #[error("`{0}` starts its program in a way that is not understood")]
    Launcher(String),
    /// A file is missing.
    #[error("no such file: {0}")]
    Missing(String),
    /// A folder where a file is needed.
    #[error("{0} is a folder, not a Python file")]
    Folder(String),
    /// A Python file started without the interpreter.
    #[error("{0} has no `#!` line, so that a shell would not start Python")]
    NoShebang(String),
    /// The program is outside of the project.
    #[error("{0} lies outside of the project")]
    Outside(String),
    /// Packages for this run only.
    #[error("`{0}` gives the program an environment of its own")]
    Packages(String),
    /// The configuration of a launcher is wrong.
    #[error("{0}")]
    Config(String),
    /// The text itself is wrong.
    #[error("{0}")]
    Syntax(String),
}

impl Refusal {
    /// The ways out, a line each.
    pub fn hints(&self) -> Vec<String> {
        let forms = "accepted: python FILE, python -m MODULE, torchrun, accelerate launch, uv run, poetry run, \
                     a shell script that starts one of these, or a script with `#!`";
        let text = match self {
            Refusal::NotPython(_) | Refusal::NoProgram(_) | Refusal::Tool(_) => forms,
            Refusal::Inline | Refusal::StandardInput => "put the program in a file and name that",
            Refusal::Launcher(_) => "name the Python command that it starts",
            Refusal::Missing(_) | Refusal::Folder(_) => "the command is started in workdir; the path is relative to that",
            Refusal::NoShebang(_) => "write `python` in front of it",
            Refusal::Outside(_) => "set workdir to the folder of the program, or give the path as it is seen from there",
            Refusal::Packages(_) => "name the environment: `python: {version: \"3.11\", requirements: [...]}`",
            Refusal::Config(_) | Refusal::Syntax(_) => return Vec::new(),
        };
        vec![text.to_owned()]
    }
}

impl CommandLine {
    /// An error about this command.
    pub fn error(&self, refusal: &Refusal) -> Error {
        Error {
            file: self.shown.clone(),
            line: self.line,
            key: "command".to_owned(),
            message: refusal.to_string(),
            hints: refusal.hints(),
        }
    }
}
