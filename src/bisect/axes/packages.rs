//! The axis `packages` for one package: the versions of it that the index has.
//!
//! Invariant: each version lies in one cached environment in front of the packages of the case; the user's environment
//! stays as it is.
//! It asks nothing.

use super::super::Point;
use super::super::axis::{AxisError, Ordered, Place, Ready};
use super::super::order::Order;
use crate::environment::{self, Behind, Early, EnvironmentError, Layers, Notice, Python, Surroundings};
use crate::trial::{Mode, Variation};

/// A version that must be fetched and installed, against one that is there.
const INSTALLATION: f64 = 5.0;

/// The versions between two of one package.
pub struct Versions<'a> {
    name: String,
    versions: Vec<String>,
    layers: Layers,
    surroundings: &'a Surroundings,
    notice: &'a mut dyn FnMut(Notice),
    made: Vec<bool>,
}

/// A package at a version, as typed: `numpy==1.24.0`.
pub fn pinned(text: &str) -> Option<(&str, &str)> {
    let (name, version) = text.split_once("==")?;
    (!name.trim().is_empty() && !version.trim().is_empty()).then(|| (name.trim(), version.trim()))
}

/// The name of a package as indexes compare it.
pub fn canonical(name: &str) -> String {
    name.to_lowercase().replace(['_', '.'], "-")
}

impl<'a> Versions<'a> {
    /// The versions between one that passes and one that fails.
    ///
    /// # Errors
    /// When the index has not both of them, or cannot be asked.
    pub fn between(
        name: &str,
        good: &str,
        bad: &str,
        python: &Python,
        surroundings: &'a Surroundings,
        notice: &'a mut dyn FnMut(Notice),
    ) -> Result<Self, AxisError> {
        let is_early = |version: &str| version.chars().any(|sign| sign.is_ascii_alphabetic());
        let early = if is_early(good) || is_early(bad) { Early::Counted } else { Early::LeftOut };
        let all = environment::versions(&python.executable, name, early, surroundings)?;
        let at = |version: &str| {
            all.iter().position(|one| one == version).ok_or_else(|| {
                let newest = all.iter().rev().take(5).cloned().collect::<Vec<_>>().join(", ");
                AxisError::wrong(
                    format!("the index has no {name} {version} for Python {}", python.version),
                    format!("the newest that it has: {newest}"),
                )
            })
        };
        let (first, last) = (at(good)?, at(bad)?);
        let mut versions = all[first.min(last)..=first.max(last)].to_vec();
        if first > last {
            versions.reverse();
        }
        if versions.len() < 2 {
            return Err(AxisError::wrong("both versions are the same", "name two versions"));
        }
        let layers = Layers::over(python)?;
        let mut axis =
            Self { name: name.to_owned(), made: vec![false; versions.len()], versions, layers, surroundings, notice };
        axis.made = (0..axis.versions.len())
            .map(|point| axis.layers.is_made(&axis.packages(point), Behind::Packages, axis.surroundings))
            .collect();
        Ok(axis)
    }

    fn packages(&self, point: Point) -> Vec<String> {
        vec![format!("{}=={}", self.name, self.versions[point])]
    }
}

impl Ordered for Versions<'_> {
    fn name(&self) -> &'static str {
        "packages"
    }

    fn order(&self) -> Order {
        Order::Chain(self.versions.len())
    }

    fn key(&self, point: Point) -> String {
        format!("{}=={}", self.name, self.versions[point])
    }

    fn prepare(&mut self, point: Point) -> Result<Ready, AxisError> {
        let packages = self.packages(point);
        let made = self.layers.make(&packages, Behind::Packages, self.surroundings, self.notice);
        match made {
            Ok(python) => {
                self.made[point] = true;
                Ok(cold(python))
            }
            Err(error) => not_made(error),
        }
    }

    fn cost(&self, point: Point) -> f64 {
        if self.made[point] { 1.0 } else { INSTALLATION }
    }
}

/// A run in another interpreter.
pub(super) fn cold(python: std::path::PathBuf) -> Ready {
    let variation = Variation { python: Some(python), ..Variation::default() };
    Ready::Run(Box::new(Place { variation, mode: Some(Mode::Exec) }))
}

/// Packages that do not go together are a fact about the point; a broken cache is not.
pub(super) fn not_made(error: EnvironmentError) -> Result<Ready, AxisError> {
    match error {
        EnvironmentError::NotMade { reason, .. } => {
            // A conflict names the two packages behind the line that says that there is one.
            let found = |words: &[&str]| reason.lines().find(|line| words.iter().any(|word| line.contains(word)));
            let why = found(&[" depends on ", "Because"]).or_else(|| found(&["ERROR", "error:"]));
            let why = why.or(reason.lines().last()).unwrap_or("it cannot be installed");
            Ok(Ready::Skip(why.trim().to_owned()))
        }
        other => Err(other.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_package_is_read_as_typed() {
        assert_eq!(pinned("numpy==1.24.0"), Some(("numpy", "1.24.0")));
        assert_eq!(pinned("numpy"), None);
        assert_eq!(canonical("Typing_Extensions"), "typing-extensions");
    }
}
