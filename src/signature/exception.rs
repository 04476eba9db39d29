//! Owns reading exceptions out of what a program printed: the last one, its traceback and the hints that follow it.
//!
//! Invariant: reads only the end of the output, so that its cost does not grow with it.
//! Must not decide what failed.

use std::sync::LazyLock;

use regex::{Regex, bytes};
use serde::{Deserialize, Serialize};

/// How much of the end of the output is read.
const TAIL: usize = 512 * 1024;

/// What may stand in front of a line: rank, worker or logger prefixes.
/// Counted in bytes: characters of Unicode, repeated so often, take longer to compile than a log takes to read.
const PREFIX: &str = r"(?:\[[^\]\n]{1,80}\]:? ?|\([^)\n]{1,80}\) (?:[A-Z]+ [^\n\]]{0,80}\] ?)?)*";

static RAISED: LazyLock<bytes::Regex> = LazyLock::new(|| {
    let name = r"[A-Za-z_][0-9A-Za-z_.]*(?:Error|Exception|Interrupt|Exit|Iteration)";
    bytes::Regex::new(&format!(r"(?m-u)^{PREFIX}({name})(?:: ([^\n]*))?\r?$")).expect("the pattern is fixed")
});
static TERMINATED: LazyLock<bytes::Regex> = LazyLock::new(|| {
    bytes::Regex::new(&format!(
        r"(?-u)terminate called after throwing an instance of '([^'\n]+)'(?:\r?\n{PREFIX}\s*what\(\):\s*([^\n]*))?"
    ))
    .expect("the pattern is fixed")
});
static FRAME: LazyLock<bytes::Regex> = LazyLock::new(|| {
    bytes::Regex::new(&format!(
        "(?m-u)^{PREFIX}[ \\t]*File \"([^\"\\n]+)\", line ([0-9]+), in ([^\\n]+)\\n{PREFIX}[ \\t]*([^\\n]*)"
    ))
    .expect("the pattern is fixed")
});

/// The last exception that a program printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Raised {
    /// Class as printed.
    pub(super) kind: String,
    /// First line of the message.
    pub(super) message: String,
    /// What follows it, in part: hints of CUDA.
    pub(super) rest: String,
    /// Its traceback.
    pub(super) frames: Vec<Frame>,
}

/// One frame of a printed traceback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// The file as printed.
    pub file: String,
    /// 1-based.
    pub line: u32,
    /// Name of the function.
    pub function: String,
    /// The line's text.
    pub code: String,
}

/// The last exception; one that only ended an interpreter's clean-up or a library's own is passed over where there is another.
pub(super) fn last(output: &str) -> Option<Raised> {
    let mut from = output.len().saturating_sub(TAIL);
    while !output.is_char_boundary(from) {
        from += 1;
    }
    let tail = &output[from..];
    let all: Vec<_> = RAISED.captures_iter(tail.as_bytes()).collect();
    let kind = |found: &bytes::Captures<'_>| part(found, 1);
    let is_own = |name: &str| name.starts_with("torch.") || !name.contains('.');
    let chosen = all.iter().rev().find(|found| is_own(&kind(found))).or(all.last());
    let found = match chosen {
        Some(found) => found,
        None => &TERMINATED.captures_iter(tail.as_bytes()).last()?,
    };
    let whole = found.get(0)?;
    let mut end = (whole.end() + 2048).min(tail.len());
    while !tail.is_char_boundary(end) {
        end -= 1;
    }
    let head = &tail[..whole.start()];
    let start = head.rfind("Traceback (most recent call last):").unwrap_or(whole.start());
    let frames = FRAME
        .captures_iter(&head.as_bytes()[start..])
        .map(|found| {
            let part = |group: usize| part(&found, group).trim().to_owned();
            Frame { file: part(1), line: part(2).parse().unwrap_or(0), function: part(3), code: part(4) }
        })
        .collect();
    Some(Raised {
        kind: kind(found),
        message: part(found, 2).trim().to_owned(),
        rest: tail[whole.end()..end].to_owned(),
        frames,
    })
}

fn part(found: &bytes::Captures<'_>, group: usize) -> String {
    found.get(group).map_or(String::new(), |part| String::from_utf8_lossy(part.as_bytes()).into_owned())
}

impl Raised {
    /// Whether CUDA said that the place may be wrong.
    pub(super) fn is_asynchronous(&self) -> bool {
        says_asynchronous(&self.message) || says_asynchronous(&self.rest)
    }

    /// Whether CUDA's hints are there, so that the lack of the asynchronous one says that launches were blocking.
    pub(super) fn has_hints(&self) -> bool {
        ["TORCH_USE_CUDA_DSA", "Search for `cuda"]
            .iter()
            .any(|hint| self.rest.contains(hint) || self.message.contains(hint))
    }
}

/// Whether a text holds the hint on asynchronous reporting, in any version's wording.
pub(super) fn says_asynchronous(text: &str) -> bool {
    text.contains("asynchronously reported")
}

/// An exception in one line, without what differs from run to run.
pub(super) fn one_line(kind: &str, message: &str) -> String {
    static PLACE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r" at [^\s]+:[0-9]+$").expect("the pattern is fixed"));
    let first = message.lines().next().unwrap_or_default().trim();
    let first = PLACE.replace(first, "");
    let first: String = first.chars().take(300).collect();
    match (kind.is_empty(), first.is_empty()) {
        (_, true) => kind.to_owned(),
        (true, false) => first,
        (false, false) => format!("{kind}: {first}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_exception_wins_and_prefixes_are_passed_over() {
        let text = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    g(x)\nValueError: one\n\n[rank0]: Traceback (most recent call last):\n[rank0]:   File \"b.py\", line 2, in <module>\n[rank0]:     h(y)\n[rank0]: RuntimeError: CUDA error: device-side assert triggered\n[rank0]: CUDA kernel errors might be asynchronously reported at some other API call\n";
        let raised = last(text).expect("an exception");
        assert_eq!(
            (raised.kind.as_str(), raised.message.as_str()),
            ("RuntimeError", "CUDA error: device-side assert triggered")
        );
        assert!(raised.is_asynchronous());
        assert_eq!(raised.frames.len(), 1);
        assert_eq!(raised.frames[0].code, "h(y)");
    }

    #[test]
    fn an_abort_from_a_thread_is_an_exception_too() {
        let text = "terminate called after throwing an instance of 'c10::DistBackendError'\n  what():  [PG ID 2 Rank 2] Process group watchdog thread terminated with exception: CUDA error: device-side assert triggered\n";
        let raised = last(text).expect("an exception");
        assert_eq!(raised.kind, "c10::DistBackendError");
        assert!(raised.message.contains("CUDA error"));
        assert_eq!(last("all is well\n"), None);
    }
}
