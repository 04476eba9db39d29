//! The noisy bisector: finds the first point of an axis that fails, although a failing point may pass now and then.
//!
//! Invariant: what it asks next is a pure function of the tallies, so that an edited log replays to the same state; nothing
//! is found before the failing end has failed, the passing end has passed, and both sides of the change were run.
//! It runs nothing.

use super::Point;
use super::answer::Answer;
use super::belief::{Belief, Tally, testable};
use super::choice::Field;
use super::order::Order;
use super::rates::Rates;

/// What is required of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Probability that is enough to name a change.
    pub confidence: f64,
    /// What is believed of the rates.
    pub rates: Rates,
    /// Runs of the failing end without the failure before it counts as one that passes.
    pub patience: u32,
    /// Hits that the first failing point must show at the end: what looked steady so far may come and go.
    pub replays: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { confidence: 0.99, rates: Rates::default(), patience: 20, replays: 3 }
    }
}

/// Doubt about the passing end that is left to the bracket at the end, which runs the neighbours anyway.
const END_DOUBT: f64 = 0.2;
/// Hits at the failing end before the search: they tell a failure that comes each time from one that comes and goes,
/// which the search itself, between the last pass and the first failure, would not see.
const CERTAIN_HITS: u32 = 2;
/// A failure that is believed less than this to come each time is one that comes and goes.
const STEADY_DOUBT: f64 = 0.01;
/// Mass of the set that is reported when the budget ends.
const CREDIBLE: f64 = 0.95;

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Run these points, repetitions included.
    Ask(Vec<Point>),
    /// It is over.
    Done(Conclusion),
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub enum Conclusion {
    /// The change.
    Found {
        /// The first point that fails; several where those before it cannot be run.
        first: Vec<Point>,
        /// The points directly before that were seen to pass.
        before: Vec<Point>,
        /// How sure it is.
        mass: f64,
    },
    /// The budget ended: the change is one of these.
    Among {
        /// The likeliest first.
        points: Vec<Point>,
        /// How sure it is that the change is among them.
        mass: f64,
    },
    /// There is nothing to search.
    Nothing(Trouble),
}

/// Why there is nothing to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The failing end does not fail.
    FailingEndPasses,
    /// The passing end fails.
    PassingEndFails,
    /// The failing end cannot be run.
    FailingEndBroken,
    /// The passing end cannot be run.
    PassingEndBroken,
}

/// The search.
#[derive(Clone, Debug)]
pub struct Bisector {
    order: Order,
    costs: Vec<f64>,
    options: Options,
    tallies: Vec<Tally>,
}

impl Bisector {
    /// A search over an order; every change is as likely, every run as dear.
    pub fn new(order: Order, options: Options) -> Self {
        let len = order.len();
        Self { order, costs: vec![1.0; len], options, tallies: vec![Tally::default(); len] }
    }

    /// What a run of a point costs, in any unit.
    pub fn set_cost(&mut self, point: Point, cost: f64) {
        self.costs[point] = cost.max(1e-6);
    }

    /// Takes an answer.
    pub fn mark(&mut self, point: Point, answer: Answer) {
        let tally = &mut self.tallies[point];
        match answer {
            Answer::Fails => tally.hits += 1,
            Answer::Passes => tally.misses += 1,
            Answer::Skip => tally.skips += 1,
        }
    }

    /// What each point has shown.
    pub fn tallies(&self) -> &[Tally] {
        &self.tallies
    }

    /// The order of its points.
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// What the answers so far say.
    pub fn belief(&self) -> Belief {
        Belief::of(&self.order, &self.options.rates, &self.tallies)
    }

    /// What to do next, with `width` runs at once.
    pub fn step(&self, width: usize) -> Step {
        let width = width.max(1);
        let last = self.order.len().saturating_sub(1);
        let (failing, passing) = (self.tallies[last], self.tallies[0]);
        let trouble = if failing.broken() {
            Some(Trouble::FailingEndBroken)
        } else if failing.hits == 0 && failing.misses >= self.options.patience {
            Some(Trouble::FailingEndPasses)
        } else if passing.broken() {
            Some(Trouble::PassingEndBroken)
        } else if passing.hits > 0 || last == 0 {
            Some(Trouble::PassingEndFails)
        } else {
            None
        };
        if let Some(trouble) = trouble {
            return Step::Done(Conclusion::Nothing(trouble));
        }
        let belief = self.belief();
        let ends = self.ends(&belief);
        if !ends.is_empty() {
            return Step::Ask(ends.into_iter().cycle().take(width).collect());
        }
        let ranked = belief.ranked();
        let Some(&(class, mass)) = ranked.first() else {
            return Step::Done(Conclusion::Nothing(Trouble::PassingEndFails));
        };
        let mut asked = Vec::new();
        if mass >= self.options.confidence {
            let (open, before) = self.bracket(&belief, class);
            if open.is_empty() {
                return Step::Done(Conclusion::Found { first: belief.members(class), before, mass });
            }
            asked.extend(open.into_iter().cycle().take(width));
        } else {
            let testable = testable(&self.tallies);
            let field = Field { order: &self.order, costs: &self.costs, tallies: &self.tallies, testable: &testable };
            asked.extend(field.several(&belief, width));
        }
        if asked.is_empty() { Step::Done(self.conclude()) } else { Step::Ask(asked) }
    }

    /// The ends that are not verified yet: one failure at the failing end, and so many passes at the other that a failing
    /// point would hardly be silent for as long.
    fn ends(&self, belief: &Belief) -> Vec<Point> {
        let last = self.order.len() - 1;
        if self.tallies[last].hits < CERTAIN_HITS {
            return vec![last];
        }
        let doubt = self.options.rates.silence(&belief.rates, self.tallies[0].misses);
        if doubt > END_DOUBT { vec![0] } else { Vec::new() }
    }

    /// Both sides of a change: what has yet to be run, and the points directly before it.
    fn bracket(&self, belief: &Belief, class: usize) -> (Vec<Point>, Vec<Point>) {
        let members = belief.members(class);
        let testable = testable(&self.tallies);
        let mut before: Vec<Point> = members
            .iter()
            .flat_map(|member| self.order.before(*member))
            .filter(|point| !members.contains(point) && testable[*point])
            .collect();
        before.sort_unstable();
        before.dedup();
        let allowed = 1.0 - self.options.confidence;
        let mut open: Vec<Point> = before
            .iter()
            .copied()
            .filter(|point| self.options.rates.silence(&belief.rates, self.tallies[*point].misses) > allowed)
            .collect();
        // A failure that is known to come and go has nothing left to hide here.
        let steady = self.options.rates.steady(&belief.rates) > STEADY_DOUBT;
        let needed = if steady { self.options.replays } else { 1 };
        if testable[class] && self.tallies[class].hits < needed {
            open.push(class);
        }
        (open, before)
    }

    /// What is known when the budget ends: the smallest set that holds the change with good probability.
    pub fn conclude(&self) -> Conclusion {
        let belief = self.belief();
        let (mut points, mut mass) = (Vec::new(), 0.0);
        for (class, weight) in belief.ranked() {
            if mass >= CREDIBLE {
                break;
            }
            points.extend(belief.members(class));
            mass += weight;
        }
        Conclusion::Among { points, mass }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a search against a function that says whether a point fails.
    fn search(mut bisector: Bisector, width: usize, mut run: impl FnMut(Point) -> Answer) -> (Conclusion, Vec<Point>) {
        let mut asked = Vec::new();
        loop {
            match bisector.step(width) {
                Step::Ask(points) => {
                    for point in points {
                        asked.push(point);
                        bisector.mark(point, run(point));
                    }
                }
                Step::Done(conclusion) => return (conclusion, asked),
            }
            assert!(asked.len() < 500, "no end: {asked:?}");
        }
    }

    fn steady(change: Point) -> impl Fn(Point) -> Answer {
        move |point| if point >= change { Answer::Fails } else { Answer::Passes }
    }

    fn distinct(asked: &[Point]) -> usize {
        asked.iter().collect::<std::collections::BTreeSet<_>>().len()
    }

    #[test]
    fn a_failure_that_comes_each_time_costs_the_points_of_a_binary_search() {
        for points in [2_usize, 3, 10, 100, 1000] {
            for change in [1, points / 2, points - 1].into_iter().filter(|change| *change > 0) {
                let bisector = Bisector::new(Order::Chain(points), Options::default());
                let (conclusion, asked) = search(bisector, 1, steady(change));
                let Conclusion::Found { first, before, mass } = conclusion else { panic!("{conclusion:?}") };
                assert_eq!((first, before), (vec![change], vec![change - 1]));
                assert!(mass >= 0.99);
                let bound = (points as f64).log2().ceil() as usize + 2;
                assert!(distinct(&asked) <= bound, "{points} {change}: {} points", distinct(&asked));
            }
        }
    }

    #[test]
    fn points_that_cannot_be_run_are_named_together_with_the_first_that_fails() {
        let bisector = Bisector::new(Order::Chain(60), Options::default());
        let (conclusion, asked) = search(bisector, 1, |point| match point {
            20..=33 => Answer::Skip,
            _ => steady(30)(point),
        });
        let Conclusion::Found { first, before, .. } = conclusion else { panic!("{conclusion:?}") };
        assert_eq!(first, (20..=34).collect::<Vec<_>>());
        assert_eq!(before, vec![19]);
        let broken = asked.iter().filter(|point| (20..=33).contains(*point)).count();
        assert!(broken <= 8, "a broken range is left by galloping, not walked: {broken}");
    }

    #[test]
    fn ends_that_are_not_what_was_said_end_the_search() {
        let trouble = |run: &dyn Fn(Point) -> Answer| {
            let (conclusion, _) = search(Bisector::new(Order::Chain(9), Options::default()), 1, run);
            conclusion
        };
        assert_eq!(trouble(&|_| Answer::Passes), Conclusion::Nothing(Trouble::FailingEndPasses));
        assert_eq!(trouble(&|_| Answer::Fails), Conclusion::Nothing(Trouble::PassingEndFails));
        assert_eq!(trouble(&|_| Answer::Skip), Conclusion::Nothing(Trouble::FailingEndBroken));
    }

    #[test]
    fn a_change_on_a_side_branch_is_found_and_both_parents_of_a_merge_are_run() {
        // 0 - 1 - 2 - 5 - 6, and 0 - 3 - 4 - 5.
        let order = || Order::graph(vec![vec![], vec![0], vec![1], vec![0], vec![3], vec![2, 4], vec![5]]);
        for change in 1..=6 {
            let graph = order();
            let bisector = Bisector::new(graph.clone(), Options::default());
            let (conclusion, asked) =
                search(bisector, 1, |point| if graph.holds(point, change) { Answer::Fails } else { Answer::Passes });
            let Conclusion::Found { first, before, .. } = conclusion else { panic!("{conclusion:?}") };
            assert_eq!((first, before.clone()), (vec![change], graph.before(change)));
            assert!(before.iter().all(|parent| asked.contains(parent)), "{change}: {asked:?}");
        }
    }

    #[test]
    fn a_change_that_depends_on_a_skipped_branch_point_is_not_blamed_on_one_child() {
        // 0 - 1 with two children 2 and 3, merged in 4; 1 cannot be run.
        let graph = Order::graph(vec![vec![], vec![0], vec![1], vec![1], vec![2, 3]]);
        let bisector = Bisector::new(graph.clone(), Options::default());
        let (conclusion, _) = search(bisector, 1, |point| match (point, graph.holds(point, 1)) {
            (1, _) => Answer::Skip,
            (_, true) => Answer::Fails,
            (_, false) => Answer::Passes,
        });
        let Conclusion::Found { first, .. } = conclusion else { panic!("{conclusion:?}") };
        assert_eq!(first, vec![1]);
    }

    #[test]
    fn a_batch_never_lands_on_the_favourite_alone() {
        let mut bisector = Bisector::new(Order::Chain(200), Options { rates: Rates::known(0.5), ..Options::default() });
        (0..3).for_each(|_| bisector.mark(199, Answer::Fails));
        (0..9).for_each(|_| bisector.mark(0, Answer::Passes));
        (0..4).for_each(|_| bisector.mark(90, Answer::Fails));
        (0..4).for_each(|_| bisector.mark(88, Answer::Passes));
        let Step::Ask(points) = bisector.step(4) else { panic!("over") };
        assert_eq!(points.len(), 4);
        assert!(points.iter().any(|point| *point < 90), "{points:?}");
    }

    #[test]
    fn when_the_budget_ends_the_likeliest_points_are_named() {
        let mut bisector = Bisector::new(Order::Chain(64), Options::default());
        (0..3).for_each(|_| bisector.mark(63, Answer::Fails));
        (0..3).for_each(|_| bisector.mark(0, Answer::Passes));
        (0..3).for_each(|_| bisector.mark(40, Answer::Fails));
        (0..3).for_each(|_| bisector.mark(36, Answer::Passes));
        let Conclusion::Among { points, mass } = bisector.conclude() else { panic!() };
        assert!(mass >= 0.95);
        assert!((37..=40).all(|point| points[..4].contains(&point)), "{points:?}");
    }

    #[test]
    fn the_next_question_depends_on_the_answers_alone() {
        let ask = |order: &[(Point, Answer)]| {
            let mut bisector = Bisector::new(Order::Chain(100), Options::default());
            order.iter().for_each(|(point, answer)| bisector.mark(*point, *answer));
            bisector.step(3)
        };
        let answers = [(99, Answer::Fails), (99, Answer::Fails), (0, Answer::Passes), (50, Answer::Passes)];
        let mut other = answers;
        other.reverse();
        assert_eq!(ask(&answers), ask(&other));
    }
}
