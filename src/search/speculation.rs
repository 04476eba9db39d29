//! Runs ahead of a machine: which questions of its future are worth a worker now.
//!
//! Invariant: answers are adopted in the order of the decision tree, so what was asked and what was found are the same
//! for every width and every order of arrival; estimates decide only what is run early. It must not start or kill
//! anything: it names what should be running.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::machine::{Answer, Ask, Machine, Set, Step};

/// One adopted answer: a node of the decision tree that is on its true path.
#[derive(Clone, Debug, PartialEq)]
pub struct Adopted {
    /// The question.
    pub ask: Ask,
    /// Its answer.
    pub answer: Answer,
    /// It repeats an earlier question of this search, and cost no run.
    pub repeated: Repeated,
}

/// Whether an adopted question had been adopted before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeated {
    /// The first time.
    No,
    /// The same candidate was adopted before.
    Yes,
}

/// A question that may come, with the probability that it does.
#[derive(Clone, Debug, PartialEq)]
pub struct Prospect {
    /// The question.
    pub ask: Ask,
    /// Probability that the search gets to it, by the estimates.
    pub reach: f64,
}

/// What should change among the running trials.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedule {
    /// To start, most likely needed first.
    pub start: Vec<Prospect>,
    /// In flight, and no longer worth it: out of reach, or in the way of the question that all waits for.
    pub kill: Vec<Set>,
}

/// How often each kind of question hits; the machine's own expectation counts as some runs.
#[derive(Clone, Debug, Default)]
pub struct Estimates {
    counts: BTreeMap<&'static str, (f64, f64)>,
}

/// Questions looked at for each worker to find those in flight again; what is not found by then is out of reach.
const LOOK_FURTHER: usize = 8;
/// Runs that the machine's expectation counts for.
const EXPECT_RUNS: f64 = 6.0;

impl Estimates {
    /// Probability of a hit.
    pub fn chance(&self, ask: &Ask) -> f64 {
        let (hits, misses) = self.counts.get(ask.why).copied().unwrap_or_default();
        let chance = (EXPECT_RUNS * ask.expect.clamp(0.0, 1.0) + hits) / (EXPECT_RUNS + hits + misses);
        chance.clamp(0.01, 0.99)
    }

    fn count(&mut self, ask: &Ask, answer: &Answer) {
        let (hits, misses) = self.counts.entry(ask.why).or_default();
        match answer {
            Answer::Hit => *hits += 1.0,
            Answer::Miss | Answer::Named(_) => *misses += 1.0,
            Answer::Unresolved => {}
        }
    }
}

/// A machine with the answers that came in, some of them ahead of their turn.
#[derive(Clone, Debug)]
pub struct Speculation<M> {
    machine: M,
    known: BTreeMap<Set, Answer>,
    asked: BTreeSet<Set>,
    estimates: Estimates,
    done: bool,
}

/// A node of the tree, for the heap: greatest reach first, then the one found first.
struct Node<M> {
    machine: M,
    reach: f64,
    found: usize,
}

impl<M> PartialEq for Node<M> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<M> Eq for Node<M> {}

impl<M> PartialOrd for Node<M> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<M> Ord for Node<M> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.reach.total_cmp(&other.reach).then(other.found.cmp(&self.found))
    }
}

/// The open questions of a machine's future, most likely first; a question comes once.
struct Frontier<'a, M> {
    heap: BinaryHeap<Node<M>>,
    known: &'a BTreeMap<Set, Answer>,
    estimates: &'a Estimates,
    seen: BTreeSet<Set>,
    found: usize,
}

impl<M: Machine> Frontier<'_, M> {
    fn push(&mut self, machine: M, reach: f64) {
        self.found += 1;
        self.heap.push(Node { machine, reach, found: self.found });
    }

    /// The next question whose reach is at least `least`.
    fn next(&mut self, least: f64) -> Option<Prospect> {
        while let Some(Node { mut machine, reach, .. }) = self.heap.pop() {
            if reach < least {
                // Kept for a caller that looks further.
                self.push(machine, reach);
                return None;
            }
            let Step::Ask(ask) = machine.step() else { continue };
            if let Some(answer) = self.known.get(&ask.keep) {
                machine.mark(answer);
                self.push(machine, reach);
                continue;
            }
            let chance = self.estimates.chance(&ask);
            let mut hit = machine.clone();
            hit.mark(&Answer::Hit);
            machine.mark(&Answer::Miss);
            self.push(hit, reach * chance);
            self.push(machine, reach * (1.0 - chance));
            if self.seen.insert(ask.keep.clone()) {
                return Some(Prospect { ask, reach });
            }
        }
        None
    }
}

impl<M: Machine> Speculation<M> {
    /// Runs ahead of `machine`.
    pub fn new(machine: M) -> Self {
        let mut this = Self {
            machine,
            known: BTreeMap::new(),
            asked: BTreeSet::new(),
            estimates: Estimates::default(),
            done: false,
        };
        this.done = this.machine.step() == Step::Done;
        this
    }

    /// The machine, with all that is adopted and nothing that is assumed.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// The machine itself.
    pub fn into_machine(self) -> M {
        self.machine
    }

    /// Whether the machine is done: what is still in flight is of no use.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// The question that the machine waits for; `None` when it is done.
    pub fn waits_for(&self) -> Option<Ask> {
        match self.machine.clone().step() {
            Step::Ask(ask) => Some(ask),
            Step::Done => None,
        }
    }

    /// Takes in the answer of one candidate, in whatever order they arrive, and gives what it let the machine adopt, in
    /// tree order. A second answer for the same candidate is ignored.
    pub fn answer(&mut self, keep: Set, answer: Answer) -> Vec<Adopted> {
        self.known.entry(keep).or_insert(answer);
        let mut adopted = Vec::new();
        loop {
            let Step::Ask(ask) = self.machine.step() else {
                self.done = true;
                break;
            };
            let Some(answer) = self.known.get(&ask.keep).cloned() else { break };
            self.machine.mark(&answer);
            self.estimates.count(&ask, &answer);
            let repeated = if self.asked.insert(ask.keep.clone()) { Repeated::No } else { Repeated::Yes };
            adopted.push(Adopted { ask, answer, repeated });
        }
        adopted
    }

    /// What to start and what to kill so that `width` workers run the questions of greatest reach.
    ///
    /// A question below reach `1 / (4 * width)` is not started; one in flight is kept down to a quarter of that. The
    /// question that the machine waits for always gets a worker.
    pub fn schedule(&self, width: usize, in_flight: &[Set]) -> Schedule {
        let width = width.max(1);
        let least = 1.0 / (4.0 * width as f64);
        let mut frontier = Frontier {
            heap: BinaryHeap::new(),
            known: &self.known,
            estimates: &self.estimates,
            seen: BTreeSet::new(),
            found: 0,
        };
        frontier.push(self.machine.clone(), 1.0);
        let running: BTreeSet<&Set> = in_flight.iter().collect();

        let mut fresh: Vec<Prospect> = Vec::new();
        let mut kept: Vec<Set> = Vec::new();
        while fresh.len() < width && fresh.len() + kept.len() < width {
            let Some(prospect) = frontier.next(least) else { break };
            if running.contains(&prospect.ask.keep) {
                kept.push(prospect.ask.keep);
            } else {
                fresh.push(prospect);
            }
        }
        for _ in 0..LOOK_FURTHER * width {
            if kept.len() == running.len() {
                break;
            }
            let Some(prospect) = frontier.next(least / 4.0) else { break };
            if running.contains(&prospect.ask.keep) {
                kept.push(prospect.ask.keep);
            }
        }

        let mut kill: Vec<Set> = running.iter().filter(|set| !kept.contains(set)).map(|set| (*set).clone()).collect();
        let waits = usize::from(fresh.first().is_some_and(|prospect| prospect.reach >= 1.0));
        // `kept` is in falling reach, so what has to make room is its end.
        let room = (width - waits).min(kept.len());
        kill.extend(kept.drain(room..));
        fresh.truncate(width - kept.len());
        Schedule { start: fresh, kill }
    }
}
