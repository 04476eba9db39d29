//! Owns reading `crash.yaml` into a `Case`.
//!
//! Invariant: what it returns is valid and complete; whatever is wrong names file, line and key.
//! Must not run anything nor look at the process environment.

use std::path::{Path, PathBuf};

use super::globs::{GlobError, Globs, normal};
use super::quantity::{parse_duration, parse_size};
use super::schema::{self, value};
use super::{Case, CommandLine, Device, Expect, Limits, Pins, Sandbox, Setting};
use crate::environment::{Requirements, Wanted};
use crate::signature::Match;
use crate::yaml::{self, Error, Node, Value};

/// Reads a case from a file, which messages name as it was given.
pub fn read(file: &Path) -> Result<Case, Error> {
    let shown = file.to_string_lossy().into_owned();
    let top = yaml::read(file, &shown)?;
    let folder = std::path::absolute(file).ok().and_then(|path| path.parent().map(Path::to_path_buf));
    let folder = folder.and_then(|folder| folder.canonicalize().ok());
    let folder = folder.ok_or_else(|| Error::of_file(&shown, "its folder cannot be found"))?;
    from_node(&top, &shown, &folder)
}

/// Reads a case from text, as if it stood in `folder` (absolute).
pub fn parse(text: &str, shown: &str, folder: &Path) -> Result<Case, Error> {
    from_node(&yaml::parse(shown, text)?, shown, folder)
}

fn from_node(top: &Node, shown: &str, folder: &Path) -> Result<Case, Error> {
    schema::check(top)?;
    let workdir = value(top, &["workdir"]);
    let folder_of_work = normal(&folder.join(workdir.text()?));
    let absolute = match folder_of_work.canonicalize() {
        Ok(path) if path.is_dir() => path,
        Ok(_) => return Err(workdir.error(format!("not a folder: {}", workdir.raw))),
        Err(_) => return Err(workdir.error(format!("no such folder: {}", workdir.raw))),
    };
    let command = value(top, &["command"]);
    Ok(Case {
        shown: shown.to_owned(),
        folder: folder.to_path_buf(),
        command: CommandLine { text: command.text()?.trim().to_owned(), shown: shown.to_owned(), line: Some(command.line()) },
        sources: globs(&value(top, &["sources"]), &absolute, Absent::Refused)?,
        data: globs(&value(top, &["data"]), &absolute, Absent::Refused)?,
        keep: globs(&value(top, &["keep"]), &absolute, Absent::Accepted)?.unwrap_or_default(),
        expect: expect(top)?,
        setting: Setting {
            python: python(&value(top, &["python"]), folder)?,
            env: value(top, &["env"]).entries()?.iter().map(|entry| (entry.key.clone(), entry.value.raw.clone())).collect(),
            device: [Device::Auto, Device::Cuda, Device::Emulated][value(top, &["device"]).choice(&["auto", "cuda", "emulated"])?],
            gpus: value(top, &["gpus"]).list()?.iter().map(number).collect::<Result<_, _>>()?,
            pins: Pins {
                launch_blocking: value(top, &["launch_blocking"]).boolean()?,
                seed: optional(&value(top, &["seed"]), number)?,
                num_workers: optional(&value(top, &["num_workers"]), number)?,
            },
        },
        sandbox: sandbox(top, &absolute)?,
        limits: Limits {
            time: optional(&value(top, &["limits", "time"]), |node| parse_duration(&node.raw).map_err(|text| node.error(text)))?,
            runs: optional(&value(top, &["limits", "runs"]), number)?.map(u64::from),
            memory: optional(&value(top, &["limits", "memory"]), |node| parse_size(&node.raw).map_err(|text| node.error(text)))?,
            timeout: optional(&value(top, &["timeout"]), |node| parse_duration(&node.raw).map_err(|text| node.error(text)))?,
        },
        jobs: match value(top, &["jobs"]) {
            node if matches!(node.value, Value::Text(_)) => None,
            node => Some(number(&node)?),
        },
        strategy: value(top, &["strategy"]).text()?.to_owned(),
        workdir: absolute,
    })
}

fn number(node: &Node) -> Result<u32, Error> {
    let value = node.integer(0, u32::MAX.into())?;
    u32::try_from(value).map_err(|_| node.expected("a whole number"))
}

fn optional<T>(node: &Node, read: impl Fn(&Node) -> Result<T, Error>) -> Result<Option<T>, Error> {
    if node.is_null() { Ok(None) } else { read(node).map(Some) }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Absent {
    Refused,
    Accepted,
}

fn globs(node: &Node, workdir: &Path, absent: Absent) -> Result<Option<Globs>, Error> {
    if node.is_null() {
        return Ok(None);
    }
    let items = node.list()?;
    let mut patterns = Vec::new();
    for item in items {
        patterns.push(item.text()?.to_owned());
        // Each alone first, so that the message names its line.
        let one = Globs::new(workdir, &patterns[patterns.len() - 1..]).map_err(|error| item.error(error.to_string()))?;
        if absent == Absent::Refused {
            one.patterns().iter().try_for_each(|pattern| one.check(pattern)).map_err(|error| refused(item, &error, workdir))?;
        }
    }
    Globs::new(workdir, &patterns).map(Some).map_err(|error| node.error(error.to_string()))
}

fn refused(item: &Node, error: &GlobError, workdir: &Path) -> Error {
    item.error(error.to_string()).hint(format!("looked for in {}", workdir.display()))
}

fn python(node: &Node, folder: &Path) -> Result<Wanted, Error> {
    match &node.value {
        Value::Null => Ok(Wanted::Default),
        Value::Text(text) => {
            // Not canonical: a virtual environment is known by the path of its link.
            let path = normal(&folder.join(text));
            if path.is_file() {
                Ok(Wanted::Path(path))
            } else if path.join("bin/python").is_file() {
                Ok(Wanted::Path(path.join("bin/python")))
            } else {
                Err(node
                    .error(format!("no such interpreter: {text}"))
                    .hint(format!("looked for {}", path.display()))
                    .hint("accepted: a path, relative to this file, or a mapping with version and requirements"))
            }
        }
        _ => {
            let version = match node.get("version") {
                Some(version) if !version.is_null() => {
                    let text = version.text()?.trim();
                    let parts: Vec<&str> = text.split('.').collect();
                    if !(2..=3).contains(&parts.len()) || parts.iter().any(|part| part.parse::<u16>().is_err()) {
                        return Err(version.expected("a version such as \"3.11\""));
                    }
                    Some(text.to_owned())
                }
                _ => None,
            };
            let mut packages = Vec::new();
            for item in node.required("requirements")?.list()? {
                let text = item.text()?.trim();
                if text.starts_with("-r") || text.starts_with("-e") || text.starts_with("--requirement") || text.contains('\n') {
                    return Err(item.expected("a package, such as numpy or torch==2.11.0"));
                }
                packages.push(text.to_owned());
            }
            Ok(Wanted::Made(Requirements { version, packages }))
        }
    }
}

fn expect(top: &Node) -> Result<Expect, Error> {
    let text = |key: &str| optional(&value(top, &["expect", key]), |node| node.text().map(|text| text.trim().to_owned()));
    let level = match top.get("expect").and_then(|expect| expect.get("match")) {
        Some(node) => Some([Match::Strict, Match::Normal, Match::Loose][node.choice(&["strict", "normal", "loose"])?]),
        None => None,
    };
    Ok(Expect { assertion: text("assertion")?, kernel: text("kernel")?, level, line: top.get("expect").map(Node::line) })
}

fn sandbox(top: &Node, workdir: &Path) -> Result<Sandbox, Error> {
    let write = value(top, &["sandbox", "write"]);
    let mut paths: Vec<PathBuf> = Vec::new();
    for item in write.list()? {
        let path = normal(&workdir.join(item.text()?));
        if !path.exists() {
            return Err(item.error(format!("no such file or folder: {}", item.raw)).hint(format!("looked for {}", path.display())));
        }
        paths.push(path);
    }
    Ok(Sandbox { network: value(top, &["sandbox", "network"]).boolean()?, write: paths })
}
