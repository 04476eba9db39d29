//! Owns texts made of the table of keys: `docs/crash-yaml.md` and the commented `crash.yaml` that `init` writes.
//!
//! Invariant: nothing about a key is said here that the table does not say.
//! Must not write files.

use std::fmt::Write;

use super::schema::{KEYS, Key, Kind};

/// What `init` knows when it writes a `crash.yaml`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Draft {
    /// The command as typed.
    pub command: String,
    /// The interpreter, when it should be written down.
    pub python: Option<String>,
    /// The condition of the assert that was seen.
    pub assertion: Option<String>,
    /// The kernel that was seen.
    pub kernel: Option<String>,
}

impl Draft {
    /// A command from its words, as a shell would be given them. A single word is taken as a shell line.
    pub fn of_words(words: &[String]) -> Draft {
        let command = match words {
            [line] => line.clone(),
            words => {
                // Assignments in front must stay bare to be assignments.
                let assigned = words.iter().take_while(|word| is_assignment(word)).count();
                let mut parts: Vec<String> = words[..assigned]
                    .iter()
                    .filter_map(|word| word.split_once('='))
                    .map(|(name, value)| format!("{name}={}", shell_words::quote(value)))
                    .collect();
                parts.push(shell_words::join(&words[assigned..]));
                parts.join(" ")
            }
        };
        Draft { command, ..Draft::default() }
    }

    /// The text of a `crash.yaml`: what is known, and every other key as a comment with its default.
    pub fn text(&self) -> String {
        let mut text =
            String::from("# A program that dies with a CUDA device-side assert. Only `command` is required.\n\n");
        for key in KEYS {
            let _ = writeln!(text, "# {}", sentence(key));
            match (key.name, &self.python) {
                ("command", _) => {
                    let _ = writeln!(text, "command: {}", scalar(&self.command));
                }
                ("python", Some(python)) => {
                    let _ = writeln!(text, "python: {}", scalar(python));
                }
                ("expect", _) if self.assertion.is_some() || self.kernel.is_some() => {
                    text.push_str("expect:\n");
                    for (name, value) in [("assertion", &self.assertion), ("kernel", &self.kernel)] {
                        if let Some(value) = value {
                            let _ = writeln!(text, "  {name}: {}", scalar(value));
                        }
                    }
                }
                (name, _) => {
                    let _ = writeln!(text, "# {name}: {}", key.default.unwrap_or_default());
                }
            }
        }
        text
    }
}

fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A YAML string: double-quoted unless it is surely read as itself.
fn scalar(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '.')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || " /._-=,+@%()<>".contains(c))
        && !text.ends_with(' ')
        && text.contains([' ', '/', '_'])
        && !text.starts_with("- ");
    if is_plain {
        return text.to_owned();
    }
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(quoted, "\\U{:08x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

fn sentence(key: &Key) -> String {
    let mut words = key.doc.to_owned();
    if let Kind::Mapping(keys) = key.kind {
        let names: Vec<&str> = keys.iter().map(|key| key.name).collect();
        let _ = write!(words, " ({})", names.join(", "));
    }
    words
}

/// The text of `docs/crash-yaml.md`.
pub fn markdown() -> String {
    let mut text = String::from(
        "# crash.yaml\n\n\
         <!-- Written from the table in `src/case/schema.rs`; a test compares them. -->\n\n\
         A case is described by one file. Only `command` is required; unknown keys are refused.\n\
         `workdir` and `python` are relative to the file; every other path is relative to `workdir`, the folder of the project.\n\
         Durations are written `120s`, `30m`, `2h` or `1h30m` (a bare number is seconds), sizes `512MiB` or `16GiB`.\n\
         `reduce schema` prints a JSON schema for editors.\n\
         More on [strategies](strategies.md) and on how failures are compared ([signatures](signatures.md)).\n\n\
         ```yaml\ncommand: python train.py --data data --epochs 3\n```\n",
    );
    for key in KEYS {
        section(&mut text, key, "");
    }
    text.push_str(
        "\n## Commands that are understood\n\n\
         - `python FILE`, `python -m MODULE`, with options of the interpreter (`-u`, `-O`, `-X dev`), by name or by path;\n\
         - `torchrun`, `python -m torch.distributed.run`, `python -m torch.distributed.launch`, `accelerate launch`: \
         one rank alone is run, with the environment that the launcher gives it when it is the only one;\n\
         - `uv run`, `poetry run`: with the environment of that project;\n\
         - a script with `#!`, and shell scripts (`bash train.sh`, `sh -c '...'`, `./train.sh`), which are followed to the Python \
         program that they start last;\n\
         - variables in front (`SEED=1 python train.py`), `env`, `nice`, `timeout`, `time`, `nohup`, and everything that a shell \
         line may hold: `cd src && python train.py 2>&1 | tee log`.\n\n\
         A script with conditions, loops or functions cannot be read for sure. \
         It is run once with stand-ins for Python that note what would be started and start nothing.\n\
         Where that is not wanted, name the Python command itself.\n",
    );
    text
}

fn section(text: &mut String, key: &Key, parent: &str) {
    let name = if parent.is_empty() { key.name.to_owned() } else { format!("{parent}.{}", key.name) };
    let level = if parent.is_empty() { "##" } else { "###" };
    let _ = write!(text, "\n{level} {name}\n\n{}.\n\n", capital(key.doc));
    let _ = writeln!(text, "- accepted: {}", key.kind.accepted());
    match key.default {
        Some(default) => drop(writeln!(text, "- default: `{default}`")),
        None => text.push_str("- required\n"),
    }
    if let Some(supported) = key.supported {
        let list: Vec<String> = supported.iter().map(|value| format!("`{value}`")).collect();
        let _ = writeln!(text, "- supported in this version: {}", list.join(", "));
    }
    let _ = write!(text, "\n```yaml\n{}: {}\n```\n", key.name, key.example);
    for key in nested(&key.kind) {
        section(text, key, &name);
    }
}

fn nested(kind: &Kind) -> &'static [Key] {
    match kind {
        Kind::Mapping(keys) => keys,
        Kind::Either(kinds) => kinds.iter().map(nested).find(|keys| !keys.is_empty()).unwrap_or_default(),
        _ => &[],
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;

    #[test]
    fn whatever_is_written_reads_back_as_it_was() {
        for text in [
            "python x.py",
            "true",
            "3.11",
            "a: b",
            "it's \"x\" \\ # y",
            "- x",
            "x\ty\nz",
            "",
            "null",
            "python x.py ",
            "é",
            "~",
            "/a b",
        ] {
            let node = yaml::parse("x", &format!("key: {}", scalar(text))).unwrap();
            assert_eq!(node.get("key").unwrap().text().unwrap(), text);
        }
    }

    #[test]
    fn words_become_a_line_that_a_shell_reads_the_same_way() {
        let words = ["SEED=a b", "python", "x.py", "--name", "it's", "--x=$y"].map(str::to_owned);
        assert_eq!(Draft::of_words(&words).command, r#"SEED='a b' python x.py --name 'it'\''s' '--x=$y'"#);
        assert_eq!(Draft::of_words(&["A=1 python x.py".to_owned()]).command, "A=1 python x.py");
    }
}
