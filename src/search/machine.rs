//! What every search machine is: a deterministic function from the answers so far to the next question.
//!
//! Invariant: `step` gives the same question until `mark` is called, and a machine reads nothing but its own state, so
//! that a clone with an assumed answer shows what would be asked next.
//! It must not run anything, nor know what an element stands for.

use fixedbitset::FixedBitSet;

/// A set of elements of one universe `0..n`; element order is program order.
///
/// Two sets compare equal only if they were made for the same universe.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Set(FixedBitSet);

impl Set {
    /// The empty set of a universe of `universe` elements.
    pub fn empty(universe: usize) -> Self {
        Self(FixedBitSet::with_capacity(universe))
    }

    /// All elements of a universe of `universe` elements.
    pub fn full(universe: usize) -> Self {
        let mut bits = FixedBitSet::with_capacity(universe);
        bits.insert_range(..);
        Self(bits)
    }

    /// The set of `elements`; those outside the universe are left out.
    pub fn of(universe: usize, elements: impl IntoIterator<Item = usize>) -> Self {
        let mut set = Self::empty(universe);
        for element in elements {
            set.insert(element);
        }
        set
    }

    /// Size of the universe, not of the set.
    pub fn universe(&self) -> usize {
        self.0.len()
    }

    /// Number of elements in the set.
    pub fn len(&self) -> usize {
        self.0.count_ones(..)
    }

    /// Whether there is no element in the set.
    pub fn is_empty(&self) -> bool {
        self.0.is_clear()
    }

    /// Whether `element` is in the set.
    pub fn contains(&self, element: usize) -> bool {
        self.0.contains(element)
    }

    /// Adds `element`; says whether it was added, which it is not where it was there or is outside the universe.
    pub fn insert(&mut self, element: usize) -> bool {
        element < self.0.len() && !self.0.put(element)
    }

    /// Takes `element` out; says whether it was there.
    pub fn remove(&mut self, element: usize) -> bool {
        let there = self.0.contains(element);
        if there {
            self.0.remove(element);
        }
        there
    }

    /// The elements of either set that the universe of `self` has.
    pub fn union(&self, other: &Self) -> Self {
        let mut set = self.clone();
        if set.universe() == other.universe() {
            set.0.union_with(&other.0);
        } else {
            set.extend(other.iter());
        }
        set
    }

    /// The elements of both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        let mut set = self.clone();
        set.0.intersect_with(&other.0);
        set
    }

    /// The elements of `self` that are not in `other`.
    pub fn difference(&self, other: &Self) -> Self {
        let mut set = self.clone();
        set.0.difference_with(&other.0);
        set
    }

    /// Whether every element of `self` is in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }

    /// The elements in rising order; reversed, latest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        self.0.ones()
    }
}

impl Extend<usize> for Set {
    fn extend<I: IntoIterator<Item = usize>>(&mut self, elements: I) {
        for element in elements {
            self.insert(element);
        }
    }
}

impl std::fmt::Debug for Set {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// One question of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// What the candidate keeps (for `halving`: what it applies).
    pub keep: Set,
    /// Probability of a hit, 0 to 1, for speculation only: no decision reads it.
    pub expect: f64,
    /// The phase that asks, for the log and for the estimates of speculation.
    pub why: &'static str,
}

/// What a machine wants next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// An answer to this question.
    Ask(Ask),
    /// Nothing: its accessors hold the result.
    Done,
}

/// What a candidate showed, as far as a search needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The target failure.
    Hit,
    /// It ran and did not show the target failure.
    Miss,
    /// Invalid, and the error names what was missing: pairs of user and definer. Pairs of one user are alternatives,
    /// the most likely first; pairs of different users all hold.
    Named(Vec<(usize, usize)>),
    /// No verdict: a miss for the search, never evidence.
    Unresolved,
}

impl Answer {
    /// Whether the candidate showed the target failure.
    pub fn is_hit(&self) -> bool {
        matches!(self, Self::Hit)
    }
}

/// A search as a state machine.
pub trait Machine: Clone {
    /// The question that is open; the same until `mark`.
    fn step(&mut self) -> Step;

    /// Answers the open question. Without an open question, nothing happens.
    fn mark(&mut self, answer: &Answer);
}

/// Two machines one after the other: the second is made from the first when that is done.
///
/// Speculation sees across the seam. `next` must be a pure function.
#[derive(Clone, Debug)]
pub struct Then<A, B, F> {
    first: A,
    second: Option<B>,
    next: F,
}

impl<A: Machine, B: Machine, F: Fn(&A) -> B + Clone> Then<A, B, F> {
    /// `first`, then the machine that `next` makes of it.
    pub fn new(first: A, next: F) -> Self {
        Self { first, second: None, next }
    }

    /// The first machine.
    pub fn first(&self) -> &A {
        &self.first
    }

    /// The second machine; `None` while the first is not done.
    pub fn second(&self) -> Option<&B> {
        self.second.as_ref()
    }
}

impl<A: Machine, B: Machine, F: Fn(&A) -> B + Clone> Machine for Then<A, B, F> {
    fn step(&mut self) -> Step {
        if self.second.is_none() {
            if let ask @ Step::Ask(_) = self.first.step() {
                return ask;
            }
            self.second = Some((self.next)(&self.first));
        }
        self.second.as_mut().map_or(Step::Done, B::step)
    }

    fn mark(&mut self, answer: &Answer) {
        match &mut self.second {
            Some(second) => second.mark(answer),
            None => self.first.mark(answer),
        }
    }
}
