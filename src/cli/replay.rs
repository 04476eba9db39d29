//! `reduce replay`: runs the repro of a bundle again and says whether it still dies the same way.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::args::{MatchLevel, OutputArgs, ReplayArgs, RunningArgs};
use super::ground::{self, GroundError};
use super::progress::{Progress, print};
use super::run::{code_of, default_plan, fail, options, refuse, style};
use crate::case::{self, Device};
use crate::evidence::Ground;
use crate::exit::ExitCode;
use crate::job::{self, JobError};
use crate::signature::{Match, Signature};

/// Runs `repro.py` of a bundle, or `source/` where there is none, once and in a fresh interpreter.
pub(super) fn run(args: &ReplayArgs) -> ExitCode {
    let (report, wanted) = match read_report(&args.bundle) {
        Ok(found) => found,
        Err(code) => return code,
    };
    let alone = args.bundle.join("repro.py").is_file();
    let running = RunningArgs {
        device: args.device,
        timeout: args.timeout,
        unsafe_no_sandbox: args.unsafe_no_sandbox,
        ..RunningArgs::default()
    };
    let ground = match open(&args.bundle, &report, &running, &args.output) {
        Ok(ground) => ground,
        Err(error) => return refuse(&error),
    };
    let mut progress = Progress::new(style(&args.output));
    let result = job::first(ground, options(&running, default_plan()), !alone, &mut |one| progress.show(&one));
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
        Err(JobError::NotReproduced { seen, clean: true }) => {
            print(&format!("no failure any more: {seen}"));
            ExitCode::Fixed
        }
        Err(JobError::NotReproduced { seen, clean: false }) => {
            print(&format!("another failure\n  recorded: {wanted}\n  seen:     {seen}"));
            ExitCode::OtherFailure
        }
        Err(error) => fail(&error.to_string(), &error.hints(), code_of(&error)),
    }
}

/// What `repro.py` of a bundle stands on, or `source/` where there is none: the device is that of the bundle unless typed.
pub(super) fn open(
    bundle: &Path,
    report: &Value,
    running: &RunningArgs,
    output: &OutputArgs,
) -> Result<Ground, GroundError> {
    let bundle = fs::canonicalize(bundle).unwrap_or_else(|_| bundle.to_owned());
    let (folder, yaml) = if bundle.join("repro.py").is_file() {
        (bundle, "command: python repro.py\n".to_owned())
    } else {
        (bundle.join("source"), source_case(report))
    };
    let recorded = if report["device"] == "cuda" { Device::Cuda } else { Device::Emulated };
    let running = RunningArgs { device: Some(running.device.unwrap_or(recorded)), ..running.clone() };
    let mut case = case::parse(&yaml, "the bundle's command", &folder)?;
    running.apply(&mut case);
    ground::stand_on(case, &running, output.quiet || output.json)
}

/// The case of `source/`: the program that was run, in the environment and with the pins of its confirmation.
fn source_case(report: &Value) -> String {
    let program = &report["program"];
    let words = |key: &str| program[key].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    let mut command = vec!["python".to_owned()];
    command.extend(words("options"));
    if program["kind"] == "module" {
        command.push("-m".to_owned());
    }
    command.extend(program["target"].as_str().map(str::to_owned));
    command.extend(words("argv"));
    let setting = &report["setting"];
    let case = serde_json::json!({
        "command": command.iter().map(|word| shell_words::quote(word)).collect::<Vec<_>>().join(" "),
        "workdir": program["workdir"],
        "env": program["env"].as_object().cloned().unwrap_or_default(),
        "launch_blocking": setting["launch_blocking"],
        "seed": setting["seed"],
        "num_workers": setting["num_workers"],
    });
    // JSON is YAML.
    case.to_string()
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
