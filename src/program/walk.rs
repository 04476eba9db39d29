//! Reads the facts of one statement off its syntax tree.
//!
//! Invariant: names that a comprehension or lambda binds for itself never appear as loads. Must not look into bodies.

use std::collections::BTreeSet;

use super::names::{Access, Change, Facts, Step, Store};
use super::python::visitor::{self, Visitor};
use super::python::{Expr, ExprContext, Pattern, Stmt, ast};

/// Which annotations Python evaluates where a statement stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Annotations {
    /// All: module or class level.
    All,
    /// Those of functions, not those of names: inside a function.
    Signatures,
    /// None: the file imports them from `__future__`.
    Never,
}

/// The facts of a statement's own expressions.
pub(crate) fn facts(node: &Stmt, annotations: Annotations) -> Facts {
    let mut walk = Walk { facts: Facts::default(), hidden: Vec::new(), annotations };
    walk.statement(node);
    walk.facts
}

struct Walk {
    facts: Facts,
    /// Names bound by the comprehensions and lambdas around.
    hidden: Vec<BTreeSet<String>>,
    annotations: Annotations,
}

impl Walk {
    fn statement(&mut self, node: &Stmt) {
        match node {
            Stmt::FunctionDef(def) => {
                self.bind(&def.name);
                def.decorator_list.iter().for_each(|decorator| self.visit_expr(&decorator.expression));
                self.signature(&def.parameters);
                if self.annotations != Annotations::Never {
                    def.returns.iter().for_each(|returns| self.visit_expr(returns));
                }
            }
            Stmt::ClassDef(class) => {
                self.bind(&class.name);
                class.decorator_list.iter().for_each(|decorator| self.visit_expr(&decorator.expression));
                class.arguments.iter().for_each(|arguments| self.visit_arguments(arguments));
            }
            Stmt::For(each) => {
                self.visit_expr(&each.iter);
                self.target(&each.target);
                self.alias_elements(&each.target, &each.iter);
            }
            Stmt::While(each) => self.visit_expr(&each.test),
            Stmt::If(test) => {
                self.visit_expr(&test.test);
                test.elif_else_clauses
                    .iter()
                    .filter_map(|clause| clause.test.as_ref())
                    .for_each(|test| self.visit_expr(test));
            }
            Stmt::With(with) => {
                for item in &with.items {
                    self.visit_expr(&item.context_expr);
                    item.optional_vars.iter().for_each(|target| self.target(target));
                }
            }
            Stmt::Match(subject) => {
                self.visit_expr(&subject.subject);
                for case in &subject.cases {
                    self.visit_pattern(&case.pattern);
                    case.guard.iter().for_each(|guard| self.visit_expr(guard));
                }
            }
            Stmt::Try(guard) => {
                for ast::ExceptHandler::ExceptHandler(handler) in &guard.handlers {
                    handler.type_.iter().for_each(|class| self.visit_expr(class));
                    handler.name.iter().for_each(|name| self.bind(name));
                }
            }
            Stmt::Import(import) => {
                for alias in &import.names {
                    let name = alias.asname.as_ref().unwrap_or(&alias.name).as_str();
                    self.bind(name.split('.').next().unwrap_or(name));
                }
            }
            Stmt::ImportFrom(import) => {
                let named = import.names.iter().filter(|alias| &alias.name != "*");
                named.for_each(|alias| self.bind(alias.asname.as_ref().unwrap_or(&alias.name)));
            }
            Stmt::Assign(assign) => {
                self.visit_expr(&assign.value);
                for target in &assign.targets {
                    self.target(target);
                    if let (Expr::Name(name), Some(access)) = (target, place(&assign.value)) {
                        self.facts.aliases.insert((name.id.to_string(), access));
                    }
                }
            }
            Stmt::AnnAssign(assign) => {
                assign.value.iter().for_each(|value| self.visit_expr(value));
                if self.annotations == Annotations::All {
                    self.visit_expr(&assign.annotation);
                }
                if assign.value.is_some() || self.annotations != Annotations::Signatures {
                    self.target(&assign.target);
                }
            }
            Stmt::AugAssign(assign) => {
                self.visit_expr(&assign.value);
                match &*assign.target {
                    Expr::Name(name) => {
                        self.load(Access { root: Some(name.id.to_string()), steps: Vec::new() });
                        self.bind(&name.id);
                    }
                    target => {
                        self.visit_expr(target);
                        self.target(target);
                    }
                }
            }
            Stmt::Delete(delete) => {
                for target in &delete.targets {
                    match target {
                        Expr::Name(name) => self.load(Access { root: Some(name.id.to_string()), steps: Vec::new() }),
                        _ => self.target(target),
                    }
                }
            }
            Stmt::TypeAlias(alias) => {
                self.visit_expr(&alias.value);
                self.target(&alias.name);
            }
            Stmt::Expr(expression) => {
                self.visit_expr(&expression.value);
                self.effect(&expression.value);
            }
            _ => visitor::walk_stmt(self, node),
        }
    }

    fn bind(&mut self, name: &str) {
        self.facts.binds.insert(name.to_owned());
    }

    fn load(&mut self, access: Access) {
        if let Some(root) = &access.root
            && self.hidden.iter().any(|names| names.contains(root))
        {
            if !access.steps.is_empty() {
                self.facts.loads.insert(Access { root: None, steps: access.steps });
            }
            return;
        }
        self.facts.loads.insert(access);
    }

    fn store(&mut self, object: Access, step: Option<Step>, change: Change) {
        self.facts.stores.insert(Store { object, step, change });
    }

    fn signature(&mut self, parameters: &ast::Parameters) {
        for parameter in parameters {
            parameter.default().iter().for_each(|default| self.visit_expr(default));
            if self.annotations != Annotations::Never {
                parameter.annotation().iter().for_each(|annotation| self.visit_expr(annotation));
            }
        }
    }

    /// The target of an assignment, a loop or a `with`.
    fn target(&mut self, target: &Expr) {
        match target {
            Expr::Name(name) => self.bind(&name.id),
            Expr::Tuple(tuple) => tuple.elts.iter().for_each(|element| self.target(element)),
            Expr::List(list) => list.elts.iter().for_each(|element| self.target(element)),
            Expr::Starred(starred) => self.target(&starred.value),
            Expr::Attribute(attribute) => {
                self.visit_expr(&attribute.value);
                if let Some(object) = place(&attribute.value) {
                    self.store(object, Some(Step::Attribute(attribute.attr.to_string())), Change::Attribute);
                }
            }
            Expr::Subscript(subscript) => {
                self.visit_expr(&subscript.value);
                self.visit_expr(&subscript.slice);
                if let Some(object) = place(&subscript.value) {
                    self.store(object, Some(item(&subscript.slice)), Change::Item);
                }
            }
            _ => self.visit_expr(target),
        }
    }

    /// The names of a loop's target are parts of what it runs over.
    fn alias_elements(&mut self, target: &Expr, iter: &Expr) {
        let mut sources = Vec::new();
        elements(iter, &mut sources);
        let mut names = Vec::new();
        target_names(target, &mut names);
        for name in names {
            for source in &sources {
                let mut access = source.clone();
                access.steps.push(Step::Item);
                self.facts.aliases.insert((name.clone(), access));
            }
        }
    }

    /// A call that is a statement of its own is there for its effect.
    fn effect(&mut self, value: &Expr) {
        let Expr::Call(call) = value else { return };
        if let Expr::Attribute(attribute) = &*call.func
            && method_change(&attribute.attr).is_none()
            && let Some(object) = place(&attribute.value)
        {
            self.store(object, None, Change::Effect);
        }
    }

    fn call(&mut self, call: &ast::ExprCall) {
        if let Expr::Attribute(attribute) = &*call.func
            && let (Some(change), Some(object)) = (method_change(&attribute.attr), place(&attribute.value))
        {
            let first = call.arguments.args.first();
            match (attribute.attr.as_str(), first.and_then(literal)) {
                ("setdefault" | "pop", Some(key)) => self.store(object, Some(Step::Key(key)), change),
                ("register_buffer" | "register_parameter" | "add_module", Some(name)) => {
                    self.store(object.clone(), Some(Step::Attribute(name.clone())), Change::Attribute);
                    self.store(object, Some(Step::Key(name)), change);
                }
                _ => self.store(object, None, change),
            }
        }
        let first = call.arguments.args.first();
        let change = match callee_name(call) {
            "setattr" | "delattr" => Some(Change::Attribute),
            "heappush" | "heappop" | "heapify" | "insort" | "copyto" => Some(Change::Whole),
            "shuffle" => Some(Change::Effect),
            _ => None,
        };
        if let (Some(change), Some(object)) = (change, first.and_then(place)) {
            let step = call.arguments.args.get(1).and_then(literal).map(Step::Attribute);
            self.store(object, step.filter(|_| change == Change::Attribute), change);
        }
        for keyword in &call.arguments.keywords {
            if keyword.arg.as_ref().is_some_and(|name| name == "out")
                && let Some(object) = place(&keyword.value)
            {
                self.store(object, None, Change::Whole);
            }
        }
    }

    /// A chain of attributes, subscripts and calls: one access, and its arguments beside it.
    fn chain(&mut self, expression: &Expr) {
        let mut steps = Vec::new();
        let mut base = expression;
        loop {
            match base {
                Expr::Attribute(attribute) => {
                    steps.push(Step::Attribute(attribute.attr.to_string()));
                    base = &attribute.value;
                }
                Expr::Subscript(subscript) => {
                    steps.push(item(&subscript.slice));
                    self.visit_expr(&subscript.slice);
                    base = &subscript.value;
                }
                Expr::Call(call) => {
                    steps.push(Step::Call);
                    self.visit_arguments(&call.arguments);
                    self.call(call);
                    base = &call.func;
                }
                _ => break,
            }
        }
        steps.reverse();
        if let Expr::Name(name) = base {
            self.load(Access { root: Some(name.id.to_string()), steps });
        } else {
            self.facts.loads.insert(Access { root: None, steps });
            self.visit_expr(base);
        }
    }

    fn comprehension(&mut self, generators: &[ast::Comprehension], parts: &[&Expr]) {
        let mut names = Vec::new();
        for generator in generators {
            target_names(&generator.target, &mut names);
        }
        // The first iterable is evaluated outside.
        if let Some(first) = generators.first() {
            self.visit_expr(&first.iter);
        }
        self.hidden.push(names.into_iter().collect());
        for (index, generator) in generators.iter().enumerate() {
            if index > 0 {
                self.visit_expr(&generator.iter);
            }
            generator.ifs.iter().for_each(|test| self.visit_expr(test));
        }
        parts.iter().for_each(|part| self.visit_expr(part));
        self.hidden.pop();
    }
}

impl<'a> Visitor<'a> for Walk {
    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Name(name) => self.load(Access { root: Some(name.id.to_string()), steps: Vec::new() }),
            Expr::Attribute(_) | Expr::Subscript(_) | Expr::Call(_) => self.chain(expression),
            Expr::Named(named) => {
                self.visit_expr(&named.value);
                self.target(&named.target);
            }
            Expr::ListComp(all) => self.comprehension(&all.generators, &[&all.elt]),
            Expr::SetComp(all) => self.comprehension(&all.generators, &[&all.elt]),
            Expr::Generator(all) => self.comprehension(&all.generators, &[&all.elt]),
            Expr::DictComp(all) => {
                let parts: Vec<&Expr> = all.key.iter().map(|key| &**key).chain([&*all.value]).collect();
                self.comprehension(&all.generators, &parts);
            }
            Expr::Lambda(lambda) => {
                let parameters = lambda.parameters.as_deref();
                parameters.iter().for_each(|parameters| self.signature(parameters));
                let names = parameters.iter().flat_map(|parameters| parameters.iter());
                self.hidden.push(names.map(|parameter| parameter.name().to_string()).collect());
                self.visit_expr(&lambda.body);
                self.hidden.pop();
            }
            Expr::Yield(_) | Expr::YieldFrom(_) | Expr::Await(_) => {
                self.facts.yields = true;
                visitor::walk_expr(self, expression);
            }
            _ => visitor::walk_expr(self, expression),
        }
    }

    fn visit_expr_context(&mut self, _: &'a ExprContext) {}

    fn visit_pattern(&mut self, pattern: &'a Pattern) {
        let name = match pattern {
            Pattern::MatchAs(capture) => capture.name.as_ref(),
            Pattern::MatchStar(star) => star.name.as_ref(),
            Pattern::MatchMapping(mapping) => mapping.rest.as_ref(),
            _ => None,
        };
        name.into_iter().for_each(|name| self.bind(name));
        visitor::walk_pattern(self, pattern);
    }
}

/// What a method does to its object, by its name.
fn method_change(name: &str) -> Option<Change> {
    match name {
        "append" | "appendleft" | "extend" | "extendleft" | "insert" | "setdefault" | "add_module"
        | "register_buffer" | "register_parameter" => Some(Change::Grow),
        "add" | "update" | "pop" | "popitem" | "popleft" | "remove" | "discard" | "clear" | "sort" | "reverse"
        | "rotate" | "subtract" | "fill" | "setflags" | "partition" => Some(Change::Maybe),
        _ if name.ends_with('_') && !name.starts_with('_') => Some(Change::Whole),
        _ => None,
    }
}

/// The place that an expression names, without calls; `None` for a computed object.
pub(crate) fn place(expression: &Expr) -> Option<Access> {
    let mut steps = Vec::new();
    let mut base = expression;
    loop {
        match base {
            Expr::Attribute(attribute) => {
                steps.push(Step::Attribute(attribute.attr.to_string()));
                base = &attribute.value;
            }
            Expr::Subscript(subscript) => {
                steps.push(item(&subscript.slice));
                base = &subscript.value;
            }
            Expr::Name(name) => {
                steps.reverse();
                return Some(Access { root: Some(name.id.to_string()), steps });
            }
            _ => return None,
        }
    }
}

/// The containers that a loop over an expression takes its elements from.
fn elements(iter: &Expr, out: &mut Vec<Access>) {
    if let Some(access) = place(iter) {
        out.push(access);
    } else if let Expr::Call(call) = iter {
        let is_method = call.func.as_attribute_expr().is_some_and(|method| {
            ["items", "values", "parameters", "modules", "children", "named_parameters"].contains(&method.attr.as_str())
        });
        let is_view = call.func.as_name_expr().is_some_and(|name| {
            ["enumerate", "zip", "reversed", "sorted", "iter", "list", "tqdm"].contains(&name.id.as_str())
        });
        if is_view {
            call.arguments.args.iter().for_each(|argument| elements(argument, out));
        } else if let (true, Expr::Attribute(method)) = (is_method, &*call.func) {
            out.extend(place(&method.value));
        }
    }
}

fn target_names(target: &Expr, out: &mut Vec<String>) {
    match target {
        Expr::Name(name) => out.push(name.id.to_string()),
        Expr::Tuple(tuple) => tuple.elts.iter().for_each(|element| target_names(element, out)),
        Expr::List(list) => list.elts.iter().for_each(|element| target_names(element, out)),
        Expr::Starred(starred) => target_names(&starred.value, out),
        _ => {}
    }
}

fn item(slice: &Expr) -> Step {
    literal(slice).map_or(Step::Item, Step::Key)
}

/// The text of a string or number.
pub(crate) fn literal(expression: &Expr) -> Option<String> {
    match expression {
        Expr::StringLiteral(string) => Some(string.value.to_str().to_owned()),
        Expr::NumberLiteral(number) => match &number.value {
            ast::Number::Int(value) => Some(value.to_string()),
            _ => None,
        },
        _ => None,
    }
}

/// The calls in a statement's own expressions, outermost first.
pub(crate) fn calls(node: &Stmt) -> Vec<&ast::ExprCall> {
    let mut finder = Finder::default();
    visitor::walk_stmt(&mut finder, node);
    finder.calls
}

/// Whether a lambda stands in a statement's own expressions.
pub(crate) fn has_lambda(node: &Stmt) -> bool {
    let mut finder = Finder::default();
    visitor::walk_stmt(&mut finder, node);
    finder.lambdas > 0
}

#[derive(Default)]
struct Finder<'a> {
    calls: Vec<&'a ast::ExprCall>,
    lambdas: usize,
}

impl<'a> Visitor<'a> for Finder<'a> {
    fn visit_stmt(&mut self, _: &'a Stmt) {}

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Call(call) => self.calls.push(call),
            Expr::Lambda(_) => self.lambdas += 1,
            _ => {}
        }
        visitor::walk_expr(self, expression);
    }
}

/// The last name of what a call calls: `f` in `a.b.f(x)`.
pub(crate) fn callee_name(call: &ast::ExprCall) -> &str {
    match &*call.func {
        Expr::Name(name) => name.id.as_str(),
        Expr::Attribute(attribute) => attribute.attr.as_str(),
        _ => "",
    }
}
