//! `report.json`: the run for programs, versioned.

use serde_json::{Value, json};

use super::rebuild::Material;
use super::words;

/// Version of the format.
pub(super) const SCHEMA: u32 = 1;

/// The whole of `report.json`.
pub(super) fn report(material: &Material) -> Value {
    let Material { summary, tally, .. } = material;
    let setting = &summary.setting;
    json!({
        "schema": SCHEMA,
        "outcome": summary.outcome,
        "signature": summary.signature,
        "device": words::device(summary.device),
        "confirmed_on": summary.is_confirmed().then(|| words::ran_on(summary.device)),
        "likely_user_error": words::is_users_own(&summary.signature),
        "setting": {
            "mode": setting.mode, "launch_blocking": setting.launch_blocking, "seed": setting.seed,
            "num_workers": setting.num_workers, "hidden": setting.hidden, "as_given": setting.as_given,
            "command": setting.command, "python": setting.python, "torch": setting.torch, "jobs": setting.jobs,
        },
        "program": summary.program,
        "source_files": summary.source_files,
        "original": summary.original,
        "source": summary.source,
        "repro": summary.repro,
        "runs": {
            "total": summary.runs.total, "resumed": summary.runs.resumed, "by_verdict": tally.by_verdict(),
            "by_phase": tally.by_phase(), "by_pass": tally.by_pass(), "cached": summary.runs.cached,
            "inferred": summary.runs.inferred, "wasted": summary.runs.wasted,
        },
        "seconds": {
            "total": summary.seconds.total, "in_trials": tally.seconds(), "search": summary.seconds.search,
            "idle": summary.seconds.idle, "by_phase": tally.seconds_by_phase(),
        },
        "confirmed": summary.confirmed,
        "certificate": summary.certificate.kind,
        "proofs": summary.certificate.counts,
        "site": summary.site,
        "origin": summary.origin,
        "explained": summary.explained,
        "explained_text": summary.explained_text,
        "failure": summary.failure,
        "explanation": summary.explanation,
        "replaced": summary.replaced,
        "other": summary.other,
        "notes": summary.notes,
        "untried": summary.untried,
        "context": { "environment": summary.environment, "machine": summary.machine, "python": summary.executable },
    })
}
