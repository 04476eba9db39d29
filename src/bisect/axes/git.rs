//! Owns asking git, and checkouts of the user's repository beside it.
//!
//! Invariant: nothing is written into the user's repository, not even its index; a checkout is a clone that borrows its
//! objects, lies in the cache, and belongs to one run at a time.
//! It knows nothing of bisection.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};

use super::super::axis::AxisError;
use crate::process::{self, End, Output, Spawn};

/// Large repositories take their time.
const PATIENCE: Duration = Duration::from_secs(1800);
/// Larger files that git does not track are linked, not copied.
const COPIED: u64 = 16 << 20;

/// A repository of the user.
#[derive(Clone, Debug)]
pub(super) struct Repository {
    /// Its working tree.
    pub(super) root: PathBuf,
    /// Files that git does not track, as they are brought to each checkout: relative path, copied or linked.
    untracked: Vec<(String, Bring)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bring {
    Copied,
    Linked,
}

/// Runs git in a folder.
fn git(folder: &Path, words: &[&str]) -> Result<Output, AxisError> {
    let mut argv: Vec<OsString> = vec!["git".into(), "-c".into(), "core.hooksPath=/dev/null".into()];
    argv.extend(
        ["-c", "protocol.file.allow=always", "-c", "advice.detachedHead=false", "-c", "gc.auto=0"].map(Into::into),
    );
    argv.extend(words.iter().map(Into::into));
    let mut spawn = Spawn::new(argv);
    spawn.cwd = Some(folder.to_path_buf());
    spawn.env = [("GIT_OPTIONAL_LOCKS", "0"), ("GIT_TERMINAL_PROMPT", "0"), ("LC_ALL", "C")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
    spawn.unset = ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"].map(str::to_owned).to_vec();
    Ok(process::run(&spawn, PATIENCE)?)
}

fn ask(folder: &Path, words: &[&str], what: &str) -> Result<String, AxisError> {
    let output = git(folder, words)?;
    match output.end {
        End::Exited(0) => Ok(output.stdout),
        _ => {
            let reason = output.stderr.trim().lines().last().unwrap_or("git failed").to_owned();
            Err(AxisError::Wrong { message: format!("{what}: {reason}"), hints: Vec::new() })
        }
    }
}

impl Repository {
    /// The repository that a folder is in.
    ///
    /// # Errors
    /// When it is in none.
    pub(super) fn around(folder: &Path) -> Result<Self, AxisError> {
        let output = git(folder, &["rev-parse", "--show-toplevel"])?;
        if output.end != End::Exited(0) {
            return Err(AxisError::wrong(
                format!("{} is in no git repository", folder.display()),
                "bisection over commits searches the repository that the program is in",
            ));
        }
        let root = PathBuf::from(output.stdout.trim_end_matches('\n'));
        let list = |words: &[&str]| -> Result<Vec<String>, AxisError> {
            let text = ask(&root, words, "cannot list files")?;
            Ok(text.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
        };
        let ours = |path: &str| {
            path.trim_end_matches('/').split('/').any(|part| {
                part == "__pycache__" || part == ".git" || part.ends_with(".reduced") || part.ends_with(".bisect")
            })
        };
        let mut untracked = Vec::new();
        for path in list(&["ls-files", "-z", "--others", "--exclude-standard"])? {
            let small = fs::metadata(root.join(&path)).is_ok_and(|data| data.len() <= COPIED);
            untracked.push((path, if small { Bring::Copied } else { Bring::Linked }));
        }
        for path in list(&["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"])? {
            untracked.push((path.trim_end_matches('/').to_owned(), Bring::Linked));
        }
        untracked.retain(|(path, _)| !ours(path));
        Ok(Self { root, untracked })
    }

    /// The commit that a name means.
    ///
    /// # Errors
    /// When it means none.
    pub(super) fn commit(&self, name: &str) -> Result<String, AxisError> {
        let word = format!("{name}^{{commit}}");
        let output = git(&self.root, &["rev-parse", "--verify", "--quiet", &word])?;
        match output.end {
            End::Exited(0) => Ok(output.stdout.trim().to_owned()),
            _ => Err(AxisError::wrong(
                format!("`{name}` is no commit of {}", self.root.display()),
                "name a commit, a branch or a tag",
            )),
        }
    }

    /// Whether one commit comes before another.
    pub(super) fn is_ancestor(&self, one: &str, other: &str) -> Result<bool, AxisError> {
        Ok(git(&self.root, &["merge-base", "--is-ancestor", one, other])?.end == End::Exited(0))
    }

    /// The best common ancestor.
    pub(super) fn merge_base(&self, one: &str, other: &str) -> Result<Option<String>, AxisError> {
        let output = git(&self.root, &["merge-base", one, other])?;
        let base = output.stdout.trim().to_owned();
        Ok((output.end == End::Exited(0) && !base.is_empty()).then_some(base))
    }

    /// Commits of a range with their parents, parents first.
    pub(super) fn range(&self, words: &[&str]) -> Result<Vec<(String, Vec<String>)>, AxisError> {
        let mut all = vec!["rev-list", "--topo-order", "--reverse", "--parents"];
        all.extend(words);
        let text = ask(&self.root, &all, "cannot list commits")?;
        let row = |line: &str| {
            let mut ids = line.split_whitespace().map(str::to_owned);
            ids.next().map(|id| (id, ids.collect()))
        };
        Ok(text.lines().filter_map(row).collect())
    }

    /// Subjects of commits, by id.
    pub(super) fn subjects(&self, words: &[&str]) -> Result<std::collections::BTreeMap<String, String>, AxisError> {
        let mut all = vec!["log", "--format=%H%x09%h %s (%an, %as)"];
        all.extend(words);
        let text = ask(&self.root, &all, "cannot read commits")?;
        Ok(text.lines().filter_map(|line| line.split_once('\t')).map(|(id, text)| (id.into(), text.into())).collect())
    }

    /// Whether tracked files differ from the last commit.
    pub(super) fn is_dirty(&self) -> Result<bool, AxisError> {
        Ok(git(&self.root, &["diff", "--quiet", "HEAD"])?.end == End::Exited(1))
    }

    /// Writes what differs from the last commit into a file.
    pub(super) fn difference(&self, file: &Path) -> Result<(), AxisError> {
        let output = format!("--output={}", file.display());
        ask(
            &self.root,
            &["diff", "--binary", "--no-color", "--no-ext-diff", &output, "HEAD"],
            "cannot read the changes",
        )?;
        Ok(())
    }
}

/// Removes the checkouts of repositories that are gone: nothing can be checked out of them any more.
pub(super) fn forget_orphans(checkouts: &Path) {
    let list = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    for folder in list(checkouts).flat_map(|parent| list(&parent)) {
        let borrowed = fs::read_to_string(folder.join(".git/objects/info/alternates")).unwrap_or_default();
        if borrowed.lines().next().is_none_or(|objects| Path::new(objects).exists()) {
            continue;
        }
        let lock = OpenOptions::new().append(true).open(folder.with_extension("lock"));
        // The lock stays: another run may be waiting to take it.
        if let Some(_held) = lock.ok().and_then(|file| Flock::lock(file, FlockArg::LockExclusiveNonblock).ok()) {
            let _busy = fs::remove_dir_all(&folder);
        }
    }
}

/// A checkout that belongs to this run.
#[derive(Debug)]
pub(super) struct Checkout {
    /// Its folder.
    pub(super) folder: PathBuf,
    _lock: Flock<File>,
}

impl Checkout {
    /// Takes the first checkout below a folder that no other run has, or makes one.
    pub(super) fn take(repository: &Repository, parent: &Path) -> Result<Self, AxisError> {
        let fail = |path: &Path| {
            let path = path.to_owned();
            move |source| AxisError::File { path, source }
        };
        fs::create_dir_all(parent).map_err(fail(parent))?;
        for number in 0.. {
            let folder = parent.join(format!("checkout-{number}"));
            let lock = folder.with_extension("lock");
            let file = OpenOptions::new().create(true).append(true).open(&lock).map_err(fail(&lock))?;
            let Ok(held) = Flock::lock(file, FlockArg::LockExclusiveNonblock) else { continue };
            if !folder.join(".git/HEAD").is_file() {
                let _half = fs::remove_dir_all(&folder);
                let (from, to) = (repository.root.to_string_lossy(), folder.to_string_lossy());
                ask(parent, &["clone", "--quiet", "--shared", "--no-checkout", &from, &to], "cannot make a checkout")?;
            }
            return Ok(Self { folder, _lock: held });
        }
        Err(AxisError::wrong("no checkout is free", "end other runs"))
    }

    /// Makes the checkout hold a commit, with what git does not track; the inner error says why it cannot.
    pub(super) fn set(
        &self,
        repository: &Repository,
        commit: &str,
        changes: Option<&Path>,
    ) -> Result<Result<(), String>, AxisError> {
        let steps: [&[&str]; 2] = [&["clean", "-ffdxq"], &["checkout", "--quiet", "--force", "--detach", commit]];
        for words in steps {
            let output = git(&self.folder, words)?;
            if output.end != End::Exited(0) {
                return Ok(Err(format!("git {}: {}", words[0], output.stderr.trim())));
            }
        }
        if let Some(changes) = changes {
            let file = changes.to_string_lossy();
            if fs::metadata(changes).is_ok_and(|data| data.len() > 0) {
                let output = git(&self.folder, &["apply", "--whitespace=nowarn", &file])?;
                if output.end != End::Exited(0) {
                    return Ok(Err(format!("git apply: {}", output.stderr.trim())));
                }
            }
        }
        if let Err(reason) = self.submodules(repository)? {
            return Ok(Err(reason));
        }
        for (path, bring) in &repository.untracked {
            let (from, to) = (repository.root.join(path), self.folder.join(path));
            if to.symlink_metadata().is_ok() || from.symlink_metadata().is_err() {
                continue;
            }
            let fail = |source| AxisError::File { path: to.clone(), source };
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent).map_err(fail)?;
            }
            match bring {
                Bring::Copied => fs::copy(&from, &to).map(|_| ()).map_err(fail)?,
                Bring::Linked => std::os::unix::fs::symlink(&from, &to).map_err(fail)?,
            }
        }
        Ok(Ok(()))
    }

    /// Checks submodules out, from the user's own copies where those are there.
    fn submodules(&self, repository: &Repository) -> Result<Result<(), String>, AxisError> {
        if !self.folder.join(".gitmodules").is_file() {
            return Ok(Ok(()));
        }
        let listed = git(&self.folder, &["config", "--file", ".gitmodules", "--get-regexp", r"^submodule\..*\.path$"])?;
        git(&self.folder, &["submodule", "--quiet", "init"])?;
        for line in listed.stdout.lines() {
            let Some((key, _)) = line.split_once(' ') else { continue };
            let name = key.trim_start_matches("submodule.").trim_end_matches(".path");
            let own = repository.root.join(".git/modules").join(name);
            if own.is_dir() {
                let (key, url) = (format!("submodule.{name}.url"), own.to_string_lossy().into_owned());
                git(&self.folder, &["config", &key, &url])?;
            }
        }
        let output = git(&self.folder, &["submodule", "--quiet", "update", "--init", "--recursive", "--force"])?;
        Ok(match output.end {
            End::Exited(0) => Ok(()),
            _ => Err(format!("git submodule: {}", output.stderr.trim())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_checkouts_of_repositories_that_are_gone_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, objects: &Path| {
            let checkout = folder.path().join("checkouts").join(name).join("checkout-0");
            let info = checkout.join(".git/objects/info");
            fs::create_dir_all(&info).unwrap();
            fs::write(info.join("alternates"), format!("{}\n", objects.display())).unwrap();
            fs::write(checkout.with_extension("lock"), "").unwrap();
            checkout
        };
        let (kept, gone) = (make("a", folder.path()), make("b", &folder.path().join("nothing")));
        let used = make("c", &folder.path().join("nothing"));
        let lock = OpenOptions::new().append(true).open(used.with_extension("lock")).unwrap();
        let _held = Flock::lock(lock, FlockArg::LockExclusiveNonblock).unwrap();
        forget_orphans(&folder.path().join("checkouts"));
        assert!(kept.is_dir() && used.is_dir() && !gone.exists());
    }
}
