//! Owns what a log says beside the failure: messengers, workers, launchers, and advice that leads away.
//!
//! Invariant: each remark is caused by words of the log.
//! Must not change what the failure is.

use std::sync::LazyLock;

use regex::Regex;
use serde::Serialize;

use super::Digest;
use crate::signature::{Family, Signature, Stack};

/// What a remark is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RemarkKind {
    /// Printed advice that does not help.
    WrongAdvice,
    /// An error that only carries the news.
    Messenger,
    /// A worker process of a DataLoader, or a replica.
    Worker,
    /// A watchdog thread.
    Watchdog,
    /// A launcher of several ranks.
    Launcher,
    /// The program went on after the failure.
    Swallowed,
    /// Further assertions.
    Others,
    /// The kernel log.
    KernelLog,
    /// A sanitizer's report.
    Sanitizer,
}

/// Something else to know about a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remark {
    /// What it is about.
    pub kind: RemarkKind,
    /// In words.
    pub text: String,
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is fixed")
}

static STATUS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"\b(?:CUBLAS|CUDNN|CUSOLVER|CUSPARSE)_STATUS_(?:[A-Z_]+)|cuFFT error: CUFFT_[A-Z_]+|cublas runtime error")
});
static CAUGHT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"Caught (\w+) in (DataLoader worker process ([0-9]+)|pin memory thread for device [0-9]+|replica [0-9]+ on device [0-9]+)",
    )
});
static LOST: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"DataLoader worker \(pid(?:\(s\))? ([[0-9], ]+)\) (exited unexpectedly|is killed by signal: ([^.\n]+))")
});
static ROOT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"Root Cause \(first observed failure\):(?s:.{0,600}?)rank\s*: ([0-9]+)(?s:.{0,300}?)exitcode\s*: (-?[0-9]+)",
    )
});
static XID: LazyLock<Regex> = LazyLock::new(|| pattern(r"NVRM: Xid \([^)]*\): ([0-9]+)"));

/// What a pattern finds; few logs hold its word, and compiling it costs more than reading a short log.
fn told<'t>(word: &str, pattern: &LazyLock<Regex>, text: &'t str) -> Option<regex::Captures<'t>> {
    if text.contains(word) { pattern.captures(text) } else { None }
}

/// Everything that there is to say beside the failure.
pub(super) fn all(digest: &Digest, signature: &Signature, stack: Stack) -> Vec<Remark> {
    let text = digest.text.as_str();
    let mut remarks = Vec::new();
    let mut say = |kind: RemarkKind, text: String| remarks.push(Remark { kind, text });
    let from_kernel = matches!(signature.family, Family::DeviceAssert | Family::MemoryFault);
    if let Some(status) = STATUS.find(text) {
        let status = status.as_str();
        if from_kernel {
            say(
                RemarkKind::Messenger,
                format!(
                    "`{status}` is only the messenger: the library was the next to use a device that had already failed"
                ),
            );
        } else if signature.family == Family::Library {
            say(
                RemarkKind::Messenger,
                format!(
                    "`{status}` is often only the messenger of an earlier failure: look for an assertion line on standard \
                     error of every process, and run again with CUDA_LAUNCH_BLOCKING=1 before anything else"
                ),
            );
        }
    }
    if from_kernel && (text.contains("CUDA out of memory") || text.contains("CUDA error: out of memory")) {
        say(
            RemarkKind::Messenger,
            "`out of memory` came after the device had failed: a smaller batch does not help".to_owned(),
        );
    }
    if text.contains("TORCH_USE_CUDA_DSA") {
        say(
            RemarkKind::WrongAdvice,
            "the advice ``Compile with `TORCH_USE_CUDA_DSA` `` does not help: it is a switch for building PyTorch itself, \
             exporting it changes nothing, and the kernels of PyTorch do not use it"
                .to_owned(),
        );
    }
    if let Some(caught) = told("Caught ", &CAUGHT, text) {
        say(
            RemarkKind::Worker,
            format!(
                "{} was raised in {}: the true place is in the traceback under `Original Traceback`, not in the line that \
                 fetched the batch",
                &caught[1], &caught[2]
            ),
        );
    }
    if let Some(lost) = told("DataLoader worker (pid", &LOST, text) {
        let why = lost.get(3).map_or("", |signal| signal.as_str());
        let more = if why.contains("Bus error") {
            ": shared memory ran out (`--shm-size` of a container, `df -h /dev/shm`)"
        } else {
            ": its own error is not in the exception"
        };
        say(
            RemarkKind::Worker,
            format!("DataLoader worker {} {}{more}; `num_workers=0` shows the error itself", &lost[1], &lost[2]),
        );
    }
    if text.contains("Process group watchdog thread terminated with exception") {
        say(
            RemarkKind::Watchdog,
            "the watchdog of NCCL noticed the failure and ended the process: its stack says nothing about the place, and \
             `except` blocks did not run"
                .to_owned(),
        );
    }
    if text.contains("Watchdog caught collective operation timeout") {
        say(
            RemarkKind::Watchdog,
            "a rank waited in vain for another: the rank that failed first is the one to look at, in its own standard error"
                .to_owned(),
        );
    }
    launcher(digest, text, &mut say);
    swallowed(digest, signature, stack, &mut say);
    if digest.assertions.len() > 1 {
        let others: Vec<String> = digest.assertions[1..]
            .iter()
            .take(4)
            .map(|printed| {
                format!("`{}` in {}", printed.assertion.expression.as_deref().unwrap_or("?"), printed.assertion.file)
            })
            .collect();
        say(RemarkKind::Others, format!("the first assertion counts; after it came {}", others.join(", ")));
    }
    if let Some(found) = told("NVRM: Xid", &XID, text) {
        say(RemarkKind::KernelLog, xid(&found[1]));
    }
    if text.contains("========= ") && text.contains("ERROR SUMMARY") && signature.function.is_some() {
        let kernel = signature.function.as_deref().unwrap_or_default();
        say(RemarkKind::Sanitizer, format!("the sanitizer names the kernel that failed: `{kernel}`"));
    }
    remarks
}

fn launcher(digest: &Digest, text: &str, say: &mut impl FnMut(RemarkKind, String)) {
    let ranks: Vec<String> =
        digest.assertions.first().map(|printed| printed.ranks.iter().map(u32::to_string).collect()).unwrap_or_default();
    let from = match ranks.len() {
        0 => String::new(),
        1 => format!("; here the assertion was printed by rank {}", ranks[0]),
        _ => format!("; here the assertion was printed by ranks {}", ranks.join(", ")),
    };
    if let Some(root) = told("Root Cause (", &ROOT, text) {
        say(
            RemarkKind::Launcher,
            format!(
                "the launcher calls rank {} the root cause (exit code {}) because it ended first by the clock; the assertion \
                 may be in the standard error of another rank{from}",
                &root[1], &root[2]
            ),
        );
    } else if !ranks.is_empty() {
        say(RemarkKind::Launcher, format!("several ranks write into this log{from}"));
    }
    if digest.assertions.is_empty() && (text.contains("ChildFailedError") || text.contains("ProcessGroupNCCL")) {
        say(
            RemarkKind::Launcher,
            "no rank's assertion line is in this log: give the standard error of every rank (`torchrun --redirects 3 \
             --log-dir DIR`, then `reduce explain DIR`)"
                .to_owned(),
        );
    }
}

fn swallowed(digest: &Digest, signature: &Signature, stack: Stack, say: &mut impl FnMut(RemarkKind, String)) {
    if signature.family != Family::DeviceAssert || digest.assertions.is_empty() {
        return;
    }
    match &signature.exception {
        None => say(
            RemarkKind::Swallowed,
            "no exception was raised: the program ended before it waited for the GPU, or it was killed".to_owned(),
        ),
        Some(exception) => {
            let of_cuda = ["CUDA", "cuda", "device-side", "Triton", "cuDNN", "NCCL", "CUBLAS", "HIP"];
            if stack == Stack::Unknown && !of_cuda.iter().any(|word| exception.contains(word)) {
                say(
                    RemarkKind::Swallowed,
                    format!("`{exception}` came later: the error of the device was caught, and the program went on"),
                );
            }
        }
    }
}

fn xid(number: &str) -> String {
    let meaning = match number {
        "13" => "an exception in a kernel (a bad access or a trap)",
        "31" => "a kernel touched memory that is not mapped",
        "43" => "the process was stopped after its own fault",
        "45" => "clean-up after an earlier fault",
        "48" | "63" | "64" | "74" | "79" | "92" | "94" | "95" => {
            return format!(
                "Xid {number} in the kernel log is a fault of the hardware: no change of the program mends it"
            );
        }
        _ => "see NVIDIA's list of Xid errors",
    };
    format!("Xid {number} in the kernel log: {meaning}")
}
