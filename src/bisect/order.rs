//! Owns the order of the points of an axis: a chain, or a graph of commits.
//!
//! Invariant: point 0 is the passing end and the last one the failing end; a change at a point is present there and at all
//! that come after it. Point 0 is no change.
//! It knows nothing of answers.

use std::collections::BTreeMap;

use fixedbitset::FixedBitSet;

use super::Point;

/// The order of the points of an axis.
#[derive(Clone, Debug)]
pub enum Order {
    /// Each point comes after the one before it; the number of points.
    Chain(usize),
    /// Points with parents.
    Graph(Graph),
}

/// Points of which each comes after its parents.
#[derive(Clone, Debug)]
pub struct Graph {
    parents: Vec<Vec<Point>>,
    /// The changes that each point has.
    held: Vec<FixedBitSet>,
}

impl Order {
    /// The order of points with parents; a parent stands before its children, and the last point after all others.
    pub fn graph(parents: Vec<Vec<Point>>) -> Self {
        let mut held: Vec<FixedBitSet> = Vec::with_capacity(parents.len());
        for (point, own) in parents.iter().enumerate() {
            let mut set = FixedBitSet::with_capacity(parents.len());
            for parent in own.iter().filter(|parent| **parent < point) {
                set.union_with(&held[*parent]);
            }
            if point > 0 {
                set.insert(point);
            }
            held.push(set);
        }
        Self::Graph(Graph { parents, held })
    }

    /// Number of points, both ends included.
    pub fn len(&self) -> usize {
        match self {
            Self::Chain(points) => *points,
            Self::Graph(graph) => graph.parents.len(),
        }
    }

    /// Whether there is no point at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a change at `change` is present at `point`.
    pub fn holds(&self, point: Point, change: Point) -> bool {
        match self {
            Self::Chain(_) => change <= point,
            Self::Graph(graph) => graph.held[point].contains(change),
        }
    }

    /// The points directly before a point; the passing end where there is none.
    pub fn before(&self, point: Point) -> Vec<Point> {
        match self {
            Self::Chain(_) => point.checked_sub(1).into_iter().collect(),
            Self::Graph(graph) if point > 0 && graph.parents[point].is_empty() => vec![0],
            Self::Graph(graph) => graph.parents[point].clone(),
        }
    }

    /// For each point, the sum of `values` over the changes that are present there.
    pub(super) fn cumulate(&self, values: &[f64]) -> Vec<f64> {
        match self {
            Self::Chain(_) => {
                let mut sum = 0.0;
                let running = |(at, value): (usize, &f64)| {
                    sum += if at == 0 { 0.0 } else { *value };
                    sum
                };
                values.iter().enumerate().map(running).collect()
            }
            Self::Graph(graph) => {
                graph.held.iter().map(|held| held.ones().map(|change| values[change]).sum()).collect()
            }
        }
    }

    /// For each change, the sum of `values` over the points where it is present; `values` are zero for most points.
    pub(super) fn present(&self, values: &[f64]) -> Vec<f64> {
        match self {
            Self::Chain(points) => {
                let mut sums = vec![0.0; *points];
                let mut sum = 0.0;
                for point in (0..*points).rev() {
                    sum += values[point];
                    sums[point] = sum;
                }
                sums
            }
            Self::Graph(graph) => {
                let mut sums = vec![0.0; graph.held.len()];
                for (point, value) in values.iter().enumerate().filter(|(_, value)| **value != 0.0) {
                    graph.held[point].ones().for_each(|change| sums[change] += value);
                }
                sums
            }
        }
    }

    /// For each change, a name of the set of `testable` points where it is present: changes of one name cannot be told apart.
    pub(super) fn classes(&self, testable: &[bool]) -> Vec<usize> {
        match self {
            Self::Chain(points) => {
                let mut next = points.saturating_sub(1);
                let mut names = vec![0; *points];
                for point in (0..*points).rev() {
                    if testable[point] {
                        next = point;
                    }
                    names[point] = next;
                }
                names
            }
            Self::Graph(graph) => {
                let mut present: Vec<Vec<Point>> = vec![Vec::new(); graph.held.len()];
                for point in (0..graph.held.len()).filter(|point| testable[*point]) {
                    graph.held[point].ones().for_each(|change| present[change].push(point));
                }
                let mut names: BTreeMap<&[Point], usize> = BTreeMap::new();
                let mut name = |change: Point| {
                    let set = present[change].as_slice();
                    // A change that can be run names its class; it is the first point where it is present.
                    let own = set.first().copied().filter(|first| present[*first] == set).unwrap_or(change);
                    *names.entry(set).or_insert(own)
                };
                (0..present.len()).map(&mut name).collect()
            }
        }
    }
}
