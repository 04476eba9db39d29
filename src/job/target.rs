//! From what preflight found to what the search keeps: the target of the verdicts and what the graph may know.

use std::collections::BTreeSet;

use crate::evidence::Found;
use crate::program::{Observed, Program, StmtId, StmtKind};
use crate::signature::Match;
use crate::trial::Frame;
use crate::verdict::{Target, statements};

/// The failure that is to be kept, with its site in the original.
pub fn aim(original: &Program, found: &Found, level: Match) -> Target {
    let locate = |frame: &Frame| original.statement_at(&frame.file, frame.line);
    // Without blocking launches the stack lies, unless the emulated device raises at the call.
    let site_known = found.failure.is_some();
    let chain = if site_known { statements(&found.frames, &locate) } else { Vec::new() };
    let offence = found.failure.as_ref().and_then(|failure| failure.offence.clone());
    let sample_counts = offence.as_ref().is_some_and(|offence| offence.sample.is_some());
    Target { signature: found.signature.clone(), level, chain, offence, sample_counts }
}

/// What the trace saw, in statements of the original.
pub fn observed(original: &Program, found: &Found, argv: &[String]) -> Observed {
    let mut executed = BTreeSet::new();
    let mut first: Vec<(u64, StmtId)> = Vec::new();
    for (file, lines) in &found.trace.executed {
        for (line, sequence, _) in lines {
            for statement in original.statements_on(file, *line) {
                if executed.insert(statement) {
                    first.push((*sequence, statement));
                }
            }
        }
    }
    first.sort_unstable();
    let mut calls = BTreeSet::new();
    for (caller_file, caller_line, callee_file, callee_line, _) in &found.trace.calls {
        let caller = original.statement_at(caller_file, *caller_line);
        let callee = original.statement_at(callee_file, *callee_line);
        if let (Some(caller), Some(callee)) = (caller, callee)
            && original.statement(callee).kind == StmtKind::FunctionDef
        {
            calls.insert((caller, callee));
        }
    }
    let locate = |frame: &Frame| original.statement_at(&frame.file, frame.line);
    Observed {
        executed,
        calls: calls.into_iter().collect(),
        crash: statements(&found.frames, &locate),
        first: first.into_iter().map(|(_, statement)| statement).collect(),
        argv: argv.to_vec(),
    }
}
