//! What an axis is: points in an order, or a set of elements, each turned into a setting in which the program is run.
//!
//! Invariant: a point is known by its key, which a log can name; preparing a point changes nothing that another needs.
//! It judges nothing.

use super::Point;
use super::answer::{Answer, Others};
use super::order::Order;
use crate::environment::EnvironmentError;
use crate::process::ProcessError;
use crate::trial::{Mode, Outcome, Variation};

/// Why an axis cannot be searched.
#[derive(Debug, thiserror::Error)]
pub enum AxisError {
    /// What was asked for does not fit the case.
    #[error("{message}")]
    Wrong {
        /// In words.
        message: String,
        /// What to do, one line each.
        hints: Vec<String>,
    },
    /// A file cannot be read or written.
    #[error("cannot use `{path}`: {source}")]
    File {
        /// Which.
        path: std::path::PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A child could not be started.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// An environment could not be made.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
}

impl AxisError {
    /// An error with one hint.
    pub fn wrong(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Wrong { message: message.into(), hints: vec![hint.into()] }
    }
}

/// How a point is run.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// What is otherwise than in the case.
    pub variation: Variation,
    /// Forked or cold, where the axis needs one of them.
    pub mode: Option<Mode>,
}

/// What became of preparing a point.
#[derive(Clone, Debug)]
pub enum Ready {
    /// It can be run.
    Run(Box<Place>),
    /// It cannot: why.
    Skip(String),
}

impl Ready {
    /// It can be run with this variation.
    pub fn with(variation: Variation) -> Self {
        Self::Run(Box::new(Place { variation, mode: None }))
    }
}

/// Points in an order.
pub trait Ordered {
    /// Its name on the command line.
    fn name(&self) -> &'static str;
    /// The order of its points: the passing end is 0, the failing end the last.
    fn order(&self) -> Order;
    /// What a log calls a point: one word.
    fn key(&self, point: Point) -> String;
    /// What a person calls it.
    fn label(&self, point: Point) -> String {
        self.key(point)
    }
    /// A point by another word that a log may have for it.
    fn find(&self, _word: &str) -> Option<Point> {
        None
    }
    /// Makes a point ready to be run; at most as many distinct points as there are workers are in use at once.
    ///
    /// # Errors
    /// When something of ours fails; a point that cannot be run is a value.
    fn prepare(&mut self, point: Point) -> Result<Ready, AxisError>;
    /// What a run of a point costs against one that needs no preparation.
    fn cost(&self, _point: Point) -> f64 {
        1.0
    }
    /// What another failure says.
    fn others(&self) -> Others {
        Others::SayNothing
    }
    /// What a run says where the axis knows better than the failure alone.
    fn read(&mut self, _point: Point, _outcome: &Outcome) -> Option<(Answer, String)> {
        None
    }
}

/// A set of elements.
pub trait Unordered {
    /// Its name on the command line.
    fn name(&self) -> &'static str;
    /// Number of its elements.
    fn len(&self) -> usize;
    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// What a log calls some elements: one word.
    fn key(&self, elements: &[usize]) -> String {
        super::log::ranges(elements)
    }
    /// What a person calls an element.
    fn label(&self, element: usize) -> String;
    /// Makes ready to run these elements and no others.
    ///
    /// # Errors
    /// When something of ours fails.
    fn prepare(&mut self, elements: &[usize]) -> Result<Ready, AxisError>;
    /// What another failure says.
    fn others(&self) -> Others {
        Others::Pass
    }
    /// Elements that a failing run of `elements` makes suspect.
    fn suspects(&self, _elements: &[usize], _outcome: &Outcome) -> Vec<Vec<usize>> {
        Vec::new()
    }
}
