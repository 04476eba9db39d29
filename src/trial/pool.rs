//! One fork server and the trials in flight on it.
//!
//! Invariant: each started trial is reported exactly once, whatever happens to it or to the server.
//! Deadlines are kept here; how a process is killed is `process`'s business.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::ChildStdin;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, unbounded};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Device, Mode, Outcome, Place, ProgramSpec, Report, Request, TrialEnd, TrialId};
use crate::process::{self, Child, ProcessError, Spawn};

/// How much of each log is read back: this much from its start and this much from its end.
const LOG_PART: u64 = 4 << 20;
/// Time the server gets to import what it preloads.
const READY: Duration = Duration::from_secs(300);
/// Time between asking the server to kill a trial and killing its group from here.
const KILL_PATIENCE: Duration = Duration::from_secs(3);

/// How a server is started.
#[derive(Clone, Debug)]
pub struct PoolSpec {
    /// The interpreter.
    pub python: PathBuf,
    /// Options of the interpreter.
    pub options: Vec<String>,
    /// Variables that the command takes away.
    pub unset: Vec<String>,
    /// Folder with the harness files.
    pub harness: PathBuf,
    /// Root of the project, absolute.
    pub project: PathBuf,
    /// Working directory of the program, relative to the root.
    pub workdir: String,
    /// The program.
    pub program: ProgramSpec,
    /// Environment of the program.
    pub env: Vec<(String, String)>,
    /// Hash seed of the interpreter; `None` leaves it to chance as a plain start does.
    pub hash_seed: Option<u64>,
    /// Modules to import before the first fork.
    pub preload: Vec<String>,
    /// Where CUDA calls go.
    pub device: Device,
    /// Whether the program may use the network.
    pub network: bool,
    /// Paths outside the project that the program may write to.
    pub write: Vec<PathBuf>,
    /// Whether trials are kept from writing elsewhere.
    pub sandbox: bool,
    /// Most memory of a trial in bytes.
    pub memory: Option<u64>,
    /// Folder for scratch folders; must exist.
    pub scratch: PathBuf,
    /// Where the signature catalogue lies for the emulated device.
    pub catalog: PathBuf,
}

/// What the server said of itself.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServerInfo {
    /// Version of Python.
    pub python: String,
    /// Version of torch, where it was preloaded.
    pub torch: Option<String>,
    /// What the sandbox can do here.
    pub features: BTreeMap<String, Value>,
    /// Modules that could not be preloaded.
    pub preload_failed: Vec<String>,
    /// Seconds of the preload.
    pub seconds: f64,
}

/// A trial on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started(pub TrialId);

/// What may happen while waiting.
#[derive(Debug)]
pub enum Event {
    /// A trial is over.
    Finished(Box<Outcome>),
    /// The time to wait is up.
    Nothing,
}

/// Failures of the server, never of a program.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// The interpreter could not be started.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A scratch file could not be written or read.
    #[error("cannot use scratch folder `{path}`: {source}")]
    Scratch {
        /// Which.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The server ended or answered nonsense before it was ready.
    #[error("the fork server did not start: {reason}")]
    NotReady {
        /// Its last words.
        reason: String,
    },
    /// The sandbox cannot be had on this machine.
    #[error("cannot sandbox trials here: {reason}")]
    NoSandbox {
        /// What is missing.
        reason: String,
    },
}

struct Running {
    begun: Instant,
    deadline: Instant,
    pid: Option<i32>,
    killed: Option<(TrialEnd, Instant)>,
    scratch: PathBuf,
}

/// A fork server with its trials.
pub struct Pool {
    spec: PoolSpec,
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<Value>,
    info: ServerInfo,
    running: BTreeMap<TrialId, Running>,
}

impl Pool {
    /// Starts a server and waits until it has imported its modules.
    ///
    /// # Errors
    /// When the interpreter does not start, or the server does not get ready within five minutes.
    pub fn start(spec: PoolSpec) -> Result<Self, PoolError> {
        let log_path = spec.scratch.join("server.log");
        let log = File::create(&log_path).map_err(|source| PoolError::Scratch { path: log_path.clone(), source })?;
        let mut spawn = Spawn::new([spec.python.as_os_str().to_owned()]);
        spawn.argv.extend(spec.options.iter().map(Into::into));
        spawn.argv.push("-B".into());
        spawn.argv.push(spec.harness.join("server.py").into());
        spawn.env.push(("PYTORCH_NVML_BASED_CUDA_CHECK".into(), "1".into()));
        spawn.unset.clone_from(&spec.unset);
        if let Some(seed) = spec.hash_seed {
            spawn.env.push(("PYTHONHASHSEED".into(), seed.to_string()));
        }
        // Import-time settings of the program must be there before the modules are.
        spawn.env.extend(spec.env.iter().filter(|(key, _)| key != "PYTHONHASHSEED").cloned());
        let (child, mut stdin, stdout) = process::serve(&spawn, log)?;
        let (sender, lines) = unbounded();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { break };
                let Ok(value) = serde_json::from_str::<Value>(&line) else { continue };
                if sender.send(value).is_err() {
                    break;
                }
            }
        });
        let config = json!({
            "preload": spec.preload, "project": spec.project, "device": spec.device,
            "network": spec.network, "write": spec.write, "sandbox": spec.sandbox,
            "catalog": spec.catalog, "memory": spec.memory,
        });
        let last_words = |reason: &str| PoolError::NotReady {
            reason: match fs::read_to_string(&log_path) {
                Ok(log) if !log.trim().is_empty() => format!("{reason}\n{}", tail_lines(&log, 20)),
                _ => reason.to_owned(),
            },
        };
        if writeln!(stdin, "{config}").and_then(|()| stdin.flush()).is_err() {
            return Err(last_words("it ended at once"));
        }
        let ready = match lines.recv_timeout(READY) {
            Ok(value) => value,
            Err(RecvTimeoutError::Timeout) => return Err(last_words("it did not answer in time")),
            Err(RecvTimeoutError::Disconnected) => return Err(last_words("it ended at once")),
        };
        if ready.get("ready").and_then(Value::as_bool) != Some(true) {
            let reason = ready.get("error").and_then(Value::as_str).unwrap_or("it answered nonsense").to_owned();
            return Err(PoolError::NoSandbox { reason });
        }
        let info = serde_json::from_value(ready).unwrap_or_default();
        Ok(Self { spec, child, stdin, lines, info, running: BTreeMap::new() })
    }

    /// What the server said of itself.
    pub fn info(&self) -> &ServerInfo {
        &self.info
    }

    /// How the server was started.
    pub fn spec(&self) -> &PoolSpec {
        &self.spec
    }

    /// Numbers of the trials in flight.
    pub fn in_flight(&self) -> impl Iterator<Item = TrialId> + '_ {
        self.running.keys().copied()
    }

    /// Starts a trial.
    ///
    /// # Errors
    /// When its scratch folder cannot be made.
    pub fn submit(&mut self, id: TrialId, request: &Request) -> Result<Started, PoolError> {
        let scratch = self.spec.scratch.join(format!("trial-{:06}", id.0));
        self.lay_out(&scratch, request).map_err(|source| PoolError::Scratch { path: scratch.clone(), source })?;
        let Request { variation, .. } = request;
        let Place { project, workdir, program, env: own } = self.place(request);
        let mut env: BTreeMap<&str, Option<&str>> =
            self.spec.env.iter().map(|(key, value)| (key.as_str(), Some(value.as_str()))).collect();
        env.extend(own.iter().map(|(key, value)| (key.as_str(), Some(value.as_str()))));
        env.extend(variation.env.iter().map(|(key, value)| (key.as_str(), value.as_deref())));
        if request.pins.launch_blocking {
            env.insert("CUDA_LAUNCH_BLOCKING", Some("1"));
        }
        // A fresh interpreter takes its hash seed from here; a forked one has that of its server.
        let hash_seed = request.pins.seed.map(|seed| seed.to_string());
        if let (Mode::Exec, Some(seed)) = (request.mode, &hash_seed) {
            env.insert("PYTHONHASHSEED", Some(seed));
        }
        let mut program = program.clone();
        if let Some(argv) = &variation.argv {
            program.argv.clone_from(argv);
        }
        let line = json!({
            "trial": id.0, "mode": request.mode, "scratch": scratch,
            "project": variation.project.as_ref().unwrap_or(&project), "workdir": workdir,
            "python": variation.python, "hook": variation.hook,
            "changed": request.changed.iter().map(|(path, _)| path)
                .chain(request.ready.iter().map(|(path, _)| path)).collect::<Vec<_>>(),
            "removed": request.removed, "program": program, "env": env,
            "seed": request.pins.seed, "num_workers": request.pins.num_workers,
            "launch_blocking": request.pins.launch_blocking, "device": self.spec.device, "witness": true,
            "trace": request.observe.trace, "inventory": request.observe.inventory,
            "watch": request.watch,
            "follow": request.observe.follow.as_ref().map(|value| json!({ "value": value })),
        });
        let begun = Instant::now();
        let running = Running { begun, deadline: begun + request.timeout, pid: None, killed: None, scratch };
        self.running.insert(id, running);
        // A server that is gone is noticed by `next`, which then reports the trial as lost.
        let _noticed_later = writeln!(self.stdin, "{line}").and_then(|()| self.stdin.flush());
        Ok(Started(id))
    }

    fn place(&self, request: &Request) -> Place {
        request.place.clone().unwrap_or_else(|| Place {
            project: self.spec.project.clone(),
            workdir: self.spec.workdir.clone(),
            program: self.spec.program.clone(),
            env: Vec::new(),
        })
    }

    /// Ends a trial that the search no longer wants; it is still reported.
    pub fn drop_trial(&mut self, id: TrialId) {
        self.kill(id, TrialEnd::Dropped);
    }

    fn kill(&mut self, id: TrialId, why: TrialEnd) {
        let Some(running) = self.running.get_mut(&id) else { return };
        if running.killed.is_some() {
            return;
        }
        running.killed = Some((why, Instant::now()));
        let line = json!({ "kill": id.0 });
        let _noticed_later = writeln!(self.stdin, "{line}").and_then(|()| self.stdin.flush());
    }

    /// Waits for the next finished trial, at most until `until`.
    pub fn next(&mut self, until: Instant) -> Event {
        loop {
            self.keep_deadlines();
            let wake = self.running.values().map(Running::wakes).min().map_or(until, |wake| wake.min(until));
            let wait = wake.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(wait) {
                Ok(value) => {
                    if let Some(outcome) = self.take(&value) {
                        return Event::Finished(Box::new(outcome));
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    if Instant::now() >= until {
                        return Event::Nothing;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => match self.running.keys().next().copied() {
                    Some(id) => return Event::Finished(Box::new(self.lose(id))),
                    None => return Event::Nothing,
                },
            }
        }
    }

    /// Whether the server still runs.
    pub fn alive(&mut self) -> bool {
        self.child.poll().is_none()
    }

    fn keep_deadlines(&mut self) {
        let now = Instant::now();
        let late: Vec<TrialId> = self
            .running
            .iter()
            .filter(|(_, running)| running.killed.is_none() && now >= running.deadline)
            .map(|(id, _)| *id)
            .collect();
        for id in late {
            self.kill(id, TrialEnd::TimedOut);
        }
        for running in self.running.values_mut() {
            if let (Some((_, at)), Some(pid)) = (&mut running.killed, running.pid)
                && now >= *at + KILL_PATIENCE
            {
                process::kill_group(pid);
                *at = now;
            }
        }
    }

    fn take(&mut self, value: &Value) -> Option<Outcome> {
        let id = TrialId(value.get("trial")?.as_u64()?);
        if let Some(pid) = value.get("pid").and_then(Value::as_i64) {
            if let Some(running) = self.running.get_mut(&id) {
                running.pid = i32::try_from(pid).ok();
            }
            return None;
        }
        let running = self.running.remove(&id)?;
        let status = |key: &str| value.get(key).and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
        let limit = |key: &str| value.get(key).and_then(Value::as_bool) == Some(true);
        let end = match (running.killed, status("exit"), status("signal")) {
            (Some((why, _)), _, _) => why,
            _ if limit("output_limit") => TrialEnd::OutputLimit,
            _ if limit("memory_limit") => TrialEnd::MemoryLimit,
            (None, Some(code), _) => TrialEnd::Exited(code),
            (None, None, Some(signal)) => TrialEnd::Signaled(signal),
            (None, None, None) => TrialEnd::Lost,
        };
        let seconds = value.get("seconds").and_then(Value::as_f64);
        Some(collect(id, end, seconds, running))
    }

    fn lose(&mut self, id: TrialId) -> Outcome {
        let running = self.running.remove(&id).unwrap_or_else(|| Running {
            begun: Instant::now(),
            deadline: Instant::now(),
            pid: None,
            killed: None,
            scratch: PathBuf::new(),
        });
        if let Some(pid) = running.pid {
            process::kill_group(pid);
        }
        collect(id, TrialEnd::Lost, None, running)
    }

    fn lay_out(&self, scratch: &Path, request: &Request) -> std::io::Result<()> {
        fs::create_dir_all(scratch.join("tmp"))?;
        let files = scratch.join("files");
        fs::create_dir_all(&files)?;
        let target = |path: &str| -> std::io::Result<PathBuf> {
            let target = files.join(path);
            if let Some(parent) = target.parent() {
                fs::create_dir_all(parent)?;
            }
            Ok(target)
        };
        for (path, bytes) in &request.changed {
            fs::write(target(path)?, bytes)?;
        }
        for (path, place) in &request.ready {
            let target = target(path)?;
            // Ours, and a view never writes to what it lays over the project: no copy for each trial.
            if fs::hard_link(place, &target).is_err() {
                fs::copy(place, &target)?;
            }
        }
        Ok(())
    }
}

impl Running {
    fn wakes(&self) -> Instant {
        self.killed.map_or(self.deadline, |(_, at)| at + KILL_PATIENCE)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let _gone = writeln!(self.stdin, "{}", json!({ "quit": true })).and_then(|()| self.stdin.flush());
        let running: Vec<i32> = self.running.values().filter_map(|running| running.pid).collect();
        if self.child.wait_until(Instant::now() + Duration::from_secs(2)).is_none() {
            self.child.end();
        }
        for pid in running {
            process::kill_group(pid);
        }
    }
}

fn collect(id: TrialId, end: TrialEnd, seconds: Option<f64>, running: Running) -> Outcome {
    let Running { begun, scratch, .. } = running;
    let json = |name: &str| fs::read(scratch.join(name)).ok();
    let report: Option<Report> = json("outcome.json").and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let trace = json("trace.json").and_then(|bytes| serde_json::from_slice(&bytes).ok());
    Outcome {
        id,
        end,
        stdout: read_log(&scratch.join("stdout")),
        stderr: read_log(&scratch.join("stderr")),
        report,
        trace,
        seconds: seconds.unwrap_or_else(|| begun.elapsed().as_secs_f64()),
        scratch,
    }
}

/// The start and the end of a log; a gigabyte of prints is not read whole.
fn read_log(path: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut bytes = Vec::new();
        if length <= 2 * LOG_PART {
            file.read_to_end(&mut bytes)?;
            return Ok(bytes);
        }
        (&mut file).take(LOG_PART).read_to_end(&mut bytes)?;
        bytes.extend_from_slice(b"\n[... cut ...]\n");
        file.seek(SeekFrom::Start(length - LOG_PART))?;
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

fn tail_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// Mode of a trial in words, for the ledger and for people.
impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Fork => "fork",
            Self::Exec => "cold",
        })
    }
}
