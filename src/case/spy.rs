//! Owns the recorder for commands that only running can tell: stand-ins for Python that note what they are asked to run.
//!
//! Invariant: a stand-in runs no program of the user; questions to Python (`-c`, `--version`, `-m pip`) go on to the real one.
//! Must not start anything: `process` does, best inside the view of a trial, where the script's own writes are thrown away.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::command::{Meaning, Prefix, understand};
use super::invocation::place;
use super::refusal::Refusal;
use super::{Case, Invocation};
use crate::environment::Surroundings;
use crate::process::Spawn;
use crate::yaml::Error;

/// A plan to run a command with recorders in the place of Python.
#[derive(Debug, Clone)]
pub struct Spy {
    /// What to start.
    pub argv: Vec<String>,
    /// Where, absolute.
    pub workdir: PathBuf,
    /// Variables of the case.
    pub env: BTreeMap<String, String>,
    /// Why reading was not enough, for messages.
    pub reason: String,
}

/// Names that a script may start Python by.
const STANDINS: &[&str] = &[
    "python", "python3", "python3.8", "python3.9", "python3.10", "python3.11", "python3.12", "python3.13", "python3.14", "torchrun", "accelerate",
];

/// Stands in for Python on `PATH`. A record is: working folder, count of words, words, then the environment; all end with NUL.
const STANDIN: &str = r#"#!/bin/sh
# Written by reduce: notes how Python is started, and starts nothing.
name=${0##*/}
ask=
value=
module=
case $name in
python*)
    ask=yes
    for word do
        if [ -n "$module" ]; then
            case $word in pip|venv|virtualenv|ensurepip|site|compileall|build|json.tool) ;; *) ask= ;; esac
            break
        fi
        if [ -n "$value" ]; then value=; continue; fi
        case $word in
        --version|--help|-) break ;;
        --*) value=yes ;;
        -W|-X) value=yes ;;
        -[WX]*) ;;
        -*c*) break ;;
        -*V*|-h|-\?) break ;;
        -*m) module=yes ;;
        -*m*) ask=; break ;;
        -*) ;;
        *) ask=; break ;;
        esac
    done ;;
esac
if [ -n "$ask" ]; then
    PATH=${PATH#"$REDUCE_SPY/bin:"}
    export PATH
    exec "$name" "$@"
fi
at=0
while ! mkdir "$REDUCE_SPY/records/$at" 2>/dev/null; do
    at=$((at + 1))
    [ "$at" -lt 10000 ] || exit 1
done
{
    printf '%s\0' "$PWD" $(($# + 1)) "$name" "$@"
    cat "/proc/$$/environ"
} >"$REDUCE_SPY/records/$at/record"
exit 0
"#;

/// Stands in for Python wherever it is started by its path, or through `uv run` and the like: a start-up file.
const STARTUP: &str = r#"# Written by reduce: notes how Python is started, and starts nothing.
import os, sys


def _note():
    folder = os.environ.get("REDUCE_SPY")
    if not folder:
        return
    with open("/proc/self/cmdline", "rb") as file:
        words = file.read().split(b"\0")[:-1]
    rest = words[1:]
    while rest and rest[0].startswith(b"-"):
        word = rest.pop(0)
        if word[:2] in (b"-W", b"-X"):
            if len(word) == 2:
                del rest[:1]
            continue
        if word in (b"-", b"--version", b"--help", b"-h") or (word[:2] != b"--" and (b"c" in word or b"V" in word)):
            return
        if word[:2] != b"--" and b"m" in word:
            name = word.split(b"m", 1)[1] or (rest[0] if rest else b"")
            if name in (b"pip", b"venv", b"virtualenv", b"ensurepip", b"site", b"compileall", b"build", b"json.tool"):
                return
            rest = [name]
            break
    if not rest:
        return
    if os.path.basename(rest[0]) in (b"uv", b"poetry", b"pip", b"conda", b"accelerate"):
        return
    words[0] = os.fsencode(sys.executable)
    with open("/proc/self/environ", "rb") as file:
        env = file.read()
    for at in range(10000):
        record = os.path.join(folder, "records", str(at))
        try:
            os.mkdir(record)
        except FileExistsError:
            continue
        with open(os.path.join(record, "record"), "wb") as file:
            file.write(b"\0".join([os.fsencode(os.getcwd()), b"%d" % len(words), *words]) + b"\0" + env)
        break
    os._exit(0)


_note()
"#;

impl Spy {
    /// A plan for the command of a case.
    pub(super) fn new(case: &Case, surroundings: &Surroundings, reason: String) -> Spy {
        let shell = if surroundings.which("bash").is_some() { "bash" } else { "sh" };
        let argv = vec![shell.to_owned(), "-c".to_owned(), case.command.text.clone()];
        Spy { argv, workdir: case.workdir.clone(), env: case.setting.env.clone(), reason }
    }

    /// Writes the recorders into `folder` (absolute, empty, writable for the script) and says what to start.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn prepare(&self, folder: &Path, surroundings: &Surroundings) -> std::io::Result<Spawn> {
        use std::os::unix::fs::PermissionsExt;
        for name in ["bin", "start", "records"] {
            std::fs::create_dir_all(folder.join(name))?;
        }
        for name in STANDINS {
            let path = folder.join("bin").join(name);
            std::fs::write(&path, STANDIN)?;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
        }
        std::fs::write(folder.join("start/sitecustomize.py"), STARTUP)?;
        let surroundings = surroundings.with(&self.env);
        let in_front = |name: &str, part: &str| {
            let rest = surroundings.var(name).map(|value| format!(":{value}")).unwrap_or_default();
            (name.to_owned(), format!("{}{rest}", folder.join(part).display()))
        };
        let mut spawn = Spawn::new(&self.argv);
        spawn.cwd = Some(self.workdir.clone());
        spawn.env = self.env.clone().into_iter().collect();
        spawn.env.extend([
            in_front("PATH", "bin"),
            in_front("PYTHONPATH", "start"),
            ("REDUCE_SPY".to_owned(), folder.to_string_lossy().into_owned()),
        ]);
        Ok(spawn)
    }

    /// Reads what the recorders noted in `folder`: the Python program that was started last.
    ///
    /// # Errors
    /// When none was started, or it is not one that can be reduced.
    pub fn read(&self, folder: &Path, case: &Case, surroundings: &Surroundings) -> Result<Invocation, Error> {
        let surroundings = &surroundings.with(&case.setting.env);
        let refused = |refusal: Refusal| case.command.error(&refusal);
        let mut last = None;
        for at in 0.. {
            // A record without its file belongs to a stand-in that was killed.
            let record = folder.join("records").join(at.to_string());
            if !record.is_dir() {
                break;
            }
            let Ok(bytes) = std::fs::read(record.join("record")) else { continue };
            if let Some(record) = Record::parse(&bytes) {
                let prefix = record.prefix(folder, surroundings);
                let path = prefix.env.get("PATH").map_or_else(|| surroundings.var("PATH").unwrap_or_default(), String::as_str).to_owned();
                match understand(&record.words, prefix, &path, surroundings) {
                    Ok(Meaning::Python(found)) => last = Some(Ok(found)),
                    Ok(Meaning::Query(_) | Meaning::Script(_)) => {}
                    Err(refusal) => last = Some(Err(refusal)),
                }
            }
        }
        match last {
            Some(Ok(found)) => place(*found, case).map_err(refused),
            Some(Err(refusal)) => Err(refused(refusal)),
            None => Err(refused(Refusal::NotPython(case.command.text.clone())).hint(format!("it was run, since reading it was not enough: {}", self.reason))),
        }
    }
}

/// One start of Python.
struct Record {
    cwd: PathBuf,
    words: Vec<String>,
    env: BTreeMap<String, String>,
}

impl Record {
    fn parse(bytes: &[u8]) -> Option<Record> {
        let mut parts = bytes.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into_owned());
        let cwd = PathBuf::from(parts.next()?);
        let count: usize = parts.next()?.parse().ok()?;
        let words: Vec<String> = parts.by_ref().take(count).collect();
        let env = parts.filter_map(|part| part.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())));
        (words.len() == count).then(|| Record { cwd, words, env: env.collect() })
    }

    /// What the script changed, without what we and the shell add.
    fn prefix(&self, folder: &Path, surroundings: &Surroundings) -> Prefix {
        let ours = |name: &str| matches!(name, "REDUCE_SPY" | "PWD" | "OLDPWD" | "SHLVL" | "_");
        let mut prefix = Prefix::new(self.cwd.clone());
        for (name, value) in self.env.iter().filter(|(name, _)| !ours(name)) {
            let cut = |part: &str| {
                let part = folder.join(part).to_string_lossy().into_owned();
                let rest: Vec<&str> = value.split(':').filter(|entry| *entry != part).collect();
                rest.join(":")
            };
            let value = match name.as_str() {
                "PATH" => cut("bin"),
                "PYTHONPATH" => cut("start"),
                _ => value.clone(),
            };
            if surroundings.vars.get(name) != Some(&value) && !(name == "PYTHONPATH" && value.is_empty()) {
                prefix.env.insert(name.clone(), value);
            }
        }
        let gone = surroundings.vars.keys().filter(|name| !ours(name) && !self.env.contains_key(*name));
        prefix.unset = gone.cloned().collect::<BTreeSet<_>>();
        prefix
    }
}
