//! Drives a reducer against the oracle: the wanted trials of its decision tree are kept in flight.
//!
//! Invariant: answers are adopted in the order of the tree, so that the result does not depend on how many trials run at
//! once; the width only decides how far ahead is guessed.

use std::collections::BTreeSet;
use std::time::Instant;

use super::reducer::Reducer;
use crate::oracle::{Oracle, OracleError, Question};
use crate::verdict::Verdict;

/// A guess deeper than this share of the width's worth is not started.
const LEAST_REACH: f64 = 0.85;
/// How many tree nodes are looked at for one trial in flight.
const NODES_PER_SLOT: usize = 6;

/// What happened to the search, for those who watch.
pub enum Turn<'a> {
    /// A question was answered in tree order.
    Answered {
        /// The question.
        question: &'a Question,
        /// Its verdict.
        verdict: &'a Verdict,
    },
    /// Nothing came of a short wait.
    Waited,
    /// The answer made it the best.
    Adopted {
        /// The reducer, whose best is new.
        reducer: &'a Reducer,
    },
}

/// Runs a reducer to its end.
///
/// # Errors
/// When the oracle fails or is stopped; the reducer then still holds its best.
pub fn run<E: From<OracleError>>(
    reducer: &mut Reducer,
    oracle: &mut Oracle,
    width: usize,
    watch: &mut dyn FnMut(Turn<'_>, &mut Oracle) -> Result<(), E>,
) -> Result<(), E> {
    let begun = Instant::now();
    let result = run_inner(reducer, oracle, width, watch);
    let searched = oracle.account().searched + begun.elapsed().as_secs_f64();
    oracle.set_searched(searched);
    result
}

fn run_inner<E: From<OracleError>>(
    reducer: &mut Reducer,
    oracle: &mut Oracle,
    width: usize,
    watch: &mut dyn FnMut(Turn<'_>, &mut Oracle) -> Result<(), E>,
) -> Result<(), E> {
    let mut paid: BTreeSet<crate::candidate::CandidateId> = BTreeSet::new();
    loop {
        if let Some(question) = reducer.wants_trace() {
            oracle.pursue(&[], width)?;
            let outcome = oracle.traced(question)?;
            let report = outcome.report.unwrap_or_default();
            let frames = report.failure.map(|failure| failure.frames).unwrap_or_default();
            reducer.traced(outcome.trace.as_ref().map(|trace| (trace, frames.as_slice())));
            continue;
        }
        let Some((question, _)) = reducer.next_question() else {
            if reducer.wants_trace().is_some() {
                continue;
            }
            break;
        };
        if let Some(verdict) = oracle.known(&question.candidate.id) {
            if !paid.remove(&question.candidate.id) {
                oracle.count_cached();
            }
            watch(Turn::Answered { question: &question, verdict: &verdict }, oracle)?;
            if reducer.mark(&verdict) {
                watch(Turn::Adopted { reducer }, oracle)?;
            }
            continue;
        }
        let wanted = frontier(reducer, oracle, width);
        oracle.pursue(&wanted, width)?;
        paid.insert(question.candidate.id.clone());
        oracle.wait()?;
        watch(Turn::Waited, oracle)?;
    }
    oracle.drop_all();
    Ok(())
}

/// The unanswered questions most likely to be reached, best first, at most `width` of them.
fn frontier(reducer: &Reducer, oracle: &Oracle, width: usize) -> Vec<Question> {
    let mut open = vec![(1.0_f64, reducer.clone())];
    let mut wanted: Vec<Question> = Vec::new();
    let mut looked = 0;
    while wanted.len() < width && looked < width * NODES_PER_SLOT {
        let Some(best) = open.iter().enumerate().max_by(|a, b| a.1.0.total_cmp(&b.1.0)).map(|(index, _)| index) else {
            break;
        };
        let (reach, mut node) = open.swap_remove(best);
        if reach < LEAST_REACH {
            break;
        }
        looked += 1;
        let Some((question, expect)) = node.next_question() else { continue };
        if let Some(verdict) = oracle.known(&question.candidate.id) {
            node.mark(&verdict);
            open.push((reach, node));
            continue;
        }
        if !wanted.iter().any(|other| other.candidate.id == question.candidate.id) {
            wanted.push(question);
        }
        if wanted.len() < width {
            let mut hit = node.clone();
            hit.mark(&Verdict::Same);
            open.push((reach * expect, hit));
            node.mark(&Verdict::Clean);
            open.push((reach * (1.0 - expect), node));
        }
    }
    wanted
}
