//! From what was typed to what a run stands on: the case, its command, its interpreter and its device.

use std::path::{Path, PathBuf};

use super::args::RunningArgs;
use super::follow;
use super::progress::say;
use crate::case::{self, Case, Device as Wanted, Invocation, Ranks, Resolved};
use crate::corpus::Gpu;
use crate::environment::{self, EnvironmentError, Notice, Python, Surroundings};
use crate::evidence::Ground;
use crate::trial::{Device, PoolError};
use crate::yaml;

/// Why there is no ground to run on.
#[derive(Debug, thiserror::Error)]
pub(super) enum GroundError {
    /// `crash.yaml` or the command is wrong.
    #[error(transparent)]
    Case(#[from] yaml::Error),
    /// No interpreter, or one without torch.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// The script could not be followed.
    #[error("cannot follow the command to its Python program: {0}")]
    Spy(String),
    /// The script could not be started in a view of its own.
    #[error("cannot follow the command to its Python program: {0}")]
    View(#[from] PoolError),
    /// A GPU was asked for and there is none.
    #[error("no GPU here, and device `cuda` was asked for")]
    NoDevice,
}

/// The surroundings of this process.
pub(super) fn surroundings() -> Surroundings {
    Surroundings::new(std::env::vars_os())
}

/// Host memory that can be used without ending other programs: what is free, within the control group's limit.
pub(super) fn memory() -> Option<u64> {
    let table = std::fs::read_to_string("/proc/meminfo").ok()?;
    let free = table.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB"));
    let free = free?.parse::<u64>().ok()? << 10;
    let limit = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let limit = limit.and_then(|text| text.trim().parse::<u64>().ok());
    Some(limit.map_or(free, |limit| limit.min(free)))
}

/// Reads a case and applies what was typed beside it.
///
/// # Errors
/// When the file is wrong.
pub(super) fn read_case(path: &Path, running: &RunningArgs) -> Result<Case, GroundError> {
    let mut case = case::read(path)?;
    running.apply(&mut case);
    Ok(case)
}

/// Finds command, interpreter and device of a case.
///
/// # Errors
/// When the command is not understood, there is no interpreter with torch, or no device.
pub(super) fn stand_on(case: Case, running: &RunningArgs, quiet: bool) -> Result<Ground, GroundError> {
    let ground = stand_on_any(case, running, quiet)?;
    environment::require_torch(&ground.python)?;
    Ok(ground)
}

/// The same for a program that need not use torch.
///
/// # Errors
/// As [`stand_on`], but for the torch.
pub(super) fn stand_on_any(case: Case, running: &RunningArgs, quiet: bool) -> Result<Ground, GroundError> {
    let surroundings = surroundings();
    let invocation = match case::resolve(&case, &surroundings)? {
        Resolved::Static(invocation) => invocation,
        Resolved::Spy(spy) => follow::follow(&spy, &case, &surroundings, !running.unsafe_no_sandbox)?,
    };
    if let Some(ranks) = &invocation.ranks
        && !quiet
        && !matches!(ranks, Ranks::Count(1))
    {
        say("note: the command starts several ranks; rank 0 alone is tried");
    }
    let python = interpreter(&case, &invocation, &surroundings, quiet)?;
    let device = device(case.setting.device, &python)?;
    Ok(Ground { case, invocation, python, device })
}

fn interpreter(
    case: &Case,
    invocation: &Invocation,
    surroundings: &Surroundings,
    quiet: bool,
) -> Result<Python, GroundError> {
    let mut notice = |notice: Notice| {
        if !quiet {
            say(&notice.to_string());
        }
    };
    Ok(environment::find(&case.setting.python, &invocation.interpreter, &case.folder, surroundings, &mut notice)?)
}

/// A GPU where the driver is and torch was built for it, else the emulated device.
fn device(wanted: Wanted, python: &Python) -> Result<Device, GroundError> {
    match (wanted, gpu(python)) {
        (Wanted::Auto | Wanted::Cuda, Gpu::Here) => Ok(Device::Cuda),
        (Wanted::Auto | Wanted::Emulated, _) => Ok(Device::Emulated),
        (Wanted::Cuda, Gpu::Absent) => Err(GroundError::NoDevice),
    }
}

/// Whether there is a GPU that an interpreter can use.
pub(super) fn gpu(python: &Python) -> Gpu {
    let driver = ["/dev/nvidiactl", "/proc/driver/nvidia/version"].iter().any(|path| PathBuf::from(path).exists());
    let built = python.torch.as_ref().is_some_and(|torch| torch.cuda.is_some());
    if driver && built { Gpu::Here } else { Gpu::Absent }
}
