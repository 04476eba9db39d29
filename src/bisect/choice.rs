//! Owns which points to run next: information for its price, one or several at once.
//!
//! Invariant: a pure function; several at once are weighed together, so that they never all land on the favourite.
//! It decides nothing about the end.

use super::Point;
use super::belief::{Belief, Tally, broken_ranges};
use super::order::Order;
use super::rates::entropy;

/// Breakage is never certain: a point inside a broken range may work.
const MOST_BROKEN: f64 = 0.95;

/// How many runs are weighed together: the outcomes of more are too many.
const MOST_JOINT: usize = 8;
/// Points that are weighed for a batch.
const QUANTILES: usize = 32;
/// A change of less probability is not weighed.
const NEGLIGIBLE: f64 = 1e-6;

/// What is known of the points beside their answers.
pub(super) struct Field<'a> {
    pub(super) order: &'a Order,
    pub(super) costs: &'a [f64],
    pub(super) tallies: &'a [Tally],
    pub(super) testable: &'a [bool],
}

impl Field<'_> {
    /// The probability that a point can be run: broken points cluster, and the wider a broken range is known to be, the
    /// further away the next attempt goes.
    fn works(&self) -> Vec<f64> {
        let len = self.order.len();
        let mut works = vec![1.0_f64; len];
        for (first, last, _) in broken_ranges(self.tallies) {
            let reach = (last - first + 1) as f64;
            for (point, chance) in works.iter_mut().enumerate().filter(|(point, _)| !self.tallies[*point].answered()) {
                let distance = first.saturating_sub(point).max(point.saturating_sub(last)) as f64;
                *chance = chance.min(1.0 - MOST_BROKEN * (-distance / reach).exp());
            }
        }
        works
    }

    fn open(&self) -> Vec<Point> {
        (0..self.order.len()).filter(|point| self.testable[*point]).collect()
    }

    /// The point whose run tells most for its price.
    pub(super) fn one(&self, belief: &Belief) -> Option<Point> {
        let (present, gain) = belief.worth(self.order);
        let works = self.works();
        let score = |point: Point| gain[point] * works[point] / self.costs[point];
        // Of equal ones that which halves best: early on a failure that comes each time is a binary search.
        let balance = |point: Point| -(present[point] - 0.5).abs();
        self.open().into_iter().filter(|point| gain[*point] > 0.0).max_by(|a, b| {
            let (left, right) = (score(*a), score(*b));
            let close = (left - right).abs() <= 1e-9 * left.max(right);
            let by_score = if close { std::cmp::Ordering::Equal } else { left.total_cmp(&right) };
            by_score.then(balance(*a).total_cmp(&balance(*b))).then(b.cmp(a))
        })
    }

    /// As many points as there are workers, repetitions included: each is the one that adds most to those before it, so that
    /// the point before a favourite is taken before the favourite is taken twice.
    pub(super) fn several(&self, belief: &Belief, width: usize) -> Vec<Point> {
        let Some(best) = self.one(belief) else { return Vec::new() };
        if width == 1 {
            return vec![best];
        }
        let (present, _) = belief.worth(self.order);
        let works = self.works();
        let candidates = self.spread(best, &present);
        let mut batch = Batch::new(belief);
        let mut chosen = Vec::new();
        while chosen.len() < width {
            if chosen.len() % MOST_JOINT == 0 {
                batch = Batch::new(belief);
            }
            let score = |point: &Point| batch.gain(self.order, belief, *point) * works[*point] / self.costs[*point];
            let scored = candidates.iter().map(|point| (score(point), *point));
            let Some((_, point)) = scored.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1))) else { break };
            batch.add(self.order, belief, point);
            chosen.push(point);
        }
        chosen
    }

    /// Points that share the probability evenly, with those before them.
    fn spread(&self, best: Point, present: &[f64]) -> Vec<Point> {
        let mut open = self.open();
        open.sort_by(|a, b| present[*a].total_cmp(&present[*b]).then(a.cmp(b)));
        let mut candidates = vec![best];
        for number in 1..QUANTILES {
            let threshold = number as f64 / QUANTILES as f64;
            let at = open.partition_point(|point| present[*point] < threshold - 1e-12).min(open.len() - 1);
            candidates.push(open[at]);
            candidates.extend(self.runnable_before(open[at], present));
        }
        candidates.sort_unstable();
        candidates.dedup();
        candidates
    }

    /// The nearest point before another that can be run; of several that with most probability behind it.
    fn runnable_before(&self, point: Point, present: &[f64]) -> Option<Point> {
        let mut level = self.order.before(point);
        for _ in 0..self.order.len() {
            let fit = level.iter().copied().filter(|before| self.testable[*before]);
            if let Some(best) = fit.max_by(|a, b| present[*a].total_cmp(&present[*b])) {
                return Some(best);
            }
            level = level.iter().flat_map(|before| self.order.before(*before)).collect();
            level.sort_unstable();
            level.dedup();
            if level.is_empty() {
                return None;
            }
        }
        None
    }
}

/// What some runs at once are expected to tell together.
struct Batch {
    /// Group of each change: changes of one group are present at the same points of the batch.
    group: Vec<usize>,
    /// For each group, the probability of each outcome of the batch.
    outcomes: Vec<Vec<f64>>,
    /// Changes that are weighed.
    likely: Vec<Point>,
}

/// A group cut in two by one more point.
#[derive(Clone, Copy, Default)]
struct Cut {
    present: f64,
    absent: f64,
    hits: f64,
    doubt: f64,
}

impl Batch {
    fn new(belief: &Belief) -> Self {
        let likely = (0..belief.weight.len()).filter(|change| belief.weight[*change] > NEGLIGIBLE).collect();
        Self { group: vec![0; belief.weight.len()], outcomes: vec![vec![1.0]], likely }
    }

    fn cuts(&self, order: &Order, belief: &Belief, point: Point) -> Vec<Cut> {
        let mut cuts = vec![Cut::default(); self.outcomes.len()];
        for change in self.likely.iter().copied() {
            let weight = belief.weight[change];
            let cut = &mut cuts[self.group[change]];
            if order.holds(point, change) {
                cut.present += weight;
                cut.hits += weight * belief.rate[change];
                cut.doubt += weight * entropy(belief.rate[change]);
            } else {
                cut.absent += weight;
            }
        }
        cuts
    }

    /// Bits that a run of a point adds.
    fn gain(&self, order: &Order, belief: &Belief, point: Point) -> f64 {
        let cuts = self.cuts(order, belief, point);
        let quiet = entropy(belief.passing);
        let known: f64 = cuts.iter().map(|cut| cut.doubt + cut.absent * quiet).sum();
        let count = self.outcomes.first().map_or(0, Vec::len);
        let told: f64 = (0..count)
            .map(|outcome| {
                let (mut all, mut hit) = (0.0, 0.0);
                for (cut, outcomes) in cuts.iter().zip(&self.outcomes) {
                    all += outcomes[outcome] * (cut.present + cut.absent);
                    hit += outcomes[outcome] * (cut.hits + cut.absent * belief.passing);
                }
                if all > 0.0 { all * entropy((hit / all).clamp(0.0, 1.0)) } else { 0.0 }
            })
            .sum();
        (told - known).max(0.0)
    }

    fn add(&mut self, order: &Order, belief: &Belief, point: Point) {
        let cuts = self.cuts(order, belief, point);
        let mut moved = vec![None; cuts.len()];
        for (number, cut) in cuts.iter().enumerate() {
            let chance = if cut.present > 0.0 { cut.hits / cut.present } else { belief.passing };
            let split = |chance: f64, outcomes: &[f64]| -> Vec<f64> {
                outcomes.iter().flat_map(|part| [part * (1.0 - chance), part * chance]).collect()
            };
            let with = split(chance, &self.outcomes[number]);
            let without = split(belief.passing, &self.outcomes[number]);
            if cut.present > 0.0 && cut.absent > 0.0 {
                self.outcomes.push(with);
                moved[number] = Some(self.outcomes.len() - 1);
                self.outcomes[number] = without;
            } else {
                self.outcomes[number] = if cut.present > 0.0 { with } else { without };
            }
        }
        for (change, group) in self.group.iter_mut().enumerate() {
            if let Some(new) = moved[*group]
                && order.holds(point, change)
            {
                *group = new;
            }
        }
    }
}
