//! Runs what was typed and decides the exit code.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::args::{self, Args, CheckArgs, Command, OutputArgs, ReduceArgs, RunningArgs};
use super::ground::{self, GroundError};
use super::progress::{Progress, Style, print, say};
use super::{bisect, corpus, explain, init, replay, report, screen};
use crate::bisect::axis::AxisError;
use crate::bundle::Outcome;
use crate::bundle::secrets::Private;
use crate::case::schema;
use crate::evidence::Ground;
use crate::exit::ExitCode;
use crate::job::{self, Existing, JobError, Options};
use crate::ledger::LedgerError;
use crate::oracle::{OracleError, Stop};
use crate::plan::{self, Plan};
use crate::search::reducer::Certify;
use crate::trial::PoolError;

/// The whole program: from the words of the command line to the exit code.
pub fn main() -> ExitCode {
    let args = match Args::parse_words(std::env::args_os()) {
        Ok(args) => args,
        Err(error) => {
            let code = if error.use_stderr() { ExitCode::Usage } else { ExitCode::Success };
            let _closed = error.print();
            return code;
        }
    };
    match args.command {
        None => reduce(&args.reduce),
        Some(Command::Check(check)) => run_check(&check),
        Some(Command::Init(args)) => init::run(&args),
        Some(Command::Bisect(args)) => bisect::run(&args),
        Some(Command::Explain(args)) => explain::run(&args),
        Some(Command::Replay(args)) => replay::run(&args),
        Some(Command::Corpus(args)) => corpus::run(&args.command),
        Some(Command::Report(args)) => report::run(&args),
        Some(Command::Strategies(args)) => strategies(args.name.as_deref()),
        Some(Command::Schema) => {
            print(&serde_json::to_string_pretty(&schema::json_schema()).unwrap_or_default());
            ExitCode::Success
        }
        Some(Command::Completions(args)) => {
            let mut out = Vec::new();
            clap_complete::generate(args.shell, &mut Args::parser(), "reduce", &mut out);
            print(String::from_utf8_lossy(&out).trim_end());
            ExitCode::Success
        }
        Some(Command::Man) => manual(),
    }
}

fn manual() -> ExitCode {
    let mut out = Vec::new();
    match clap_mangen::Man::new(Args::parser()).render(&mut out) {
        Ok(()) => {
            print(String::from_utf8_lossy(&out).trim_end());
            ExitCode::Success
        }
        Err(error) => fail(&error.to_string(), &[], ExitCode::Internal),
    }
}

fn strategies(name: Option<&str>) -> ExitCode {
    match name {
        None => {
            for (name, about) in plan::built_in() {
                print(&format!("{name:<12} {about}"));
            }
            ExitCode::Success
        }
        Some(name) => match plan::text(name) {
            Some(text) => {
                print(text.trim_end());
                ExitCode::Success
            }
            None => fail(&format!("no strategy `{name}`"), &["`reduce strategies` lists them".into()], ExitCode::Usage),
        },
    }
}

/// The main job on a case.
fn reduce(args: &ReduceArgs) -> ExitCode {
    let path = match &args.case {
        Some(path) => path.clone(),
        None => match init::write_for(&args.typed, &args.running, &args.output) {
            Ok(path) => path,
            Err(code) => return code,
        },
    };
    if !path.exists()
        && let Some(meant) = path.to_str().and_then(args::meant_command)
    {
        return fail(
            &format!("no such file: {}", path.display()),
            &[format!("did you mean `reduce {meant}`?")],
            ExitCode::Usage,
        );
    }
    let ground = match open(&path, &args.running, &args.output) {
        Ok(ground) => ground,
        Err(code) => return code,
    };
    let name = ground.case.strategy.clone();
    let plan = match Plan::load(&name, &ground.case.folder) {
        Ok(plan) => plan,
        Err(error) => return fail(&error.to_string(), &error.hints, ExitCode::Usage),
    };
    let options = Options {
        out: out_folder(args.out.as_deref(), &path),
        existing: match (args.resume, args.force) {
            (true, _) => Existing::Resume,
            (_, true) => Existing::Replace,
            _ => Existing::Refuse,
        },
        certify: match args.certify {
            args::Certify::Full => Certify::Full,
            args::Certify::Sinks => Certify::Sinks,
        },
        limit_time: args.limit_time,
        limit_runs: args.limit_runs,
        ..options(&args.running, Arc::new(plan))
    };
    let mut progress = Progress::new(style(&args.output));
    let result = job::run(ground, options, &mut |happening| progress.show(&happening));
    progress.finish();
    match result {
        Ok(bundle) => {
            if args.output.json {
                print(
                    &serde_json::json!({ "event": "end", "bundle": bundle.out, "report": bundle.report }).to_string(),
                );
            } else {
                screen::bundle(&bundle, args.print_diff);
            }
            match bundle.outcome {
                Outcome::Reduced => ExitCode::Success,
                Outcome::Limit => ExitCode::Limit,
                Outcome::Interrupted => ExitCode::Interrupted,
                Outcome::Unconfirmed => ExitCode::TooRare,
            }
        }
        Err(error) => fail(&error.to_string(), &error.hints(), code_of(&error)),
    }
}

fn run_check(args: &CheckArgs) -> ExitCode {
    let ground = match open(&args.case, &args.running, &args.output) {
        Ok(ground) => ground,
        Err(code) => return code,
    };
    let options = options(&args.running, default_plan());
    let mut progress = Progress::new(style(&args.output));
    let result = job::check(ground, options, &mut |happening| progress.show(&happening));
    progress.finish();
    match result {
        Ok(found) => {
            if args.output.json {
                print(&serde_json::json!({ "event": "end", "found": found }).to_string());
            } else {
                screen::check(&found);
            }
            ExitCode::Success
        }
        Err(error) => fail(&error.to_string(), &error.hints(), code_of(&error)),
    }
}

/// Reads a case and finds what it stands on; says what is wrong otherwise.
pub(super) fn open(path: &Path, running: &RunningArgs, output: &OutputArgs) -> Result<Ground, ExitCode> {
    let quiet = output.quiet || output.json;
    ground::read_case(path, running)
        .and_then(|case| ground::stand_on(case, running, quiet))
        .map_err(|error| refuse(&error))
}

/// Says why there is no ground to run on.
pub(super) fn refuse(error: &GroundError) -> ExitCode {
    let (hints, code) = match error {
        GroundError::Case(error) => (error.hints.clone(), ExitCode::Usage),
        GroundError::Environment(error) => (error.hints(), ExitCode::CannotRun),
        GroundError::Spy(_) => (vec!["name the Python program itself as `command:`".into()], ExitCode::Usage),
        GroundError::View(_) => (
            vec!["name the Python program itself as `command:`; then the script is not run".into()],
            ExitCode::CannotRun,
        ),
        GroundError::NoDevice => {
            (vec!["run on a machine with a GPU, or with `--device emulated`".into()], ExitCode::CannotRun)
        }
    };
    fail(&error.to_string(), &hints, code)
}

/// The strategy of a job that has none to choose.
pub(super) fn default_plan() -> Arc<Plan> {
    let text = plan::text("default").unwrap_or_default();
    Arc::new(Plan::parse("default", text).expect("the default strategy is part of the build and its test reads it"))
}

/// The options that all jobs share.
pub(super) fn options(running: &RunningArgs, plan: Arc<Plan>) -> Options {
    Options {
        out: PathBuf::new(),
        existing: Existing::Refuse,
        jobs: running.jobs,
        certify: Certify::Full,
        level: running.level.map(args::MatchLevel::level),
        timeout: running.timeout,
        limit_time: None,
        limit_runs: None,
        sandbox: !running.unsafe_no_sandbox,
        private: private(),
        plan,
        interrupted: interrupt_flag(),
    }
}

/// What is known of this machine, and must not leave it in a bundle.
pub(super) fn private() -> Private {
    let named = |name: &str| {
        let name = name.to_uppercase();
        ["API_KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "PRIVATE_KEY"]
            .iter()
            .any(|part| name.contains(part))
    };
    let texts =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    // A path or a number is no secret.
    let values =
        texts.filter(|(name, value)| named(name) && value.len() >= 8 && !value.contains('/')).map(|(_, value)| value);
    Private {
        user: std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).ok(),
        host: nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()),
        home: std::env::var("HOME").ok(),
        values: values.collect(),
    }
}

/// Set by the first Ctrl-C; the second ends the program at once.
pub(super) fn interrupt_flag() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let code = i32::from(ExitCode::Interrupted.number());
        let second = signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&flag));
        let first = signal_hook::flag::register(signal, Arc::clone(&flag));
        if second.is_err() || first.is_err() {
            flag.store(false, Ordering::Relaxed);
        }
    }
    flag
}

/// How a run is shown.
pub(super) fn style(output: &OutputArgs) -> Style {
    match output {
        OutputArgs { json: true, .. } => Style::Json,
        OutputArgs { quiet: true, .. } => Style::Quiet,
        OutputArgs { verbose: true, .. } => Style::Verbose,
        _ => Style::Normal,
    }
}

/// The bundle folder: `crash.reduced` beside `crash.yaml`.
fn out_folder(typed: Option<&Path>, case: &Path) -> PathBuf {
    typed.map_or_else(|| case.with_extension("reduced"), Path::to_owned)
}

/// The exit code of a job that ended without a bundle.
pub(super) fn code_of(error: &JobError) -> ExitCode {
    match error {
        JobError::NotReproduced { .. } | JobError::EndPasses { .. } => ExitCode::NotReproduced,
        JobError::Axis(AxisError::Wrong { .. }) | JobError::Log(_) => ExitCode::Usage,
        JobError::Axis(AxisError::Environment(_)) | JobError::EndBroken { .. } => ExitCode::CannotRun,
        JobError::TooRare { .. } => ExitCode::TooRare,
        JobError::OtherFailure { .. } => ExitCode::OtherFailure,
        JobError::Occupied { .. }
        | JobError::NoFolder { .. }
        | JobError::NotABundle { .. }
        | JobError::Changed { .. }
        | JobError::Ledger(LedgerError::Foreign { .. } | LedgerError::Busy { .. }) => ExitCode::Usage,
        JobError::Pool(PoolError::NoSandbox { .. } | PoolError::NotReady { .. } | PoolError::Process(_))
        | JobError::NotEmulated { .. } => ExitCode::CannotRun,
        JobError::Oracle(OracleError::Stopped(stop)) | JobError::Early { stop } => match stop {
            Stop::Interrupted => ExitCode::Interrupted,
            Stop::Time | Stop::Runs => ExitCode::Limit,
        },
        _ => ExitCode::Internal,
    }
}

/// Prints an error with its hints.
pub(super) fn fail(message: &str, hints: &[String], code: ExitCode) -> ExitCode {
    say(&format!("error: {message}"));
    for hint in hints {
        say(&format!("  hint: {hint}"));
    }
    code
}
