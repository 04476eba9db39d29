//! `bases`: base classes and keywords of classes.
//!
//! Why it is safe to try: `object`, abstract bases, generics and most mixins add nothing to a run.
//! Cost: one run for all that are likely, then about two for each that must stay.
//!
//! ```text
//! class Encoder(LoggingMixin, nn.Module):   ->   class Encoder(nn.Module):
//! class Config(object):                     ->   class Config:
//! ```
//!
//! Invariant: the brackets go with the last base. Must not touch the body.

use std::collections::BTreeSet;

use crate::program::Program;
use crate::program::python::{AnyNodeRef, Expr, range};

use super::Pass;
use super::facts::Facts;
use super::proposal::{Draft, Proposal};
use super::view::{Brackets, View, last_name};
use super::walk::walk;

/// See the module.
pub(super) struct Bases;

const NAME: &str = "bases";

impl Pass for Bases {
    fn name(&self) -> &'static str {
        NAME
    }

    fn proposals(&self, program: &Program, _facts: &Facts) -> Vec<Proposal> {
        let mut classes = BTreeSet::new();
        for view in View::of(program) {
            walk(&view, |node, _| {
                if let AnyNodeRef::StmtClassDef(class) = node {
                    classes.insert(class.name.as_str());
                }
            });
        }
        let mut proposals = Vec::new();
        for view in View::of(program) {
            walk(&view, |node, _| {
                let AnyNodeRef::StmtClassDef(class) = node else { return };
                let Some(arguments) = &class.arguments else { return };
                let sequence = view.arguments(arguments, Brackets::Go);
                for (index, item) in sequence.items.iter().enumerate() {
                    let base = arguments.args.iter().find(|base| item.contains(&range(*base).start));
                    let (detail, prior) = match base {
                        Some(base) => ("a base class", prior(base, &classes, sequence.items.len())),
                        None => ("a keyword of a class", 0.7),
                    };
                    let draft = Draft::new(NAME, &view, item.start, detail, prior);
                    proposals.extend(draft.item(&view, &sequence, index).finish());
                }
                if sequence.items.is_empty() {
                    let draft = Draft::new(NAME, &view, range(&**arguments).start, "empty brackets of a class", 0.99);
                    proposals.extend(draft.cut(&view, range(&**arguments)).finish());
                }
            });
        }
        proposals
    }
}

fn prior(base: &Expr, classes: &BTreeSet<&str>, bases: usize) -> f64 {
    match last_name(base) {
        Some("object") => 0.99,
        Some("ABC" | "Generic" | "Protocol" | "Hashable" | "Sized") => 0.95,
        Some("Iterable" | "Iterator" | "Mapping" | "MutableMapping" | "Sequence" | "MutableSequence") => 0.5,
        Some("Dataset") => 0.7,
        Some("Module" | "IterableDataset" | "Function" | "Optimizer" | "Sampler" | "LightningModule") => 0.05,
        Some("Enum" | "IntEnum" | "StrEnum" | "Flag" | "NamedTuple" | "TypedDict" | "BaseModel") => 0.02,
        Some("Exception" | "RuntimeError" | "ValueError" | "Warning" | "dict" | "list" | "str" | "int") => 0.03,
        Some(name) if name.ends_with("Mixin") => 0.4,
        Some(name) if classes.contains(name) => 0.2,
        _ if bases > 1 => 0.3,
        _ => 0.2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::check::{all, each};

    #[test]
    fn bases_go_one_by_one_and_the_brackets_with_the_last() {
        each(&Bases, "class A(Mixin, nn.Module): pass\n", &["class A(nn.Module): pass\n", "class A(Mixin): pass\n"]);
        all(&Bases, "class A(Mixin, Generic[T], metaclass=ABCMeta): pass\n", "class A: pass\n");
        all(&Bases, "class A(object):\n\tx = 1\n", "class A:\n\tx = 1\n");
        all(&Bases, "class A(): pass\n", "class A: pass\n");
        all(&Bases, "class A: pass\n", "class A: pass\n");
    }
}
