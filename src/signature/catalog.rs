//! Owns the catalogue of failures: which assertion belongs to which operator, class, CPU text and usual mistake.
//!
//! Invariant: the embedded file is complete and consistent (a test reads all of it), so looking up never fails but only
//! finds nothing.
//! Must not read logs; it answers questions about names and texts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};

use super::{Family, condition};

static TEXT: &str = include_str!("catalog.yaml");
static EMBEDDED: LazyLock<Catalog> =
    LazyLock::new(|| Catalog::parse(TEXT).expect("the embedded catalogue is read by a test"));

/// Why a catalogue was refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not the shape of a catalogue.
    #[error("catalog.yaml: {0}")]
    Shape(#[from] serde_yaml::Error),
    /// A regular expression that does not compile.
    #[error("catalog.yaml: {class}: {source}")]
    Pattern {
        /// The class that holds it.
        class: String,
        /// What is wrong with it.
        source: Box<regex::Error>,
    },
}

/// All failure classes, in order of precedence.
#[derive(Debug, Deserialize, Serialize)]
pub struct Catalog {
    version: u32,
    operators: BTreeMap<String, Vec<String>>,
    classes: Vec<Class>,
    #[serde(skip)]
    spellings: BTreeMap<String, BTreeSet<String>>,
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

/// An assertion and what it was called in other releases.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Name of the entry.
    pub id: String,
    /// Base name of the file.
    pub file: String,
    /// Kernel functions that hold it; empty for any.
    pub functions: Vec<String>,
    /// Condition as printed, without message; `*` for any.
    pub condition: String,
    /// The text of `&& "message"`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Operators that can fire it.
    pub operators: Vec<String>,
    /// Line by version of torch, where known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lines: BTreeMap<String, u32>,
    /// Shape, type or mode that selects it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// First version of torch that has it, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Last version of torch that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Further conditions of the same kernels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<String>,
    /// The same assertion in other releases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<Alias>,
}

/// An assertion under another name; what is absent is as in its entry.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Alias {
    /// Base name of the file; `*` for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Kernel functions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<String>,
    /// Condition as printed, without message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The text of `&& "message"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// First version of torch that has it, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Last version of torch that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

#[derive(Debug)]
struct Patterns {
    texts: Vec<Regex>,
    conditions: Vec<Regex>,
    cpu: Vec<Vec<Regex>>,
}

/// An assertion that the catalogue knows, in today's names.
#[derive(Clone, Debug)]
pub(super) struct Known<'a> {
    pub(super) class: &'a Class,
    pub(super) entry: &'a Entry,
    pub(super) file: &'a str,
    pub(super) function: Option<String>,
    pub(super) condition: Option<String>,
    /// 2 for a condition and message as printed, 1 for the condition, 0 for a wildcard.
    exactness: u8,
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
    /// Where it has not the shape of one, or holds a pattern that does not compile.
    pub fn parse(text: &str) -> Result<Catalog, Error> {
        let mut catalog: Catalog = serde_yaml::from_str(text)?;
        for (name, others) in &catalog.operators {
            for spelling in std::iter::once(name).chain(others) {
                catalog
                    .spellings
                    .entry(base(spelling))
                    .or_default()
                    .insert(name.clone());
            }
        }
        for class in &catalog.classes {
            let compile = |patterns: &[String]| -> Result<Vec<Regex>, Error> {
                let pattern = |text: &String| {
                    Regex::new(text).map_err(|source| Error::Pattern {
                        class: class.class.clone(),
                        source: Box::new(source),
                    })
                };
                patterns.iter().map(pattern).collect()
            };
            catalog.patterns.push(Patterns {
                texts: compile(&class.texts)?,
                conditions: compile(&class.conditions)?,
                cpu: class
                    .operators
                    .iter()
                    .map(|operator| compile(&operator.cpu))
                    .collect::<Result<_, _>>()?,
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

    /// Canonical names that a spelling may stand for: several for an internal name that public ones share, none if unknown.
    pub fn operators(&self, spelling: &str) -> Vec<&str> {
        let spelling = public_name(spelling);
        if let Some((name, _)) = self.operators.get_key_value(&spelling) {
            return vec![name];
        }
        // A spelling that is listed in full says more than its last part.
        let listed: Vec<&str> = self
            .operators
            .iter()
            .filter(|(_, others)| others.contains(&spelling))
            .map(|(name, _)| name.as_str())
            .collect();
        if !listed.is_empty() {
            return listed;
        }
        if !["torch.", "aten."]
            .iter()
            .any(|start| spelling.starts_with(start))
        {
            return Vec::new();
        }
        self.spellings
            .get(&base(&spelling))
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect()
    }

    /// One name for all spellings of an operator; a spelling that is not known, or not unique, is only cleaned.
    pub fn canonical(&self, spelling: &str) -> String {
        match self.operators(spelling).as_slice() {
            [one] => (*one).to_owned(),
            _ => public_name(spelling),
        }
    }

    /// Whether two names are the same operator in other clothes.
    pub fn same_operator(&self, one: &str, other: &str) -> bool {
        let (first, second) = (self.operators(one), self.operators(other));
        if first.is_empty() && second.is_empty() {
            return base(&public_name(one)) == base(&public_name(other));
        }
        first.iter().any(|name| second.contains(name))
    }

    /// The class and the values that a text of the CPU means; the operator decides between texts that are shared.
    pub fn class_of_cpu_text(&self, operator: Option<&str>, text: &str) -> Option<CpuText> {
        let wanted: Vec<&str> = operator
            .map(|name| self.operators(name))
            .unwrap_or_default();
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
                let read = CpuText {
                    class: class.class.clone(),
                    value: group("value"),
                    limit: group("limit"),
                };
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
        self.classes
            .iter()
            .zip(&self.patterns)
            .filter(|(class, _)| wanted(class.family))
            .find_map(|(class, patterns)| {
                let found = patterns
                    .texts
                    .iter()
                    .find_map(|pattern| pattern.captures(text))?;
                Some((
                    class,
                    found.name("value").map(|part| part.as_str().to_owned()),
                ))
            })
    }

    /// The class whose condition patterns match in any file.
    pub(super) fn class_of_condition(&self, condition: &str) -> Option<&Class> {
        let mut all = self.classes.iter().zip(&self.patterns);
        all.find(|(_, patterns)| {
            patterns
                .conditions
                .iter()
                .any(|pattern| pattern.is_match(condition))
        })
        .map(|(class, _)| class)
    }

    /// The only class in which an operator fails by a device-side assertion.
    pub(super) fn only_class_of(&self, operator: &str) -> Option<&Class> {
        let names = self.operators(operator);
        let mut found = self.classes.iter().filter(|class| {
            class.family == Family::DeviceAssert
                && class.class != "offset_overflow"
                && class
                    .operators
                    .iter()
                    .any(|listed| names.contains(&listed.name.as_str()))
        });
        let first = found.next();
        if found.next().is_some() { None } else { first }
    }

    /// Entries for an assertion, best first: those whose condition is spelled out before wildcards, then in order of class.
    pub(super) fn known(
        &self,
        file: &str,
        function: Option<&str>,
        condition: Option<&str>,
        message: Option<&str>,
    ) -> Vec<Known<'_>> {
        let form = condition.map(condition::normal_form);
        let mut found = Vec::new();
        for class in &self.classes {
            for entry in &class.asserts {
                let best = entry.shapes().filter_map(|shape| {
                    shape.fits(
                        class,
                        entry,
                        file,
                        function,
                        condition,
                        form.as_deref(),
                        message,
                    )
                });
                if let Some(known) = best.max_by_key(|known| known.exactness) {
                    found.push(known);
                }
            }
        }
        let exact = found.iter().any(|known| known.exactness > 0);
        found.retain(|known| !exact || known.exactness > 0);
        // A stable sort: the order of classes holds within one exactness.
        found.sort_by_key(|known| std::cmp::Reverse(known.exactness));
        found
    }
}

/// One way in which an entry was or is printed.
struct Shape<'a> {
    file: &'a str,
    functions: &'a [String],
    condition: &'a str,
    message: &'a str,
    /// Whether the printed condition is kept, as it is another check of the same kernels.
    keeps: bool,
}

impl Entry {
    fn shapes(&self) -> impl Iterator<Item = Shape<'_>> {
        let first = Shape {
            file: &self.file,
            functions: &self.functions,
            condition: &self.condition,
            message: &self.message,
            keeps: self.condition == "*",
        };
        let others = self.others.iter().map(|condition| Shape {
            file: &self.file,
            functions: &self.functions,
            condition,
            message: "",
            keeps: true,
        });
        let aliases = self.aliases.iter().map(|alias| Shape {
            file: alias.file.as_deref().unwrap_or(&self.file),
            functions: if alias.functions.is_empty() {
                &self.functions
            } else {
                &alias.functions
            },
            condition: alias.condition.as_deref().unwrap_or(&self.condition),
            message: alias.message.as_deref().unwrap_or(&self.message),
            keeps: false,
        });
        std::iter::once(first).chain(others).chain(aliases)
    }
}

impl Shape<'_> {
    #[expect(clippy::too_many_arguments, reason = "one question with all its parts")]
    fn fits<'a>(
        &self,
        class: &'a Class,
        entry: &'a Entry,
        file: &str,
        function: Option<&str>,
        condition: Option<&str>,
        form: Option<&str>,
        message: Option<&str>,
    ) -> Option<Known<'a>> {
        if self.file != "*" && self.file != file {
            return None;
        }
        let at = match function {
            Some(name) if !self.functions.is_empty() => {
                Some(self.functions.iter().position(|known| known == name)?)
            }
            _ => None,
        };
        let exactness = match form {
            // Under any file only the message tells.
            _ if self.file == "*" && message != Some(self.message) => return None,
            Some(_) if self.condition == "*" => 0,
            Some(form) if condition::normal_form(self.condition) != form => return None,
            Some(_) if message == Some(self.message).filter(|text| !text.is_empty()) => 2,
            Some(_) => 1,
            None => 0,
        };
        let today = match (at, function) {
            (Some(index), _) => entry
                .functions
                .get(index)
                .or(entry.functions.first())
                .cloned(),
            (None, Some(name)) => Some(name.to_owned()),
            (None, None) if entry.functions.len() == 1 => entry.functions.first().cloned(),
            (None, None) => None,
        };
        Some(Known {
            class,
            entry,
            file: &entry.file,
            function: today,
            condition: if self.keeps {
                condition.map(str::to_owned)
            } else {
                Some(entry.condition.clone())
            },
            exactness,
        })
    }
}

/// A name as users write it: internal prefixes and overloads gone.
fn public_name(spelling: &str) -> String {
    let text = spelling.trim().replace("::", ".");
    let text = text
        .strip_prefix("torch.ops.aten.")
        .map(|rest| format!("aten.{rest}"))
        .unwrap_or(text);
    let text = [
        "torch._C._VariableFunctions.",
        "_VariableFunctionsClass.",
        "torch._VariableFunctions.",
    ]
    .iter()
    .find_map(|start| text.strip_prefix(start))
    .map(|rest| format!("torch.{rest}"))
    .unwrap_or(text);
    let text = [
        "torch._C.TensorBase.",
        "torch._C._TensorBase.",
        "_TensorBase.",
        "TensorBase.",
        "Tensor.",
    ]
    .iter()
    .find_map(|start| text.strip_prefix(start))
    .map(|rest| format!("torch.Tensor.{rest}"))
    .unwrap_or(text);
    match text.strip_prefix("aten.") {
        Some(rest) => format!("aten.{}", rest.split('.').next().unwrap_or(rest)),
        None => text,
    }
}

/// The last part of a name without the mark of the in-place form.
fn base(spelling: &str) -> String {
    let last = spelling.rsplit(['.', ':']).next().unwrap_or(spelling);
    if last.ends_with("__") {
        return last.to_owned();
    }
    let last = last.strip_suffix("_out").unwrap_or(last);
    last.strip_suffix('_').unwrap_or(last).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_catalogue_is_consistent() {
        let catalog = Catalog::parse(TEXT).expect("catalogue");
        assert_eq!(catalog.version, 1);
        let mut ids = BTreeSet::new();
        let mut names = BTreeSet::new();
        for class in catalog.classes() {
            assert!(names.insert(&class.class), "{} twice", class.class);
            for part in [&class.mistakes, &class.check, &class.mend] {
                assert!(!part.is_empty(), "{} lacks advice", class.class);
            }
            let listed: Vec<&str> = class
                .operators
                .iter()
                .map(|operator| operator.name.as_str())
                .collect();
            for name in &listed {
                assert!(
                    catalog.operators.contains_key(*name),
                    "{name} is no canonical operator"
                );
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
    fn an_entry_finds_itself_under_all_its_names() {
        let catalog = Catalog::embedded();
        for class in catalog.classes() {
            for entry in &class.asserts {
                for shape in entry.shapes() {
                    let message = (!shape.message.is_empty()).then_some(shape.message);
                    let function = shape.functions.first().map(String::as_str);
                    let found = catalog.known(shape.file, function, Some(shape.condition), message);
                    assert!(
                        found.iter().any(|known| known.entry.id == entry.id),
                        "{} {}",
                        entry.id,
                        shape.condition
                    );
                }
            }
        }
    }

    #[test]
    fn spellings_of_one_operator_are_one() {
        let catalog = Catalog::embedded();
        for (one, other) in [
            ("torch.gather", "torch.Tensor.gather"),
            ("torch.Tensor.index_add", "torch.index_add"),
            ("torch.Tensor.index_add_", "aten::index_add_"),
            ("torch.nn.Embedding", "torch.embedding"),
            ("torch.nn.functional.embedding", "aten.embedding.default"),
            ("torch.Tensor.__setitem__", "torch.Tensor.index_put_"),
            ("torch.Tensor.__getitem__", "torch.ops.aten.index.Tensor"),
            (
                "_VariableFunctionsClass._assert_async",
                "torch._assert_async",
            ),
            ("torch.bernoulli", "torch.Tensor.bernoulli_"),
            ("torch.autograd.backward", "torch.Tensor.backward"),
            (
                "torch.nn.functional.cross_entropy",
                "aten.nll_loss_forward.default",
            ),
            ("mine.op", "mine.op_"),
        ] {
            assert!(catalog.same_operator(one, other), "{one} {other}");
        }
        for (one, other) in [
            (
                "torch.nn.functional.cross_entropy",
                "torch.nn.functional.nll_loss",
            ),
            ("torch.Tensor.__getitem__", "torch.Tensor.__setitem__"),
            (
                "torch.nn.functional.embedding",
                "torch.nn.functional.embedding_bag",
            ),
            ("torch.Tensor.scatter_", "torch.Tensor.scatter_add_"),
            ("torch.nn.functional.cross_entropy", "torch.Tensor.backward"),
            ("mine.gather", "torch.gather"),
        ] {
            assert!(!catalog.same_operator(one, other), "{one} {other}");
        }
    }

    #[test]
    fn texts_of_the_cpu_name_class_value_and_limit() {
        let catalog = Catalog::embedded();
        let read = |operator: Option<&str>, text: &str| {
            let found = catalog
                .class_of_cpu_text(operator, text)
                .unwrap_or_else(|| panic!("nothing in {text}"));
            (found.class, found.value, found.limit)
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            read(None, "Target 10 is out of bounds."),
            ("label_out_of_range".to_owned(), some("10"), None)
        );
        let gather = "index 9 is out of bounds for dimension 1 with size 5";
        assert_eq!(
            read(Some("torch.gather"), gather),
            ("index_out_of_range".to_owned(), some("9"), some("5"))
        );
        let bag = "Index 1 of input takes value 5 which is not in the valid range [0, 3)";
        assert_eq!(
            read(None, bag),
            ("index_out_of_range".to_owned(), some("5"), some("3"))
        );
        let offsets =
            "offsets[-1] can not be greater than input's length 2 but got offsets[-1] of 7";
        assert_eq!(
            read(Some("torch.nn.functional.embedding_bag"), offsets).0,
            "embedding_bag_offsets"
        );
        let rows = "`0 <= col_indices < ncols` is not satisfied.";
        assert_eq!(
            read(Some("torch.sparse_csr_tensor"), rows).0,
            "sparse_invariants"
        );
        assert_eq!(
            read(None, "argument #2 'target' is out of range").0,
            "label_out_of_range"
        );
        assert_eq!(
            catalog.class_of_cpu_text(None, "name 'x' is not defined"),
            None
        );
    }
}
