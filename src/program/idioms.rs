//! Needs that names do not show: options of the command line, fields of records, base constructors, loops that only an
//! exit ends, exceptions that lead to a handler.
//!
//! Invariant: each rule states what would fail without its edge. Must not look at values.

use std::collections::BTreeSet;

use super::flow::{Provenance, Strength};
use super::infer::Kind;
use super::link::{Attribute, Linker};
use super::names::{self, Change, Step};
use super::python::{Expr, Stmt, ast};
use super::statement::{Arm, StmtId, StmtKind};
use super::walk;

/// Bases of the library whose constructor sets up nothing that attributes depend on.
const PLAIN_BASES: [&str; 22] = [
    "object", "Dataset", "IterableDataset", "Sampler", "BatchSampler", "ABC", "Protocol", "Generic", "Enum", "IntEnum", "StrEnum",
    "NamedTuple", "TypedDict", "dict", "list", "Exception", "RuntimeError", "ValueError", "Mapping", "Sequence", "Callable",
    "SimpleNamespace",
];

impl Linker<'_> {
    pub(crate) fn idioms(&mut self) {
        let ran: Vec<StmtId> = self.observed.executed.iter().copied().collect();
        for &id in &ran {
            self.parsed_options(id);
            self.records(id);
            self.base_constructor(id);
            self.exits(id);
            self.handlers(id);
        }
    }

    /// Declares the options of the command line as attributes of what `parse_args` gives.
    pub(crate) fn options(&mut self) {
        for id in self.observed.executed.iter().copied().collect::<Vec<_>>() {
            let Some(node) = self.program.node(id) else { continue };
            for option in options_of(node) {
                self.attributes.entry(option.dest).or_default().push(Attribute {
                    by: id,
                    owner: BTreeSet::new(),
                    is_whole: true,
                    is_method: false,
                    is_option: true,
                    strength: Strength::Hard,
                });
            }
        }
    }

    /// `parse_args` fails on options that were typed and are not declared.
    fn parsed_options(&mut self, id: StmtId) {
        let Some(node) = self.program.node(id) else { return };
        if !walk::calls(node).iter().any(|call| walk::callee_name(call) == "parse_args") {
            return;
        }
        for other in self.observed.executed.iter().copied().collect::<Vec<_>>() {
            let Some(node) = self.program.node(other) else { continue };
            let is_typed = options_of(node).iter().any(|option| {
                option.strings.is_empty() || option.strings.iter().any(|name| self.observed.argv.iter().any(|word| types(word, name)))
            });
            let is_parser = walk::calls(node).iter().any(|call| ["add_subparsers", "add_parser"].contains(&walk::callee_name(call)));
            if is_typed || is_parser {
                self.hard(id, other, Provenance::Option);
            }
        }
    }

    /// A record is made from its fields: those that the call names or fills by place.
    fn records(&mut self, id: StmtId) {
        let Some(node) = self.program.node(id) else { return };
        for call in walk::calls(node) {
            let Kind::Class(class) = self.expression(id, &call.func, 6) else { continue };
            let fields = self.fields(class);
            if fields.is_empty() {
                continue;
            }
            let mut place = 0;
            for (keyword, value) in names::arguments(call) {
                let field = match keyword {
                    Some(keyword) => fields.iter().find(|(name, _)| name == keyword).map(|(_, by)| *by),
                    None => {
                        place += 1;
                        fields.get(place - 1).map(|(_, by)| *by)
                    }
                };
                // `**options`: each option that is declared arrives as a field; of other mappings nothing is known.
                let is_unpacked = call.arguments.keywords.iter().any(|keyword| keyword.arg.is_none() && std::ptr::eq(&keyword.value, value));
                match (is_unpacked, is_vars(value)) {
                    (true, true) => self.option_fields(&fields),
                    (true, false) => fields.iter().for_each(|(_, by)| self.hard(id, *by, Provenance::Class)),
                    (false, _) => field.into_iter().for_each(|by| self.hard(id, by, Provenance::Class)),
                }
            }
        }
    }

    fn option_fields(&mut self, fields: &[(String, StmtId)]) {
        for (name, by) in fields {
            let declared = self.attributes.get(name).into_iter().flatten().filter(|attribute| attribute.is_option);
            for option in declared.map(|attribute| attribute.by).collect::<Vec<_>>() {
                self.hard(option, *by, Provenance::Option);
            }
        }
    }

    /// The fields of a dataclass or named tuple, those of its bases first.
    fn fields(&self, class: StmtId) -> Vec<(String, StmtId)> {
        let Some(Stmt::ClassDef(node)) = self.program.node(class) else { return Vec::new() };
        let tail = |expression: &Expr| match expression {
            Expr::Call(call) => walk::callee_name(call).to_owned(),
            Expr::Name(name) => name.id.to_string(),
            Expr::Attribute(attribute) => attribute.attr.to_string(),
            _ => String::new(),
        };
        let is_marked = node.decorator_list.iter().any(|decorator| {
            ["dataclass", "define", "frozen", "attrs"].contains(&tail(&decorator.expression).as_str())
        });
        let bases = node.arguments.iter().flat_map(|arguments| arguments.args.iter());
        let is_tuple = bases.map(tail).any(|base| ["NamedTuple", "TypedDict", "BaseModel"].contains(&base.as_str()));
        if !is_marked && !is_tuple {
            return Vec::new();
        }
        let inherited = self.bases.get(&class).into_iter().flatten().flat_map(|&base| self.fields(base));
        let own = self.program.children(class).filter_map(|child| match self.program.node(child.id) {
            Some(Stmt::AnnAssign(field)) => Some((field.target.as_name_expr()?.id.to_string(), child.id)),
            _ => None,
        });
        inherited.chain(own).collect()
    }

    /// `nn.Module` refuses attributes and calls before its constructor ran.
    fn base_constructor(&mut self, id: StmtId) {
        let calls_base = self.names.facts(id).loads.iter().any(|access| {
            matches!(access.steps.as_slice(), [.., Step::Attribute(name), Step::Call] if name == "__init__")
        });
        let scope = &self.names.scopes[self.names.scope_of(id)];
        let (true, Some(owner), Some(parent)) = (calls_base, scope.owner, scope.parent) else { return };
        let Some(class) = self.names.scopes[parent].owner else { return };
        let strength = if self.needs_constructor(class, 8) { Strength::Hard } else { Strength::Soft };
        self.need(owner, id, strength, Provenance::Class);
        let home = self.names.scope_of(id);
        for other in self.observed.executed.iter().copied().collect::<Vec<_>>() {
            let sets = self.names.scope_of(other) == home
                && self.names.facts(other).stores.iter().any(|store| store.change == Change::Attribute);
            if sets {
                self.need(other, id, strength, Provenance::Class);
            }
        }
    }

    fn needs_constructor(&self, class: StmtId, fuel: u32) -> bool {
        let (Some(Stmt::ClassDef(node)), Some(fuel)) = (self.program.node(class), fuel.checked_sub(1)) else { return true };
        let bases = node.arguments.iter().flat_map(|arguments| arguments.args.iter());
        let mut needs = false;
        for base in bases {
            needs |= match self.expression(class, base, 4) {
                Kind::Class(base) => {
                    let own = self.attributes.get("__init__").into_iter().flatten();
                    own.clone().any(|init| init.owner.contains(&base)) || self.needs_constructor(base, fuel)
                }
                _ => match base {
                    Expr::Name(name) => !PLAIN_BASES.contains(&name.id.as_str()),
                    Expr::Attribute(attribute) => !PLAIN_BASES.contains(&attribute.attr.as_str()),
                    _ => false,
                },
            };
        }
        needs
    }

    /// An endless loop needs what ends it; other exits only change how often things run.
    fn exits(&mut self, id: StmtId) {
        let statement = self.program.statement(id);
        let leaves = match statement.kind {
            StmtKind::Break | StmtKind::Continue => true,
            StmtKind::Return | StmtKind::Raise => statement.parent.is_some_and(|parent| {
                self.program.statement(parent).kind != StmtKind::FunctionDef
            }),
            _ => false,
        };
        if !leaves {
            return;
        }
        let around: Vec<StmtId> = self.program.ancestors(id).collect();
        for up in around {
            match self.program.node(up) {
                Some(Stmt::While(each)) => {
                    let is_endless = matches!(&*each.test, Expr::BooleanLiteral(_) | Expr::NumberLiteral(_));
                    let strength = if is_endless && statement.kind != StmtKind::Continue { Strength::Hard } else { Strength::Soft };
                    self.need(up, id, strength, Provenance::Control);
                    return;
                }
                Some(Stmt::For(_)) => {
                    self.soft(up, id, Provenance::Control);
                    return;
                }
                Some(Stmt::FunctionDef(_)) => {
                    self.soft(up, id, Provenance::Control);
                    return;
                }
                _ => {}
            }
        }
    }

    /// A handler runs because a statement of the body raised.
    fn handlers(&mut self, id: StmtId) {
        if self.program.statement(id).kind != StmtKind::Try {
            return;
        }
        let children: Vec<(StmtId, Arm)> = self.program.children(id).map(|child| (child.id, child.arm)).collect();
        let raised = children.iter().filter(|&&(child, arm)| arm == Arm::Body && self.observed.ran(child)).map(|&(child, _)| child);
        let Some(raised) = raised.max_by_key(|child| *child) else { return };
        for (child, arm) in children {
            if matches!(arm, Arm::Handler(_)) && self.observed.ran(child) {
                self.hard(child, raised, Provenance::Control);
            }
        }
    }
}

/// An option that a call of `add_argument` declares.
struct Declared {
    dest: String,
    /// `--lr`, `-l`; empty for a positional one.
    strings: Vec<String>,
}

fn options_of(node: &Stmt) -> Vec<Declared> {
    let calls = walk::calls(node).into_iter().filter(|call| walk::callee_name(call) == "add_argument");
    calls.filter_map(declared).collect()
}

fn declared(call: &ast::ExprCall) -> Option<Declared> {
    let words: Vec<String> = call.arguments.args.iter().filter_map(walk::literal).collect();
    let named = call.arguments.keywords.iter().find(|keyword| keyword.arg.as_ref().is_some_and(|name| name.as_str() == "dest"));
    let strings: Vec<String> = words.iter().filter(|word| word.starts_with('-')).cloned().collect();
    let long = strings.iter().find(|word| word.starts_with("--")).or(strings.first()).or(words.first());
    let dest = named.and_then(|keyword| walk::literal(&keyword.value)).or_else(|| {
        long.map(|word| word.trim_start_matches('-').replace('-', "_"))
    })?;
    Some(Declared { dest, strings })
}

/// Whether a word of the command line is an option: `--lr`, `--lr=1`, the abbreviation `--l`, `-l1`.
fn types(word: &str, option: &str) -> bool {
    let name = word.split('=').next().unwrap_or(word);
    if option.starts_with("--") { name.len() > 2 && option.starts_with(name) } else { word.starts_with(option) && !word.starts_with("--") }
}

fn is_vars(value: &Expr) -> bool {
    match value {
        Expr::Call(call) => walk::callee_name(call) == "vars",
        Expr::Attribute(attribute) => attribute.attr.as_str() == "__dict__",
        _ => false,
    }
}
