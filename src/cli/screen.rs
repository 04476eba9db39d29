//! The last screen: the explanation, the repro itself, the sizes, the runs, and where the bundle lies.

use serde_json::Value;

use super::progress::print;
use crate::bundle::{Bundle, Outcome};
use crate::evidence::Found;

/// A repro above this many lines is named, not shown.
const SHOWN: usize = 60;

/// Shows the end of a main job.
pub(super) fn bundle(bundle: &Bundle, print_diff: bool) {
    let report = &bundle.report;
    let untried: Vec<&str> = report["untried"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    print("");
    for line in &bundle.explanation {
        print(line);
    }
    print("");
    match &bundle.repro {
        Some(repro) if repro.lines().count() <= SHOWN => {
            for line in repro.lines() {
                print(&format!("    {line}"));
            }
        }
        Some(repro) => print(&format!("    repro.py: {} lines", repro.lines().count())),
        None if bundle.outcome == Outcome::Interrupted => {
            print("    no single file was confirmed before the end; see source/ and run.sh")
        }
        None if untried.is_empty() => print("    no single file keeps the failure; see source/ and run.sh"),
        None => {}
    }
    if !untried.is_empty() {
        print("one run takes too long for a search; source/ is the program as it was given");
        untried.iter().for_each(|what| print(&format!("not tried: {what}")));
    }
    print("");
    let number = |path: &str| report.pointer(path).and_then(Value::as_u64).unwrap_or_default();
    print(&format!(
        "size:      {} of {} statements, {} of {} tokens, {} of {} files",
        number("/source/statements"),
        number("/original/statements"),
        number("/source/tokens"),
        number("/original/tokens"),
        number("/source/files"),
        number("/original/files"),
    ));
    let (data, whole) = (number("/source/data_bytes"), number("/original/data_bytes"));
    if data != whole {
        print(&format!("data:      {data} of {whole} bytes"));
    }
    let seconds = report.pointer("/seconds/total").and_then(Value::as_f64).unwrap_or_default();
    print(&format!(
        "runs:      {} in {seconds:.0} s ({} cached, {} inferred, {} wasted)",
        number("/runs/total"),
        number("/runs/cached"),
        number("/runs/inferred"),
        number("/runs/wasted"),
    ));
    let device = report.pointer("/device").and_then(Value::as_str).unwrap_or_default();
    let device = if device == "emulated" { ", on the emulated device only" } else { "" };
    let counted = |path: &str| {
        let (hits, runs) = (number(&format!("{path}/hits")), number(&format!("{path}/runs")));
        if runs == 0 { "not by cold runs".to_owned() } else { format!("{hits} of {runs} cold runs{device}") }
    };
    if bundle.outcome == Outcome::Interrupted && bundle.repro.is_some() {
        print(&format!("repro.py:  {}", counted("/repro/confirmed")));
    }
    print(&format!(
        "confirmed: {}; certificate: {}",
        counted("/confirmed"),
        report.pointer("/certificate").and_then(Value::as_str).unwrap_or("none"),
    ));
    for other in report.pointer("/other").and_then(Value::as_array).into_iter().flatten() {
        let failure = other.get("failure").and_then(Value::as_str).unwrap_or_default();
        print(&format!("also seen: {failure} (in other/)"));
    }
    match bundle.outcome {
        Outcome::Reduced => {}
        Outcome::Limit if !untried.is_empty() => {
            print("raise `limits: {time: ...}`, or start from a later checkpoint of the program")
        }
        Outcome::Limit => print("a limit ended the run: the result is confirmed, but may not be minimal"),
        Outcome::Interrupted => print("interrupted: the best so far is kept; `--resume` goes on"),
        Outcome::Unconfirmed => print("not every cold run showed the failure: do not rely on this result"),
    }
    print(&format!("bundle:    {}", bundle.out.display()));
    if print_diff {
        print("");
        print(bundle.diff.trim_end());
    }
}

/// Shows what preflight found.
pub(super) fn check(found: &Found) {
    print(&format!("reproduces: {}", found.signature));
    if let Some(frame) = found.frames.last() {
        print(&format!("site:       {}:{} in {}", frame.file, frame.line, frame.func));
    }
    print(&format!("as given:   {} ({:.1} s, fresh interpreter)", found.as_given, found.seconds[0]));
    print(&format!("a trial:    {:.2} s ({}); time-out {:.0} s", found.seconds[1], found.mode, found.timeout));
    let pins = &found.pins;
    let seed = pins.seed.map_or_else(|| "left alone".to_owned(), |seed| seed.to_string());
    print(&format!(
        "pins:       launch_blocking {}, seed {seed}, num_workers {}",
        pins.launch_blocking,
        pins.num_workers.map_or_else(|| "left alone".to_owned(), |workers| workers.to_string()),
    ));
    for hidden in &found.hidden {
        print(&format!("not used:   {hidden}"));
    }
    for what in &found.untried {
        print(&format!("not tried:  {what}"));
    }
    for note in &found.notes {
        let place = match (&note.file, note.line) {
            (Some(file), Some(line)) => format!(" at {file}:{line}"),
            _ => String::new(),
        };
        print(&format!("note:       {}{place} {}", note.kind, note.text.as_deref().unwrap_or_default()));
    }
    print(&format!("sources:    {}", found.sources.join(", ")));
}
