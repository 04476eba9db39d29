//! The architecture as a test: ranks, sizes, names, who may spawn, parse, print, and that documents name files that exist.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use regex::Regex;
use walkdir::WalkDir;

/// Module to rank: a module imports only from lower ranks and from its own folder.
const RANKS: &[(&str, u32)] = &[
    ("process", 0),
    ("scratch", 0),
    ("yaml", 0),
    ("program", 0),
    ("harness", 0),
    ("signature", 1),
    ("environment", 1),
    ("data", 1),
    ("case", 2),
    ("candidate", 2),
    ("passes", 3),
    ("trial", 3),
    ("call", 4),
    ("plan", 4),
    ("evidence", 4),
    ("verdict", 4),
    ("ledger", 5),
    ("explain", 5),
    ("oracle", 6),
    ("search", 7),
    ("bisect", 7),
    ("bundle", 8),
    ("job", 9),
    ("corpus", 9),
    ("exit", 9),
    ("cli", 10),
    ("main", 11),
    ("lib", 11),
];

/// Hard cap of lines outside tests.
const CAP: usize = 500;

/// Larger than the cap, each with its reason.
const LARGE: &[(&str, &str)] = &[];

/// Places that name a part of the world that has one home, each with its reason: pattern, homes.
const HOMES: &[(&str, &[&str])] = &[
    // Starting and ending processes. Methods of our own types may have these names; what matters is the system's.
    (
        r"\bCommand::new\b|\bstd::process::(Command|Child|Stdio)\b|\bkillpg\b|\bsignal::kill\b|\bnix::unistd::fork",
        &["src/process.rs"],
    ),
    (r"\bruff_\w+", &["src/program/python.rs"]),
    (r"\bserde_yaml\b", &["src/yaml.rs"]),
    (r"\b(println|eprintln|print|eprint)!", &["src/cli"]),
    (r"\bprocess::exit\b", &[]),
    // `temp_dir` and `consts` are allowed: they name a place for an error message and the machine's kind.
    (
        r"\benv::(var|vars|var_os|vars_os|args|args_os|current_dir|set_var|remove_var|home_dir)\b",
        &["src/cli", "src/main.rs"],
    ),
    (r"\.unwrap\(\)|\.unwrap_err\(\)", &[]),
    (r"#!?\[allow\b", &[]),
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &str, extension: &str) -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = WalkDir::new(root().join(folder))
        .into_iter()
        .filter_map(Result::ok)
        .filter(|entry| entry.path().extension().is_some_and(|found| found == extension))
        .map(|entry| {
            let path = entry.path().strip_prefix(root()).unwrap().to_string_lossy().into_owned();
            (path, fs::read_to_string(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// The code of a file without its tests; a file of tests has none.
fn code<'a>(path: &str, text: &'a str) -> &'a str {
    if path.ends_with("tests.rs") { "" } else { text.split("#[cfg(test)]").next().unwrap_or(text) }
}

fn module_of(path: &str) -> &str {
    let inside = path.strip_prefix("src/").unwrap();
    let first = inside.split('/').next().unwrap();
    first.strip_suffix(".rs").unwrap_or(first)
}

#[test]
fn every_module_has_a_rank_and_imports_only_from_lower_ones() {
    let ranks: BTreeMap<&str, u32> = RANKS.iter().copied().collect();
    let import = Regex::new(r"\bcrate::\{?(\w+)").unwrap();
    let mut wrong = BTreeSet::new();
    for (path, text) in files("src", "rs") {
        let module = module_of(&path);
        let rank = *ranks.get(module).unwrap_or_else(|| panic!("{path}: module `{module}` has no rank"));
        for found in import.captures_iter(code(&path, &text)) {
            let other = found.get(1).unwrap().as_str();
            let Some(needed) = ranks.get(other) else { continue };
            if other != module && *needed >= rank {
                wrong.insert(format!("{path} (rank {rank}) imports crate::{other} (rank {needed})"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_file_is_larger_than_the_cap() {
    let allowed: BTreeSet<&str> = LARGE.iter().map(|(path, _)| *path).collect();
    let mut wrong = Vec::new();
    for (path, text) in files("src", "rs").into_iter().chain(files("src/harness", "py")) {
        let lines = code(&path, &text).lines().count();
        if lines > CAP && !allowed.contains(path.as_str()) {
            wrong.push(format!("{path}: {lines} lines"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_file_has_a_name_that_says_nothing() {
    let forbidden = ["utils", "util", "helpers", "common", "misc", "types", "manager", "imp"];
    for (path, _) in files("src", "rs") {
        for part in path.trim_end_matches(".rs").split('/') {
            assert!(!forbidden.contains(&part), "{path}");
        }
    }
}

#[test]
fn each_file_opens_with_what_it_owns() {
    for (path, text) in files("src", "rs") {
        assert!(text.starts_with("//!"), "{path} has no header");
    }
}

#[test]
fn one_place_spawns_one_names_the_parser_one_names_yaml_and_one_prints() {
    let mut wrong = Vec::new();
    for (pattern, homes) in HOMES {
        let pattern = Regex::new(pattern).unwrap();
        for (path, text) in files("src", "rs") {
            if homes.iter().any(|home| path.starts_with(home)) {
                continue;
            }
            for (number, line) in code(&path, &text).lines().enumerate() {
                let comment = line.trim_start().starts_with("//");
                if !comment && pattern.is_match(line) {
                    wrong.push(format!("{path}:{}: {}", number + 1, line.trim()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_expected_lint_says_why() {
    let lint = Regex::new(r"(?s)#!?\[expect\(([^]]*)\)\]").unwrap();
    for (path, text) in files("src", "rs") {
        for found in lint.captures_iter(&text) {
            assert!(
                found.get(1).unwrap().as_str().contains("reason = \""),
                "{path}: {}",
                found.get(0).unwrap().as_str()
            );
        }
    }
}

#[test]
fn the_search_reads_no_clock_and_no_random_number() {
    let clock = Regex::new(r"SystemTime|Instant::now|rand::|HashMap|HashSet").unwrap();
    for (path, text) in files("src", "rs") {
        let pure = path.starts_with("src/passes")
            || (path.starts_with("src/search") && !path.ends_with("drive.rs"))
            || (path.starts_with("src/bisect") && !path.contains("/axes/"));
        assert!(!pure || !clock.is_match(code(&path, &text)), "{path}");
    }
}

#[test]
fn documents_name_only_files_that_exist() {
    let name = Regex::new(r"`((?:\.ci|src|docs|tests|corpus|strategies)/[\w./-]*)`").unwrap();
    let link = Regex::new(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)").unwrap();
    let mut wrong = Vec::new();
    for (path, text) in documents() {
        for found in name.captures_iter(&text) {
            let named = found.get(1).unwrap().as_str();
            if !root().join(named).exists() {
                wrong.push(format!("{path} names {named}"));
            }
        }
        let folder = root().join(&path).parent().unwrap().to_owned();
        for found in link.captures_iter(&text) {
            let linked = found.get(1).unwrap().as_str();
            if !folder.join(linked).exists() {
                wrong.push(format!("{path} links to {linked}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_document_is_linked_from_the_readme_or_another_document() {
    let all = documents();
    for (path, _) in files("docs", "md") {
        let name = path.rsplit('/').next().unwrap();
        let linked = all.iter().any(|(other, text)| *other != path && text.contains(&format!("{name})")));
        assert!(linked, "nothing links to {path}");
    }
}

#[test]
fn the_ranks_of_the_document_are_those_of_this_test() {
    let text = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let row = Regex::new(r"(?m)^\| (\d+) \| ([a-z_, ]+) \|$").unwrap();
    let mut written = BTreeSet::new();
    for found in row.captures_iter(&text) {
        for module in found[2].split(", ") {
            written.insert((module.to_owned(), found[1].parse().unwrap()));
        }
    }
    let ranks: BTreeSet<(String, u32)> = RANKS.iter().map(|(module, rank)| ((*module).to_owned(), *rank)).collect();
    assert_eq!(written, ranks);
}

fn documents() -> Vec<(String, String)> {
    let mut documents = files("docs", "md");
    for top in ["README.md", "CHANGELOG.md", "corpus/README.md"] {
        documents.push((top.to_owned(), fs::read_to_string(root().join(top)).unwrap()));
    }
    documents
}

#[test]
fn the_top_level_holds_only_what_it_should() {
    let allowed: BTreeSet<&str> = [
        ".ci",
        ".git",
        ".gitignore",
        "CHANGELOG.md",
        "Cargo.lock",
        "Cargo.toml",
        "LICENSE",
        "README.md",
        "clippy.toml",
        "corpus",
        "docs",
        "rustfmt.toml",
        "src",
        "strategies",
        "target",
        "tests",
    ]
    .into();
    for entry in fs::read_dir(root()).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        let own_output = name.ends_with(".reduced") || name.starts_with('.');
        assert!(allowed.contains(name.as_str()) || own_output, "{name} at the top level");
    }
}

#[test]
fn nothing_names_a_path_of_a_developers_machine() {
    let private = Regex::new(r"/root/|/home/[a-tv-z]").unwrap();
    for folder in ["src", "docs", "strategies", "corpus"] {
        for extension in ["rs", "py", "md", "yaml"] {
            for (path, text) in files(folder, extension) {
                assert!(!private.is_match(code(&path, &text)), "{path}");
            }
        }
    }
}
