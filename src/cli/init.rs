//! `reduce init`: a command that crashes becomes a commented `crash.yaml`.

use std::fs;
use std::path::{Path, PathBuf};

use super::args::{InitArgs, OutputArgs, RunningArgs};
use super::ground::{self, GroundError};
use super::progress::{Progress, say};
use super::run::{code_of, default_plan, fail, options, refuse, style};
use crate::case;
use crate::exit::ExitCode;
use crate::job;
use crate::signature::{self, Evidence, Signature};

/// Runs the command once, or reads the log of a run, and writes the case.
pub(super) fn run(args: &InitArgs) -> ExitCode {
    let command = join(&args.typed);
    if args.out.exists() && !args.force {
        let hints = ["`--force` replaces it, `--out FILE` goes elsewhere".to_owned()];
        return fail(&format!("{} is there already", args.out.display()), &hints, ExitCode::Usage);
    }
    let signature = match &args.log {
        Some(log) => from_log(log),
        None => from_run(&command, &args.running, &args.output),
    };
    match signature.and_then(|signature| write(&args.out, &command, &signature)) {
        Ok(()) => {
            if !args.output.quiet {
                say(&format!("wrote {}; next: reduce {}", args.out.display(), args.out.display()));
            }
            ExitCode::Success
        }
        Err(code) => code,
    }
}

/// For `reduce -- COMMAND`: writes `crash.yaml` in the current folder, unless one for the same command is there.
pub(super) fn write_for(typed: &[String], _running: &RunningArgs, _output: &OutputArgs) -> Result<PathBuf, ExitCode> {
    let path = PathBuf::from("crash.yaml");
    let command = join(typed);
    let text = format!("command: {}\n", quote(&command));
    match case::read(&path) {
        Ok(there) if there.command.text == command => return Ok(path),
        _ if path.exists() => {
            let hints = ["run `reduce crash.yaml`, or move that file away".to_owned()];
            return Err(fail("crash.yaml is there already, for another case", &hints, ExitCode::Usage));
        }
        _ => {}
    }
    fs::write(&path, text)
        .map(|()| path)
        .map_err(|error| fail(&format!("cannot write crash.yaml: {error}"), &[], ExitCode::Internal))
}

fn join(typed: &[String]) -> String {
    match typed {
        [line] => line.clone(),
        words => words.iter().map(|word| shell_words::quote(word)).collect::<Vec<_>>().join(" "),
    }
}

fn from_log(log: &Path) -> Result<Signature, ExitCode> {
    let text = fs::read(log)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .map_err(|error| fail(&format!("cannot read {}: {error}", log.display()), &[], ExitCode::Usage))?;
    signature::parse(&Evidence { stderr: &text, ..Evidence::default() })
        .ok_or_else(|| fail(&format!("{} shows no device-side failure", log.display()), &[], ExitCode::NotReproduced))
}

fn from_run(command: &str, running: &RunningArgs, output: &OutputArgs) -> Result<Signature, ExitCode> {
    let folder = std::env::current_dir()
        .map_err(|error| fail(&format!("no current folder: {error}"), &[], ExitCode::Internal))?;
    let quiet = output.quiet || output.json;
    let ground = case::parse(&format!("command: {}\n", quote(command)), "command line", &folder)
        .map_err(GroundError::from)
        .and_then(|mut case| {
            running.apply(&mut case);
            ground::stand_on(case, running, quiet)
        })
        .map_err(|error| refuse(&error))?;
    let mut progress = Progress::new(style(output));
    let result =
        job::first(ground, options(running, default_plan()), false, &mut |happening| progress.show(&happening));
    progress.finish();
    result.map(|seen| seen.signature).map_err(|error| fail(&error.to_string(), &error.hints(), code_of(&error)))
}

fn write(path: &Path, command: &str, signature: &Signature) -> Result<(), ExitCode> {
    let mut text = format!("# {signature}\ncommand: {}\n", quote(command));
    let mut expect = Vec::new();
    if let Some(condition) = &signature.condition {
        expect.push(format!("  assertion: {}", quote(condition)));
    }
    if let Some(function) = signature.function.as_ref().filter(|function| *function != "operator()") {
        expect.push(format!("  kernel: {}", quote(function)));
    }
    if !expect.is_empty() {
        text +=
            "\n# The failure that is to be kept. Shapes decide which kernel fires: leave `kernel` out if it moves.\n";
        text += &format!("# expect:\n# {}\n", expect.join("\n# "));
    }
    text += "
# Each of these is proven before it is used, and dropped when it hides the failure.
# launch_blocking: true    # CUDA_LAUNCH_BLOCKING=1
# seed: 0                  # null leaves seeding alone
# num_workers: 0           # null leaves DataLoaders alone

# python: .venv/bin/python # or {version: \"3.11\", requirements: [torch==2.11.0, numpy]}
# sources: [\"**/*.py\"]     # may be cut; default: project files that the first run imported
# keep: [\"configs/**\"]     # never changed
# device: auto             # cuda | emulated
# limits: {time: 30m, runs: 2000}
";
    fs::write(path, text)
        .map_err(|error| fail(&format!("cannot write {}: {error}", path.display()), &[], ExitCode::Internal))
}

/// A string as YAML in double quotes.
fn quote(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}
