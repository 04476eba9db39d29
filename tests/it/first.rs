//! The first repro: seconds after the evidence, in the events, on disk, in the report; outward where one call is not enough.

use std::fs;

use serde_json::Value;

use crate::support::{Copy, new_python, old_python, reduce, report, run, text};

/// Ends the search early: these tests are about what comes before it.
const FEW: [&str; 2] = ["--limit-runs", "9"];

fn events(output: &std::process::Output) -> Vec<Value> {
    String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_first_repro_is_shown_before_the_search_and_stands_on_top_of_the_report() {
    for python in [new_python(), old_python()] {
        let copy = Copy::of("swallowed", &python);
        let out = copy.out("first");
        let mut command = reduce();
        command.arg(copy.case.join("crash.yaml")).arg("--out").arg(&out).args(["--device", "emulated", "--json"]);
        let output = run(command.args(FEW));
        assert_eq!(output.status.code(), Some(5), "{}", text(&output));
        let events = events(&output);
        let at =
            |name: &str| events.iter().position(|event| event["event"] == name).unwrap_or_else(|| panic!("{name}"));
        assert!(at("found") < at("repro") && at("repro") < at("win"));
        let shown = &events[at("repro")];
        assert_eq!(shown["statements"], 2);
        assert!(shown["runs"].as_u64().unwrap() <= 6, "{shown}");
        let written = fs::read_to_string(out.join("repro.py")).unwrap();
        assert!(written.ends_with(shown["text"].as_str().unwrap()), "{written}");
        let draft = fs::read_to_string(out.join("REPORT.md")).unwrap();
        let place = |words: &str| draft.find(words).unwrap_or_else(|| panic!("{words}: {draft}"));
        assert!(place("scatter_add_(0, torch.tensor(1") < place("**Observed**"));
        let report = report(&out);
        assert_eq!(report["repro"]["confirmed"]["hits"], 3);
        assert_eq!(report["failure"]["aten"], "aten.scatter_add_.default");
        assert_eq!(report["failure"]["offence"]["argument"], "index");
        let context = fs::read_to_string(out.join("context.yaml")).unwrap();
        assert!(context.contains("how: the failing call alone"), "{context}");
        let bin = python.parent().unwrap();
        let mut command = reduce();
        command.env("PATH", bin).arg("replay").arg(&out).args(["--device", "emulated"]);
        let output = run(&mut command);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    }
}

#[test]
fn where_the_smallest_call_fires_another_kernel_the_next_larger_one_is_taken() {
    let copy = Copy::of("vocab", &new_python());
    let out = copy.out("strict");
    let output = run(copy.reduce(&out, &["--match", "strict"]).args(FEW));
    assert_eq!(output.status.code(), Some(5), "{}", text(&output));
    let report = report(&out);
    assert_eq!(report["repro"]["confirmed"]["hits"], 3);
    let repro = fs::read_to_string(out.join("repro.py")).unwrap();
    assert!(repro.contains("torch.full((8, 8), 87, device=\"cuda\"), torch.zeros(8, 8, device=\"cuda\")"), "{repro}");
    let runs = report["runs"]["by_phase"]["repro"].as_u64().unwrap();
    assert!(runs <= 6, "{runs} runs");
}

#[test]
fn a_resumed_job_does_not_run_the_first_repro_again() {
    let copy = Copy::of("label_range", &new_python());
    let out = copy.out("resumed");
    let output = run(&mut copy.reduce(&out, &["--limit-runs", "5"]));
    assert_eq!(output.status.code(), Some(5), "{}", text(&output));
    let output = run(copy.reduce(&out, &["--resume"]).args(["--limit-runs", "12"]));
    assert_eq!(output.status.code(), Some(5), "{}", text(&output));
    let report = report(&out);
    assert_eq!(
        (&report["runs"]["by_phase"]["repro"], &report["repro"]["statements"]),
        (&Value::from(1), &Value::from(2))
    );
}
