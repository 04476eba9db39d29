//! The axis `packages` for two lists of pinned packages: which of the differences are guilty together.
//!
//! Invariant: an environment holds the list that passes with some packages as in the list that fails, and nothing else.
//! It asks nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::super::axis::{AxisError, Ready, Unordered};
use super::packages::{canonical, cold, not_made, pinned};
use crate::environment::{Behind, Layers, Notice, Python, Surroundings};

/// What may be given.
const LISTS: &str =
    "give PACKAGE==VERSION, or an output of `pip freeze`, a requirements file with `==`, uv.lock or poetry.lock";

/// The differences of two lists.
pub struct Locks<'a> {
    good: BTreeMap<String, String>,
    bad: BTreeMap<String, String>,
    /// Names of the packages that differ.
    names: Vec<String>,
    layers: Layers,
    surroundings: &'a Surroundings,
    notice: &'a mut dyn FnMut(Notice),
}

impl<'a> Locks<'a> {
    /// The differences between a list that passes and one that fails.
    ///
    /// # Errors
    /// When a file cannot be read, pins nothing, or does not differ from the other.
    pub fn between(
        good: &Path,
        bad: &Path,
        python: &Python,
        surroundings: &'a Surroundings,
        notice: &'a mut dyn FnMut(Notice),
    ) -> Result<Self, AxisError> {
        let (good, bad) = (read(good)?, read(bad)?);
        let all: BTreeSet<&String> = good.keys().chain(bad.keys()).collect();
        let names: Vec<String> = all.into_iter().filter(|name| good.get(*name) != bad.get(*name)).cloned().collect();
        if names.is_empty() {
            return Err(AxisError::wrong("the two lists pin the same packages", "name two lists that differ"));
        }
        let layers = Layers::over(python)?;
        Ok(Self { good, bad, names, layers, surroundings, notice })
    }
}

impl Unordered for Locks<'_> {
    fn name(&self) -> &'static str {
        "packages"
    }

    fn len(&self) -> usize {
        self.names.len()
    }

    fn label(&self, element: usize) -> String {
        let name = &self.names[element];
        let version = |list: &BTreeMap<String, String>| {
            let line = list.get(name).map(String::as_str);
            line.map_or("absent", |line| pinned(line).map_or(line, |(_, version)| version)).to_owned()
        };
        format!("{name} {} -> {}", version(&self.good), version(&self.bad))
    }

    fn prepare(&mut self, elements: &[usize]) -> Result<Ready, AxisError> {
        let mut lines = self.good.clone();
        for name in elements.iter().map(|element| &self.names[*element]) {
            match self.bad.get(name) {
                Some(line) => lines.insert(name.clone(), line.clone()),
                None => lines.remove(name),
            };
        }
        let packages: Vec<String> = lines.into_values().collect();
        match self.layers.make(&packages, Behind::Nothing, self.surroundings, self.notice) {
            Ok(python) => Ok(cold(python)),
            Err(error) => not_made(error),
        }
    }
}

/// The pinned packages of a requirements file, a lock of uv or Poetry, or an output of `pip freeze`, by canonical name.
fn read(path: &Path) -> Result<BTreeMap<String, String>, AxisError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| AxisError::wrong(format!("cannot read the list `{}`: {error}", path.display()), LISTS))?;
    let found = if path.extension().is_some_and(|extension| extension == "lock") { lock(&text) } else { freeze(&text) };
    if found.is_empty() {
        return Err(AxisError::wrong(format!("{} pins no package", path.display()), LISTS));
    }
    Ok(found)
}

fn freeze(text: &str) -> BTreeMap<String, String> {
    let entry = |line: &str| {
        let line = line.split(" #").next().unwrap_or_default().split(" --hash").next().unwrap_or_default();
        let line = line.trim().trim_end_matches('\\').trim();
        if line.starts_with(['#', '-']) {
            return None;
        }
        let bare = line.split(';').next().unwrap_or_default().trim();
        match (pinned(bare), bare.split_once(" @ ")) {
            (Some((name, _)), _) => {
                let name = name.split('[').next().unwrap_or(name);
                Some((canonical(name), line.to_owned()))
            }
            (None, Some((name, _))) => Some((canonical(name.trim()), line.to_owned())),
            (None, None) => None,
        }
    };
    text.lines().filter_map(entry).collect()
}

/// `[[package]]` sections with a name and a version.
fn lock(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for section in text.split("[[package]]").skip(1) {
        let value = |key: &str| {
            section.lines().take_while(|line| !line.starts_with('[')).find_map(|line| {
                let (name, value) = line.split_once('=')?;
                (name.trim() == key).then(|| value.trim().trim_matches('"').to_owned())
            })
        };
        // The project itself is in its lock as well, and comes from no index.
        let own = section.lines().any(|line| line.starts_with("source") && line.contains("editable"));
        if let (Some(name), Some(version), false) = (value("name"), value("version"), own) {
            found.insert(canonical(&name), format!("{name}=={version}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_are_read_from_freezes_and_locks() {
        let found = freeze(
            "# c\n-e .\nNumPy==1.2  # x\nfoo[a]==1 ; python_version > '3'\nbar==2 \\\n    --hash=x\nx @ file:///x\n",
        );
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(names, ["bar", "foo", "numpy", "x"]);
        assert_eq!(found["bar"], "bar==2");
        let text = "[[package]]\nname = \"A_b\"\nversion = \"1.0\"\n[package.dependencies]\nversion = \"9\"\n";
        assert_eq!(lock(text), BTreeMap::from([("a-b".to_owned(), "A_b==1.0".to_owned())]));
    }
}
