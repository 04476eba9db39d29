//! Owns what the answers so far say of the change points: the posterior, together with that of the rate.
//!
//! Invariant: a pure function of order, rates and tallies; changes that no testable point tells apart share a class.
//! It decides nothing.

use super::Point;
use super::order::Order;
use super::rates::{Rates, entropy};

/// What a point has shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Runs that showed the failure.
    pub hits: u32,
    /// Runs that came to their end without it.
    pub misses: u32,
    /// Attempts without an answer.
    pub skips: u32,
}

impl Tally {
    /// Whether it was run and said something.
    pub(super) fn answered(self) -> bool {
        self.hits + self.misses > 0
    }

    /// Whether it could not be run.
    pub(super) fn broken(self) -> bool {
        self.skips > 0 && !self.answered()
    }
}

/// Attempts in a range without any answer that make the rest of it count as broken as well.
const ATTEMPTS: usize = 6;

/// Stretches from one broken point to another without an answer between them: first, last, attempts.
pub(super) fn broken_ranges(tallies: &[Tally]) -> Vec<(Point, Point, usize)> {
    let mut ranges: Vec<(Point, Point, usize)> = Vec::new();
    let mut open = false;
    for (point, tally) in tallies.iter().enumerate() {
        if tally.answered() {
            open = false;
        } else if tally.broken() {
            match ranges.last_mut() {
                Some((_, last, attempts)) if open => (*last, *attempts) = (point, *attempts + 1),
                _ => ranges.push((point, point, 1)),
            }
            open = true;
        }
    }
    ranges
}

/// Whether each point can be run, as far as is known: inside of a broken range what was not tried is not tried either.
pub(super) fn testable(tallies: &[Tally]) -> Vec<bool> {
    let mut testable: Vec<bool> = tallies.iter().map(|tally| !tally.broken()).collect();
    for (first, last, _) in broken_ranges(tallies).into_iter().filter(|range| range.2 >= ATTEMPTS) {
        testable[first..=last].fill(false);
    }
    testable
}

/// The posterior.
#[derive(Clone, Debug)]
pub struct Belief {
    /// Probability of each change.
    pub weight: Vec<f64>,
    /// Expected rate of the failing side, given each change.
    pub(super) rate: Vec<f64>,
    /// Probability of each rate.
    pub(super) rates: Vec<f64>,
    /// Name of each change's class.
    pub class: Vec<usize>,
    pub(super) passing: f64,
}

impl Belief {
    /// What the tallies say.
    pub(super) fn of(order: &Order, rates: &Rates, tallies: &[Tally]) -> Self {
        let sums = |pick: fn(&Tally) -> u32| {
            let values: Vec<f64> = tallies.iter().map(|tally| f64::from(pick(tally))).collect();
            (order.present(&values), values.iter().sum::<f64>())
        };
        let (hits, all_hits) = sums(|tally| tally.hits);
        let (misses, all_misses) = sums(|tally| tally.misses);
        let (no_hit, no_miss) = (rates.passing.ln(), (1.0 - rates.passing).ln());
        let logs: Vec<Vec<f64>> = (0..order.len())
            .map(|change| {
                if change == 0 {
                    return vec![f64::NEG_INFINITY; rates.failing.len()];
                }
                let outside = (all_hits - hits[change]) * no_hit + (all_misses - misses[change]) * no_miss;
                rates
                    .failing
                    .iter()
                    .map(|(rate, weight)| {
                        weight.ln() + outside + hits[change] * rate.ln() + misses[change] * (1.0 - rate).ln()
                    })
                    .collect()
            })
            .collect();
        let top = logs.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
        let joint: Vec<Vec<f64>> = logs.iter().map(|row| row.iter().map(|log| (log - top).exp()).collect()).collect();
        let total: f64 = joint.iter().flatten().sum();
        let weight: Vec<f64> = joint.iter().map(|row| row.iter().sum::<f64>() / total).collect();
        let rate = joint
            .iter()
            .map(|row| {
                let sum: f64 = row.iter().sum();
                let mean: f64 = row.iter().zip(&rates.failing).map(|(part, (rate, _))| part * rate).sum();
                if sum > 0.0 { mean / sum } else { 1.0 }
            })
            .collect();
        let of_rate = |at: usize| joint.iter().map(|row| row[at]).sum::<f64>() / total;
        Self {
            weight,
            rate,
            rates: (0..rates.failing.len()).map(of_rate).collect(),
            class: order.classes(&testable(tallies)),
            passing: rates.passing,
        }
    }

    /// For each point, the probability that the change is present there, and what a run there is expected to tell, in bits.
    pub(super) fn worth(&self, order: &Order) -> (Vec<f64>, Vec<f64>) {
        let present = order.cumulate(&self.weight);
        let product = |other: &dyn Fn(f64) -> f64| {
            let values: Vec<f64> =
                self.weight.iter().zip(&self.rate).map(|(weight, rate)| weight * other(*rate)).collect();
            order.cumulate(&values)
        };
        let hit = product(&|rate| rate);
        let doubt = product(&entropy);
        let quiet = entropy(self.passing);
        let gain = |at: usize| {
            let chance = hit[at] + (1.0 - present[at]).max(0.0) * self.passing;
            (entropy(chance.clamp(0.0, 1.0)) - doubt[at] - (1.0 - present[at]) * quiet).max(0.0)
        };
        let gains = (0..present.len()).map(gain).collect();
        (present, gains)
    }

    /// The classes with their probability, the likeliest first; of equal ones the earlier.
    pub(super) fn ranked(&self) -> Vec<(usize, f64)> {
        let mut sums: std::collections::BTreeMap<usize, f64> = std::collections::BTreeMap::new();
        for (class, weight) in self.class.iter().zip(&self.weight).skip(1) {
            *sums.entry(*class).or_default() += weight;
        }
        let mut ranked: Vec<(usize, f64)> = sums.into_iter().collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
        ranked
    }

    /// The changes of a class.
    pub(super) fn members(&self, class: usize) -> Vec<Point> {
        (1..self.class.len()).filter(|change| self.class[*change] == class && self.weight[*change] > 0.0).collect()
    }

    /// Expected rate of the failing side.
    pub fn expected_rate(&self) -> f64 {
        self.weight.iter().zip(&self.rate).map(|(weight, rate)| weight * rate).sum()
    }
}
