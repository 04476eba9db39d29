//! Owns making a virtual environment from requirements, once, in the user's cache.
//!
//! Invariant: an environment without its `made` file is unfinished and is thrown away; the lock is held while making.
//! Must not look into what was installed.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use super::{EnvironmentError, Notice, Requirements, Surroundings, default};
use crate::process::{self, End, Output, Spawn};

/// A torch with its CUDA libraries is gigabytes.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Part of the key: raise it when environments are made otherwise.
const LAYOUT: &str = "1";

/// Makes the environment, or finds it made; returns its interpreter.
pub(super) fn make(
    requirements: &Requirements,
    surroundings: &Surroundings,
    notice: &mut dyn FnMut(Notice),
) -> Result<PathBuf, EnvironmentError> {
    let uv = surroundings.which("uv");
    let base = match &uv {
        Some(_) => None,
        None => Some(base(requirements.version.as_deref(), surroundings)?),
    };
    make_with(requirements, base.as_deref(), Beneath::Nothing, surroundings, notice)
}

/// What is found behind the packages of an environment.
#[derive(Clone, Copy)]
pub(super) enum Beneath<'a> {
    /// Nothing.
    Nothing,
    /// The packages of another interpreter, in these folders.
    Folders(&'a [PathBuf]),
}

/// Where an environment lies, made or not.
pub(super) fn place(
    requirements: &Requirements,
    base: Option<&Path>,
    beneath: Beneath<'_>,
    surroundings: &Surroundings,
) -> PathBuf {
    let mut name = key(requirements, base);
    if let Beneath::Folders(folders) = beneath {
        name = blake3::hash(format!("{name}{folders:?}").as_bytes()).to_hex()[..16].to_owned();
    }
    surroundings.cache().join("environments").join(name)
}

/// The same with this interpreter as the base.
pub(super) fn make_with(
    requirements: &Requirements,
    base: Option<&Path>,
    beneath: Beneath<'_>,
    surroundings: &Surroundings,
    notice: &mut dyn FnMut(Notice),
) -> Result<PathBuf, EnvironmentError> {
    let uv = surroundings.which("uv");
    let parent = surroundings.cache().join("environments");
    let folder = place(requirements, base, beneath, surroundings);
    let python = folder.join("bin/python");
    std::fs::create_dir_all(&parent).map_err(|source| EnvironmentError::Cache { path: parent.clone(), source })?;
    let _lock = lock(&folder.with_extension("lock"), || notice(Notice::Waiting { folder: folder.clone() }))?;
    if folder.join("made").is_file() && python.is_file() {
        return Ok(python);
    }
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|source| EnvironmentError::Cache { path: folder.clone(), source })?;
    }
    notice(Notice::Making { folder: folder.clone(), by: if uv.is_some() { "uv" } else { "pip" } });
    let made = match (&uv, &base) {
        (Some(uv), base) => with_uv(uv, *base, requirements, &folder, surroundings),
        (None, Some(base)) => with_pip(base, requirements, &folder, surroundings),
        (None, None) => Err(EnvironmentError::NotFound("no python3 on PATH".to_owned())),
    };
    let written = made.and_then(|()| lay_over(beneath, &folder)).and_then(|()| {
        let text = format!("{}\n", requirements.packages.join("\n"));
        std::fs::write(folder.join("made"), text)
            .map_err(|source| EnvironmentError::Cache { path: folder.clone(), source })
    });
    match written {
        Ok(()) => Ok(python),
        Err(error) => {
            // A leftover would be thrown away by the next run anyway; it only takes space.
            let _left = std::fs::remove_dir_all(&folder);
            Err(error)
        }
    }
}

fn key(requirements: &Requirements, base: Option<&Path>) -> String {
    let mut hash = blake3::Hasher::new();
    let base = base.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
    let version = requirements.version.clone().unwrap_or_default();
    for part in [LAYOUT, &version, &base].into_iter().chain(requirements.packages.iter().map(String::as_str)) {
        hash.update(part.as_bytes());
        hash.update(b"\0");
    }
    hash.finalize().to_hex()[..16].to_owned()
}

/// Holds a lock file; it goes with the process, however that ends.
fn lock(path: &Path, waiting: impl FnOnce()) -> Result<Flock<File>, EnvironmentError> {
    let fail = |source| EnvironmentError::Cache { path: path.to_path_buf(), source };
    let open = || OpenOptions::new().create(true).append(true).open(path).map_err(fail);
    match Flock::lock(open()?, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => return Ok(lock),
        Err((_, Errno::EWOULDBLOCK)) => waiting(),
        Err((_, errno)) => return Err(fail(errno.into())),
    }
    loop {
        match Flock::lock(open()?, FlockArg::LockExclusive) {
            Ok(lock) => return Ok(lock),
            Err((_, Errno::EINTR)) => {}
            Err((_, errno)) => return Err(fail(errno.into())),
        }
    }
}

/// The interpreter that a virtual environment is made with.
fn base(version: Option<&str>, surroundings: &Surroundings) -> Result<PathBuf, EnvironmentError> {
    let Some(version) = version else { return default(surroundings) };
    let minor = version.splitn(3, '.').take(2).collect::<Vec<_>>().join(".");
    let mut candidates: Vec<PathBuf> = surroundings.which(&format!("python{minor}")).into_iter().collect();
    candidates.extend(pyenv(version, surroundings));
    candidates.extend(default(surroundings));
    for candidate in &candidates {
        if let Ok(python) = super::probe::probe(candidate)
            && (python.version == version || python.version.starts_with(&format!("{version}.")))
        {
            return Ok(candidate.clone());
        }
    }
    Err(EnvironmentError::NotFound(format!("Python {version} is not installed (with uv on PATH it would be fetched)")))
}

/// Interpreters of pyenv that fit, newest first.
fn pyenv(version: &str, surroundings: &Surroundings) -> Vec<PathBuf> {
    let root = match (surroundings.var("PYENV_ROOT"), surroundings.var("HOME")) {
        (Some(root), _) => PathBuf::from(root),
        (None, Some(home)) => Path::new(home).join(".pyenv"),
        (None, None) => return Vec::new(),
    };
    let Ok(entries) = std::fs::read_dir(root.join("versions")) else { return Vec::new() };
    let mut names: Vec<(Vec<u32>, PathBuf)> = entries
        .filter_map(|entry| entry.ok())
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let fits = name == version || name.starts_with(&format!("{version}."));
            let parts = name.split('.').map_while(|part| part.parse().ok()).collect();
            fits.then(|| (parts, entry.path().join("bin/python3")))
        })
        .collect();
    names.sort();
    names.into_iter().rev().map(|(_, path)| path).filter(|path| path.is_file()).collect()
}

/// Lets packages that are not in the environment be found where they are; those in it come first.
fn lay_over(beneath: Beneath<'_>, folder: &Path) -> Result<(), EnvironmentError> {
    let Beneath::Folders(folders) = beneath else { return Ok(()) };
    let library = folder.join("lib");
    let fail = |source| EnvironmentError::Cache { path: library.clone(), source };
    for entry in std::fs::read_dir(&library).map_err(fail)? {
        let packages = entry.map_err(fail)?.path().join("site-packages");
        if packages.is_dir() {
            // `addsitedir` and not a plain line: editable installs are found as well.
            let lines: Vec<String> = folders
                .iter()
                .map(|path| format!("import site; site.addsitedir({:?})", path.to_string_lossy()))
                .collect();
            std::fs::write(packages.join("zz_reduce_beneath.pth"), lines.join("\n") + "\n").map_err(fail)?;
        }
    }
    Ok(())
}

fn with_uv(
    uv: &Path,
    base: Option<&Path>,
    requirements: &Requirements,
    folder: &Path,
    surroundings: &Surroundings,
) -> Result<(), EnvironmentError> {
    let mut venv = vec![uv.as_os_str().to_owned(), "venv".into(), "--quiet".into()];
    if let Some(base) = base {
        venv.extend(["--python".into(), base.as_os_str().to_owned()]);
    } else if let Some(version) = &requirements.version {
        venv.extend(["--python".into(), version.into()]);
    }
    venv.push(folder.into());
    step("uv venv", Spawn::new(venv), folder, surroundings)?;
    let mut install =
        vec![uv.as_os_str().to_owned(), "pip".into(), "install".into(), "--quiet".into(), "--python".into()];
    install.push(folder.join("bin/python").into());
    install_from(install, "uv pip install", requirements, folder, surroundings)
}

fn with_pip(
    base: &Path,
    requirements: &Requirements,
    folder: &Path,
    surroundings: &Surroundings,
) -> Result<(), EnvironmentError> {
    let venv: [&std::ffi::OsStr; 4] = [base.as_os_str(), "-m".as_ref(), "venv".as_ref(), folder.as_os_str()];
    step("python -m venv", Spawn::new(venv), folder, surroundings)?;
    let mut install = vec![folder.join("bin/python").into_os_string()];
    install.extend(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"].map(Into::into));
    install_from(install, "pip install", requirements, folder, surroundings)
}

/// Installs through a requirements file: lines such as `--extra-index-url` work, and no name is taken for an option.
fn install_from(
    mut install: Vec<std::ffi::OsString>,
    name: &str,
    requirements: &Requirements,
    folder: &Path,
    surroundings: &Surroundings,
) -> Result<(), EnvironmentError> {
    if requirements.packages.is_empty() {
        return Ok(());
    }
    let list = folder.join("requirements.txt");
    let text = format!("{}\n", requirements.packages.join("\n"));
    std::fs::write(&list, text).map_err(|source| EnvironmentError::Cache { path: list.clone(), source })?;
    install.extend(["-r".into(), list.into_os_string()]);
    step(name, Spawn::new(install), folder, surroundings)
}

fn step(name: &str, mut spawn: Spawn, folder: &Path, surroundings: &Surroundings) -> Result<(), EnvironmentError> {
    spawn.interrupted.clone_from(&surroundings.interrupted);
    // An active environment must not get the packages, nor a start-up file of the user change what is made.
    spawn.unset = ["VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "__PYVENV_LAUNCHER__"].map(str::to_owned).to_vec();
    spawn.cwd = folder.parent().map(Path::to_path_buf);
    let Output { end, stdout, stderr } = process::run(&spawn, PATIENCE)?;
    if end == End::Exited(0) {
        return Ok(());
    }
    let text = if stderr.trim().is_empty() { stdout } else { stderr };
    let lines: Vec<&str> = text.trim().lines().collect();
    let reason = match end {
        End::TimedOut | End::Stuck => format!("no end within {} min", PATIENCE.as_secs() / 60),
        _ => lines[lines.len().saturating_sub(6)..].join("\n"),
    };
    Err(EnvironmentError::NotMade { step: name.to_owned(), reason })
}
