//! Owns expansion: from words as written to the fields that a command gets.
//!
//! Invariant: as in `script`: what is not known for sure ends the reading with the reason.
//! Must not run anything; folders are listed for wildcards.

use std::path::Path;

use super::globs;
use super::script::{Shell, Stop};
use super::shell::{Part, Quotes, TokenKind, Word, lex};

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
    pub(super) fn value(&self, name: &str) -> Option<String> {
        match self.vars.get(name) {
            Some(value) => value.clone(),
            None => self.surroundings.vars.get(name).cloned(),
        }
    }

    /// A word as one string, as in an assignment.
    pub(super) fn one(&self, word: &Word, line: usize) -> Result<String, Stop> {
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
    pub(super) fn expand(&self, word: &Word, line: usize, fields: &mut Vec<String>) -> Result<(), Stop> {
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
