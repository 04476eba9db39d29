//! `reduce replay`: runs the repro of a bundle again and says whether it still dies the same way.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::args::{MatchLevel, OutputArgs, ReplayArgs, RunningArgs};
use super::ground::{self, GroundError};
use super::progress::{Progress, Style, print, say};
use super::run::{code_of, default_plan, fail, options, refuse, style};
use crate::bundle::stored::{self, Stored, StoredError};
use crate::case::{self, Device};
use crate::environment::Machine;
use crate::evidence::Ground;
use crate::exit::ExitCode;
use crate::job::{self, JobError, PlainEnd};
use crate::signature::Match;

/// Runs `repro.py` of a bundle, or `source/` where there is none, once and in a fresh interpreter.
pub(super) fn run(args: &ReplayArgs) -> ExitCode {
    let bundle = match read(&args.bundle) {
        Ok(found) => found,
        Err(code) => return code,
    };
    let wanted = &bundle.signature;
    let running = RunningArgs {
        device: args.device,
        timeout: args.timeout,
        unsafe_no_sandbox: args.unsafe_no_sandbox,
        ..RunningArgs::default()
    };
    let ground = match open(&bundle.folder, &bundle.report, &running, &args.output) {
        Ok(ground) => ground,
        Err(error) => return refuse(&error),
    };
    show_differences(&bundle, &ground, style(&args.output));
    let pinned = !bundle.is_alone();
    let mut progress = Progress::new(style(&args.output));
    let result = job::first(ground, options(&running, default_plan()), pinned, &mut |one| progress.show(&one));
    progress.finish();
    let (words, seen, code) = match result {
        Ok(seen) if seen.signature.matches(wanted, args.level.map_or(Match::Normal, MatchLevel::level)) => {
            ("still fails the same way", seen.signature.to_string(), ExitCode::Success)
        }
        Ok(seen) => ("another failure", seen.signature.to_string(), ExitCode::OtherFailure),
        Err(JobError::NotReproduced { seen, end: PlainEnd::Clean }) => ("no failure any more", seen, ExitCode::Fixed),
        Err(JobError::NotReproduced { seen, .. }) => ("another failure", seen, ExitCode::OtherFailure),
        Err(error) => return fail(&error.to_string(), &error.hints(), code_of(&error)),
    };
    match (style(&args.output), code) {
        (Style::Json, _) => print(
            &json!({ "event": "end", "answer": words, "recorded": wanted.to_string(), "seen": seen,
                     "exit": code.number() })
            .to_string(),
        ),
        (_, ExitCode::OtherFailure) => print(&format!("{words}\n  recorded: {wanted}\n  seen:     {seen}")),
        _ => print(&format!("{words}: {seen}")),
    }
    code
}

/// Reads a bundle, or says why it is none.
pub(super) fn read(path: &Path) -> Result<Stored, ExitCode> {
    Stored::read(path).map_err(|error| {
        let hint = match &error {
            StoredError::NotABundle { .. } => {
                "a bundle is a folder that `reduce crash.yaml` wrote, such as crash.reduced, or a tar file of one"
            }
            StoredError::Archive(_) => "make it with `tar czf crash.tar.gz crash.reduced`",
        };
        fail(&error.to_string(), &[hint.to_owned()], ExitCode::Usage)
    })
}

/// Says what is not here as it was where the bundle was made.
fn show_differences(bundle: &Stored, ground: &Ground, style: Style) {
    let differences = bundle.differences(&ground.python, ground.device, &Machine::here());
    match style {
        Style::Quiet => {}
        Style::Json => {
            let rows: Vec<Value> = differences
                .iter()
                .map(|one| json!({ "what": one.what, "there": one.there, "here": one.here }))
                .collect();
            print(&json!({ "event": "differs", "differences": rows }).to_string());
        }
        Style::Normal | Style::Verbose => {
            if !differences.is_empty() {
                say("not as where the bundle was made:");
                differences.iter().for_each(|one| say(&format!("  {one}")));
            }
        }
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
    let (folder, yaml) = stored::case_of(&bundle, report);
    let recorded = if report["device"] == "cuda" { Device::Cuda } else { Device::Emulated };
    let running = RunningArgs { device: Some(running.device.unwrap_or(recorded)), ..running.clone() };
    let mut case = case::parse(&yaml, "the bundle's command", &folder)?;
    running.apply(&mut case);
    ground::stand_on(case, &running, output.quiet || output.json)
}
