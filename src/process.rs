//! Starts, watches and ends child processes; nothing else in the crate spawns or kills.
//!
//! Invariant: every child is the leader of its own process group and is reaped, also when its owner is dropped.
//! This file judges nothing: it answers how a child ended.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child as StdChild, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use std::os::unix::process::{CommandExt, ExitStatusExt};

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// How long a child may take to obey SIGTERM before its group gets SIGKILL.
const GRACE: Duration = Duration::from_millis(500);
/// How often is looked whether the user wants the run to end.
const LOOK: Duration = Duration::from_millis(100);
/// How long a killed child may take to be reaped before it is given up (it then hangs in the kernel).
const REAP: Duration = Duration::from_secs(10);

/// What to run; output goes to files so that no pipe can fill.
#[derive(Clone, Debug, Default)]
pub struct Spawn {
    /// Program and arguments; the program is looked up on `PATH`.
    pub argv: Vec<OsString>,
    /// Variables added to the inherited environment.
    pub env: Vec<(String, String)>,
    /// Variables removed from the inherited environment.
    pub unset: Vec<String>,
    /// Working directory; the caller's when absent.
    pub cwd: Option<PathBuf>,
    /// Ends the child once it is set.
    pub interrupted: Option<Arc<AtomicBool>>,
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It exited by itself with this status.
    Exited(i32),
    /// A signal ended it.
    Signaled(i32),
    /// It was ended because its deadline had passed.
    TimedOut,
    /// It did not go away after SIGKILL: stuck in the kernel, for example in a driver.
    Stuck,
}

/// What a finished child left behind.
#[derive(Clone, Debug)]
pub struct Output {
    /// How it ended.
    pub end: End,
    /// Standard output, bytes replaced where they are not UTF-8.
    pub stdout: String,
    /// Standard error, likewise.
    pub stderr: String,
}

/// Failures of our own, never of the child's program.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The program could not be started.
    #[error("cannot start `{program}`: {source}")]
    Start {
        /// What was to be started.
        program: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The user wants the run to end.
    #[error("`{program}` was ended: interrupted")]
    Interrupted {
        /// What was running.
        program: String,
    },
    /// A log file or pipe failed.
    #[error("cannot read the output of `{program}`: {source}")]
    Output {
        /// Whose output it was.
        program: String,
        /// The system's reason.
        source: std::io::Error,
    },
}

/// A running child in its own process group.
#[derive(Debug)]
pub struct Child {
    inner: StdChild,
    ended: Option<End>,
}

impl Spawn {
    /// A command from its words.
    pub fn new<I, S>(argv: I) -> Self
    where
        I: IntoIterator<Item = S>,
        S: Into<OsString>,
    {
        Self { argv: argv.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    fn name(&self) -> String {
        self.argv.first().map_or_else(String::new, |word| word.to_string_lossy().into_owned())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.argv.first().cloned().unwrap_or_default());
        command.args(self.argv.iter().skip(1)).process_group(0);
        for name in &self.unset {
            command.env_remove(name);
        }
        command.envs(self.env.iter().map(|(key, value)| (key, value)));
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        command
    }

    fn start(&self, mut command: Command) -> Result<Child, ProcessError> {
        let inner = command.spawn().map_err(|source| ProcessError::Start { program: self.name(), source })?;
        Ok(Child { inner, ended: None })
    }
}

/// Runs a command to its end or its deadline and returns what it printed.
///
/// # Errors
/// When it cannot be started or its output cannot be read.
pub fn run(spawn: &Spawn, timeout: Duration) -> Result<Output, ProcessError> {
    let fail = |source| ProcessError::Output { program: spawn.name(), source };
    let mut stdout = tempfile::tempfile().map_err(fail)?;
    let mut stderr = tempfile::tempfile().map_err(fail)?;
    let mut command = spawn.command();
    command.stdin(Stdio::null()).stdout(stdout.try_clone().map_err(fail)?).stderr(stderr.try_clone().map_err(fail)?);
    let mut child = spawn.start(command)?;
    let deadline = Instant::now() + timeout;
    let end = loop {
        if let Some(end) = child.wait_until(deadline.min(Instant::now() + LOOK)) {
            break end;
        }
        if spawn.interrupted.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            child.end();
            return Err(ProcessError::Interrupted { program: spawn.name() });
        }
        if Instant::now() >= deadline {
            break child.end();
        }
    };
    let stdout = read_back(&mut stdout).map_err(fail)?;
    let stderr = read_back(&mut stderr).map_err(fail)?;
    Ok(Output { end, stdout, stderr })
}

/// Starts a child that talks over pipes; its standard error goes to `log`.
///
/// # Errors
/// When it cannot be started.
pub fn serve(spawn: &Spawn, log: File) -> Result<(Child, ChildStdin, ChildStdout), ProcessError> {
    let mut command = spawn.command();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
    let mut child = spawn.start(command)?;
    match (child.inner.stdin.take(), child.inner.stdout.take()) {
        (Some(stdin), Some(stdout)) => Ok((child, stdin, stdout)),
        _ => Err(ProcessError::Start { program: spawn.name(), source: std::io::Error::other("no pipe") }),
    }
}

/// Sends SIGKILL to a process group that a server of ours leads; a group that is gone is no error.
pub fn kill_group(leader: i32) {
    if leader > 1 {
        // ESRCH: the group ended by itself in the meantime.
        let _gone = killpg(Pid::from_raw(leader), Signal::SIGKILL);
    }
}

impl Child {
    /// Process id, and id of the group that the child leads.
    pub fn pid(&self) -> u32 {
        self.inner.id()
    }

    /// How the child ended, without waiting.
    pub fn poll(&mut self) -> Option<End> {
        if self.ended.is_none()
            && let Ok(Some(status)) = self.inner.try_wait()
        {
            self.ended = Some(end_of(status));
        }
        self.ended
    }

    /// Waits for the end, at most until `deadline`.
    pub fn wait_until(&mut self, deadline: Instant) -> Option<End> {
        let mut pause = Duration::from_millis(1);
        loop {
            if let Some(end) = self.poll() {
                return Some(end);
            }
            let now = Instant::now();
            if now >= deadline {
                return None;
            }
            std::thread::sleep(pause.min(deadline - now));
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Ends the whole group: SIGTERM, a grace period, SIGKILL, a bounded wait.
    pub fn end(&mut self) -> End {
        if self.poll().is_none() {
            self.signal(Signal::SIGTERM);
            if self.wait_until(Instant::now() + GRACE).is_none() {
                self.signal(Signal::SIGKILL);
            }
        }
        // Members of the group may outlive their leader.
        self.signal(Signal::SIGKILL);
        match self.wait_until(Instant::now() + REAP) {
            Some(_) => End::TimedOut,
            None => End::Stuck,
        }
    }

    fn signal(&self, signal: Signal) {
        let Ok(pid) = i32::try_from(self.inner.id()) else { return };
        match killpg(Pid::from_raw(pid), signal) {
            Ok(()) | Err(Errno::ESRCH | Errno::EPERM) => {}
            // Only an invalid signal is left, and the signals here are valid.
            Err(_) => {}
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.poll().is_none() {
            self.signal(Signal::SIGKILL);
            let _end = self.wait_until(Instant::now() + REAP);
        }
    }
}

fn end_of(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Exited(code),
        (None, Some(signal)) => End::Signaled(signal),
        (None, None) => End::Exited(-1),
    }
}

fn read_back(file: &mut File) -> std::io::Result<String> {
    use std::io::Seek;
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(64 << 20).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_returns_output_and_exit_status() {
        let output = run(&Spawn::new(["sh", "-c", "echo out; echo err >&2; exit 3"]), Duration::from_secs(10)).unwrap();
        assert_eq!((output.end, output.stdout.as_str(), output.stderr.as_str()), (End::Exited(3), "out\n", "err\n"));
    }

    #[test]
    fn a_child_that_ignores_sigterm_is_killed_after_the_grace_period() {
        let begin = Instant::now();
        let output =
            run(&Spawn::new(["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]), Duration::from_millis(100))
                .unwrap();
        assert_eq!(output.end, End::TimedOut);
        assert!(begin.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn a_child_ends_with_its_group_when_the_user_interrupts() {
        let mut spawn = Spawn::new(["sh", "-c", "sleep 600 & wait"]);
        let flag = Arc::new(AtomicBool::new(false));
        spawn.interrupted = Some(Arc::clone(&flag));
        let waiting = std::thread::spawn(move || run(&spawn, Duration::from_secs(600)));
        flag.store(true, Ordering::Relaxed);
        assert!(matches!(waiting.join().unwrap(), Err(ProcessError::Interrupted { .. })));
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run(&Spawn::new(["/no/such/program"]), Duration::from_secs(1)).unwrap_err();
        assert!(error.to_string().contains("/no/such/program"));
    }
}
