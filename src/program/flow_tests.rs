//! The dependency graph on small programs: which statements the closure of the crash holds.
//!
//! A program marks its own lines: `#*` in the closure, `#!` on the stack at the crash (and in the closure), `#-` not run,
//! `#xN` run N times. Lines run in the order of the text unless calls say otherwise.

use std::collections::BTreeMap;

use super::flow::{Graph, Line, Missing, Observed, Strength};
use super::parse::Program;
use super::source::SourceTree;
use super::statement::{StmtId, StmtSet};

/// Files with marks, calls as (`file:line`, `file:line`), arguments.
struct Run {
    program: Program,
    observed: Observed,
}

fn run(files: &[(&str, &str)], calls: &[(&str, &str)], argv: &[&str]) -> Run {
    let program = Program::parse(&SourceTree::from_texts(files.iter().copied())).expect("small");
    assert_eq!(program.opaque(), []);
    let mut lines: BTreeMap<String, Vec<Line>> = BTreeMap::new();
    let mut crash = Vec::new();
    let mut order = 0;
    for (file, text) in files {
        for (index, line) in text.lines().enumerate() {
            let number = u32::try_from(index + 1).expect("few lines");
            order += 1;
            if !line.trim().is_empty() && !line.contains("#-") {
                let count = line.split("#x").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok()).unwrap_or(1);
                lines.entry((*file).to_owned()).or_default().push((number, order, count));
            }
            if line.contains("#!") {
                crash.push(((*file).to_owned(), number));
            }
        }
    }
    let place = |place: &str| {
        let (file, line) = place.split_once(':').unwrap_or(("a.py", place));
        (file.to_owned(), line.parse::<u32>().expect("a line"))
    };
    let calls: Vec<_> = calls
        .iter()
        .map(|(from, to)| {
            let ((from, line), (to, first)) = (place(from), place(to));
            (from, line, to, first)
        })
        .collect();
    let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
    let mut crash: Vec<_> = crash;
    // Outermost first: callers stand below their callees in these programs, except across files.
    crash.reverse();
    let observed = Observed::from_lines(&program, &lines, &calls, &crash, &argv);
    Run { program, observed }
}

#[track_caller]
fn check_run(files: &[(&str, &str)], calls: &[(&str, &str)], argv: &[&str]) {
    let Run { program, observed } = run(files, calls, argv);
    let graph = Graph::build(&program, &observed);
    let closure = graph.closure(&observed.crash.iter().copied().collect());
    let place = |id: StmtId| {
        let statement = program.statement(id);
        (program.path(statement.file).to_owned(), program.line_of(statement.file, statement.keyword))
    };
    let found: std::collections::BTreeSet<_> = closure.iter().map(place).collect();
    let mut expected = std::collections::BTreeSet::new();
    for (file, text) in files {
        for (index, line) in text.lines().enumerate() {
            if line.contains("#*") || line.contains("#!") {
                expected.insert(((*file).to_owned(), u32::try_from(index + 1).expect("few lines")));
            }
        }
    }
    assert_eq!(found, expected);
}

#[track_caller]
fn check(text: &str, calls: &[(&str, &str)]) {
    check_run(&[("a.py", text)], calls, &[]);
}

#[test]
fn the_last_definition_before_a_use_is_the_one_that_counts() {
    check("x = 0\nx = 1 #*\ny = 2\nf(x) #!\n", &[]);
    check("x = 0 #*\nx = x + 1 #*\nx += 1 #*\nf(x) #!\n", &[]);
    check("a, b = 1, 2 #*\nf(a) #!\n", &[]);
    check("import os #*\nimport sys\nfrom m import k as j #*\nf(os.path, j) #!\n", &[]);
    check("with open('a') as h: #*\n    t = h.read() #*\nf(t) #!\n", &[]);
    check("if (n := 3) > 2: #*\n    pass\nf(n) #!\n", &[]);
}

#[test]
fn arms_that_ran_define_and_an_arm_that_always_ran_hides_what_stood_before() {
    check("c = 1 #*\nx = 0\nif c: #*\n    x = 1 #*\nelse:\n    x = 2 #-\nf(x) #!\n", &[]);
    check("c = 1 #* #x5\nx = 0 #* #x5\nif c: #* #x5\n    x = 1 #* #x3\nf(x) #!\n", &[]);
    check("c = 1 #* #x5\nx = 0\nif c: #* #x5\n    x = 1 #* #x5\nf(x) #!\n", &[]);
    check("c = 1 #*\nif c: #* #x9\n    x = 1 #* #x4\nelse:\n    x = 2 #* #x5\nf(x) #!\n", &[]);
}

#[test]
fn loops_carry_definitions_back() {
    check("x = 0 #*\nfor i in range(9): #*\n    f(x) #!\n    y = i\n    x = i #*\n", &[]);
    check("xs = [] #*\ni = 0 #*\nwhile i < 3: #*\n    xs.append(i) #*\n    i += 1 #*\nf(xs) #!\n", &[]);
    check("while True: #*\n    x = g() #*\n    if x: #*\n        break #*\nf(x) #!\n", &[]);
    check("for x in r: #*\n    if x: continue\n    y = x\nf(x) #!\n", &[]);
}

#[test]
fn changes_of_an_object_define_it_where_it_is_read() {
    check("d = {} #*\nd['a'] = 1 #*\nd['b'] = 2\nf(d['a']) #!\n", &[]);
    check("d = {} #*\nd['a'] = 1 #*\nd['b'] = 2 #*\nf(d) #!\n", &[]);
    check("t = zeros(3) #*\nt[0] = 9 #*\nt.clamp_(0, 5) #*\nt.cpu()\nf(t) #!\n", &[]);
    check("m = make() #*\nm.eval()\nm.update(1)\nf(m) #!\n", &[]);
    check("s = set() #*\ns.add(1) #*\nf(s) #!\n", &[]);
    check("rows = load() #*\nfor row in rows: #*\n    row['x'] = 1 #*\nf(rows) #!\n", &[]);
    check("def fill(t): #*\n    t[0] = 1 #*\n    print(t)\nx = zeros() #*\nfill(x) #*\nf(x) #!\n", &[("5", "1")]);
}

#[test]
fn calls_bring_what_they_return_and_no_more() {
    let text = "def g(a): #*\n    b = a + 1 #*\n    log(b)\n    return b #*\ndef h(): \n    return 1\nx = g(1) #*\nh()\nf(x) #!\n";
    check(text, &[("7", "1"), ("8", "5")]);
    check("def g(): #*\n    log() \n    return 1\ng() #!\n", &[("4", "1")]);
    check(
        "def gen(): #*\n    for i in range(3): #*\n        yield i #*\nfor x in gen(): #*\n    f(x) #!\n",
        &[("4", "1")],
    );
    let text = "def gen(): #*\n    yield 1 #*\nclass S: #*\n    def __iter__(self): #*\n        yield 2 #*\nfor x in gen():\n    g(x)\nfor y in gen(): #*\n    s = S() #*\n    for z in s: #*\n        f(y, z) #!\n";
    check(text, &[("6", "1")]);
    check("LIMIT = 3 #*\nOTHER = 4\ndef g(): #*\n    f(LIMIT) #!\ng() #!\n", &[("5", "3")]);
}

#[test]
fn a_function_that_sets_a_global_needs_its_declaration_and_its_caller() {
    let text =
        "n = 0 #*\ndef setup(): #*\n    global n #*\n    n = 5 #*\nsetup() #*\ndef g(): #*\n    f(n) #!\ng() #!\n";
    check(text, &[("5", "2"), ("8", "6")]);
    check("seen = {} #*\ndef note(k): #*\n    seen[k] = 1 #*\nnote('a') #*\nf(seen) #!\n", &[("4", "2")]);
    let text = "def outer(): #*\n    n = 0 #*\n    def inner(): #*\n        nonlocal n #*\n        n += 1 #*\n    inner() #*\n    f(n) #!\nouter() #!\n";
    check(text, &[("8", "1"), ("6", "3")]);
}

#[test]
fn attributes_lead_to_the_stores_of_the_receivers_class() {
    let text = "import torch.nn as nn #*\n\
                class Other:\n    def __init__(self):\n        self.size = 1\n\
                class Net(nn.Module): #*\n    def __init__(self): #*\n        super().__init__() #*\n        self.size = 3 #*\n        self.name = 'n'\n    def forward(self, x): #*\n        f(self.size) #!\n\
                o = Other()\nnet = Net() #*\nnet(1) #!\n";
    check(text, &[("12", "3"), ("13", "6"), ("14", "10")]);
}

#[test]
fn of_several_stores_the_last_before_the_use_counts() {
    let text = "class S:\n    def __init__(self):\n        self.m = None\n    def fit(self, x):\n        self.m = x\n        return self\n    def go(self):\n        f(self.m) #!\ns = S().fit(1)\ns.go() #!\n";
    let Run { program, mut observed } = run(&[("a.py", text)], &[("9", "2"), ("9", "4"), ("10", "7")], &[]);
    // The constructor ran first, then `fit`, then `go`.
    for (line, first) in [(9, 10), (3, 11), (5, 12), (6, 13), (10, 14), (8, 15)] {
        observed.first.insert(program.statement_at("a.py", line).expect("a statement"), first);
    }
    let graph = Graph::build(&program, &observed);
    let closure = graph.closure(&observed.crash.iter().copied().collect());
    let lines: Vec<u32> = closure.iter().map(|id| program.statement(id).lines.0).collect();
    assert_eq!(lines, [1, 2, 4, 5, 6, 7, 8, 9, 10]);
}

#[test]
fn imports_reach_into_the_files_of_the_project() {
    let files = [
        (
            "a.py",
            "from pkg import load #*\nimport pkg.tools as t #*\nfrom pkg.star import * #*\nx = load(t.size, deep) #*\nf(x) #!\n",
        ),
        ("pkg/__init__.py", "from .data import load #*\nfrom .data import save\n"),
        ("pkg/data.py", "import os\ndef load(n, d): #*\n    return n #*\ndef save():\n    pass #-\n"),
        ("pkg/star.py", "deep = 1 #*\nother = 2\n"),
        ("pkg/tools.py", "size = 3 #*\nrest = 4\n"),
    ];
    check_run(&files, &[("a.py:4", "pkg/data.py:2")], &[]);
}

#[test]
fn options_that_are_read_or_typed_stay() {
    let text = "import argparse #*\n\
                p = argparse.ArgumentParser() #*\n\
                p.add_argument('--lr', type=float) #*\n\
                p.add_argument('--batch-size', default=4) #*\n\
                p.add_argument('--seed')\n\
                p.add_argument('data') #*\n\
                args = p.parse_args() #*\n\
                f(args.batch_size) #!\n";
    check_run(&[("a.py", text)], &[], &["--lr=1", "d.csv"]);
}

#[test]
fn records_need_the_fields_that_they_are_given() {
    let text = "from dataclasses import dataclass #*\n@dataclass\nclass C: #*\n    a: int #*\n    b: int = 2\n    c: int = 3 #*\n    d: int = 4 #*\nc = C(1, c=5) #*\nf(c.d) #!\n";
    check(text, &[]);
}

#[test]
fn a_handler_needs_what_raised_and_falls_back() {
    check("try: #*\n    import fast #*\nexcept ImportError:\n    fast = None #*\nf(fast) #!\n", &[]);
}

#[test]
fn what_only_sets_the_stage_is_a_soft_neighbour() {
    let Run { program, observed } =
        run(&[("a.py", "import torch\ntorch.manual_seed(0)\nx = torch.rand(3)\nf(x) #!\n")], &[], &[]);
    let graph = Graph::build(&program, &observed);
    let closure = graph.closure(&observed.crash.iter().copied().collect());
    assert_eq!(closure, StmtSet::from_iter([0, 2, 3].map(StmtId)));
    assert_eq!(graph.soft_neighbours(&closure), StmtSet::from_iter([StmtId(1)]));
}

#[test]
fn learned_needs_definers_readers_and_dependents() {
    let text = "import os\nx = 1\ndef g():\n    y = x\n    return y\nclass A:\n    z = 2\nx2 = x\nf() #!\n";
    let Run { program, observed } = run(&[("a.py", text)], &[], &[]);
    let mut graph = Graph::build(&program, &observed);
    let crash = StmtId(8);
    assert_eq!(graph.closure(&StmtSet::from_iter([crash])).len(), 1);
    graph.learn(crash, StmtId(6));
    assert_eq!(graph.closure(&StmtSet::from_iter([crash])), StmtSet::from_iter([5, 6, 8].map(StmtId)));
    assert_eq!(graph.definers_of("x", Missing::Name), [StmtId(1)]);
    assert_eq!(graph.definers_of("z", Missing::Attribute), [StmtId(6)]);
    assert_eq!(graph.definers_of("pkg.a", Missing::Module).len(), 9);
    assert_eq!(graph.readers_of(StmtId(1)), [StmtId(3), StmtId(7)]);
    assert_eq!(graph.dependents(&StmtSet::from_iter([StmtId(1)])), StmtSet::from_iter([1, 3, 4, 7].map(StmtId)));
    assert!(graph.edges().iter().all(|(from, to, _)| from != to));
}

#[test]
fn mutual_recursion_is_one_component() {
    let text = "def a(n): #*\n    return b(n) #*\ndef b(n): #*\n    return a(n) #*\nx = a(3) #*\nf(x) #!\n";
    let calls = [("5", "1"), ("2", "3"), ("4", "1")];
    check(text, &calls);
    let Run { program, observed } = run(&[("a.py", text)], &calls, &[]);
    let graph = Graph::build(&program, &observed);
    assert!(graph.components().iter().any(|group| *group == [1, 3].map(StmtId)));
    assert!(graph.edges().iter().any(|(_, _, need)| need.strength == Strength::Hard));
}

#[test]
fn what_never_ran_or_ran_after_the_crash_can_be_cut() {
    let text = "'''doc'''  #-\ndef g(): #-\n    return 1 #-\nif a:\n    b #-\nelse:\n    c\ntry:\n    crash() #!\nexcept E:\n    late()\nx = 1\n";
    let Run { program, observed } = run(&[("a.py", text)], &[], &[]);
    let cut = program.truncate_after(&observed);
    let lines: Vec<u32> = cut.iter().map(|id| program.statement(id).lines.0).collect();
    assert_eq!(lines, [1, 2, 3, 5, 11, 12]);
}

#[test]
fn a_run_is_followed_into_a_later_version() {
    let Run { program, observed } = run(&[("a.py", "x = 1\ny = 2\nf(y) #!\n")], &[], &[]);
    let less = program.tree().with_edits(&program.delete(&StmtSet::from_iter([StmtId(0)]))).expect("fits");
    let after = program.parse_next(&less).expect("small");
    let followed = observed.follow(&program, &after);
    assert_eq!(followed.executed.len(), 2);
    assert_eq!(followed.crash, [StmtId(1)]);
    assert_eq!(followed.first[&StmtId(1)], 3);
}
