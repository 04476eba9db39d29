//! `REPORT.md`: a draft for a human to read, edit and post, after the bug template of PyTorch or of transformers.
//!
//! Invariant: what is likely the user's own mistake is called so before anything else; it says that the program was reduced
//! by machine and where that was confirmed; whatever a text holds, it stays inside its fence.
//! Nothing is ever posted.

use std::fmt::Write as _;

use super::rebuild::Material;
use super::summary::{Counted, Summary};
use super::{Outcome, versions, words};
use crate::signature::{Catalog, Family};
use crate::trial::Device;

/// Whose template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Template {
    PyTorch,
    Transformers,
}

impl Template {
    /// That of the package whose code makes the failing call.
    fn of(summary: &Summary) -> Self {
        match summary.failure.as_ref().and_then(|failure| failure.package.as_deref()) {
            Some("transformers") => Self::Transformers,
            _ => Self::PyTorch,
        }
    }

    fn tracker(self) -> &'static str {
        match self {
            Self::PyTorch => "https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml",
            Self::Transformers => "https://github.com/huggingface/transformers/issues/new?template=bug-report.yml",
        }
    }
}

/// A program of more lines than this is named, not shown beside the first.
const SHOWN: usize = 80;

/// The text of `REPORT.md`.
pub(super) fn markdown(material: &Material) -> String {
    let summary = &material.summary;
    let template = Template::of(summary);
    let mut page = Page::default();
    page.warnings(summary, template);
    page.line("<!--");
    page.line(&format!(
        "A draft, written by machine (reduce {}) for a human: nothing has been sent anywhere.",
        material.version
    ));
    page.line("Check it, edit it into your own words, search for an issue that is there already, and post it yourself, or not at all.");
    page.line("Take out this comment and what the reader does not need.");
    page.line(&format!("Suggested title: {}", title(summary).replace("--", "- -")));
    page.line(&format!("Where: {}", template.tracker()));
    page.line("-->");
    page.gap();
    match template {
        Template::PyTorch => {
            page.heading("### 🐛 Describe the bug");
            page.description(summary);
            page.program(material);
            page.observed(material, "**Observed**");
            page.expected(summary, "**Expected**: ");
            page.cause(summary);
            page.heading("### Versions");
            page.fence("", &versions::of_pytorch(summary).join("\n"));
            page.line(
                "<!-- Lines as `python -m torch.utils.collect_env` prints them; run it for those that are missing. -->",
            );
            page.gap();
        }
        Template::Transformers => {
            page.heading("### System Info");
            page.line(
                &(versions::of_transformers(summary).join("\n")
                    + "\n- Using distributed or parallel set-up in script?: <fill in>"),
            );
            page.gap();
            page.heading("### Who can help?");
            page.line("_No response_");
            page.gap();
            page.heading("### Information");
            page.line("- [ ] The official example scripts\n- [ ] My own modified scripts");
            page.gap();
            page.heading("### Tasks");
            page.line("- [ ] An officially supported task in the `examples` folder (such as GLUE/SQuAD, ...)");
            page.line("- [ ] My own task or dataset (give details below)");
            page.gap();
            page.heading("### Reproduction");
            page.description(summary);
            page.through_library(material);
            page.program(material);
            page.observed(material, "**Observed**");
            page.cause(summary);
            page.heading("### Expected behavior");
            page.expected(summary, "");
        }
    }
    page.history(material);
    page.text
}

fn title(summary: &Summary) -> String {
    let operator = summary.signature.operator.as_deref().map(|name| format!("{name}: ")).unwrap_or_default();
    format!("{operator}{}", kind(summary))
}

/// What kind of failure it is, as a noun.
fn kind(summary: &Summary) -> String {
    let what = match summary.signature.family {
        Family::DeviceAssert => "CUDA device-side assert",
        Family::HostCheck => "error of a check on the host",
        Family::MemoryFault => "memory fault on the GPU",
        _ => "CUDA error",
    };
    let class = Catalog::embedded().entry(&summary.signature.class);
    class.map_or_else(|| what.to_owned(), |class| format!("{what} ({})", class.title))
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn line(&mut self, words: &str) {
        self.text.push_str(words);
        self.text.push('\n');
    }

    fn gap(&mut self) {
        self.text.push('\n');
    }

    fn heading(&mut self, words: &str) {
        self.line(words);
        self.gap();
    }

    fn fence(&mut self, language: &str, content: &str) {
        let marks = "`".repeat(longest_run(content).max(2) + 1);
        self.line(&format!("{marks}{language}\n{}\n{marks}", content.trim_end()));
        self.gap();
    }

    /// What a reader must know before all else.
    fn warnings(&mut self, summary: &Summary, template: Template) {
        if words::is_users_own(&summary.signature) {
            let libraries = match template {
                Template::PyTorch => "PyTorch",
                Template::Transformers => "PyTorch or transformers",
            };
            self.line(&format!("> **Likely an error in the program or its data, not a bug of {libraries}.**"));
            if let Some(mend) = summary.explained.get("mend").and_then(|mend| mend.as_str()) {
                self.line(&format!("> {}.", escaped(&words::sentence(mend))));
            }
            self.line("> Read the explanation below before you post this anywhere.");
            self.gap();
        }
        if summary.device == Device::Emulated {
            let shown = words::shown_on(summary.device, summary.is_confirmed());
            self.line(&format!("> **{shown}.** Run the program on a GPU before you post this."));
            self.gap();
        }
        if let Some(doubt) = words::doubt(summary) {
            self.line(&format!("> **{doubt}.**"));
            if !summary.untried.is_empty() {
                self.line(">\n> Not tried:\n>");
            }
            for what in &summary.untried {
                self.line(&format!("> - {}", escaped(what)));
            }
            self.gap();
        }
    }

    fn description(&mut self, summary: &Summary) {
        let meaning = summary.explained.get("meaning").and_then(|text| text.as_str()).unwrap_or_default();
        let operator =
            summary.signature.operator.as_deref().map_or_else(|| "A call".to_owned(), |name| format!("`{name}`"));
        self.line(&format!("{operator} ends in a {}.", kind(summary)));
        if !meaning.is_empty() {
            self.line(&escaped(meaning));
        }
        let (before, after) = (summary.original.statements, summary.source.statements);
        let origin = if summary.untried.is_empty() {
            format!("It was found in a program of {before} statements, which was reduced by machine to {after}")
        } else {
            format!(
                "It was found in a program of {before} statements; its run was watched by machine, nothing was reduced"
            )
        };
        match &summary.repro {
            Some(one) => self.line(&format!("{origin}; `repro.py` was made by machine: {}.", one.how)),
            None => self.line(&format!("{origin}.")),
        }
        self.gap();
    }

    fn program(&mut self, material: &Material) {
        match (&material.repro, material.source.iter().next()) {
            (Some(repro), _) => self.fence("python", repro),
            (None, Some((_, text))) if material.source.len() == 1 && text.lines().count() <= SHOWN => {
                self.fence("python", text);
            }
            _ => {
                let why = match material.summary.outcome {
                    Outcome::Interrupted => "The run ended before a single file was confirmed",
                    _ => "No single file keeps the failure",
                };
                self.line(&format!("{why}: attach the folder `source/`; `run.sh` runs it."));
                self.gap();
            }
        }
    }

    /// The program that reaches the failing call through the library, where the first one does not, with what it prints.
    fn through_library(&mut self, material: &Material) {
        let alone = material.repro.as_ref().is_some_and(|repro| !repro.contains("transformers"));
        let Some((path, text)) = material.source.iter().next().filter(|_| material.source.len() == 1) else { return };
        if !alone || material.crash_log.is_empty() || text.lines().count() > SHOWN {
            return;
        }
        let Counted { hits, runs } = material.summary.confirmed;
        let place = words::ran_on(material.summary.device);
        self.line(&format!("The reduced program, `{path}`:"));
        self.gap();
        self.fence("python", text);
        self.line(&format!("**Observed** ({hits} of {runs} runs in fresh interpreters, on {place}):"));
        self.gap();
        self.fence("", &printed(&material.crash_log, std::iter::once(path.as_str())));
        self.line("The failing call alone, without `transformers`:");
        self.gap();
    }

    fn observed(&mut self, material: &Material, heading: &str) {
        let summary = &material.summary;
        let (what, counted) = match &summary.repro {
            Some(one) => ("the program", one.confirmed),
            None => ("the program in `source/`", summary.confirmed),
        };
        let place = words::ran_on(summary.device);
        let runs = match counted.runs {
            0 => "not confirmed by runs in fresh interpreters".to_owned(),
            runs => format!("{} of {runs} runs of {what} in fresh interpreters, on {place}", counted.hits),
        };
        self.line(&format!("{heading} ({runs}):"));
        self.gap();
        if summary.printed.is_empty() {
            self.line("What it printed was not kept.");
            self.gap();
        } else {
            self.fence("", &printed(&summary.printed, material.files()));
        }
        let kernel = summary.signature.function.as_deref();
        if let (Some(kernel), true) = (kernel, summary.repro.is_some())
            && !summary.printed.is_empty()
            && !summary.printed.contains(kernel)
        {
            let kernel = code(kernel);
            self.line(&format!("The larger program failed in another kernel of this operator, {kernel}."));
            self.gap();
        }
    }

    fn expected(&mut self, summary: &Summary, heading: &str) {
        self.line(&format!("{heading}The program runs, or refuses its input with an error that names the value."));
        if let Some(text) = summary.failure.as_ref().and_then(|failure| failure.cpu_text.as_deref()) {
            self.line(&format!(
                "On the CPU the call as it was found says: {}",
                code(text.lines().next().unwrap_or_default())
            ));
        }
        self.gap();
    }

    fn cause(&mut self, summary: &Summary) {
        self.line("<details><summary>What failed, argument by argument, and where the value comes from</summary>");
        self.gap();
        self.fence("text", &summary.explained_text);
        self.line("</details>");
        self.gap();
    }

    fn history(&mut self, material: &Material) {
        let Material { summary, tally, .. } = material;
        let setting = &summary.setting;
        let title = if summary.untried.is_empty() { "How it was reduced" } else { "How it was run" };
        self.line(&format!("<details><summary>{title}, by machine</summary>"));
        self.gap();
        let mut items =
            vec![format!("command: {}", code(&setting.command)), format!("as given: {}", code(&setting.as_given))];
        items.extend(setting.hidden.iter().map(|hidden| format!("not used: {}", escaped(hidden))));
        let eager = summary.notes.iter().filter(|note| note.kind.ends_with("_is_eager"));
        items.extend(eager.map(|note| escaped(note.text.as_deref().unwrap_or(&note.kind))));
        let place = words::ran_on(summary.device);
        let counted = summary.confirmed;
        items.push(match counted.runs {
            0 => "`source/`: not confirmed by cold runs".to_owned(),
            runs => format!("`source/`: {} of {runs} cold runs failed in the same way, on {place}", counted.hits),
        });
        if let Some(one) = &summary.repro {
            let counted = one.confirmed;
            items.push(format!(
                "`repro.py`: {} of {} cold runs failed in the same way, on {place}",
                counted.hits, counted.runs
            ));
        }
        items.push(format!("certificate: {}", summary.certificate.words));
        let phases: Vec<String> =
            tally.phases().iter().map(|one| format!("{} {}", one.phase, one.verdicts.iter().sum::<usize>())).collect();
        items.push(format!("{} runs ({}), {:.0} s", summary.runs.total, phases.join(", "), summary.seconds.total));
        items.extend(
            summary.replaced.iter().map(|one| format!("replaced in {}: {} ({})", code(&one.file), one.kind, one.count)),
        );
        items.extend(
            summary
                .other
                .iter()
                .map(|other| format!("another failure seen on the way, in `other/`: {}", code(&other.failure))),
        );
        for item in items {
            self.line(&format!("- {item}"));
        }
        self.gap();
        self.line("</details>");
    }
}

/// A text between backticks, whatever it holds.
fn code(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let marks = "`".repeat(longest_run(&text) + 1);
    let space = if text.starts_with('`') || text.ends_with('`') || text.is_empty() { " " } else { "" };
    format!("{marks}{space}{text}{space}{marks}")
}

/// A text in which nothing is markup but what stands between backticks.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for letter in text.split_whitespace().collect::<Vec<_>>().join(" ").chars() {
        inside ^= letter == '`';
        match letter {
            '<' | '>' | '&' if !inside => {
                let _ok = write!(out, "&#{};", u32::from(letter));
            }
            '*' | '_' | '[' | ']' | '~' | '\\' if !inside => {
                out.push('\\');
                out.push(letter);
            }
            _ => out.push(letter),
        }
    }
    out
}

fn longest_run(text: &str) -> usize {
    text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0)
}

/// What a run printed, for a reader elsewhere: files by their names in the bundle, one launch's lines counted, and without
/// the frames through which calls of torch were watched.
pub(super) fn printed<'a>(log: &str, files: impl Iterator<Item = &'a str>) -> String {
    let mut text = middle_cut(&without_watch(&shorten(log)));
    for file in files {
        let pattern = format!(r#"File "/[^"]*/{}""#, regex::escape(file));
        if let Ok(pattern) = regex::Regex::new(&pattern) {
            text = pattern.replace_all(&text, regex::NoExpand(&format!("File \"{file}\""))).into_owned();
        }
    }
    text
}

/// Leaves out frames of `torch/overrides.py`, and those that called them only because the run was watched.
fn without_watch(log: &str) -> String {
    let mut frames: Vec<Vec<&str>> = Vec::new();
    for line in log.lines() {
        match frames.last_mut() {
            // The lines of a frame are indented deeper than its head.
            Some(frame) if line.starts_with("    ") && frame[0].starts_with("  File ") => frame.push(line),
            _ => frames.push(vec![line]),
        }
    }
    let watch = |frame: &Vec<&str>| frame[0].contains("torch/overrides.py\"");
    let door = |frame: &Vec<&str>| frame.get(1).is_some_and(|line| line.trim() == "return handle_torch_function(");
    let kept = frames.iter().enumerate().filter(|(at, frame)| {
        let next = frames.get(at + 1);
        !(watch(frame) || door(frame) && next.is_some_and(watch))
    });
    kept.flat_map(|(_, frame)| frame.iter().copied()).collect::<Vec<_>>().join("\n")
}

/// A log that is long still shows how it began, and its end, where a traceback stands.
fn middle_cut(log: &str) -> String {
    const HEAD: usize = 60;
    const TAIL: usize = 140;
    const WIDEST: usize = 2000;
    let mut lines: Vec<String> = log.lines().map(|line| line.chars().take(WIDEST).collect()).collect();
    if lines.len() > HEAD + TAIL {
        let cut = lines.len() - HEAD - TAIL;
        lines.splice(HEAD..HEAD + cut, [format!("[{cut} more lines]")]);
    }
    lines.join("\n")
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

    #[test]
    fn a_traceback_names_the_files_of_the_bundle_and_not_the_watch() {
        let log = "Traceback (most recent call last):\n  File \"/tmp/x/pkg/train.py\", line 2, in <module>\n    f(x)\n\
                   \u{20} File \"/v/torch/nn/functional.py\", line 3, in f\n    return handle_torch_function(\n           ^^^^\n\
                   \u{20} File \"/v/torch/overrides.py\", line 4, in handle_torch_function\n    result = mode()\n             ^^\n\
                   RuntimeError: CUDA error\n  hint";
        assert_eq!(
            printed(log, ["pkg/train.py"].into_iter()),
            "Traceback (most recent call last):\n  File \"pkg/train.py\", line 2, in <module>\n    f(x)\n\
             RuntimeError: CUDA error\n  hint"
        );
    }

    #[test]
    fn the_middle_of_a_long_log_is_counted() {
        let log: String = (0..1000).map(|number| format!("line {number}\n")).collect();
        let text = middle_cut(&log);
        assert!(text.contains("line 59\n[800 more lines]\nline 860\n") && text.ends_with("line 999"));
    }

    #[test]
    fn a_fence_and_a_code_span_are_longer_than_what_they_hold() {
        let mut page = Page::default();
        page.fence("python", "x = '''\n````\n'''");
        assert!(page.text.starts_with("`````python\n") && page.text.ends_with("\n`````\n\n"));
        assert_eq!(code("a `b`"), "`` a `b` ``");
        assert_eq!(escaped("`<b>` is <b> *x*"), "`<b>` is &#60;b&#62; \\*x\\*");
    }
}
