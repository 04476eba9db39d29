//! The axis `launches`: behind which operator the device is waited for, where blocking each launch hides the failure.
//!
//! Invariant: at most one synchronisation is put in; everything else stays as asynchronous as it was.
//! It asks nothing.

use serde_json::{Value, json};

use super::super::Point;
use super::super::answer::{Aim, Answer, Others};
use super::super::axis::{AxisError, Ordered, Ready};
use super::super::order::Order;
use crate::trial::{Outcome, Variation};

/// The operators of a run.
#[derive(Clone, Debug)]
pub struct Launches {
    count: usize,
    aim: Aim,
}

/// Asks the harness to count operators.
pub fn counting() -> Variation {
    Variation { hook: Some(("launches", json!({}))), ..Variation::default() }
}

/// Operators that a counting run saw before it ended.
pub fn counted(outcome: &Outcome) -> usize {
    let count = facts(outcome).and_then(|facts| facts["count"].as_u64()).unwrap_or_default();
    usize::try_from(count).unwrap_or_default()
}

fn facts(outcome: &Outcome) -> Option<&Value> {
    outcome.report.as_ref().and_then(|report| report.other.get("launches"))
}

impl Launches {
    /// An axis over so many operators.
    pub fn new(count: usize, aim: Aim) -> Self {
        Self { count, aim }
    }
}

impl Ordered for Launches {
    fn name(&self) -> &'static str {
        "launches"
    }

    fn order(&self) -> Order {
        Order::Chain(self.count + 1)
    }

    fn key(&self, point: Point) -> String {
        point.to_string()
    }

    fn label(&self, point: Point) -> String {
        if point == 0 { "before the first operator".to_owned() } else { format!("operator {point}") }
    }

    fn prepare(&mut self, point: Point) -> Result<Ready, AxisError> {
        Ok(Ready::with(Variation { hook: Some(("launches", json!({ "sync": point }))), ..Variation::default() }))
    }

    /// The device said at the synchronisation whether it had failed by then.
    fn read(&mut self, _point: Point, outcome: &Outcome) -> Option<(Answer, String)> {
        let raised = facts(outcome).and_then(|facts| facts["raised"].as_bool());
        let (answer, why) = self.aim.read(outcome, Others::SayNothing);
        Some(match (raised, answer) {
            (Some(true), Answer::Fails) => (Answer::Fails, why),
            (Some(false), _) => (Answer::Passes, "the device had not failed by then".to_owned()),
            // It surfaced by itself before the synchronisation was reached.
            (None, Answer::Fails) => (Answer::Fails, why),
            _ => (Answer::Skip, why),
        })
    }
}
