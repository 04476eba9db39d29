//! What needs what: the dependency graph of one traced run.
//!
//! Invariant: an edge runs from a statement to one that it needs; a set closed over hard edges and containment is a program
//! that the graph knows no objection to. Same program and trace, same graph. Must not decide what is kept.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::Direction;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;

use super::link;
use super::names::Names;
use super::parse::Program;
use super::statement::{FileId, Statement, StmtId, StmtKind, StmtSet};

/// How binding a need is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strength {
    /// A hint for the order of trials: without it the statement may behave otherwise.
    Soft,
    /// Without it the statement fails before it does its work, or works on another value.
    Hard,
}

/// Why an edge is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Provenance {
    /// The statement stands inside the other.
    Containment,
    /// It reads a name that the other binds.
    Name,
    /// It reads what the other imports, or imports what the other defines.
    Import,
    /// It calls the other, or runs because the other calls.
    Call,
    /// It reads an attribute that the other sets.
    Attribute,
    /// It uses a value that the other returns or yields.
    Return,
    /// The other decides whether or how often it runs.
    Control,
    /// It reads an object that the other changes.
    Mutation,
    /// It makes or derives from the other's class.
    Class,
    /// It reads a command line option that the other declares.
    Option,
    /// The other sets up the surroundings: a seed, a mode, a step of an optimiser.
    Setting,
    /// A trial said so.
    Learned,
}

/// One need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Need {
    /// How binding it is.
    pub strength: Strength,
    /// Why it is there.
    pub provenance: Provenance,
}

/// What a name that a trial missed is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missing {
    /// A global or local name, bound or unbound.
    Name,
    /// An attribute of an object or module.
    Attribute,
    /// A key of a dictionary.
    Key,
    /// A module of the project.
    Module,
}

/// What a traced run showed, in terms of statements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Statements that ran.
    pub executed: BTreeSet<StmtId>,
    /// Call statement and the `def` that it ran, directly or through the library.
    pub calls: Vec<(StmtId, StmtId)>,
    /// The statements on the stack at the crash, outermost first.
    pub crash: Vec<StmtId>,
    /// When each statement first ran; empty where it is not known.
    pub first: BTreeMap<StmtId, u64>,
    /// How often each statement ran; empty where it is not known.
    pub counts: BTreeMap<StmtId, u64>,
    /// What first ran no later than this ran before the failure; `None` where it is not known.
    pub until: Option<u64>,
    /// The program's arguments.
    pub argv: Vec<String>,
}

/// One executed line: line, order of its first execution, count.
pub type Line = (u32, u64, u64);

impl Observed {
    /// Reads a trace by lines: the executed lines of each file, and the calls as
    /// (caller's file, line, callee's file, first line).
    pub fn from_lines(
        program: &Program,
        lines: &BTreeMap<String, Vec<Line>>,
        calls: &[(String, u32, String, u32)],
        crash: &[(String, u32)],
        argv: &[String],
    ) -> Observed {
        let mut observed = Observed { argv: argv.to_vec(), ..Observed::default() };
        for (file, lines) in lines {
            for &(line, first, count) in lines {
                for id in program.statements_on(file, line) {
                    observed.executed.insert(id);
                    let known = observed.first.entry(id).or_insert(u64::MAX);
                    if first < *known {
                        *known = first;
                        observed.counts.insert(id, count);
                    }
                }
            }
        }
        observed.add_silent(program);
        for (file, line, callee_file, first) in calls {
            let caller = program.statement_at(file, *line);
            let callee = program.statement_at(callee_file, *first);
            if let (Some(caller), Some(callee)) = (caller, callee) {
                observed.calls.push((caller, callee));
            }
        }
        observed.calls.sort_unstable();
        observed.calls.dedup();
        observed.crash = crash.iter().filter_map(|(file, line)| program.statement_at(file, *line)).collect();
        observed
    }

    /// Statements without a line event of their own count as executed where a neighbour ran; so does what stands around.
    fn add_silent(&mut self, program: &Program) {
        let place = |statement: &Statement| (statement.file, statement.parent);
        let lively: BTreeSet<_> = self.executed.iter().map(|&id| place(program.statement(id))).collect();
        let silent = [StmtKind::Global, StmtKind::Nonlocal, StmtKind::Continue, StmtKind::Break];
        let is_silent = |statement: &&Statement| {
            let alone = statement.parent.is_some_and(|parent| self.executed.contains(&parent));
            let is_jump = matches!(statement.kind, StmtKind::Continue | StmtKind::Break);
            silent.contains(&statement.kind) && (lively.contains(&place(statement)) || is_jump && alone)
        };
        let found: Vec<StmtId> = program.statements().iter().filter(is_silent).map(|statement| statement.id).collect();
        self.executed.extend(found);
        let around: Vec<StmtId> = self.executed.iter().flat_map(|&id| program.ancestors(id)).collect();
        self.executed.extend(around);
    }

    /// The statements that ran before the failure; none where it is not known.
    pub fn before_failure(&self) -> BTreeSet<StmtId> {
        let ran = self.first.iter().filter(|(_, first)| self.until.is_some_and(|until| **first <= until));
        ran.map(|(id, _)| *id).collect()
    }

    /// The same run in terms of what is left of the original.
    pub fn follow(&self, original: &Program, after: &Program) -> Observed {
        let mut left: BTreeMap<StmtId, StmtId> = BTreeMap::new();
        for statement in after.statements() {
            if let Some(was) = after.origin(statement.id).and_then(|origin| original.at_origin(&origin)) {
                left.entry(was).or_insert(statement.id);
            }
        }
        self.mapped(|id| left.get(&id).copied())
    }

    /// A run of what is left of the original, in terms of the original.
    pub fn lift(&self, left: &Program, original: &Program) -> Observed {
        self.mapped(|id| left.origin(id).and_then(|origin| original.at_origin(&origin)))
    }

    fn mapped(&self, map: impl Fn(StmtId) -> Option<StmtId>) -> Observed {
        let mut calls: Vec<_> = self.calls.iter().filter_map(|(from, to)| Some((map(*from)?, map(*to)?))).collect();
        calls.sort_unstable();
        calls.dedup();
        Observed {
            executed: self.executed.iter().filter_map(|id| map(*id)).collect(),
            calls,
            crash: self.crash.iter().filter_map(|id| map(*id)).collect(),
            first: self.first.iter().filter_map(|(id, &first)| Some((map(*id)?, first))).collect(),
            counts: self.counts.iter().filter_map(|(id, &count)| Some((map(*id)?, count))).collect(),
            until: self.until,
            argv: self.argv.clone(),
        }
    }

    /// Whether a statement ran.
    pub fn ran(&self, id: StmtId) -> bool {
        self.executed.contains(&id)
    }

    /// How often a statement ran; 0 where it is not known.
    pub fn count(&self, id: StmtId) -> u64 {
        self.counts.get(&id).copied().unwrap_or(0)
    }

    /// The `def`s that a statement ran.
    pub fn callees(&self, id: StmtId) -> impl Iterator<Item = StmtId> + '_ {
        let from = self.calls.partition_point(|&(caller, _)| caller < id);
        self.calls[from..].iter().take_while(move |&&(caller, _)| caller == id).map(|&(_, callee)| callee)
    }

    /// The statements that ran a `def`, in the order in which they first ran.
    pub fn callers(&self, def: StmtId) -> Vec<StmtId> {
        let mut callers: Vec<StmtId> = self
            .calls
            .iter()
            .filter(|&&(caller, callee)| callee == def && caller != def)
            .map(|&(caller, _)| caller)
            .collect();
        callers.sort_by_key(|caller| (self.first.get(caller).copied().unwrap_or(u64::MAX), *caller));
        callers
    }
}

impl Program {
    /// The statements that the run up to the crash did without, by its order alone: those that never ran, docstrings
    /// included, and where the crash statement ran only once, those that first ran after it.
    pub fn truncate_after(&self, observed: &Observed) -> StmtSet {
        let last = observed.crash.last().filter(|&&crash| observed.count(crash) == 1);
        let end = last.and_then(|crash| observed.first.get(crash)).copied().unwrap_or(u64::MAX);
        let came = |id: &StmtId| {
            observed.crash.contains(id) || observed.ran(*id) && observed.first.get(id).is_none_or(|&first| first <= end)
        };
        let needed = |statement: &&Statement| {
            statement.kind == StmtKind::Opaque || (statement.id.0..statement.end.0).map(StmtId).any(|id| came(&id))
        };
        self.statements().iter().filter(|statement| !needed(statement)).map(|statement| statement.id).collect()
    }
}

/// The needs of every statement of a program.
#[derive(Clone, Debug)]
pub struct Graph {
    graph: DiGraph<StmtId, Need>,
    parents: Vec<Option<StmtId>>,
    ends: Vec<StmtId>,
    names: std::sync::Arc<Names>,
    /// Statements that set an attribute or key, by its name.
    attributes: BTreeMap<String, Vec<StmtId>>,
    /// The statements of each module of the project, by the module's last name.
    modules: BTreeMap<String, Vec<StmtId>>,
}

impl Graph {
    /// Draws the graph of a program from what one run of it showed.
    pub fn build(program: &Program, observed: &Observed) -> Graph {
        let mut graph = DiGraph::new();
        for statement in program.statements() {
            graph.add_node(statement.id);
        }
        let mut modules: BTreeMap<String, Vec<StmtId>> = BTreeMap::new();
        for (index, path) in program.paths().iter().enumerate() {
            let stem = path.strip_suffix("/__init__.py").or_else(|| path.strip_suffix(".py")).unwrap_or(path);
            let name = stem.rsplit('/').next().unwrap_or(stem).to_owned();
            let file = FileId(u32::try_from(index).unwrap_or(u32::MAX));
            modules.entry(name).or_default().extend(program.statements_in(file).iter().map(|statement| statement.id));
        }
        let names = std::sync::Arc::new(Names::of(program));
        let linked = link::link(program, &names, observed);
        let mut built = Graph {
            graph,
            parents: program.statements().iter().map(|statement| statement.parent).collect(),
            ends: program.statements().iter().map(|statement| statement.end).collect(),
            names,
            attributes: linked.attributes,
            modules,
        };
        for (from, to, need) in linked.needs {
            built.add(from, to, need);
        }
        built
    }

    fn add(&mut self, from: StmtId, to: StmtId, need: Need) {
        if from != to {
            self.graph.add_edge(node(from), node(to), need);
        }
    }

    /// What a set needs: the set, all that hard edges reach from it, and the statements around those.
    pub fn closure(&self, wanted: &StmtSet) -> StmtSet {
        let mut closed = StmtSet::new();
        let mut queue: Vec<StmtId> = wanted.iter().collect();
        while let Some(id) = queue.pop() {
            if !closed.insert(id) {
                continue;
            }
            queue.extend(self.parents[id.index()]);
            queue.extend(self.needs(id).filter(|(_, need)| need.strength == Strength::Hard).map(|(to, _)| to));
        }
        closed
    }

    /// What needs a set: the set, all statements that reach it by hard edges, and what stands inside those.
    pub fn dependents(&self, wanted: &StmtSet) -> StmtSet {
        let mut all = StmtSet::new();
        let mut queue: Vec<StmtId> = wanted.iter().collect();
        while let Some(id) = queue.pop() {
            if !all.insert(id) {
                continue;
            }
            queue.extend((id.0 + 1..self.ends[id.index()].0).map(StmtId));
            let incoming = self.graph.edges_directed(node(id), Direction::Incoming);
            let hard = incoming.filter(|edge| edge.weight().strength == Strength::Hard);
            queue.extend(hard.map(|edge| self.graph[edge.source()]));
        }
        all
    }

    /// The needs of one statement, in a fixed order.
    pub fn needs(&self, id: StmtId) -> impl Iterator<Item = (StmtId, Need)> + '_ {
        let mut needs: Vec<(StmtId, Need)> =
            self.graph.edges(node(id)).map(|edge| (self.graph[edge.target()], *edge.weight())).collect();
        needs.sort_unstable();
        needs.dedup();
        needs.into_iter()
    }

    /// What only soft edges link to a set: candidates for the front of a progression.
    pub fn soft_neighbours(&self, set: &StmtSet) -> StmtSet {
        let soft = set.iter().flat_map(|id| self.needs(id)).filter(|(_, need)| need.strength == Strength::Soft);
        soft.map(|(to, _)| to).filter(|&to| !set.contains(to)).collect()
    }

    /// Every edge, in a fixed order.
    pub fn edges(&self) -> Vec<(StmtId, StmtId, Need)> {
        (0..self.parents.len())
            .map(StmtId::new)
            .flat_map(|id| self.needs(id).map(move |(to, need)| (id, to, need)))
            .collect()
    }

    /// The groups of statements that need each other, by hard edges and containment; definitions before uses.
    pub fn components(&self) -> Vec<Vec<StmtId>> {
        let mut hard: DiGraph<StmtId, ()> = DiGraph::new();
        for id in self.graph.node_weights() {
            hard.add_node(*id);
        }
        for edge in self.graph.edge_references().filter(|edge| edge.weight().strength == Strength::Hard) {
            hard.add_edge(edge.source(), edge.target(), ());
        }
        for (index, parent) in self.parents.iter().enumerate() {
            parent.iter().for_each(|&parent| {
                hard.add_edge(node(StmtId::new(index)), node(parent), ());
            });
        }
        let mut groups: Vec<Vec<StmtId>> = petgraph::algo::tarjan_scc(&hard)
            .into_iter()
            .map(|group| group.into_iter().map(|index| hard[index]).collect())
            .collect();
        groups.iter_mut().for_each(|group| group.sort_unstable());
        groups
    }

    /// Records that a trial showed a need.
    pub fn learn(&mut self, user: StmtId, definer: StmtId) {
        self.add(user, definer, Need { strength: Strength::Hard, provenance: Provenance::Learned });
    }

    /// The statements that bind what a trial missed, in program order.
    pub fn definers_of(&self, name: &str, kind: Missing) -> Vec<StmtId> {
        let attributes = || self.attributes.get(name).cloned().unwrap_or_default();
        let mut found = match kind {
            Missing::Name => self.names.binders_of(name),
            Missing::Attribute => [attributes(), self.names.binders_of(name)].concat(),
            Missing::Key => attributes(),
            Missing::Module => self.modules.get(name.rsplit('.').next().unwrap_or(name)).cloned().unwrap_or_default(),
        };
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The later statements that read a name which only this statement binds.
    pub fn readers_of(&self, id: StmtId) -> &[StmtId] {
        self.names.readers_of(id)
    }
}

fn node(id: StmtId) -> NodeIndex {
    NodeIndex::new(id.index())
}
