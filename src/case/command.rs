//! Owns understanding a command: from its words to the Python program that it starts.
//!
//! Invariant: what is returned is what the shell would start, or a refusal with the reason; nothing is run.
//! Must not read shell syntax: `script` does.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::launcher::{self, Elastic, Launch, RankArgument, Target};
use super::refusal::Refusal;
use super::{Program, Ranks, globs};
use crate::environment::{Interpreter, Surroundings, which};

/// A Python program that a command starts, before its place in the project is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) interpreter: Interpreter,
    pub(super) options: Vec<String>,
    pub(super) program: Program,
    pub(super) argv: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) unset: BTreeSet<String>,
    pub(super) cwd: PathBuf,
    pub(super) ranks: Option<Ranks>,
    pub(super) origin: Origin,
    pub(super) rank_argument: RankArgument,
    /// An option that gives this run packages of its own, such as `uv run --with`.
    pub(super) packages: Option<String>,
}

/// Where a script was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// Named by its path: a file of the user.
    Typed,
    /// Found on `PATH`: it came with an installed package.
    Installed,
}

/// What words mean.
#[derive(Debug)]
pub(super) enum Meaning {
    /// A Python program.
    Python(Box<Found>),
    /// A shell script to be read on.
    Script(ShellCall),
    /// Python, but no program of the user: `python -c`, `python -m pip`.
    Query(Refusal),
}

/// A shell script and how it is called.
#[derive(Debug)]
pub(super) struct ShellCall {
    /// The text.
    pub(super) text: String,
    /// `$0`.
    pub(super) zero: String,
    /// `$1` and on.
    pub(super) args: Vec<String>,
    /// What wrappers before it set.
    pub(super) prefix: Prefix,
}

/// What stands before the program: collected while wrappers are taken off.
#[derive(Debug, Clone)]
pub(super) struct Prefix {
    pub(super) env: BTreeMap<String, String>,
    pub(super) unset: BTreeSet<String>,
    pub(super) cwd: PathBuf,
    pub(super) interpreter: Option<Interpreter>,
    pub(super) packages: Option<String>,
}

impl Prefix {
    pub(super) fn new(cwd: PathBuf) -> Prefix {
        Prefix { env: BTreeMap::new(), unset: BTreeSet::new(), cwd, interpreter: None, packages: None }
    }
}

/// Understands words that a shell would start; `path` is its `PATH`.
pub(super) fn understand(words: &[String], prefix: Prefix, path: &str, surroundings: &Surroundings) -> Result<Meaning, Refusal> {
    let mut prefix = prefix;
    let Some((first, rest)) = words.split_first() else { return Err(Refusal::NoProgram(String::new())) };
    let name = first.rsplit('/').next().unwrap_or(first);
    if is_python(name) {
        let named = if first.contains('/') {
            Interpreter::Path(globs::normal(&prefix.cwd.join(first)))
        } else if Some(path) == surroundings.var("PATH") {
            Interpreter::Named(first.clone())
        } else {
            // A script that changed PATH means the one that is found there.
            which(first, path).map_or_else(|| Interpreter::Named(first.clone()), Interpreter::Path)
        };
        prefix.interpreter.get_or_insert(named);
        return python(rest, prefix, path, surroundings);
    }
    if matches!(name, "torchrun" | "accelerate" | "accelerate-launch")
        && prefix.interpreter.is_none()
        && let Some(file) = if first.contains('/') { Some(prefix.cwd.join(first)) } else { which(first, path) }
        && let Some(interpreter) = Starter::of(&file).words.first().filter(|word| word.starts_with('/'))
    {
        // The launcher starts the interpreter that it was installed for.
        prefix.interpreter = Some(Interpreter::Path(PathBuf::from(interpreter)));
    }
    let wrapped = |rest: &[String], prefix: Prefix| understand(rest, prefix, path, surroundings);
    match name {
        "torchrun" => launched(launcher::torchrun(rest, Elastic::Run)?, prefix, path, surroundings),
        "accelerate" | "accelerate-launch" => {
            let rest = match (name, rest.split_first()) {
                ("accelerate-launch", _) => rest,
                (_, Some((word, rest))) if word == "launch" => rest,
                _ => return Ok(Meaning::Query(Refusal::Tool(words[..words.len().min(2)].join(" ")))),
            };
            launched(launcher::accelerate(rest, &prefix.cwd, accelerate_defaults(surroundings))?, prefix, path, surroundings)
        }
        "uv" | "poetry" => tool(name, rest, prefix, path, surroundings),
        "env" => wrapped(env(rest, &mut prefix)?, prefix),
        "exec" | "command" | "nohup" | "setsid" | "time" | "stdbuf" => wrapped(without_options(rest, &["-o", "-e", "-i", "-a"]), prefix),
        "nice" | "ionice" => wrapped(without_options(rest, &["-n", "-c"]), prefix),
        "timeout" => wrapped(without_options(rest, &["-s", "-k"]).get(1..).unwrap_or_default(), prefix),
        "taskset" => wrapped(without_options(rest, &[]).get(1..).unwrap_or_default(), prefix),
        "sh" | "bash" | "dash" | "zsh" | "ksh" => shell(name, rest, prefix),
        _ if LAUNCHERS.contains(&name) => Err(Refusal::Launcher(name.to_owned())),
        _ => file(first, rest, prefix, path, surroundings),
    }
}

/// Starters of programs that are not read through.
const LAUNCHERS: &[&str] = &[
    "srun", "sbatch", "salloc", "mpirun", "mpiexec", "horovodrun", "deepspeed", "docker", "podman", "apptainer", "singularity",
    "kubectl", "ssh", "ray", "conda", "mamba", "micromamba", "pipenv", "pdm", "hatch", "rye", "pixi", "uvx", "pipx", "nsys", "ncu",
    "compute-sanitizer", "cuda-gdb", "gdb", "strace", "sudo", "su", "xargs", "parallel", "watch", "screen", "tmux", "numactl",
];

fn is_python(name: &str) -> bool {
    let Some(version) = name.strip_prefix("python") else { return false };
    version.chars().all(|c| c.is_ascii_digit() || c == '.')
}

/// The words behind leading options; `valued` are short options whose value may be a word of its own.
fn without_options<'a>(words: &'a [String], valued: &[&str]) -> &'a [String] {
    let mut rest = words;
    while let Some((word, tail)) = rest.split_first() {
        if !word.starts_with('-') {
            break;
        }
        rest = if valued.contains(&word.as_str()) { tail.get(1..).unwrap_or_default() } else { tail };
        if word == "--" {
            break;
        }
    }
    rest
}

/// `env [-i] [-u NAME] [-C DIR] [NAME=VALUE]... COMMAND`.
fn env<'a>(words: &'a [String], prefix: &mut Prefix) -> Result<&'a [String], Refusal> {
    let mut rest = words;
    while let Some((word, tail)) = rest.split_first() {
        match word.as_str() {
            "-u" | "-C" | "--unset" | "--chdir" => {
                let (value, tail) = tail.split_first().ok_or_else(|| Refusal::NoProgram("env".to_owned()))?;
                if word.ends_with('u') || word == "--unset" {
                    prefix.env.remove(value);
                    prefix.unset.insert(value.clone());
                } else {
                    prefix.cwd = globs::normal(&prefix.cwd.join(value));
                }
                rest = tail;
                continue;
            }
            "-i" | "-" | "--ignore-environment" | "-S" | "--split-string" => return Err(Refusal::Launcher(format!("env {word}"))),
            "--" => {}
            option if option.starts_with("--unset=") => {
                prefix.unset.insert(option["--unset=".len()..].to_owned());
            }
            option if option.starts_with('-') => {}
            _ => match word.split_once('=') {
                Some((name, value)) => drop(prefix.env.insert(name.to_owned(), value.to_owned())),
                None => break,
            },
        }
        rest = tail;
    }
    Ok(rest)
}

/// The interpreter's own command line; `args` are the words behind its name.
fn python(args: &[String], prefix: Prefix, path: &str, surroundings: &Surroundings) -> Result<Meaning, Refusal> {
    let mut options = Vec::new();
    let mut rest = args;
    while let Some((word, tail)) = rest.split_first() {
        if word == "-" {
            return Ok(Meaning::Query(Refusal::StandardInput));
        }
        if word == "--" {
            rest = tail;
            break;
        }
        if !word.starts_with('-') {
            break;
        }
        rest = tail;
        if word == "--check-hash-based-pycs" {
            rest = tail.get(1..).unwrap_or_default();
            continue;
        }
        if word.starts_with("--") {
            return Ok(Meaning::Query(Refusal::Tool(format!("python {word}"))));
        }
        // One word may hold several options; the last may have its value in the same word or in the next one.
        let letters = &word[1..];
        for (at, letter) in letters.char_indices() {
            let attached = &letters[at + letter.len_utf8()..];
            match letter {
                'c' => return Ok(Meaning::Query(Refusal::Inline)),
                'V' | 'h' | '?' => return Ok(Meaning::Query(Refusal::Tool(format!("python {word}")))),
                'm' | 'W' | 'X' => {
                    let value = if attached.is_empty() {
                        let (value, tail) = rest.split_first().ok_or_else(|| Refusal::NoProgram(format!("python {word}")))?;
                        rest = tail;
                        value.clone()
                    } else {
                        attached.to_owned()
                    };
                    if letter == 'm' {
                        return module(value, options, rest, prefix, path, surroundings);
                    }
                    options.extend([format!("-{letter}"), value]);
                    break;
                }
                letter => options.push(format!("-{letter}")),
            }
        }
    }
    match rest.split_first() {
        Some((script, argv)) => {
            // A launcher that was started by its path, or by an installed script.
            let name = script.rsplit('/').next().unwrap_or(script);
            match name {
                "torchrun" => launched(launcher::torchrun(argv, Elastic::Run)?, prefix, path, surroundings),
                _ => Ok(Meaning::Python(Box::new(Found::new(Program::Script(script.clone()), options, argv, prefix)))),
            }
        }
        None => Ok(Meaning::Query(Refusal::NoProgram("python".to_owned()))),
    }
}

/// `-m NAME`.
fn module(
    name: String,
    options: Vec<String>,
    argv: &[String],
    prefix: Prefix,
    path: &str,
    surroundings: &Surroundings,
) -> Result<Meaning, Refusal> {
    match name.as_str() {
        "torch.distributed.run" => launched(launcher::torchrun(argv, Elastic::Run)?, prefix, path, surroundings),
        "torch.distributed.launch" => launched(launcher::torchrun(argv, Elastic::Launch)?, prefix, path, surroundings),
        "accelerate.commands.launch" => {
            launched(launcher::accelerate(argv, &prefix.cwd, accelerate_defaults(surroundings))?, prefix, path, surroundings)
        }
        "pip" | "venv" | "virtualenv" | "ensurepip" | "site" | "compileall" | "build" | "json.tool" => {
            Ok(Meaning::Query(Refusal::Tool(format!("python -m {name}"))))
        }
        _ => Ok(Meaning::Python(Box::new(Found::new(Program::Module(name), options, argv, prefix)))),
    }
}

impl Found {
    fn new(program: Program, options: Vec<String>, argv: &[String], prefix: Prefix) -> Found {
        Found {
            interpreter: prefix.interpreter.unwrap_or(Interpreter::Unnamed),
            options,
            program,
            argv: argv.to_vec(),
            env: prefix.env,
            unset: prefix.unset,
            cwd: prefix.cwd,
            ranks: None,
            origin: Origin::Typed,
            rank_argument: RankArgument::Absent,
            packages: prefix.packages,
        }
    }
}

fn launched(launch: Launch, prefix: Prefix, path: &str, surroundings: &Surroundings) -> Result<Meaning, Refusal> {
    let mut prefix = prefix;
    // What the user set wins, as it does with the launchers, except for the ranks themselves.
    for (name, value) in launch.env {
        if name.contains("RANK") || name.contains("WORLD_SIZE") || !prefix.env.contains_key(&name) {
            prefix.env.insert(name, value);
        }
    }
    let Some((target, argv)) = launch.words.split_first() else { return Err(Refusal::NoProgram(String::new())) };
    let mut meaning = match launch.target {
        Target::Script => Meaning::Python(Box::new(Found::new(Program::Script(target.clone()), Vec::new(), argv, prefix))),
        Target::Module => Meaning::Python(Box::new(Found::new(Program::Module(target.clone()), Vec::new(), argv, prefix))),
        Target::Command => understand(&launch.words, prefix, path, surroundings)?,
    };
    if let Meaning::Python(found) = &mut meaning {
        found.ranks = launch.ranks;
        found.rank_argument = launch.rank_argument;
    }
    Ok(meaning)
}

fn accelerate_defaults(surroundings: &Surroundings) -> Option<PathBuf> {
    let home = match (surroundings.var("HF_HOME"), surroundings.var("XDG_CACHE_HOME"), surroundings.var("HOME")) {
        (Some(folder), ..) => PathBuf::from(folder),
        (None, Some(folder), _) => Path::new(folder).join("huggingface"),
        (None, None, Some(home)) => Path::new(home).join(".cache/huggingface"),
        (None, None, None) => return None,
    };
    Some(home.join("accelerate/default_config.yaml"))
}

/// `uv run` and `poetry run`.
fn tool(name: &str, args: &[String], prefix: Prefix, path: &str, surroundings: &Surroundings) -> Result<Meaning, Refusal> {
    let mut prefix = prefix;
    let (tool, run) = match name {
        "uv" => ("uv", launcher::uv_run(args)?),
        _ => ("poetry", launcher::poetry_run(args)?),
    };
    let start = prefix.cwd.clone();
    if let Some(folder) = &run.directory {
        prefix.cwd = globs::normal(&start.join(folder));
    }
    let folder = match &run.project {
        Some(project) => globs::normal(&start.join(project)),
        None => prefix.cwd.clone(),
    };
    if let Some(option) = run.packages {
        prefix.packages = Some(format!("{tool} run {option}"));
    }
    prefix.interpreter = Some(Interpreter::Project { tool, folder: folder.clone() });
    match (run.target, run.words.split_first()) {
        (_, None) => Err(Refusal::NoProgram(format!("{tool} run"))),
        (Target::Script, Some((script, argv))) => {
            Ok(Meaning::Python(Box::new(Found::new(Program::Script(script.clone()), Vec::new(), argv, prefix))))
        }
        (Target::Module, Some((module_name, argv))) => module(module_name.clone(), Vec::new(), argv, prefix, path, surroundings),
        (Target::Command, Some(_)) => {
            let inside = format!("{}:{path}", folder.join(".venv/bin").display());
            understand(&run.words, prefix, &inside, surroundings)
        }
    }
}

/// `bash [options] FILE ...` or `sh -c TEXT ...`.
fn shell(name: &str, args: &[String], prefix: Prefix) -> Result<Meaning, Refusal> {
    let mut rest = args;
    while let Some((word, tail)) = rest.split_first() {
        if !word.starts_with(['-', '+']) {
            break;
        }
        rest = tail;
        if word == "--" {
            break;
        }
        if word == "-o" || word == "+o" {
            rest = tail.get(1..).unwrap_or_default();
        } else if !word.starts_with("--") && word.contains('c') {
            let (text, tail) = rest.split_first().ok_or_else(|| Refusal::NoProgram(format!("{name} -c")))?;
            let zero = tail.first().cloned().unwrap_or_else(|| name.to_owned());
            let args = tail.get(1..).unwrap_or_default().to_vec();
            return Ok(Meaning::Script(ShellCall { text: text.clone(), zero, args, prefix }));
        }
    }
    let (script, args) = rest.split_first().ok_or_else(|| Refusal::NotPython(name.to_owned()))?;
    let bytes = read_script(script, &prefix.cwd)?;
    Ok(Meaning::Script(ShellCall { text: bytes, zero: script.clone(), args: args.to_vec(), prefix }))
}

fn read_script(script: &str, cwd: &Path) -> Result<String, Refusal> {
    let bytes = std::fs::read(cwd.join(script)).map_err(|_| Refusal::Missing(script.to_owned()))?;
    if bytes.contains(&0) {
        return Err(Refusal::NotPython(script.to_owned()));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A program started by its own name: what its first line says.
fn file(first: &str, args: &[String], prefix: Prefix, path: &str, surroundings: &Surroundings) -> Result<Meaning, Refusal> {
    let typed = first.contains('/');
    let file = if typed { Some(prefix.cwd.join(first)) } else { which(first, path) };
    let Some(file) = file else { return Err(Refusal::NotPython(first.to_owned())) };
    if typed && !file.exists() {
        return Err(Refusal::Missing(first.to_owned()));
    }
    if file.is_dir() {
        return Err(Refusal::Folder(first.to_owned()));
    }
    let Starter { words, shebang } = Starter::of(&file);
    let starter = words.first().and_then(|word| word.rsplit('/').next()).unwrap_or_default();
    if is_python(starter) {
        let mut line = words.clone();
        line.push(if typed { first.to_owned() } else { file.to_string_lossy().into_owned() });
        line.extend_from_slice(args);
        let mut meaning = understand(&line, prefix, path, surroundings)?;
        if let (false, Meaning::Python(found)) = (typed, &mut meaning) {
            found.origin = Origin::Installed;
        }
        return Ok(meaning);
    }
    if !typed {
        return Err(Refusal::NotPython(first.to_owned()));
    }
    if matches!(starter, "sh" | "bash" | "dash" | "zsh" | "ksh") || (shebang == Shebang::Absent && first.ends_with(".sh")) {
        let text = read_script(first, &prefix.cwd)?;
        return Ok(Meaning::Script(ShellCall { text, zero: first.to_owned(), args: args.to_vec(), prefix }));
    }
    if first.ends_with(".py") { Err(Refusal::NoShebang(first.to_owned())) } else { Err(Refusal::NotPython(first.to_owned())) }
}

/// What a script says in its first lines about who runs it.
struct Starter {
    /// The interpreter and its options; empty when there is none.
    words: Vec<String>,
    shebang: Shebang,
}

/// Whether a file begins with `#!`.
#[derive(PartialEq, Eq)]
enum Shebang {
    Present,
    Absent,
}

impl Starter {
    /// A file that cannot be read says nothing.
    fn of(path: &Path) -> Starter {
        use std::io::Read;
        let mut head = Vec::new();
        let read = std::fs::File::open(path).and_then(|file| file.take(1024).read_to_end(&mut head));
        let head = if read.is_ok() { String::from_utf8_lossy(&head).into_owned() } else { String::new() };
        let mut lines = head.lines();
        let Some(first) = lines.next().and_then(|line| line.strip_prefix("#!")) else {
            return Starter { words: Vec::new(), shebang: Shebang::Absent };
        };
        // Installed scripts with a long path start through `sh` and name their interpreter in the second line.
        let second = lines.next().and_then(|line| line.strip_prefix("'''exec' ")).and_then(|line| line.split(" \"$0\"").next());
        if let Some(interpreter) = second {
            return Starter { words: vec![interpreter.trim_matches('"').to_owned()], shebang: Shebang::Present };
        }
        let words: Vec<String> = first.split_whitespace().map(str::to_owned).collect();
        let words = match words.first() {
            Some(word) if word.rsplit('/').next() == Some("env") => without_options(&words[1..], &[]).to_vec(),
            _ => words,
        };
        Starter { words, shebang: Shebang::Present }
    }
}
