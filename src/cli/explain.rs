//! `reduce explain`: what failed and why, from a log, a case or a bundle.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::args::ExplainArgs;
use super::progress::{Progress, Style, print};
use super::replay;
use super::run::{code_of, default_plan, fail, open, options, refuse, style};
use crate::evidence::Ground;
use crate::exit::ExitCode;
use crate::explain::{self, Digest};
use crate::job::{self, Failing, Sought};
use crate::program::{Program, SourceTree};

/// Standard input as it is typed.
const STDIN: &str = "-";

/// Explains what was named.
pub(super) fn run(args: &ExplainArgs) -> ExitCode {
    match args.paths.as_slice() {
        [path] if path.join("report.json").is_file() => of_bundle(path, args),
        [path] if ["yaml", "yml"].iter().any(|end| path.extension().is_some_and(|found| found == *end)) => {
            of_case(path, args)
        }
        _ if args.twin => {
            let hints = ["give the case or its bundle: a log cannot be run".to_owned()];
            fail("--twin needs one case or one bundle", &hints, ExitCode::Usage)
        }
        _ => explain_logs(args),
    }
}

/// Explains a case: runs it until it is known what fails, and once more to follow the value.
fn of_case(path: &Path, args: &ExplainArgs) -> ExitCode {
    let ground = match open(path, &args.running, &args.output) {
        Ok(ground) => ground,
        Err(code) => return code,
    };
    let (project, device) = (ground.invocation.project.clone(), ground.device);
    let mut progress = Progress::new(quieter(args));
    let result = job::explain(ground.clone(), options(&args.running, default_plan()), &mut |one| progress.show(&one));
    progress.finish();
    let found = match result {
        Ok(found) => found,
        Err(error) => return fail(&error.to_string(), &error.hints(), code_of(&error)),
    };
    let program = SourceTree::read(&project, &found.sources)
        .map_err(|error| error.to_string())
        .and_then(|tree| Program::parse(&tree).map_err(|error| error.to_string()));
    match program {
        Ok(program) => {
            let explained = explain::of_run(&found, &program, &project, device);
            let json = serde_json::to_value(&explained).unwrap_or_default();
            if args.twin {
                show_twin(args, json, &explained.to_string(), ground, Failing::Call(&found))
            } else {
                show(args, &json, &explained.to_string())
            }
        }
        Err(error) => fail(&error, &[], ExitCode::Internal),
    }
}

/// Explains a bundle from its report.
fn of_bundle(path: &Path, args: &ExplainArgs) -> ExitCode {
    let file = path.join("report.json");
    let report = fs::read(&file)
        .map_err(|error| error.to_string())
        .and_then(|bytes| serde_json::from_slice::<Value>(&bytes).map_err(|error| error.to_string()));
    match report {
        Ok(report) => match report["explained_text"].as_str() {
            Some(text) if args.twin => match replay::open(path, &report, &args.running, &args.output) {
                Ok(ground) => show_twin(args, report["explained"].clone(), text, ground, Failing::Bundle(path)),
                Err(error) => refuse(&error),
            },
            Some(text) => show(args, &report["explained"], text),
            None => {
                let hints = ["it was written by an older version; reduce the case again".to_owned()];
                fail(&format!("{} holds no explanation", file.display()), &hints, ExitCode::Usage)
            }
        },
        Err(error) => fail(&format!("cannot read {}: {error}", file.display()), &[], ExitCode::Usage),
    }
}

/// Shows an explanation at once, and the nearest passing twin when it is found.
fn show_twin(args: &ExplainArgs, mut json: Value, text: &str, ground: Ground, failing: Failing<'_>) -> ExitCode {
    if !args.output.json {
        print(text.trim_end());
    }
    let alone = match failing {
        Failing::Bundle(bundle) => bundle.join("repro.py").is_file(),
        Failing::Call(_) => true,
    };
    let found = match Sought::deserialize(&json) {
        Ok(sought) if alone => {
            let mut progress = Progress::new(quieter(args));
            let options = options(&args.running, default_plan());
            let found = job::twin(ground, options, failing, &sought, &mut |one| progress.show(&one));
            progress.finish();
            match found {
                Ok(found) => found,
                Err(error) => return fail(&error.to_string(), &error.hints(), code_of(&error)),
            }
        }
        _ => None,
    };
    if args.output.json {
        json["twin"] = serde_json::to_value(&found).unwrap_or_default();
        print(&json.to_string());
    } else {
        let none = || "No small edit of the failing program was seen to pass.".to_owned();
        print(&format!("\n{}", found.map_or_else(none, |twin| twin.to_string()).trim_end()));
    }
    ExitCode::Success
}

/// One document is printed, so that with `--json` no event may be.
fn quieter(args: &ExplainArgs) -> Style {
    if args.output.json { Style::Quiet } else { style(&args.output) }
}

fn show(args: &ExplainArgs, json: &Value, text: &str) -> ExitCode {
    if args.guard {
        let lines: Vec<&str> = json["guard"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if lines.is_empty() {
            let hints = ["give the case or its bundle: a log alone does not name your tensors".to_owned()];
            return fail("no check of values is known for this failure", &hints, ExitCode::Usage);
        }
        print(&if args.output.json { json["guard"].to_string() } else { lines.join("\n") });
        return ExitCode::Success;
    }
    print(if args.output.json { json.to_string() } else { text.trim_end().to_owned() }.as_str());
    ExitCode::Success
}

/// Explains logs alone: no Python, no GPU.
fn explain_logs(args: &ExplainArgs) -> ExitCode {
    let mut digest = Digest::default();
    for path in &args.paths {
        let read = if path.as_os_str() == STDIN {
            digest.add("standard input", io::stdin().lock())
        } else if path.is_dir() {
            logs_of(path).iter().try_for_each(|log| digest.add(&log.display().to_string(), File::open(log)?))
        } else {
            File::open(path).and_then(|file| digest.add(&path.display().to_string(), file))
        };
        if let Err(error) = read {
            return fail(&format!("cannot read {}: {error}", path.display()), &[], ExitCode::Usage);
        }
    }
    match explain::explain(&digest) {
        Some(explanation) => {
            show(args, &serde_json::to_value(&explanation).unwrap_or_default(), &explanation.to_string())
        }
        None => {
            let hints =
                ["give standard error of the process that failed; of a distributed run, that of every rank".into()];
            fail("no failure of a device is shown there", &hints, ExitCode::NotReproduced)
        }
    }
}

/// The logs in a launcher's folder, in the order of their names.
fn logs_of(folder: &Path) -> Vec<PathBuf> {
    let mut logs = Vec::new();
    for entry in ignore::WalkBuilder::new(folder).standard_filters(false).build().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_log = ["log", "txt", "err", "out"].iter().any(|end| name.ends_with(&format!(".{end}")));
        if is_log && fs::metadata(entry.path()).is_ok_and(|data| data.is_file()) {
            logs.push(entry.into_path());
        }
    }
    logs.sort();
    logs
}
