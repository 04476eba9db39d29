//! The axis `steps`: how much of its history a failing step of the training loop needs.
//!
//! Invariant: the program's text stays as it is; a step that is left out lacks only the body of the loop, and the random
//! generators stand as they stood in the whole run.
//! It asks nothing.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::json;

use super::super::Point;
use super::super::answer::{Aim, Answer, Others};
use super::super::axis::{AxisError, Ordered, Ready};
use super::super::order::Order;
use crate::trial::{Frame, Outcome, Variation};

/// What the harness said of the loop.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Counted {
    /// File of the loop, relative.
    pub file: Option<String>,
    /// Line of the loop.
    pub line: Option<u32>,
    /// How often the loop had been entered, from 1.
    pub pass: u64,
    /// Number of the last step that began, over all passes, from 0.
    pub step: Option<usize>,
    /// The same within its pass.
    pub in_pass: Option<u64>,
    /// Where the text goes over something: `[line, column, last line, last column]` in bytes, the loop's first, and for
    /// each which round to keep.
    pub cuts: Vec<([usize; 4], u64)>,
}

/// The history of one step.
#[derive(Clone, Debug)]
pub struct History {
    frames: Vec<Frame>,
    last: usize,
    states: PathBuf,
    aim: Aim,
}

/// Asks the harness to count steps, and to save the states of the random generators in the trial's folder.
pub fn counting(frames: &[Frame]) -> Variation {
    hooked(frames, json!({ "save": STATES }))
}

/// File of the states in a trial's folder.
pub const STATES: &str = "generators";

fn hooked(frames: &[Frame], more: serde_json::Value) -> Variation {
    let mut told = json!({ "frames": frames.iter().map(|frame| json!([frame.file, frame.line])).collect::<Vec<_>>() });
    if let (Some(told), Some(more)) = (told.as_object_mut(), more.as_object()) {
        told.extend(more.clone());
    }
    Variation { hook: Some(("steps", told)), ..Variation::default() }
}

impl History {
    /// The history of step `last`, with the states that the counting run saved.
    pub fn new(frames: Vec<Frame>, last: usize, states: PathBuf, aim: Aim) -> Self {
        Self { frames, last, states, aim }
    }

    /// The first step that runs at a point: the passing end starts at the failing step itself, the failing end at 0.
    pub fn start(&self, point: Point) -> usize {
        self.last - point
    }
}

impl Ordered for History {
    fn name(&self) -> &'static str {
        "steps"
    }

    fn order(&self) -> Order {
        Order::Chain(self.last + 1)
    }

    fn key(&self, point: Point) -> String {
        self.start(point).to_string()
    }

    fn label(&self, point: Point) -> String {
        format!("from step {}", self.start(point))
    }

    fn prepare(&mut self, point: Point) -> Result<Ready, AxisError> {
        let start = self.start(point);
        Ok(Ready::with(hooked(&self.frames, json!({ "first": start, "restore": self.states }))))
    }

    fn others(&self) -> Others {
        Others::Pass
    }

    /// Only a failure at the same step is the failure of that step.
    fn read(&mut self, _point: Point, outcome: &Outcome) -> Option<(Answer, String)> {
        let (answer, why) = self.aim.read(outcome, Others::Pass);
        let step = counted(outcome).step;
        Some(match (answer, step) {
            (Answer::Fails, Some(step)) if step != self.last => {
                (Answer::Passes, format!("fails at step {step}, not at {}", self.last))
            }
            other => (other.0, why),
        })
    }
}

/// What the harness said of the loop in a run.
pub fn counted(outcome: &Outcome) -> Counted {
    let said = outcome.report.as_ref().and_then(|report| report.other.get("steps")).cloned();
    serde_json::from_value(said.unwrap_or_default()).unwrap_or_default()
}
