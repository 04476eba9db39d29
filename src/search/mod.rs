//! The search: pure state machines that say what to try next, and the tree that runs ahead of them.
//!
//! A machine knows elements by number only and answers by kind only; it never learns what a candidate or a process is.
//! Same answers, same questions: no clock, no random number, no hash-map order in this folder.

mod carry;
pub mod certificate;
pub mod drive;
pub mod halving;
pub mod machine;
pub mod progression;
pub mod reducer;
pub mod removals;
mod slice;
pub mod speculation;
mod stage;
pub mod sweep;
pub mod thinning;
pub mod traced;
