//! Owns reading shell scripts: variables, `export`, `cd`, arguments, and which Python program is started last.
//!
//! Invariant: what only a shell can know (conditions, loops, functions, unknown substitutions) ends the reading with the
//! reason, so that the script is run with a recorder instead; it never guesses.
//! Must not run anything; files are only looked at for wildcards and followed scripts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::command::{Found, Meaning, Prefix, ShellCall, understand};
use super::globs;
use super::refusal::Refusal;
use super::shell::{Part, ShellError, Token, TokenKind, Word, lex};
use crate::environment::Surroundings;

/// How deep scripts may start scripts.
const DEPTH: usize = 8;

/// What reading a command led to.
#[derive(Debug)]
pub(super) enum Trace {
    /// The Python program that is started last.
    Found(Box<Found>),
    /// There is none, or not one that can be reduced.
    Refused(Refusal),
    /// Only running tells.
    Dynamic(String),
}

/// Reads a command as a shell would, started in `cwd`.
pub(super) fn trace(text: &str, cwd: &Path, surroundings: &Surroundings) -> Trace {
    let mut shell = Shell {
        surroundings,
        vars: BTreeMap::new(),
        exported: BTreeSet::new(),
        cwd: cwd.to_path_buf(),
        zero: "sh".to_owned(),
        args: Vec::new(),
        level: 0,
        last: None,
        skipped: None,
    };
    match shell.run(text) {
        Ok(_) => match (shell.last, shell.skipped) {
            (Some(Ok(found)), _) => Trace::Found(found),
            (Some(Err(refusal)), _) => Trace::Refused(refusal),
            (None, Some(Refusal::NotPython(_)) | None) => Trace::Refused(Refusal::NotPython(text.to_owned())),
            (None, Some(refusal)) => Trace::Refused(refusal),
        },
        Err(Stop::Dynamic(reason)) => Trace::Dynamic(reason),
        Err(Stop::Refused(refusal)) => Trace::Refused(refusal),
    }
}

/// Why reading ended early.
pub(super) enum Stop {
    Dynamic(String),
    Refused(Refusal),
}

impl From<ShellError> for Stop {
    fn from(error: ShellError) -> Stop {
        match error {
            ShellError::Open(_) => Stop::Refused(Refusal::Syntax(error.to_string())),
            ShellError::Dynamic { .. } => Stop::Dynamic(error.to_string()),
        }
    }
}

/// Whether the shell goes on after a command.
#[derive(PartialEq, Eq)]
enum Flow {
    On,
    Exit,
}

/// One command between operators.
#[derive(Default)]
struct Simple {
    words: Vec<Word>,
    line: usize,
    input: bool,
}

/// A shell's state, as far as reading needs it.
pub(super) struct Shell<'a> {
    pub(super) surroundings: &'a Surroundings,
    /// Variables that were set here; none for those that were unset.
    pub(super) vars: BTreeMap<String, Option<String>>,
    exported: BTreeSet<String>,
    pub(super) cwd: PathBuf,
    pub(super) zero: String,
    pub(super) args: Vec<String>,
    level: usize,
    /// The last Python program or launcher so far.
    last: Option<Result<Box<Found>, Refusal>>,
    /// The first command that was passed over and why: what to say when there is no other.
    skipped: Option<Refusal>,
}

impl Shell<'_> {
    fn run(&mut self, text: &str) -> Result<Flow, Stop> {
        let tokens = lex(text)?;
        // `&&` and `||`: each command is taken to succeed.
        let mut skip = false;
        let mut piped = false;
        let mut simple = Simple::default();
        let end = Token { kind: TokenKind::End, line: 0 };
        for token in tokens.into_iter().chain([end]) {
            let (skip_next, pipe_next) = match token.kind {
                TokenKind::Word(word) => {
                    if simple.words.is_empty() {
                        simple.line = token.line;
                    }
                    simple.words.push(word);
                    continue;
                }
                TokenKind::Input(_) => {
                    simple.input = true;
                    continue;
                }
                TokenKind::Output(_) => continue,
                TokenKind::End => (false, false),
                TokenKind::And => (false, false),
                TokenKind::Or => (true, false),
                TokenKind::Pipe => (skip, true),
            };
            let command = std::mem::take(&mut simple);
            if command.words.is_empty() {
                // A line may end behind an operator.
                continue;
            }
            let has_input = command.input || piped;
            if !skip && self.command(command, has_input)? == Flow::Exit {
                return Ok(Flow::Exit);
            }
            (skip, piped) = (skip_next, pipe_next);
        }
        Ok(Flow::On)
    }

    fn command(&mut self, simple: Simple, has_input: bool) -> Result<Flow, Stop> {
        let Simple { words, line, .. } = simple;
        let dynamic = |what: &str| Stop::Dynamic(format!("{} line {line}: {what}", self.zero));
        if let Some([Part::Plain(word)]) = words.first().map(|word| word.parts.as_slice())
            && DYNAMIC.contains(&word.as_str())
        {
            return Err(dynamic(&format!("`{word}`")));
        }
        let assigned = words.iter().take_while(|word| assignment(word).is_some()).count();
        let mut prefix = BTreeMap::new();
        for word in &words[..assigned] {
            if let Some((name, value)) = assignment(word) {
                prefix.insert(name, self.one(&value, line)?);
            }
        }
        let mut fields = Vec::new();
        for word in &words[assigned..] {
            self.expand(word, line, &mut fields)?;
        }
        let Some((name, args)) = fields.split_first() else {
            self.vars.extend(prefix.into_iter().map(|(name, value)| (name, Some(value))));
            return Ok(Flow::On);
        };
        match name.as_str() {
            "export" | "readonly" | "declare" | "typeset" | "local" => {
                for arg in args {
                    if arg.starts_with('-') && arg != "-x" && arg != "-r" {
                        return Err(dynamic(&format!("`{name} {arg}`")));
                    }
                    let (variable, value) = match arg.split_once('=') {
                        Some((variable, value)) => (variable, Some(value)),
                        None => (arg.as_str(), None),
                    };
                    if let Some(value) = value {
                        self.vars.insert(variable.to_owned(), Some(value.to_owned()));
                    }
                    if name == "export" || args.iter().any(|arg| arg == "-x") {
                        self.exported.insert(variable.to_owned());
                    }
                }
            }
            "unset" => {
                for arg in args.iter().filter(|arg| !arg.starts_with('-')) {
                    self.vars.insert(arg.clone(), None);
                    self.exported.remove(arg);
                }
            }
            "cd" => {
                let target = match args.iter().find(|arg| *arg != "--" && *arg != "-P" && *arg != "-L") {
                    Some(target) if target == "-" => return Err(dynamic("`cd -`")),
                    Some(target) => target.clone(),
                    None => self.value("HOME").unwrap_or_default(),
                };
                self.cwd = globs::normal(&self.cwd.join(target));
            }
            "set" if args.iter().all(|arg| arg.starts_with(['-', '+']) && arg != "--" && arg != "-" || arg == "pipefail") => {
                if args.iter().any(|arg| arg.starts_with('-') && !arg.starts_with("--") && arg.contains('a')) {
                    return Err(dynamic("`set -a`"));
                }
            }
            "shift" => {
                let count = args.first().map_or(Ok(1), |count| count.parse()).unwrap_or(1);
                self.args.drain(..count.min(self.args.len()));
            }
            "source" | "." => return self.source(args, line),
            "set" | "eval" | "read" | "alias" | "pushd" | "popd" | "getopts" | "mapfile" | "let" => {
                return Err(dynamic(&format!("`{name}`")));
            }
            "module" | "conda" | "mamba" | "micromamba" | "pyenv" if matches!(args.first().map(String::as_str), Some("activate" | "load" | "shell")) => {
                return Err(dynamic(&format!("`{name} {}`", args[0])));
            }
            "[" | "test" => return Err(dynamic("a condition")),
            "exit" | "return" => return Ok(Flow::Exit),
            // Only redirects what follows.
            "exec" if args.is_empty() => {}
            ":" | "true" | "echo" | "printf" | "trap" | "wait" | "ulimit" | "umask" | "hash" | "shopt" | "sleep" | "mkdir" | "date" => {}
            _ => {
                let is_last = name == "exec";
                self.start(&fields, prefix, has_input)?;
                return Ok(if is_last { Flow::Exit } else { Flow::On });
            }
        }
        Ok(Flow::On)
    }

    /// `source FILE`: an environment to activate, or more of the script.
    fn source(&mut self, args: &[String], line: usize) -> Result<Flow, Stop> {
        let dynamic = |what: String| Stop::Dynamic(format!("{} line {line}: {what}", self.zero));
        let Some(file) = args.first() else { return Ok(Flow::On) };
        let path = globs::normal(&self.cwd.join(file));
        if let Some(prefix) = path.to_string_lossy().strip_suffix("/bin/activate") {
            let search = format!("{prefix}/bin:{}", self.value("PATH").unwrap_or_default());
            for (name, value) in [("VIRTUAL_ENV", prefix.to_owned()), ("PATH", search)] {
                self.vars.insert(name.to_owned(), Some(value));
                self.exported.insert(name.to_owned());
            }
            return Ok(Flow::On);
        }
        if args.len() > 1 || self.level >= DEPTH {
            return Err(dynamic("`source`".to_owned()));
        }
        let text = std::fs::read_to_string(&path).map_err(|_| dynamic(format!("`source {file}`")))?;
        self.level += 1;
        let flow = self.run(&text);
        self.level -= 1;
        // `return` ends the file only.
        flow.map(|_| Flow::On)
    }

    /// Starts a program: follows scripts, notes Python programs.
    fn start(&mut self, words: &[String], assigned: BTreeMap<String, String>, has_input: bool) -> Result<(), Stop> {
        let mut prefix = Prefix::new(self.cwd.clone());
        for name in &self.exported {
            if let Some(Some(value)) = self.vars.get(name) {
                prefix.env.insert(name.clone(), value.clone());
            }
        }
        for (name, value) in &self.vars {
            match value {
                // A variable that the user's environment has is exported already.
                Some(value) if self.surroundings.vars.contains_key(name) => drop(prefix.env.insert(name.clone(), value.clone())),
                Some(_) => {}
                None => drop(prefix.unset.insert(name.clone())),
            }
        }
        prefix.env.extend(assigned);
        let path = prefix.env.get("PATH").cloned().or_else(|| self.value("PATH")).unwrap_or_default();
        match understand(words, prefix, &path, self.surroundings) {
            Ok(Meaning::Python(_)) if has_input => self.last = Some(Err(Refusal::StandardInput)),
            Ok(Meaning::Python(found)) => self.last = Some(Ok(found)),
            Ok(Meaning::Query(refusal)) => drop(self.skipped.get_or_insert(refusal)),
            Ok(Meaning::Script(call)) => self.follow(call)?,
            Err(refusal @ (Refusal::NotPython(_) | Refusal::Missing(_))) if self.level > 0 => drop(self.skipped.get_or_insert(refusal)),
            Err(refusal @ Refusal::NotPython(_)) => drop(self.skipped.get_or_insert(refusal)),
            Err(refusal) => self.last = Some(Err(refusal)),
        }
        Ok(())
    }

    fn follow(&mut self, call: ShellCall) -> Result<(), Stop> {
        if self.level >= DEPTH {
            return Err(Stop::Dynamic(format!("{}: scripts start scripts more than {DEPTH} deep", call.zero)));
        }
        let mut vars: BTreeMap<String, Option<String>> = call.prefix.unset.into_iter().map(|name| (name, None)).collect();
        let exported = call.prefix.env.keys().cloned().collect();
        vars.extend(call.prefix.env.into_iter().map(|(name, value)| (name, Some(value))));
        let mut child = Shell {
            surroundings: self.surroundings,
            vars,
            exported,
            cwd: call.prefix.cwd,
            zero: call.zero,
            args: call.args,
            level: self.level + 1,
            last: None,
            skipped: None,
        };
        child.run(&call.text)?;
        if child.last.is_some() {
            self.last = child.last;
        }
        let skipped = child.skipped.unwrap_or_else(|| Refusal::NotPython(child.zero));
        self.skipped.get_or_insert(skipped);
        Ok(())
    }
}

/// Words that make a script more than a list of commands.
const DYNAMIC: &[&str] = &[
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "select", "function", "[[", "{", "}", "!", "coproc",
];

/// `NAME=value` in front of a command.
fn assignment(word: &Word) -> Option<(String, Word)> {
    let Some(Part::Plain(first)) = word.parts.first() else { return None };
    let (name, value) = first.split_once('=')?;
    let mut letters = name.chars();
    let starts_well = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    if !starts_well || !letters.all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return None;
    }
    let mut parts = vec![Part::Plain(value.to_owned())];
    parts.extend_from_slice(&word.parts[1..]);
    Some((name.to_owned(), Word { parts }))
}
