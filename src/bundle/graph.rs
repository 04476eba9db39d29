//! The dependency graph of the result, as it is drawn: statements in order, what each needs, and the path of the value.
//!
//! Invariant: statements and needs are those of the search; what is left out for want of room is counted.
//! Must not know how it is drawn.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Contents;
use crate::program::{Graph, Program, Provenance, StmtId, StmtSet, Strength};
use crate::search::traced;

/// More statements than this are not drawn.
const MOST: usize = 160;
/// Longer statements are cut.
const WIDEST: usize = 160;

/// A graph with its statements in order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Drawn {
    pub(super) nodes: Vec<Node>,
    pub(super) edges: Vec<Edge>,
    /// Statements that are not drawn.
    pub(super) left_out: usize,
}

/// A statement of the result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Node {
    pub(super) file: String,
    /// 1-based.
    pub(super) line: u32,
    /// How deep it stands.
    pub(super) depth: usize,
    /// Its first line.
    pub(super) text: String,
    /// Steps of the value's path that it makes, from 1.
    pub(super) steps: Vec<usize>,
    /// The failing call is made here.
    pub(super) fails: bool,
}

/// A need: places in the list of nodes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    /// Why.
    pub(super) why: String,
    /// Without it the statement fails.
    pub(super) hard: bool,
}

/// The graph of the result.
pub(super) fn draw(contents: &Contents<'_>) -> Drawn {
    let (original, program) = (contents.reducer.original(), contents.reducer.program());
    let argv = &contents.ground.invocation.argv;
    let observed = traced::observed(original, &contents.found.trace, &contents.found.frames, argv);
    let graph = Graph::build(program, &observed.follow(original, program));
    let of_original = left(original, program);
    let here = |file: &str, line: u32| of_original.get(&original.statement_at(file, line)?).copied();
    let fails = contents.found.frames.last().and_then(|frame| here(&frame.file, frame.line));
    let mut steps: BTreeMap<StmtId, Vec<usize>> = BTreeMap::new();
    for (number, step) in contents.explained().path.iter().enumerate() {
        if let Some(id) = here(&step.file, step.line) {
            steps.entry(id).or_default().push(number + 1);
        }
    }
    let shown = shown(program, &graph, fails, &steps);
    let places: BTreeMap<StmtId, usize> = shown.iter().enumerate().map(|(place, id)| (id, place)).collect();
    let nodes = shown
        .iter()
        .map(|id| {
            let statement = program.statement(id);
            Node {
                file: program.path(statement.file).to_owned(),
                line: statement.lines.0,
                depth: program.ancestors(id).count(),
                text: first_line(program.text_of(id)),
                steps: steps.get(&id).cloned().unwrap_or_default(),
                fails: fails == Some(id),
            }
        })
        .collect();
    let mut edges: BTreeMap<(usize, usize), (Vec<&'static str>, bool)> = BTreeMap::new();
    for (from, to, need) in graph.edges() {
        let (Some(&from), Some(&to)) = (places.get(&from), places.get(&to)) else { continue };
        if need.provenance == Provenance::Containment {
            continue;
        }
        let (why, hard) = edges.entry((from, to)).or_default();
        let word = word(need.provenance);
        if !why.contains(&word) {
            why.push(word);
        }
        *hard |= need.strength == Strength::Hard;
    }
    Drawn {
        left_out: program.statements().len() - shown.len(),
        nodes,
        edges: edges
            .into_iter()
            .map(|((from, to), (why, hard))| Edge { from, to, why: why.join(", "), hard })
            .collect(),
    }
}

/// What is left of each statement of the original.
fn left(original: &Program, program: &Program) -> BTreeMap<StmtId, StmtId> {
    let pair = |id| Some((original.at_origin(&program.origin(id)?)?, id));
    let mut pairs = BTreeMap::new();
    for (before, after) in program.statements().iter().filter_map(|statement| pair(statement.id)) {
        pairs.entry(before).or_insert(after);
    }
    pairs
}

/// All statements; of a large program what the failing call and the path need, or those alone.
fn shown(program: &Program, graph: &Graph, fails: Option<StmtId>, steps: &BTreeMap<StmtId, Vec<usize>>) -> StmtSet {
    let all = program.all();
    if all.len() <= MOST {
        return all;
    }
    let wanted: StmtSet = fails.into_iter().chain(steps.keys().copied()).collect();
    let needed = graph.closure(&wanted);
    if needed.len() <= MOST { needed } else { wanted }
}

fn first_line(text: &str) -> String {
    let mut lines = text.trim_end().lines();
    let mut first: String = lines.next().unwrap_or_default().trim_end().to_owned();
    let cut = first.char_indices().nth(WIDEST).map(|(at, _)| at);
    if let Some(at) = cut {
        first.truncate(at);
    }
    if cut.is_some() || lines.next().is_some() { first + " …" } else { first }
}

fn word(why: Provenance) -> &'static str {
    match why {
        Provenance::Containment => "inside",
        Provenance::Name => "name",
        Provenance::Import => "import",
        Provenance::Call => "call",
        Provenance::Attribute => "attribute",
        Provenance::Return => "return",
        Provenance::Control => "control",
        Provenance::Mutation => "change",
        Provenance::Class => "class",
        Provenance::Option => "option",
        Provenance::Setting => "setting",
        Provenance::Learned => "learned",
    }
}
