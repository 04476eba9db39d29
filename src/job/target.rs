//! From what preflight found to what the search keeps: the target of the verdicts.

use crate::evidence::Found;
use crate::program::Program;
use crate::signature::Match;
use crate::trial::Frame;
use crate::verdict::{Target, statements};

/// The failure that is to be kept, with its site in the original.
pub(super) fn aim(original: &Program, found: &Found, level: Match) -> Target {
    let locate = |frame: &Frame| original.statement_at(&frame.file, frame.line);
    // Without blocking launches the stack lies, unless the emulated device raises at the call.
    let site_known = found.failure.is_some();
    let chain = if site_known { statements(&found.frames, &locate) } else { Vec::new() };
    let offence = found.failure.as_ref().and_then(|failure| failure.offence.clone());
    // A computed value is wrong for the whole batch; an integer stands in one row of the data.
    let sample_counts = offence.as_ref().is_some_and(|offence| {
        let integer = offence.value.as_ref().is_some_and(|value| value.parse::<i128>().is_ok());
        integer && offence.sample.is_some()
    });
    Target { signature: found.signature.clone(), level, chain, offence, sample_counts }
}
