//! Which calls reach which function of the project, by name.
//!
//! Owns the match of arguments to parameters. Invariant: a function is listed only when its name is bound once in the whole
//! program and every use of the name is a call that fits its parameters; doubt leaves it out. Must not follow types.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use crate::program::Program;
use crate::program::python::{AnyNodeRef, Expr, ExprContext, Stmt, TokenKind, ast, range};

use super::sequence::Sequence;
use super::view::{Brackets, View, last_name};
use super::walk::walk;

/// A function and all its calls.
pub(super) struct Callee<'a> {
    pub(super) view: View<'a>,
    pub(super) function: &'a ast::StmtFunctionDef,
    /// Parameters that a caller binds, in order of the text: not `self`.
    pub(super) parameters: Vec<Parameter<'a>>,
    pub(super) calls: Vec<Call<'a>>,
}

/// One parameter.
#[derive(Clone, Copy)]
pub(super) struct Parameter<'a> {
    pub(super) name: &'a str,
    pub(super) default: Option<&'a Expr>,
    pub(super) kind: ParameterKind,
    /// Its place in the row of the definition.
    pub(super) place: usize,
}

/// How a parameter takes arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParameterKind {
    Positional,
    Keyword,
    Rest,
    RestKeywords,
}

/// One call: for each parameter the places of its arguments in the row of the call.
pub(super) struct Call<'a> {
    pub(super) view: View<'a>,
    pub(super) row: Arc<Sequence>,
    pub(super) bound: Vec<Vec<usize>>,
    pub(super) arguments: &'a ast::Arguments,
}

/// The functions whose calls are all known, by the name that callers use.
pub(super) fn callees(program: &Program) -> BTreeMap<&str, Callee<'_>> {
    let mut found = Found::default();
    for view in View::of(program) {
        walk(&view, |node, ancestors| found.note(view, node, ancestors.last().copied()));
    }
    let modules: BTreeSet<&str> = program.paths().iter().filter_map(|path| module_leaf(path)).collect();
    found.foreign.retain(|(module, _)| !modules.contains(module));
    let foreign: BTreeSet<&str> = found.foreign.iter().map(|(_, name)| *name).collect();
    let mut callees = BTreeMap::new();
    for (name, definition) in &found.definitions {
        let once = found.bindings.get(name) == Some(&1) && !found.other_uses.contains(name) && !foreign.contains(name);
        let Some(callee) = once.then(|| definition.callee()).flatten() else { continue };
        let calls = found.calls.get(name).map_or(&[][..], Vec::as_slice);
        let bound: Option<Vec<Call<'_>>> =
            calls.iter().map(|(view, call)| definition.call(&callee, *view, call)).collect();
        if let Some(calls) = bound {
            callees.insert(*name, Callee { calls, ..callee });
        }
    }
    callees
}

fn module_leaf(path: &str) -> Option<&str> {
    let stem = path.strip_suffix(".py")?;
    let stem = stem.strip_suffix("/__init__").unwrap_or(stem);
    stem.rsplit('/').next()
}

#[derive(Default)]
struct Found<'a> {
    definitions: BTreeMap<&'a str, Definition<'a>>,
    bindings: BTreeMap<&'a str, u32>,
    calls: BTreeMap<&'a str, Vec<(View<'a>, &'a ast::ExprCall)>>,
    other_uses: BTreeSet<&'a str>,
    /// Imported names, with the last part of the module they come from.
    foreign: BTreeSet<(&'a str, &'a str)>,
}

#[derive(Clone, Copy)]
struct Definition<'a> {
    view: View<'a>,
    function: &'a ast::StmtFunctionDef,
    owner: Owner,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Nobody,
    Class,
    /// `__init__`, called by the name of its class.
    New,
}

impl<'a> Found<'a> {
    fn note(&mut self, view: View<'a>, node: AnyNodeRef<'a>, parent: Option<AnyNodeRef<'a>>) {
        match node {
            AnyNodeRef::StmtFunctionDef(function) => {
                let name = function.name.as_str();
                self.bind(name);
                let owner = match parent {
                    Some(AnyNodeRef::StmtClassDef(_)) => Owner::Class,
                    _ => Owner::Nobody,
                };
                self.definitions.insert(name, Definition { view, function, owner });
            }
            AnyNodeRef::StmtClassDef(class) => {
                let name = class.name.as_str();
                self.bind(name);
                let init = class.body.iter().find_map(|stmt| match stmt {
                    Stmt::FunctionDef(function) if function.name.as_str() == "__init__" => Some(function),
                    _ => None,
                });
                if let Some(function) = init {
                    self.definitions.insert(name, Definition { view, function, owner: Owner::New });
                }
            }
            AnyNodeRef::ExprCall(call) => {
                if let Some(name) = called(&call.func) {
                    self.calls.entry(name).or_default().push((view, call));
                }
            }
            AnyNodeRef::ExprName(name) => {
                let own = matches!(parent, Some(AnyNodeRef::ExprCall(call)) if range(&*call.func) == range(name));
                match name.ctx {
                    ExprContext::Store => self.bind(name.id.as_str()),
                    _ if !own => {
                        self.other_uses.insert(name.id.as_str());
                    }
                    _ => {}
                }
            }
            AnyNodeRef::ExprAttribute(attribute) => {
                let own = matches!(parent, Some(AnyNodeRef::ExprCall(call)) if range(&*call.func) == range(attribute));
                if !own || attribute.ctx != ExprContext::Load {
                    self.other_uses.insert(attribute.attr.as_str());
                }
            }
            AnyNodeRef::Parameter(parameter) => self.bind(parameter.name.as_str()),
            AnyNodeRef::StmtImportFrom(import) => {
                let module = import.module.as_ref().map_or("", |module| module.as_str());
                let leaf = module.rsplit('.').next().unwrap_or(module);
                for alias in &import.names {
                    if let Some(renamed) = &alias.asname {
                        self.bind(renamed.as_str());
                        self.other_uses.insert(alias.name.as_str());
                    } else if import.level == 0 {
                        self.foreign.insert((leaf, alias.name.as_str()));
                    }
                }
            }
            AnyNodeRef::Alias(alias) => {
                self.other_uses.extend(alias.asname.as_ref().map(|name| name.as_str()));
            }
            _ => {}
        }
    }

    fn bind(&mut self, name: &'a str) {
        *self.bindings.entry(name).or_default() += 1;
    }
}

fn called(func: &Expr) -> Option<&str> {
    match func {
        Expr::Name(_) | Expr::Attribute(_) => last_name(func),
        _ => None,
    }
}

impl<'a> Definition<'a> {
    /// The function without its calls; `None` when callers may see other parameters than the text shows.
    fn callee(&self) -> Option<Callee<'a>> {
        let name = self.function.name.as_str();
        let special = name.starts_with("__") || name == "forward";
        if special && self.owner != Owner::New || !self.function.parameters.posonlyargs.is_empty() {
            return None;
        }
        let decorated = |decorator: &ast::Decorator| {
            let known = ["staticmethod", "no_grad", "inference_mode", "enable_grad", "cache", "lru_cache"];
            last_name(&decorator.expression).is_none_or(|name| !known.contains(&name))
        };
        if self.function.decorator_list.iter().any(decorated) {
            return None;
        }
        let (view, function) = (self.view, self.function);
        let own = usize::from(self.owner != Owner::Nobody && !self.is_static());
        let parameters = parameters(&function.parameters);
        if own > 0 && parameters.first().is_none_or(|first| first.kind != ParameterKind::Positional) {
            return None;
        }
        let parameters = parameters.into_iter().skip(own).collect();
        Some(Callee { view, function, parameters, calls: Vec::new() })
    }

    fn is_static(&self) -> bool {
        let name = |decorator: &ast::Decorator| last_name(&decorator.expression) == Some("staticmethod");
        self.function.decorator_list.iter().any(name)
    }

    /// A call of the function; `None` when it does not fit or its receiver is somebody else's.
    fn call(&self, callee: &Callee<'a>, view: View<'a>, call: &'a ast::ExprCall) -> Option<Call<'a>> {
        let fits = match (&*call.func, self.owner) {
            (Expr::Name(_), Owner::Class) => false,
            (Expr::Attribute(attribute), Owner::Class) => last_name(&attribute.value) != Some("super"),
            (Expr::Attribute(attribute), _) => matches!(&*attribute.value, Expr::Name(_)),
            _ => true,
        };
        let bound = fits.then(|| bind(&callee.parameters, &call.arguments)).flatten()?;
        let row = view.arguments(&call.arguments, Brackets::Stay);
        let place =
            |item: Range<usize>| row.items.iter().position(|row| row.start <= item.start && item.end <= row.end);
        let bound = bound.into_iter().map(|items| items.into_iter().map(place).collect());
        let bound = bound.collect::<Option<Vec<Vec<usize>>>>()?;
        Some(Call { view, row, bound, arguments: &call.arguments })
    }
}

fn parameters(all: &ast::Parameters) -> Vec<Parameter<'_>> {
    let mut found = Vec::new();
    let mut push = |name, default, kind| {
        let place = found.len();
        found.push(Parameter { name, default, kind, place });
    };
    for parameter in &all.args {
        push(parameter.parameter.name.as_str(), parameter.default.as_deref(), ParameterKind::Positional);
    }
    if let Some(rest) = &all.vararg {
        push(rest.name.as_str(), None, ParameterKind::Rest);
    }
    for parameter in &all.kwonlyargs {
        push(parameter.parameter.name.as_str(), parameter.default.as_deref(), ParameterKind::Keyword);
    }
    if let Some(rest) = &all.kwarg {
        push(rest.name.as_str(), None, ParameterKind::RestKeywords);
    }
    found
}

/// The row of the parameters of a definition, stars included.
pub(super) fn row(view: &View<'_>, all: &ast::Parameters) -> Option<Arc<Sequence>> {
    let whole = range(all);
    if !view.text[whole.clone()].starts_with('(') {
        return None;
    }
    let mut items = Vec::new();
    for parameter in all {
        let own = range(&parameter);
        let star =
            view.previous(own.start).filter(|token| matches!(token.kind(), TokenKind::Star | TokenKind::DoubleStar));
        items.push(star.map_or(own.start, |star| range(star).start)..own.end);
    }
    if let (None, Some(first)) = (&all.vararg, all.kwonlyargs.first()) {
        let star = view.find(TokenKind::Star, whole.start..range(first).start)?;
        items.iter_mut().filter(|item| item.start == range(first).start).for_each(|item| item.start = star);
    }
    let inside = whole.start + 1..whole.end - 1;
    Some(Arc::new(view.sequence(items, &inside, Some(inside.clone()))))
}

/// The ranges of the arguments of each parameter; `None` when the call does not fit or unpacks.
fn bind(parameters: &[Parameter<'_>], arguments: &ast::Arguments) -> Option<Vec<Vec<Range<usize>>>> {
    let mut bound = vec![Vec::new(); parameters.len()];
    let rest = |kind| parameters.iter().position(|parameter| parameter.kind == kind);
    let positional: Vec<usize> =
        (0..parameters.len()).filter(|&at| parameters[at].kind == ParameterKind::Positional).collect();
    for (nth, argument) in arguments.args.iter().enumerate() {
        if matches!(argument, Expr::Starred(_)) {
            return None;
        }
        let at = positional.get(nth).copied().or_else(|| rest(ParameterKind::Rest))?;
        bound[at].push(range(argument));
    }
    for keyword in &arguments.keywords {
        let name = keyword.arg.as_ref()?.as_str();
        let named = |parameter: &Parameter<'_>| {
            parameter.name == name && matches!(parameter.kind, ParameterKind::Positional | ParameterKind::Keyword)
        };
        let at = parameters.iter().position(named).or_else(|| rest(ParameterKind::RestKeywords))?;
        bound[at].push(range(keyword));
    }
    let missing = |(parameter, items): (&Parameter<'_>, &Vec<Range<usize>>)| {
        let needed = matches!(parameter.kind, ParameterKind::Positional | ParameterKind::Keyword);
        needed && parameter.default.is_none() && items.is_empty()
    };
    (!parameters.iter().zip(&bound).any(missing)).then_some(bound)
}
