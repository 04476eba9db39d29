//! Owns reading logs of any size: one pass that keeps what can matter and forgets the rest.
//!
//! Invariant: memory does not grow with the log, and a log that fits into [`TAIL`] is kept whole.
//! Must not decide what failed: it keeps text, `signature` reads it.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};
use regex::bytes::Regex;

use super::plain::Plain;
use crate::signature::{self, Assertion};

/// How much of the end is kept as it is.
const TAIL: usize = 512 * 1024;
/// How much is read at a time of a log that is longer than [`FIRST`].
const BLOCK: usize = 4 << 20;
/// How much is read first: most logs are short, and memory that is touched for nothing costs milliseconds.
const FIRST: usize = 128 << 10;
/// How far around a hit text is kept.
const AROUND: usize = 4096;
/// How many hits of one word are kept.
const HITS: u32 = 8;
/// How many unlike assertions are told apart.
const UNLIKE: usize = 32;
/// How many hits that are no assertion of a device are looked at.
const PATIENCE: u32 = 10_000;
/// How many lines of one assertion are searched for their rank.
const RANKED: u64 = 4096;
/// Parts of [`WORDS`] that open an assertion.
const OPENINGS: usize = 3;

/// Words without which no line can matter; the first open assertions.
const WORDS: [&str; 48] = [
    "ssertion `",
    "ssertion failed: `",
    "assertion failure message",
    "device-side assert triggered",
    "ErrorAssert",
    "ERROR_ASSERT",
    "emory access",
    "IllegalAddress",
    "ILLEGAL_ADDRESS",
    "Illegal Address",
    "isaligned",
    "MISALIGNED",
    "illegal instruction",
    "IllegalInstruction",
    "ILLEGAL_INSTRUCTION",
    "launch failure",
    "LaunchFailure",
    "LAUNCH_FAILED",
    "HSA_STATUS",
    "========= ",
    "_STATUS_",
    "cuFFT error",
    "cublas runtime",
    "out of memory",
    "OUT_OF_MEMORY",
    "MemoryAllocation",
    "CUDA error",
    "HIP error",
    "CUDA driver",
    "cuda runtime error",
    "Triton Error",
    "NVIDIA driver",
    "kernel image",
    "CUDA-capable",
    "CUDA GPUs",
    "initialize CUDA",
    "compiled with CUDA",
    "DataLoader worker",
    "DataLoader timed out",
    "Pin memory thread",
    "bus error",
    "atchdog",
    "NCCL error",
    "NCCL WARN",
    "NVRM: Xid",
    "Fatal Python error",
    "terminate called",
    "Root Cause (first",
];

static FINDER: LazyLock<AhoCorasick> = LazyLock::new(|| {
    AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(WORDS).expect("the words are fixed")
});
static RANK: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i-u)\brank[ =:]?([0-9]{1,5})\b").expect("the pattern is fixed"));

/// An assertion and how often it was printed.
#[derive(Clone, Debug)]
pub struct Printed {
    /// The first line of its kind.
    pub assertion: Assertion,
    /// Lines of its kind.
    pub lines: u64,
    /// Ranks that printed it, where the lines say so.
    pub ranks: BTreeSet<u32>,
    /// Name of the log that holds the first.
    pub log: String,
    expression: Vec<u8>,
}

/// What was kept of one or more logs.
#[derive(Debug, Default)]
pub struct Digest {
    /// Text in the order of the logs.
    pub text: String,
    /// Unlike assertions in their order, at most a few dozen.
    pub assertions: Vec<Printed>,
    /// Bytes read.
    pub bytes: u64,
}

impl Digest {
    /// Reads a log to its end.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn add(&mut self, name: &str, log: impl Read) -> io::Result<()> {
        let mut log = Plain::new(log);
        let mut pass = Pass { name, digest: self, kept: Vec::new(), hits: [0; WORDS.len()], strangers: 0 };
        let mut buffer: Vec<u8> = Vec::with_capacity(FIRST);
        // Absolute positions: where the buffer begins, up to where it was searched and up to where it was kept.
        let (mut base, mut searched, mut kept_to) = (0_u64, 0_usize, 0_u64);
        let mut block = FIRST;
        loop {
            let before = buffer.len();
            buffer.resize(before + block, 0);
            let count = fill(&mut log, &mut buffer[before..])?;
            buffer.truncate(before + count);
            let ended = count < block;
            block = BLOCK;
            let until = if ended { buffer.len() } else { buffer.len().saturating_sub(AROUND) };
            pass.search(&buffer, base, searched, until, &mut kept_to);
            if ended {
                break;
            }
            let gone = until.saturating_sub(TAIL);
            buffer.copy_within(gone.., 0);
            buffer.truncate(buffer.len() - gone);
            (base, searched) = (base + gone as u64, until - gone);
        }
        let from = usize::try_from(kept_to.saturating_sub(base)).unwrap_or(buffer.len());
        let tail = buffer.len().saturating_sub(TAIL);
        // Nothing was forgotten: what was kept of it stands in the buffer as well.
        let (kept, end) = if base == 0 {
            (Vec::new(), buffer.as_slice())
        } else {
            (pass.kept, &buffer[from.max(tail).min(buffer.len())..])
        };
        let name = pass.digest;
        name.bytes += base + buffer.len() as u64;
        for part in [kept.as_slice(), end] {
            name.text.push_str(&String::from_utf8_lossy(part));
            if !part.is_empty() && !part.ends_with(b"\n") {
                name.text.push('\n');
            }
        }
        Ok(())
    }
}

/// Reads until the buffer is full or the log ends.
fn fill(log: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    while count < buffer.len() {
        match log.read(&mut buffer[count..]) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

struct Pass<'a> {
    name: &'a str,
    digest: &'a mut Digest,
    kept: Vec<u8>,
    hits: [u32; WORDS.len()],
    strangers: u32,
}

impl Pass<'_> {
    fn search(&mut self, buffer: &[u8], base: u64, from: usize, until: usize, kept_to: &mut u64) {
        let mut at = from;
        while at < until {
            let Some(found) = FINDER.find(aho_corasick::Input::new(buffer).range(at..)) else { break };
            if found.start() >= until {
                break;
            }
            at = found.end();
            let word = found.pattern().as_usize();
            let keep = if word < OPENINGS {
                self.assertion(buffer, found.start(), found.end())
            } else {
                self.hits[word] += 1;
                self.hits[word] <= HITS
            };
            if keep {
                let start = found.start().saturating_sub(AROUND);
                let line =
                    buffer[start..found.start()].iter().rposition(is_break).map_or(start, |index| start + index + 1);
                let end = (found.end() + AROUND).min(buffer.len());
                let first = usize::try_from(kept_to.saturating_sub(base)).unwrap_or(0).max(line);
                if first < end {
                    if base + first as u64 > *kept_to && !self.kept.is_empty() {
                        self.kept.push(b'\n');
                    }
                    self.kept.extend_from_slice(&buffer[first..end]);
                    *kept_to = base + end as u64;
                }
            } else if word >= OPENINGS {
                // A word that was seen often enough: the rest of its line says no more.
                let rest = &buffer[at..(at + AROUND).min(buffer.len())];
                at += memchr::memchr2(b'\n', b'\r', rest).unwrap_or(0);
            }
        }
    }

    /// Counts an assertion; answers whether its text is to be kept.
    fn assertion(&mut self, buffer: &[u8], start: usize, end: usize) -> bool {
        let rest = &buffer[end..(end + AROUND).min(buffer.len())];
        let rest = &rest[..memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len())];
        let close = memchr::memmem::find(rest, b"` failed").or_else(|| memchr::memmem::find(rest, b"' failed"));
        let expression = &rest[..close.unwrap_or(rest.len().min(256))];
        let floor = start.saturating_sub(AROUND);
        let line = || {
            let begin = buffer[floor..start].iter().rposition(is_break).map_or(floor, |index| floor + index + 1);
            &buffer[begin..end + rest.len()]
        };
        let known = self.digest.assertions.iter_mut().find(|printed| printed.expression == expression);
        if let Some(printed) = known {
            printed.lines += 1;
            if printed.lines < RANKED {
                printed.ranks.extend(rank(line()));
            }
            return false;
        }
        if self.strangers >= PATIENCE || self.digest.assertions.len() >= UNLIKE {
            return false;
        }
        let Some(assertion) = signature::first_assertion(line()) else {
            self.strangers += 1;
            return false;
        };
        let ranks = rank(line()).into_iter().collect();
        self.digest.assertions.push(Printed {
            assertion,
            lines: 1,
            ranks,
            log: self.name.to_owned(),
            expression: expression.to_owned(),
        });
        true
    }
}

fn rank(line: &[u8]) -> Option<u32> {
    let found = RANK.captures(line)?;
    std::str::from_utf8(found.get(1)?.as_bytes()).ok()?.parse().ok()
}

fn is_break(byte: &u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "/pytorch/Loss.cu:250: f: block: [0,0,0], thread: [5,0,0] Assertion `t >= 0` failed.\n";

    fn digest(text: &[u8]) -> Digest {
        let mut digest = Digest::default();
        digest.add("log", text).expect("memory can be read");
        digest
    }

    #[test]
    fn a_short_log_is_kept_whole() {
        let found = digest(format!("one\n{LINE}two\n").as_bytes());
        assert_eq!(found.text, format!("one\n{LINE}two\n"));
        assert_eq!(found.assertions.len(), 1);
    }

    #[test]
    fn a_long_log_keeps_its_assertions_wherever_they_stand_and_counts_them() {
        for place in [0, BLOCK - 40, BLOCK, BLOCK + 30, 2 * BLOCK - AROUND, 2 * BLOCK - AROUND - 60] {
            let mut text = "quiet line\n".repeat(3 * BLOCK / 11).into_bytes();
            let lines = format!("\n[rank3]: {LINE}{}", LINE.repeat(9));
            text.splice(place..place, lines.bytes());
            let found = digest(&text);
            assert!(found.text.contains("[rank3]: /pytorch/Loss.cu:250"), "{place}");
            assert!(found.text.len() < TAIL + 64 * AROUND, "{place}");
            assert_eq!(found.assertions[0].lines, 10, "{place}");
            assert_eq!(found.assertions[0].ranks, BTreeSet::from([3]), "{place}");
        }
    }

    #[test]
    fn words_that_are_everywhere_do_not_push_out_others() {
        let mut text = "CUDA error budget is fine\n".repeat(400_000);
        text.insert_str(text.len() / 2 / 26 * 26, "an illegal memory access was encountered\n");
        assert!(digest(text.as_bytes()).text.contains("illegal memory access"));
    }
}
