//! Independent proposals: which of them can be applied together.
//!
//! Invariant: the applied set hit (or is empty), and a rejected proposal was, with some part of the applied set, a
//! candidate that missed. It must not know what a proposal does.
//!
//! All together first, unless that is hopeless; on a miss the part that missed is split until a single one is to blame, and parts grow with the
//! luck so far. Cost: 1 run when all can be applied, about `log2 m` for each one that cannot, and at most 2 more than `m`
//! when nothing works and the priors were wrong. Long shots get one run together and are given up when it misses. A
//! later success could make a rejected proposal possible; a caller that minds runs another round.

use std::sync::Arc;

use super::machine::{Answer, Ask, Machine, Set, Step};

/// One change that may be applied by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proposal {
    /// What it is worth, as bytes saved; the heaviest go first.
    pub weight: f64,
    /// Probability, 0 to 1, that it can be applied.
    pub prior: f64,
}

/// Proposals below this prior are long shots.
pub const LONG_SHOT: f64 = 0.15;
/// Runs that the given prior counts for, against what is seen.
const PRIOR_RUNS: f64 = 2.0;
/// A part is as large as lets it hit with this probability.
const PART_CHANCE: f64 = 0.5;
/// All together are tried first if they hit with this probability: a hit saves all other runs.
const WHOLE_CHANCE: f64 = 0.1;

#[derive(Clone, Debug)]
struct Open {
    ask: Ask,
    part: Vec<usize>,
    long_shots: bool,
}

/// The search for an applicable subset as a machine; its questions name the subset to apply.
#[derive(Clone, Debug)]
pub struct Halving {
    proposals: Arc<Vec<Proposal>>,
    applied: Set,
    rejected: Set,
    given_up: Set,
    queue: Vec<usize>,
    long_shots: Vec<usize>,
    /// Proposals that missed together: at least one is to blame.
    tainted: Vec<usize>,
    whole: bool,
    worked: f64,
    failed: f64,
    open: Option<Open>,
}

impl Halving {
    /// A search over `proposals`, named by their index.
    pub fn new(proposals: Vec<Proposal>) -> Self {
        let mut order: Vec<usize> = (0..proposals.len()).collect();
        order.sort_by(|&a, &b| proposals[b].weight.total_cmp(&proposals[a].weight).then(a.cmp(&b)));
        let (long_shots, queue): (Vec<usize>, Vec<usize>) =
            order.into_iter().partition(|&index| proposals[index].prior < LONG_SHOT);
        let none = Set::empty(proposals.len());
        Self {
            proposals: Arc::new(proposals),
            applied: none.clone(),
            rejected: none.clone(),
            given_up: none,
            queue,
            long_shots,
            tainted: Vec::new(),
            whole: true,
            worked: 0.0,
            failed: 0.0,
            open: None,
        }
    }

    /// What can be applied together; it hit, or is empty.
    pub fn applied(&self) -> &Set {
        &self.applied
    }

    /// What missed when it was added.
    pub fn rejected(&self) -> &Set {
        &self.rejected
    }

    /// Long shots that missed together, and were not tried one by one.
    pub fn given_up(&self) -> &Set {
        &self.given_up
    }

    fn chance(&self, index: usize) -> f64 {
        let prior = self.proposals[index].prior.clamp(0.0, 1.0);
        (PRIOR_RUNS * prior + self.worked) / (PRIOR_RUNS + self.worked + self.failed)
    }

    fn together(&self, part: &[usize]) -> f64 {
        part.iter().map(|&index| self.chance(index)).product()
    }

    /// How many of the first of `list` to try together, 1 to `most`.
    fn part_length(&self, list: &[usize], most: usize) -> usize {
        let mut chance = 1.0;
        let fits = list.iter().take_while(|&&index| {
            chance *= self.chance(index);
            chance >= PART_CHANCE
        });
        fits.count().clamp(1, most.max(1))
    }

    fn next(&mut self) -> Option<Open> {
        if let [only] = self.tainted[..] {
            // With the others of its part applied, this very candidate missed before.
            self.rejected.insert(only);
            self.tainted.clear();
        }
        let long_shots = self.tainted.is_empty() && self.queue.is_empty();
        let (part, why) = if !self.tainted.is_empty() {
            let length = self.part_length(&self.tainted, self.tainted.len() / 2);
            (self.tainted[..length].to_vec(), "split")
        } else if self.whole && !self.queue.is_empty() && self.together(&self.queue) >= WHOLE_CHANCE {
            (self.queue.clone(), "all together")
        } else if !self.queue.is_empty() {
            let length = self.part_length(&self.queue, self.queue.len());
            (self.queue[..length].to_vec(), "part")
        } else {
            (self.long_shots.clone(), "long shots")
        };
        if part.is_empty() {
            return None;
        }
        let mut keep = self.applied.clone();
        keep.extend(part.iter().copied());
        let ask = Ask { keep, expect: self.together(&part), why };
        Some(Open { ask, part, long_shots })
    }

    /// Takes the open part out of the list that it is the head of.
    fn take(&mut self, length: usize) -> Vec<usize> {
        let list = if self.tainted.is_empty() { &mut self.queue } else { &mut self.tainted };
        list.drain(..length.min(list.len())).collect()
    }
}

impl Machine for Halving {
    fn step(&mut self) -> Step {
        if self.open.is_none() {
            self.open = self.next();
        }
        self.open.as_ref().map_or(Step::Done, |open| Step::Ask(open.ask.clone()))
    }

    fn mark(&mut self, answer: &Answer) {
        let Some(Open { ask, part, long_shots }) = self.open.take() else { return };
        if answer.is_hit() {
            self.applied = ask.keep;
        }
        if long_shots {
            self.long_shots.clear();
            if !answer.is_hit() {
                let into = if part.len() == 1 { &mut self.rejected } else { &mut self.given_up };
                into.extend(part);
            }
            return;
        }
        self.whole = false;
        self.take(part.len());
        match answer {
            Answer::Hit => self.worked += part.len() as f64,
            _ => {
                // What is left of a tainted list is unknown again: the part alone explains the miss.
                let mut unknown = std::mem::take(&mut self.tainted);
                unknown.append(&mut self.queue);
                self.queue = unknown;
                match part[..] {
                    [only] => {
                        self.rejected.insert(only);
                        if !matches!(answer, Answer::Unresolved) {
                            self.failed += 1.0;
                        }
                    }
                    _ => self.tainted = part,
                }
            }
        }
    }
}
