//! `report.html`: one page that needs nothing else, no network and no script.
//!
//! Invariant: every text of the program, its files and its logs goes through the template's escaping, and the page's own
//! policy forbids scripts and everything from elsewhere.
//! Must not compute what `report.json` does not say, beside how it is drawn.

mod chart;
mod diff;
mod rows;

use std::collections::BTreeMap;

use askama::Template;
use serde_json::Value;

use super::rebuild::Material;
use super::summary::Summary;
use super::tally::{PassAccount, VERDICTS, Win};
use super::{draft, words};
use crate::signature::Catalog;
use crate::trial::{Device, Mode};

pub(crate) use askama::Error as PageError;

/// More wins than this are counted, not listed.
const WINS: usize = 400;

/// What the page shows.
#[derive(Template)]
#[template(path = "page.html", config = "src/bundle/page/askama.toml")]
struct Page<'a> {
    title: String,
    class: &'a str,
    operator: &'a str,
    version: &'a str,
    warnings: Vec<Warning>,
    figures: Vec<Figure>,
    /// Sentences, each of parts that are code or not.
    explanation: Vec<Vec<(bool, String)>>,
    path: Vec<Stop>,
    explained: &'a str,
    repro: Option<&'a str>,
    how: &'a str,
    printed: String,
    chart: chart::Chart,
    original: usize,
    verdicts: [&'static str; VERDICTS.len()],
    totals: Vec<usize>,
    /// Verdicts that occur.
    legend: Vec<(&'static str, usize)>,
    phases: Vec<PhaseRow>,
    passes: Vec<PassAccount>,
    idle_passes: usize,
    wins: Vec<&'a Win>,
    more_wins: usize,
    rows: rows::Rows,
    files: Vec<diff::FileDiff>,
    settings: Vec<(&'static str, String)>,
    replaced: Vec<String>,
    other: Vec<String>,
}

/// Something to know before the rest.
struct Warning {
    kind: &'static str,
    title: String,
    /// Parts that are code or not.
    text: Vec<(bool, String)>,
}

/// A number with its name.
struct Figure {
    name: &'static str,
    value: String,
    note: String,
}

/// A step of the value's path.
struct Stop {
    place: String,
    function: String,
    text: String,
    value: String,
}

/// Trials of a phase by verdict.
struct PhaseRow {
    name: String,
    counts: Vec<usize>,
    trials: usize,
    seconds: f64,
}

/// The page as text.
///
/// # Errors
/// Never in practice: writing into memory does not fail.
pub(super) fn html(material: &Material) -> Result<String, PageError> {
    let Material { summary, tally, .. } = material;
    let phases: Vec<PhaseRow> = tally
        .phases()
        .into_iter()
        .map(|one| PhaseRow {
            name: one.phase,
            trials: one.verdicts.iter().sum(),
            counts: one.verdicts.to_vec(),
            seconds: one.seconds,
        })
        .collect();
    let totals: Vec<usize> =
        (0..VERDICTS.len()).map(|kind| phases.iter().map(|phase| phase.counts[kind]).sum()).collect();
    let (passes, idle): (Vec<_>, Vec<_>) = tally.passes().into_iter().partition(|pass| pass.wins > 0);
    let class = Catalog::embedded().entry(&summary.signature.class);
    let title = class.map_or(summary.signature.class.as_str(), |class| class.title.as_str());
    Page {
        title: words::sentence(title),
        class: &summary.signature.class,
        operator: summary.signature.operator.as_deref().unwrap_or("an operator that is not known"),
        version: &material.version,
        warnings: warnings(summary),
        figures: figures(summary),
        explanation: explanation(summary),
        path: summary
            .path
            .iter()
            .map(|step| Stop {
                place: format!("{}:{}", step.file, step.line),
                function: step.function.clone(),
                text: one_line(&step.text),
                value: one_line(&step.value),
            })
            .collect(),
        explained: summary.explained_text.trim_end(),
        repro: material.repro.as_deref().map(str::trim_end),
        how: summary.repro.as_ref().map_or("", |one| one.how.as_str()),
        printed: draft::printed(&summary.printed, material.files()),
        chart: chart::draw(tally, summary.original.tokens),
        original: summary.original.tokens,
        verdicts: VERDICTS,
        legend: VERDICTS.into_iter().zip(totals.iter().copied()).filter(|(_, count)| *count > 0).collect(),
        totals,
        phases,
        passes,
        idle_passes: idle.len(),
        wins: tally.wins.iter().take(WINS).collect(),
        more_wins: tally.wins.len().saturating_sub(WINS),
        rows: rows::lay_out(&summary.graph),
        files: diff::compare(&summary.files, &material.source),
        settings: settings(material),
        replaced: summary.replaced.iter().map(|one| format!("{}: {} ({})", one.file, one.kind, one.count)).collect(),
        other: summary.other.iter().map(|other| format!("{} ({} tokens)", other.failure, other.tokens)).collect(),
    }
    .render()
}

/// The three lines of the last screen; what to mend stands on top already where the mistake is the user's own.
fn explanation(summary: &Summary) -> Vec<Vec<(bool, String)>> {
    let own = words::is_users_own(&summary.signature);
    let lines = summary.explanation.iter().filter(|line| !(own && line.starts_with("mend: ")));
    lines.map(|line| parts(line)).collect()
}

/// A sentence in which code stands between backticks.
fn parts(text: &str) -> Vec<(bool, String)> {
    if text.is_empty() {
        return Vec::new();
    }
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return vec![(false, text.to_owned())];
    }
    parts.into_iter().enumerate().map(|(place, part)| (place % 2 == 1, part.to_owned())).collect()
}

fn warnings(summary: &Summary) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if words::is_users_own(&summary.signature) {
        let mend = summary.explained.get("mend").and_then(Value::as_str).unwrap_or_default();
        warnings.push(Warning {
            kind: "own",
            title: "Likely an error in the program or its data, not a bug of PyTorch".to_owned(),
            text: parts(&(words::sentence(mend) + ".")),
        });
    }
    if summary.device == Device::Emulated {
        warnings.push(Warning {
            kind: "emulated",
            title: words::shown_on(summary.device, summary.is_confirmed()),
            text: parts("Run the program on a GPU before you rely on it."),
        });
    }
    if let Some(doubt) = words::doubt(summary) {
        let text = summary.untried.iter().map(|what| words::sentence(what) + ".").collect::<Vec<_>>().join(" ");
        warnings.push(Warning { kind: "doubt", title: doubt.to_owned(), text: parts(&text) });
    }
    warnings
}

fn figures(summary: &Summary) -> Vec<Figure> {
    let (before, after) = (&summary.original, &summary.source);
    let mut figures = vec![
        Figure { name: "Statements", value: after.statements.to_string(), note: format!("of {}", before.statements) },
        Figure { name: "Tokens", value: after.tokens.to_string(), note: format!("of {}", before.tokens) },
    ];
    if let Some(one) = &summary.repro {
        figures.push(Figure {
            name: "repro.py",
            value: one.size.statements.to_string(),
            note: format!("statements, {} tokens", one.size.tokens),
        });
    }
    let wasted =
        if summary.runs.wasted > 0 { format!(", {} of them dropped", summary.runs.wasted) } else { String::new() };
    figures.push(Figure {
        name: "Trials",
        value: summary.runs.total.to_string(),
        note: format!("in {:.0} s{wasted}", summary.seconds.total),
    });
    figures.push(Figure {
        name: "Confirmed",
        value: match summary.confirmed.runs {
            0 => "no".to_owned(),
            runs => format!("{} of {runs}", summary.confirmed.hits),
        },
        note: "cold runs of source/".to_owned(),
    });
    figures
}

fn settings(material: &Material) -> Vec<(&'static str, String)> {
    let summary = &material.summary;
    let setting = &summary.setting;
    let or_alone = |value: Option<String>| value.unwrap_or_else(|| "left alone".to_owned());
    let env: BTreeMap<&String, &str> = summary.program["env"]
        .as_object()
        .map(|env| env.iter().filter_map(|(name, value)| Some((name, value.as_str()?))).collect())
        .unwrap_or_default();
    let mut rows = vec![
        ("Command", setting.command.clone()),
        ("As given", setting.as_given.clone()),
        ("Run on", words::ran_on(summary.device).to_owned()),
        ("Python", setting.python.clone()),
        ("PyTorch", setting.torch.clone().unwrap_or_else(|| "unknown".to_owned())),
        ("CUDA of that build", setting.cuda.clone().unwrap_or_else(|| "none".to_owned())),
        ("CUDA_LAUNCH_BLOCKING", if setting.launch_blocking { "1" } else { "left alone" }.to_owned()),
        ("Seed", or_alone(setting.seed.map(|seed| seed.to_string()))),
        ("DataLoader workers", or_alone(setting.num_workers.map(|workers| workers.to_string()))),
        (
            "Trials of the search",
            match setting.mode {
                Mode::Fork => "forked from a server that has imported torch",
                Mode::Exec => "fresh interpreters",
            }
            .to_owned(),
        ),
        ("Trials at once", setting.jobs.to_string()),
        ("Certificate", summary.certificate.words.clone()),
    ];
    for (name, value) in env {
        rows.push(("Environment", format!("{name}={value}")));
    }
    rows.extend(setting.hidden.iter().map(|hidden| ("Not used", hidden.clone())));
    rows
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
