//! What a bisection leaves: `report.json` and `REPORT.md`, with the outputs of the two neighbours.
//!
//! Invariant: nothing is said that the log and the runs do not show, and no secret is.

use std::fs;

use serde_json::{Value, json};

use super::{Answered, Bisected, Ending, JobError, Work};

/// Version of the format.
const SCHEMA: u32 = 1;

/// Writes both reports.
pub(super) fn write(work: &mut Work<'_>, answered: Answered, seconds: f64) -> Result<Bisected, JobError> {
    let Answered { ending, failure, lines, found, neighbours, probability } = answered;
    let outputs: Vec<Value> = neighbours
        .iter()
        .filter_map(|key| work.shown.get(key).map(|shown| (key, shown)))
        .map(|(key, shown)| {
            json!({
                "key": key, "label": shown.label, "fails": shown.counts[0], "passes": shown.counts[1],
                "output_failing": shown.fails, "output_passing": shown.passes,
            })
        })
        .collect();
    let skipped: Vec<Value> = work
        .shown
        .iter()
        .filter_map(|(key, shown)| {
            let why = shown.skip.as_ref()?;
            Some(json!({ "key": key, "label": shown.label, "why": why }))
        })
        .collect();
    let tried: Vec<Value> = work
        .shown
        .iter()
        .map(|(key, shown)| json!({ "key": key, "label": shown.label, "counts": shown.counts }))
        .collect();
    let report = json!({
        "schema": SCHEMA,
        "axis": work.ask.axis.name(),
        "outcome": name(ending),
        "failure": failure,
        "answer": lines,
        "found": found,
        "probability": probability,
        "neighbours": outputs,
        "skipped": skipped,
        "tried": tried,
        "runs": work.session.oracle.runs(),
        "seconds": seconds,
    });
    let text = serde_json::to_string_pretty(&report).unwrap_or_default() + "\n";
    let text = work.session.secrets.clean("report.json", &text);
    put(work, "report.json", &text)?;
    let report = serde_json::from_str(&text).unwrap_or(report);
    let text = markdown(work, &failure, &lines, &neighbours, seconds);
    let text = work.session.secrets.clean("REPORT.md", &text);
    put(work, "REPORT.md", &text)?;
    Ok(Bisected { ending, out: work.out.clone(), lines, report })
}

fn name(ending: Ending) -> &'static str {
    match ending {
        Ending::Found => "found",
        Ending::Limit(_) => "limit",
        Ending::NotReproduced => "not_reproduced",
        Ending::GoodFails => "good_fails",
        Ending::Broken => "broken",
        Ending::Unsteady => "unsteady",
    }
}

fn put(work: &Work<'_>, name: &str, text: &str) -> Result<(), JobError> {
    let path = work.out.join(name);
    fs::write(&path, text).map_err(|source| JobError::File { path, source })
}

fn markdown(work: &Work<'_>, failure: &str, lines: &[String], neighbours: &[String], seconds: f64) -> String {
    let mut text = format!("# Bisection over {}\n\nThe failure: `{failure}`\n\n```\n", work.ask.axis.name());
    lines.iter().for_each(|line| text += &format!("{line}\n"));
    text += &format!("```\n\n{} runs in {seconds:.0} s.\n", work.session.oracle.runs());
    for key in neighbours {
        let Some(shown) = work.shown.get(key) else { continue };
        text +=
            &format!("\n## {}\n\nFailed {} times, passed {} times.\n", shown.label, shown.counts[0], shown.counts[1]);
        for (word, output) in [("failing", &shown.fails), ("passing", &shown.passes)] {
            if let Some(output) = output {
                text += &format!("The end of a {word} run:\n\n```\n{output}\n```\n");
            }
        }
    }
    let skipped: Vec<_> = work.shown.values().filter_map(|shown| Some((&shown.label, shown.skip.as_ref()?))).collect();
    if !skipped.is_empty() {
        text += "\n## Not run\n\n";
        skipped.iter().for_each(|(label, why)| text += &format!("- {label}: {why}\n"));
    }
    text += "\nEvery answer is in `log`; edit it and run the same command with `--resume` to go on from it.\n";
    text
}
