//! Owns the command lines of launchers: `torchrun`, `torch.distributed.launch`, `accelerate launch`, `uv run`, `poetry run`.
//!
//! Invariant: one process is run, with the environment that the launcher gives its only rank; how many were asked for is kept.
//! Must not start anything.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Ranks;
use super::refusal::Refusal;
use crate::yaml;

/// What a launcher was asked to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Launch {
    /// What it starts.
    pub(super) target: Target,
    /// The words behind the launcher's own, target first.
    pub(super) words: Vec<String>,
    /// Variables that it sets for rank 0 alone.
    pub(super) env: BTreeMap<String, String>,
    /// How many processes were asked for.
    pub(super) ranks: Option<Ranks>,
    /// Whether the program gets its rank as an argument (the old `torch.distributed.launch`).
    pub(super) rank_argument: RankArgument,
}

/// What a launcher starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// A Python file.
    Script,
    /// A Python module.
    Module,
    /// Any command.
    Command,
}

/// Whether the program gets its rank as an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RankArgument {
    /// `--local-rank=0` or `--local_rank=0`.
    Given,
    /// Only in the environment.
    Absent,
}

/// Which program of torch launches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Elastic {
    /// `torchrun` or `torch.distributed.run`.
    Run,
    /// `torch.distributed.launch`.
    Launch,
}

/// Options of a launcher: split from their values, dashes and underscores alike.
struct Options<'a> {
    rest: &'a [String],
    /// Long options without a value.
    flags: &'a [&'a str],
    /// Short options with a value.
    short: &'a [&'a str],
}

impl Options<'_> {
    /// The next option and its value; none at the first word that is not an option.
    fn next(&mut self) -> Option<(String, Option<String>)> {
        let (word, rest) = self.rest.split_first()?;
        if word == "--" {
            self.rest = rest;
            return None;
        }
        if !word.starts_with('-') || word == "-" {
            return None;
        }
        self.rest = rest;
        if let Some((name, value)) = word.split_once('=')
            && word.starts_with("--")
        {
            return Some((name.replace('_', "-"), Some(value.to_owned())));
        }
        if !word.starts_with("--") {
            let (name, attached) = word.split_at(word.char_indices().nth(2).map_or(word.len(), |(at, _)| at));
            if !self.short.contains(&name) {
                return Some((word.clone(), None));
            }
            if !attached.is_empty() {
                return Some((name.to_owned(), Some(attached.to_owned())));
            }
            return Some((name.to_owned(), self.take()));
        }
        let name = word.replace('_', "-");
        let value = if self.flags.contains(&name.as_str()) { None } else { self.take() };
        Some((name, value))
    }

    fn take(&mut self) -> Option<String> {
        let (value, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(value.clone())
    }
}

/// `torchrun ...` and its older names; `args` are the words behind the name.
pub(super) fn torchrun(args: &[String], elastic: Elastic) -> Result<Launch, Refusal> {
    let mut options = Options {
        rest: args,
        flags: &["--standalone", "--module", "--no-python", "--run-path", "--use-env", "--virtual-local-rank", "--help"],
        short: &["-r", "-t"],
    };
    let mut target = Target::Script;
    let mut ranks = Ranks::Count(1);
    let mut rank_argument = if elastic == Elastic::Launch { RankArgument::Given } else { RankArgument::Absent };
    let mut address = "127.0.0.1".to_owned();
    let mut port = "29500".to_owned();
    let mut role = "default".to_owned();
    while let Some((name, value)) = options.next() {
        match (name.as_str(), value) {
            ("-m" | "--module", _) => target = Target::Module,
            ("--no-python", _) => target = Target::Command,
            ("--use-env", _) => rank_argument = RankArgument::Absent,
            ("--nproc-per-node" | "--nproc", Some(count)) => ranks = parse_ranks(&count),
            ("--master-addr", Some(value)) if value == "localhost" => address = value,
            ("--master-port", Some(value)) => port = value,
            ("--role", Some(value)) => role = value,
            ("-h" | "--help", _) => return Err(Refusal::NoProgram("torchrun".to_owned())),
            _ => {}
        }
    }
    // A rendezvous on another machine makes no sense for one rank: the address stays local.
    if port.parse::<u16>().map_or(true, |port| port == 0) {
        address = "127.0.0.1".to_owned();
        port = "29500".to_owned();
    }
    let pairs = [
        ("RANK", "0"),
        ("LOCAL_RANK", "0"),
        ("WORLD_SIZE", "1"),
        ("LOCAL_WORLD_SIZE", "1"),
        ("GROUP_RANK", "0"),
        ("GROUP_WORLD_SIZE", "1"),
        ("ROLE_RANK", "0"),
        ("ROLE_WORLD_SIZE", "1"),
        ("ROLE_NAME", role.as_str()),
        ("MASTER_ADDR", address.as_str()),
        ("MASTER_PORT", port.as_str()),
        ("TORCHELASTIC_RESTART_COUNT", "0"),
        ("TORCHELASTIC_MAX_RESTARTS", "0"),
        ("TORCHELASTIC_RUN_ID", "none"),
        // No agent keeps a store for this rank: it makes its own.
        ("TORCHELASTIC_USE_AGENT_STORE", "False"),
    ];
    let env = pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    finish(Launch { target, words: options.rest.to_vec(), env, ranks: Some(ranks), rank_argument }, "torchrun")
}

/// `accelerate launch ...`; `defaults` is the user's default configuration file, which need not exist.
pub(super) fn accelerate(args: &[String], cwd: &Path, defaults: Option<PathBuf>) -> Result<Launch, Refusal> {
    let mut options = Options { rest: args, flags: ACCELERATE_FLAGS, short: &[] };
    let mut target = Target::Script;
    let mut given: BTreeMap<&str, String> = BTreeMap::new();
    let mut config = defaults.filter(|path| path.is_file());
    while let Some((name, value)) = options.next() {
        match (name.as_str(), value) {
            ("-m" | "--module", _) => target = Target::Module,
            ("--no-python", _) => target = Target::Command,
            ("--cpu", _) => drop(given.insert("use_cpu", "true".to_owned())),
            ("--mixed-precision", Some(value)) => drop(given.insert("mixed_precision", value)),
            ("--num-processes", Some(value)) => drop(given.insert("num_processes", value)),
            ("--num-cpu-threads-per-process", Some(value)) => drop(given.insert("threads", value)),
            ("--gradient-accumulation-steps", Some(value)) => drop(given.insert("steps", value)),
            ("--dynamo-backend", Some(value)) => drop(given.insert("dynamo", value)),
            ("--config-file", Some(value)) => config = Some(cwd.join(value)),
            ("-h" | "--help", _) => return Err(Refusal::NoProgram("accelerate launch".to_owned())),
            _ => {}
        }
    }
    if let Some(path) = &config {
        let shown = path.to_string_lossy();
        let file = yaml::read(path, &shown).map_err(|error| Refusal::Config(error.to_string()))?;
        for key in ["mixed_precision", "num_processes", "use_cpu"] {
            if let Some(node) = file.get(key).filter(|node| !node.raw.is_empty()) {
                given.entry(key).or_insert_with(|| node.raw.clone());
            }
        }
    }
    let mut env = BTreeMap::new();
    env.insert("ACCELERATE_MIXED_PRECISION".to_owned(), given.get("mixed_precision").cloned().unwrap_or_else(|| "no".to_owned()));
    let dynamo = given.get("dynamo").map_or_else(|| "NO".to_owned(), |name| name.to_uppercase());
    env.insert("ACCELERATE_DYNAMO_BACKEND".to_owned(), dynamo);
    if given.get("use_cpu").is_some_and(|value| value == "true") {
        env.insert("ACCELERATE_USE_CPU".to_owned(), "true".to_owned());
    }
    for (key, name) in [("threads", "OMP_NUM_THREADS"), ("steps", "ACCELERATE_GRADIENT_ACCUMULATION_STEPS")] {
        if let Some(value) = given.get(key) {
            env.insert(name.to_owned(), value.clone());
        }
    }
    let ranks = given.get("num_processes").map_or(Ranks::Count(1), |count| parse_ranks(count));
    let launch = Launch { target, words: options.rest.to_vec(), env, ranks: Some(ranks), rank_argument: RankArgument::Absent };
    finish(launch, "accelerate launch")
}

const ACCELERATE_FLAGS: &[&str] = &[
    "--help",
    "--quiet",
    "--cpu",
    "--multi-gpu",
    "--tpu",
    "--ipex",
    "--use-mps-device",
    "--use-deepspeed",
    "--use-fsdp",
    "--use-megatron-lm",
    "--use-parallelism-config",
    "--use-xpu",
    "--module",
    "--no-python",
    "--debug",
    "--same-network",
    "--enable-cpu-affinity",
    "--tpu-cluster",
    "--no-tpu-cluster",
    "--tpu-use-sudo",
    "--main",
    "--dynamo-use-fullgraph",
    "--dynamo-use-dynamic",
    "--dynamo-use-regional-compilation",
    "--fp16",
];

/// What `uv run` or `poetry run` was asked to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ToolRun {
    /// What it starts.
    pub(super) target: Target,
    /// The words behind the tool's own, target first.
    pub(super) words: Vec<String>,
    /// Where the tool looks for its project, relative to the working folder.
    pub(super) project: Option<String>,
    /// Where the program is started, relative to the working folder.
    pub(super) directory: Option<String>,
    /// An option that gives the program packages of its own, such as `--with`.
    pub(super) packages: Option<String>,
}

const UV_VALUES: &[&str] = &[
    "--with",
    "--with-editable",
    "--with-requirements",
    "--extra",
    "--no-extra",
    "--group",
    "--no-group",
    "--only-group",
    "--python",
    "--package",
    "--project",
    "--directory",
    "--env-file",
    "--index",
    "--default-index",
    "--index-url",
    "--extra-index-url",
    "--find-links",
    "--upgrade-package",
    "--upgrade-group",
    "--reinstall-package",
    "--refresh-package",
    "--cache-dir",
    "--config-file",
    "--config-setting",
    "--color",
    "--link-mode",
    "--resolution",
    "--prerelease",
    "--fork-strategy",
    "--exclude-newer",
    "--exclude-newer-package",
    "--allow-insecure-host",
    "--python-preference",
    "--python-platform",
    "--no-binary-package",
    "--no-build-package",
    "--no-build-isolation-package",
    "--keyring-provider",
    "--index-strategy",
    "-p",
    "-w",
    "-i",
    "-f",
    "-P",
    "-C",
];

/// `uv ... run ...`; `args` are the words behind `uv`.
pub(super) fn uv_run(args: &[String]) -> Result<ToolRun, Refusal> {
    tool_run(args, "uv", UV_VALUES)
}

/// `poetry ... run ...`; `args` are the words behind `poetry`.
pub(super) fn poetry_run(args: &[String]) -> Result<ToolRun, Refusal> {
    tool_run(args, "poetry", &["-C", "--directory", "-P", "--project"])
}

fn tool_run(args: &[String], tool: &str, values: &[&str]) -> Result<ToolRun, Refusal> {
    let mut run = ToolRun { target: Target::Command, words: Vec::new(), project: None, directory: None, packages: None };
    let mut seen_run = false;
    let mut rest = args;
    while let Some((word, tail)) = rest.split_first() {
        if !word.starts_with('-') || word == "-" {
            if seen_run {
                break;
            }
            if word != "run" {
                return Err(Refusal::NotPython(format!("{tool} {word}")));
            }
            seen_run = true;
            rest = tail;
            continue;
        }
        rest = tail;
        if word == "--" && seen_run {
            break;
        }
        let (name, attached) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word.as_str(), None),
        };
        let value = match attached {
            Some(value) => Some(value),
            None if values.contains(&name) => {
                let (value, tail) = rest.split_first().ok_or_else(|| Refusal::NoProgram(format!("{tool} run")))?;
                rest = tail;
                Some(value.clone())
            }
            None => None,
        };
        match name {
            "-m" | "--module" => run.target = Target::Module,
            "-s" | "--script" => run.target = Target::Script,
            "--project" => run.project = value,
            "-P" if tool == "poetry" => run.project = value,
            "--directory" => run.directory = value,
            // Poetry only looks for its project there; the program starts in the current folder.
            "-C" if tool == "poetry" => run.project = value,
            "--with" | "--with-editable" | "--with-requirements" | "-w" | "--env-file" => run.packages = Some(name.to_owned()),
            _ => {}
        }
    }
    if tool == "poetry" && run.directory.is_some() {
        run.project = run.directory.take();
    }
    run.words = rest.to_vec();
    match run.words.first() {
        None => Err(Refusal::NoProgram(format!("{tool} run"))),
        Some(word) if tool == "uv" && run.target == Target::Command && word.ends_with(".py") => {
            run.target = Target::Script;
            Ok(run)
        }
        Some(_) => Ok(run),
    }
}

fn parse_ranks(text: &str) -> Ranks {
    text.parse().map_or(Ranks::EachDevice, Ranks::Count)
}

fn finish(launch: Launch, name: &str) -> Result<Launch, Refusal> {
    if launch.words.is_empty() { Err(Refusal::NoProgram(name.to_owned())) } else { Ok(launch) }
}
