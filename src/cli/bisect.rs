//! `reduce bisect`: what was typed, and how the answer is shown.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::Value;

use super::args::{BisectArgs, Expected};
use super::ground;
use super::progress::{Progress, print};
use super::run::{code_of, default_plan, fail, options, refuse, style};
use crate::bisect::axes::commits::{Change, Parents};
use crate::exit::ExitCode;
use crate::job::bisect::{self, Ask, Axis, Bisected, Ending};
use crate::job::{Existing, Options};
use crate::oracle::Stop;

/// Lines of output that are shown of each neighbour.
const SHOWN: usize = 4;

/// Runs `reduce bisect`.
pub(super) fn run(args: &BisectArgs) -> ExitCode {
    let (axis, path) = match understand(args) {
        Ok(found) => found,
        Err((message, hint)) => return fail(&message, &[hint], ExitCode::Usage),
    };
    if let Some((flag, axes)) = idle_flag(args, axis) {
        let message = format!("`{flag}` says nothing about {}", axis.name());
        return fail(&message, &[format!("it is for {axes}: leave it out")], ExitCode::Usage);
    }
    let quiet = args.output.quiet || args.output.json;
    let ground =
        ground::read_case(&path, &args.running).and_then(|case| ground::stand_on_any(case, &args.running, quiet));
    let ground = match ground {
        Ok(ground) => ground,
        Err(error) => return refuse(&error),
    };
    let options = Options {
        out: args.out.clone().unwrap_or_else(|| path.with_extension("bisect")),
        existing: match (args.resume, args.force) {
            (true, _) => Existing::Resume,
            (_, true) => Existing::Replace,
            _ => Existing::Refuse,
        },
        limit_time: args.limit_time,
        limit_runs: args.limit_runs,
        ..options(&args.running, default_plan())
    };
    let ask = Ask {
        axis,
        good: args.good.clone(),
        bad: args.bad.clone(),
        sought: match args.expect {
            Expected::Broken => Change::Broke,
            Expected::Fixed => Change::Mended,
        },
        parents: if args.first_parent { Parents::First } else { Parents::All },
        paths: args.path.clone(),
        log: args.log.clone(),
        surroundings: ground::surroundings().until(&options.interrupted),
    };
    let mut progress = Progress::new(style(&args.output));
    let result = bisect::run(ground, options, &ask, &mut |happening| progress.show(&happening));
    progress.finish();
    match result {
        Ok(bisected) if args.output.json => {
            let end = serde_json::json!({ "event": "end", "bundle": bisected.out, "report": bisected.report });
            print(&end.to_string());
            code(bisected.ending)
        }
        Ok(bisected) => {
            show(&bisected);
            code(bisected.ending)
        }
        Err(error) => fail(&error.to_string(), &error.hints(), code_of(&error)),
    }
}

/// The axis and the case: `--over AXIS CASE`, or `AXIS CASE`.
fn understand(args: &BisectArgs) -> Result<(Axis, PathBuf), (String, String)> {
    let names = Axis::ALL.map(Axis::name);
    let accepted = format!("axes: {}", names.join(", "));
    match (args.over, args.words.as_slice()) {
        (Some(axis), [case]) => Ok((axis, case.clone())),
        (None, [word, case]) => {
            let word = word.to_string_lossy();
            let axis = Axis::from_str(&word, false).map_err(|_| {
                let near = crate::yaml::nearest(&word, &names).map(|near| format!("did you mean `{near}`?"));
                (format!("no axis `{word}`"), near.unwrap_or_else(|| accepted.clone()))
            })?;
            Ok((axis, case.clone()))
        }
        (Some(_), _) => {
            Err(("the axis is named twice".to_owned(), "`reduce bisect --over AXIS CRASH.YAML`".to_owned()))
        }
        (None, _) => Err(("no axis: what is to vary?".to_owned(), format!("`--over AXIS`; {accepted}"))),
    }
}

/// A flag that the axis would pass over, and the axes that it is for.
fn idle_flag(args: &BisectArgs, axis: Axis) -> Option<(&'static str, &'static str)> {
    let ends = matches!(axis, Axis::Commits | Axis::Packages);
    let commits = axis == Axis::Commits;
    [
        (args.good.is_some() && !ends, "--good", "commits and packages"),
        (args.bad.is_some() && !ends, "--bad", "commits and packages"),
        (args.expect == Expected::Fixed && !commits, "--expect fixed", "commits"),
        (args.first_parent && !commits, "--first-parent", "commits"),
        (!args.path.is_empty() && !commits, "--path", "commits"),
    ]
    .into_iter()
    .find_map(|(idle, flag, axes)| idle.then_some((flag, axes)))
}

fn show(bisected: &Bisected) {
    let report = &bisected.report;
    let text = |path: &str| report.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    print("");
    print(&format!("failure:  {}", text("/failure")));
    bisected.lines.iter().for_each(|line| print(line));
    for neighbour in report["neighbours"].as_array().into_iter().flatten() {
        let word = |key: &str| neighbour[key].as_str().unwrap_or_default();
        print("");
        print(&format!("{}: failed {} times, passed {} times", word("label"), neighbour["fails"], neighbour["passes"]));
        let output =
            if neighbour["fails"].as_u64() > Some(0) { word("output_failing") } else { word("output_passing") };
        let lines: Vec<&str> = output.lines().collect();
        lines[lines.len().saturating_sub(SHOWN)..].iter().for_each(|line| print(&format!("    {line}")));
    }
    print("");
    let skipped = report["skipped"].as_array().map_or(0, Vec::len);
    let broken = if skipped == 0 { String::new() } else { format!(", {skipped} points could not be run") };
    let seconds = report["seconds"].as_f64().unwrap_or_default();
    print(&format!("runs:     {} in {seconds:.0} s{broken}", report["runs"]));
    print(&format!("report:   {}", Path::new(&bisected.out).join("REPORT.md").display()));
}

fn code(ending: Ending) -> ExitCode {
    match ending {
        Ending::Found => ExitCode::Success,
        Ending::Limit(Stop::Interrupted) => ExitCode::Interrupted,
        Ending::Limit(_) => ExitCode::Limit,
        Ending::NotReproduced => ExitCode::NotReproduced,
        Ending::GoodFails => ExitCode::Usage,
        Ending::Broken => ExitCode::CannotRun,
        Ending::Unsteady => ExitCode::TooRare,
    }
}
