//! What is certain to lose the failure, on small programs whose lines are named by number.

use super::*;
use crate::program::SourceTree;

/// Whether the program is certain to lose the failure of its statement `crash(...)` without the statements of these lines;
/// all statements ran but those marked `# not run`.
fn loses(text: &str, gone: &[u32]) -> bool {
    loses_with(text, gone, &[])
}

/// The same for a run of this very program; what is marked `# later` ran after the failing statement had run once.
fn loses_in(text: &str, gone: &[u32]) -> bool {
    loses_of(text, gone, &[], Of::This)
}

fn loses_with(text: &str, gone: &[u32], argv: &[&str]) -> bool {
    loses_of(text, gone, argv, Of::Larger)
}

fn loses_of(text: &str, gone: &[u32], argv: &[&str], of: Of) -> bool {
    let program = Program::parse(&SourceTree::from_texts([("a.py", text)])).unwrap();
    let line = |at: u32| text.lines().nth(at as usize - 1).unwrap_or("");
    let on = |one: &super::super::Statement| program.line_of(one.file, one.keyword);
    let all = program.statements();
    let before = all.iter().filter(|one| !line(on(one)).contains("# not run")).map(|one| one.id).collect();
    let stack = |mark: &str| all.iter().rev().find(|one| line(on(one)).contains(mark)).map(|one| one.id);
    let crash = [stack("# outer"), stack("# stack"), stack("crash(")].into_iter().flatten().collect();
    let crash: Vec<StmtId> = crash;
    let called = |pair: &[StmtId]| Some((pair[0], program.enclosing_function(pair[1])?));
    let mut calls: Vec<(StmtId, StmtId)> = crash.windows(2).filter_map(called).collect();
    for def in all.iter().filter(|one| one.kind == StmtKind::FunctionDef) {
        let name = name_of(&program, def.id).unwrap();
        let class = def.parent.and_then(|class| match program.node(class) {
            Some(Stmt::ClassDef(class)) => Some(class.name.as_str()),
            _ => None,
        });
        let calls_it = |text: &str| {
            let made = name == "__init__" && class.is_some_and(|class| text.contains(&format!("{class}(")));
            let taken = name == "__getitem__" && text.starts_with("for ");
            made || taken || text.contains(&format!("{name}(")) || text.contains(&format!(".{name}"))
        };
        let callers = all.iter().filter(|one| one.id != def.id && calls_it(line(on(one))));
        calls.extend(callers.map(|one| (one.id, def.id)));
    }
    let argv = argv.iter().map(|one| (*one).to_owned()).collect();
    let ran: BTreeSet<StmtId> = before;
    let is_later = |id: &StmtId| line(on(program.statement(*id))).contains("# later");
    let before = ran.iter().copied().filter(|id| !is_later(id)).collect();
    let certain = Certain::of(&program, Ran { before, ran, crash, calls, argv, of });
    let mut doomed: BTreeSet<StmtId> = all.iter().filter(|one| gone.contains(&on(one))).map(|one| one.id).collect();
    let inside: Vec<StmtId> = all
        .iter()
        .filter(|one| doomed.iter().any(|up| program.statement(*up).contains(one.id)))
        .map(|one| one.id)
        .collect();
    doomed.extend(inside);
    certain.fail_without(&program, &doomed)
}

#[test]
fn a_name_that_is_sure_to_be_read_fails_without_its_binding() {
    assert!(loses("x = f()\ncrash(x)\n", &[1]));
    assert!(loses("import torch\ny = torch.zeros(1)\ncrash()\n", &[1]));
    assert!(loses("def f():\n    m = g()\n    m = m.to(d)\n    crash(m)\nf()\n", &[2]));
    assert!(loses("with open(p) as h:\n    rows = list(h)\ncrash(rows)\n", &[1]));
    assert!(loses("x = [1]\ny = [i for i in x]\ncrash()\n", &[1]));
}

#[test]
fn a_name_that_may_not_be_read_or_may_be_bound_otherwise_does_not() {
    for text in [
        "x = 1\ny = 2 if c else x\ncrash()\n",
        "x = 1\ny = lambda: x\ncrash()\n",
        "x = 1\ny = c and x\ncrash()\n",
        "x = 1\ny = [x for i in c]\ncrash()\n",
        "max = 1\ny = max\ncrash()\n",
        "x = 1\ny: x = 2\ncrash()\n",
        "x = f()\ntry:\n    crash(x)\nexcept NameError:\n    pass\n",
        "x = 1\nif c:\n    print(x)\ncrash()\n",
        "x = 1\ncrash()\nprint(x)  # not run\n",
    ] {
        assert!(!loses(text, &[1]), "{text}");
    }
    assert!(!loses("m = g()\nm = m.to(d)\ncrash(m)\n", &[2]));
    assert!(!loses("def f():\n    for i in r:\n        print(x)\n        x = 1\nx = 2\ncrash()\n", &[5]));
}

#[test]
fn what_a_statement_on_the_stack_reads_after_the_failure_proves_nothing() {
    let text = "def f(a):\n    crash(a)\nx = 1\nlog = {}\nlog[x] = f(x)  # stack\n";
    assert!(!loses(text, &[4]));
    assert!(loses(text, &[3]));
    assert!(!loses("y = 1\ncrash(g(), y)\n", &[1]));
    assert!(!loses("y = 1\nprint(crash(), y)\n", &[1]));
    assert!(loses("def h():\n    return 1\ny = 1\ncrash(h(), y)\n", &[3]));
    // The call does not come back: what it would give is not unpacked.
    let text = "z = 1\ndef f(a):\n    crash(a)\na, b = f(1)  # stack\n";
    assert!(!loses(text, &[1]));
}

const NET: &str = "\
import torch.nn as nn
class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.head = nn.Linear(width, 2)
        self.rate = 2
    def forward(self, x):
        y = self.head(x)
        crash(y)
    def unused(self):  # not run
        return self.rate  # not run
net = Net(3)
net(1)  # stack
";

#[test]
fn attributes_that_nothing_sets_any_more_are_missed_where_they_are_read() {
    assert!(loses(NET, &[5]));
    assert!(!loses(NET, &[6]));
    assert!(!loses(&NET.replace("net = Net(3)", "net = Net(3); net.head = f()"), &[5]));
    assert!(!loses(&NET.replace("net = Net(3)", "net = Net(3); setattr(net, 'head', 1)"), &[5]));
    assert!(!loses(&NET.replace("net = Net(3)", "net = Net(3); net.add_module('head', m)"), &[5]));
    assert!(!loses(&NET.replace("nn.Module", "Base"), &[5]));
    assert!(!loses(&NET.replace("self.head", "self.training"), &[5]));
    assert!(!loses(&NET.replace("class Net", "@wraps\nclass Net"), &[6]));
    assert!(!loses(&NET.replace("    def unused", "    head = 1\n    def unused"), &[5]));
    let config = "class Config:\n    width = 3\n    depth = 2\ncfg = Config()\nx = cfg.width\ncrash(x)\n";
    assert!(loses(config, &[2]));
    assert!(!loses(config, &[3]));
    assert!(!loses(&config.replace("cfg.width", "other.width"), &[2]));
    assert!(!loses(&config.replace("cfg = Config()", "cfg = Config()\ncfg = load()"), &[2]));
}

#[test]
fn methods_that_python_looks_for_are_missed() {
    assert!(loses(NET, &[3]));
    assert!(loses(NET, &[4]));
    assert!(!loses(&NET.replace("super().__init__()", "super().__init__(); nn.Module.__init__(self)"), &[14]));
    assert!(!loses(NET, &[10]));
    let made = "class A:\n    def __init__(self, x):\n        pass\na = A(1)\ncrash(a)\n";
    assert!(loses(made, &[2]));
    assert!(!loses(&made.replace("A(1)", "A()").replace("self, x", "self"), &[2]));
    assert!(!loses(&made.replace("A(1)", "A(*x)"), &[2]));
    assert!(!loses(&made.replace("class A", "class A(list)"), &[2]));
    let sized = "class A:\n    def __len__(self):\n        return 3\na = A()\nn = len(a)\ncrash(n)\n";
    assert!(loses(sized, &[2]));
    assert!(loses(sized, &[3]));
    assert!(!loses(&sized.replace("len(a)", "list(a)"), &[3]));
    let method = "class A:\n    def m(self):\n        return 3\na = A()\na.m()\ncrash(a)\n";
    assert!(loses(method, &[2]));
    assert!(!loses(method, &[3]));
    assert!(!loses(&method.replace("a.m()", "hasattr(a, 'm')"), &[2]));
}

#[test]
fn a_function_without_its_return_gives_none() {
    let text = |using: &str| format!("def f():\n    x = 1\n    return x\n{using}\ncrash()\n");
    for using in
        ["a, b = f()", "for i in f():\n    pass", "y = f().z", "y = f()[0]", "y = f() + 1", "len(f())", "f()()"]
    {
        assert!(loses(&text(using), &[3]), "{using}");
    }
    for using in [
        "y = f()\nprint(y)",
        "y = f() or 1",
        "y = '%s' % f()",
        "y = f()\ny = 2\ny.z",
        "y = f()\nif y:\n    y.z",
        "y = [z.w for y in f2()]",
        "f = g\ny = f().z",
        "y = [i.z for i in q if f().z]",
        "g(f())",
    ] {
        assert!(!loses(&text(using), &[3]), "{using}");
    }
    assert!(loses(&text("y = f()\nprint(y.seed)"), &[3]));
    assert!(loses(&text("def g(v):\n    for i in v:\n        pass\ng(f())"), &[3]));
    assert!(!loses(&text("def g(v):\n    for i in v:\n        pass\ng(f())\nh(g)"), &[3]));
    assert!(loses_in(&text("y = [f()[:2] for i in q]"), &[3]));
    assert!(!loses(&text("y = [f()[:2] for i in q]\nf()"), &[3]));
    let text = "def f(c):\n    if c:\n        return 1\n    return 2\ny = f(0) + 1\ncrash(y)\n";
    assert!(!loses(text, &[4]));
    assert!(loses(text, &[2, 4]));
    let decorated = "@cache\ndef f():\n    return 1\ny = f() + 1\ncrash(y)\n";
    assert!(!loses(decorated, &[3]));
}

#[test]
fn a_loader_needs_a_length_and_items() {
    let text = "\
from torch.utils.data import DataLoader
class Rows:
    def __init__(self, rows):
        self.rows = rows
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, index):
        row = self.rows[index]
        return row
loader = DataLoader(Rows([1]), batch_size=2)
for batch in loader:
    crash(batch)
";
    for line in [3, 4, 5, 6, 7, 9] {
        assert!(loses(text, &[line]), "{line}");
    }
    let sampled = text.replace("batch_size=2", "batch_size=2, collate_fn=f, sampler=s");
    for line in [5, 6, 7, 9] {
        assert!(!loses(&sampled, &[line]), "{line}");
    }
}

const OPTIONS: &str = "\
import argparse
def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument('--lr', type=float)
    parser.add_argument('--lr-decay')
    parser.add_argument('--seed', default=1)
    parser.add_argument('data')
    return parser.parse_args()
args = parse()
crash(args.seed)
";

#[test]
fn options_that_the_command_gives_or_the_program_reads_are_missed() {
    let loses = |text: &str, gone: &[u32], argv: &[&str]| loses_with(text, gone, argv);
    assert!(!loses(OPTIONS, &[4], &["--lr", "1", "x"]));
    assert!(loses(OPTIONS, &[5], &["--lr", "1", "--lr-decay=2", "x"]));
    assert!(loses(OPTIONS, &[4, 5], &["--lr", "1", "x"]));
    assert!(!loses(OPTIONS, &[5], &["--lr", "1", "x"]));
    assert!(loses(OPTIONS, &[6], &["x"]));
    assert!(loses(OPTIONS, &[7], &["x"]));
    assert!(loses(OPTIONS, &[8], &["x"]));
    assert!(!loses(&OPTIONS.replace("'data'", "'data', nargs='?'"), &[7], &[]));
    assert!(!loses(&OPTIONS.replace("parse_args()", "parse_known_args()[0]"), &[7], &["x"]));
    assert!(!loses(&OPTIONS.replace("args = parse()", "args = parse()\nargs.seed = 3"), &[6], &["x"]));
    let handed = OPTIONS.replace("def parse()", "def parse(argv=None)").replace("parse_args()", "parse_args(argv)");
    assert!(loses(&handed, &[6], &["x"]));
    assert!(!loses(&handed.replace("= parse()", "= parse(words)"), &[6], &["x"]));
    assert!(!loses(&OPTIONS.replace("'--lr-decay'", "'--speed', dest='seed'"), &[6], &["x"]));
}

#[test]
fn a_failure_that_nothing_calls_any_more_is_lost() {
    let text = "def f():\n    crash()\ndef g():\n    f()  # stack\ng()  # outer\n";
    assert!(loses(text, &[4]));
    assert!(loses(text, &[5]));
    assert!(!loses(&format!("{text}x = [f]  # not run\n"), &[4]));
    assert!(!loses(&format!("{text}getattr(m, name)()\n"), &[4]));
    assert!(!loses(&format!("@register\n{text}"), &[5]));
    assert!(!loses(&text.replace("g()  #", "h(g)  #"), &[1_000]));
}

#[test]
fn a_method_that_nothing_calls_any_more_is_out_of_reach() {
    assert!(loses(NET, &[13]));
    assert!(!loses(&format!("{NET}net(2)  # not run\n"), &[13]));
    assert!(!loses(&format!("x = f[0]\nx(1)\n{NET}"), &[15]));
    assert!(!loses(&NET.replace("net(1)", "y = [net(1), net(2)]"), &[1_000]));
}

#[test]
fn an_import_of_what_a_module_no_longer_binds_fails() {
    let loses = |train: &str, gone: u32| {
        let texts = [("lib.py", "def f(x):\n    return x\nN = 1\n"), ("train.py", train)];
        let program = Program::parse(&SourceTree::from_texts(texts)).unwrap();
        let before: BTreeSet<StmtId> = program.statements().iter().map(|one| one.id).collect();
        let crash = before.last().copied().into_iter().collect();
        let certain = Certain::of(&program, Ran { before, crash, ..Ran::default() });
        certain.fail_without(&program, &BTreeSet::from([StmtId(gone)]))
    };
    assert!(loses("from lib import f, N\ncrash()\n", 2));
    assert!(!loses("from lib import f\ncrash()\n", 2));
    assert!(loses("import lib\nx = lib.N\ncrash()\n", 2));
    assert!(!loses("import lib\nlib.N = 2\nx = lib.N\ncrash()\n", 2));
    assert!(!loses("import lib\nx = lib.N if c else 1\ncrash()\n", 2));
}

#[test]
fn a_property_is_read_like_an_attribute_and_gives_what_it_returns() {
    let text = "\
class A:
    def __init__(self, step):
        self.step = step
        self.seen = 1
    @property
    def level(self):
        return self.seen // self.step
    def draw(self):
        return self.level + 1
a = A(2)
n = a.draw()
crash(n)
";
    assert!(loses(text, &[3]));
    assert!(loses(text, &[6]));
    assert!(loses(text, &[7]));
    assert!(!loses(&text.replace("class A:", "class A(Base):"), &[3]));
    assert!(!loses(&text.replace("n = a.draw()", "n = hasattr(a, 'level')"), &[3]));
    assert!(!loses(&text.replace("@property", "@cached"), &[7]));
}

#[test]
fn what_is_read_later_is_missed_where_its_binding_has_no_effect() {
    let text = "def f(n):\n    a = n\n    b = 0\n    crash(n)\n    return a + b  # later\nx, y = f(1)\nf(2)  # stack\n";
    assert!(loses_in(text, &[2]) && loses_in(text, &[3]));
    // Alone, a `return` is missed only where the value is taken apart at once.
    assert!(!loses_in(text, &[5]));
    assert!(loses_in(&text.replace("f(2)  #", "z = f(2)[0]  #"), &[5]));
    assert!(loses_in(&text.replace("f(2)  #", "z, w = f(2)  #"), &[3, 5]));
    assert!(!loses_in(&text.replace("f(2)  #", "z, w = f(2)[g(n)]  #"), &[5]));
    // Not what has an effect, is bound elsewhere, or is read under a condition of the statement itself.
    assert!(!loses_in(&text.replace("b = 0", "b = g(n)"), &[3]));
    let defaults = "; from collections import defaultdict";
    assert!(loses_in(&text.replace("b = 0", "b = n[0]"), &[3]));
    assert!(!loses_in(&text.replace("b = 0", &format!("b = n[0]{defaults}")), &[3]));
    assert!(!loses_in(&format!("b = 1\n{text}"), &[4]));
    assert!(!loses_in(&text.replace("a + b", "a if c else b"), &[3]));
    assert!(!loses_in(&text.replace("return a + b", "return lambda: b"), &[3]));
    assert!(!loses_in(&text.replace("# later", "# not run"), &[3]));
}

#[test]
fn what_stands_under_a_condition_counts_only_in_a_run_of_this_very_program() {
    let text = "def f(n):\n    if n:\n        a = n\n        b = a + 1\n    crash(n)\nf(2)  # stack\n";
    assert!(loses_in(text, &[3]) && !loses(text, &[3]));
    assert!(!loses_in(text, &[4]) && !loses_in(text, &[3, 4]));
    assert!(!loses_in(&text.replace("b = a", "b = a  # not run\n        c"), &[4]));
}

#[test]
fn a_data_class_refuses_more_values_than_it_has_fields() {
    let text =
        "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\n    y: int = 2\na = A(1, 3)\ncrash(a)\n";
    assert!(loses(text, &[4]) && loses(text, &[5]));
    assert!(loses(&text.replace("A(1, 3)", "A(x=1)"), &[4]));
    assert!(!loses(&text.replace("A(1, 3)", "A(x=1)"), &[5]));
    for other in ["A(*x)", "A(1)", "A(**x)"] {
        assert!(!loses(&text.replace("A(1, 3)", other), &[5]), "{other}");
    }
    assert!(!loses(&text.replace("class A:", "class A(B):"), &[5]));
    assert!(!loses(&text.replace("    x: int\n", "    x: int\n    def __init__(self, *a): pass\n"), &[6]));
    assert!(!loses(&text.replace("@dataclass", "@wraps"), &[5]));
}

#[test]
fn a_name_that_a_wider_scope_binds_as_well_is_still_there() {
    assert!(!loses("x = 2\ndef f():\n    x = 1\n    y = x\n    crash(y)\nf()  # stack\n", &[3]));
    assert!(!loses("def f():\n    x = 1\n    y = x\n    crash(y)\nx = 2\nf()  # stack\n", &[2]));
    assert!(!loses("def f():\n    if c:\n        return 1\n    y = x\n    crash()\nx = 1\nf()  # stack\n", &[6]));
}

#[test]
fn what_others_may_bind_call_or_accept_proves_nothing() {
    let name = "N = 10\nprint(N)\ncrash(N)\n";
    assert!(loses(name, &[1]));
    for first in [
        "import a\na.N = 5",
        "setattr(a, key, 5)",
        "vars().update(m)",
        "g = globals\ng()['N'] = 5",
        "run = exec\nrun(code)",
    ] {
        let text = format!("{first}\n{name}");
        let line = u32::try_from(first.lines().count()).unwrap() + 1;
        assert!(!loses(&text, &[line]) && !loses_in(&text, &[line]), "{first}");
    }
    let options = OPTIONS.replace("    return parser", "    parser.set_defaults(seed=5)\n    return parser");
    assert!(!loses_with(&options, &[6], &["x"]));
    let add = "def f():\n    return 3\nm = M()\nm = m + f()\ncrash(m)\n";
    assert!(!loses(add, &[2]) && !loses_in(add, &[2]));
    let patched =
        "import torch\ndef f():\n    return 3\ntorch.as_tensor = checked\nm = torch.as_tensor(f())\ncrash(m)\n";
    assert!(!loses(patched, &[3]) && !loses_in(patched, &[3]));
    assert!(loses(&patched.replace("torch.as_tensor = checked\n", ""), &[3]));
    let set = "class A:\n    def __init__(self):\n        self.t = 3\n        setattr(self, key, 4)\na = A()\nn = a.t\ncrash(n)\n";
    assert!(!loses(set, &[3]) && !loses_in(set, &[3]));
    let timer = "import threading\nN = 3\ndef f():\n    print(N)\nthreading.Timer(1, f).start()\ncrash()\n";
    assert!(!loses(timer, &[2]) && !loses_in(timer, &[2]));
}

#[test]
fn what_runs_under_a_condition_or_in_a_loop_is_not_sure_to_run() {
    let call = "h = g(1)\nn = g(2)\ndef f():\n    print(n)\nif h is not None:\n    f()\ncrash()\n";
    // What has an effect may change whether the reader runs.
    assert!(!loses(call, &[2]) && !loses_in(call, &[2]));
    let rounds = "q = g(1)\nn = g(2)\nfor i in q:\n    print(n)\ncrash()\n";
    assert!(!loses(rounds, &[2]) && !loses_in(rounds, &[2]));
    assert!(loses_in(&rounds.replace("g(2)", "2"), &[2]));
    assert!(loses(&rounds.replace("    print(n)\ncrash()", "    print(n)\n    crash()"), &[2]));
    let body = "def f(q):\n    for i in q:\n        n = g(2)\n        print(n)\nf(q)\ncrash()\n";
    assert!(loses_in(body, &[3]) && !loses(body, &[3]));
    // Not where the failure may come in between, or the block may be left.
    let between =
        "def f():\n    crash()\ndef h():\n    n = g(2)\n    f()  # stack\n    print(n)  # later\nh()\nh()  # outer\n";
    assert!(!loses_in(between, &[4]));
    assert!(loses_in(&between.replace("g(2)", "2"), &[4]));
    assert!(!loses_in(
        &body.replace("        print(n)", "        if i:\n            continue\n        print(n)"),
        &[3]
    ));
    let last = "def f():\n    try:\n        n = g()\n        print(n)\n    finally:\n        crash()\nf()\n";
    assert!(!loses(last, &[3]) && !loses_in(last, &[3]));
}
