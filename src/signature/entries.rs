//! Owns the assertion lines of the catalogue: their history, and finding the entries that a printed line may be.
//!
//! Invariant: an entry is found under each of its names, and what is found is in today's names.
//! Must not choose between entries: the operator does, elsewhere.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::catalog::{Catalog, Class};
use super::condition;

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
    /// The condition in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub means: Option<String>,
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
    /// Printed so by another release only.
    is_alias: bool,
}

impl Known<'_> {
    /// Whether condition and message are those that the releases of today print.
    pub(super) fn is_current(&self) -> bool {
        self.exactness == 2 && !self.is_alias
    }
}

impl Catalog {
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
                let best = entry
                    .shapes()
                    .filter_map(|shape| shape.fits(class, entry, file, function, condition, form.as_deref(), message));
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
    is_alias: bool,
}

impl Entry {
    fn shapes(&self) -> impl Iterator<Item = Shape<'_>> {
        let first = Shape {
            file: &self.file,
            functions: &self.functions,
            condition: &self.condition,
            message: &self.message,
            keeps: self.condition == "*",
            is_alias: false,
        };
        let others = self.others.iter().map(|condition| Shape {
            file: &self.file,
            functions: &self.functions,
            condition,
            message: "",
            keeps: true,
            is_alias: false,
        });
        let aliases = self.aliases.iter().map(|alias| Shape {
            file: alias.file.as_deref().unwrap_or(&self.file),
            functions: if alias.functions.is_empty() { &self.functions } else { &alias.functions },
            condition: alias.condition.as_deref().unwrap_or(&self.condition),
            message: alias.message.as_deref().unwrap_or(&self.message),
            keeps: false,
            is_alias: true,
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
            Some(name) if !self.functions.is_empty() => Some(self.functions.iter().position(|known| known == name)?),
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
            (Some(index), _) => entry.functions.get(index).or(entry.functions.first()).cloned(),
            (None, Some(name)) => Some(name.to_owned()),
            (None, None) if entry.functions.len() == 1 => entry.functions.first().cloned(),
            (None, None) => None,
        };
        Some(Known {
            class,
            entry,
            file: &entry.file,
            function: today,
            condition: if self.keeps { condition.map(str::to_owned) } else { Some(entry.condition.clone()) },
            exactness,
            is_alias: self.is_alias,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_finds_itself_under_all_its_names() {
        let catalog = Catalog::embedded();
        for class in catalog.classes() {
            for entry in &class.asserts {
                for shape in entry.shapes() {
                    let message = (!shape.message.is_empty()).then_some(shape.message);
                    let function = shape.functions.first().map(String::as_str);
                    let found = catalog.known(shape.file, function, Some(shape.condition), message);
                    assert!(found.iter().any(|known| known.entry.id == entry.id), "{} {}", entry.id, shape.condition);
                }
            }
        }
    }
}
