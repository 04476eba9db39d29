//! The regression corpus through the real binary: add, list, run, replay from tar files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::sys::time::TimeValLike;
use nix::unistd::Pid;
use quick_xml::events::Event;
use serde_json::Value;

use crate::support::{Copy, new_python, old_python, reduce, run, snapshot, text};

const CRASH: &str = "import torch\nprint(torch.nn.functional.embedding(torch.tensor(1, device=\"cuda\"), torch.zeros(1, 1, device=\"cuda\")))\n";
const PASS: &str = "import torch\nprint(torch.zeros(1, device=\"cuda\"))\n";

/// A corpus in a folder of its own.
struct Corpus {
    folder: tempfile::TempDir,
}

impl Corpus {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// An entry for a failing embedding.
    fn entry(&self, name: &str, program: &str, expected: &str, more: &str) {
        self.entry_of(name, program, ("index_out_of_range", "torch.nn.functional.embedding"), expected, more);
    }

    fn entry_of(&self, name: &str, program: &str, (class, operator): (&str, &str), expected: &str, more: &str) {
        let folder = self.path(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("repro.py"), program).unwrap();
        let text = format!(
            "expected: {expected}  # a note\nsignature:\n  family: device_assert\n  class: {class}\n  operator: {operator}\n{more}"
        );
        fs::write(folder.join("entry.yaml"), text).unwrap();
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = reduce();
        command.current_dir(self.folder.path()).arg("corpus").args(words);
        command.env_remove("GITHUB_ACTIONS").env("VIRTUAL_ENV", new_python().parent().unwrap().parent().unwrap());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        run(&mut self.command(words))
    }
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn expect(output: &Output, code: i32, words: &[&str]) {
    let all = text(output);
    assert_eq!(output.status.code(), Some(code), "{all}");
    for word in words {
        assert!(all.contains(word), "no `{word}` in\n{all}");
    }
}

/// Lines of entries as `verdict`, by the last part of their names.
fn verdicts(output: &Output) -> BTreeMap<String, String> {
    let line = |line: &str| {
        let (verdict, rest) = line.split_at_checked(17)?;
        let name = rest.split(':').next()?.rsplit('/').next()?;
        rest.contains('/')
            .then(|| (name.to_owned(), format!("{}{}", verdict.trim(), rest.find(": ").map_or("", |at| &rest[at..]))))
    };
    out(output).lines().filter_map(line).collect()
}

/// A bundle that the real job made, once for all tests.
fn bundle() -> &'static Path {
    static BUNDLE: OnceLock<(Copy, PathBuf)> = OnceLock::new();
    let (_, path) = BUNDLE.get_or_init(|| {
        let copy = Copy::of("position", &new_python());
        let path = copy.out("crash");
        let output = run(&mut copy.reduce(&path, &["--certify", "sinks"]));
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        (copy, path)
    });
    path
}

fn copy_of(from: &Path, to: &Path) {
    for (path, bytes, ..) in snapshot(from) {
        let target = to.join(path);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::write(target, bytes).unwrap();
    }
}

#[test]
fn a_bundle_becomes_an_entry_once_whatever_its_names_and_its_layout() {
    let corpus = Corpus::new();
    let bundle = bundle().to_str().unwrap();
    expect(&corpus.run(&["add", bundle]), 0, &["added corpus/index-out-of-range-embedding: index_out_of_range in "]);
    expect(&corpus.run(&["add", bundle]), 0, &["known already: ", " is corpus/index-out-of-range-embedding"]);
    // The same program otherwise spelled, and one that is another.
    let other = corpus.path("other.reduced");
    copy_of(Path::new(bundle), &other);
    let repro = fs::read_to_string(other.join("repro.py")).unwrap();
    let spelled = "# again\nimport torch as t\n".to_owned();
    assert!(repro.contains("import torch\n"), "{repro}");
    let renamed = repro.replace("import torch\n", "import torch  # the library\n\n\n").replace("(1,", "(0x1 ,");
    fs::write(other.join("repro.py"), &renamed).unwrap();
    expect(&corpus.run(&["add", "other.reduced"]), 0, &["known already"]);
    fs::write(other.join("repro.py"), renamed.replace("0x1", "0x2")).unwrap();
    expect(&corpus.run(&["add", "other.reduced", "--pin"]), 0, &["added corpus/index-out-of-range-embedding-2"]);
    fs::write(other.join("repro.py"), spelled + &repro.replace("import torch\n", "").replace("torch.", "t.")).unwrap();
    expect(&corpus.run(&["add", "other.reduced"]), 0, &["added corpus/index-out-of-range-embedding-3"]);
    let list = corpus.run(&["list"]);
    expect(&list, 0, &["crashes  corpus/index-out-of-range-embedding  ", "(torch ==2.11.0)"]);
    assert_eq!(out(&list).lines().count(), 3);
    let before = snapshot(&corpus.path("corpus"));
    expect(&corpus.run(&["run", "-j", "2"]), 0, &["3 entries: 3 as expected"]);
    assert!(before == snapshot(&corpus.path("corpus")));
    // Without `repro.py` it is `source/` that is kept, with its command and its pins.
    let source = corpus.path("source.reduced");
    copy_of(Path::new(bundle), &source);
    fs::remove_file(source.join("repro.py")).unwrap();
    expect(&corpus.run(&["add", "source.reduced", "--to", "sources"]), 0, &["added sources/"]);
    expect(&corpus.run(&["add", "source.reduced", "--to", "sources"]), 0, &["known already"]);
    expect(&corpus.run(&["run", "sources"]), 0, &["1 as expected"]);
    // What no cold run has shown is no entry.
    let report = fs::read_to_string(source.join("report.json")).unwrap();
    let mut unproven: Value = serde_json::from_str(&report).unwrap();
    unproven["confirmed"]["hits"] = 0.into();
    fs::write(source.join("report.json"), unproven.to_string()).unwrap();
    expect(&corpus.run(&["add", "source.reduced", "--to", "sources"]), 2, &["cannot be an entry: no fresh run"]);
    let left: Vec<_> = fs::read_dir(corpus.path("sources")).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn each_entry_gets_the_verdict_that_its_runs_show_and_the_corpus_is_not_touched() {
    let corpus = Corpus::new();
    let add = |name: &str, program: &str, expected: &str, more: &str| {
        corpus.entry(&format!("c/{name}"), program, expected, more);
    };
    let call = CRASH.lines().nth(1).unwrap();
    add("crash", CRASH, "crashes", "");
    add("passes", PASS, "fixed", "");
    add("fixed-now", PASS, "crashes", "");
    add("crashes-again", CRASH, "fixed", "");
    add(
        "gather",
        "import torch\nprint(torch.gather(torch.zeros(1, device=\"cuda\"), 0, torch.tensor(1, device=\"cuda\")))\n",
        "crashes",
        "",
    );
    add("error", "import torch\nraise ValueError('no')\n", "crashes", "");
    add("signal", "import os\nos.kill(os.getpid(), 11)\n", "crashes", "");
    add("gigabyte", "while True:\n    print('x' * (1 << 20))\n", "crashes", "");
    let writes =
        "import os\nopen('new', 'w').write('x')\nos.remove('entry.yaml')\nopen(__file__, 'a').write('# more')\n";
    add("writes", &format!("{writes}{CRASH}"), "crashes", "");
    // A server of this machine that can be reached from here; a program without network cannot.
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let place = format!("('127.0.0.1', {})", server.local_addr().unwrap().port());
    let network = format!(
        "import socket, torch\ntry:\n    socket.create_connection({place}, 5)\nexcept ConnectionRefusedError:\n    {call}\n"
    );
    add("network", &network, "crashes", "");
    add("package", "import nosuchpackage\n", "crashes", "");
    add("data", "open('data/x.csv')\n", "crashes", "");
    add("listed", CRASH, "crashes", "data: [data/x.csv]\n");
    add("gpu", CRASH, "crashes", "device: cuda\n");
    add("pinned", CRASH, "crashes", "torch: \"<1.0\"\n");
    let before = snapshot(&corpus.path("c"));
    let one = corpus.run(&["run", "c", "-j", "1", "--junit", "one.xml"]);
    expect(&one, 6, &[]);
    let found = verdicts(&one);
    for (name, verdict) in [
        ("crash", "as expected"),
        ("passes", "as expected"),
        ("fixed-now", "fixed now"),
        ("crashes-again", "crashes again"),
        ("gather", "fails otherwise: index_out_of_range in torch.Tensor.gather"),
        ("error", "fails otherwise: ValueError: no"),
        ("signal", "fails otherwise: ended by signal 11"),
        ("gigabyte", "fails otherwise: it printed more than 64 MiB and was ended"),
        ("writes", "as expected"),
        ("network", "as expected"),
        ("package", "cannot run here: package missing: nosuchpackage"),
        ("data", "cannot run here: data missing: data/x.csv"),
        ("listed", "cannot run here: data missing: data/x.csv"),
        ("gpu", "cannot run here: no GPU here"),
        ("pinned", "cannot run here: wrong torch: torch 2."),
    ] {
        let seen = found.get(name).unwrap_or_else(|| panic!("{name} in {}", text(&one)));
        assert!(seen.starts_with(verdict), "{name}: {seen}\n{}", text(&one));
    }
    assert_eq!(found.len(), 15);
    assert!(before == snapshot(&corpus.path("c")), "the corpus was touched");
    // The same text for every number of workers.
    let four = corpus.run(&["run", "c", "-j", "4", "--junit", "four.xml"]);
    assert_eq!(out(&one), out(&four));
    let times = regex::Regex::new("time=\"[0-9.]+\"").unwrap();
    let junit = |name: &str| times.replace_all(&fs::read_to_string(corpus.path(name)).unwrap(), "").into_owned();
    assert_eq!(junit("one.xml"), junit("four.xml"));
    let text = fs::read_to_string(corpus.path("one.xml")).unwrap();
    is_junit(&text);
    assert!(text.contains("tests=\"15\" failures=\"6\" errors=\"0\""), "{text}");
    assert!(text.contains("skipped=\"5\""), "{text}");
}

/// The rules of the schema that Jenkins' xUnit plug-in checks a JUnit file by, as its version 10 has them: element, its
/// attributes (a star marks those that must be there) and what may stand in it.
const RULES: [(&str, &[&str], &[&str]); 8] = [
    ("testsuites", &["name", "time", "tests", "failures", "errors"], &["testsuite"]),
    (
        "testsuite",
        &[
            "*name",
            "*tests",
            "*failures",
            "*errors",
            "group",
            "time",
            "skipped",
            "timestamp",
            "hostname",
            "id",
            "package",
            "file",
            "log",
            "url",
        ],
        &["testsuite", "properties", "testcase", "system-out", "system-err"],
    ),
    ("properties", &[], &["property"]),
    ("property", &["*name", "*value"], &[]),
    (
        "testcase",
        &["*name", "time", "classname", "group"],
        &["skipped", "error", "failure", "system-out", "system-err"],
    ),
    ("failure", &["type", "message"], &["#text"]),
    ("error", &["type", "message"], &["#text"]),
    ("skipped", &["type", "message"], &["#text"]),
];

/// Checks a document by the rules; times are numbers, and the counts are those of the cases.
fn is_junit(text: &str) {
    let mut reader = quick_xml::Reader::from_str(text);
    let mut open: Vec<String> = Vec::new();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut said: Vec<BTreeMap<String, String>> = Vec::new();
    loop {
        let event = reader.read_event().unwrap();
        let start = match &event {
            Event::Start(start) | Event::Empty(start) => start,
            Event::End(_) => {
                open.pop();
                continue;
            }
            Event::Text(text) => {
                let rule = open.last().map(|name| rule(name));
                let blank = text.trim().is_empty();
                assert!(blank || rule.is_some_and(|rule| rule.2.contains(&"#text")), "text in {open:?}");
                continue;
            }
            Event::Eof => break,
            _ => continue,
        };
        let name = start.name().as_ref().to_owned();
        let (_, attributes, _) = rule(&name);
        match open.last() {
            Some(parent) => assert!(rule(parent).2.contains(&name.as_str()), "{name} in {parent}"),
            None => assert_eq!(name, "testsuites"),
        }
        let mut found = BTreeMap::new();
        for attribute in start.attributes() {
            let attribute = attribute.unwrap();
            let key = attribute.key.as_ref().to_owned();
            let value = attribute.value.to_string();
            assert!(attributes.iter().any(|known| known.trim_start_matches('*') == key), "{key} of {name}");
            assert!(key != "time" || value.parse::<f64>().is_ok(), "time {value}");
            found.insert(key, value);
        }
        for needed in attributes.iter().filter_map(|known| known.strip_prefix('*')) {
            assert!(found.contains_key(needed), "{name} without {needed}");
        }
        *counts.entry(name.clone()).or_default() += 1;
        if name == "testsuite" {
            said.push(found);
        }
        if matches!(event, Event::Start(_)) {
            open.push(name);
        }
    }
    let sum = |key: &str| said.iter().map(|suite| suite[key].parse::<usize>().unwrap()).sum::<usize>();
    let count = |name: &str| counts.get(name).copied().unwrap_or(0);
    assert_eq!(sum("tests"), count("testcase"));
    assert_eq!(sum("failures"), count("failure"));
    assert_eq!(sum("errors"), count("error"));
    assert_eq!(sum("skipped"), count("skipped"));
}

fn rule(name: &str) -> &'static (&'static str, &'static [&'static str], &'static [&'static str]) {
    RULES.iter().find(|rule| rule.0 == name).unwrap_or_else(|| panic!("element {name}"))
}

#[test]
fn an_entry_that_comes_and_goes_is_flaky_and_one_that_hangs_is_ended() {
    let corpus = Corpus::new();
    let call = CRASH.lines().nth(1).unwrap();
    // The counter lies outside of the sandbox's view of the project, where a trial may write.
    let count = corpus.path("count");
    fs::write(&count, "").unwrap();
    let flaky = format!(
        "import torch\nwith open({:?}, 'a+') as file:\n    file.write('x')\n    file.seek(0)\n    runs = len(file.read())\nif runs % 2 == 0:\n    {call}\n",
        count.to_str().unwrap()
    );
    corpus.entry("f/flaky", &flaky, "crashes", "");
    expect(
        &corpus.run(&["run", "f", "--unsafe-no-sandbox"]),
        4,
        &["flaky            f/flaky: fails as recorded in 3 of 5 runs"],
    );
    fs::write(&count, "").unwrap();
    let output = corpus.run(&["run", "f", "--unsafe-no-sandbox", "--runs", "4"]);
    expect(&output, 4, &["flaky            f/flaky: fails as recorded in 2 of 4 runs"]);
    corpus.entry("h/hangs", "import time\ntime.sleep(10 ** 6)\n", "crashes", "timeout: 1s\n");
    corpus.entry("h/crash", CRASH, "crashes", "");
    let output = corpus.run(&["run", "h", "-j", "2"]);
    expect(&output, 6, &["fails otherwise  h/hangs: no end within 61 s", "as expected      h/crash"]);
}

#[test]
fn what_is_expected_is_rewritten_on_request_and_github_is_told_the_rest() {
    let corpus = Corpus::new();
    corpus.entry("corpus/fixed-now", PASS, "crashes", "");
    expect(&corpus.run(&["run"]), 8, &["fixed now        corpus/fixed-now", "1 fixed now"]);
    corpus.entry("corpus/crashes-again", CRASH, "fixed", "");
    let mut github = corpus.command(&["run"]);
    github.env("GITHUB_ACTIONS", "true").env("GITHUB_WORKSPACE", corpus.folder.path());
    let output = run(&mut github);
    let file = "::error file=corpus/crashes-again/repro.py,line=1,title=crashes again with torch 2.";
    expect(&output, 6, &[file, "::error file=corpus/fixed-now/repro.py,line=1,title=fixed now with"]);
    expect(&corpus.run(&["run", "--update"]), 0, &["1 fixed now, 1 crashes again, 2 rewritten"]);
    let entry = fs::read_to_string(corpus.path("corpus/fixed-now/entry.yaml")).unwrap();
    assert!(entry.starts_with("expected: fixed  # a note\nsignature:"), "{entry}");
    expect(&corpus.run(&["run"]), 0, &["2 as expected"]);
    // One event a line, and nothing else.
    let output = corpus.run(&["run", "--json"]);
    let events: Vec<Value> = out(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.len(), 3);
    assert_eq!((&events[0]["verdict"], &events[0]["runs"]), (&"as expected".into(), &1.into()));
    assert_eq!((&events[2]["event"], &events[2]["exit"]), (&"end".into(), &0.into()));
}

#[test]
fn several_versions_of_torch_make_a_matrix_without_installing_one_that_is_there() {
    let corpus = Corpus::new();
    corpus.entry("corpus/crash", CRASH, "crashes", "");
    corpus.entry("corpus/pinned", CRASH, "crashes", "torch: \">=2\"\n");
    let new_only = "import torch\nif torch.__version__ >= '2':\n    ".to_owned() + CRASH.lines().nth(1).unwrap() + "\n";
    corpus.entry("corpus/old-passes", &new_only, "crashes", "");
    let old = old_python();
    let version = run(Command::new(&old).args(["-c", "import torch; print(torch.__version__.split('+')[0])"]));
    let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
    let with = format!("torch=={version}");
    let words = ["run", "--with", "torch>=2", "--with", &with, "--python", old.to_str().unwrap(), "--junit", "m.xml"];
    let mut command = corpus.command(&words);
    // Nothing can be installed.
    let cache = corpus.path("cache");
    command.env("REDUCE_CACHE_DIR", &cache).env("PIP_NO_INDEX", "1");
    let output = run(&mut command);
    expect(&output, 8, &["fixed now        corpus/old-passes"]);
    assert!(!cache.exists(), "an environment was made");
    let rows: Vec<String> =
        out(&output).lines().take(4).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert!(rows[0].starts_with("entry torch 2.") && rows[0].contains(&format!("torch {version}")), "{rows:?}");
    assert_eq!(
        rows[1..],
        ["corpus/crash crashes crashes", "corpus/old-passes crashes passes !", "corpus/pinned crashes cannot run"]
    );
    is_junit(&fs::read_to_string(corpus.path("m.xml")).unwrap());
    let mut words = words.to_vec();
    words.push("--update");
    let mut command = corpus.command(&words);
    command.env("REDUCE_CACHE_DIR", &cache).env("PIP_NO_INDEX", "1");
    // The entry that is tied to the other version is no reason to fail.
    expect(&run(&mut command), 0, &["1 rewritten"]);
    let entry = fs::read_to_string(corpus.path("corpus/old-passes/entry.yaml")).unwrap();
    assert!(entry.ends_with(&format!("versions:\n  \"{version}\": fixed\n")), "{entry}");
    expect(&corpus.run(&["run", "--python", old.to_str().unwrap(), "corpus/old-passes"]), 0, &["1 as expected"]);
    expect(&corpus.run(&["run", "corpus/old-passes"]), 0, &["1 as expected"]);
    // A version that is nowhere.
    let mut command = corpus.command(&["run", "corpus/crash", "--with", "torch==0.0.1"]);
    command.env("REDUCE_CACHE_DIR", &cache).env("PIP_NO_INDEX", "1");
    expect(&run(&mut command), 7, &["cannot run here  corpus/crash: no torch: ERROR: No matching distribution"]);
    expect(&corpus.run(&["run", "--with", "numpy==2.0"]), 2, &["names no torch"]);
    expect(&corpus.run(&["run", "--python", "nowhere"]), 2, &["no such interpreter: nowhere"]);
}

#[test]
fn a_corpus_that_is_wrong_says_what_and_where() {
    let corpus = Corpus::new();
    expect(&corpus.run(&["run"]), 2, &["no such file or folder: corpus", "reduce corpus add"]);
    fs::create_dir(corpus.path("empty")).unwrap();
    expect(&corpus.run(&["run", "empty"]), 2, &["empty: no entries"]);
    fs::write(corpus.path("file"), "").unwrap();
    expect(&corpus.run(&["list", "file"]), 2, &["file is neither a corpus, an entry nor a tar file of one"]);
    corpus.entry("c/good", CRASH, "crashes", "");
    corpus.entry("c/unknown", CRASH, "crashes", "foo: 1\n");
    corpus.entry("c/typo", CRASH, "crashs", "");
    for (name, yaml) in [("without", "signature: {}\n"), ("yaml", "expected: [crashes\n"), ("nothing", "")] {
        corpus.entry(&format!("c/{name}"), CRASH, "crashes", "");
        fs::write(corpus.path(&format!("c/{name}/entry.yaml")), yaml).unwrap();
    }
    corpus.entry("c/lost", CRASH, "crashes", "");
    fs::remove_file(corpus.path("c/lost/entry.yaml")).unwrap();
    corpus.entry("c/programless", CRASH, "crashes", "");
    fs::remove_file(corpus.path("c/programless/repro.py")).unwrap();
    corpus.entry("c/leaves", CRASH, "crashes", "");
    fs::write(corpus.path("c/leaves/crash.yaml"), "command: python ../good/repro.py\n").unwrap();
    let words = [
        "c/unknown/entry.yaml:6: foo: unknown key",
        "c/typo/entry.yaml:1: expected: expected crashes or fixed, found \"crashs\"",
        "did you mean `crashes`?",
        "c/without/entry.yaml: expected: missing; it is required",
        "c/yaml/entry.yaml:2: not valid YAML",
        "c/nothing/entry.yaml: is empty",
        "c/lost/entry.yaml: no such file",
        "c/programless/repro.py: no such file",
        "c/leaves/crash.yaml: command: the program does not lie in the entry",
        "crashes  c/good",
    ];
    expect(&corpus.run(&["list", "c"]), 2, &words);
    // The others run all the same, each once however often its folder is named.
    let output = corpus.run(&["run", "c", "c/good", "--junit", "j.xml"]);
    expect(&output, 2, &["as expected      c/good", "1 entry: 1 as expected"]);
    let junit = fs::read_to_string(corpus.path("j.xml")).unwrap();
    is_junit(&junit);
    assert!(junit.contains("errors=\"8\""), "{junit}");
    expect(&corpus.run(&["run", "c/good", "--junit", "no/folder/j.xml"]), 2, &["--junit no/folder/j.xml"]);
}

#[test]
fn ctrl_c_ends_a_run_with_what_is_known_and_leaves_no_process() {
    let corpus = Corpus::new();
    corpus.entry("c/a-crash", CRASH, "crashes", "");
    let mark = format!("mark-{}", std::process::id());
    for name in ["b", "c", "d"] {
        corpus.entry(
            &format!("c/{name}"),
            &format!("import time\nopen('{mark}', 'w')\ntime.sleep(10 ** 6)\n"),
            "crashes",
            "",
        );
    }
    let mut child =
        corpus.command(&["run", "c", "-j", "2", "--junit", "j.xml"]).stdout(Stdio::piped()).spawn().unwrap();
    // The first line comes when the first entry is done; the others hang by then or soon.
    let mut first = [0_u8; 11];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut first).unwrap();
    assert_eq!(&first, b"as expected");
    let pid = Pid::from_raw(child.id().try_into().unwrap());
    let children = descendants(pid.as_raw());
    assert!(!children.is_empty());
    kill(pid, Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    assert!(out(&output).contains("4 entries: 1 as expected, 3 not run"), "{}", text(&output));
    let deadline = Instant::now() + Duration::from_secs(20);
    while children.iter().any(|pid| alive(*pid)) {
        assert!(Instant::now() < deadline, "{children:?} outlive the run");
        thread::yield_now();
    }
    is_junit(&fs::read_to_string(corpus.path("j.xml")).unwrap());
}

fn alive(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn descendants(root: i32) -> Vec<i32> {
    let mut found = Vec::new();
    let mut todo = vec![root];
    while let Some(parent) = todo.pop() {
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_string_lossy().parse::<i32>().ok() else { continue };
            let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
            let of =
                stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)).and_then(|word| word.parse().ok());
            if of == Some(parent) {
                found.push(pid);
                todo.push(pid);
            }
        }
    }
    found
}

/// Calls of the project's minimal programs in other sizes, each with its class and operator.
fn hundred(corpus: &Corpus) {
    let forms: [(&str, &str, &str); 10] = [
        (
            "label_out_of_range",
            "torch.nn.functional.cross_entropy",
            "torch.nn.functional.cross_entropy(torch.zeros(N, K, device=\"cuda\"), torch.full((N,), K, device=\"cuda\"))",
        ),
        (
            "label_out_of_range",
            "torch.nn.functional.nll_loss",
            "torch.nn.functional.nll_loss(torch.zeros(N, K, device=\"cuda\"), torch.full((N,), K, device=\"cuda\"))",
        ),
        (
            "index_out_of_range",
            "torch.nn.functional.embedding",
            "torch.nn.functional.embedding(torch.full((N,), K, device=\"cuda\"), torch.zeros(K, 4, device=\"cuda\"))",
        ),
        (
            "index_out_of_range",
            "torch.gather",
            "torch.gather(torch.zeros(K, device=\"cuda\"), 0, torch.full((N,), K, device=\"cuda\"))",
        ),
        (
            "index_out_of_range",
            "torch.index_select",
            "torch.index_select(torch.zeros(K, N, device=\"cuda\"), 0, torch.tensor([K], device=\"cuda\"))",
        ),
        (
            "index_out_of_range",
            "torch.Tensor.scatter_add_",
            "torch.zeros(K, device=\"cuda\").scatter_add_(0, torch.full((N,), K, device=\"cuda\"), torch.zeros(N, device=\"cuda\"))",
        ),
        (
            "index_out_of_range",
            "torch.Tensor.index_add_",
            "torch.zeros(K, device=\"cuda\").index_add_(0, torch.full((N,), K, device=\"cuda\"), torch.zeros(N, device=\"cuda\"))",
        ),
        (
            "index_out_of_range",
            "torch.nn.functional.one_hot",
            "torch.nn.functional.one_hot(torch.full((N,), K, device=\"cuda\"), K)",
        ),
        (
            "probability_out_of_range",
            "torch.nn.functional.binary_cross_entropy",
            "torch.nn.functional.binary_cross_entropy(torch.full((N, K), -1.0, device=\"cuda\"), torch.zeros(N, K, device=\"cuda\"))",
        ),
        (
            "invalid_distribution",
            "torch.multinomial",
            "torch.multinomial(torch.full((N, K), torch.nan, device=\"cuda\"), 1, True)",
        ),
    ];
    for (number, (class, operator, form)) in forms.iter().enumerate() {
        for size in 0..10 {
            let call = form.replace('N', &(1 + size).to_string()).replace('K', &(2 + 7 * size).to_string());
            let name = format!("corpus/{number}-{}-{size}", operator.rsplit('.').next().unwrap());
            corpus.entry_of(&name, &format!("import torch\n\nprint({call})\n"), (class, operator), "crashes", "");
        }
    }
}

#[test]
fn a_hundred_entries_take_one_run_each_and_little_processor_time() {
    let corpus = Corpus::new();
    hundred(&corpus);
    let used = || {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
        (usage.user_time().num_milliseconds() + usage.system_time().num_milliseconds()) as f64 / 1000.0
    };
    let (begun, before) = (Instant::now(), used());
    let output = corpus.run(&["run", "-j", "2", "--json"]);
    let (seconds, processor) = (begun.elapsed().as_secs_f64(), used() - before);
    println!("a hundred entries: {seconds:.1} s, {processor:.1} s of processor time (other tests included)");
    expect(&output, 0, &[]);
    let events: Vec<Value> = out(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let entries: Vec<&Value> = events.iter().filter(|event| event["event"] == "entry").collect();
    assert_eq!(entries.len(), 100);
    assert!(entries.iter().all(|event| event["runs"] == 1), "an entry ran more than once");
    let names: Vec<&str> = entries.iter().map(|event| event["entry"].as_str().unwrap()).collect();
    assert!(names.is_sorted());
}

#[test]
fn a_bundle_is_replayed_from_a_tar_file_and_what_differs_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = bundle();
    let (above, name) = (bundle.parent().unwrap(), bundle.file_name().unwrap().to_str().unwrap());
    let tar = |file: &str, words: &[&str]| {
        let path = folder.path().join(file);
        let mut command = Command::new("tar");
        assert!(command.arg("-cf").arg(&path).args(words).current_dir(above).status().unwrap().success());
        path
    };
    let plain = tar("b.tar", &[name]);
    let bytes = fs::read(&plain).unwrap();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, &bytes).unwrap();
    fs::write(folder.path().join("b.tar.gz"), packed.finish().unwrap()).unwrap();
    fs::write(folder.path().join("b.tar.zst"), zstd::encode_all(bytes.as_slice(), 1).unwrap()).unwrap();
    let replay = |path: &Path, python: &Path| {
        let mut command = reduce();
        let bin = folder.path().join("bin");
        let _made = fs::create_dir(&bin);
        let _gone = fs::remove_file(bin.join("python"));
        // Not a link: a virtual environment is known by the path of its interpreter.
        let script = format!("#!/bin/sh\nexec {} \"$@\"\n", python.display());
        fs::write(bin.join("python"), script).unwrap();
        fs::set_permissions(bin.join("python"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        command.env("PATH", format!("{}:/usr/bin:/bin", bin.display())).arg("replay").arg(path);
        run(&mut command)
    };
    for file in ["b.tar", "b.tar.gz", "b.tar.zst"] {
        let output = replay(&folder.path().join(file), &new_python());
        expect(&output, 0, &["still fails the same way"]);
        assert!(!text(&output).contains("not as where the bundle was made"), "{}", text(&output));
    }
    let output = replay(&plain, &old_python());
    expect(&output, 0, &["not as where the bundle was made:", "torch: 2.", " here", "still fails the same way"]);
    // What leads elsewhere is refused before anything runs.
    let report = fs::read_to_string(bundle.join("report.json")).unwrap();
    let mut evil: Value = serde_json::from_str(&report).unwrap();
    evil["program"]["target"] = "../../other.py".into();
    let copy = folder.path().join("evil");
    fs::create_dir(&copy).unwrap();
    fs::write(copy.join("report.json"), evil.to_string()).unwrap();
    expect(&replay(&copy, &new_python()), 2, &["leads out of the bundle"]);
    std::os::unix::fs::symlink("/etc", copy.join("link")).unwrap();
    let file = folder.path().join("evil.tar");
    let made = Command::new("tar").arg("-cf").arg(&file).arg("evil").current_dir(folder.path()).status().unwrap();
    assert!(made.success());
    expect(&replay(&file, &new_python()), 2, &["evil.tar is refused: `evil/link` is a link out of the folder"]);
    fs::write(folder.path().join("not.tar.gz"), "no").unwrap();
    expect(&replay(&folder.path().join("not.tar.gz"), &new_python()), 2, &["cannot unpack"]);
    // A corpus may come as a tar file too; nothing is written to it.
    let corpus = Corpus::new();
    corpus.entry("c/fixed-now", PASS, "crashes", "");
    let made = Command::new("tar").args(["-cf", "c.tar", "c"]).current_dir(corpus.folder.path()).status().unwrap();
    assert!(made.success());
    let output = corpus.run(&["run", "c.tar", "--update"]);
    expect(&output, 8, &["fixed now        c.tar/c/fixed-now", "lies in a tar file and is not rewritten"]);
}
