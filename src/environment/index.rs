//! Owns asking the package index which versions there are, through pip and with pip's own configuration.
//!
//! Invariant: what is listed can be installed for the interpreter that was asked, as far as the index knows.
//! Must not install anything.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use super::{Early, EnvironmentError, Surroundings};
use crate::process::{self, End, Spawn};

/// An index may be slow.
const PATIENCE: Duration = Duration::from_secs(300);

/// Versions of a package, the oldest first.
pub(super) fn versions(
    python: &Path,
    package: &str,
    early: Early,
    surroundings: &Surroundings,
) -> Result<Vec<String>, EnvironmentError> {
    // An environment made by uv has no pip of its own: a pip from elsewhere can ask for it.
    let own: Vec<OsString> = vec![python.into(), "-m".into(), "pip".into()];
    let other: Option<Vec<OsString>> =
        surroundings.which("pip").map(|pip| vec![pip.into(), "--python".into(), python.into()]);
    let mut reason = String::new();
    for mut argv in [Some(own), other].into_iter().flatten() {
        argv.extend(["--disable-pip-version-check", "--no-input", "index", "versions", package].map(Into::into));
        if early == Early::Counted {
            argv.push("--pre".into());
        }
        let output = process::run(&Spawn::new(argv), PATIENCE)?;
        if output.end == End::Exited(0)
            && let Some(found) = listed(&output.stdout)
        {
            return Ok(found);
        }
        reason = output.stderr.trim().lines().rfind(|line| line.contains("ERROR")).unwrap_or_default().to_owned();
    }
    let reason = if reason.is_empty() { "no pip that can ask the index".to_owned() } else { reason };
    Err(EnvironmentError::NotMade { step: format!("pip index versions {package}"), reason })
}

fn listed(text: &str) -> Option<Vec<String>> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix("Available versions:"))?;
    let mut found: Vec<String> = line.split(',').map(|version| version.trim().to_owned()).collect();
    found.reverse();
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_pip_prints() {
        let text = "numpy (2.1.0)\nAvailable versions: 2.1.0, 2.0.2, 1.26.4\n  INSTALLED: 2.0.2\n";
        assert_eq!(listed(text).unwrap(), ["1.26.4", "2.0.2", "2.1.0"]);
        assert_eq!(listed("ERROR: none"), None);
    }
}
