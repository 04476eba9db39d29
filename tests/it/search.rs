//! The search machines alone: scripted oracles with exact questions, and properties on random programs.

#[path = "../bench/model.rs"]
mod model;

use std::collections::BTreeSet;

use model::{Program, Random, Shape};
use reduce::search::halving::{Halving, Proposal};
use reduce::search::machine::{Answer, Ask, Machine, Set, Step, Then};
use reduce::search::progression::{HardEdges, Probe, Problem, Progression};
use reduce::search::speculation::{Adopted, Speculation};
use reduce::search::sweep::{Certify, Reach, Removal, Removals, Sweep, WithDependents};

/// Runs a machine to its end; gives what it asked, in order.
fn drive(machine: &mut impl Machine, mut judge: impl FnMut(&Set) -> Answer) -> Vec<Vec<usize>> {
    let mut asked = Vec::new();
    while let Step::Ask(ask) = machine.step() {
        assert_eq!(machine.step(), Step::Ask(ask.clone()), "a question changed before it was answered");
        asked.push(ask.keep.iter().collect());
        machine.mark(&judge(&ask.keep));
        assert!(asked.len() < 5000, "the machine does not end");
    }
    asked
}

fn problem(universe: usize, crash: &[usize], edges: &[(usize, usize)]) -> Problem<HardEdges> {
    Problem {
        universe: Set::full(universe),
        required: Set::of(universe, crash.iter().copied()),
        closures: HardEdges::new(universe, edges.iter().copied()),
        soft: Vec::new(),
        probes: Vec::new(),
        weights: Vec::new(),
    }
}

/// Hits with all of `needed`.
fn needs(needed: &[usize]) -> impl Fn(&Set) -> Answer + use<> {
    let needed = needed.to_vec();
    move |keep| if needed.iter().all(|&element| keep.contains(element)) { Answer::Hit } else { Answer::Miss }
}

fn elements(set: &Set) -> Vec<usize> {
    set.iter().collect()
}

mod progression {
    use super::*;

    #[test]
    fn a_slice_that_is_enough_costs_one_run() {
        let mut machine = Progression::new(problem(8, &[6], &[(6, 3), (3, 0)]));
        assert_eq!(drive(&mut machine, needs(&[0, 3, 6])), [[0, 3, 6]]);
        assert_eq!(elements(machine.best()), [0, 3, 6]);
    }

    #[test]
    fn a_missing_statement_is_found_by_halving_in_program_order() {
        let mut machine = Progression::new(problem(9, &[8], &[(8, 0)]));
        let asked = drive(&mut machine, needs(&[0, 5, 8]));
        let expected: [&[usize]; 5] =
            [&[0, 8], &[0, 1, 2, 3, 8], &[0, 1, 2, 3, 4, 5, 8], &[0, 1, 2, 3, 4, 8], &[0, 5, 8]];
        assert_eq!(asked, expected);
        assert_eq!(elements(machine.learned()), [5, 8]);
    }

    #[test]
    fn a_named_error_adds_its_edge_without_a_search() {
        let mut machine = Progression::new(problem(20, &[19], &[(7, 2)]));
        let asked =
            drive(&mut machine, |keep| if keep.contains(7) { Answer::Hit } else { Answer::Named(vec![(19, 7)]) });
        assert_eq!(asked, [vec![19], vec![2, 7, 19]]);
        assert_eq!(machine.closures().definers(19), [7]);
    }

    #[test]
    fn alternatives_of_one_user_are_tried_in_their_order() {
        let mut machine = Progression::new(problem(20, &[19], &[]));
        let asked = drive(&mut machine, |keep| {
            if keep.contains(3) { Answer::Hit } else { Answer::Named(vec![(19, 11), (19, 3), (19, 1)]) }
        });
        assert_eq!(asked, [vec![19], vec![11, 19], vec![3, 11, 19]]);
    }

    #[test]
    fn a_named_error_that_adds_nothing_is_a_miss() {
        let mut machine = Progression::new(problem(4, &[3], &[]));
        let asked = drive(&mut machine, |keep| {
            if keep.contains(1) { Answer::Hit } else { Answer::Named(vec![(3, 3), (99, 1), (3, 99), (2, 0)]) }
        });
        assert_eq!(asked, [vec![3], vec![0, 3], vec![0, 1, 3], vec![1, 3]]);
        assert_eq!(elements(machine.best()), [1, 3]);
    }

    #[test]
    fn no_verdict_counts_as_a_miss_and_is_not_learned() {
        let mut machine = Progression::new(problem(4, &[3], &[]));
        let asked = drive(&mut machine, |keep| if keep.len() == 4 { Answer::Hit } else { Answer::Unresolved });
        assert_eq!(asked[0], [3]);
        assert_eq!(machine.misses().count(), 0);
        assert_eq!(machine.best().len(), 4);
    }

    #[test]
    fn mutual_recursion_is_one_step_and_forward_references_come_before_their_users() {
        let mut machine = Progression::new(problem(7, &[6], &[(1, 3), (3, 1), (0, 4)]));
        let asked = drive(&mut machine, needs(&[0, 4, 6]));
        assert_eq!(asked, [vec![6], vec![0, 4, 6], vec![4, 6]], "the steps are 4, 0, 1 with 3, 2, 5");
        let mut machine = Progression::new(problem(7, &[6], &[(1, 3), (3, 1), (0, 4)]));
        let asked = drive(&mut machine, needs(&[3, 6]));
        assert!(asked.iter().all(|keep| keep.contains(&1) == keep.contains(&3)), "{asked:?}");
    }

    #[test]
    fn soft_links_come_first() {
        let mut with_soft = problem(40, &[39], &[]);
        with_soft.soft = vec![(39, 30)];
        let asked = drive(&mut Progression::new(with_soft), needs(&[30, 39]));
        let plain = drive(&mut Progression::new(problem(40, &[39], &[])), needs(&[30, 39]));
        assert!(asked.len() <= plain.len());
        assert!(asked[1].contains(&30) && asked[1].contains(&0), "{asked:?}");
        assert!(!asked[1].contains(&29));
    }

    #[test]
    fn unlikely_elements_do_not_cost_their_share() {
        let mut weighted = problem(64, &[63], &[]);
        weighted.weights = (0..64).map(|element| if element < 4 { 1.0 } else { 0.0 }).collect();
        let asked = drive(&mut Progression::new(weighted), needs(&[2, 63]));
        assert!(asked.len() <= 6, "{asked:?}");
    }

    #[test]
    fn the_first_probe_that_hits_becomes_the_universe() {
        let probe = |keep: &[usize], why| Probe { keep: Set::of(16, keep.iter().copied()), expect: 0.5, why };
        let mut probed = problem(16, &[15], &[(4, 2)]);
        probed.probes =
            vec![probe(&[15], "same"), probe(&[1], "setup"), probe(&[1, 4, 9], "static"), probe(&[0, 5], "late")];
        let mut machine = Progression::new(probed);
        let asked = drive(&mut machine, needs(&[4, 15]));
        let expected: [&[usize]; 5] = [&[15], &[1, 15], &[1, 2, 4, 9, 15], &[1, 2, 4, 15], &[2, 4, 15]];
        assert_eq!(asked[..2], expected[..2]);
        assert_eq!(asked[2], expected[2]);
        assert_eq!(asked.last().map(Vec::as_slice), Some(expected[4]));
        assert_eq!(elements(machine.best()), [2, 4, 15]);
    }

    #[test]
    fn nothing_required_and_an_empty_universe_are_no_special_cases() {
        let mut machine = Progression::new(problem(4, &[], &[(3, 1)]));
        let asked = drive(&mut machine, needs(&[1, 3]));
        assert_eq!(asked.last().map(Vec::as_slice), Some(&[1, 3][..]));
        assert!(asked.iter().all(|keep| !keep.is_empty()));
        assert_eq!(drive(&mut Progression::new(problem(0, &[], &[])), needs(&[])).len(), 0);
    }
}

mod sweep {
    use super::*;

    fn direct(universe: usize, required: &[usize], edges: &[(usize, usize)]) -> WithDependents {
        WithDependents::new(Set::of(universe, required.iter().copied()), Reach::Direct, edges.iter().copied())
    }

    #[test]
    fn latest_first_with_dependents_and_on_behind_a_hit() {
        let mut machine = Sweep::new(Set::full(5), direct(5, &[], &[(3, 1)]), Certify::Full);
        let asked = drive(&mut machine, needs(&[0, 4]));
        let expected: [&[usize]; 5] = [&[0, 1, 2, 3], &[0, 1, 2, 4], &[0, 1, 4], &[0, 4], &[4]];
        assert_eq!(asked[..3], expected[..3]);
        assert_eq!(elements(machine.present()), [0, 4]);
        assert_eq!(asked.last().map(Vec::as_slice), Some(&[0][..]), "the first verdict was against a larger set");
    }

    #[test]
    fn every_proof_is_against_the_final_set_and_says_what_it_is() {
        let mut machine = Sweep::new(Set::full(4), direct(4, &[3], &[(3, 2)]), Certify::Full);
        let asked = drive(&mut machine, needs(&[0, 1, 2, 3]));
        assert_eq!(asked, [[0, 2, 3], [1, 2, 3]]);
        let proofs = machine.proofs();
        assert_eq!(proofs.len(), 4);
        assert_eq!((proofs[&3].certain, proofs[&2].certain), (1, 1));
        assert_eq!((proofs[&1].run, proofs[&0].run), (1, 1));
    }

    #[test]
    fn sinks_need_a_run_and_what_they_use_is_implied() {
        let edges = [(9, 8), (8, 7), (7, 6)];
        let removals = WithDependents::new(Set::empty(10), Reach::Transitive, edges);
        let mut machine = Sweep::new(Set::of(10, [6, 7, 8, 9]), removals, Certify::Sinks);
        assert_eq!(drive(&mut machine, needs(&[6, 7, 8, 9])), [[6, 7, 8]]);
        assert_eq!(machine.proofs()[&9].run, 1);
        assert!([7, 8].iter().all(|element| machine.proofs()[element].implied == 1));
        assert_eq!(machine.proofs()[&6].certain, 1, "without it nothing is left");
    }

    #[test]
    fn known_misses_are_not_asked_again() {
        let mut machine = Sweep::new(Set::full(3), direct(3, &[], &[]), Certify::Full);
        machine.missed(Set::of(3, [0, 1]));
        assert_eq!(drive(&mut machine, needs(&[0, 1, 2])), [[0, 2], [1, 2]]);
        assert_eq!(machine.proofs()[&2].run, 1);
    }

    #[test]
    fn a_run_of_removable_neighbours_goes_in_groups() {
        let mut machine = Sweep::new(Set::full(200), direct(200, &[], &[]), Certify::Full);
        let asked = drive(&mut machine, needs(&[0, 1]));
        assert_eq!(elements(machine.present()), [0, 1]);
        assert!(asked.len() < 30, "{}", asked.len());
    }

    #[test]
    fn an_element_without_a_verdict_stays_unproved() {
        let mut machine = Sweep::new(Set::full(2), direct(2, &[], &[]), Certify::Full);
        drive(&mut machine, |_| Answer::Unresolved);
        assert_eq!(machine.present().len(), 2);
        assert!(machine.proofs().values().all(|proof| proof.unresolved == 1 && proof.run == 0));
    }

    #[derive(Clone)]
    struct AloneThenPair;

    impl Removals for AloneThenPair {
        fn of(&self, element: usize, present: &Set) -> Vec<Removal> {
            [vec![element], vec![element, element + 1]]
                .into_iter()
                .map(|drop| Removal { drop: Set::of(present.universe(), drop), certain: false })
                .collect()
        }
    }

    #[test]
    fn each_removal_of_an_element_is_tried() {
        let mut machine = Sweep::new(Set::full(3), AloneThenPair, Certify::Full);
        let judge = |keep: &Set| {
            if keep.contains(0) && keep.contains(1) == keep.contains(2) { Answer::Hit } else { Answer::Miss }
        };
        drive(&mut machine, judge);
        assert_eq!(elements(machine.present()), [0]);
    }
}

mod halving {
    use super::*;

    fn proposals(count: usize, prior: f64) -> Vec<Proposal> {
        (0..count).map(|index| Proposal { weight: 100.0 - index as f64, prior }).collect()
    }

    /// Hits without any of `bad`.
    fn without(bad: &[usize]) -> impl Fn(&Set) -> Answer + use<> {
        let bad = bad.to_vec();
        move |keep| if bad.iter().any(|&index| keep.contains(index)) { Answer::Miss } else { Answer::Hit }
    }

    #[test]
    fn all_that_works_together_costs_one_run() {
        let mut machine = Halving::new(proposals(6, 0.7));
        assert_eq!(drive(&mut machine, without(&[])), [[0, 1, 2, 3, 4, 5]]);
        assert_eq!(machine.applied().len(), 6);
        assert!(drive(&mut Halving::new(Vec::new()), without(&[])).is_empty());
    }

    #[test]
    fn the_heaviest_go_first_and_the_last_of_a_bad_part_needs_no_run() {
        let list = [1.0, 5.0, 3.0].map(|weight| Proposal { weight, prior: 0.6 });
        let mut machine = Halving::new(list.to_vec());
        assert_eq!(drive(&mut machine, without(&[0])), [vec![0, 1, 2], vec![1], vec![1, 2]]);
        assert_eq!((elements(machine.applied()), elements(machine.rejected())), (vec![1, 2], vec![0]));
    }

    #[test]
    fn one_bad_proposal_of_many_is_found_by_splitting() {
        for bad in 0..32 {
            let mut machine = Halving::new(proposals(32, 0.95));
            let asked = drive(&mut machine, without(&[bad]));
            assert_eq!(elements(machine.rejected()), [bad]);
            assert_eq!(machine.applied().len(), 31);
            assert!(asked.len() <= 12, "{bad}: {}", asked.len());
        }
    }

    #[test]
    fn nothing_that_works_costs_little_more_than_one_run_each() {
        for prior in [0.2, 0.5, 0.8, 0.95] {
            let mut machine = Halving::new(proposals(10, prior));
            let asked = drive(&mut machine, |_| Answer::Miss);
            assert_eq!(machine.rejected().len(), 10, "{prior}");
            assert!(asked.len() <= 10 + 3, "{prior}: {}", asked.len());
        }
        assert_eq!(drive(&mut Halving::new(proposals(1, 0.9)), |_| Answer::Unresolved).len(), 1);
    }

    #[test]
    fn long_shots_waste_one_run_together() {
        let mut machine = Halving::new(proposals(5, 0.05));
        assert_eq!(drive(&mut machine, |_| Answer::Miss).len(), 1);
        assert_eq!(machine.given_up().len(), 5);
    }

    #[test]
    fn independent_proposals_end_with_exactly_those_that_work() {
        let mut random = Random::new(7);
        for _ in 0..2000 {
            let count = 1 + random.below(20);
            let bad: Vec<usize> = (0..count).filter(|_| random.chance(0.3)).collect();
            let list = (0..count).map(|_| Proposal { weight: random.unit(), prior: 0.2 + 0.8 * random.unit() });
            let mut machine = Halving::new(list.collect());
            let asked = drive(&mut machine, without(&bad));
            assert_eq!(elements(machine.rejected()), bad);
            assert_eq!(machine.applied().len(), count - bad.len());
            assert!(asked.len() <= 2 * count + 2);
        }
    }
}

/// A small program of any shape, cycles and forward references too, with an oracle that need not be monotone.
struct Odd {
    statements: usize,
    crash: usize,
    needed: BTreeSet<usize>,
    edges: Vec<(usize, usize)>,
    hidden: BTreeSet<(usize, usize)>,
    soft: Vec<(usize, usize)>,
    whims: Whims,
    salt: u64,
}

/// Shares of candidates, chosen by hash, whose verdict is turned.
#[derive(Clone, Copy)]
struct Whims {
    to_hit: f64,
    to_miss: f64,
    to_unresolved: f64,
}

impl Odd {
    fn random(random: &mut Random) -> Self {
        let statements = 2 + random.below(30);
        let crash = random.below(statements);
        let edges: Vec<(usize, usize)> =
            (0..random.below(2 * statements)).map(|_| (random.below(statements), random.below(statements))).collect();
        let soft =
            (0..random.below(statements)).map(|_| (random.below(statements), random.below(statements))).collect();
        let hidden = edges.iter().copied().filter(|_| random.chance(0.2)).collect();
        let needed = (0..random.below(4)).map(|_| random.below(statements)).chain([crash]).collect();
        let whims = [
            Whims { to_hit: 0.0, to_miss: 0.0, to_unresolved: 0.0 },
            Whims { to_hit: 0.0, to_miss: 0.0, to_unresolved: 0.3 },
            Whims { to_hit: 0.1, to_miss: 0.2, to_unresolved: 0.1 },
            Whims { to_hit: 0.5, to_miss: 0.5, to_unresolved: 0.0 },
        ][random.below(4)];
        Self { statements, crash, needed, edges, hidden, soft, whims, salt: random.next() }
    }

    fn judge(&self, keep: &Set) -> Answer {
        if keep.len() == self.statements {
            return Answer::Hit;
        }
        if !keep.contains(self.crash) {
            return Answer::Miss;
        }
        let mut whim = Random::new(keep.iter().fold(self.salt, |hash, element| {
            (hash ^ element as u64).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23)
        }));
        if whim.chance(self.whims.to_unresolved) {
            return Answer::Unresolved;
        }
        let lacks = self.edges.iter().find(|(user, definer)| keep.contains(*user) && !keep.contains(*definer));
        let answer = match lacks {
            Some(&edge) if edge.1 % 3 == 0 => Answer::Named(vec![(edge.0, (edge.1 + 1) % self.statements), edge]),
            Some(_) => Answer::Miss,
            None if self.needed.iter().all(|&needed| keep.contains(needed)) => Answer::Hit,
            None => Answer::Miss,
        };
        match answer.is_hit() {
            true if whim.chance(self.whims.to_miss) => Answer::Miss,
            false if whim.chance(self.whims.to_hit) => Answer::Hit,
            _ => answer,
        }
    }

    fn problem(&self) -> Problem<HardEdges> {
        let mut problem = problem(self.statements, &[self.crash], &[]);
        problem.closures = self.graph();
        problem.soft = self.soft.clone();
        problem.probes = vec![Probe { keep: Set::of(self.statements, 0..=self.crash), expect: 0.5, why: "executed" }];
        problem
    }

    fn graph(&self) -> HardEdges {
        HardEdges::new(self.statements, self.edges.iter().copied().filter(|edge| !self.hidden.contains(edge)))
    }
}

type Whole<F> = Then<Progression<HardEdges>, Sweep<WithDependents>, F>;

fn whole(
    problem: Problem<HardEdges>,
    certify: Certify,
) -> Whole<impl Fn(&Progression<HardEdges>) -> Sweep<WithDependents> + Clone> {
    let required = problem.required.clone();
    Then::new(Progression::new(problem), move |found: &Progression<HardEdges>| {
        Sweep::new(found.best().clone(), removals(found, &required, certify), certify)
    })
}

fn removals(found: &Progression<HardEdges>, required: &Set, certify: Certify) -> WithDependents {
    let reach = if certify == Certify::Full { Reach::Direct } else { Reach::Transitive };
    WithDependents::new(required.clone(), reach, found.closures().edges())
}

/// The result is a hit, and no removal of one element with its dependents is.
fn check_minimal(present: &Set, removals: &WithDependents, judge: impl Fn(&Set) -> Answer) {
    assert_eq!(judge(present), Answer::Hit);
    for element in present.iter() {
        for removal in removals.of(element, present) {
            let keep = present.difference(&removal.drop);
            assert!(keep.is_empty() || !judge(&keep).is_hit(), "{element} can go from {present:?}");
        }
    }
}

/// `width` workers whose trials end in random order.
fn in_parallel<M: Machine>(
    machine: M,
    width: usize,
    random: &mut Random,
    judge: impl Fn(&Set) -> Answer,
) -> (M, Vec<Adopted>) {
    let mut search = Speculation::new(machine);
    let mut in_flight: Vec<Set> = Vec::new();
    let mut adopted = Vec::new();
    while let Some(waits_for) = search.waits_for() {
        let schedule = search.schedule(width, &in_flight);
        in_flight.retain(|keep| !schedule.kill.contains(keep));
        for prospect in schedule.start {
            assert!(!in_flight.contains(&prospect.ask.keep), "started twice");
            in_flight.push(prospect.ask.keep);
        }
        assert!(in_flight.len() <= width);
        assert!(in_flight.contains(&waits_for.keep), "nobody runs what the search waits for");
        let keep = in_flight.swap_remove(random.below(in_flight.len()));
        let answer = judge(&keep);
        adopted.extend(search.answer(keep, answer));
    }
    assert!(search.is_done());
    (search.into_machine(), adopted)
}

#[test]
fn on_random_programs_the_core_is_found_and_is_one_minimal() {
    let mut random = Random::new(1);
    for round in 0..500 {
        let shape = Shape { statements: 40 + random.below(100), sinks: 1 + round % 3, hidden: 0.2, named: 0.5 };
        let program = Program::random(shape, &mut random);
        for certify in [Certify::Full, Certify::Sinks] {
            let mut problem = problem(program.statements, &[program.crash], &[]);
            problem.closures = program.known();
            problem.soft = program.soft.clone();
            let required = problem.required.clone();
            let mut machine = whole(problem, certify);
            drive(&mut machine, |keep| program.judge(keep));
            let sweep = machine.second().expect("the sweep came after the progression");
            check_minimal(sweep.present(), &removals(machine.first(), &required, certify), |keep| program.judge(keep));
            assert_eq!(sweep.proofs().len(), sweep.present().len());
            assert!(program.core.iter().all(|&element| sweep.present().contains(element)));
        }
    }
}

#[test]
fn on_odd_programs_result_and_adopted_sequence_are_the_same_for_every_width() {
    let mut random = Random::new(2);
    for _ in 0..1500 {
        let program = Odd::random(&mut random);
        let certify = if random.chance(0.5) { Certify::Full } else { Certify::Sinks };
        let required = Set::of(program.statements, [program.crash]);
        let mut sequential = whole(program.problem(), certify);
        let asked = drive(&mut sequential, |keep| program.judge(keep));
        let result = sequential.second().expect("the sweep came after the progression").present().clone();
        if certify == Certify::Full {
            check_minimal(&result, &removals(sequential.first(), &required, certify), |keep| program.judge(keep));
        }
        assert_eq!(program.judge(&result), Answer::Hit);
        for width in [1, 2, 4, 8] {
            let machine = whole(program.problem(), certify);
            let (machine, adopted) = in_parallel(machine, width, &mut random, |keep| program.judge(keep));
            let order: Vec<Vec<usize>> = adopted.iter().map(|node| elements(&node.ask.keep)).collect();
            assert_eq!(order, asked, "width {width}");
            assert_eq!(machine.second().map(Sweep::present), Some(&result), "width {width}");
        }
    }
}

mod speculation {
    use super::*;

    fn four() -> Sweep<WithDependents> {
        Sweep::new(Set::full(4), WithDependents::new(Set::empty(4), Reach::Direct, []), Certify::Full)
    }

    fn starts(search: &Speculation<Sweep<WithDependents>>, width: usize, in_flight: &[Set]) -> Vec<Vec<usize>> {
        search.schedule(width, in_flight).start.iter().map(|prospect| elements(&prospect.ask.keep)).collect()
    }

    #[test]
    fn one_worker_runs_what_the_search_waits_for() {
        let search = Speculation::new(four());
        assert_eq!(starts(&search, 1, &[]), [[0, 1, 2]]);
        assert!(starts(&search, 1, &[Set::of(4, [0, 1, 2])]).is_empty());
    }

    #[test]
    fn unlikely_hits_give_a_chain_of_misses() {
        let search = Speculation::new(four());
        assert_eq!(starts(&search, 3, &[]), [[0, 1, 2], [0, 1, 3], [0, 2, 3]]);
    }

    #[test]
    fn a_hit_kills_what_assumed_a_miss_and_keeps_early_answers() {
        let mut search = Speculation::new(four());
        assert!(search.answer(Set::of(4, [0, 1, 3]), Answer::Miss).is_empty(), "not yet its turn");
        let late = Set::of(4, [0, 2, 3]);
        let adopted = search.answer(Set::of(4, [0, 1, 2]), Answer::Hit);
        assert_eq!(adopted.len(), 1);
        let schedule = search.schedule(2, std::slice::from_ref(&late));
        assert_eq!(schedule.kill, [late]);
        assert_eq!(elements(&schedule.start[0].ask.keep), [0, 1]);
    }

    #[test]
    fn what_the_search_waits_for_displaces_the_least_likely() {
        let search = Speculation::new(four());
        let in_flight = [Set::of(4, [0, 1, 3]), Set::of(4, [0, 2, 3])];
        let schedule = search.schedule(2, &in_flight);
        assert_eq!(elements(&schedule.start[0].ask.keep), [0, 1, 2]);
        assert_eq!(schedule.kill, [in_flight[1].clone()]);
    }

    #[test]
    fn a_finished_search_starts_nothing_and_kills_all() {
        let mut search = Speculation::new(Sweep::new(
            Set::full(1),
            WithDependents::new(Set::full(1), Reach::Direct, []),
            Certify::Full,
        ));
        assert!(search.is_done());
        assert!(search.answer(Set::full(1), Answer::Miss).is_empty());
        let schedule = search.schedule(4, &[Set::empty(1)]);
        assert!(schedule.start.is_empty());
        assert_eq!(schedule.kill.len(), 1);
    }

    /// Asks for the same candidate twice.
    #[derive(Clone)]
    struct Twice(usize);

    impl Machine for Twice {
        fn step(&mut self) -> Step {
            if self.0 == 2 { Step::Done } else { Step::Ask(Ask { keep: Set::full(1), expect: 0.5, why: "twice" }) }
        }

        fn mark(&mut self, _: &Answer) {
            self.0 += 1;
        }
    }

    #[test]
    fn a_repeated_question_is_answered_once() {
        let mut search = Speculation::new(Twice(0));
        assert_eq!(search.schedule(4, &[]).start.len(), 1);
        let adopted = search.answer(Set::full(1), Answer::Hit);
        assert_eq!(adopted.len(), 2);
        assert!(search.is_done());
    }
}
