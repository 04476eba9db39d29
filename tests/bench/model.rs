//! Random programs for the search: statements, what they need, what a graph knows of it, and an oracle that costs nothing.
//!
//! `n` statements with one to three dependencies each, 35 % of them on a few early hubs, the rest on earlier statements
//! at exponentially distributed distance (mean `n / 12`). The crash statement stands in the second half; its closure with
//! `sinks - 1` further needed statements has 8 to 12 members. A candidate hits if it has all that is needed and every kept
//! statement up to the crash has its dependencies. Some core edges are hidden from the graph; an error may name them.

use std::collections::BTreeSet;

use reduce::search::machine::{Answer, Set};
use reduce::search::progression::HardEdges;

/// SplitMix64: small, and the same on every machine.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5851_F42D_4C95_7F2D)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in `0..below`; 0 where that is empty.
    pub(crate) fn below(&mut self, below: usize) -> usize {
        (self.unit() * below as f64) as usize
    }

    /// Uniform in `[0, 1)`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

/// The random-program model's parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) statements: usize,
    /// Needed statements that no other needed one pulls in; the crash is one of them.
    pub(crate) sinks: usize,
    /// Share of the core edges that the graph does not know.
    pub(crate) hidden: f64,
    /// Share of those whose absence the error names.
    pub(crate) named: f64,
}

/// One random program.
pub(crate) struct Program {
    pub(crate) statements: usize,
    pub(crate) crash: usize,
    pub(crate) needed: Vec<usize>,
    /// The least set that hits.
    pub(crate) core: BTreeSet<usize>,
    needs: Vec<Vec<usize>>,
    hidden: BTreeSet<(usize, usize)>,
    named: BTreeSet<(usize, usize)>,
    pub(crate) soft: Vec<(usize, usize)>,
}

const HUBS: usize = 4;

impl Program {
    pub(crate) fn random(shape: Shape, random: &mut Random) -> Self {
        loop {
            if let Some(program) = Self::attempt(shape, random) {
                return program;
            }
        }
    }

    fn attempt(shape: Shape, random: &mut Random) -> Option<Self> {
        let n = shape.statements;
        let mut needs: Vec<Vec<usize>> = Vec::with_capacity(n);
        for user in 0..n {
            let mut definers = Vec::new();
            for _ in 0..1 + random.below(3) {
                let definer = if random.chance(0.35) {
                    random.below(HUBS.min(n))
                } else {
                    let distance = 1 + random.exponential(n as f64 / 12.0) as usize;
                    user.wrapping_sub(distance)
                };
                if definer < user && !definers.contains(&definer) {
                    definers.push(definer);
                }
            }
            needs.push(definers);
        }
        for _ in 0..50 {
            let crash = n / 2 + random.below(n - n / 2);
            let mut needed = vec![crash];
            needed.extend((1..shape.sinks).map(|_| random.below(crash)));
            let closures: Vec<BTreeSet<usize>> = needed.iter().map(|&sink| closure(&needs, sink)).collect();
            let alone =
                (0..needed.len()).all(|a| (0..needed.len()).all(|b| a == b || !closures[a].contains(&needed[b])));
            let core: BTreeSet<usize> = closures.into_iter().flatten().collect();
            if alone && (8..=12).contains(&core.len()) {
                return Some(Self::finish(shape, needs, crash, needed, core, random));
            }
        }
        None
    }

    fn finish(
        shape: Shape,
        needs: Vec<Vec<usize>>,
        crash: usize,
        needed: Vec<usize>,
        core: BTreeSet<usize>,
        random: &mut Random,
    ) -> Self {
        let mut hidden = BTreeSet::new();
        let mut named = BTreeSet::new();
        for &user in &core {
            for &definer in &needs[user] {
                if random.chance(shape.hidden) {
                    hidden.insert((user, definer));
                    if random.chance(shape.named) {
                        named.insert((user, definer));
                    }
                }
            }
        }
        let edges: usize = needs.iter().map(Vec::len).sum();
        let soft = (0..edges / 5)
            .filter_map(|_| {
                let user = random.below(needs.len());
                user.checked_sub(1 + random.below(30)).map(|definer| (user, definer))
            })
            .collect();
        Self { statements: needs.len(), crash, needed, core, needs, hidden, named, soft }
    }

    /// What the graph knows.
    pub(crate) fn known(&self) -> HardEdges {
        let edges = self.needs.iter().enumerate().flat_map(|(user, definers)| definers.iter().map(move |&d| (user, d)));
        HardEdges::new(self.statements, edges.filter(|edge| !self.hidden.contains(edge)))
    }

    /// What a candidate shows.
    pub(crate) fn judge(&self, keep: &Set) -> Answer {
        if !keep.contains(self.crash) {
            return Answer::Miss;
        }
        for user in keep.iter().take_while(|&user| user <= self.crash) {
            for &definer in &self.needs[user] {
                if !keep.contains(definer) {
                    let edge = (user, definer);
                    return if self.hidden.contains(&edge) && !self.named.contains(&edge) {
                        Answer::Miss
                    } else {
                        Answer::Named(vec![edge])
                    };
                }
            }
        }
        if self.needed.iter().all(|&needed| keep.contains(needed)) { Answer::Hit } else { Answer::Miss }
    }
}

fn closure(needs: &[Vec<usize>], from: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(statement) = open.pop() {
        if reached.insert(statement) {
            open.extend(&needs[statement]);
        }
    }
    reached
}
