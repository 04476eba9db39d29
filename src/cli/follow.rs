//! Follows a shell script to the Python program that it starts, by running it where nothing that it writes stays.
//!
//! Invariant: the script runs as a trial does, in a view of the project whose writes are thrown away, and with recorders in
//! the place of Python; no file of the user is touched.
//! It must not understand commands: `case` does.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

use super::ground::GroundError;
use crate::case::{Case, Invocation, Spy};
use crate::environment::{self, Interpreter, Surroundings};
use crate::harness;
use crate::scratch::Scratch;
use crate::trial::{
    Device, Event, Mode, Observe, Outcome, Pins, Pool, PoolSpec, ProgramSpec, Request, TrialEnd, TrialId, Variation,
};

/// Time that a script gets to start its Python program.
const PATIENCE: Duration = Duration::from_secs(120);

/// Starts the script from inside the view, with the environment that the user has and the view's folder for temporary files.
const STARTER: &str = r#"# Written by reduce: starts a shell script whose writes are thrown away.
import json, os, subprocess, sys

with open(sys.argv[1]) as file:
    wanted = json.load(file)
environment = dict(wanted["env"], TMPDIR=os.environ["TMPDIR"])
sys.exit(subprocess.call(wanted["argv"], env=environment, stdin=subprocess.DEVNULL))
"#;

/// Runs the script of a case and says which Python program it starts last.
///
/// # Errors
/// When it starts none, does not end, or cannot be run here.
pub(super) fn follow(
    spy: &Spy,
    case: &Case,
    surroundings: &Surroundings,
    sandbox: bool,
) -> Result<Invocation, GroundError> {
    let failed = |error: std::io::Error| GroundError::Spy(error.to_string());
    let folder = Scratch::new().map_err(failed)?;
    let root = folder.path().canonicalize().map_err(failed)?;
    let (recorders, scratch) = (root.join("spy"), root.join("trials"));
    fs::create_dir_all(&scratch).map_err(failed)?;
    let spawn = spy.prepare(&recorders, surroundings).map_err(failed)?;
    let mut environment: BTreeMap<String, String> = surroundings.vars.clone();
    environment.extend(spawn.env.iter().cloned());
    let argv: Vec<String> = spawn.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let (starter, wanted) = (root.join("starter.py"), root.join("script.json"));
    fs::write(&starter, STARTER).map_err(failed)?;
    fs::write(&wanted, json!({ "argv": argv, "env": environment }).to_string()).map_err(failed)?;
    let harness = harness::install(&root.join("harness")).map_err(|error| GroundError::Spy(error.to_string()))?;
    let (project, workdir) = place(case);
    let spec = PoolSpec {
        python: host(case, surroundings)?,
        options: Vec::new(),
        unset: Vec::new(),
        catalog: harness.join("catalog.json"),
        harness,
        project: project.clone(),
        workdir,
        program: ProgramSpec {
            kind: "script".to_owned(),
            target: starter.to_string_lossy().into_owned(),
            argv: vec![wanted.to_string_lossy().into_owned()],
        },
        env: Vec::new(),
        hash_seed: None,
        preload: Vec::new(),
        device: Device::Emulated,
        network: case.sandbox.network,
        write: vec![recorders.join("records")],
        sandbox,
        memory: case.limits.memory,
        scratch: scratch.clone(),
    };
    let outcome = run(spec)?;
    if outcome.end == TrialEnd::TimedOut {
        let seconds = PATIENCE.as_secs();
        return Err(GroundError::Spy(format!("no Python program and no end after {seconds} s ({})", spy.reason)));
    }
    // A view that is a copy has names of its own.
    let copy = outcome.scratch.join(".view/project");
    rename_in_records(&recorders.join("records"), &copy, &project).map_err(failed)?;
    let mut invocation = spy.read(&recorders, case, surroundings).map_err(|mut error| {
        if let Some(last) = outcome.stderr.trim_end().lines().next_back() {
            error.hints.push(format!("it printed: {last}"));
        }
        error
    })?;
    let ours = outcome.scratch.join("tmp");
    invocation.env.retain(|name, value| name != "TMPDIR" || Path::new(value) != ours);
    Ok(invocation)
}

fn run(spec: PoolSpec) -> Result<Outcome, GroundError> {
    let mut pool = Pool::start(spec)?;
    let request = Request {
        changed: Vec::new(),
        ready: Vec::new(),
        removed: Vec::new(),
        mode: Mode::Fork,
        pins: Pins::NONE,
        observe: Observe::default(),
        watch: None,
        timeout: PATIENCE,
        variation: Variation::default(),
        place: None,
    };
    pool.submit(TrialId(1), &request)?;
    loop {
        if let Event::Finished(outcome) = pool.next(Instant::now() + Duration::from_secs(1)) {
            return Ok(*outcome);
        }
    }
}

/// The folder whose writes are thrown away, and where in it the script starts.
fn place(case: &Case) -> (PathBuf, String) {
    match case.workdir.strip_prefix(&case.folder) {
        Ok(rest) if rest.as_os_str().is_empty() => (case.folder.clone(), ".".to_owned()),
        Ok(rest) => (case.folder.clone(), rest.to_string_lossy().into_owned()),
        Err(_) => (case.workdir.clone(), ".".to_owned()),
    }
}

/// Any interpreter will do to start a shell; that of the case is there in the end.
fn host(case: &Case, surroundings: &Surroundings) -> Result<PathBuf, GroundError> {
    match environment::find(&case.setting.python, &Interpreter::Unnamed, &case.folder, surroundings, &mut |_| {}) {
        Ok(python) => Ok(python.executable),
        Err(error) => surroundings.which("python3").ok_or(GroundError::Environment(error)),
    }
}

fn rename_in_records(records: &Path, from: &Path, to: &Path) -> std::io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let (from, to) = (from.as_os_str().as_bytes(), to.as_os_str().as_bytes());
    for entry in fs::read_dir(records)? {
        let path = entry?.path().join("record");
        let Ok(bytes) = fs::read(&path) else { continue };
        if find(&bytes, from).is_some() {
            fs::write(&path, replaced(&bytes, from, to))?;
        }
    }
    Ok(())
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = find(rest, from) {
        result.extend_from_slice(&rest[..at]);
        result.extend_from_slice(to);
        rest = &rest[at + from.len()..];
    }
    result.extend_from_slice(rest);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_copied_view_become_those_of_the_project() {
        assert_eq!(replaced(b"/tmp/v/a\0/tmp/v\0x", b"/tmp/v", b"/home/p"), b"/home/p/a\0/home/p\0x");
        assert_eq!(replaced(b"nothing", b"/tmp/v", b"/home/p"), b"nothing");
    }
}
