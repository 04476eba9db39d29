//! The edges of attributes: which store a load reads.
//!
//! Invariant: an attribute that many objects of the library have (`shape`, `data`) is only a hint where the object is not
//! known. Must not follow names or calls.

use std::collections::{BTreeMap, BTreeSet};

use super::flow::{Provenance, Strength};
use super::infer::{Kind, is_property};
use super::link::{Attribute, Linker};
use super::names::Step;
use super::python::Stmt;
use super::statement::StmtId;

/// Attributes of tensors, arrays, containers, modules and files: on an unknown object they are rarely ours.
const COMMON: [&str; 58] = [
    "T", "add", "append", "args", "bias", "close", "copy", "count", "data", "device", "dim", "dtype", "eval", "extend", "filter",
    "format", "forward", "get", "grad", "group", "index", "insert", "is_cuda", "item", "items", "join", "keys", "layout", "max",
    "mean", "min", "name", "names", "ndim", "next", "numel", "open", "parent", "path", "pop", "read", "real", "remove", "reshape",
    "shape", "size", "sort", "split", "state", "std", "stride", "sum", "update", "value", "values", "view", "weight", "write",
];

impl Linker<'_> {
    /// What a statement's attribute loads read.
    pub(crate) fn attributes_of(&mut self, id: StmtId) {
        let loads = self.names.facts(id).loads.clone();
        for access in &loads {
            for (index, step) in access.steps.iter().enumerate() {
                let Step::Attribute(name) = step else { continue };
                if !self.attributes.contains_key(name) {
                    continue;
                }
                let is_called = access.steps.get(index + 1) == Some(&Step::Call);
                let receiver = self.kind_of(id, access.root.as_deref(), &access.steps[..index]);
                self.attribute_use(id, name, &receiver, is_called);
            }
        }
    }

    fn attribute_use(&mut self, id: StmtId, name: &str, receiver: &Kind, is_called: bool) {
        let classes = match receiver {
            Kind::Instance(classes) => Some(self.related(classes)),
            Kind::Class(class) => Some(self.related(&BTreeSet::from([*class]))),
            Kind::Library | Kind::Module(_) | Kind::Function(_) => return,
            _ => None,
        };
        let is_hint = classes.is_none() && *receiver != Kind::Options && COMMON.contains(&name);
        let all = self.attributes.get(name).cloned().unwrap_or_default();
        let fits = |attribute: &&Attribute| match (&classes, receiver) {
            (Some(classes), _) => attribute.owner.is_empty() && !attribute.is_option || !attribute.owner.is_disjoint(classes),
            (None, Kind::Options) => attribute.owner.is_empty(),
            (None, Kind::Foreign | Kind::Nothing) => attribute.owner.is_empty() && !attribute.is_option,
            (None, _) => true,
        };
        let fitting: Vec<Attribute> = all.iter().filter(fits).cloned().collect();
        let is_owned = fitting.iter().any(|attribute| !attribute.owner.is_empty());
        let mut groups: BTreeMap<BTreeSet<StmtId>, Vec<Attribute>> = BTreeMap::new();
        for attribute in fitting {
            // The receiver's class sets it itself: a store on an object that is not known is another one.
            if classes.is_some() && is_owned && attribute.owner.is_empty() && attribute.is_whole {
                self.soft(id, attribute.by, Provenance::Attribute);
                continue;
            }
            if attribute.is_method {
                self.method_use(id, &attribute, classes.is_some(), is_called);
                continue;
            }
            groups.entry(attribute.owner.clone()).or_default().push(attribute);
        }
        for group in groups.values() {
            self.stores(id, group, is_hint);
        }
    }

    /// Calls of methods are in the trace; a method that is only named is needed where the class is known.
    fn method_use(&mut self, id: StmtId, method: &Attribute, is_known: bool, is_called: bool) {
        let is_property = matches!(self.program.node(method.by), Some(Stmt::FunctionDef(def)) if is_property(def));
        if is_known && !is_called && !is_property {
            self.hard(id, method.by, Provenance::Attribute);
        }
    }

    /// Of the stores of one class: the last before the use, those that come later when the use comes again, and changes.
    fn stores(&mut self, id: StmtId, group: &[Attribute], is_hint: bool) {
        let first = |id: StmtId| self.observed.first.get(&id).copied();
        let now = first(id);
        let comes_again = self.observed.counts.get(&id).is_none_or(|&count| count > 1);
        let before = |attribute: &&Attribute| match (first(attribute.by), now) {
            (Some(then), Some(now)) => then < now,
            _ => true,
        };
        let whole: Vec<&Attribute> = group.iter().filter(|attribute| attribute.is_whole).collect();
        let base = whole.iter().copied().filter(before).max_by_key(|attribute| first(attribute.by));
        let mut needs = Vec::new();
        for attribute in group {
            let provenance = match attribute {
                _ if attribute.is_option => Provenance::Option,
                Attribute { is_whole: true, .. } => Provenance::Attribute,
                _ => Provenance::Mutation,
            };
            let is_base = base.is_some_and(|base| {
                base.by == attribute.by || self.is_alternative(base.by, attribute.by) || first(attribute.by).is_none()
            });
            let is_live = if attribute.is_whole && before(&attribute) { is_base } else { before(&attribute) || comes_again };
            let strength = if is_live && !is_hint { attribute.strength } else { Strength::Soft };
            needs.push((attribute.by, strength, provenance));
        }
        for (by, strength, provenance) in needs {
            self.need(id, by, strength, provenance);
        }
    }

    /// Whether two statements stand in different arms of one function: the later does not hide the earlier.
    fn is_alternative(&self, one: StmtId, other: StmtId) -> bool {
        let place = |id: StmtId| (self.program.statement(id).parent, self.program.statement(id).arm);
        self.names.scope_of(one) == self.names.scope_of(other) && place(one) != place(other)
    }
}
