//! Owns making an entry of a bundle.
//!
//! Invariant: an entry appears whole or not at all, and never beside one of the same failure and the same program.
//! Must not run the program: the bundle was confirmed when it was made.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use walkdir::WalkDir;

use super::CorpusError;
use super::entry::{Entry, FILE};
use crate::bundle::stored::{self, Stored};
use crate::environment::Surroundings;
use crate::program::{Naming, canonical};
use crate::signature::Match;
use crate::trial::Device;
use crate::yaml;

/// Whether an entry is tied to the torch that it was seen with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    /// Any torch may run it.
    Free,
    /// Only this version.
    Torch,
}

/// What became of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Added {
    /// A new entry.
    New(PathBuf),
    /// It is in the corpus already.
    Known(PathBuf),
}

/// Makes an entry of a bundle in a corpus, unless it holds the same failure of the same program.
///
/// # Errors
/// When the bundle was not confirmed, or a file cannot be read or written.
pub fn add(bundle: &Stored, corpus: &Path, pin: Pin, surroundings: &Surroundings) -> Result<Added, CorpusError> {
    proven(bundle)?;
    let fail = |path: &Path| {
        let path = path.to_owned();
        move |source| CorpusError::File { path, source }
    };
    fs::create_dir_all(corpus).map_err(fail(corpus))?;
    let making = tempfile::Builder::new().prefix(".adding-").tempdir_in(corpus).map_err(fail(corpus))?;
    lay_out(bundle, making.path(), pin).map_err(fail(corpus))?;
    // What cannot be read back is not left behind.
    let fresh = Entry::read(making.path(), "the new entry", surroundings)?;
    let form = form(&making.path().canonicalize().map_err(fail(corpus))?).map_err(fail(corpus))?;
    let mut names: Vec<String> = Vec::new();
    for known in fs::read_dir(corpus).map_err(fail(corpus))? {
        let known = known.map_err(fail(corpus))?;
        names.push(known.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    for name in names.iter().filter(|name| !name.starts_with('.')) {
        let folder = corpus.join(name);
        if !folder.join(FILE).is_file() {
            continue;
        }
        // One that is broken is no reason not to add another.
        let Ok(entry) = Entry::read(&folder, name, surroundings) else { continue };
        let same = entry.signature.matches(&fresh.signature, Match::Strict);
        if same && self::form(&folder).map_err(fail(&folder))? == form {
            return Ok(Added::Known(folder));
        }
    }
    let name = free_name(&slug(bundle), &names);
    let target = corpus.join(name);
    let made = making.keep();
    fs::set_permissions(&made, std::os::unix::fs::PermissionsExt::from_mode(0o755)).map_err(fail(&made))?;
    fs::rename(&made, &target).map_err(fail(&target))?;
    Ok(Added::New(target))
}

/// An entry says what was seen: a bundle that no cold run confirmed says nothing.
fn proven(bundle: &Stored) -> Result<(), CorpusError> {
    let hits = |value: &Value| value["hits"].as_u64().unwrap_or(0);
    let confirmed = if bundle.is_alone() { &bundle.report["repro"]["confirmed"] } else { &bundle.report["confirmed"] };
    if hits(confirmed) > 0 {
        return Ok(());
    }
    let why = "no fresh run of its program showed the failure".to_owned();
    Err(CorpusError::NotProven { path: bundle.folder.clone(), why })
}

fn lay_out(bundle: &Stored, folder: &Path, pin: Pin) -> std::io::Result<()> {
    let report = &bundle.report;
    let mut data = Vec::new();
    if bundle.is_alone() {
        fs::copy(bundle.folder.join("repro.py"), folder.join("repro.py"))?;
        if bundle.folder.join("data").is_dir() {
            copy(&bundle.folder.join("data"), &folder.join("data"))?;
            data = files(&folder.join("data"), folder)?;
        }
    } else {
        copy(&bundle.folder.join("source"), &folder.join("source"))?;
        let case = yaml::to_string(&stored::source_case(report, "source")).map_err(std::io::Error::other)?;
        fs::write(folder.join("crash.yaml"), case)?;
    }
    let setting = &report["setting"];
    let mut entry = json!({
        "expected": "crashes",
        "signature": bundle.signature,
        "device": if bundle.device() == Device::Cuda { "cuda" } else { "emulated" },
    });
    if let (Pin::Torch, Some(torch)) = (pin, setting["torch"].as_str()) {
        entry["torch"] = json!(format!("=={}", torch.split('+').next().unwrap_or(torch)));
    }
    if !data.is_empty() {
        entry["data"] = json!(data);
    }
    entry["seen"] = json!({
        "torch": setting["torch"], "python": setting["python"],
        "numpy": report["context"]["environment"]["numpy"],
    });
    let text = yaml::to_string(&entry).map_err(std::io::Error::other)?;
    fs::write(folder.join(FILE), format!("# {}\n{text}", bundle.signature))
}

/// Copies files and folders; a link is followed, since an entry stands alone.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in WalkDir::new(from).follow_links(true).sort_by_file_name() {
        let entry = entry?;
        let target = to.join(entry.path().strip_prefix(from).unwrap_or(Path::new("")));
        if entry.file_type().is_dir() {
            if entry.file_name() != "__pycache__" {
                fs::create_dir_all(target)?;
            }
        } else if entry.file_type().is_file()
            && !entry.path().components().any(|part| part.as_os_str() == "__pycache__")
        {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Every file below a folder, relative to another, sorted.
fn files(below: &Path, from: &Path) -> std::io::Result<Vec<String>> {
    let mut files = Vec::new();
    for entry in WalkDir::new(below).sort_by_file_name() {
        let entry = entry?;
        if entry.file_type().is_file() {
            let path = entry.path().strip_prefix(from).unwrap_or(entry.path());
            files.push(path.to_string_lossy().into_owned());
        }
    }
    Ok(files)
}

/// The canonical form of an entry's program and the content of its other files; `entry.yaml` is no part of it.
fn form(folder: &Path) -> std::io::Result<BTreeMap<String, String>> {
    let all = files(folder, folder)?;
    let sources = all.iter().filter(|path| path.ends_with(".py")).count();
    let naming = if sources == 1 { Naming::Own } else { Naming::Shared };
    let mut form = BTreeMap::new();
    for path in all.into_iter().filter(|path| path != FILE) {
        let bytes = fs::read(folder.join(&path))?;
        let text = std::str::from_utf8(&bytes).ok().filter(|_| path.ends_with(".py"));
        let canonical = text.and_then(|text| canonical(text, naming));
        form.insert(path, canonical.unwrap_or_else(|| blake3::hash(&bytes).to_hex().to_string()));
    }
    Ok(form)
}

/// Class and operator as a name of a folder.
fn slug(bundle: &Stored) -> String {
    let operator = bundle.signature.operator.as_deref().and_then(|name| name.rsplit('.').next());
    let words = [Some(bundle.signature.class.as_str()), operator].into_iter().flatten();
    let mut slug = String::new();
    for letter in words.collect::<Vec<_>>().join("-").chars() {
        if letter.is_ascii_alphanumeric() {
            let _ = write!(slug, "{}", letter.to_ascii_lowercase());
        } else if !slug.ends_with('-') && !slug.is_empty() {
            slug.push('-');
        }
    }
    let slug = slug.trim_matches('-');
    if slug.is_empty() { "crash".to_owned() } else { slug.chars().take(80).collect() }
}

fn free_name(wanted: &str, taken: &[String]) -> String {
    let is_free = |name: &String| !taken.contains(name);
    let numbered = (2..).map(|number| format!("{wanted}-{number}"));
    std::iter::once(wanted.to_owned()).chain(numbered).find(is_free).unwrap_or_else(|| wanted.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_taken_gets_a_number() {
        assert_eq!(free_name("a", &["b".into()]), "a");
        assert_eq!(free_name("a", &["a".into(), "a-2".into()]), "a-3");
    }
}
