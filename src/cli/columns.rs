//! From `--with` and `--python` to interpreters: each is a column of the matrix that `corpus run` shows.
//!
//! Invariant: an interpreter that is there and fits is used before an environment is made.
//! Must not run entries.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use pep440_rs::{Version, VersionSpecifiers};

use super::corpus_args::CorpusRunArgs;
use super::ground::{self, GroundError};
use super::progress::say;
use super::run::{fail, refuse};
use crate::environment::{self, EnvironmentError, Interpreter, Notice, Python, Requirements, Surroundings, Wanted};
use crate::exit::ExitCode;

/// One interpreter, or why there is none.
pub(super) struct Column {
    /// Such as `torch 2.11.0`.
    pub(super) name: String,
    /// Version of its torch, or what was asked for.
    pub(super) torch: String,
    pub(super) python: Result<Python, String>,
}

/// A package as `--with` names it.
struct Package {
    name: String,
    versions: VersionSpecifiers,
}

/// The columns, in the order in which they were typed.
///
/// # Errors
/// When something typed is wrong, or there is no interpreter with torch at all.
pub(super) fn columns(args: &CorpusRunArgs) -> Result<Vec<Column>, ExitCode> {
    let surroundings = ground::surroundings();
    let quiet = args.output.quiet || args.output.json;
    let mut named = Vec::new();
    for path in &args.python {
        let python = find(&Wanted::Path(interpreter(path)?), &surroundings, quiet).and_then(with_torch);
        named.push(python.map_err(|error| refuse(&GroundError::Environment(error)))?);
    }
    if args.with.is_empty() {
        if named.is_empty() {
            let python = find(&Wanted::Default, &surroundings, quiet).and_then(with_torch);
            named.push(python.map_err(|error| no_torch(&error))?);
        }
        return Ok(distinct(named.into_iter().map(Column::of).collect()));
    }
    // What is there anyway: the active environment, and the system's interpreter.
    let mut bare = surroundings.clone();
    bare.vars.remove("VIRTUAL_ENV");
    for around in [&surroundings, &bare] {
        named.extend(find(&Wanted::Default, around, true));
    }
    let mut columns = Vec::new();
    for text in &args.with {
        let packages = packages(text)?;
        let fitting = named.iter().find(|python| packages.iter().all(|package| has(python, package)));
        columns.push(match fitting {
            Some(python) => Column::of(python.clone()),
            None => made(text, &packages, &surroundings, quiet),
        });
    }
    Ok(distinct(columns))
}

impl Column {
    fn of(python: Python) -> Self {
        let torch = python.torch.as_ref().map_or_else(String::new, |torch| torch.version.clone());
        Self { name: format!("torch {torch}"), torch, python: Ok(python) }
    }
}

/// Columns of one version are told apart by their interpreters.
fn distinct(mut columns: Vec<Column>) -> Vec<Column> {
    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    for column in &mut columns {
        let shared = names.iter().filter(|name| **name == column.name).count() > 1;
        if let (true, Ok(python)) = (shared, &column.python) {
            column.name = format!("{} ({})", column.name, python.executable.display());
        }
    }
    columns
}

fn interpreter(path: &Path) -> Result<PathBuf, ExitCode> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let inside = absolute.join("bin/python");
    match (absolute.is_file(), inside.is_file()) {
        (true, _) => Ok(absolute),
        (_, true) => Ok(inside),
        _ => Err(fail(
            &format!("--python: no such interpreter: {}", path.display()),
            &["name the file, or the folder of a virtual environment".to_owned()],
            ExitCode::Usage,
        )),
    }
}

fn find(wanted: &Wanted, surroundings: &Surroundings, quiet: bool) -> Result<Python, EnvironmentError> {
    let mut notice = |notice: Notice| {
        if !quiet {
            say(&notice.to_string());
        }
    };
    environment::find(wanted, &Interpreter::Named("python".to_owned()), Path::new("/"), surroundings, &mut notice)
}

fn with_torch(python: Python) -> Result<Python, EnvironmentError> {
    environment::require_torch(&python)?;
    Ok(python)
}

fn no_torch(error: &EnvironmentError) -> ExitCode {
    let hints = [
        "name an interpreter: `--python path/to/bin/python`".to_owned(),
        "or let an environment be made: `--with torch==2.11.0`".to_owned(),
    ];
    fail(&error.to_string(), &hints, ExitCode::CannotRun)
}

/// The packages of one `--with`.
fn packages(text: &str) -> Result<Vec<Package>, ExitCode> {
    let wrong = |why: &str| {
        let hints = ["accepted: torch==2.11.0, or several packages in quotes: \"torch==2.11.0 numpy==2.0\"".to_owned()];
        fail(&format!("--with {text}: {why}"), &hints, ExitCode::Usage)
    };
    let mut packages = Vec::new();
    for word in text.split_whitespace() {
        let end = word.find(['=', '<', '>', '!', '~']).unwrap_or(word.len());
        let (name, versions) = word.split_at(end);
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        if !is_name || versions.is_empty() {
            return Err(wrong("not a package with a version"));
        }
        let versions = VersionSpecifiers::from_str(versions).map_err(|_| wrong("not a version"))?;
        packages.push(Package { name: name.to_lowercase(), versions });
    }
    if packages.iter().any(|package| package.name == "torch") {
        return Ok(packages);
    }
    Err(wrong("names no torch"))
}

fn has(python: &Python, package: &Package) -> bool {
    let version = match package.name.as_str() {
        "torch" => python.torch.as_ref().map(|torch| torch.version.clone()),
        "numpy" => python.numpy.clone(),
        // Not asked of an interpreter: an environment is made for it.
        _ => None,
    };
    version.and_then(|text| Version::from_str(&text).ok()).is_some_and(|version| package.versions.contains(&version))
}

/// An environment with these packages; numpy besides, which most programs import.
fn made(text: &str, packages: &[Package], surroundings: &Surroundings, quiet: bool) -> Column {
    let mut wanted: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    if !packages.iter().any(|package| package.name == "numpy") {
        wanted.push("numpy".to_owned());
    }
    let requirements = Requirements { version: None, packages: wanted };
    match find(&Wanted::Made(requirements), surroundings, quiet).and_then(with_torch) {
        Ok(python) => Column::of(python),
        Err(error) => {
            let whole = error.to_string();
            if !quiet {
                say(&format!("note: {whole}"));
            }
            // The last line of an installer says why.
            let why = whole.lines().next_back().unwrap_or(&whole).to_owned();
            Column { name: text.to_owned(), torch: text.to_owned(), python: Err(why) }
        }
    }
}
