//! Bisection: which commit, version, step, launch, sample or setting makes the difference, with an oracle that may miss.
//!
//! Invariant: the candidate is held and the setting varies; the machines are pure functions of the answers so far, so that
//! an edited log replays to the same state.
//! It does not know of the search over candidates, and that does not know of it.

mod answer;
pub mod axis;
pub mod axes;
mod belief;
mod bisector;
mod choice;
mod culprits;
pub mod drive;
pub mod log;
mod order;
mod rates;

pub use answer::{Aim, Answer, Others};
pub use belief::{Belief, Tally};
pub use bisector::{Bisector, Conclusion, Options, Step, Trouble};
pub use culprits::{Culprits, Empty, Found, Next, Outcome as SetOutcome, Probe, Rest};
pub use order::Order;
pub use rates::Rates;

/// One point of an axis, or one element of a set.
pub type Point = usize;
