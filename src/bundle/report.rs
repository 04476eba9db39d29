//! `REPORT.md`: a draft for a human to read, edit and post.
//!
//! Invariant: it says that the program was reduced by machine, where it was confirmed, and whether the mistake is likely
//! the user's own.

use super::secrets::Replaced;
use super::{Contents, json, words};

/// The text of `REPORT.md`.
pub(super) fn markdown(
    contents: &Contents<'_>,
    explanation: &[String],
    repro: Option<&str>,
    replaced: &[Replaced],
) -> String {
    let Contents { found, confirmed, ground, reducer, oracle, .. } = contents;
    let mut text = String::new();
    let mut line = |words: &str| {
        text.push_str(words);
        text.push('\n');
    };
    line("<!-- A draft, made by machine. Read it, edit it, and post it yourself; nothing has been sent anywhere. -->");
    line("");
    line("# Describe the bug");
    line("");
    if words::is_users_own(found) {
        line("> **Likely an error in the program or its data, not a bug of PyTorch.**");
        line("> Read the explanation below before you post this anywhere.");
        line("");
    }
    if words::device(ground) == "emulated" {
        line("> Confirmed on an emulated CUDA device only, not on a GPU.");
        line("");
    }
    line("## Program");
    line("");
    match repro {
        Some(repro) => {
            line("```python");
            line(repro.trim_end());
            line("```");
        }
        None if !found.untried.is_empty() => line("See `source/`; `run.sh` runs it."),
        None => line("No single file keeps the failure; the reduced program is in `source/`, and `run.sh` runs it."),
    }
    line("");
    if let Some(one) = &confirmed.repro {
        line(&format!("Made by machine: {}.", one.how));
        line("");
    }
    line("## What happens");
    line("");
    for sentence in explanation {
        line(&format!("- {sentence}"));
    }
    line("");
    line("<details><summary>What failed, argument by argument, and the path of the value</summary>");
    line("");
    line("```");
    line(contents.explained().to_string().trim_end());
    line("```");
    line("");
    line("</details>");
    line("");
    let (before, after) = (reducer.original(), reducer.program());
    if found.untried.is_empty() {
        line(&format!(
            "The program in which it was found was reduced by machine from {} statements to {}; it is in `source/`.",
            before.statements_count(),
            after.statements_count()
        ));
    } else {
        line(
            "The program in `source/` is as it was given: one run of it was watched by machine, and nothing was reduced.",
        );
        line("");
        line("Not tried:");
        line("");
        for what in &found.untried {
            line(&format!("- {what}"));
        }
    }
    line("");
    line("## Error");
    line("");
    line("```");
    let log = if confirmed.crash_log.is_empty() { &found.log } else { &confirmed.crash_log };
    line(shorten(log).trim_end());
    line("```");
    line("");
    line("## Expected");
    line("");
    line("The program runs, or refuses its input with an error that names the value.");
    line("");
    line("# Versions");
    line("");
    line("```");
    line(&format!("Python version: {}", ground.python.version));
    let torch = ground.python.torch.as_ref();
    line(&format!("PyTorch version: {}", torch.map_or("unknown", |torch| torch.version.as_str())));
    line(&format!(
        "CUDA used to build PyTorch: {}",
        torch.and_then(|torch| torch.cuda.as_deref()).unwrap_or("Could not collect")
    ));
    line(&format!("Device: {}", words::device(ground)));
    line("```");
    line("");
    line(if found.untried.is_empty() { "# How it was reduced" } else { "# How it was run" });
    line("");
    line(&format!("- command: `{}`", ground.case.command.text));
    line(&format!("- as given: {}", found.as_given));
    for hidden in &found.hidden {
        line(&format!("- not used: {hidden}"));
    }
    for note in found.notes.iter().filter(|note| note.kind.ends_with("_is_eager")) {
        line(&format!("- {}", note.text.as_deref().unwrap_or(&note.kind)));
    }
    line(&format!("- confirmed by {} of {} cold runs of the final files", confirmed.hits, confirmed.runs));
    if let Some(one) = &confirmed.repro {
        line(&format!("- `repro.py`: {} of {} cold runs", one.hits, one.runs));
    }
    line(&format!("- certificate: {}", reducer.certificate().in_words()));
    let phases = json::by_phase(oracle.ledger());
    let phases: Vec<String> = phases.iter().map(|(phase, runs)| format!("{phase} {runs}")).collect();
    line(&format!("- {} runs ({}), {:.0} s", oracle.runs(), phases.join(", "), contents.seconds));
    for one in replaced {
        line(&format!("- replaced in `{}`: {} ({})", one.file, one.kind, one.count));
    }
    for other in oracle.others() {
        line(&format!("- another failure seen on the way, in `other/`: {}", other.failure));
    }
    text
}

/// One launch can print a line a thread: the first assert lines say it all.
fn shorten(log: &str) -> String {
    const KEPT: usize = 2;
    let mut asserts = 0;
    let mut cut = 0;
    let mut lines = Vec::new();
    for line in log.lines() {
        if line.contains(" Assertion `") {
            asserts += 1;
            if asserts > KEPT {
                cut += 1;
                continue;
            }
        } else if cut > 0 {
            lines.push(format!("[{cut} more lines like these]"));
            cut = 0;
        }
        lines.push(line.to_owned());
    }
    if cut > 0 {
        lines.push(format!("[{cut} more lines like these]"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_a_thread_becomes_two_lines_and_a_count() {
        let assert = "F.cu:1: k: block: [0,0,0], thread: [1,0,0] Assertion `t` failed.\n";
        let text = shorten(&(assert.repeat(5) + "Traceback\n"));
        assert_eq!(text.lines().count(), 4);
        assert!(text.contains("[3 more lines like these]\nTraceback"));
    }
}
