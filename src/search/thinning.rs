//! Which units of a data file are needed: the suspect alone, then halving of what is in order.
//!
//! Invariant: what is left has hit (at the start the caller's word for it), holds all that is required, and only gets
//! smaller; while a search runs its lower end missed and its upper end hit. It must not know what a unit is.
//!
//! Cost: 1 run when what is required is enough; else `ceil(log2 m) + 1` for each unit that is needed beside it, 4 more at
//! most where something is required, and 2 where any other unit will do. Searches
//! that take nothing away end it: units that are needed together are found one by one, each for that price.

use super::machine::{Answer, Ask, Machine, Set, Step};

/// Probability that what is required is enough, for the log.
const ENOUGH: f64 = 0.6;
/// Searches in a row that took nothing away, after which nothing more is looked for.
const IDLE: u32 = 2;
/// A program that cannot do with one unit often can with two: beside what is required the first 1, 2, 4, 8 come first.
const FEW: usize = 8;

#[derive(Clone, Debug)]
enum Phase {
    /// What is required is asked alone.
    Base,
    /// Of the rest, the first `low` were not enough, and the first `high` are.
    Search {
        rest: Vec<usize>,
        low: usize,
        high: usize,
    },
    Done,
}

/// The search for the units that are needed as a machine.
#[derive(Clone, Debug)]
pub struct Thinning {
    left: Set,
    required: Set,
    phase: Phase,
    /// Searches in a row that took nothing away.
    idle: u32,
}

impl Thinning {
    /// A search among `units` units, all of which hit; `required` are never asked to go.
    pub fn new(units: usize, required: impl IntoIterator<Item = usize>) -> Self {
        let required = Set::of(units, required);
        Self { left: Set::full(units), required, phase: Phase::Base, idle: 0 }
    }

    /// The units that are left.
    pub fn left(&self) -> &Set {
        &self.left
    }

    /// The units of the open question; `None` at the end.
    fn asked(&self) -> Option<Set> {
        match &self.phase {
            Phase::Base => Some(self.required.clone()),
            Phase::Search { rest, low, high } => {
                let mut keep = self.required.clone();
                keep.extend(rest[..self.middle(rest.len(), *low, *high)].iter().copied());
                Some(keep)
            }
            Phase::Done => None,
        }
    }

    fn middle(&self, all: usize, low: usize, high: usize) -> usize {
        if !self.required.is_empty() && high == all && low < FEW {
            return (2 * low).clamp(1, high - 1);
        }
        usize::midpoint(low, high)
    }

    /// A boundary was found: the unit above it is needed, and nothing above that.
    fn settle(&mut self) {
        if let Phase::Search { rest, low, high } = &self.phase
            && high - low <= 1
        {
            self.idle = if *high == rest.len() { self.idle + 1 } else { 0 };
            self.required.insert(rest[high - 1]);
            self.phase = if self.required == self.left { Phase::Done } else { Phase::Base };
        }
    }
}

impl Machine for Thinning {
    fn step(&mut self) -> Step {
        let why = if matches!(self.phase, Phase::Base) { "alone" } else { "half" };
        let expect = if matches!(self.phase, Phase::Base) { ENOUGH } else { 0.5 };
        self.asked().map_or(Step::Done, |keep| Step::Ask(Ask { keep, expect, why }))
    }

    fn mark(&mut self, answer: &Answer) {
        let Some(asked) = self.asked() else { return };
        let middle = asked.len() - self.required.len();
        if answer.is_hit() {
            self.left = asked;
        }
        self.phase = match std::mem::replace(&mut self.phase, Phase::Done) {
            Phase::Base if answer.is_hit() => Phase::Done,
            Phase::Base => {
                let rest: Vec<usize> = self.left.difference(&self.required).iter().collect();
                let high = rest.len();
                if high == 0 || self.idle >= IDLE { Phase::Done } else { Phase::Search { rest, low: 0, high } }
            }
            Phase::Search { rest, low, high } => {
                let (low, high) = if answer.is_hit() { (low, middle) } else { (middle, high) };
                Phase::Search { rest, low, high }
            }
            Phase::Done => Phase::Done,
        };
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thin(units: usize, required: &[usize], needed: &[usize]) -> (Vec<usize>, u32) {
        let mut machine = Thinning::new(units, required.iter().copied());
        let mut runs = 0;
        while let Step::Ask(ask) = machine.step() {
            runs += 1;
            let hits = needed.iter().all(|unit| ask.keep.contains(*unit));
            machine.mark(if hits { &Answer::Hit } else { &Answer::Miss });
        }
        (machine.left().iter().collect(), runs)
    }

    #[test]
    fn a_suspect_that_is_enough_costs_one_run() {
        assert_eq!(thin(200_000, &[137_000], &[137_000]), (vec![137_000], 1));
        assert_eq!(thin(300, &[], &[]), (vec![], 1));
    }

    #[test]
    fn a_needle_is_found_by_halving() {
        for needle in [0, 1, 99_999, 137_000, 199_998, 199_999] {
            let (left, runs) = thin(200_000, &[], &[needle]);
            assert!(left == [needle] && runs <= 20, "{runs} runs for {needle}, {} left", left.len());
        }
    }

    #[test]
    fn one_and_two_needles_of_small_sets_are_found_exactly() {
        for units in 2..40 {
            for one in 0..units {
                assert_eq!(thin(units, &[], &[one]).0, [one]);
                for two in one + 1..units {
                    let (left, runs) = thin(units, &[], &[one, two]);
                    let log = f64::from(u32::try_from(units).unwrap()).log2().ceil() as u32;
                    assert!(left == [one, two] && runs <= 2 * (log + 1) + 5, "{one}, {two} of {units}: {left:?}");
                    assert_eq!(thin(units, &[two], &[one, two]).0, [one, two]);
                }
            }
        }
    }

    #[test]
    fn any_second_unit_costs_two_runs() {
        let mut machine = Thinning::new(5000, [3201]);
        let mut runs = 0;
        while let Step::Ask(ask) = machine.step() {
            runs += 1;
            machine.mark(if ask.keep.len() > 1 { &Answer::Hit } else { &Answer::Miss });
        }
        assert_eq!((machine.left().iter().collect::<Vec<_>>(), runs), (vec![0, 3201], 2));
    }

    #[test]
    fn rows_that_are_all_needed_end_it_soon() {
        let all: Vec<usize> = (0..300).collect();
        let (left, runs) = thin(300, &[], &all);
        assert_eq!((left.len(), runs), (300, 25));
    }
}
