//! `reduce replay`: runs the repro of a bundle again and says whether it still dies the same way.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::args::{MatchLevel, ReplayArgs, RunningArgs};
use super::ground::{self, GroundError};
use super::progress::{Progress, print};
use super::run::{code_of, default_plan, fail, options, refuse, style};
use crate::case::{self, Device};
use crate::exit::ExitCode;
use crate::job::{self, JobError};
use crate::signature::{Match, Signature};

/// Runs `repro.py` of a bundle, or `source/` where there is none, once and in a fresh interpreter.
pub fn run(args: &ReplayArgs) -> ExitCode {
    let (report, wanted) = match read_report(&args.bundle) {
        Ok(found) => found,
        Err(code) => return code,
    };
    let text = |path: &str| report.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let bundle = fs::canonicalize(&args.bundle).unwrap_or_else(|_| args.bundle.clone());
    let (folder, command) = if bundle.join("repro.py").is_file() {
        (bundle, "python repro.py".to_owned())
    } else {
        (bundle.join("source"), text("/setting/command"))
    };
    let recorded = if text("/device") == "cuda" { Device::Cuda } else { Device::Emulated };
    let running = RunningArgs {
        device: Some(args.device.unwrap_or(recorded)),
        timeout: args.timeout,
        unsafe_no_sandbox: args.unsafe_no_sandbox,
        ..RunningArgs::default()
    };
    let yaml = format!("command: {}\n", serde_json::to_string(&command).unwrap_or_default());
    let ground = case::parse(&yaml, "the bundle's command", &folder).map_err(GroundError::from).and_then(|mut case| {
        ground::apply(&mut case, &running);
        ground::stand_on(case, args.output.quiet || args.output.json)
    });
    let ground = match ground {
        Ok(ground) => ground,
        Err(error) => return refuse(&error),
    };
    let mut progress = Progress::new(style(&args.output));
    let result = job::first(ground, options(&running, default_plan()), &mut |one| progress.show(&one));
    progress.finish();
    match result {
        Ok(seen) if seen.signature.matches(&wanted, args.level.map_or(Match::Normal, MatchLevel::level)) => {
            print(&format!("still fails the same way: {}", seen.signature));
            ExitCode::Success
        }
        Ok(seen) => {
            print(&format!("another failure\n  recorded: {wanted}\n  seen:     {}", seen.signature));
            ExitCode::OtherFailure
        }
        Err(JobError::NotReproduced { seen }) => {
            print(&format!("no failure any more: {seen}"));
            ExitCode::Fixed
        }
        Err(error) => fail(&error.to_string(), &error.hints(), code_of(&error)),
    }
}

fn read_report(bundle: &Path) -> Result<(Value, Signature), ExitCode> {
    let path: PathBuf = bundle.join("report.json");
    let refuse = |why: &str| {
        let hints = ["a bundle is a folder that `reduce crash.yaml` wrote, such as crash.reduced".to_owned()];
        fail(&format!("{} is not a bundle: {why}", bundle.display()), &hints, ExitCode::Usage)
    };
    let bytes = fs::read(&path).map_err(|error| refuse(&format!("report.json: {error}")))?;
    let report: Value = serde_json::from_slice(&bytes).map_err(|error| refuse(&format!("report.json: {error}")))?;
    let signature = report.get("signature").cloned().unwrap_or_default();
    let signature =
        serde_json::from_value(signature).map_err(|error| refuse(&format!("report.json: signature: {error}")))?;
    Ok((report, signature))
}
