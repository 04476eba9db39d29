//! Owns one entry: the folder with `entry.yaml` and a program, read and with its expectation rewritten.
//!
//! Invariant: an `Entry` is complete and valid, and its program lies in its folder; rewriting changes only what is expected.
//! Must not run anything.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use pep440_rs::{Version, VersionSpecifiers};
use serde::{Deserialize, Serialize};

use super::CorpusError;
use crate::case::quantity::parse_duration;
use crate::case::{self, Program as CaseProgram, Resolved};
use crate::environment::{Surroundings, Wanted};
use crate::signature::{Match, Signature};
use crate::trial::{Device, Pins, Place, ProgramSpec};
use crate::yaml::{self, Error, Node};

/// The file that makes a folder an entry.
pub(super) const FILE: &str = "entry.yaml";
/// The keys of that file.
const KEYS: [&str; 9] = ["expected", "signature", "match", "device", "torch", "timeout", "data", "versions", "seen"];

/// What an entry is expected to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Expected {
    /// It fails as its signature says.
    Crashes,
    /// It comes to its end.
    Fixed,
}

/// One entry of a corpus.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The path as it was typed, down to the entry.
    pub name: String,
    /// Its folder, absolute.
    pub folder: PathBuf,
    /// What it is expected to do where nothing else is said.
    pub expected: Expected,
    /// What it is expected to do with single versions of torch.
    pub versions: BTreeMap<String, Expected>,
    /// The failure.
    pub signature: Signature,
    /// How alike another failure must be.
    pub level: Match,
    /// Where it was seen.
    pub device: Device,
    /// Versions of torch that it can run with; `None` is any.
    pub torch: Option<VersionSpecifiers>,
    /// Time for one run.
    pub timeout: Option<Duration>,
    /// Files that must be there, relative to the folder.
    pub data: Vec<String>,
    /// Its program.
    pub place: Place,
    /// The file to point at, relative to the folder.
    pub file: String,
    /// Options of the interpreter.
    pub options: Vec<String>,
    /// What is pinned.
    pub pins: Pins,
}

impl Expected {
    /// The word in `entry.yaml`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Crashes => "crashes",
            Self::Fixed => "fixed",
        }
    }

    fn read(node: &Node) -> Result<Self, Error> {
        Ok([Self::Crashes, Self::Fixed][node.choice(&["crashes", "fixed"])?])
    }
}

/// `signature:` of the file; the other keys are read with their lines.
#[derive(Deserialize)]
struct Identity {
    signature: Signature,
}

impl Entry {
    /// Reads an entry; messages name it as `name`.
    ///
    /// # Errors
    /// When a file is missing or wrong; the error names file, line and key.
    pub fn read(folder: &Path, name: &str, surroundings: &Surroundings) -> Result<Self, Error> {
        let shown = format!("{name}/{FILE}");
        let top = yaml::read(&folder.join(FILE), &shown)?;
        top.mapping(&KEYS)?;
        let expected = top.required("expected").map_err(|error| error.hint("accepted: crashes, fixed"))?;
        let expected = Expected::read(expected)?;
        let mut versions = BTreeMap::new();
        for entry in top.get("versions").map(Node::entries).transpose()?.unwrap_or_default() {
            specifier(&entry.key).map_err(|why| entry.value.error(why))?;
            versions.insert(entry.key.clone(), Expected::read(&entry.value)?);
        }
        top.required("signature")?;
        let text = fs::read_to_string(folder.join(FILE)).map_err(|error| Error::of_file(&shown, error.to_string()))?;
        let Identity { signature } = yaml::typed(&shown, &text)?;
        let level = match top.get("match") {
            Some(node) => [Match::Strict, Match::Normal, Match::Loose][node.choice(&["strict", "normal", "loose"])?],
            None => Match::Normal,
        };
        let device = match top.get("device") {
            Some(node) => [Device::Cuda, Device::Emulated][node.choice(&["cuda", "emulated"])?],
            None => Device::Emulated,
        };
        let torch = match top.get("torch") {
            Some(node) if !node.is_null() => Some(
                VersionSpecifiers::from_str(&node.raw)
                    .map_err(|_| node.expected("versions of torch such as \"==2.11.0\" or \">=2.0, <2.12\""))?,
            ),
            _ => None,
        };
        let timeout = match top.get("timeout") {
            Some(node) if !node.is_null() => Some(parse_duration(&node.raw).map_err(|why| node.error(why))?),
            _ => None,
        };
        let data = match top.get("data") {
            Some(node) => node.list()?.iter().map(|item| item.text().map(str::to_owned)).collect::<Result<_, _>>()?,
            None => Vec::new(),
        };
        let program = program(folder, name, surroundings)?;
        Ok(Self {
            name: name.to_owned(),
            folder: folder.to_owned(),
            expected,
            versions,
            signature,
            level,
            device,
            torch,
            timeout: timeout.or(program.timeout),
            data,
            place: program.place,
            file: program.file,
            options: program.options,
            pins: program.pins,
        })
    }

    /// What is expected with a version of torch.
    pub fn expected_with(&self, torch: &str) -> Expected {
        let here = Version::from_str(torch).ok();
        let fits = |text: &String| {
            let Some(here) = &here else { return text == torch };
            specifier(text).is_ok_and(|specifier| specifier.contains(here))
        };
        self.versions.iter().find(|(text, _)| fits(text)).map_or(self.expected, |(_, expected)| *expected)
    }

    /// Why this version of torch is none of those that the entry names, if it is not.
    pub fn refuses(&self, torch: &str) -> Option<String> {
        let wanted = self.torch.as_ref()?;
        match Version::from_str(torch) {
            Ok(version) if wanted.contains(&version) => None,
            _ => Some(format!("torch {torch} here, the entry wants {wanted}")),
        }
    }

    /// Writes what is expected, for one version of torch or in general.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn expect(&self, expected: Expected, of: &Whose<'_>) -> Result<(), CorpusError> {
        let path = self.folder.join(FILE);
        let fail = |source| CorpusError::File { path: path.clone(), source };
        let text = fs::read_to_string(&path).map_err(fail)?;
        let named = match of {
            Whose::Torch(version) => Some(public(version)),
            // A version that has a line of its own keeps it.
            Whose::All(version) => {
                let here = Version::from_str(version).ok();
                let own = |text: &&String| {
                    here.as_ref().is_some_and(|here| specifier(text).is_ok_and(|one| one.contains(here)))
                };
                self.versions.keys().find(own).cloned()
            }
        };
        let text = match named {
            Some(version) => with_version(&text, &version, expected),
            None => with_expected(&text, expected),
        };
        let mut fresh = tempfile::NamedTempFile::new_in(&self.folder).map_err(fail)?;
        fresh.write_all(text.as_bytes()).map_err(fail)?;
        if let Ok(data) = fs::metadata(&path) {
            fs::set_permissions(fresh.path(), data.permissions()).map_err(fail)?;
        }
        fresh.persist(&path).map_err(|error| fail(error.error))?;
        Ok(())
    }
}

/// For which version of torch an expectation is written.
#[derive(Clone, Copy, Debug)]
pub enum Whose<'a> {
    /// For this one alone.
    Torch(&'a str),
    /// For all that have no line of their own; this one was run.
    All(&'a str),
}

/// A version without its local part: `2.11.0+cu130` is `2.11.0`.
fn public(version: &str) -> String {
    version.split('+').next().unwrap_or(version).to_owned()
}

/// A key of `versions`: a version, or versions as pip writes them.
fn specifier(text: &str) -> Result<VersionSpecifiers, String> {
    let wrong = |_| format!("`{text}` is no version of torch such as 2.11.0");
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        return VersionSpecifiers::from_str(&format!("=={text}")).map_err(wrong);
    }
    VersionSpecifiers::from_str(text).map_err(wrong)
}

/// The text with another value of `expected`; comments stay.
fn with_expected(text: &str, expected: Expected) -> String {
    lines(text, |line| {
        let rest = line.strip_prefix("expected:")?.trim_start();
        let comment = rest.find('#').map_or("", |at| &rest[at..]);
        let space = if comment.is_empty() { "" } else { "  " };
        Some(format!("expected: {}{space}{comment}", expected.word()))
    })
}

/// The text with another value, or a new line, of one version.
fn with_version(text: &str, version: &str, expected: Expected) -> String {
    let line = format!("  \"{version}\": {}", expected.word());
    let mut inside = false;
    let mut found = false;
    let changed = lines(text, |one| {
        if !one.starts_with([' ', '#']) && !one.trim().is_empty() {
            inside = one.starts_with("versions:");
        }
        let key = one.trim_start().split(':').next().unwrap_or_default().trim_matches(['"', '\'']);
        let hit = inside && one.starts_with(' ') && key == version;
        found |= hit;
        hit.then(|| line.clone())
    });
    if found {
        return changed;
    }
    if changed.lines().any(|one| one.trim_end() == "versions:") {
        return lines(&changed, |one| (one.trim_end() == "versions:").then(|| format!("versions:\n{line}")));
    }
    format!("{}versions:\n{line}\n", changed)
}

fn lines(text: &str, mut change: impl FnMut(&str) -> Option<String>) -> String {
    text.lines().map(|line| change(line).unwrap_or_else(|| line.to_owned()) + "\n").collect()
}

struct Start {
    place: Place,
    file: String,
    options: Vec<String>,
    pins: Pins,
    timeout: Option<Duration>,
}

/// The program of an entry: `repro.py`, or what its `crash.yaml` says.
fn program(folder: &Path, name: &str, surroundings: &Surroundings) -> Result<Start, Error> {
    let written = folder.join("crash.yaml");
    let shown = if written.is_file() { format!("{name}/crash.yaml") } else { format!("{name}/repro.py") };
    let wrong = |message: &str| Error::of_file(&shown, message);
    let (case, pins) = if written.is_file() {
        let case = case::read(&written)?;
        let pins = case.setting.pins;
        let pins = Pins {
            launch_blocking: pins.launch_blocking,
            seed: pins.seed.map(u64::from),
            num_workers: pins.num_workers,
        };
        (case, pins)
    } else if folder.join("repro.py").is_file() {
        (case::parse("command: python repro.py\n", &shown, folder)?, Pins::NONE)
    } else {
        return Err(wrong("no such file").hint("an entry holds repro.py, or crash.yaml with the program that it names"));
    };
    if case.setting.python != Wanted::Default {
        return Err(wrong("python: an entry names no interpreter")
            .hint("`--python PATH` or `--with torch==2.11.0` of `corpus run` says which one"));
    }
    if case.sandbox.network || !case.sandbox.write.is_empty() {
        return Err(wrong("sandbox: an entry runs without network and writes nowhere"));
    }
    let invocation = match case::resolve(&case, surroundings)? {
        Resolved::Static(invocation) => invocation,
        Resolved::Spy(_) => return Err(wrong("command: only running it would tell what it starts")),
    };
    let root = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    if !invocation.project.starts_with(&root) {
        return Err(wrong("command: the program does not lie in the entry"));
    }
    if !invocation.unset.is_empty() {
        return Err(wrong("command: an entry takes no variables away"));
    }
    let (kind, target) = match &invocation.program {
        CaseProgram::Script(path) => ("script", path.clone()),
        CaseProgram::Module(name) => ("module", name.clone()),
    };
    let script = invocation.project.join(&invocation.workdir).join(&target);
    let file = script.canonicalize().ok().and_then(|path| path.strip_prefix(&root).ok().map(Path::to_path_buf));
    let mut env: Vec<(String, String)> = case.setting.env.into_iter().collect();
    env.extend(invocation.env);
    Ok(Start {
        file: file.map_or_else(|| FILE.to_owned(), |path| path.to_string_lossy().into_owned()),
        place: Place {
            project: invocation.project,
            workdir: invocation.workdir,
            program: ProgramSpec { kind: kind.to_owned(), target, argv: invocation.argv },
            env,
        },
        options: invocation.options,
        pins,
        timeout: case.limits.timeout,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expectation_is_rewritten_and_comments_stay() {
        let text = "# a crash\nexpected: crashes   # since March\ndevice: emulated\n";
        let fixed = with_expected(text, Expected::Fixed);
        assert_eq!(fixed, "# a crash\nexpected: fixed  # since March\ndevice: emulated\n");
        let one = with_version(&fixed, "1.13.1", Expected::Crashes);
        assert_eq!(one, format!("{fixed}versions:\n  \"1.13.1\": crashes\n"));
        let two = with_version(&one, "2.0", Expected::Fixed);
        assert_eq!(two, format!("{fixed}versions:\n  \"2.0\": fixed\n  \"1.13.1\": crashes\n"));
        let again = with_version(&two, "1.13.1", Expected::Fixed);
        assert_eq!(again, format!("{fixed}versions:\n  \"2.0\": fixed\n  \"1.13.1\": fixed\n"));
    }

    #[test]
    fn a_version_fits_whatever_it_was_built_for() {
        assert!(specifier("2.11.0").unwrap().contains(&Version::from_str("2.11.0+cu130").unwrap()));
        assert!(specifier(">=2.0,<3").unwrap().contains(&Version::from_str("2.11.0").unwrap()));
        assert!(!specifier("1.13.1").unwrap().contains(&Version::from_str("1.13.0a0").unwrap()));
        assert!(specifier("new").is_err());
        assert_eq!(public("2.11.0+cu130"), "2.11.0");
    }
}
