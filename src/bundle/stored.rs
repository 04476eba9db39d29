//! Owns reading back a bundle that was written before, here or on another machine: its failure, how its program is
//! started, and what was different there.
//!
//! Invariant: what a bundle says of paths never leads out of it; what it does not say is not compared.
//! Must not run anything.

use std::fmt;
use std::fs;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::archive::{self, ArchiveError, Bounds};
use super::json::SCHEMA;
use crate::environment::{Machine, Python};
use crate::signature::Signature;
use crate::trial::Device;

/// A bundle on disk.
#[derive(Debug)]
pub struct Stored {
    /// Its folder.
    pub folder: PathBuf,
    /// The whole of `report.json`.
    pub report: Value,
    /// The failure that it shows.
    pub signature: Signature,
    /// Holds the folder of a bundle that came as a tar file.
    _unpacked: Option<tempfile::TempDir>,
}

/// Why something is no bundle.
#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    /// It is none.
    #[error("{} is not a bundle: {why}", path.display())]
    NotABundle {
        /// What was named.
        path: PathBuf,
        /// What is missing or wrong.
        why: String,
    },
    /// The tar file was refused.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

/// Something that is not here as it was there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What it is.
    pub what: &'static str,
    /// Where the bundle was made.
    pub there: String,
    /// Here.
    pub here: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} there, {} here", self.what, self.there, self.here)
    }
}

impl Stored {
    /// Reads a bundle: a folder, or a tar file of one, which is unpacked for as long as this lives.
    ///
    /// # Errors
    /// When it is no bundle, or a tar file that is refused.
    pub fn read(path: &Path) -> Result<Self, StoredError> {
        if !archive::is_archive(path) || path.is_dir() {
            return Self::of_folder(path, path, None);
        }
        let not = |why: String| StoredError::NotABundle { path: path.to_owned(), why };
        let unpacked = tempfile::Builder::new().prefix("reduce-").tempdir().map_err(|error| not(error.to_string()))?;
        archive::unpack(path, unpacked.path(), Bounds::default())?;
        let folder = top(unpacked.path(), "report.json")
            .ok_or_else(|| not("it holds no folder with a report.json".to_owned()))?;
        Self::of_folder(&folder, path, Some(unpacked))
    }

    fn of_folder(folder: &Path, named: &Path, unpacked: Option<tempfile::TempDir>) -> Result<Self, StoredError> {
        let not = |why: String| StoredError::NotABundle { path: named.to_owned(), why: format!("report.json: {why}") };
        let bytes = fs::read(folder.join("report.json")).map_err(|error| not(error.to_string()))?;
        let report: Value = serde_json::from_slice(&bytes).map_err(|error| not(error.to_string()))?;
        if let Some(other) = report["schema"].as_u64().filter(|version| *version > u64::from(SCHEMA)) {
            return Err(not(format!("schema: {other} is of a later version of this program, which reads {SCHEMA}")));
        }
        let signature = report.get("signature").cloned().unwrap_or_default();
        let signature = serde_json::from_value(signature).map_err(|error| not(format!("signature: {error}")))?;
        let folder = fs::canonicalize(folder).map_err(|error| not(error.to_string()))?;
        if let Some(path) = leads_out(&report["program"]) {
            return Err(not(format!("program: `{path}` leads out of the bundle")));
        }
        Ok(Self { folder, report, signature, _unpacked: unpacked })
    }

    /// Whether `repro.py` is there; else `source/` is what is run.
    pub fn is_alone(&self) -> bool {
        self.folder.join("repro.py").is_file()
    }

    /// Where its program was seen to fail.
    pub fn device(&self) -> Device {
        if self.report["device"] == "cuda" { Device::Cuda } else { Device::Emulated }
    }

    /// What is not here as it was there.
    pub fn differences(&self, python: &Python, device: Device, machine: &Machine) -> Vec<Difference> {
        let Self { report, .. } = self;
        let context = &report["context"];
        let there = |value: &Value| value.as_str().map(str::to_owned);
        let none = || "none".to_owned();
        let torch = python.torch.as_ref();
        let device_name = |device| if device == Device::Cuda { "cuda" } else { "emulated" }.to_owned();
        let mut rows = vec![
            ("torch", there(&report["setting"]["torch"]), torch.map(|torch| torch.version.clone())),
            (
                "CUDA of torch",
                cuda(&context["environment"]["torch"]),
                torch.map(|t| t.cuda.clone().unwrap_or_else(none)),
            ),
            ("Python", there(&report["setting"]["python"]), Some(python.version.clone())),
            ("numpy", there(&context["environment"]["numpy"]), python.numpy.clone()),
            ("device", there(&report["device"]), Some(device_name(device))),
        ];
        // What a program on CPU tensors does has nothing to do with the driver.
        if self.device() == Device::Cuda && device == Device::Cuda {
            rows.push(("driver", there(&context["machine"]["driver"]), machine.driver.clone()));
            let models = context["machine"]["gpus"]
                .as_array()
                .map(|gpus| gpus.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "));
            rows.push(("GPU", models.filter(|text| !text.is_empty()), Some(machine.gpus.join(", "))));
        }
        rows.into_iter()
            .filter_map(|(what, there, here)| Some(Difference { what, there: there?, here: here.unwrap_or_else(none) }))
            .filter(|one| one.there != one.here)
            .collect()
    }
}

/// The version for which a recorded torch was built; a CPU build says so, an unknown one nothing.
fn cuda(torch: &Value) -> Option<String> {
    match torch.get("cuda")? {
        Value::String(version) => Some(version.clone()),
        _ => Some("none".to_owned()),
    }
}

/// The folder that holds a file of that name: the root itself, or the only folder in it.
pub fn top(root: &Path, name: &str) -> Option<PathBuf> {
    if root.join(name).is_file() {
        return Some(root.to_owned());
    }
    let mut folders = fs::read_dir(root).ok()?.flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
    let only = folders.next()?;
    (folders.next().is_none() && only.join(name).is_file()).then_some(only)
}

/// The path of a program that is not below `source/`, if it has one.
fn leads_out(program: &Value) -> Option<String> {
    let workdir = program["workdir"].as_str().unwrap_or_default();
    let target = if program["kind"] == "module" { "" } else { program["target"].as_str().unwrap_or_default() };
    let mut depth = 0_usize;
    for part in Path::new(workdir).components().chain(Path::new(target).components()) {
        depth = match part {
            Component::Normal(_) => depth + 1,
            Component::CurDir => depth,
            Component::ParentDir if depth > 0 => depth - 1,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Some(format!("{workdir}/{target}"));
            }
        };
    }
    None
}

/// The folder of the program of a bundle, and the case that runs it: `repro.py`, or `source/` where there is none.
pub fn case_of(bundle: &Path, report: &Value) -> (PathBuf, String) {
    if bundle.join("repro.py").is_file() {
        return (bundle.to_owned(), "command: python repro.py\n".to_owned());
    }
    // JSON is YAML.
    (bundle.join("source"), source_case(report, ".").to_string())
}

/// The case of `source/`: the program that was run, in the environment and with the pins of its confirmation; its working
/// folder is named from `above`.
pub fn source_case(report: &Value, above: &str) -> Value {
    let program = &report["program"];
    let words = |key: &str| program[key].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    let mut command = vec!["python".to_owned()];
    command.extend(words("options"));
    if program["kind"] == "module" {
        command.push("-m".to_owned());
    }
    command.extend(program["target"].as_str().map(str::to_owned));
    command.extend(words("argv"));
    let setting = &report["setting"];
    let workdir = program["workdir"].as_str().unwrap_or(".");
    let workdir = match (above, workdir) {
        (".", workdir) => workdir.to_owned(),
        (above, ".") => above.to_owned(),
        (above, workdir) => format!("{above}/{workdir}"),
    };
    serde_json::json!({
        "command": command.iter().map(|word| shell_words::quote(word)).collect::<Vec<_>>().join(" "),
        "workdir": workdir,
        "env": program["env"].as_object().cloned().unwrap_or_default(),
        "launch_blocking": setting["launch_blocking"],
        "seed": setting["seed"],
        "num_workers": setting["num_workers"],
    })
}
