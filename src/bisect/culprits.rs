//! Minimal sets of elements that make the difference together, by halving; several disjoint ones.
//!
//! Invariant: an element of a set is named only after a run without it, beside others, passed; and a set only after a run
//! of it alone failed. What it asks next is a pure function of the answers so far.
//! It runs nothing, and takes for granted that more elements never hide the failure.

use std::collections::BTreeMap;

use super::answer::Answer;

/// A question: do these elements, and no others, show the failure?
pub type Probe = Vec<usize>;

/// Doubt that is left when a subset counts as one that passes.
const DOUBT: f64 = 0.02;
/// Runs of the whole without the failure before it counts as one that passes.
const PATIENCE: u32 = 20;
/// Attempts at the whole without an answer before it counts as one that cannot be run.
const ATTEMPTS: u32 = 2;
/// Most runs of one subset.
const MOST_MISSES: i32 = 60;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Each a minimal set; disjoint, in the order in which they were found.
    pub sets: Vec<Vec<usize>>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Run these elements alone; the universe is numbered from 0.
    Ask(Probe),
    /// It is over.
    Done(Outcome),
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The sets.
    Found(Found),
    /// All elements together do not show the failure.
    AllPass,
    /// It fails without any of them.
    NoneFails,
    /// With all of them it gives no answer.
    NoAnswer,
    /// These were each needed, but alone they were not seen to fail: the failure comes and goes too much.
    Unsteady(Probe),
}

/// What is done about the elements that stay when a set was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// They are searched for further sets.
    Searched,
    /// One set is enough.
    Left,
}

/// The search.
#[derive(Clone, Debug)]
pub struct Culprits {
    universe: usize,
    rest: Rest,
    /// Likely sets, tried alone before anything is halved.
    suspects: Vec<Probe>,
    empty: Empty,
    /// Runs of the whole without the failure before it counts as one that passes.
    patience: u32,
    tallies: BTreeMap<Probe, (u32, u32, u32)>,
}

/// Whether the empty set is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Empty {
    /// It is, to see that the elements matter.
    Asked,
    /// It cannot be, or is known to pass.
    Known,
}

/// What is known of a subset.
enum State {
    Fails,
    Passes,
    Open,
}

impl Culprits {
    /// A search over `universe` elements.
    pub fn new(universe: usize, empty: Empty, rest: Rest) -> Self {
        Self { universe, rest, suspects: Vec::new(), empty, patience: PATIENCE, tallies: BTreeMap::new() }
    }

    /// So many runs of the whole without the failure make it one that passes.
    pub fn set_patience(&mut self, runs: u32) {
        self.patience = runs.max(1);
    }

    /// Takes sets that are likely culprits, by evidence; they are tried first.
    pub fn suspect(&mut self, set: Probe) {
        let mut set: Probe = set.into_iter().filter(|element| *element < self.universe).collect();
        set.sort_unstable();
        set.dedup();
        if !set.is_empty() && !self.suspects.contains(&set) {
            self.suspects.push(set);
        }
    }

    /// Takes an answer.
    pub fn mark(&mut self, probe: &[usize], answer: Answer) {
        let tally = self.tallies.entry(probe.to_vec()).or_default();
        match answer {
            Answer::Fails => tally.0 += 1,
            Answer::Passes => tally.1 += 1,
            Answer::Skip => tally.2 += 1,
        }
    }

    /// Runs and answers so far, by subset: failures, passes, no answers.
    pub fn tallies(&self) -> &BTreeMap<Probe, (u32, u32, u32)> {
        &self.tallies
    }

    /// Misses that make a subset count as one that passes: more where the failure was seen to come and go.
    fn misses(&self) -> u32 {
        // A subset that passed although it, or a part of it, failed shows that the failure comes and goes, and how often.
        let failed: Vec<&Probe> =
            self.tallies.iter().filter(|(_, tally)| tally.0 > 0).map(|(probe, _)| probe).collect();
        let silent = |probe: &Probe| failed.iter().any(|part| is_subset(part, probe));
        let (mut hits, mut misses) = (0, 0);
        for (_, tally) in self.tallies.iter().filter(|(probe, tally)| tally.0 > 0 || (tally.1 > 0 && silent(probe))) {
            hits += tally.0;
            misses += tally.1;
        }
        if misses == 0 {
            return 1;
        }
        let rate = f64::from(hits) / f64::from(hits + misses);
        (1..MOST_MISSES).find(|count| (1.0 - rate).powi(*count) <= DOUBT).map_or(PATIENCE, i32::unsigned_abs)
    }

    fn state(&self, probe: &[usize], enough: u32) -> State {
        let (hits, misses, skips) = self.tallies.get(probe).copied().unwrap_or_default();
        if hits > 0 {
            State::Fails
        } else if misses >= enough || skips > 1 || (skips > 0 && misses == 0) {
            State::Passes
        } else {
            State::Open
        }
    }

    /// What to do next.
    pub fn step(&self) -> Next {
        match self.walk(self.misses()) {
            Ok(outcome) => Next::Done(outcome),
            Err(probe) => Next::Ask(probe),
        }
    }

    /// The whole search as one walk over what is known; the first subset that is open ends it.
    fn walk(&self, enough: u32) -> Result<Outcome, Probe> {
        let all: Probe = (0..self.universe).collect();
        let (hits, misses, skips) = self.tallies.get(&all).copied().unwrap_or_default();
        match hits {
            0 if misses >= self.patience => return Ok(Outcome::AllPass),
            0 if skips >= ATTEMPTS => return Ok(Outcome::NoAnswer),
            0 => return Err(all),
            _ => {}
        }
        if self.empty == Empty::Asked && self.fails(&Probe::new(), enough)? {
            return Ok(Outcome::NoneFails);
        }
        let mut found = Found::default();
        let mut remaining = all;
        loop {
            let set = match self.minimal(&remaining, enough)? {
                Ok(set) => set,
                Err(unsteady) if found.sets.is_empty() => return Ok(Outcome::Unsteady(unsteady)),
                Err(_) => return Ok(Outcome::Found(found)),
            };
            remaining.retain(|element| set.binary_search(element).is_err());
            found.sets.push(set);
            if self.rest == Rest::Left || remaining.is_empty() || !self.fails(&remaining, enough)? {
                return Ok(Outcome::Found(found));
            }
        }
    }

    /// A minimal failing set within one that fails; the inner error is one that was needed but not seen to fail alone.
    fn minimal(&self, within: &Probe, enough: u32) -> Result<Result<Probe, Probe>, Probe> {
        let mut pool = within.clone();
        for suspect in &self.suspects {
            if suspect.len() < pool.len() && is_subset(suspect, &pool) && self.fails(suspect, enough)? {
                pool.clone_from(suspect);
            }
        }
        let mut held = Probe::new();
        // The shortest prefix that fails with what is held ends with an element that is needed.
        loop {
            let with = |count: usize| {
                let mut probe: Probe = held.iter().chain(&pool[..count]).copied().collect();
                probe.sort_unstable();
                probe
            };
            let (mut passes, mut fails) = (0, pool.len());
            while fails - passes > 1 {
                let middle = passes + (fails - passes) / 2;
                if self.fails(&with(middle), enough)? {
                    fails = middle;
                } else {
                    passes = middle;
                }
            }
            held.push(pool[fails - 1]);
            held.sort_unstable();
            pool.truncate(fails - 1);
            if self.fails(&held, enough)? {
                return self.certified(held, enough);
            }
            if pool.is_empty() {
                // The failure comes and goes more than was believed: asked again, it shows how much.
                let misses = self.tallies.get(&held).map_or(0, |tally| tally.1);
                return if misses < PATIENCE { Err(held) } else { Ok(Err(held)) };
            }
        }
    }

    /// The set, once each of its elements was seen to be needed; smaller where one was not.
    fn certified(&self, set: Probe, enough: u32) -> Result<Result<Probe, Probe>, Probe> {
        for element in &set {
            let without: Probe = set.iter().copied().filter(|other| other != element).collect();
            let nothing = without.is_empty() && self.empty == Empty::Known;
            if !nothing && self.fails(&without, enough)? {
                return self.minimal(&without, enough);
            }
        }
        Ok(Ok(set))
    }

    fn fails(&self, probe: &Probe, enough: u32) -> Result<bool, Probe> {
        match self.state(probe, enough) {
            State::Fails => Ok(true),
            State::Passes => Ok(false),
            State::Open => Err(probe.clone()),
        }
    }
}

/// Whether all of a rising list are in another.
fn is_subset(part: &[usize], whole: &[usize]) -> bool {
    let mut rest = whole.iter();
    part.len() <= whole.len() && part.iter().all(|element| rest.any(|other| other == element))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(mut culprits: Culprits, mut run: impl FnMut(&[usize]) -> Answer) -> (Outcome, usize) {
        let mut runs = 0;
        loop {
            match culprits.step() {
                Next::Ask(probe) => {
                    runs += 1;
                    assert!(runs < 2000);
                    culprits.mark(&probe, run(&probe));
                }
                Next::Done(outcome) => return (outcome, runs),
            }
        }
    }

    fn needs<'a>(sets: &'a [&'a [usize]]) -> impl Fn(&[usize]) -> Answer + 'a {
        move |probe| {
            if sets.iter().any(|set| is_subset(set, probe)) { Answer::Fails } else { Answer::Passes }
        }
    }

    #[test]
    fn every_pair_of_twelve_is_found_in_at_most_fourteen_runs() {
        for first in 0..12 {
            for second in first + 1..12 {
                let (outcome, runs) =
                    search(Culprits::new(12, Empty::Asked, Rest::Searched), needs(&[&[first, second]]));
                assert_eq!(outcome, Outcome::Found(Found { sets: vec![vec![first, second]] }));
                assert!(runs <= 14, "{first} {second}: {runs}");
            }
        }
    }

    #[test]
    fn one_of_two_hundred_thousand_is_found_within_twenty_runs() {
        for element in [0, 77_777, 131_071, 199_999] {
            let (outcome, runs) = search(Culprits::new(200_000, Empty::Known, Rest::Left), needs(&[&[element]]));
            assert_eq!(outcome, Outcome::Found(Found { sets: vec![vec![element]] }));
            assert!(runs <= 20, "{element}: {runs}");
        }
    }

    #[test]
    fn several_disjoint_sets_are_all_found() {
        let sets: [&[usize]; 3] = [&[3], &[10, 40], &[41]];
        let (outcome, runs) = search(Culprits::new(50, Empty::Asked, Rest::Searched), needs(&sets));
        let Outcome::Found(mut found) = outcome else { panic!("{outcome:?}") };
        found.sets.sort();
        assert_eq!(found.sets, sets.map(<[usize]>::to_vec));
        assert!(runs < 45, "{runs}");
    }

    #[test]
    fn a_good_guess_saves_the_halving() {
        let mut culprits = Culprits::new(1000, Empty::Known, Rest::Searched);
        culprits.suspect(vec![512]);
        let (outcome, runs) = search(culprits, needs(&[&[512]]));
        assert_eq!((outcome, runs), (Outcome::Found(Found { sets: vec![vec![512]] }), 3));
    }

    #[test]
    fn what_fails_without_any_element_and_what_passes_with_all_is_said() {
        let with = |run: fn(&[usize]) -> Answer| search(Culprits::new(5, Empty::Asked, Rest::Searched), run).0;
        assert_eq!(with(|_| Answer::Fails), Outcome::NoneFails);
        assert_eq!(with(|_| Answer::Passes), Outcome::AllPass);
        assert_eq!(with(|_| Answer::Skip), Outcome::NoAnswer);
    }

    #[test]
    fn a_set_is_found_although_its_runs_miss_now_and_then() {
        let mut state = 7_u64;
        let mut right = 0;
        for _ in 0..100 {
            let (outcome, _) = search(Culprits::new(12, Empty::Asked, Rest::Left), |probe| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let lucky = (state >> 33) % 10 < 7;
                if lucky { needs(&[&[2, 9]])(probe) } else { Answer::Passes }
            });
            right += usize::from(outcome == Outcome::Found(Found { sets: vec![vec![2, 9]] }));
            if let Outcome::Found(found) = &outcome {
                assert!(
                    found.sets[0].contains(&2) && found.sets[0].contains(&9),
                    "only what was seen to fail is named"
                );
            }
        }
        assert!(right >= 80, "{right}");
    }
}
