//! What the search costs on random programs, against the figures that it has to reach.
//!
//! Prints one table; exits with 1 where a mean at one worker is above 1.15 times its figure.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table and fails by its status")]

#[path = "model.rs"]
mod model;

use std::time::Instant;

use model::{Program, Random, Shape};
use reduce::search::machine::{Machine, Set, Then};
use reduce::search::progression::{HardEdges, Problem, Progression};
use reduce::search::speculation::Speculation;
use reduce::search::sweep::{Certify, Reach, Sweep, WithDependents};

const PROGRAMS: usize = 300;
const WIDTHS: [usize; 4] = [1, 4, 8, 16];
const SLACK: f64 = 1.15;

/// What the final proof takes for granted.
#[derive(Clone, Copy, PartialEq)]
enum Proof {
    /// Nothing: a run for every element. This is what the figures count.
    Full,
    /// That a candidate without the crash statement cannot crash there.
    Certain,
    /// That, and that deletion is monotone.
    Sinks,
}

#[derive(Clone, Copy, PartialEq)]
enum Crash {
    Known,
    Unknown,
}

struct Row {
    name: &'static str,
    shape: Shape,
    crash: Crash,
    full: Option<f64>,
    sinks: Option<f64>,
}

fn rows() -> Vec<Row> {
    let row = |name, statements, sinks_needed, hidden, named, full, sinks| Row {
        name,
        shape: Shape { statements, sinks: sinks_needed, hidden, named },
        crash: Crash::Known,
        full,
        sinks,
    };
    let mut rows = vec![
        row("n=200 s=1", 200, 1, 0.0, 0.0, Some(10.9), Some(1.0)),
        row("n=200 s=2", 200, 2, 0.0, 0.0, Some(19.1), Some(10.3)),
        row("n=200 s=3", 200, 3, 0.0, 0.0, Some(25.4), Some(17.5)),
        row("n=200 s=2 hidden 10% named 80%", 200, 2, 0.1, 0.8, Some(20.7), Some(12.2)),
        row("n=200 s=2 hidden 10% named 0%", 200, 2, 0.1, 0.0, Some(24.1), Some(14.4)),
        row("n=200 s=2 hidden 30% named 80%", 200, 2, 0.3, 0.8, Some(24.1), Some(14.3)),
        row("n=200 s=2 hidden 30% named 0%", 200, 2, 0.3, 0.0, Some(33.3), None),
        row("n=200 s=2 crash site unknown", 200, 2, 0.0, 0.0, Some(27.4), None),
        row("n=50 s=2 hidden 10% named 80%", 50, 2, 0.1, 0.8, Some(17.0), Some(8.0)),
        row("n=1000 s=2 hidden 10% named 80%", 1000, 2, 0.1, 0.8, Some(21.0), Some(14.0)),
    ];
    rows[7].crash = Crash::Unknown;
    rows
}

/// The whole search on one program: progression, then sweep.
fn machine(program: &Program, crash: Crash, proof: Proof) -> impl Machine + use<> {
    let n = program.statements;
    let required = match crash {
        Crash::Known => Set::of(n, [program.crash]),
        Crash::Unknown => Set::empty(n),
    };
    let weights = match crash {
        // What comes after the crash did not run.
        Crash::Known => (0..n).map(|statement| f64::from(u8::from(statement <= program.crash))).collect(),
        Crash::Unknown => Vec::new(),
    };
    let problem = Problem {
        universe: Set::full(n),
        required: required.clone(),
        closures: program.known(),
        soft: program.soft.clone(),
        probes: Vec::new(),
        weights,
    };
    let (certify, reach, certain) = match proof {
        Proof::Full => (Certify::Full, Reach::Direct, Set::empty(n)),
        Proof::Certain => (Certify::Full, Reach::Direct, required),
        Proof::Sinks => (Certify::Sinks, Reach::Transitive, required),
    };
    Then::new(Progression::new(problem), move |found: &Progression<HardEdges>| {
        let removals = WithDependents::new(certain.clone(), reach, found.closures().edges());
        let mut sweep = Sweep::new(found.best().clone(), removals, certify);
        for miss in found.misses() {
            sweep.missed(miss.clone());
        }
        sweep
    })
}

struct Cost {
    runs: usize,
    rounds: usize,
}

/// Rounds of `width` trials that start and end together; wasted runs are counted.
fn cost(program: &Program, machine: impl Machine, width: usize) -> Cost {
    let mut search = Speculation::new(machine);
    let mut cost = Cost { runs: 0, rounds: 0 };
    while !search.is_done() {
        let start = search.schedule(width, &[]).start;
        cost.rounds += 1;
        cost.runs += start.len();
        for prospect in start {
            let answer = program.judge(&prospect.ask.keep);
            search.answer(prospect.ask.keep, answer);
        }
    }
    cost
}

fn log2_choose(n: usize, k: usize) -> f64 {
    (0..k).map(|i| ((n - i) as f64 / (i + 1) as f64).log2()).sum()
}

struct Measured {
    mean: f64,
    p90: usize,
    rounds: Vec<f64>,
    runs: Vec<f64>,
    bound: Option<f64>,
}

fn measure(row: &Row, proof: Proof) -> Measured {
    let mut random = Random::new(row.shape.statements as u64 * 31 + row.shape.sinks as u64);
    let programs: Vec<Program> = (0..PROGRAMS).map(|_| Program::random(row.shape, &mut random)).collect();
    let mut rounds = Vec::new();
    let mut runs = Vec::new();
    let mut p90 = 0;
    for width in WIDTHS {
        let mut costs: Vec<Cost> = Vec::new();
        for program in &programs {
            costs.push(cost(program, machine(program, row.crash, proof), width));
        }
        if width == 1 {
            let mut sorted: Vec<usize> = costs.iter().map(|cost| cost.runs).collect();
            sorted.sort_unstable();
            p90 = sorted[sorted.len() * 9 / 10];
        }
        rounds.push(costs.iter().map(|cost| cost.rounds).sum::<usize>() as f64 / PROGRAMS as f64);
        runs.push(costs.iter().map(|cost| cost.runs).sum::<usize>() as f64 / PROGRAMS as f64);
    }
    let k = programs.iter().map(|program| program.core.len()).sum::<usize>() as f64 / PROGRAMS as f64;
    let unknown_sinks = row.shape.sinks - usize::from(row.crash == Crash::Known);
    // The crash statement is a sink of its own; where it is known, its removal needs no run.
    let certificate = match proof {
        Proof::Full => Some(k),
        Proof::Sinks => Some(unknown_sinks as f64),
        // How many are certain depends on the program.
        Proof::Certain => None,
    };
    let bound = certificate.map(|runs| log2_choose(row.shape.statements - 10, unknown_sinks) + runs);
    Measured { mean: runs[0], p90, rounds, runs, bound }
}

fn main() {
    let began = Instant::now();
    println!("Mean runs over {PROGRAMS} random programs; limit = {SLACK} x figure; wasted runs are counted.");
    println!(
        "{:<33}{:<23}{:>7}{:>8}{:>7}{:>5}{:>7}   {:<25}{:<25}",
        "case",
        "proof",
        "figure",
        "mean",
        "ratio",
        "p90",
        "bound",
        "rounds at 1 / 4 / 8 / 16",
        "runs at 1 / 4 / 8 / 16"
    );
    let mut failed = 0;
    for row in rows() {
        let proofs = [
            (Proof::Full, "full", row.full),
            (Proof::Certain, "full, certain inferred", None),
            (Proof::Sinks, "sinks", row.sinks),
        ];
        for (proof, name, figure) in proofs {
            let measured = measure(&row, proof);
            let list = |values: &[f64]| values.iter().map(|v| format!("{v:.1}")).collect::<Vec<_>>().join(" / ");
            let (shown, ratio, mark) = match figure {
                Some(figure) => {
                    let above = measured.mean > SLACK * figure;
                    failed += usize::from(above);
                    let mark = if above { " ABOVE" } else { "" };
                    (format!("{figure:.1}"), format!("{:.2}", measured.mean / figure), mark)
                }
                None => ("-".to_owned(), "-".to_owned(), ""),
            };
            println!(
                "{:<33}{:<23}{:>7}{:>8.2}{:>7}{:>5}{:>7}   {:<25}{:<25}{}",
                row.name,
                name,
                shown,
                measured.mean,
                ratio,
                measured.p90,
                measured.bound.map_or("-".to_owned(), |bound| format!("{bound:.1}")),
                list(&measured.rounds),
                list(&measured.runs),
                mark
            );
        }
    }
    println!(
        "bound: log2 of the number of answers, plus the certificate: a run for each element (full), or for each sink that \
         is not inferred."
    );
    println!("{:.1} s", began.elapsed().as_secs_f64());
    if failed > 0 {
        println!("{failed} means above the limit");
        std::process::exit(1);
    }
}
