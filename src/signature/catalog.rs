//! Owns the catalogue of failures: which assertion belongs to which operator, class, CPU text and usual mistake.
//!
//! Invariant: the embedded file is complete and consistent (a test reads all of it), so looking up never fails but only
//! finds nothing.
//! Must not read logs; it answers questions about names and texts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{LazyLock, OnceLock};

use regex::Regex;
use serde::{Deserialize, Serialize};

use super::Family;
use super::entries::Entry;
use super::operators;
use crate::yaml::{self, Node, Value};

static TEXT: &str = include_str!("catalog.yaml");
static EMBEDDED: LazyLock<Catalog> =
    LazyLock::new(|| Catalog::parse(TEXT).expect("the embedded catalogue is read by a test"));

/// Why a catalogue was refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not YAML.
    #[error(transparent)]
    Yaml(#[from] yaml::Error),
    /// Not the shape of a catalogue.
    #[error("catalog.yaml: {0}")]
    Shape(#[from] serde_json::Error),
}

/// All failure classes, in order of precedence.
#[derive(Debug, Deserialize, Serialize)]
pub struct Catalog {
    version: u32,
    pub(super) operators: BTreeMap<String, Vec<String>>,
    pub(super) classes: Vec<Class>,
    #[serde(skip)]
    pub(super) spellings: BTreeMap<String, BTreeSet<String>>,
    #[serde(skip)]
    patterns: Vec<Patterns>,
}

/// One failure class.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Name of the class.
    pub class: String,
    /// What kind of failure it is.
    pub family: Family,
    /// Half a sentence for people.
    pub title: String,
    /// What went wrong, in a sentence or two.
    pub meaning: String,
    /// Operators that fail this way.
    pub operators: Vec<Operator>,
    /// Assertion lines of this class.
    pub asserts: Vec<Entry>,
    /// Conditions that mean this class in any file (regular expressions).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<String>,
    /// Texts that mean this class where no assertion line was printed (regular expressions).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<String>,
    /// What users usually did.
    pub mistakes: Vec<String>,
    /// What to look at.
    pub check: Vec<String>,
    /// How to mend it.
    pub mend: Vec<String>,
    /// The same of single operators, in the place of what stands above.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub advice: BTreeMap<String, Advice>,
}

/// What users usually did with an operator, what to look at, and how to mend it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Advice {
    /// What users usually did.
    pub mistakes: Vec<String>,
    /// What to look at.
    pub check: Vec<String>,
    /// How to mend it.
    pub mend: Vec<String>,
}

impl Class {
    /// The advice for an operator; that of the whole class where there is none of its own.
    pub fn advice_for(&self, operator: Option<&str>) -> Advice {
        let names = operator.map(|name| Catalog::embedded().operators(name)).unwrap_or_default();
        let own = names.iter().find_map(|name| self.advice.get(*name));
        own.cloned().unwrap_or_else(|| Advice {
            mistakes: self.mistakes.clone(),
            check: self.check.clone(),
            mend: self.mend.clone(),
        })
    }
}

/// An operator within a class.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Operator {
    /// Canonical public name.
    pub name: String,
    /// Class of the Python exception on the CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exception: Option<String>,
    /// What the CPU says (regular expressions with the groups value, limit, position, dimension).
    pub cpu: Vec<String>,
    /// What CUDA does.
    #[serde(default)]
    pub device: Device,
    /// What CUDA did up to a version of torch.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub device_until: BTreeMap<Device, String>,
    /// A remark for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What CUDA does with a value that the CPU refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Device {
    /// A device-side assertion fails.
    #[default]
    Assert,
    /// The host checks and raises the CPU's text.
    Host,
    /// Nothing is said.
    Silent,
}

/// The patterns of a class: compiled when they are first asked, as most runs ask few.
#[derive(Debug)]
struct Patterns {
    texts: Lazy,
    conditions: Lazy,
    cpu: Vec<Lazy>,
}

#[derive(Debug)]
struct Lazy {
    sources: Vec<String>,
    compiled: OnceLock<Vec<Regex>>,
}

impl Lazy {
    fn new(sources: &[String]) -> Self {
        // Only ASCII digits are printed, and their tables are a fraction of Unicode's.
        let sources = sources.iter().map(|text| text.replace("\\d", "[0-9]")).collect();
        Self { sources, compiled: OnceLock::new() }
    }

    fn iter(&self) -> std::slice::Iter<'_, Regex> {
        let compile = || {
            let all = self.sources.iter().map(|text| Regex::new(text));
            all.collect::<Result<Vec<_>, _>>().expect("a test compiles each pattern of the catalogue")
        };
        self.compiled.get_or_init(compile).iter()
    }
}

/// What a text of the CPU says about a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuText {
    /// The class that it means.
    pub class: String,
    /// The offending value, where the text holds it.
    pub value: Option<String>,
    /// The limit that it breaks, where the text holds it.
    pub limit: Option<String>,
}

impl Catalog {
    /// The catalogue of this build.
    pub fn embedded() -> &'static Catalog {
        &EMBEDDED
    }

    /// Reads a catalogue.
    ///
    /// # Errors
    /// Where it has not the shape of one.
    pub fn parse(text: &str) -> Result<Catalog, Error> {
        let mut catalog: Catalog = serde_json::from_value(json(&yaml::parse("catalog.yaml", text)?))?;
        for (name, others) in &catalog.operators {
            for spelling in std::iter::once(name).chain(others) {
                catalog.spellings.entry(operators::base(spelling)).or_default().insert(name.clone());
            }
        }
        for class in &catalog.classes {
            catalog.patterns.push(Patterns {
                texts: Lazy::new(&class.texts),
                conditions: Lazy::new(&class.conditions),
                cpu: class.operators.iter().map(|operator| Lazy::new(&operator.cpu)).collect(),
            });
        }
        Ok(catalog)
    }

    /// The catalogue as JSON, for the harness.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("the catalogue holds only text and numbers")
    }

    /// All classes, in order of precedence.
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// The class of that name.
    pub fn entry(&self, class: &str) -> Option<&Class> {
        self.classes.iter().find(|entry| entry.class == class)
    }

    /// The class and the values that a text of the CPU means; the operator decides between texts that are shared.
    pub fn class_of_cpu_text(&self, operator: Option<&str>, text: &str) -> Option<CpuText> {
        let wanted: Vec<&str> = operator.map(|name| self.operators(name)).unwrap_or_default();
        let mut best: Option<(bool, CpuText)> = None;
        for (class, patterns) in self.classes.iter().zip(&self.patterns) {
            for (listed, cpu) in class.operators.iter().zip(&patterns.cpu) {
                let is_wanted = wanted.contains(&listed.name.as_str());
                if best.is_some() && !is_wanted {
                    continue;
                }
                let Some(found) = cpu.iter().find_map(|pattern| pattern.captures(text)) else {
                    continue;
                };
                let group = |name: &str| found.name(name).map(|part| part.as_str().to_owned());
                let read = CpuText { class: class.class.clone(), value: group("value"), limit: group("limit") };
                if is_wanted {
                    return Some(read);
                }
                best = Some((is_wanted, read));
            }
        }
        best.map(|(_, read)| read)
    }

    /// The class that an exception text or an abort means, without assertion line, among those that `wanted` accepts;
    /// with the detail that the text holds.
    pub(super) fn class_of_text(
        &self,
        text: &str,
        wanted: impl Fn(Family) -> bool,
    ) -> Option<(&Class, Option<String>)> {
        self.classes.iter().zip(&self.patterns).filter(|(class, _)| wanted(class.family)).find_map(
            |(class, patterns)| {
                let found = patterns.texts.iter().find_map(|pattern| pattern.captures(text))?;
                Some((class, found.name("value").map(|part| part.as_str().to_owned())))
            },
        )
    }

    /// The class whose condition patterns match in any file.
    pub(super) fn class_of_condition(&self, condition: &str) -> Option<&Class> {
        let mut all = self.classes.iter().zip(&self.patterns);
        all.find(|(_, patterns)| patterns.conditions.iter().any(|pattern| pattern.is_match(condition)))
            .map(|(class, _)| class)
    }

    /// The only class in which an operator fails by a device-side assertion.
    pub(super) fn only_class_of(&self, operator: &str) -> Option<&Class> {
        let names = self.operators(operator);
        let mut found = self.classes.iter().filter(|class| {
            class.family == Family::DeviceAssert
                && class.class != "offset_overflow"
                && class.operators.iter().any(|listed| names.contains(&listed.name.as_str()))
        });
        let first = found.next();
        if found.next().is_some() { None } else { first }
    }
}

/// A document without its places.
fn json(node: &Node) -> serde_json::Value {
    match &node.value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Integer(value) => i64::try_from(*value).map_or(serde_json::Value::Null, Into::into),
        Value::Float(value) => (*value).into(),
        Value::Text(text) => text.as_str().into(),
        Value::List(items) => items.iter().map(json).collect(),
        Value::Mapping(entries) => entries.iter().map(|entry| (entry.key.clone(), json(&entry.value))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_catalogue_is_consistent() {
        let catalog = Catalog::parse(TEXT).expect("catalogue");
        assert_eq!(catalog.version, 1);
        for patterns in &catalog.patterns {
            // Asking for one compiles all.
            let cpu: usize = patterns.cpu.iter().map(|cpu| cpu.iter().len()).sum();
            assert!(patterns.texts.iter().len() + patterns.conditions.iter().len() + cpu < 1000);
        }
        let mut ids = BTreeSet::new();
        let mut names = BTreeSet::new();
        for class in catalog.classes() {
            assert!(names.insert(&class.class), "{} twice", class.class);
            for part in [&class.mistakes, &class.check, &class.mend] {
                assert!(!part.is_empty(), "{} lacks advice", class.class);
            }
            let listed: Vec<&str> = class.operators.iter().map(|operator| operator.name.as_str()).collect();
            for (name, advice) in &class.advice {
                assert!(listed.contains(&name.as_str()), "{}: advice for {name}", class.class);
                for part in [&advice.mistakes, &advice.check, &advice.mend] {
                    assert!(!part.is_empty(), "{}: {name} lacks advice", class.class);
                }
            }
            for name in &listed {
                assert!(catalog.operators.contains_key(*name), "{name} is no canonical operator");
            }
            for entry in &class.asserts {
                assert!(ids.insert(&entry.id), "{} twice", entry.id);
                for name in &entry.operators {
                    assert!(listed.contains(&name.as_str()), "{}: {name}", entry.id);
                }
            }
        }
        assert!(serde_json::from_str::<serde_json::Value>(&catalog.json()).is_ok());
    }

    #[test]
    fn texts_of_the_cpu_name_class_value_and_limit() {
        let catalog = Catalog::embedded();
        let read = |operator: Option<&str>, text: &str| {
            let found = catalog.class_of_cpu_text(operator, text).unwrap_or_else(|| panic!("nothing in {text}"));
            (found.class, found.value, found.limit)
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(read(None, "Target 10 is out of bounds."), ("label_out_of_range".to_owned(), some("10"), None));
        let gather = "index 9 is out of bounds for dimension 1 with size 5";
        assert_eq!(read(Some("torch.gather"), gather), ("index_out_of_range".to_owned(), some("9"), some("5")));
        let bag = "Index 1 of input takes value 5 which is not in the valid range [0, 3)";
        assert_eq!(read(None, bag), ("index_out_of_range".to_owned(), some("5"), some("3")));
        let offsets = "offsets[-1] can not be greater than input's length 2 but got offsets[-1] of 7";
        assert_eq!(read(Some("torch.nn.functional.embedding_bag"), offsets).0, "embedding_bag_offsets");
        let rows = "`0 <= col_indices < ncols` is not satisfied.";
        assert_eq!(read(Some("torch.sparse_csr_tensor"), rows).0, "sparse_invariants");
        assert_eq!(read(None, "argument #2 'target' is out of range").0, "label_out_of_range");
        assert_eq!(catalog.class_of_cpu_text(None, "name 'x' is not defined"), None);
    }
}
