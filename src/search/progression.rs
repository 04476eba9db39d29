//! Binary reduction on closures: from the slice of the crash to a small set that still hits.
//!
//! Invariant: the universe is a set that hit (at the start the caller's word for it), every hit makes it smaller, and
//! while a search runs its lower end missed and its upper end hit. Hits may be surprising (non-monotone); the result is
//! a hit all the same. It must not judge minimality: that is the sweep's.
//!
//! Cost: 1 run when the slice is enough; else `ceil(log2 m) + 1` runs for each missing item that no error names, 1 for
//! each that an error names, and 1 for each probe that misses.

use std::sync::Arc;

use super::machine::{Answer, Ask, Machine, Set, Step};

/// What keeping an element forces: the hard edges of a dependency graph, which errors may extend.
pub trait Closures: Clone {
    /// The least superset of `seed` within `within` that holds all that its elements need there.
    fn closure(&self, seed: &Set, within: &Set) -> Set;

    /// From now on `user` needs `definer`.
    fn learn(&mut self, user: usize, definer: usize);

    /// What `element` would add to the closed set `have`, itself included, in rising order.
    fn missing(&self, element: usize, have: &Set, within: &Set) -> Vec<usize> {
        let mut seed = have.clone();
        seed.insert(element);
        self.closure(&seed, within).difference(have).iter().collect()
    }
}

/// Hard edges as adjacency lists. A cycle is one element in effect: each member's closure has all of it.
#[derive(Clone, Debug)]
pub struct HardEdges {
    definers: Arc<Vec<Vec<usize>>>,
}

impl HardEdges {
    /// Edges `(user, definer)` of a universe of `universe` elements; edges that leave it are dropped.
    pub fn new(universe: usize, edges: impl IntoIterator<Item = (usize, usize)>) -> Self {
        let mut definers = vec![Vec::new(); universe];
        for (user, definer) in edges {
            if user < universe && definer < universe && user != definer {
                definers[user].push(definer);
            }
        }
        Self { definers: Arc::new(definers) }
    }

    /// What `user` needs directly.
    pub fn definers(&self, user: usize) -> &[usize] {
        self.definers.get(user).map_or(&[], Vec::as_slice)
    }

    /// All edges, `(user, definer)`.
    pub fn edges(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.definers
            .iter()
            .enumerate()
            .flat_map(|(user, definers)| definers.iter().map(move |&definer| (user, definer)))
    }

    fn reach(&self, from: Vec<usize>, reached: &mut Set, within: &Set) -> Vec<usize> {
        let mut added = Vec::new();
        let mut open = from;
        while let Some(element) = open.pop() {
            if within.contains(element) && reached.insert(element) {
                added.push(element);
                open.extend(self.definers(element));
            }
        }
        added.sort_unstable();
        added
    }
}

impl Closures for HardEdges {
    fn closure(&self, seed: &Set, within: &Set) -> Set {
        let mut reached = Set::empty(within.universe());
        self.reach(seed.iter().collect(), &mut reached, within);
        reached
    }

    fn learn(&mut self, user: usize, definer: usize) {
        let universe = self.definers.len();
        if user < universe && definer < universe && user != definer && !self.definers[user].contains(&definer) {
            Arc::make_mut(&mut self.definers)[user].push(definer);
        }
    }

    fn missing(&self, element: usize, have: &Set, within: &Set) -> Vec<usize> {
        self.reach(vec![element], &mut have.clone(), within)
    }
}

/// A first candidate beside the slice: the slice with set-up statements, the static slice, what ran before the crash.
#[derive(Clone, Debug)]
pub struct Probe {
    /// What it keeps; the slice and all that is needed are added.
    pub keep: Set,
    /// Probability of a hit, for speculation.
    pub expect: f64,
    /// Its name in the log.
    pub why: &'static str,
}

/// What a progression starts from.
#[derive(Clone, Debug)]
pub struct Problem<C> {
    /// A set that hits.
    pub universe: Set,
    /// What is needed for certain, as the crash statement; empty where nothing is known. The empty set is never asked.
    pub required: Set,
    /// The hard edges.
    pub closures: C,
    /// Soft edges `(user, definer)`: they order the search, they never force.
    pub soft: Vec<(usize, usize)>,
    /// Tried after the slice, in this order, until one hits; smallest first is best.
    pub probes: Vec<Probe>,
    /// How likely each element is among the missing ones, in proportion; empty means all alike. Elements that the trace
    /// saw not run deserve little.
    pub weights: Vec<f64>,
}

/// One step of the progression: what `head` adds to the prefix before it.
#[derive(Clone, Debug)]
struct Rung {
    head: usize,
    adds: Vec<usize>,
    weight: f64,
}

/// A running search for the boundary: prefix `low` missed, prefix `high` hits.
#[derive(Clone, Debug)]
struct Boundary {
    rungs: Arc<Vec<Rung>>,
    base: Set,
    low: usize,
    high: usize,
    /// The set that hit, which is prefix `high` unless errors had added to it.
    hit: Set,
}

#[derive(Clone, Debug)]
enum Phase {
    /// The closure of what is learned is the next candidate.
    Base,
    /// The base missed; the probes that are left come next.
    Probes,
    Search(Boundary),
    Done,
}

#[derive(Clone, Debug)]
struct Open {
    ask: Ask,
    /// The middle rung, in a search.
    middle: usize,
}

/// Closure-based binary reduction as a machine.
#[derive(Clone, Debug)]
pub struct Progression<C> {
    universe: Set,
    learned: Set,
    required: usize,
    closures: C,
    soft: Arc<Vec<(usize, usize)>>,
    probes: Arc<Vec<Probe>>,
    weights: Arc<Vec<f64>>,
    misses: Vec<Arc<Set>>,
    phase: Phase,
    next_probe: usize,
    open: Option<Open>,
}

/// How much likelier a statement is that a soft edge links to the slice.
const SOFT_FACTOR: f64 = 4.0;
/// Soft edges are followed so far when statements are moved to the front.
const SOFT_DEPTH: usize = 3;
/// Of two splits that differ by no more than this the earlier is taken, so that rounding decides nothing.
const ROUNDING: f64 = 1e-9;
/// The least share of the mean weight that an element keeps, so that a bad prior costs a few runs, not many.
const LEAST_WEIGHT: f64 = 0.02;

impl<C: Closures> Progression<C> {
    /// A search in `problem.universe`.
    pub fn new(problem: Problem<C>) -> Self {
        let learned = problem.required.intersection(&problem.universe);
        Self {
            universe: problem.universe,
            required: learned.len(),
            learned,
            closures: problem.closures,
            soft: Arc::new(problem.soft),
            probes: Arc::new(problem.probes),
            weights: Arc::new(problem.weights),
            misses: Vec::new(),
            phase: Phase::Base,
            next_probe: 0,
            open: None,
        }
    }

    /// The smallest set so far that hit; the universe itself before the first hit.
    pub fn best(&self) -> &Set {
        match &self.phase {
            Phase::Search(boundary) => &boundary.hit,
            _ => &self.universe,
        }
    }

    /// What the search found to be needed, beside what was required.
    pub fn learned(&self) -> &Set {
        &self.learned
    }

    /// The edges with those that errors named.
    pub fn closures(&self) -> &C {
        &self.closures
    }

    /// The candidates that missed with a verdict.
    pub fn misses(&self) -> impl Iterator<Item = &Set> {
        self.misses.iter().map(AsRef::as_ref)
    }

    fn base(&self) -> Set {
        self.closures.closure(&self.learned, &self.universe)
    }

    fn known_miss(&self, keep: &Set) -> bool {
        keep.is_empty() || self.misses.iter().any(|miss| **miss == *keep)
    }

    /// Learns what an error named; gives the definers that `keep` lacks and `within` has.
    fn learn(&mut self, edges: &[(usize, usize)], keep: &Set, within: &Set) -> Vec<usize> {
        let mut found = Vec::new();
        let mut settled: Vec<usize> = Vec::new();
        for &(user, definer) in edges {
            if !settled.contains(&user) && keep.contains(user) && within.contains(definer) && !keep.contains(definer) {
                settled.push(user);
                self.closures.learn(user, definer);
                found.push(definer);
            }
        }
        found
    }

    fn start_search(&mut self, base: Set) {
        let rungs = self.progression(&base);
        let mut low = 0;
        let mut prefix = base.clone();
        for (index, rung) in rungs.iter().enumerate() {
            prefix.extend(rung.adds.iter().copied());
            if index + 1 < rungs.len() && self.known_miss(&prefix) {
                low = index + 1;
            }
        }
        let high = rungs.len();
        let hit = self.universe.clone();
        self.phase = Phase::Search(Boundary { rungs: Arc::new(rungs), base, low, high, hit });
    }

    /// The universe without `base`, as steps of which each adds one element, or one cycle, to the closed set before it.
    ///
    /// First what missed before (so that it need not be asked again), then what soft edges link to the base, nearest
    /// first, then the rest; program order within each, and definitions before their uses everywhere.
    fn progression(&self, base: &Set) -> Vec<Rung> {
        let rest = self.universe.difference(base);
        let (links, levels) = self.soft_levels(base);
        let missed = self.misses.iter().filter(|miss| base.is_subset(miss) && miss.is_subset(&self.universe));
        let missed = missed.max_by_key(|miss| miss.len());
        let mut order: Vec<usize> = rest.iter().collect();
        order.sort_by_key(|&element| (missed.is_some_and(|miss| !miss.contains(element)), levels[element], element));

        let least = {
            let total: f64 = rest.iter().map(|element| self.weight(element)).sum();
            LEAST_WEIGHT * total / order.len().max(1) as f64
        };
        let mut have = base.clone();
        let mut rungs = Vec::with_capacity(order.len());
        for element in order {
            if have.contains(element) {
                continue;
            }
            let missing = self.closures.missing(element, &have, &self.universe);
            let mut heads: Vec<(usize, usize)> = match missing.as_slice() {
                [only] => vec![(1, *only)],
                several => several
                    .iter()
                    .map(|&head| (self.closures.missing(head, &have, &self.universe).len(), head))
                    .collect(),
            };
            heads.sort_unstable();
            for (_, head) in heads {
                if have.contains(head) {
                    continue;
                }
                let adds = self.closures.missing(head, &have, &self.universe);
                let weight = adds
                    .iter()
                    .map(|&add| self.weight(add).max(least) * if links.contains(add) { SOFT_FACTOR } else { 1.0 })
                    .sum();
                have.extend(adds.iter().copied());
                rungs.push(Rung { head, adds, weight });
            }
        }
        rungs
    }

    fn weight(&self, element: usize) -> f64 {
        match self.weights.get(element) {
            Some(weight) if weight.is_finite() && *weight >= 0.0 => *weight,
            Some(_) => 0.0,
            None => 1.0,
        }
    }

    /// Which elements a soft edge links to the base directly, and how many soft edges away each element is.
    fn soft_levels(&self, base: &Set) -> (Set, Vec<usize>) {
        let mut levels = vec![SOFT_DEPTH + 1; self.universe.universe()];
        let mut reached = base.clone();
        let mut links = Set::empty(self.universe.universe());
        for level in 1..=SOFT_DEPTH {
            let targets = self.soft.iter().filter(|(user, definer)| {
                reached.contains(*user) && !reached.contains(*definer) && self.universe.contains(*definer)
            });
            let targets = Set::of(self.universe.universe(), targets.map(|&(_, definer)| definer));
            if targets.is_empty() {
                break;
            }
            if level == 1 {
                links = targets.clone();
            }
            let next = self.closures.closure(&reached.union(&targets), &self.universe);
            for element in next.difference(&reached).iter() {
                levels[element] = level;
            }
            reached = next;
        }
        (links, levels)
    }

    /// The boundary is found: its head is needed, and nothing after it is.
    fn settle(&mut self, boundary: Boundary) {
        if let Some(rung) = boundary.high.checked_sub(1).and_then(|last| boundary.rungs.get(last)) {
            self.learned.insert(rung.head);
        }
        self.universe = boundary.hit;
        self.phase = Phase::Base;
    }

    fn next(&mut self) -> Option<Open> {
        loop {
            match self.phase.clone() {
                Phase::Done => return None,
                Phase::Base => {
                    let keep = self.base();
                    if keep == self.universe {
                        self.phase = Phase::Done;
                    } else if self.known_miss(&keep) {
                        self.phase = Phase::Probes;
                    } else {
                        let (expect, why) =
                            if self.learned.len() > self.required { (0.6, "learned") } else { (0.8, "slice") };
                        return Some(Open { ask: Ask { keep, expect, why }, middle: 0 });
                    }
                }
                Phase::Probes => {
                    let base = self.base();
                    let Some(probe) = self.probes.get(self.next_probe) else {
                        self.start_search(base);
                        continue;
                    };
                    let keep = self.closures.closure(&base.union(&probe.keep), &self.universe);
                    if keep != self.universe && !self.known_miss(&keep) {
                        let ask = Ask { keep, expect: probe.expect, why: probe.why };
                        return Some(Open { ask, middle: 0 });
                    }
                    self.next_probe += 1;
                }
                Phase::Search(boundary) => match boundary.middle() {
                    Some((middle, expect)) => {
                        let ask = Ask { keep: boundary.prefix(middle), expect, why: "search" };
                        return Some(Open { ask, middle });
                    }
                    None => self.settle(boundary),
                },
            }
        }
    }
}

impl Boundary {
    fn prefix(&self, length: usize) -> Set {
        let mut prefix = self.base.clone();
        for rung in &self.rungs[..length] {
            prefix.extend(rung.adds.iter().copied());
        }
        prefix
    }

    /// The rung strictly between the ends that halves the prior, and the share of the prior up to it.
    fn middle(&self) -> Option<(usize, f64)> {
        if self.high <= self.low + 1 {
            return None;
        }
        let total: f64 = self.rungs[self.low..self.high].iter().map(|rung| rung.weight).sum();
        let mut sum = 0.0;
        let mut best = (self.low + 1, f64::INFINITY, 0.5);
        for middle in self.low + 1..self.high {
            sum += self.rungs[middle - 1].weight;
            let share = if total > 0.0 { sum / total } else { 0.5 };
            let off = (share - 0.5).abs();
            if off + ROUNDING < best.1 {
                best = (middle, off, share);
            }
        }
        Some((best.0, best.2))
    }
}

impl<C: Closures> Machine for Progression<C> {
    fn step(&mut self) -> Step {
        if self.open.is_none() {
            self.open = self.next();
        }
        self.open.as_ref().map_or(Step::Done, |open| Step::Ask(open.ask.clone()))
    }

    fn mark(&mut self, answer: &Answer) {
        let Some(Open { ask, middle }) = self.open.take() else { return };
        let keep = ask.keep;
        if matches!(answer, Answer::Miss | Answer::Named(_)) {
            self.misses.push(Arc::new(keep.clone()));
        }
        let named = match answer {
            Answer::Named(edges) => edges.as_slice(),
            _ => &[],
        };
        match &mut self.phase {
            Phase::Done => {}
            Phase::Base if answer.is_hit() => {
                self.universe = keep;
                self.phase = Phase::Done;
            }
            Phase::Base => {
                let universe = self.universe.clone();
                if self.learn(named, &keep, &universe).is_empty() {
                    self.phase = Phase::Probes;
                }
            }
            Phase::Probes if answer.is_hit() => {
                self.universe = keep;
                self.next_probe = self.probes.len();
            }
            Phase::Probes => {
                self.next_probe += 1;
                let universe = self.universe.clone();
                if !self.learn(named, &keep, &universe).is_empty() {
                    self.phase = Phase::Base;
                }
            }
            Phase::Search(boundary) if answer.is_hit() => {
                boundary.high = middle;
                boundary.hit = keep;
            }
            Phase::Search(boundary) => {
                let within = boundary.hit.clone();
                boundary.low = middle;
                self.learn(named, &keep, &within);
            }
        }
    }
}
