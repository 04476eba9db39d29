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
use super::shell::{Part, Quotes, ShellError, Token, TokenKind, Word, lex};
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

enum Stop {
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

struct Shell<'a> {
    surroundings: &'a Surroundings,
    /// Variables that were set here; none for those that were unset.
    vars: BTreeMap<String, Option<String>>,
    exported: BTreeSet<String>,
    cwd: PathBuf,
    zero: String,
    args: Vec<String>,
    level: usize,
    /// The last Python program or launcher so far.
    last: Option<Result<Box<Found>, Refusal>>,
    /// The first command that was passed over and why: what to say when there is no other.
    skipped: Option<Refusal>,
}

/// A field of a command line after expansion.
#[derive(Default)]
struct Field {
    text: String,
    /// The same as a wildcard pattern, when it has unquoted wildcards.
    pattern: String,
    wild: bool,
    quoted: bool,
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

    fn value(&self, name: &str) -> Option<String> {
        match self.vars.get(name) {
            Some(value) => value.clone(),
            None => self.surroundings.vars.get(name).cloned(),
        }
    }

    /// A word as one string, as in an assignment.
    fn one(&self, word: &Word, line: usize) -> Result<String, Stop> {
        let quoted = word.parts.iter().map(|part| match part {
            Part::Parameter(text, _) => Part::Parameter(text.clone(), Quotes::Inside),
            Part::Output(text, _) => Part::Output(text.clone(), Quotes::Inside),
            Part::Plain(text) if text.starts_with('~') => Part::Plain(text.clone()),
            Part::Plain(text) | Part::Quoted(text) => Part::Quoted(text.clone()),
        });
        let mut fields = Vec::new();
        self.expand(&Word { parts: quoted.collect() }, line, &mut fields)?;
        Ok(fields.join(" "))
    }

    /// Expands a word into the fields that it stands for.
    fn expand(&self, word: &Word, line: usize, fields: &mut Vec<String>) -> Result<(), Stop> {
        let dynamic = |what: String| Stop::Dynamic(format!("{} line {line}: {what}", self.zero));
        let mut list = vec![Field::default()];
        for (at, part) in word.parts.iter().enumerate() {
            match part {
                Part::Quoted(text) => last(&mut list).quote(text),
                Part::Plain(text) => {
                    if text.contains('{') && text.contains('}') && (text.contains(',') || text.contains("..")) {
                        return Err(dynamic("braces".to_owned()));
                    }
                    let text = match text.strip_prefix('~') {
                        Some(rest) if at == 0 && (rest.is_empty() || rest.starts_with('/')) => {
                            format!("{}{rest}", self.value("HOME").unwrap_or_default())
                        }
                        _ => text.clone(),
                    };
                    last(&mut list).plain(&text);
                }
                Part::Parameter(name, Quotes::Inside) if name == "@" => {
                    for (at, arg) in self.args.iter().enumerate() {
                        if at > 0 {
                            list.push(Field::default());
                        }
                        last(&mut list).quote(arg);
                    }
                    if self.args.is_empty() && word.parts.iter().all(|part| matches!(part, Part::Parameter(..)) || *part == Part::Quoted(String::new())) {
                        return Ok(());
                    }
                }
                Part::Parameter(name, quotes) => {
                    let value = self.parameter(name, line)?;
                    add(&mut list, &value, *quotes);
                }
                Part::Output(text, quotes) => {
                    let value = self.output(text, line)?;
                    add(&mut list, value.trim_end_matches('\n'), *quotes);
                }
            }
        }
        for field in list {
            if field.text.is_empty() && !field.quoted {
                continue;
            }
            let matches = if field.wild { wildcards(&self.cwd, &field.pattern) } else { Vec::new() };
            if matches.is_empty() { fields.push(field.text) } else { fields.extend(matches) }
        }
        Ok(())
    }

    /// `$NAME`, `${NAME:-default}` and the like.
    fn parameter(&self, text: &str, line: usize) -> Result<String, Stop> {
        let dynamic = || Stop::Dynamic(format!("{} line {line}: `${{{text}}}`", self.zero));
        let length = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
        let (name, rest) = text.split_at(length);
        if name.is_empty() {
            return match text {
                "@" | "*" => Ok(self.args.join(" ")),
                "#" => Ok(self.args.len().to_string()),
                _ => Err(dynamic()),
            };
        }
        if name == "BASH_SOURCE" && (rest.is_empty() || rest == "[0]") {
            return Ok(self.zero.clone());
        }
        let value = match name.parse::<usize>() {
            Ok(0) => Some(self.zero.clone()),
            Ok(position) => self.args.get(position - 1).cloned(),
            Err(_) if name == "PWD" => Some(self.cwd.to_string_lossy().into_owned()),
            Err(_) if matches!(name, "RANDOM" | "SECONDS" | "LINENO" | "EPOCHSECONDS" | "PPID" | "UID" | "HOSTNAME" | "OLDPWD") => return Err(dynamic()),
            Err(_) => self.value(name),
        };
        let filled = value.clone().filter(|value| !value.is_empty());
        let nested = |word: &str| -> Result<String, Stop> {
            let mut words = lex(&format!("\"{word}\""))?.into_iter();
            match words.next().map(|token| token.kind) {
                Some(TokenKind::Word(word)) => self.one(&word, line),
                _ => Ok(String::new()),
            }
        };
        if rest.is_empty() {
            Ok(value.unwrap_or_default())
        } else if let Some(word) = rest.strip_prefix(":-") {
            filled.map_or_else(|| nested(word), Ok)
        } else if let Some(word) = rest.strip_prefix('-') {
            value.map_or_else(|| nested(word), Ok)
        } else if let Some(word) = rest.strip_prefix(":+") {
            if filled.is_some() { nested(word) } else { Ok(String::new()) }
        } else if let Some(word) = rest.strip_prefix('+') {
            if value.is_some() { nested(word) } else { Ok(String::new()) }
        } else if rest.starts_with(":?") || rest.starts_with('?') {
            filled.ok_or_else(dynamic)
        } else {
            Err(dynamic())
        }
    }

    /// `$(...)` of the few commands that scripts use to find their own folder.
    fn output(&self, text: &str, line: usize) -> Result<String, Stop> {
        let dynamic = || Stop::Dynamic(format!("{} line {line}: `$({text})`", self.zero));
        let mut commands: Vec<Vec<Word>> = vec![Vec::new()];
        for token in lex(text)? {
            match token.kind {
                TokenKind::Word(word) => commands.last_mut().map(|words| words.push(word)).unwrap_or_default(),
                TokenKind::And | TokenKind::End => commands.push(Vec::new()),
                TokenKind::Output(_) => {}
                TokenKind::Or | TokenKind::Pipe | TokenKind::Input(_) => return Err(dynamic()),
            }
        }
        commands.retain(|words| !words.is_empty());
        let mut cwd = self.cwd.clone();
        let mut printed = String::new();
        for words in &commands {
            let mut fields = Vec::new();
            for word in words {
                self.expand(word, line, &mut fields)?;
            }
            let args: Vec<&str> = fields.iter().skip(1).map(String::as_str).filter(|arg| *arg != "--").collect();
            match (fields.first().map(String::as_str), args.as_slice()) {
                (Some("cd"), [folder]) => cwd = globs::normal(&cwd.join(folder)),
                (Some("pwd"), [] | ["-P" | "-L"]) => printed = cwd.to_string_lossy().into_owned(),
                (Some("dirname"), [path]) => {
                    printed = match path.trim_end_matches('/').rsplit_once('/') {
                        Some(("", _)) => "/".to_owned(),
                        Some((folder, _)) => folder.to_owned(),
                        None => ".".to_owned(),
                    };
                }
                (Some("basename"), [path]) => printed = path.trim_end_matches('/').rsplit('/').next().unwrap_or(path).to_owned(),
                (Some("realpath"), [path]) | (Some("readlink"), ["-f", path]) => {
                    let path = globs::normal(&cwd.join(path));
                    printed = path.canonicalize().unwrap_or(path).to_string_lossy().into_owned();
                }
                (Some("echo"), args) if args.first().is_none_or(|arg| !arg.starts_with('-')) => printed = args.join(" "),
                _ => return Err(dynamic()),
            }
        }
        Ok(printed)
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

impl Field {
    fn quote(&mut self, text: &str) {
        self.text.push_str(text);
        self.pattern.push_str(&globset::escape(text));
        self.quoted = true;
    }

    fn plain(&mut self, text: &str) {
        self.text.push_str(text);
        // Braces mean nothing to a shell at this point, but do to the matcher.
        self.pattern.push_str(&text.replace('{', "[{]").replace('}', "[}]"));
        self.wild |= text.contains(['*', '?', '[']);
    }
}

fn last(list: &mut Vec<Field>) -> &mut Field {
    if list.is_empty() {
        list.push(Field::default());
    }
    let at = list.len() - 1;
    &mut list[at]
}

/// Adds an expansion: whole between quotes, else split at blanks.
fn add(list: &mut Vec<Field>, value: &str, quotes: Quotes) {
    if quotes == Quotes::Inside {
        last(list).quote(value);
        return;
    }
    if value.starts_with(char::is_whitespace) && !last(list).text.is_empty() {
        list.push(Field::default());
    }
    for (at, piece) in value.split_whitespace().enumerate() {
        if at > 0 {
            list.push(Field::default());
        }
        last(list).plain(piece);
    }
    if value.ends_with(char::is_whitespace) && !value.trim().is_empty() {
        list.push(Field::default());
    }
}

/// The paths that a pattern with wildcards stands for, as a shell lists them; none when nothing fits.
fn wildcards(cwd: &Path, pattern: &str) -> Vec<String> {
    let absolute = pattern.starts_with('/');
    let mut found: Vec<String> = vec![if absolute { "/".to_owned() } else { String::new() }];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        let Ok(glob) = globset::GlobBuilder::new(part).literal_separator(true).build() else { return Vec::new() };
        let matcher = glob.compile_matcher();
        let mut next = Vec::new();
        for base in found {
            let folder = if base.is_empty() { cwd.to_path_buf() } else { cwd.join(&base) };
            let Ok(entries) = std::fs::read_dir(folder) else { continue };
            let names = entries.filter_map(|entry| entry.ok()).filter_map(|entry| entry.file_name().into_string().ok());
            let names = names.chain([".".to_owned(), "..".to_owned()].into_iter().filter(|name| name == part));
            let hidden = part.starts_with('.');
            let fitting = names.filter(|name| (hidden || !name.starts_with('.')) && matcher.is_match(name));
            let joined = fitting.map(|name| match base.as_str() {
                "" => name,
                base if base.ends_with('/') => format!("{base}{name}"),
                base => format!("{base}/{name}"),
            });
            next.extend(joined);
        }
        found = next;
    }
    found.sort();
    found
}
