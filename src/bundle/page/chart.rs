//! The chart of a run: size over trials as a falling line, and the verdicts of the trials as columns below it.
//!
//! Invariant: it is as large for a thousand trials as for two hundred; what it shows stands in the tables as well.

use std::fmt::Write as _;

use crate::bundle::tally::{Tally, VERDICTS, verdict};

/// Width of the drawing area; it is stretched to the page.
const WIDTH: f64 = 1000.0;
/// Height of the size's area.
const TALL: f64 = 300.0;
/// Height of the columns' area.
const SHORT: f64 = 100.0;
/// Most columns; more trials share one.
const COLUMNS: usize = 160;

/// What the page draws.
#[derive(Default)]
pub(super) struct Chart {
    pub(super) trials: usize,
    /// The falling line, as a path of SVG.
    pub(super) line: String,
    /// The same down to the ground.
    pub(super) area: String,
    pub(super) ticks: Vec<Tick>,
    pub(super) columns: Vec<Column>,
    /// How many trials a column stands for.
    pub(super) in_column: usize,
    pub(super) phases: Vec<Band>,
}

/// A size with a line and a label.
pub(super) struct Tick {
    /// In the drawing.
    pub(super) y: f64,
    /// From the top, in percent.
    pub(super) percent: f64,
    pub(super) label: String,
}

/// Trials of one verdict within a column.
pub(super) struct Column {
    pub(super) verdict: &'static str,
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// Trials in a row of one phase.
pub(super) struct Band {
    pub(super) name: String,
    pub(super) first: usize,
    pub(super) last: usize,
    pub(super) x: f64,
    pub(super) width: f64,
    pub(super) odd: u8,
}

/// Draws a run whose original has so many tokens.
pub(super) fn draw(tally: &Tally, original: usize) -> Chart {
    let trials = tally.trials.len();
    if trials == 0 {
        return Chart::default();
    }
    let scale = Scale::over(tally, original);
    let x = |trial: usize| WIDTH * float(trial) / float(trials);
    let mut line = format!("M0 {:.1}", scale.y(original));
    for win in &tally.wins {
        let _ok = write!(line, "H{:.1}V{:.1}", x(win.trial), scale.y(win.tokens));
    }
    let _ok = write!(line, "H{WIDTH:.0}");
    let in_column = trials.div_ceil(COLUMNS);
    Chart {
        trials,
        area: format!("{line}V{TALL:.0}H0Z"),
        line,
        ticks: scale.ticks(),
        columns: columns(tally, in_column),
        in_column,
        phases: phases(tally),
    }
}

/// Sizes on a logarithmic scale: most of the search happens where little is left.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn over(tally: &Tally, original: usize) -> Self {
        let least = tally.wins.last().map_or(original, |win| win.tokens).min(original).max(1);
        let (low, high) = (float(least) * 0.8, float(original.max(2)) * 1.1);
        Self { low: low.ln(), high: high.max(low * 2.0).ln() }
    }

    fn y(&self, size: usize) -> f64 {
        TALL * (self.high - float(size.max(1)).ln()) / (self.high - self.low)
    }

    fn ticks(&self) -> Vec<Tick> {
        let mut ticks = Vec::new();
        let mut ten = 1;
        while float(ten).ln() < self.high {
            for size in [ten, 2 * ten, 5 * ten] {
                let y = self.y(size);
                if (12.0..=TALL - 6.0).contains(&y) {
                    ticks.push(Tick { y, percent: y / TALL * 100.0, label: size.to_string() });
                }
            }
            ten *= 10;
        }
        ticks
    }
}

fn columns(tally: &Tally, in_column: usize) -> Vec<Column> {
    let width = WIDTH * float(in_column) / float(tally.trials.len());
    let gap = if width > 8.0 { 2.0 } else { 0.0 };
    let mut columns = Vec::new();
    for (number, trials) in tally.trials.chunks(in_column).enumerate() {
        let mut y = SHORT;
        for (kind, name) in VERDICTS.iter().enumerate() {
            let count = trials.iter().filter(|trial| verdict(trial) == kind).count();
            if count == 0 {
                continue;
            }
            let height = SHORT * float(count) / float(in_column);
            y -= height;
            columns.push(Column { verdict: name, x: float(number) * width, y, width: width - gap, height });
        }
    }
    columns
}

fn phases(tally: &Tally) -> Vec<Band> {
    let trials = tally.trials.len();
    let mut bands: Vec<Band> = Vec::new();
    for (number, trial) in tally.trials.iter().enumerate() {
        match bands.last_mut() {
            Some(band) if band.name == trial.phase => band.last = number + 1,
            _ => bands.push(Band {
                name: trial.phase.clone(),
                first: number + 1,
                last: number + 1,
                x: 0.0,
                width: 0.0,
                odd: u8::from(bands.len() % 2 == 1),
            }),
        }
    }
    for band in &mut bands {
        band.x = WIDTH * float(band.first - 1) / float(trials);
        band.width = WIDTH * float(band.last + 1 - band.first) / float(trials);
    }
    bands
}

fn float(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::from(u32::MAX), f64::from)
}
