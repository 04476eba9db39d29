//! Owns the comparison of signatures.
//!
//! Invariant: symmetric; strict implies normal implies loose; what is not known on one side is only accepted where the
//! assertion allows it.
//! Must not read logs.

use std::collections::BTreeSet;

use super::{CUDA_ERROR, Catalog, Family, Match, Signature, UNKNOWN_ASSERT, UNNAMED_ASSERT, condition};

impl Signature {
    /// Whether two signatures are the same failure at that level.
    pub fn matches(&self, other: &Signature, level: Match) -> bool {
        // A CPU tensor that fails like a CPU tensor is another failure, whatever the level.
        if self.family != other.family {
            return false;
        }
        let loose = self.same_class(other);
        let normal = || self.same_operator(other) && self.same_place_where_class_says_little(other);
        let strict = || self.file == other.file && self.function == other.function && self.same_condition(other);
        match level {
            Match::Loose => loose,
            Match::Normal => loose && normal(),
            Match::Strict => loose && normal() && strict(),
        }
    }

    /// Whether two signatures are the same bug in releases that report it differently (host check and device assertion).
    pub fn same_bug(&self, other: &Signature) -> bool {
        self.same_class(other) && self.same_operator(other)
    }

    /// Operators that can fire the assertion; empty where that is not known.
    pub fn possible_operators(&self) -> Vec<&'static str> {
        self.known()
            .iter()
            .flat_map(|known| &known.entry.operators)
            .map(String::as_str)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    /// The condition in words, where the catalogue has them.
    pub fn condition_in_words(&self) -> Option<&'static str> {
        let names = self.operator.as_deref().map(|name| Catalog::embedded().operators(name)).unwrap_or_default();
        let known = self.known();
        let fires = |known: &&super::entries::Known<'_>| {
            known.class.class == self.class && known.entry.operators.iter().any(|name| names.contains(&name.as_str()))
        };
        let of_class = |known: &&super::entries::Known<'_>| known.class.class == self.class;
        known.iter().find(fires).or_else(|| known.iter().find(of_class))?.entry.means.as_deref()
    }

    fn known(&self) -> Vec<super::entries::Known<'static>> {
        let Some(file) = &self.file else {
            return Vec::new();
        };
        Catalog::embedded().known(file, self.function.as_deref(), self.condition.as_deref(), None)
    }

    /// Classes that it may be: several only where the operator is not known and the assertion serves several.
    fn classes(&self) -> BTreeSet<String> {
        let mut classes = BTreeSet::from([self.class.clone()]);
        if self.operator.is_none() {
            classes.extend(self.known().iter().map(|known| known.class.class.clone()));
        }
        classes
    }

    fn same_class(&self, other: &Signature) -> bool {
        if self.class == UNNAMED_ASSERT || other.class == UNNAMED_ASSERT {
            // Without an assertion line only the operator tells failures apart.
            return self.class == other.class
                && self.operator.is_some()
                && other.operator.is_some()
                && self.same_operator(other);
        }
        if self.class == other.class {
            return true;
        }
        !self.classes().is_disjoint(&other.classes())
    }

    fn same_operator(&self, other: &Signature) -> bool {
        let catalog = Catalog::embedded();
        match (&self.operator, &other.operator) {
            (Some(one), Some(two)) => catalog.same_operator(one, two),
            (Some(known), None) => other.allows(known),
            (None, Some(known)) => self.allows(known),
            (None, None) => {
                let (one, two) = (self.possible_operators(), other.possible_operators());
                one.is_empty() || two.is_empty() || one.iter().any(|name| two.contains(name))
            }
        }
    }

    /// Whether an operator can fire this assertion; one that the catalogue does not hold may call anything.
    fn allows(&self, operator: &str) -> bool {
        let names = Catalog::embedded().operators(operator);
        let possible = self.possible_operators();
        names.is_empty() || possible.is_empty() || names.iter().any(|name| possible.contains(name))
    }

    /// Classes that hold unlike failures need the place as well.
    fn same_place_where_class_says_little(&self, other: &Signature) -> bool {
        let function = self.function.is_none() || other.function.is_none() || self.function == other.function;
        match self.family {
            Family::DeviceAssert if self.class == UNKNOWN_ASSERT => {
                self.file == other.file && function && self.same_condition(other)
            }
            Family::MemoryFault | Family::Sanitizer => function,
            Family::Library => self.same_condition(other),
            Family::Cuda if self.class == CUDA_ERROR => self.same_condition(other),
            _ => true,
        }
    }

    fn same_condition(&self, other: &Signature) -> bool {
        match (&self.condition, &other.condition) {
            (Some(one), Some(two)) => condition::normal_form(one) == condition::normal_form(two),
            (None, None) => true,
            _ => false,
        }
    }
}
