//! What may be typed behind `reduce corpus`.
//!
//! Invariant: as in `args`, this is exactly what was typed, each value checked by itself.
//! Must not read files, the environment or the clock.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand, ValueHint};

use super::args::OutputArgs;
use crate::case::Device;
use crate::case::quantity::parse_duration;

/// `reduce corpus`.
#[derive(Debug, Clone, ClapArgs)]
#[command(disable_help_subcommand = true)]
pub struct CorpusArgs {
    /// What to do with the corpus.
    #[command(subcommand)]
    pub command: CorpusCommand,
}

/// What to do with the corpus.
#[derive(Debug, Clone, Subcommand)]
pub enum CorpusCommand {
    /// Make entries of bundles, unless the corpus holds the same failure of the same program
    Add(CorpusAddArgs),
    /// List the entries and what is expected of each
    List(CorpusListArgs),
    /// Run the entries and say which do not do what is expected
    #[command(
        after_help = "Examples:\n  reduce corpus run                                             all entries of the folder corpus\n  \
                            reduce corpus run --with torch==2.11.0 --with torch==1.13.1   what each version does\n  \
                            reduce corpus run --junit junit.xml -j 2                      what CI calls\n\n\
                            Exit codes: 0 as expected, 4 flaky, 6 crashes again or fails otherwise, 7 cannot run here, \
                            8 fixed now, 2 a broken entry. The gravest is taken: 2, 6, 4, 8, 7."
    )]
    Run(CorpusRunArgs),
}

/// `reduce corpus add`.
#[derive(Debug, Clone, ClapArgs)]
pub struct CorpusAddArgs {
    /// Result folders, such as crash.reduced, or tar files of them
    #[arg(value_name = "BUNDLE", required = true, num_args = 1.., value_hint = ValueHint::AnyPath)]
    pub bundles: Vec<PathBuf>,
    /// The corpus
    #[arg(long, value_name = "DIR", default_value = "corpus", value_hint = ValueHint::DirPath)]
    pub to: PathBuf,
    /// Tie the entries to the version of torch that they were seen with
    #[arg(long)]
    pub pin: bool,
}

/// `reduce corpus list`.
#[derive(Debug, Clone, ClapArgs)]
pub struct CorpusListArgs {
    /// Corpora, entries, or tar files of them
    #[arg(value_name = "PATH", default_value = "corpus", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    /// Print one JSON object an entry
    #[arg(long)]
    pub json: bool,
}

/// `reduce corpus run`.
#[derive(Debug, Clone, ClapArgs)]
pub struct CorpusRunArgs {
    /// Corpora, entries, or tar files of them
    #[arg(value_name = "PATH", default_value = "corpus", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    /// Run with these packages, such as torch==2.11.0; given several times, with each
    #[arg(long, value_name = "PACKAGE==VERSION")]
    pub with: Vec<String>,
    /// An interpreter, or its environment; given several times, each [default: the active environment, else python3]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub python: Vec<PathBuf>,
    /// Entries at once [default: chosen from the machine]
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs: Option<u32>,
    /// Where CUDA code runs [default: where each entry was seen]
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<Device>,
    /// Time for one run of an entry that names none [default: 60s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub timeout: Option<Duration>,
    /// Runs of each entry: more find what comes and goes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Run each entry in a fresh interpreter instead of a forked process
    #[arg(long)]
    pub cold: bool,
    /// Write what is fixed now or crashes again as what is expected
    #[arg(long)]
    pub update: bool,
    /// Write JUnit XML
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub junit: Option<PathBuf>,
    /// Let the programs write and connect wherever they like
    #[arg(long)]
    pub unsafe_no_sandbox: bool,
    /// What is shown
    #[command(flatten)]
    pub output: OutputArgs,
}
