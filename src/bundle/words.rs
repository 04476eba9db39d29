//! What the failure is, in words: the three lines of the last screen and of the report's top.
//!
//! Invariant: each sentence repeats a fact of the evidence or of the catalogue; a guess is called one.

use super::{Contents, Outcome, Summary};
use crate::case::Program as CaseProgram;
use crate::evidence::{Found, Ground};
use crate::explain::{self, Origin};
use crate::signature::{Catalog, Family, Signature};
use crate::trial::Device;

/// Three lines: what failed, where, and what value did it.
pub fn explanation(contents: &Contents<'_>) -> Vec<String> {
    let Contents { found, ground, .. } = contents;
    let class = Catalog::embedded().entry(&found.signature.class);
    let mut lines = vec![match class {
        Some(class) => format!("{}: {}", found.signature, first_sentence(&class.meaning)),
        None => found.signature.to_string(),
    }];
    if let Some(frame) = found.frames.last() {
        let text = statement_text(contents, &frame.file, frame.line);
        lines.push(format!("at {}:{}: {text}", frame.file, frame.line));
    }
    if let Some(offence) = found.failure.as_ref().and_then(|failure| failure.offence.as_ref()) {
        let value = offence.value.as_deref().unwrap_or("?");
        let mut line = match &offence.limit {
            Some(limit) => format!("offending value {value}, limit {limit} ({})", offence.kind),
            None => format!("offending value {value} ({})", offence.kind),
        };
        if let Some(position) = &offence.position {
            line += &format!(", at position {position:?} of the operand");
        }
        if let Some(sample) = offence.sample {
            line += &format!(", sample {sample} of the data set");
        }
        if let Some(origin) = origin(found, ground) {
            line += &format!("; it comes from {}", origin.in_words());
        }
        lines.push(line);
    }
    let origin = origin(found, ground);
    lines.push(format!("mend: {}", explain::mend(&found.signature, found.failure.as_ref(), origin.as_ref())));
    lines
}

/// Where the offending value comes from, as far as it could be followed.
pub fn origin(found: &Found, ground: &Ground) -> Option<Origin> {
    explain::origin(found, &ground.invocation.project)
}

/// The text of the failing statement in the original, its first line.
pub(super) fn statement_text(contents: &Contents<'_>, file: &str, line: u32) -> String {
    let original = contents.reducer.original();
    let Some(statement) = original.statement_at(file, line) else { return String::new() };
    let text = original.text_of(statement);
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default().trim_end().to_owned();
    if lines.next().is_some() { first + " ..." } else { first }
}

/// The command that runs the reduced program, with the interpreter's plain name.
pub(super) fn command(ground: &Ground) -> String {
    let invocation = &ground.invocation;
    let mut words = vec!["python".to_owned()];
    words.extend(invocation.options.iter().cloned());
    match &invocation.program {
        CaseProgram::Script(path) => words.push(path.clone()),
        CaseProgram::Module(name) => words.extend(["-m".to_owned(), name.clone()]),
    }
    words.extend(invocation.argv.iter().cloned());
    words.iter().map(|word| shell_words::quote(word).into_owned()).collect::<Vec<_>>().join(" ")
}

/// Where it was confirmed, in a word.
pub(super) fn device(device: Device) -> &'static str {
    match device {
        Device::Cuda => "cuda",
        Device::Emulated => "emulated",
    }
}

/// Where the program was run, in words: what every file of the bundle says where it was not a GPU.
pub(super) fn ran_on(device: Device) -> &'static str {
    match device {
        Device::Cuda => "a GPU",
        Device::Emulated => "an emulated CUDA device only, not on a GPU",
    }
}

/// Whether a failure of this class is likely the user's own mistake rather than a bug of PyTorch: an assertion about values
/// that the catalogue knows as such. Of memory that was overwritten nobody knows by whom.
pub(super) fn is_users_own(signature: &Signature) -> bool {
    let values = matches!(signature.family, Family::DeviceAssert | Family::HostCheck);
    let class = Catalog::embedded().entry(&signature.class);
    values
        && class.is_some_and(|class| !class.mistakes.is_empty())
        && !["pytorch_internal", "offset_overflow"].contains(&signature.class.as_str())
}

/// The same with what was seen there: `Confirmed on`, or only `Seen on` where no cold run was made of what is shown.
pub(super) fn shown_on(device: Device, confirmed: bool) -> String {
    format!("{} on {}", if confirmed { "Confirmed" } else { "Seen" }, ran_on(device))
}

/// What speaks against relying on the result, if anything.
pub(super) fn doubt(summary: &Summary) -> Option<&'static str> {
    let Summary { outcome, untried, .. } = summary;
    match outcome {
        Outcome::Reduced => None,
        Outcome::Limit if !untried.is_empty() => {
            Some("One run takes too long for a search: the program is as it was given")
        }
        Outcome::Limit => Some("A limit ended the run: the result is confirmed, but may not be minimal"),
        Outcome::Interrupted if summary.confirmed.runs > 0 => {
            Some("The run was interrupted: the result is confirmed by few cold runs, and may not be minimal")
        }
        Outcome::Interrupted if summary.repro.is_some() => {
            Some("The run was interrupted: `source/` was not confirmed by cold runs, and it may not be minimal")
        }
        Outcome::Interrupted => Some("The run was interrupted: the result was not confirmed, and may not be minimal"),
        Outcome::Unconfirmed => {
            Some("Not every run in a fresh interpreter showed the failure: do not rely on this result")
        }
    }
}

/// A text that begins with a capital letter.
pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

fn first_sentence(text: &str) -> &str {
    text.split_once(". ").map_or(text, |(first, _)| first).trim().trim_end_matches('.')
}
