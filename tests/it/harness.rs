//! The Python tests of the harness, with every interpreter that they are about.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{new_python, old_python, root, run, text};

/// Versions of Python that the harness is for.
const MINORS: std::ops::RangeInclusive<u32> = 8..=13;

/// Writes past the capture of test output: what was run must be seen, also when it passes.
fn say(line: &str) {
    let _closed = writeln!(std::io::stderr(), "{line}");
}

/// Runs a test file to its end and fails with its output.
fn passes(python: &Path, file: &str) {
    let script = root().join("tests/py").join(file);
    let mut command = Command::new(python);
    command.arg("-B").arg(script).current_dir(root()).stdin(Stdio::null());
    command.env_remove("PYTHONPATH").env_remove("VIRTUAL_ENV").env_remove("CUDA_LAUNCH_BLOCKING");
    let output = run(&mut command);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let ran = said.lines().find(|line| line.starts_with("Ran "));
    let end = said.lines().rev().find(|line| !line.trim().is_empty());
    let version = version(python).unwrap_or_default();
    say(&format!(
        "{file} with Python {version} ({}): {}; {}",
        python.display(),
        ran.unwrap_or("nothing ran"),
        end.unwrap_or("no output")
    ));
    assert!(output.status.success(), "{file} with {}: {}", python.display(), text(&output));
    assert!(ran.is_some_and(|line| !line.starts_with("Ran 0 ")), "{file} with {}: no test ran", python.display());
}

/// Such as `3.11.7`; none when the file is not an interpreter that starts.
fn version(python: &Path) -> Option<String> {
    let output = Command::new(python)
        .args(["-c", "import sys; print('.'.join(map(str, sys.version_info[:3])))"])
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let version = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !version.is_empty()).then_some(version)
}

/// Where interpreters lie: the folders of PATH, and pyenv's.
fn folders() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let pyenv = std::env::var_os("PYENV_ROOT").map_or_else(|| home.join(".pyenv"), PathBuf::from);
    let mut versions: Vec<PathBuf> = std::fs::read_dir(pyenv.join("versions"))
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path().join("bin"))
        .collect();
    versions.sort();
    folders.extend(versions);
    folders
}

/// One interpreter for each version of Python that is installed, and the versions that are not.
fn installed() -> (Vec<PathBuf>, Vec<u32>) {
    let folders = folders();
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for minor in MINORS {
        let wanted = format!("3.{minor}.");
        // A name on PATH may be a stand-in that starts nothing: what counts is what answers.
        let python = folders
            .iter()
            .map(|folder| folder.join(format!("python3.{minor}")))
            .find(|python| python.is_file() && version(python).is_some_and(|version| version.starts_with(&wanted)));
        match python {
            Some(python) => found.push(python),
            None => missing.push(minor),
        }
    }
    (found, missing)
}

#[test]
fn the_fork_server_keeps_its_promises_with_the_torch_of_today() {
    passes(&new_python(), "test_harness.py");
}

#[test]
fn the_fork_server_keeps_its_promises_with_an_old_torch() {
    passes(&old_python(), "test_harness.py");
}

#[test]
fn the_fork_server_keeps_its_promises_with_every_python_that_is_installed() {
    let (found, missing) = installed();
    let of = |pythons: &[PathBuf]| pythons.iter().map(|python| python.display().to_string()).collect::<Vec<_>>();
    say(&format!("interpreters for the harness: {}; not installed: {missing:?} of Python 3", of(&found).join(", ")));
    for python in &found {
        passes(python, "test_harness.py");
    }
}

#[test]
fn the_emulated_device_does_what_cuda_does_with_the_torch_of_today() {
    passes(&new_python(), "test_emulated.py");
}

#[test]
fn the_emulated_device_does_what_cuda_does_with_an_old_torch() {
    passes(&old_python(), "test_emulated.py");
}

#[test]
fn the_failing_call_is_recorded_wherever_it_is_made_with_the_torch_of_today() {
    passes(&new_python(), "test_record.py");
}

#[test]
fn the_failing_call_is_recorded_wherever_it_is_made_with_an_old_torch() {
    passes(&old_python(), "test_record.py");
}

#[test]
fn the_emulated_device_fails_where_and_how_the_recorded_gpu_failed() {
    passes(&new_python(), "test_recorded.py");
}

#[test]
fn processes_see_the_emulated_device_with_the_torch_of_today() {
    passes(&new_python(), "test_processes.py");
}

#[test]
fn processes_see_the_emulated_device_with_an_old_torch() {
    passes(&old_python(), "test_processes.py");
}

#[test]
fn every_python_test_file_is_run_by_a_test_here() {
    let own = include_str!("harness.rs");
    for entry in std::fs::read_dir(root().join("tests/py")).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        assert!(!name.starts_with("test_") || own.contains(&format!("\"{name}\"")), "{name} is not run");
    }
}
