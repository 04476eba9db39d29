//! Owns asking an interpreter what it is, in one short run.
//!
//! Invariant: torch is looked at and not imported: that takes seconds and may fail for reasons that preflight shows better.
//! Must not choose an interpreter.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value as Json;

use super::{EnvironmentError, Python, Torch};
use crate::process::{self, End, Spawn};

/// Slow disks and network homes take their time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Prints one line of JSON behind a mark, since start-up files of the user may print as well.
/// `torch/version.py` is executed by itself: it holds constants only.
const QUESTION: &str = r#"
import json, os, sys
answer = {"version": "%d.%d.%d" % sys.version_info[:3], "prefix": sys.prefix, "torch": None, "numpy": None}
try:
    from importlib.util import find_spec
    spec = find_spec("torch")
    if spec is not None and spec.origin:
        names = {}
        path = os.path.join(os.path.dirname(spec.origin), "version.py")
        try:
            with open(path) as file:
                exec(compile(file.read(), path, "exec"), names)
        except Exception:
            from importlib.metadata import version
            names["__version__"] = version("torch")
        cuda = names.get("cuda")
        answer["torch"] = {"version": str(names["__version__"]), "cuda": str(cuda) if cuda else None}
except Exception:
    pass
try:
    from importlib.metadata import version
    answer["numpy"] = version("numpy")
except Exception:
    pass
sys.stdout.write("\n@reduce@" + json.dumps(answer) + "\n")
"#;

/// Asks an interpreter.
pub(super) fn probe(executable: &Path) -> Result<Python, EnvironmentError> {
    let no_answer = |reason: String| EnvironmentError::NoAnswer { executable: executable.to_path_buf(), reason };
    // A folder of its own as the working folder: `-c` puts that in front of the module path.
    let empty = tempfile::tempdir().map_err(|source| EnvironmentError::Cache { path: std::env::temp_dir(), source })?;
    let mut spawn = Spawn::new([executable.as_os_str(), "-B".as_ref(), "-c".as_ref(), QUESTION.as_ref()]);
    spawn.cwd = Some(empty.path().to_path_buf());
    let output = process::run(&spawn, PATIENCE).map_err(|error| no_answer(error.to_string()))?;
    let last = output.stderr.trim().lines().next_back().unwrap_or_default().to_owned();
    match output.end {
        End::Exited(0) => {}
        End::TimedOut | End::Stuck => return Err(no_answer(format!("no end within {} s", PATIENCE.as_secs()))),
        End::Exited(status) if last.is_empty() => return Err(no_answer(format!("exit status {status}"))),
        End::Signaled(signal) if last.is_empty() => return Err(no_answer(format!("ended by signal {signal}"))),
        End::Exited(_) | End::Signaled(_) => return Err(no_answer(last)),
    }
    let line = output.stdout.rsplit("@reduce@").next().and_then(|rest| rest.lines().next()).unwrap_or_default();
    let answer: Json = serde_json::from_str(line).map_err(|_| no_answer("it is no Python interpreter".to_owned()))?;
    let text = |value: &Json| value.as_str().map(str::to_owned);
    let version = text(&answer["version"]).ok_or_else(|| no_answer("it does not tell its version".to_owned()))?;
    if !is_new_enough(&version) {
        return Err(EnvironmentError::TooOld { executable: executable.to_path_buf(), version });
    }
    let torch =
        text(&answer["torch"]["version"]).map(|version| Torch { version, cuda: text(&answer["torch"]["cuda"]) });
    Ok(Python {
        executable: executable.to_path_buf(),
        version,
        prefix: text(&answer["prefix"]).map(PathBuf::from).unwrap_or_default(),
        torch,
        numpy: text(&answer["numpy"]),
    })
}

fn is_new_enough(version: &str) -> bool {
    let mut parts = version.split('.').map_while(|part| part.parse::<u32>().ok());
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (3, 8)
}

/// Prints where packages are, and what is installed.
const PACKAGES: &str = r#"
import json, sys
folders = [path for path in sys.path if path.rstrip("/").endswith(("site-packages", "dist-packages"))]
try:
    from importlib.metadata import distributions
    found = {}
    for one in distributions():
        name = one.metadata["Name"]
        if name:
            found.setdefault(name, one.version)
except Exception:
    found = {}
sys.stdout.write("\n@reduce@" + json.dumps([folders, sorted(found.items())]) + "\n")
"#;

/// Folders with packages, and names with versions.
#[derive(serde::Deserialize)]
struct Packages(Vec<PathBuf>, Vec<(String, String)>);

fn packages(executable: &Path) -> Result<Packages, EnvironmentError> {
    let no_answer =
        |reason: &str| EnvironmentError::NoAnswer { executable: executable.to_path_buf(), reason: reason.to_owned() };
    let empty = tempfile::tempdir().map_err(|source| EnvironmentError::Cache { path: std::env::temp_dir(), source })?;
    let mut spawn = Spawn::new([executable.as_os_str(), "-B".as_ref(), "-c".as_ref(), PACKAGES.as_ref()]);
    spawn.cwd = Some(empty.path().to_path_buf());
    let output = process::run(&spawn, PATIENCE)?;
    let line = output.stdout.rsplit("@reduce@").next().and_then(|rest| rest.lines().next()).unwrap_or_default();
    serde_json::from_str(line).map_err(|_| no_answer("it does not say where its packages are"))
}

/// Folders with packages of an interpreter.
pub(super) fn package_folders(executable: &Path) -> Result<Vec<PathBuf>, EnvironmentError> {
    Ok(packages(executable)?.0)
}

/// Names and versions of what is installed.
pub(super) fn installed(executable: &Path) -> Result<Vec<(String, String)>, EnvironmentError> {
    Ok(packages(executable)?.1)
}

/// The interpreter of a Poetry project, if Poetry knows one.
pub(super) fn ask_poetry(folder: &Path) -> Result<Option<PathBuf>, EnvironmentError> {
    let mut spawn = Spawn::new(["poetry", "env", "info", "--executable"]);
    spawn.cwd = Some(folder.to_path_buf());
    let output = process::run(&spawn, PATIENCE)?;
    let path = PathBuf::from(output.stdout.trim());
    Ok((output.end == End::Exited(0) && path.is_file()).then_some(path))
}
