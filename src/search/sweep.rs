//! The 1-minimality sweep: what can no single removal do without.
//!
//! Invariant: when it is done, every element that is left has, for each of its removals, a verdict against the final set:
//! a run that missed, or a proof that is named as such. It must not reorder by anything but the order of the elements.
//!
//! By rank, then latest first; after a hit it goes on behind the removed element, and comes back only to those whose
//! verdict was against a larger set that may have mattered. Cost where nothing can go: one run for each removal without a proof. Groups are tried only after
//! three removals in a row hit: a run of `r` removable neighbours then costs `O(log r)`, and a sweep without hits costs
//! nothing more for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::machine::{Answer, Ask, Machine, Set, Step};

/// One way to do without an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// What goes: the element, and whatever must go with it.
    pub drop: Set,
    /// The candidate misses for certain, so it costs no run: the failing statement is gone, or a name is undefined.
    pub certain: bool,
}

/// Knows the ways to do without an element.
pub trait Removals: Clone {
    /// The removals of `element` from `present`, most wanted first; it may be none. Each should drop the element itself.
    fn of(&self, element: usize, present: &Set) -> Vec<Removal>;

    /// Elements of a lower rank come first: those that are more likely to go.
    fn rank(&self, element: usize, present: &Set) -> usize {
        let _ = (element, present);
        0
    }

    /// Whether a candidate with `gone` and without `dropped` does the same as one without both: what missed then misses now.
    fn is_inert(&self, gone: &Set, dropped: &Set, present: &Set) -> bool {
        let _ = (gone, dropped, present);
        false
    }
}

/// How far a removal reaches along the edges from definer to user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The direct users go with the element.
    Direct,
    /// Their users as well, to the end.
    Transitive,
}

/// Removal of an element with its dependents. Candidates without one of the `required` elements miss for certain.
#[derive(Clone, Debug)]
pub struct WithDependents {
    users: Arc<Vec<Vec<usize>>>,
    required: Set,
    reach: Reach,
}

impl WithDependents {
    /// Dependents by edges `(user, definer)`; edges that leave the universe of `required` are dropped.
    pub fn new(required: Set, reach: Reach, edges: impl IntoIterator<Item = (usize, usize)>) -> Self {
        let universe = required.universe();
        let mut users = vec![Vec::new(); universe];
        for (user, definer) in edges {
            if user < universe && definer < universe && user != definer {
                users[definer].push(user);
            }
        }
        Self { users: Arc::new(users), required, reach }
    }
}

impl Removals for WithDependents {
    fn of(&self, element: usize, present: &Set) -> Vec<Removal> {
        let mut drop = Set::of(present.universe(), [element]);
        let mut open = vec![element];
        while let Some(definer) = open.pop() {
            for &user in self.users.get(definer).map_or(&[][..], Vec::as_slice) {
                if present.contains(user) && drop.insert(user) && self.reach == Reach::Transitive {
                    open.push(user);
                }
            }
        }
        let certain = drop.iter().any(|gone| self.required.contains(gone));
        vec![Removal { drop, certain }]
    }
}

/// Which proofs the certificate admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certify {
    /// A run for every removal that is not certain to miss.
    Full,
    /// Besides, a subset of what missed is taken to miss (deletion is monotone), so that only sinks need a run. Needs
    /// removals with all dependents (`Reach::Transitive`) to reach its low cost.
    Sinks,
}

/// What speaks for one element's stay in the final set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// Removals that were run against the final set and missed.
    pub run: usize,
    /// Removals that were certain to miss.
    pub certain: usize,
    /// Removals inferred from a larger candidate that missed.
    pub implied: usize,
    /// Removals that got no verdict: the element stays, unproved.
    pub unresolved: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Past {
    Miss,
    Unresolved,
}

#[derive(Clone, Debug)]
struct Open {
    ask: Ask,
    /// The elements to remove, latest first: one, or a group.
    elements: Vec<usize>,
}

/// The sweep as a machine.
#[derive(Clone, Debug)]
pub struct Sweep<R> {
    present: Set,
    removals: R,
    certify: Certify,
    past: Vec<(Arc<Set>, Past)>,
    proofs: BTreeMap<usize, Proof>,
    /// Elements from here on were passed in this round.
    cursor: usize,
    /// Hits in a row.
    streak: usize,
    /// Single removals that hit and that did not, so far.
    luck: (f64, f64),
    /// Elements of a higher rank are not asked about.
    most_rank: usize,
    /// What missed in a look: it is not asked again before everything is.
    passed: BTreeSet<usize>,
    /// How many elements the next candidate takes out.
    group: usize,
    removed: usize,
    open: Option<Open>,
}

/// Hits in a row after which groups are tried.
const GROUP_AFTER: usize = 3;
/// Hits and misses that are taken for granted before the first is seen.
const LUCK: (f64, f64) = (0.3, 2.7);

impl<R: Removals> Sweep<R> {
    /// A sweep of `present`, which hits.
    pub fn new(present: Set, removals: R, certify: Certify) -> Self {
        let cursor = present.universe();
        Self {
            present,
            removals,
            certify,
            past: Vec::new(),
            proofs: BTreeMap::new(),
            cursor,
            streak: 0,
            luck: LUCK,
            most_rank: usize::MAX,
            passed: BTreeSet::new(),
            group: 1,
            removed: 0,
            open: None,
        }
    }

    /// The same for elements up to a rank: a look at those that are likely to go.
    pub fn likely(mut self, most_rank: usize) -> Self {
        self.most_rank = most_rank;
        self
    }

    /// Whether it is such a look.
    pub fn is_partial(&self) -> bool {
        self.most_rank < usize::MAX
    }

    /// Goes on with the elements of all ranks.
    pub fn widen(&mut self) {
        self.most_rank = usize::MAX;
        self.passed.clear();
    }

    /// Tells of a candidate that missed before, with a verdict: it is not asked again.
    pub fn missed(&mut self, keep: Set) {
        self.past.push((Arc::new(keep), Past::Miss));
    }

    /// The smallest set so far that hits.
    pub fn present(&self) -> &Set {
        &self.present
    }

    /// Takes a smaller set that hits, found elsewhere; verdicts against larger sets are asked again.
    pub fn shrink(&mut self, keep: &Set) {
        self.adopt(self.present.intersection(keep));
        self.open = None;
        self.streak = 0;
        self.group = 1;
    }

    /// How many hits made the set smaller.
    pub fn removed(&self) -> usize {
        self.removed
    }

    /// The certificate: a proof for each element of the set; complete when the machine is done.
    pub fn proofs(&self) -> &BTreeMap<usize, Proof> {
        &self.proofs
    }

    /// What missed, with a verdict, as the sets that were dropped from the present one.
    pub fn misses(&self) -> impl Iterator<Item = Set> {
        let missed = self.past.iter().filter(|(keep, past)| *past == Past::Miss && keep.is_subset(&self.present));
        missed.map(|(keep, _)| self.present.difference(keep))
    }

    /// Makes `keep` the present set; a verdict stands where what went could not have changed it.
    fn adopt(&mut self, keep: Set) {
        let gone = self.present.difference(&keep);
        let carried: Vec<(Arc<Set>, Past)> = self
            .past
            .iter()
            .filter(|(set, past)| *past == Past::Miss && set.is_subset(&self.present))
            .map(|(set, past)| (self.present.difference(set), *past))
            .filter(|(dropped, _)| self.removals.is_inert(&gone, dropped, &self.present))
            .map(|(dropped, past)| (Arc::new(keep.difference(&dropped)), past))
            .collect();
        self.past.extend(carried);
        self.present = keep;
        self.removed += 1;
        self.proofs.clear();
    }

    fn past(&self, keep: &Set) -> Option<Past> {
        self.past.iter().find(|(set, _)| **set == *keep).map(|(_, past)| *past)
    }

    fn implied(&self, keep: &Set) -> bool {
        self.certify == Certify::Sinks && self.past.iter().any(|(set, past)| *past == Past::Miss && keep.is_subset(set))
    }

    /// The first removal of `element` that needs a run, or else the proof that none does.
    fn examine(&self, element: usize) -> Result<Proof, Set> {
        let mut proof = Proof::default();
        for Removal { drop, certain } in self.removals.of(element, &self.present) {
            let keep = self.present.difference(&drop);
            if certain || keep.is_empty() {
                proof.certain += 1;
                continue;
            }
            if keep == self.present {
                continue;
            }
            match self.past(&keep) {
                Some(Past::Miss) => proof.run += 1,
                Some(Past::Unresolved) => proof.unresolved += 1,
                None if self.implied(&keep) => proof.implied += 1,
                None => return Err(keep),
            }
        }
        Ok(proof)
    }

    /// Elements without a proof, in the order of asking: behind the cursor first, then those passed before it.
    fn unproved(&self) -> Vec<usize> {
        let (behind, passed): (Vec<usize>, Vec<usize>) = self
            .present
            .iter()
            .rev()
            .filter(|element| !self.proofs.contains_key(element))
            .partition(|element| *element < self.cursor);
        let mut order = behind;
        order.extend(passed);
        order.retain(|&element| {
            self.removals.rank(element, &self.present) <= self.most_rank && !self.passed.contains(&element)
        });
        order.sort_by_key(|&element| self.removals.rank(element, &self.present));
        if self.certify == Certify::Sinks {
            order.sort_by_key(|&element| !self.is_sink(element));
        }
        order
    }

    fn is_sink(&self, element: usize) -> bool {
        self.removals.of(element, &self.present).iter().any(|removal| !removal.certain && removal.drop.len() == 1)
    }

    /// The next `self.group` elements together, where that is a new candidate.
    fn group_ask(&self, order: &[usize]) -> Option<Open> {
        let mut elements = Vec::new();
        let mut drop = Set::empty(self.present.universe());
        for &element in order {
            if elements.len() == self.group {
                break;
            }
            if let Some(removal) = self.removals.of(element, &self.present).into_iter().find(|removal| !removal.certain)
            {
                drop = drop.union(&removal.drop);
                elements.push(element);
            }
        }
        let keep = self.present.difference(&drop);
        if elements.len() < 2 || keep.is_empty() || self.past(&keep).is_some() || self.implied(&keep) {
            return None;
        }
        Some(Open { ask: Ask { keep, expect: 0.5, why: "sweep group" }, elements })
    }

    fn next(&mut self) -> Option<Open> {
        let order = self.unproved();
        while self.group > 1 {
            if let Some(open) = self.group_ask(&order) {
                return Some(open);
            }
            self.group /= 2;
        }
        for element in order {
            match self.examine(element) {
                Ok(proof) => {
                    self.proofs.insert(element, proof);
                }
                Err(keep) => {
                    let expect = self.luck.0 / (self.luck.0 + self.luck.1);
                    return Some(Open { ask: Ask { keep, expect, why: "sweep" }, elements: vec![element] });
                }
            }
        }
        None
    }
}

impl<R: Removals> Machine for Sweep<R> {
    fn step(&mut self) -> Step {
        if self.open.is_none() {
            self.open = self.next();
        }
        self.open.as_ref().map_or(Step::Done, |open| Step::Ask(open.ask.clone()))
    }

    fn mark(&mut self, answer: &Answer) {
        let Some(Open { ask, elements }) = self.open.take() else { return };
        let single = elements.len() == 1;
        if single {
            // The last few count most: those who can go often stand together.
            let hit = f64::from(u8::from(answer.is_hit()));
            self.luck = (0.8 * self.luck.0 + hit, 0.8 * self.luck.1 + 1.0 - hit);
        }
        match answer {
            Answer::Hit => {
                self.adopt(ask.keep);
                self.cursor = elements.last().copied().unwrap_or(self.cursor);
                self.streak += 1;
                if self.streak >= GROUP_AFTER {
                    self.group = (self.group * 2).min(self.present.len().max(1));
                }
            }
            Answer::Miss | Answer::Named(_) | Answer::Unresolved => {
                let past = if matches!(answer, Answer::Unresolved) { Past::Unresolved } else { Past::Miss };
                self.past.push((Arc::new(ask.keep), past));
                if single {
                    if self.is_partial() {
                        self.passed.extend(elements);
                    }
                    self.streak = 0;
                    self.group = 1;
                } else {
                    self.group /= 2;
                }
            }
        }
    }
}
