//! The reports of real bundles: made again from the ledger, honest about the device, safe against any text, and looked at in
//! a real browser.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::support::{Copy, new_python, reduce, report, root, run, snapshot, text};

const REPORTS: [&str; 3] = ["REPORT.md", "report.html", "report.json"];
/// A text that is markup for whoever does not escape it.
const MARKUP: &str = "</script><img src=x onerror=alert(1)>";
/// Largest page of a run of a thousand trials.
const LARGEST: usize = 1_000_000;

/// Two cases of the corpus, reduced once for all tests here: one file with data, and a package.
static BUNDLES: LazyLock<Vec<(Copy, PathBuf)>> = LazyLock::new(|| {
    let reduced = |name: &str| {
        let copy = Copy::of(name, &new_python());
        let out = copy.out(name);
        let output = run(&mut copy.reduce(&out, &[]));
        assert_eq!(output.status.code(), Some(0), "{name}: {}", text(&output));
        (copy, out)
    };
    ["label_range", "mask_255"].map(reduced).into()
});

fn read(out: &Path, name: &str) -> String {
    fs::read_to_string(out.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A bundle of its own with the files of another.
fn copied(out: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, bytes, ..) in snapshot(out) {
        let to = folder.path().join(path);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::write(to, bytes).unwrap();
    }
    folder
}

/// `reduce report` where there is no Python and no other program.
fn again(out: &Path) -> std::process::Output {
    run(reduce().arg("report").arg(out).env("PATH", "").env_remove("HOME"))
}

#[test]
fn a_report_is_made_again_with_the_same_bytes_and_without_python() {
    for (_, out) in BUNDLES.iter() {
        let moved = copied(out);
        for name in REPORTS {
            fs::remove_file(moved.path().join(name)).unwrap();
        }
        let output = again(moved.path());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        for name in REPORTS {
            assert!(String::from_utf8_lossy(&output.stdout).contains(name));
            assert!(fs::read(moved.path().join(name)).unwrap() == fs::read(out.join(name)).unwrap(), "{name} differs");
        }
        assert_eq!(read(moved.path(), "ledger.jsonl"), read(out, "ledger.jsonl"));
    }
}

#[test]
fn every_file_says_that_it_was_confirmed_on_the_emulated_device_only() {
    for (_, out) in BUNDLES.iter() {
        for name in ["repro.py", "run.sh", "context.yaml", "REPORT.md", "report.html", "report.json"] {
            assert!(read(out, name).contains("an emulated CUDA device only, not on a GPU"), "{name}");
        }
        assert_eq!(report(out)["device"], "emulated");
    }
}

#[test]
fn a_draft_says_first_that_the_user_erred_and_holds_what_a_tracker_asks_for() {
    let (_, out) = &BUNDLES[0];
    let draft = read(out, "REPORT.md");
    assert!(draft.starts_with("> **Likely an error in the program or its data, not a bug of PyTorch.**"), "{draft}");
    let repro = read(out, "repro.py");
    let printed = "Traceback (most recent call last):\n  File \"repro.py\", line 7, in <module>\n";
    let order = [
        "Confirmed on an emulated CUDA device only",
        "nothing has been sent anywhere",
        "### 🐛 Describe the bug",
        "reduced by machine",
        repro.trim_end(),
        "**Observed**",
        "Assertion `t >= 0 && t < n_classes` failed.",
        printed,
        "**Expected**",
        "### Versions",
        "PyTorch version: 2.11.0",
        "OS: ",
        "Python platform: Linux-",
        "[pip3] numpy==",
    ];
    let mut at = 0;
    for words in order {
        let found = draft[at..].find(words).unwrap_or_else(|| panic!("`{words}` is not where it belongs:\n{draft}"));
        at += found;
    }
    assert_eq!(repro.lines().nth(6).unwrap().split('(').next(), Some("print"));
    assert!(!draft.contains("torch/overrides.py") && !draft.contains("/reduce-"), "{draft}");
}

#[test]
fn a_failure_inside_transformers_takes_its_template_with_the_program_that_uses_it() {
    let (_, out) = &BUNDLES[0];
    let bundle = copied(out);
    let ledger = bundle.path().join("ledger.jsonl");
    let mut lines: Vec<Value> =
        fs::read_to_string(&ledger).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let end = &mut lines.last_mut().unwrap()["end"];
    end["failure"]["package"] = json!("transformers");
    end["environment"]["packages"]["transformers"] = json!("4.57.6");
    fs::write(&ledger, lines.iter().map(|line| line.to_string() + "\n").collect::<String>()).unwrap();
    let output = again(bundle.path());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let draft = read(bundle.path(), "REPORT.md");
    let mut at = 0;
    for words in [
        "not a bug of PyTorch or transformers",
        "huggingface/transformers/issues/new",
        "### System Info",
        "- `transformers` version: 4.57.6",
        "### Who can help?",
        "### Information",
        "### Tasks",
        "### Reproduction",
        "print(torch.nn.functional.cross_entropy(",
        "Traceback (most recent call last):",
        "### Expected behavior",
    ] {
        at += draft[at..].find(words).unwrap_or_else(|| panic!("`{words}` is not where it belongs:\n{draft}"));
    }
    assert!(!draft.contains("### Versions"));
}

#[test]
fn a_draft_says_where_the_call_alone_fails_in_another_kernel() {
    let (_, out) = &BUNDLES[1];
    let draft = read(out, "REPORT.md");
    assert!(
        draft.contains("The larger program failed in another kernel of this operator, `nll_loss2d_forward_kernel`.")
    );
    assert!(
        read(out, "repro.py").starts_with("# reduced by machine from a larger program: label_out_of_range in torch")
    );
}

#[test]
fn a_folder_without_a_ledger_and_a_ledger_that_cannot_be_read_are_refused() {
    let (_, out) = &BUNDLES[0];
    let refused = |out: &Path, words: &str| {
        let output = again(out);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(words) && said.contains("hint: "), "{words}: {said}");
    };
    let bundle = copied(out);
    let ledger = bundle.path().join("ledger.jsonl");
    let whole = fs::read_to_string(&ledger).unwrap();
    refused(&bundle.path().join("none"), "is not a bundle: no such folder");
    refused(&bundle.path().join("source"), "is not a bundle: it holds no ledger.jsonl");
    fs::write(&ledger, whole.replacen("\"record\":\"trial\"", "\"record\":\"trail\"", 1)).unwrap();
    refused(bundle.path(), "is broken: line 2: unknown variant `trail`");
    fs::write(&ledger, &whole[..whole.len() - 9]).unwrap();
    refused(bundle.path(), "it is cut short");
    fs::write(&ledger, whole.replacen("\"schema\":1", "\"schema\":2", 1)).unwrap();
    refused(bundle.path(), "has format 2, and this program reads format 1");
    let end = whole.trim_end().rfind('\n').unwrap();
    fs::write(&ledger, &whole[..=end]).unwrap();
    refused(bundle.path(), "has no record of how its run ended");
    fs::write(&ledger, whole.replacen("\"outcome\":\"reduced\"", "\"outcome\":\"perfect\"", 1)).unwrap();
    refused(bundle.path(), "its `end` record cannot be read");
    fs::write(&ledger, "").unwrap();
    refused(bundle.path(), "does not begin with a `case`");
    // What was there is not touched by a refusal.
    assert_eq!(read(bundle.path(), "report.html"), read(out, "report.html"));
}

#[test]
fn a_page_of_a_thousand_trials_stays_below_a_megabyte() {
    let (_, out) = &BUNDLES[0];
    let bundle = copied(out);
    let ledger = bundle.path().join("ledger.jsonl");
    let whole = fs::read_to_string(&ledger).unwrap();
    let lines: Vec<Value> = whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (end, before) = lines.split_last().unwrap();
    let trials: Vec<&Value> = before.iter().filter(|line| line["record"] == "trial").collect();
    let mut all: Vec<Value> = before.to_vec();
    // More of what a search does: trials of every verdict, and a win every tenth.
    let mut tokens = all.iter().filter_map(|line| line["tokens"].as_u64()).max().unwrap() + 1000;
    for number in trials.len()..1000 {
        let mut trial = trials[number % trials.len()].clone();
        trial["trial"] = json!(number + 1);
        trial["candidate"] = json!(format!("{number:024x}"));
        trial["verdict"] = match number % 5 {
            0 => json!({"is": "same"}),
            1 => json!({"is": "other", "failure": "another", "differs": "site"}),
            2 => json!({"is": "clean"}),
            3 => json!({"is": "invalid", "error": "NameError: x"}),
            _ => json!({"is": "unresolved", "cause": "time_out"}),
        };
        if number % 10 == 0 {
            tokens -= 1;
            let (candidate, phase) = (trial["candidate"].clone(), trial["phase"].clone());
            all.insert(
                1,
                json!({"record": "best", "candidate": candidate, "statements": 500, "tokens": tokens,
                "phase": phase, "at": 1.0}),
            );
            all.insert(1, trial);
        } else {
            all.push(trial);
        }
    }
    let mut end = end.clone();
    end["end"]["original"]["tokens"] = json!(tokens + 2000);
    all.push(end);
    assert_eq!(all.iter().filter(|line| line["record"] == "trial").count(), 1000);
    fs::write(&ledger, all.iter().map(|line| line.to_string() + "\n").collect::<String>()).unwrap();
    let output = again(bundle.path());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let page = read(bundle.path(), "report.html");
    println!("{} bytes, with {} before", page.len(), read(out, "report.html").len());
    assert!(page.len() < LARGEST, "{} bytes", page.len());
    assert!(page.contains("trial 1000") && page.contains("7 trials a column"));
}

/// A project whose file name, folder, text and data are markup.
fn of_markup() -> (tempfile::TempDir, PathBuf) {
    let project = tempfile::tempdir().unwrap();
    let (folder, file) = MARKUP.split_once('/').unwrap();
    let script = project.path().join(folder).join(format!("{file}.py"));
    fs::create_dir_all(script.parent().unwrap()).unwrap();
    let program = format!(
        "import torch\n\nnote = \"{MARKUP} `` ``` {{{{ 1 }}}} <!-- -->\"\nlabels = {{\"{MARKUP}\": 5, \"```\": 1}}\n\
         x = torch.zeros(3, 2, device=\"cuda\")\ny = torch.tensor([0, 1, labels[\"{MARKUP}\"]], device=\"cuda\")\n\
         print(torch.nn.functional.cross_entropy(x, y), note)\n"
    );
    fs::write(&script, program).unwrap();
    let command = format!("python '{folder}/{file}.py' --note '{MARKUP}'");
    let case = json!({"command": command, "python": new_python()}).to_string();
    fs::write(project.path().join("crash.yaml"), case).unwrap();
    let out = project.path().join("crash.reduced");
    (project, out)
}

#[test]
fn markup_in_a_program_its_file_names_and_its_command_stays_text() {
    let (project, out) = of_markup();
    let output = run(reduce().arg(project.path().join("crash.yaml")).args(["--device", "emulated"]));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let page = read(&out, "report.html");
    assert!(!page.contains("<img") && !page.contains("<script") && !page.contains("</script"));
    assert!(page.matches("img src=x onerror=alert(1)").count() > 5, "it is shown as text");
    let draft = read(&out, "REPORT.md");
    // What is outside of fences and code spans is a sentence of ours.
    let mut fence: Option<String> = None;
    for line in draft.lines() {
        let marks: String = line.chars().take_while(|letter| *letter == '`').collect();
        match &fence {
            Some(open) if line.trim() == open.as_str() => fence = None,
            Some(_) => {}
            None if marks.len() >= 3 => fence = Some(marks),
            None => {
                let outside = line.split('`').step_by(2).collect::<String>();
                assert!(line.contains("``") || !outside.contains("<img"), "{line}");
            }
        }
    }
    assert_eq!(fence, None, "{draft}");
    let output = look(&[out.join("report.html")]);
    assert!(output.status.success(), "{}", text(&output));
}

#[test]
fn a_private_key_and_a_token_are_in_no_report_however_they_are_marked() {
    let key: String = [
        "-----BEGIN RSA PRIVATE",
        " KEY-----\nMIIEpAIBAAKCAQEA7x\nQ2hvY29sYXRlIGlzIGdvb2Q\n-----END RSA PRIVATE KEY-----",
    ]
    .concat();
    let token = ["ghp", "_0123456789abcdefghijklmnopqrstuvwxyz"].concat();
    let project = tempfile::tempdir().unwrap();
    let program = format!(
        "import torch\n\nKEY = \"\"\"{key}\"\"\"\ntokens = {{\"{token}\": 5}}\nx = torch.zeros(3, 2, device=\"cuda\")\n\
         y = torch.tensor([0, 1, tokens[\"{token}\"]], device=\"cuda\")\nprint(torch.nn.functional.cross_entropy(x, y))\n"
    );
    fs::write(project.path().join("x.py"), program).unwrap();
    let case = json!({"command": "python x.py", "python": new_python()}).to_string();
    fs::write(project.path().join("crash.yaml"), case).unwrap();
    let output = run(reduce().arg(project.path().join("crash.yaml")).args(["--device", "emulated"]));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let out = project.path().join("crash.reduced");
    for (path, bytes, ..) in snapshot(&out) {
        let content = String::from_utf8_lossy(&bytes);
        for secret in [token.as_str(), "MIIEpAIBAAKCAQEA7x", "Q2hvY29sYXRlIGlzIGdvb2Q"] {
            assert!(!content.contains(secret), "{path} holds {secret}");
        }
    }
    assert!(read(&out, "report.html").contains("REPLACED_"));
}

/// An interpreter with selenium and axe-core.
fn browser_python() -> PathBuf {
    std::env::var_os("REDUCE_TEST_BROWSER").map_or_else(
        || {
            let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
            let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(|| home.join(".cache"), PathBuf::from);
            cache.join("reduce/test/browser/bin/python")
        },
        PathBuf::from,
    )
}

/// Looks at pages in a real Chromium; without one the test fails and says so.
fn look(pages: &[PathBuf]) -> std::process::Output {
    let python = browser_python();
    for needed in [Path::new("/usr/bin/chromium"), Path::new("/usr/bin/chromedriver"), &python] {
        assert!(needed.exists(), "{} is not there: run tests/run, which installs the browser", needed.display());
    }
    let output = run(Command::new(python).arg(root().join("tests/py/report_page.py")).args(pages));
    println!("{}", String::from_utf8_lossy(&output.stdout).trim());
    output
}

#[test]
fn a_browser_finds_nothing_to_complain_of_in_the_pages_of_two_cases() {
    let pages: Vec<PathBuf> = BUNDLES.iter().map(|(_, out)| out.join("report.html")).collect();
    let output = look(&pages);
    assert!(output.status.success(), "{}", text(&output));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("8 looks at 2 pages") && said.contains(" 0 problems"), "{said}");
}
