//! `reduce corpus`: add, list and run.

use std::fs;
use std::io::IsTerminal;
use std::path::Path;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use super::columns::{self, Column};
use super::corpus_args::{CorpusAddArgs, CorpusCommand, CorpusListArgs, CorpusRunArgs};
use super::ground;
use super::progress::{Style, print, say};
use super::replay;
use super::run::{fail, interrupt_flag, style};
use super::verdicts::{self, Annotate, Cell, Outcome, Updated};
use crate::corpus::{
    self, Added, CorpusError, Done, Entry, Expected, Found, Gpu, Options, Pin, Reason, Verdict, Whose,
};
use crate::exit::ExitCode;
use crate::trial::{Mode, PoolError};

/// Most entries at once on one GPU: context creation is the limit.
const GPU_JOBS: usize = 4;

/// An entry may use so much on any machine: torch alone takes a part of it.
const LEAST_MEMORY: u64 = 2 << 30;

/// Runs one of the commands of the corpus.
pub(super) fn run(command: &CorpusCommand) -> ExitCode {
    match command {
        CorpusCommand::Add(args) => add(args),
        CorpusCommand::List(args) => list(args),
        CorpusCommand::Run(args) => run_all(args),
    }
}

fn add(args: &CorpusAddArgs) -> ExitCode {
    let surroundings = ground::surroundings();
    for path in &args.bundles {
        let bundle = match replay::read(path) {
            Ok(bundle) => bundle,
            Err(code) => return code,
        };
        let pin = if args.pin { Pin::Torch } else { Pin::Free };
        match corpus::add(&bundle, &args.to, pin, &surroundings) {
            Ok(Added::New(folder)) => print(&format!("added {}: {}", folder.display(), bundle.signature)),
            Ok(Added::Known(folder)) => print(&format!("known already: {} is {}", path.display(), folder.display())),
            Err(error) => return refuse(&error),
        }
    }
    ExitCode::Success
}

fn list(args: &CorpusListArgs) -> ExitCode {
    let found = match corpus::find(&args.paths, &ground::surroundings()) {
        Ok(found) => found,
        Err(error) => return refuse(&error),
    };
    for entry in &found.entries {
        let torch = entry.torch.as_ref().map(ToString::to_string);
        if args.json {
            print(
                &json!({ "entry": entry.name, "expected": entry.expected, "versions": entry.versions, "torch": torch,
                         "signature": entry.signature, "file": format!("{}/{}", entry.name, entry.file) })
                .to_string(),
            );
            continue;
        }
        let only = torch.map_or_else(String::new, |torch| format!("  (torch {torch})"));
        let line = format!("{:<8} {}{only}  {}", entry.expected.word(), entry.name, entry.signature);
        print(&verdicts::visible(&line));
    }
    let style = if args.json { Style::Json } else { Style::Normal };
    found.broken.iter().for_each(|one| verdicts::broken(style, one));
    if found.broken.is_empty() { ExitCode::Success } else { ExitCode::Usage }
}

fn run_all(args: &CorpusRunArgs) -> ExitCode {
    let found = match corpus::find(&args.paths, &ground::surroundings()) {
        Ok(found) => found,
        Err(error) => return refuse(&error),
    };
    if let Some(file) = &args.junit
        && let Err(code) = is_writable(file)
    {
        return code;
    }
    let style = style(&args.output);
    found.broken.iter().for_each(|one| verdicts::broken(style, one));
    let columns = match columns::columns(args) {
        Ok(columns) => columns,
        Err(code) => return code,
    };
    let interrupted = interrupt_flag();
    let mut outcomes = Vec::new();
    for column in &columns {
        let options = Options {
            jobs: jobs(args, column),
            mode: if args.cold { Mode::Exec } else { Mode::Fork },
            runs: args.runs as usize,
            device: args.device,
            gpu: column.python.as_ref().map_or(Gpu::Absent, ground::gpu),
            timeout: args.timeout,
            memory: ground::memory().map(|free| share(free, jobs(args, column))),
            sandbox: !args.unsafe_no_sandbox,
            interrupted: std::sync::Arc::clone(&interrupted),
        };
        match one_column(args, &found, column, columns.len(), &options) {
            Ok(outcome) => outcomes.push(outcome),
            Err(error) => return refuse(&error),
        }
    }
    if columns.len() > 1 && style != Style::Json && !found.entries.is_empty() {
        verdicts::matrix(&found.entries, &outcomes);
    }
    let annotate = annotate();
    verdicts::annotate(style, &annotate, &found.entries, &found.broken, &outcomes);
    if let Some(file) = &args.junit
        && let Err(error) = write_junit(file, &found, &outcomes)
    {
        return fail(&format!("cannot write {}: {error}", file.display()), &[], ExitCode::Internal);
    }
    verdicts::end(style, found.entries.len(), &found.broken, &outcomes)
}

/// Found out before the entries run, so that their outcome is not lost.
fn is_writable(file: &Path) -> Result<(), ExitCode> {
    fs::OpenOptions::new().create(true).append(true).open(file).map(drop).map_err(|error| {
        fail(
            &format!("--junit {}: {error}", file.display()),
            &["name a file in a folder that is there".into()],
            ExitCode::Usage,
        )
    })
}

fn write_junit(file: &Path, found: &Found, outcomes: &[Outcome]) -> std::io::Result<()> {
    fs::write(file, corpus::xml(&verdicts::suites(&found.entries, &found.broken, outcomes))?)
}

fn jobs(args: &CorpusRunArgs, column: &Column) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let gpu = column.python.as_ref().map_or(Gpu::Absent, ground::gpu);
    args.jobs.map_or(if gpu == Gpu::Here { cores.min(GPU_JOBS) } else { cores }, |jobs| jobs as usize)
}

/// What one of several runs may use of the memory that is free, with a tenth left to all others.
fn share(free: u64, jobs: usize) -> u64 {
    (free / 10 * 9 / jobs.max(1) as u64).max(LEAST_MEMORY)
}

/// Runs all entries with one interpreter.
fn one_column(
    args: &CorpusRunArgs,
    found: &Found,
    column: &Column,
    columns: usize,
    options: &Options,
) -> Result<Outcome, CorpusError> {
    let style = style(&args.output);
    let entries = &found.entries;
    let bar = bar(style, entries.len(), &column.name);
    let expected: Vec<Expected> = entries.iter().map(|entry| entry.expected_with(&column.torch)).collect();
    let mut told = |number: usize, done: &Done| {
        bar.inc(1);
        // A matrix says it all at once; events come as they are known.
        if columns == 1 || style == Style::Json {
            bar.suspend(|| verdicts::entry(style, &column.torch, &entries[number], expected[number], done));
        }
    };
    let done = match &column.python {
        Ok(python) => match corpus::run(entries, python, options, &mut told) {
            // A server that does not start with this torch says nothing of the others.
            Err(CorpusError::Pool(error @ PoolError::NotReady { .. })) => {
                nowhere(entries, Reason::from(&error), &mut told)
            }
            other => other?,
        },
        Err(why) => nowhere(entries, Reason::NoTorch(why.clone()), &mut told),
    };
    bar.finish_and_clear();
    let mut cells = Vec::new();
    for ((entry, done), expected) in entries.iter().zip(done).zip(expected) {
        let updated = match (&done, args.update) {
            (Some(done), true) => update(found, entry, &done.verdict, column, columns)?,
            _ => Updated::No,
        };
        cells.push(Cell { done, expected, updated });
    }
    Ok(Outcome { name: column.name.clone(), torch: column.torch.clone(), cells })
}

/// None of the entries could be run.
fn nowhere(entries: &[Entry], reason: Reason, told: &mut dyn FnMut(usize, &Done)) -> Vec<Option<Done>> {
    let done = |entry: &Entry| Done {
        verdict: Verdict::CannotRun(reason.clone()),
        device: entry.device,
        runs: 0,
        seconds: 0.0,
        log: String::new(),
    };
    let all: Vec<Done> = entries.iter().map(done).collect();
    all.iter().enumerate().for_each(|(number, one)| told(number, one));
    all.into_iter().map(Some).collect()
}

/// Writes what an entry does now as what is expected of it; another failure is another entry.
fn update(
    found: &Found,
    entry: &Entry,
    verdict: &Verdict,
    column: &Column,
    columns: usize,
) -> Result<Updated, CorpusError> {
    let now = match verdict {
        Verdict::FixedNow => Expected::Fixed,
        Verdict::CrashesAgain => Expected::Crashes,
        _ => return Ok(Updated::No),
    };
    if found.is_packed(entry) {
        say(&format!("note: {} lies in a tar file and is not rewritten", entry.name));
        return Ok(Updated::No);
    }
    let whose = if columns > 1 { Whose::Torch(&column.torch) } else { Whose::All(&column.torch) };
    entry.expect(now, &whose)?;
    Ok(Updated::Yes)
}

fn bar(style: Style, entries: usize, name: &str) -> ProgressBar {
    if style != Style::Normal || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(entries as u64), ProgressDrawTarget::stderr_with_hz(10));
    let template = ProgressStyle::with_template("{spinner} {msg}: {pos} of {len} entries, {elapsed}");
    bar.set_style(template.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message(name.to_owned());
    bar
}

/// GitHub says where it has checked the repository out.
fn annotate() -> Annotate {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if set("GITHUB_ACTIONS").as_deref() != Some("true") {
        return Annotate::Not;
    }
    let root = set("GITHUB_WORKSPACE").unwrap_or_default();
    Annotate::From(fs::canonicalize(&root).map_or(root, |path| path.to_string_lossy().into_owned()))
}

fn refuse(error: &CorpusError) -> ExitCode {
    let code = match error {
        CorpusError::Missing { .. }
        | CorpusError::Empty { .. }
        | CorpusError::NoCorpus { .. }
        | CorpusError::NotProven { .. }
        | CorpusError::Entry(_)
        | CorpusError::Archive(_) => ExitCode::Usage,
        CorpusError::Pool(_) => ExitCode::CannotRun,
        CorpusError::File { .. } | CorpusError::Harness(_) => ExitCode::Internal,
    };
    fail(&error.to_string(), &error.hints(), code)
}
