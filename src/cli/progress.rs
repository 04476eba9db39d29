//! What is shown while a run goes on: a live line on a terminal, a line a win elsewhere, or one JSON event a line.
//!
//! Invariant: progress goes to standard error, results and JSON events to standard output.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use crate::bisect::drive::Turn;
use crate::job::Happening;

/// How a run is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Only the result and errors.
    Quiet,
    /// A live line on a terminal, else a line a win.
    Normal,
    /// Every trial.
    Verbose,
    /// One JSON event a line on standard output.
    Json,
}

/// Shows one run.
pub(super) struct Progress {
    style: Style,
    bar: Option<ProgressBar>,
    begun: Instant,
    verdicts: BTreeMap<&'static str, u64>,
    sizes: Option<[(usize, usize); 2]>,
    phase: String,
    runs: u64,
    in_flight: usize,
    last_win: Instant,
}

impl Progress {
    /// A display in a style.
    pub(super) fn new(style: Style) -> Self {
        let live = style == Style::Normal && std::io::stderr().is_terminal();
        let bar = live.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
            let template = ProgressStyle::with_template("{spinner} {msg}\n  {prefix}");
            bar.set_style(template.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        let now = Instant::now();
        Self {
            style,
            bar,
            begun: now,
            verdicts: BTreeMap::new(),
            sizes: None,
            phase: "preflight".to_owned(),
            runs: 0,
            in_flight: 0,
            last_win: now,
        }
    }

    /// Shows what happened.
    pub(super) fn show(&mut self, happening: &Happening<'_>) {
        if self.style == Style::Json {
            self.event(happening);
            return;
        }
        match happening {
            Happening::Phase { phase, text } => {
                self.phase = (*phase).to_owned();
                self.line(&format!("{phase}: {text}"));
            }
            Happening::Found(found) => {
                self.line(&format!("the failure: {}", found.signature));
                if let Some(frame) = found.frames.last() {
                    self.line(&format!("  at {}:{}", frame.file, frame.line));
                }
                for hidden in &found.hidden {
                    self.line(&format!("  note: {hidden}"));
                }
            }
            Happening::Trial { phase, pass, what, verdict, runs } => {
                *self.verdicts.entry(verdict.name()).or_default() += 1;
                self.phase = if pass.is_empty() { (*phase).to_owned() } else { format!("{phase}, {pass}") };
                self.runs = *runs;
                if self.style == Style::Verbose {
                    let detail = serde_json::to_string(verdict).unwrap_or_default();
                    self.line(&format!("  {runs:>4} {:<28} {:<10} {what} {detail}", self.phase, verdict.name()));
                }
            }
            Happening::Repro { text, how, size, runs } => {
                self.runs = *runs;
                self.line(&format!("{runs:>4} runs  a first repro of {} statements: {how}", size.0));
                text.lines().filter(|line| !line.is_empty()).for_each(|line| self.line(&format!("    {line}")));
            }
            Happening::Win { statements, tokens, phase, pass, runs } => {
                self.sizes = Some([*statements, *tokens]);
                self.last_win = Instant::now();
                self.runs = *runs;
                if self.bar.is_none() && self.style != Style::Quiet {
                    self.line(&format!(
                        "{:>4} runs  {:>4} of {} statements, {:>5} of {} tokens  ({phase}, {pass})",
                        runs, statements.0, statements.1, tokens.0, tokens.1
                    ));
                }
            }
            Happening::Bisect(turn) => return self.bisect(turn),
            Happening::Tick { in_flight } => self.in_flight = *in_flight,
        }
        self.draw();
    }

    fn bisect(&mut self, turn: &Turn<'_>) {
        match turn {
            Turn::Ran { label, answer, why, runs } => {
                self.runs = *runs;
                let short: String = label.chars().take(60).collect();
                self.line(&format!(
                    "{runs:>4}  {:<6}  {short:<60}  {}",
                    answer.word(),
                    why.lines().next().unwrap_or_default()
                ));
            }
            Turn::Posterior { bins, favourite, mass, left } => {
                let drawn = format!("[{}] {left} left, {:>3.0} % {favourite}", bars(bins), mass * 100.0);
                match &self.bar {
                    Some(bar) => {
                        bar.set_message(drawn);
                        bar.set_prefix(format!("{:.0} s, {} runs", self.begun.elapsed().as_secs_f64(), self.runs));
                    }
                    None if self.style != Style::Quiet => say(&format!("      {drawn}")),
                    None => {}
                }
            }
        }
    }

    fn draw(&self) {
        let Some(bar) = &self.bar else { return };
        let mix: Vec<String> = self.verdicts.iter().map(|(name, count)| format!("{count} {name}")).collect();
        let size = self.sizes.map_or_else(String::new, |[statements, tokens]| {
            format!("{} of {} statements, {} of {} tokens, ", statements.0, statements.1, tokens.0, tokens.1)
        });
        bar.set_message(format!("{size}{} runs, {} in flight: {}", self.runs, self.in_flight, mix.join(", ")));
        bar.set_prefix(format!(
            "{:.0} s, {}, last win {:.0} s ago",
            self.begun.elapsed().as_secs_f64(),
            self.phase,
            self.last_win.elapsed().as_secs_f64()
        ));
    }

    fn line(&self, text: &str) {
        if self.style == Style::Quiet {
            return;
        }
        match &self.bar {
            Some(bar) => bar.println(text),
            None => say(text),
        }
    }

    fn event(&self, happening: &Happening<'_>) {
        let at = self.begun.elapsed().as_secs_f64();
        let event = match happening {
            Happening::Phase { phase, text } => json!({ "event": "phase", "at": at, "phase": phase, "text": text }),
            Happening::Found(found) => json!({
                "event": "found", "at": at, "signature": found.signature, "site": found.frames.last(),
                "failure": found.failure, "pins": found.pins, "hidden": found.hidden,
            }),
            Happening::Trial { phase, pass, what, verdict, runs } => json!({
                "event": "trial", "at": at, "phase": phase, "pass": pass, "what": what, "verdict": verdict, "runs": runs,
            }),
            Happening::Repro { text, how, size, runs } => json!({
                "event": "repro", "at": at, "text": text, "how": how, "statements": size.0, "tokens": size.1, "runs": runs,
            }),
            Happening::Win { statements, tokens, phase, pass, runs } => json!({
                "event": "win", "at": at, "phase": phase, "pass": pass, "runs": runs,
                "statements": statements.0, "of_statements": statements.1, "tokens": tokens.0, "of_tokens": tokens.1,
            }),
            Happening::Bisect(Turn::Ran { label, answer, why, runs }) => json!({
                "event": "run", "at": at, "label": label, "answer": answer.word(), "why": why, "runs": runs,
            }),
            Happening::Bisect(Turn::Posterior { bins, favourite, mass, left }) => json!({
                "event": "posterior", "at": at, "bins": bins, "favourite": favourite, "probability": mass, "left": left,
            }),
            Happening::Tick { .. } => return,
        };
        print(&event.to_string());
    }

    /// Ends the live line.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Probabilities along an axis as a row of bars; the highest is full.
fn bars(bins: &[f64]) -> String {
    const STEPS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = bins.iter().copied().fold(0.0_f64, f64::max);
    let step = |value: &f64| {
        // What is left of a doubt stays visible: any probability of one in a thousand gets the lowest bar.
        let share = if most > 0.0 { value / most } else { 0.0 };
        let height = (share * 8.0).round() as usize;
        STEPS[if height == 0 && *value >= 0.001 { 1 } else { height.min(8) }]
    };
    bins.iter().map(step).collect()
}

/// One line on standard error; a closed pipe is no failure of ours.
pub(super) fn say(text: &str) {
    let _closed = writeln!(std::io::stderr().lock(), "{text}");
}

/// One line on standard output; a closed pipe is no failure of ours.
pub(super) fn print(text: &str) {
    let _closed = writeln!(std::io::stdout().lock(), "{text}");
}
