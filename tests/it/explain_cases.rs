//! `reduce explain crash.yaml` on the whole corpus: the true line, the offending element, and where it comes from.

use std::fs;
use std::process::Stdio;
use std::time::Instant;

use reduce::yaml::Node;
use serde_json::Value;

use crate::corpus::{cases, expected, scalar, string};
use crate::support::{Copy, new_python, reduce, run, text};

/// An explanation takes this many seconds beyond the first run.
const MOST_SECONDS: f64 = 10.0;

fn explained(copy: &Copy) -> Value {
    let mut command = reduce();
    command.arg("explain").arg(copy.case.join("crash.yaml")).args(["--device", "emulated", "--json"]);
    let output = run(&mut command);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What is found, and the seconds that it took beyond the first run.
fn timed(copy: &Copy) -> (Value, f64) {
    let begun = Instant::now();
    let found = explained(copy);
    let first = found["seconds"][0].as_f64().unwrap();
    (found, begun.elapsed().as_secs_f64() - first)
}

fn wrong(expected: &Node, found: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut check = |what: &str, wanted: Option<String>, got: &Value| {
        let got = got.as_str().map_or_else(|| got.to_string(), str::to_owned);
        if let Some(wanted) = wanted.filter(|wanted| *wanted != got) {
            wrong.push(format!("{what}: wanted {wanted}, found {got}"));
        }
    };
    check("class", string(expected, &["signature", "class"]), &found["signature"]["class"]);
    check("site", string(expected, &["site", "file"]), &found["line"]["file"]);
    check("statement", string(expected, &["site", "text"]), &found["line"]["text"]);
    let origin = expected.get("origin").unwrap();
    check("origin file", string(expected, &["origin", "file"]), &found["origin"]["file"]);
    let expression = string(expected, &["origin", "expression"]);
    check("expression", expression.clone(), &found["origin"]["expression"]);
    if expression.is_none() {
        for (key, at) in [("row", "row"), ("line", "line"), ("column", "column"), ("key", "key"), ("word", "word")] {
            check(key, origin.get(key).map(scalar), &found["origin"][at]);
        }
        assert!(found["origin"]["expression"].is_null(), "{found:#}");
    }
    let (value, limit) = (expected.get("value").map(scalar), expected.get("limit").map(scalar));
    let offence = |key: &str| found["offence"][key].as_str().unwrap_or("null").to_owned();
    // A float is written shorter than it is.
    let fits = |wanted: Option<String>, got: &str| {
        wanted.is_none_or(|wanted| wanted == got || (wanted.contains('.') && got.starts_with(&wanted)))
    };
    if !fits(value, &offence("value")) || !fits(limit, &offence("limit")) {
        wrong.push(format!("offence: {}", found["offence"]));
    }
    wrong
}

#[test]
fn every_case_is_explained_to_the_row_or_expression_that_is_wrong() {
    let mut all = Vec::new();
    for name in cases() {
        let copy = Copy::of(&name, &new_python());
        let (mut found, mut more) = timed(&copy);
        if more > MOST_SECONDS {
            // Something else may have had the machine: an explanation that is slow is so twice.
            (found, more) = timed(&copy);
        }
        println!("{name:16} {more:4.1} s beyond the first run: {}", found["mend"]);
        all.extend(wrong(&expected(&name), &found).into_iter().map(|what| format!("{name}: {what}")));
        if more > MOST_SECONDS {
            all.push(format!("{name}: {more:.1} s beyond the first run"));
        }
        // The path begins at the origin and ends at the failing call, and each argument is described.
        let path = found["path"].as_array().unwrap();
        if path.is_empty() || path.last().unwrap()["file"] != found["line"]["file"] {
            all.push(format!("{name}: path {path:#?}"));
        }
        if !found["arguments"].as_array().unwrap().iter().any(|one| one["min"].is_number() || one["nan"].is_number()) {
            all.push(format!("{name}: arguments {}", found["arguments"]));
        }
        if fs::read_dir(&copy.case)
            .unwrap()
            .any(|entry| entry.unwrap().path().extension().is_some_and(|end| end == "reduced"))
        {
            all.push(format!("{name}: a bundle was left"));
        }
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

/// Puts the guard in front of the failing statement: does the program stop there?
fn guard_stops(copy: &Copy, found: &Value) -> bool {
    let lines: Vec<&str> = found["guard"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let (file, line) = (found["line"]["file"].as_str().unwrap(), found["line"]["line"].as_u64().unwrap());
    let path = copy.case.join(file);
    let program = fs::read_to_string(&path).unwrap();
    let mut out = Vec::new();
    for (number, one) in program.lines().enumerate() {
        if number as u64 + 1 == line {
            let indent: String = one.chars().take_while(|c| c.is_whitespace()).collect();
            out.extend(lines.iter().map(|line| format!("{indent}{line}")));
        }
        out.push(one.to_owned());
    }
    fs::write(&path, out.join("\n") + "\n").unwrap();
    let mut command = reduce();
    command.arg("check").arg(copy.case.join("crash.yaml")).args(["--device", "emulated", "-q"]);
    let output = run(&mut command);
    // The program now ends with an error of its own, which is no failure of a device.
    let stopped = output.status.code() == Some(3) && text(&output).contains("AssertionError: ");
    if !stopped {
        println!("{}", text(&output));
    }
    stopped
}

#[test]
fn a_guard_stops_the_program_before_the_device_does() {
    for name in ["label_range", "position", "nan_multinomial", "bce_input"] {
        let copy = Copy::of(name, &new_python());
        let found = explained(&copy);
        println!("{name}: {:#}", found["guard"]);
        assert!(guard_stops(&copy, &found), "{name}");
    }
}

/// Secrets in code, data, what is printed and the environment.
const SECRETS: [&str; 6] = [
    "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8",
    "hf_AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGh",
    "AKIAIOSFODNN7EXAMPLF",
    "maria.lindqvist@example-lab.org",
    "/home/mlindqvist",
    "correct-horse-battery",
];

#[test]
fn no_secret_survives_in_a_bundle_and_its_repro_still_runs() {
    let folder = tempfile::tempdir().unwrap();
    let case = folder.path();
    let [github, hugging, amazon, mail, home, variable] = SECRETS;
    fs::write(
        case.join("train.py"),
        format!(
            "import csv\nimport os\nimport sys\nimport torch\nimport torch.nn.functional as F\n\nTOKEN = \"{github}\"  # {mail}\nCACHE = \"{home}/cache\"\n\n\ndef read():\n    with open(\"labels.csv\", newline=\"\") as handle:\n        return list(csv.DictReader(handle))\n\n\nrows = read()\nprint(\"login\", TOKEN, \"{hugging}\", os.environ.get(\"MY_API_TOKEN\"), CACHE, file=sys.stderr)\ntarget = torch.tensor([int(row[\"label\"]) for row in rows if row[\"by\"] and TOKEN]).cuda()\nlogits = torch.zeros(len(rows), 3).cuda()\nloss = F.cross_entropy(logits, target)\nprint(loss.item())\n"
        ),
    )
    .unwrap();
    fs::write(case.join("labels.csv"), format!("by,label\n{mail},0\n{amazon},3\nnobody,1\n")).unwrap();
    fs::write(
        case.join("crash.yaml"),
        format!("command: python train.py\npython: {}\nenv: {{HOOK: \"{hugging}\"}}\n", new_python().display()),
    )
    .unwrap();
    let out = case.join("crash.reduced");
    let mut command = reduce();
    command.arg(case.join("crash.yaml")).args(["--device", "emulated", "-q"]).env("MY_API_TOKEN", variable);
    let output = run(&mut command);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    for entry in walkdir::WalkDir::new(&out).into_iter().map(Result::unwrap).filter(|entry| entry.file_type().is_file())
    {
        let bytes = fs::read(entry.path()).unwrap();
        let whole = String::from_utf8_lossy(&bytes);
        for secret in SECRETS {
            assert!(!whole.contains(secret), "{secret} in {}", entry.path().display());
        }
    }
    let report: Value = serde_json::from_slice(&fs::read(out.join("report.json")).unwrap()).unwrap();
    let listed: Vec<&str> =
        report["replaced"].as_array().unwrap().iter().filter_map(|one| one["kind"].as_str()).collect();
    for kind in ["GitHub token", "AWS access key", "e-mail address"] {
        assert!(listed.contains(&kind), "{kind} in {listed:?}");
    }
    assert!(out.join("repro.py").is_file());
    let mut command = reduce();
    let output = run(command
        .arg("replay")
        .arg(&out)
        .args(["--device", "emulated", "-q"])
        .env("VIRTUAL_ENV", new_python().parent().unwrap().parent().unwrap()));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    // The user's own files are as they were.
    assert!(fs::read_to_string(case.join("train.py")).unwrap().contains(github));
}

#[test]
fn a_bundle_is_explained_without_running_anything_and_its_twin_by_a_few_runs() {
    let copy = Copy::of("slippery", &new_python());
    let out = copy.out("twin");
    let output = run(&mut copy.reduce(&out, &[]));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let report: Value = serde_json::from_slice(&fs::read(out.join("report.json")).unwrap()).unwrap();
    assert!(report["runs"]["by_phase"]["twin"].is_null(), "{}", report["runs"]);
    let markdown = fs::read_to_string(out.join("REPORT.md")).unwrap();
    assert!(markdown.contains("The path of the value:"));
    let output = run(reduce().arg("explain").arg(&out).env("PATH", "").env_remove("VIRTUAL_ENV"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && said.contains("row 143") && !said.contains("smallest edit"),
        "{}",
        text(&output)
    );
    let repro = fs::read_to_string(out.join("repro.py")).unwrap();
    let output = run(reduce()
        .args(["explain", "--twin", "--json"])
        .arg(&out)
        .env("VIRTUAL_ENV", new_python().parent().unwrap().parent().unwrap()));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let diff = found["twin"]["diff"].as_str().unwrap_or_default();
    assert!(diff.contains("\n-") && diff.contains("\n+"), "{}", found["twin"]);
    assert_eq!(fs::read_to_string(out.join("repro.py")).unwrap(), repro);
}

#[test]
fn the_twin_of_a_case_is_one_of_its_failing_call() {
    let copy = Copy::of("label_range", &new_python());
    let mut command = reduce();
    command.args(["explain", "--twin", "--device", "emulated", "--json"]).arg(copy.case.join("crash.yaml"));
    let output = run(&mut command);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let diff = found["twin"]["diff"].as_str().unwrap_or_default();
    assert!(diff.contains("repro.py") && diff.contains("\n-") && diff.contains("\n+"), "{}", found["twin"]);
    assert!(!copy.case.join("repro.py").exists());
}

#[test]
fn a_log_has_no_twin() {
    let output = run(reduce().args(["explain", "--twin", "-"]).stdin(Stdio::null()));
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
}
