//! The dependency graph as rows: a statement a row, needs as arcs beside them, the path of the value as numbers.
//!
//! Invariant: every arc stands in words in the row where it begins.

use crate::bundle::graph::Drawn;

/// Height of a row in pixels; the page's style has the same.
pub(super) const ROW: usize = 30;
/// Width of the arcs' area in pixels.
pub(super) const GUTTER: usize = 60;

/// What the page draws.
pub(super) struct Rows {
    pub(super) rows: Vec<Row>,
    pub(super) arcs: Vec<Arc>,
    pub(super) height: usize,
    pub(super) left_out: usize,
}

/// A row of the table: the name of a file, or a statement.
pub(super) struct Row {
    /// Set where a file begins.
    pub(super) file: String,
    pub(super) line: u32,
    pub(super) indent: usize,
    pub(super) text: String,
    /// What of the value's path happens here, in words; empty where nothing does.
    pub(super) value: String,
    /// Class of the row: `held`, `fails` or nothing.
    pub(super) class: &'static str,
    /// What it needs, in words.
    pub(super) needs: String,
}

/// An arc from a row to one that it needs.
pub(super) struct Arc {
    pub(super) path: String,
    /// `hard`, `soft` or `value`.
    pub(super) class: &'static str,
}

/// Lays a graph out.
pub(super) fn lay_out(graph: &Drawn) -> Rows {
    let mut rows: Vec<Row> = Vec::new();
    let mut places = Vec::new();
    let several = graph.nodes.iter().any(|node| Some(&node.file) != graph.nodes.first().map(|first| &first.file));
    let mut file = None;
    for (number, node) in graph.nodes.iter().enumerate() {
        if file != Some(&node.file) {
            file = Some(&node.file);
            rows.push(Row { file: node.file.clone(), ..Row::empty() });
        }
        places.push(rows.len());
        let mut value: Vec<String> = Vec::new();
        if !node.steps.is_empty() {
            let steps: Vec<String> = node.steps.iter().map(ToString::to_string).collect();
            value.push(steps.join(", "));
        }
        if node.fails {
            value.push("fails".to_owned());
        }
        rows.push(Row {
            file: String::new(),
            line: node.line,
            indent: node.depth,
            text: node.text.clone(),
            value: value.join(", "),
            class: match (node.fails, node.steps.is_empty()) {
                (true, _) => "fails",
                (false, false) => "held",
                (false, true) => "",
            },
            needs: needs(graph, number, several),
        });
    }
    let mut arcs: Vec<Arc> = graph
        .edges
        .iter()
        .filter_map(|edge| {
            let class = if edge.hard { "hard" } else { "soft" };
            Some(Arc { path: arc(*places.get(edge.from)?, *places.get(edge.to)?), class })
        })
        .collect();
    arcs.extend(value_arcs(graph, &places));
    Rows { height: (rows.len() + 1) * ROW, rows, arcs, left_out: graph.left_out }
}

impl Row {
    fn empty() -> Self {
        Self {
            file: String::new(),
            line: 0,
            indent: 0,
            text: String::new(),
            value: String::new(),
            class: "",
            needs: String::new(),
        }
    }
}

/// The value goes from each statement that held it to the next, and ends where it fails.
fn value_arcs(graph: &Drawn, places: &[usize]) -> Vec<Arc> {
    let mut stops: Vec<(usize, usize)> = Vec::new();
    for (number, node) in graph.nodes.iter().enumerate() {
        stops.extend(node.steps.iter().map(|step| (*step, places[number])));
        if node.fails {
            stops.push((usize::MAX, places[number]));
        }
    }
    stops.sort_unstable();
    let mut rows: Vec<usize> = stops.into_iter().map(|(_, row)| row).collect();
    rows.dedup();
    rows.windows(2).map(|pair| Arc { path: arc(pair[0], pair[1]), class: "value" }).collect()
}

fn needs(graph: &Drawn, from: usize, several: bool) -> String {
    let mut words = Vec::new();
    for edge in graph.edges.iter().filter(|edge| edge.from == from) {
        let Some(to) = graph.nodes.get(edge.to) else { continue };
        let place = if several && graph.nodes.get(from).is_some_and(|node| node.file != to.file) {
            format!("{}:{}", to.file, to.line)
        } else {
            to.line.to_string()
        };
        words.push(format!("{place} ({})", edge.why));
    }
    words.join(", ")
}

/// A bow to the left, the wider the longer.
fn arc(from: usize, to: usize) -> String {
    // The head of the table is a row as well.
    let middle = |row: usize| (row + 1) * ROW + ROW / 2;
    let distance = from.abs_diff(to);
    let bow = (8 + distance * 6).min(GUTTER * 4 / 3 - 8);
    let (start, end) = (middle(from), middle(to));
    let left = i64::try_from(GUTTER).unwrap_or_default() - i64::try_from(bow).unwrap_or_default();
    format!("M{GUTTER} {start}C{left} {start} {left} {end} {GUTTER} {end}")
}
