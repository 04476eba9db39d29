//! What a traced run saw, in statements of the program that it ran.
//!
//! Invariant: calls count only where a function of the program was entered; must not know why the run was made.

use crate::program::{Observed, Program, StmtKind};
use crate::trial::{Frame, Trace};

/// Reads a trace; `frames` are those at the failing call, outermost first.
pub fn observed(program: &Program, trace: &Trace, frames: &[Frame], argv: &[String]) -> Observed {
    let calls: Vec<(String, u32, String, u32)> = trace
        .calls
        .iter()
        .map(|(file, line, callee, first, _)| (file.clone(), *line, callee.clone(), *first))
        .filter(|(_, _, callee, first)| {
            program.statement_at(callee, *first).is_some_and(|id| program.statement(id).kind == StmtKind::FunctionDef)
        })
        .collect();
    let crash: Vec<(String, u32)> = frames.iter().map(|frame| (frame.file.clone(), frame.line)).collect();
    let mut observed = Observed::from_lines(program, &trace.executed, &calls, &crash, argv);
    observed.until = trace.until;
    observed.crash.dedup();
    observed
}
