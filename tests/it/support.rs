//! What the whole-program tests share: interpreters, copies of cases, runs of the binary.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use walkdir::WalkDir;

/// The binary under test.
pub(crate) const REDUCE: &str = env!("CARGO_BIN_EXE_reduce");

/// The repository.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// An interpreter with the torch of today.
pub(crate) fn new_python() -> PathBuf {
    python("REDUCE_TEST_PYTHON", || {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        cache.unwrap_or_else(|| home.join(".cache")).join("reduce/test/torch-2.11.0/bin/python")
    })
}

/// An interpreter with an old torch.
pub(crate) fn old_python() -> PathBuf {
    python("REDUCE_TEST_PYTHON_OLD", || PathBuf::from("/usr/bin/python3"))
}

fn python(variable: &str, default: impl Fn() -> PathBuf) -> PathBuf {
    let path = std::env::var_os(variable).map_or_else(default, PathBuf::from);
    assert!(path.exists(), "{} is not there: run tests/run, which installs it, or set {variable}", path.display());
    path
}

/// A case of the corpus in a folder of its own, with an interpreter named in its `crash.yaml`.
pub(crate) struct Copy {
    /// Goes with the copy.
    pub folder: tempfile::TempDir,
    /// The copied case.
    pub case: PathBuf,
}

impl Copy {
    /// Copies a case.
    pub(crate) fn of(name: &str, python: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let from = root().join("corpus").join(name);
        let case = folder.path().join(name);
        for entry in WalkDir::new(&from).into_iter().map(Result::unwrap) {
            let inside = entry.path().strip_prefix(&from).unwrap();
            let skip = inside.components().any(|part| {
                let part = part.as_os_str().to_string_lossy();
                part == "__pycache__" || part.ends_with(".reduced")
            });
            let to = case.join(inside);
            if skip {
                continue;
            }
            if entry.file_type().is_dir() {
                fs::create_dir_all(&to).unwrap();
            } else {
                fs::copy(entry.path(), &to).unwrap();
            }
        }
        let yaml = case.join("crash.yaml");
        let mut text = fs::read_to_string(&yaml).unwrap();
        text += &format!("\npython: {}\n", python.display());
        fs::write(&yaml, text).unwrap();
        Self { folder, case }
    }

    /// The bundle folder of its runs.
    pub(crate) fn out(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.reduced"))
    }

    /// The main job on it.
    pub(crate) fn reduce(&self, out: &Path, more: &[&str]) -> Command {
        let mut command = reduce();
        command.arg(self.case.join("crash.yaml")).arg("--out").arg(out).args(["--device", "emulated", "-v"]).args(more);
        command
    }
}

/// The binary with an environment that does not lead it elsewhere.
pub(crate) fn reduce() -> Command {
    let mut command = Command::new(REDUCE);
    command.env_remove("VIRTUAL_ENV").env_remove("PYTHONPATH").env_remove("CUDA_LAUNCH_BLOCKING").stdin(Stdio::null());
    command
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> Output {
    command.output().unwrap()
}

/// Both outputs of a run, for messages.
pub(crate) fn text(output: &Output) -> String {
    format!(
        "status {:?}\n{}\n{}",
        output.status.code(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// `report.json` of a bundle.
pub(crate) fn report(out: &Path) -> Value {
    serde_json::from_slice(&fs::read(out.join("report.json")).unwrap()).unwrap()
}

/// Every file below a folder with its content, modification time and mode; to see that nothing was touched.
pub(crate) fn snapshot(folder: &Path) -> Vec<(String, Vec<u8>, i64, u32)> {
    use std::os::unix::fs::MetadataExt;
    let mut files: Vec<_> = WalkDir::new(folder)
        .into_iter()
        .map(Result::unwrap)
        .filter(|entry| entry.file_type().is_file())
        .map(|entry| {
            let data = entry.metadata().unwrap();
            let path = entry.path().strip_prefix(folder).unwrap().to_string_lossy().into_owned();
            (path, fs::read(entry.path()).unwrap(), data.mtime(), data.mode())
        })
        .collect();
    files.sort();
    files
}

/// What a user gets as files, in one list: `source/`, `repro.py` without its header of versions, `source.diff`.
pub(crate) fn result(out: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> =
        snapshot(&out.join("source")).into_iter().map(|(path, bytes, _, _)| (path, bytes)).collect();
    for name in ["repro.py", "source.diff", "run.sh"] {
        files.push((name.to_owned(), fs::read(out.join(name)).unwrap_or_default()));
    }
    files
}
