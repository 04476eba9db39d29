//! Owns what may be typed: commands, flags and their help.
//!
//! Invariant: this is exactly what was typed, each value checked by itself; what it means together with the case is decided
//! by whoever runs the command.
//! Must not read files, the environment or the clock.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, CommandFactory, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;

use super::corpus_args::CorpusArgs;
use crate::case::quantity::{parse_count, parse_duration};
use crate::case::{Case, Device};
use crate::job::bisect::Axis;
use crate::signature::Match;

/// Reduce a program that dies with a CUDA device-side assert to the smallest program that still dies the same way.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "reduce",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    max_term_width = 100,
    override_usage = "reduce [OPTIONS] CRASH.YAML\n       reduce [OPTIONS] -- COMMAND...\n       reduce <SUBCOMMAND> ...",
    after_help = "Examples:\n  reduce crash.yaml                 reduce the case that crash.yaml describes\n  \
                  reduce -- python train.py         write crash.yaml for a command and reduce it\n  \
                  reduce check crash.yaml           does it reproduce, how often, how long?\n\n\
                  `reduce SUBCOMMAND --help` says more about each; `docs/exit-codes.md` lists the exit codes."
)]
pub struct Args {
    /// What to do; none: the main job.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The main job.
    #[command(flatten)]
    pub reduce: ReduceArgs,
}

/// Commands beside the main job.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Run a command once, recognise its failure and write a commented crash.yaml
    Init(InitArgs),
    /// Say whether the failure reproduces, how often, how long it takes and which pin hides it
    Check(CheckArgs),
    /// Find the commit, package version, setting, sample, step or launch that makes the difference
    Bisect(BisectArgs),
    /// Say in words what failed and why: from a log, standard input, a case or a bundle
    Explain(ExplainArgs),
    /// Run the repro of a bundle again and say whether it still dies the same way
    Replay(ReplayArgs),
    /// Keep crashes as a regression corpus: add bundles, list them, run them all
    Corpus(CorpusArgs),
    /// Make REPORT.md, report.html and report.json of a bundle again, from its ledger
    Report(ReportArgs),
    /// List the built-in strategies, or print one
    Strategies(StrategiesArgs),
    /// Print the JSON schema of crash.yaml
    Schema,
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print the manual page, in roff
    Man,
}

/// The main job.
#[derive(Debug, Clone, ClapArgs)]
pub struct ReduceArgs {
    /// The case: a crash.yaml
    #[arg(value_name = "CRASH.YAML", value_hint = ValueHint::FilePath, required_unless_present = "typed", conflicts_with = "typed")]
    pub case: Option<PathBuf>,
    /// A command that crashes, as it is typed: writes crash.yaml for it first
    #[arg(value_name = "COMMAND", id = "typed", last = true, num_args = 1.., value_hint = ValueHint::CommandWithArguments)]
    pub typed: Vec<String>,
    /// Folder for the result [default: the name of the case with `.reduced`]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
    /// Go on with an interrupted run from its ledger
    #[arg(long, conflicts_with = "force")]
    pub resume: bool,
    /// Replace a result that is there already
    #[arg(long)]
    pub force: bool,
    /// How the result is proven minimal: by trying every statement, or only those that nothing else needs
    #[arg(long, value_name = "HOW", default_value = "full")]
    pub certify: Certify,
    /// Print the difference between original and result at the end
    #[arg(long)]
    pub print_diff: bool,
    /// Stop after this much time and keep the best (such as 30m)
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub limit_time: Option<Duration>,
    /// Stop after this many runs and keep the best
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub limit_runs: Option<u64>,
    /// How trials are run
    #[command(flatten)]
    pub running: RunningArgs,
    /// What is shown
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `reduce init`.
#[derive(Debug, Clone, ClapArgs)]
#[command(override_usage = "reduce init [OPTIONS] -- COMMAND...")]
pub struct InitArgs {
    /// The command that crashes, as it is typed
    #[arg(value_name = "COMMAND", last = true, required = true, num_args = 1.., value_hint = ValueHint::CommandWithArguments)]
    pub typed: Vec<String>,
    /// Take the failure from the log of a failed run instead of running the command
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub log: Option<PathBuf>,
    /// The file to write
    #[arg(long, value_name = "FILE", default_value = "crash.yaml", value_hint = ValueHint::FilePath)]
    pub out: PathBuf,
    /// Replace a file that is there already
    #[arg(long)]
    pub force: bool,
    /// How the command is run
    #[command(flatten)]
    pub running: RunningArgs,
    /// What is shown
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `reduce check`.
#[derive(Debug, Clone, ClapArgs)]
pub struct CheckArgs {
    /// The case: a crash.yaml
    #[arg(value_name = "CRASH.YAML", value_hint = ValueHint::FilePath)]
    pub case: PathBuf,
    /// How trials are run
    #[command(flatten)]
    pub running: RunningArgs,
    /// What is shown
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `reduce explain`.
#[derive(Debug, Clone, ClapArgs)]
pub struct ExplainArgs {
    /// Logs, or - for standard input, or the folder of a launcher's logs
    #[arg(value_name = "LOG|-|CRASH.YAML|BUNDLE", required = true, num_args = 1.., value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    /// Print only the lines that would have caught the failure in your own code
    #[arg(long)]
    pub guard: bool,
    /// Look for the smallest edit of the repro that passes, by a few more runs of it
    #[arg(long, conflicts_with = "guard")]
    pub twin: bool,
    /// How the runs of a case are made
    #[command(flatten)]
    pub running: RunningArgs,
    /// What is shown
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `reduce bisect`.
#[derive(Debug, Clone, ClapArgs)]
#[command(
    override_usage = "reduce bisect [OPTIONS] --over AXIS CRASH.YAML\n       reduce bisect [OPTIONS] AXIS CRASH.YAML",
    after_help = "Examples:\n  reduce bisect commits crash.yaml --good v1.4\n  \
                  reduce bisect packages crash.yaml --good numpy==1.23.5 --bad numpy==1.24.0\n  \
                  reduce bisect packages crash.yaml --good old.txt --bad new.txt\n  \
                  reduce bisect settings crash.yaml"
)]
pub struct BisectArgs {
    /// The axis, where `--over` does not name it, and the case: a crash.yaml
    #[arg(value_name = "CRASH.YAML", num_args = 1..=2, required = true, value_hint = ValueHint::FilePath)]
    pub words: Vec<PathBuf>,
    /// What varies
    #[arg(long, value_name = "AXIS")]
    pub over: Option<Axis>,
    /// The end that passes: a revision, PACKAGE==VERSION or a list of pinned packages
    #[arg(long, value_name = "POINT")]
    pub good: Option<String>,
    /// The end that fails [default: the working tree, or what is installed]
    #[arg(long, value_name = "POINT")]
    pub bad: Option<String>,
    /// What is searched for: the change that broke it, or with `fixed` the one that mended it
    #[arg(long, value_name = "WHAT", default_value = "broken")]
    pub expect: Expected,
    /// Follow only the first parent of merges
    #[arg(long)]
    pub first_parent: bool,
    /// Only commits that touch this path (may be given several times)
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub path: Vec<String>,
    /// The log of answers, which can be edited and gone on from [default: `log` in the result folder]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub log: Option<PathBuf>,
    /// Folder for the result [default: the name of the case with `.bisect`]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
    /// Go on from the log of an earlier run
    #[arg(long, conflicts_with = "force")]
    pub resume: bool,
    /// Replace a result that is there already
    #[arg(long)]
    pub force: bool,
    /// Stop after this much time and say what is likely (such as 30m)
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub limit_time: Option<Duration>,
    /// Stop after this many runs and say what is likely
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub limit_runs: Option<u64>,
    /// How trials are run
    #[command(flatten)]
    pub running: RunningArgs,
    /// What is shown
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What a bisection searches for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Expected {
    /// The change that broke it.
    Broken,
    /// The change that mended it.
    Fixed,
}

impl ValueEnum for Axis {
    fn value_variants<'a>() -> &'a [Self] {
        &Axis::ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        let help = match self {
            Axis::Launches => "Which kernel launch fails",
            Axis::Steps => "Which step of the training loop fails, and how much history it needs",
            Axis::Samples => "Which rows of the data",
            Axis::Commits => "Which commit of the repository",
            Axis::Packages => "Which version of a package, or which packages of two lists",
            Axis::Settings => "Which variables, arguments, configuration keys are needed, and which pins hide it",
        };
        Some(clap::builder::PossibleValue::new(self.name()).help(help))
    }
}

/// `reduce replay`.
#[derive(Debug, Clone, ClapArgs)]
pub struct ReplayArgs {
    /// A result folder, such as crash.reduced, or a tar file of one (.tar, .tar.gz, .tgz, .tar.zst)
    #[arg(value_name = "BUNDLE", value_hint = ValueHint::AnyPath)]
    pub bundle: PathBuf,
    /// Where CUDA code runs [default: where the result was confirmed]
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<Device>,
    /// Time for one run (such as 120s)
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub timeout: Option<Duration>,
    /// How alike the failure must be
    #[arg(long = "match", value_name = "LEVEL")]
    pub level: Option<MatchLevel>,
    /// Let the program write and connect wherever it likes
    #[arg(long)]
    pub unsafe_no_sandbox: bool,
    /// What is shown
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `reduce report`.
#[derive(Debug, Clone, ClapArgs)]
pub struct ReportArgs {
    /// A result folder, such as crash.reduced
    #[arg(value_name = "BUNDLE", value_hint = ValueHint::DirPath)]
    pub bundle: PathBuf,
}

/// `reduce strategies`.
#[derive(Debug, Clone, ClapArgs)]
pub struct StrategiesArgs {
    /// Print this one as a file to start from
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}

/// `reduce completions`.
#[derive(Debug, Clone, ClapArgs)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// How trials are run.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(next_help_heading = "Running")]
pub struct RunningArgs {
    /// Trials at once [default: chosen from the machine]
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs: Option<u32>,
    /// Where CUDA code runs [default: auto]
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<Device>,
    /// Time for one run (such as 120s) [default: from the first run]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub timeout: Option<Duration>,
    /// Seed of every random generator, or none to leave seeding alone [default: 0]
    #[arg(long, value_name = "N|none", value_parser = parse_seed)]
    pub seed: Option<Seed>,
    /// How alike two failures must be to count as the same [default: normal]
    #[arg(long = "match", value_name = "LEVEL")]
    pub level: Option<MatchLevel>,
    /// Let the program write and connect wherever it likes
    #[arg(long)]
    pub unsafe_no_sandbox: bool,
}

/// What is shown.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Print one JSON event a line on standard output
    #[arg(long, conflicts_with = "verbose")]
    pub json: bool,
    /// Print only the result and errors
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Print every trial
    #[arg(short, long)]
    pub verbose: bool,
}

/// How much of the result is proven minimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Certify {
    /// Every statement was tried.
    Full,
    /// Only statements that no other statement needs were tried.
    Sinks,
}

/// How alike two failures must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MatchLevel {
    /// Kernel, condition and operator
    Strict,
    /// Failure class and operator
    Normal,
    /// Failure class
    Loose,
}

impl MatchLevel {
    /// The level as signatures know it.
    pub fn level(self) -> Match {
        match self {
            MatchLevel::Strict => Match::Strict,
            MatchLevel::Normal => Match::Normal,
            MatchLevel::Loose => Match::Loose,
        }
    }
}

impl ValueEnum for Device {
    fn value_variants<'a>() -> &'a [Self] {
        &[Device::Auto, Device::Cuda, Device::Emulated]
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        let help = match self {
            Device::Auto => "A GPU where there is one, else emulated",
            Device::Cuda => "A GPU",
            Device::Emulated => "CPU tensors that claim to be on a GPU",
        };
        Some(clap::builder::PossibleValue::new(self.name()).help(help))
    }
}

/// A seed as typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seed {
    /// Seed with this number.
    Fixed(u32),
    /// Leave seeding alone.
    Untouched,
}

impl ReduceArgs {
    /// Puts what was typed in the place of what the case says.
    pub fn apply(&self, case: &mut Case) {
        self.running.apply(case);
        if self.limit_time.is_some() {
            case.limits.time = self.limit_time;
        }
        if self.limit_runs.is_some() {
            case.limits.runs = self.limit_runs;
        }
    }
}

impl RunningArgs {
    /// Puts what was typed in the place of what the case says.
    pub fn apply(&self, case: &mut Case) {
        if self.jobs.is_some() {
            case.jobs = self.jobs;
        }
        if let Some(device) = self.device {
            case.setting.device = device;
        }
        if self.timeout.is_some() {
            case.limits.timeout = self.timeout;
        }
        match self.seed {
            Some(Seed::Fixed(seed)) => case.setting.pins.seed = Some(seed),
            Some(Seed::Untouched) => case.setting.pins.seed = None,
            None => {}
        }
        if let Some(level) = self.level {
            case.expect.level = Some(level.level());
        }
    }
}

fn parse_seed(text: &str) -> Result<Seed, String> {
    match text {
        "none" => Ok(Seed::Untouched),
        _ => text
            .parse()
            .map(Seed::Fixed)
            .map_err(|_| format!("expected a whole number from 0 to {}, or none", u32::MAX)),
    }
}

impl Args {
    /// Parses a command line; the error is what clap prints (`use_stderr` tells help and version from errors).
    pub fn parse_words<I>(words: I) -> Result<Args, clap::Error>
    where
        I: IntoIterator,
        I::Item: Into<std::ffi::OsString> + Clone,
    {
        Args::try_parse_from(words)
    }

    /// The parser itself: for completions, the manual page and documents.
    pub fn parser() -> clap::Command {
        Args::command()
    }
}

/// The command that a mistyped case name was meant to be: for the error when the file does not exist.
pub fn meant_command(case: &str) -> Option<String> {
    let parser = Args::command();
    let names: Vec<&str> = parser.get_subcommands().map(clap::Command::get_name).collect();
    crate::yaml::nearest(case, &names).map(str::to_owned)
}
