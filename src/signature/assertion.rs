//! Owns finding device assertion lines in what a program printed, in all shapes that CUDA, HIP and PyTorch give them.
//!
//! Invariant: reads at most one window around each of a bounded number of hits, so that the cost is linear in the output
//! whatever it holds.
//! Must not interpret what it finds.

use std::sync::LazyLock;

use regex::bytes;
use serde::{Deserialize, Serialize};

use super::condition;

/// How far around a hit a line is read.
const WINDOW: usize = 4096;
/// How far in front of a hit its block and thread may begin.
const TRIPLE_WIDTH: usize = 128;
/// How many hits that are no assertion of a device are passed over.
const PATIENCE: usize = 10_000;

static OPENING: LazyLock<bytes::Regex> = LazyLock::new(|| {
    bytes::Regex::new(r"Assertion `|Assertion failed: `|Device-side assertion `").expect("the pattern is fixed")
});
static PLACE: LazyLock<regex::Regex> =
    LazyLock::new(|| regex::Regex::new(r":([0-9]{1,7}):(?: |$)").expect("the pattern is fixed"));
static TRIPLE: LazyLock<regex::Regex> = LazyLock::new(|| {
    regex::Regex::new(r"block: \[([0-9]+),([0-9]+),([0-9]+)\], thread: \[([0-9]+),([0-9]+),([0-9]+)\]")
        .expect("the pattern is fixed")
});
static COMPILED_IN: LazyLock<bytes::Regex> = LazyLock::new(|| {
    bytes::Regex::new(
        r"(?-u)GPU assertion failure message = ([^\r\n]{0,1024})\r?\n[^\r\n]{0,80}File containing assertion = ([^\r\n]{0,1024}):([0-9]{1,7})\r?\n[^\r\n]{0,80}Device function containing assertion = ([^\r\n]{0,1024})",
    )
    .expect("the pattern is fixed")
});

/// One device assertion line as printed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assertion {
    /// Base name of the file.
    pub file: String,
    /// Line in that file; evidence only, it differs from release to release.
    pub line: Option<u32>,
    /// Bare name of the function.
    pub function: Option<String>,
    /// Block and thread of the line; evidence only.
    pub block: Option<[u32; 3]>,
    /// See `block`.
    pub thread: Option<[u32; 3]>,
    /// The expression as printed; `None` where the line was cut.
    pub expression: Option<String>,
}

/// The first whole assertion line; a cut one only where there is no whole one.
pub fn first(output: &[u8]) -> Option<Assertion> {
    let mut cut = None;
    for hit in OPENING.find_iter(output).take(PATIENCE) {
        match at(output, hit.start(), hit.end()) {
            Some(found) if found.expression.is_some() => return Some(found),
            Some(found) if cut.is_none() => cut = Some(found),
            _ => {}
        }
    }
    compiled_in(output).or(cut)
}

fn at(output: &[u8], opening: usize, from: usize) -> Option<Assertion> {
    let is_break = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let floor = opening.saturating_sub(WINDOW);
    let start = output[floor..opening].iter().rposition(is_break).map_or(floor, |index| floor + index + 1);
    let ceiling = (from + WINDOW).min(output.len());
    let end = output[from..ceiling].iter().position(is_break).map_or(ceiling, |index| from + index);
    // Block and thread stand right in front: most hits of other programs end here, before anything is decoded.
    let is_hip = output[opening..].starts_with(b"Device-side");
    let near = start.max(opening.saturating_sub(TRIPLE_WIDTH));
    if !is_hip && !output[near..opening].windows(7).any(|part| part == b"block: ") {
        return None;
    }
    let head = String::from_utf8_lossy(&output[start..opening]);
    let tail = String::from_utf8_lossy(&output[from..end]);
    let triple = TRIPLE.captures_iter(&head).last();
    let before = match &triple {
        Some(found) => &head[..found.get(0).map_or(0, |whole| whole.start())],
        None if is_hip => head.as_ref(),
        None => return None,
    };
    // An old compiler prints a whole signature, which never holds `:digits:`; so the last such place is the line's own.
    let place = PLACE.captures_iter(before).last()?;
    let (whole, line) = (place.get(0)?, place.get(1)?);
    let numbers = |first: usize| {
        let found = triple.as_ref()?;
        let number = |group: usize| found.get(group)?.as_str().parse().ok();
        Some([number(first)?, number(first + 1)?, number(first + 2)?])
    };
    Some(Assertion {
        file: base_name(&before[..whole.start()])?,
        line: line.as_str().parse().ok(),
        function: condition::function_name(&before[whole.end()..]),
        block: numbers(1),
        thread: numbers(4),
        expression: expression(&tail),
    })
}

/// The text up to the last closing of this assertion; the expression itself may hold back-ticks.
fn expression(tail: &str) -> Option<String> {
    let own = tail.find("ssertion `").map_or(tail, |next| &tail[..next]);
    let close = own.rfind("` failed").or_else(|| own.rfind("' failed")).or_else(|| own.find("`: Expected"))?;
    Some(own[..close].to_owned())
}

/// Base name of whatever stands before `:LINE:`, which may be glued behind other text.
fn base_name(before: &str) -> Option<String> {
    let text = before.trim_end();
    if text.ends_with('>') {
        return text.rfind('<').map(|from| text[from..].to_owned());
    }
    let last = text.rsplit(['/', '\\']).next().unwrap_or(text);
    let last = last.rsplit(|c: char| c.is_whitespace() || "|]['\"()=".contains(c)).next().unwrap_or(last);
    // An escaped line break in front of a bare name.
    let name = if last == "nunknown" { "unknown" } else { last };
    (!name.is_empty()).then(|| name.to_owned())
}

/// The report of builds with device-side assertions compiled in.
fn compiled_in(output: &[u8]) -> Option<Assertion> {
    // Rarely there, and slow to compile.
    memchr::memmem::find(output, b"GPU assertion failure message")?;
    let found = COMPILED_IN.captures(output)?;
    let text = |group: usize| found.get(group).map(|part| String::from_utf8_lossy(part.as_bytes()).into_owned());
    Some(Assertion {
        file: base_name(&text(2)?)?,
        line: text(3)?.parse().ok(),
        function: condition::function_name(&text(4)?),
        block: None,
        thread: None,
        expression: text(1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Assertion {
        first(text.as_bytes()).unwrap_or_else(|| panic!("nothing found in {text}"))
    }

    #[test]
    fn the_last_place_in_front_of_the_block_is_the_kernel() {
        let glued = one(
            " 12%|#1  | 3/25 [00:01<00:07, 3.1it/s]/pytorch/aten/src/ATen/native/cuda/Loss.cu:250: f: block: [0,0,0], thread: [5,0,0] Assertion `t >= 0` failed.",
        );
        assert_eq!((glued.file.as_str(), glued.line), ("Loss.cu", Some(250)));
        assert_eq!(glued.thread, Some([5, 0, 0]));
        let escaped = one(
            r#"err = "train.py:12: boom\n/pytorch/Loss.cu:7: g: block: [0,0,0], thread: [0,0,0] Assertion `a && \"m\"` failed.\n/pytorch/Loss.cu:7: g: block: [0,0,0], thread: [1,0,0] Assertion `b` failed.""#,
        );
        assert_eq!((escaped.file.as_str(), escaped.function.as_deref()), ("Loss.cu", Some("g")));
        assert_eq!(escaped.expression.as_deref(), Some(r#"a && \"m\""#));
    }

    #[test]
    fn a_whole_line_is_preferred_to_a_cut_one() {
        let cut = "x.cu:1: f: block: [0,0,0], thread: [0,0,0] Assertion `a >=";
        assert_eq!(one(cut).expression, None);
        let both = format!("{cut}\nx.cu:1: f: block: [0,0,0], thread: [1,0,0] Assertion `a >= 0` failed.\n");
        assert_eq!(one(&both).expression.as_deref(), Some("a >= 0"));
        assert_eq!(first(b"Assertion `x` failed."), None);
        assert_eq!(first(b"python: foo.c:12: main: Assertion `x` failed."), None);
    }
}
