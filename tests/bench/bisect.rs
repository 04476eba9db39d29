//! What the noisy bisector costs by simulation, against the figures that it has to reach.
//!
//! Prints one table; exits with 1 where a mean is above 1.1 times its figure, rounds are above theirs, or fewer than 98 of
//! 100 answers are right, 95 where the rate is unknown. The checks of both ends are not counted where the rate is known, as in the figures.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table and fails by its status")]

#[path = "model.rs"]
#[expect(dead_code, reason = "only its generator is used here")]
mod model;

use std::time::Instant;

use model::Random;
use reduce::bisect::{Answer, Bisector, Conclusion, Options, Order, Rates, Step};

/// Searches a row; ten times as many where the long tests are asked for.
const SEARCHES: usize = 200;
const SLACK: f64 = 1.1;
/// The figures of rounds are given to one decimal, over few searches.
const ROUNDING: f64 = 1.02;
const RIGHT: f64 = 0.98;
/// The same where the rate is unknown: nineteen of twenty.
const RIGHT_UNKNOWN: f64 = 0.95;
const MOST: usize = 3000;

struct Row {
    points: usize,
    miss: f64,
    /// Width, runs and rounds of the figure.
    figures: &'static [(usize, f64, f64)],
}

const ROWS: &[Row] = &[
    Row { points: 200, miss: 0.0, figures: &[(1, 7.8, 7.8), (4, 14.9, 3.7), (8, 24.0, 3.0)] },
    Row { points: 200, miss: 0.1, figures: &[(1, 11.4, 11.4), (4, 20.7, 5.2), (8, 30.0, 3.8)] },
    Row { points: 200, miss: 0.3, figures: &[(1, 17.5, 17.5), (4, 29.7, 7.4), (8, 38.0, 4.7)] },
    Row { points: 200, miss: 0.5, figures: &[(1, 29.5, 29.5), (4, 41.3, 10.3), (8, 53.0, 6.6)] },
    Row { points: 200, miss: 0.8, figures: &[(1, 83.6, 83.6), (4, 120.0, 30.0), (8, 131.0, 16.3)] },
    Row { points: 1024, miss: 0.5, figures: &[(1, 35.8, 35.8), (4, 50.9, 12.7), (8, 67.0, 8.3)] },
];

#[derive(Default)]
struct Cost {
    runs: usize,
    rounds: usize,
    points: usize,
    right: bool,
}

/// One search for a random change among `points`.
fn search(points: usize, miss: f64, width: usize, rates: Option<Rates>, broken: f64, random: &mut Random) -> Cost {
    let known = rates.is_some();
    // Where the rate is known, nothing is left to find out about it at the end.
    let options = match rates {
        Some(rates) => Options { rates, replays: 1, ..Options::default() },
        None => Options::default(),
    };
    let mut bisector = Bisector::new(Order::Chain(points + 1), options);
    let change = 1 + random.below(points);
    let mut breaks = vec![false; points + 1];
    let mut at = 1;
    // Broken ranges of three points on average.
    while at < points {
        if random.chance(broken / 3.0) {
            let length = 1 + random.below(5);
            (at..(at + length).min(points)).for_each(|point| breaks[point] = true);
            at += length;
        }
        at += 1;
    }
    if known {
        (0..3).for_each(|_| bisector.mark(points, Answer::Fails));
        (0..44).for_each(|_| bisector.mark(0, Answer::Passes));
    }
    let mut cost = Cost::default();
    let mut seen = vec![false; points + 1];
    loop {
        match bisector.step(width) {
            Step::Ask(asked) => {
                cost.rounds += 1;
                for point in asked {
                    cost.runs += 1;
                    cost.points += usize::from(!std::mem::replace(&mut seen[point], true));
                    let fails = if point >= change { !random.chance(miss) } else { random.chance(0.001) };
                    let answer = match (breaks[point], fails) {
                        (true, _) => Answer::Skip,
                        (false, true) => Answer::Fails,
                        (false, false) => Answer::Passes,
                    };
                    bisector.mark(point, answer);
                }
                if cost.runs > MOST {
                    return cost;
                }
            }
            Step::Done(Conclusion::Found { first, .. }) => {
                // A change among broken points is named together with them and the first point that fails.
                let honest = first.iter().filter(|point| !breaks[**point]).count() <= 1;
                cost.right = first.contains(&change) && honest;
                return cost;
            }
            Step::Done(_) => return cost,
        }
    }
}

struct Mean {
    runs: f64,
    rounds: f64,
    points: f64,
    right: f64,
    p95: usize,
}

fn mean(searches: usize, mut one: impl FnMut() -> Cost) -> Mean {
    let costs: Vec<Cost> = (0..searches).map(|_| one()).collect();
    let of = |pick: fn(&Cost) -> usize| costs.iter().map(pick).sum::<usize>() as f64 / searches as f64;
    let mut runs: Vec<usize> = costs.iter().map(|cost| cost.runs).collect();
    runs.sort_unstable();
    Mean {
        runs: of(|cost| cost.runs),
        rounds: of(|cost| cost.rounds),
        points: of(|cost| cost.points),
        right: of(|cost| usize::from(cost.right)),
        p95: runs[searches * 95 / 100],
    }
}

fn main() {
    let began = Instant::now();
    let searches = if std::env::var_os("REDUCE_TEST_LONG").is_some() { 10 * SEARCHES } else { SEARCHES };
    let mut failed = 0;
    println!(
        "Mean over {searches} searches, known rate; a mean may be {SLACK} times its figure, rounds may not be above theirs."
    );
    println!(
        "{:>6}{:>7}{:>7}{:>9}{:>8}{:>7}{:>8}{:>8}{:>8}",
        "N", "miss", "width", "figure", "runs", "ratio", "rounds", "figure", "right"
    );
    for row in ROWS {
        for (width, runs, rounds) in row.figures {
            let mut random = Random::new(row.points as u64 + *width as u64);
            let found = mean(searches, || {
                search(row.points, row.miss, *width, Some(Rates::known(1.0 - row.miss)), 0.0, &mut random)
            });
            let bad = (*width == 1 && found.runs > SLACK * runs)
                || (*width > 1 && (found.rounds > ROUNDING * rounds || found.runs > SLACK * runs))
                || found.right < RIGHT;
            failed += usize::from(bad);
            println!(
                "{:>6}{:>7}{:>7}{:>9.1}{:>8.2}{:>7.2}{:>8.2}{:>8.1}{:>8.3}{}",
                row.points,
                row.miss,
                width,
                runs,
                found.runs,
                found.runs / runs,
                found.rounds,
                rounds,
                found.right,
                if bad { " ABOVE" } else { "" }
            );
        }
    }
    println!("Unknown rate, one at a time, both ends and the bracket included.");
    println!("{:>6}{:>7}{:>8}{:>8}{:>6}{:>8}{:>8}", "N", "miss", "broken", "runs", "p95", "points", "right");
    for (points, miss, broken) in [
        (12, 0.0, 0.0),
        (200, 0.0, 0.0),
        (200, 0.1, 0.0),
        (200, 0.5, 0.0),
        (200, 0.8, 0.0),
        (1000, 0.5, 0.0),
        (1000, 0.5, 0.15),
    ] {
        let mut random = Random::new(points as u64 * 7);
        let found = mean(searches / 2, || search(points, miss, 1, None, broken, &mut random));
        let bad = found.right < RIGHT_UNKNOWN;
        failed += usize::from(bad);
        println!(
            "{:>6}{:>7}{:>8}{:>8.2}{:>6}{:>8.2}{:>8.3}{}",
            points,
            miss,
            broken,
            found.runs,
            found.p95,
            found.points,
            found.right,
            if bad { " WRONG" } else { "" }
        );
    }
    println!("{:.1} s", began.elapsed().as_secs_f64());
    if failed > 0 {
        println!("{failed} rows missed");
        std::process::exit(1);
    }
}
