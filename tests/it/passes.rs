//! Every pass on real code: each proposal alone, half of them, and all of them give text that parses.

use std::path::{Path, PathBuf};
use std::process::Command;

use reduce::passes::{ALL, Facts, Proposal, combine};
use reduce::program::{Program, SourceFile, SourceTree};

/// One file in so many, and so many proposals of a pass in one file: the test ends within half a minute.
const ONE_FILE_IN: usize = 23;
const SINGLES: usize = 12;

fn test_python() -> PathBuf {
    std::env::var_os("REDUCE_TEST_PYTHON").map_or_else(
        || {
            let home = std::env::var_os("HOME").expect("a home folder");
            Path::new(&home).join(".cache/reduce/test/torch-2.11.0/bin/python")
        },
        PathBuf::from,
    )
}

fn standard_library() -> PathBuf {
    let code = "import sysconfig; print(sysconfig.get_path('stdlib'))";
    let output = Command::new(test_python()).args(["-c", code]).output().expect("the test interpreter starts");
    PathBuf::from(String::from_utf8(output.stdout).expect("text").trim())
}

fn sample(one_in: usize) -> Vec<PathBuf> {
    let other = |name: &std::ffi::OsStr| name == "site-packages" || name == "dist-packages";
    walkdir::WalkDir::new(standard_library())
        .sort_by_file_name()
        .into_iter()
        .filter_entry(|entry| !other(entry.file_name()))
        .filter_map(Result::ok)
        .map(walkdir::DirEntry::into_path)
        .filter(|path| path.extension().is_some_and(|extension| extension == "py"))
        .step_by(one_in)
        .collect()
}

/// What a change of a program makes of it, if that does not parse.
fn refused<'a>(program: &Program, proposals: impl IntoIterator<Item = &'a Proposal>) -> Option<String> {
    let change = combine(program, proposals);
    let tree = match change.apply(program.tree()) {
        Ok(tree) => tree,
        Err(error) => return Some(format!("{error}: {:?}", change.edits)),
    };
    let next = Program::parse(&tree).expect("few enough statements");
    let opaque = next.opaque().into_iter().next()?;
    let text = tree.get(&opaque.file).map_or(String::new(), |file| file.text().to_string());
    let line = opaque.line as usize;
    let near: Vec<&str> = text.lines().skip(line.saturating_sub(4)).take(7).collect();
    Some(format!("line {line}: {}\n{}", opaque.message, near.join("\n")))
}

/// Texts for Python itself to compile: it refuses more than a parser does.
struct Texts {
    folder: tempfile::TempDir,
    count: usize,
}

impl Texts {
    fn keep<'a>(&mut self, name: &str, program: &Program, proposals: impl IntoIterator<Item = &'a Proposal>) {
        let tree = combine(program, proposals).apply(program.tree()).expect("the edits fit");
        let bytes = tree.get("m.py").and_then(SourceFile::encode).expect("it was read from bytes");
        let path = self.folder.path().join(format!("{:05}-{name}.py", self.count));
        std::fs::write(path, bytes).expect("a writable folder");
        self.count += 1;
    }

    /// What Python refuses of files whose original it accepts.
    fn refused(&self) -> String {
        let code = "import glob, os, sys, warnings\n\
                    warnings.simplefilter('ignore')\n\
                    good = None\n\
                    for path in sorted(glob.glob(os.path.join(sys.argv[1], '*.py'))):\n\
                    \x20   try:\n\
                    \x20       compile(open(path, 'rb').read(), path, 'exec')\n\
                    \x20       good = good or path.endswith('original.py')\n\
                    \x20   except (SyntaxError, ValueError) as error:\n\
                    \x20       if path.endswith('original.py'): good = False\n\
                    \x20       elif good: print(os.path.basename(path), error, repr(getattr(error, 'text', '')))\n\
                    \x20   if path.endswith('everything.py'): good = None\n";
        let output = Command::new(test_python()).args(["-c", code]).arg(self.folder.path()).output();
        let output = output.expect("the test interpreter starts");
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    }
}

fn check_file(path: &Path, faults: &mut Vec<String>, texts: &mut Texts) -> usize {
    let file = SourceFile::from_bytes(&std::fs::read(path).expect("a readable file"));
    let tree = SourceTree { files: [("m.py".to_owned(), file)].into() };
    let program = Program::parse(&tree).expect("few enough statements");
    if !program.opaque().is_empty() {
        return 0;
    }
    texts.keep("original", &program, []);
    let facts = Facts::default();
    let mut every = Vec::new();
    let mut tried = 0;
    for pass in ALL {
        let proposals = pass.proposals(&program, &facts);
        let mut note = |what: &str, fault: Option<String>| {
            tried += 1;
            faults.extend(fault.map(|fault| format!("{}: {} {what}: {fault}", path.display(), pass.name())));
        };
        for proposal in proposals.iter().step_by(proposals.len() / SINGLES + 1) {
            note(&proposal.label, refused(&program, [proposal]));
        }
        note("all", refused(&program, &proposals));
        note("odd", refused(&program, proposals.iter().skip(1).step_by(2)));
        note("even", refused(&program, proposals.iter().step_by(2)));
        note("thirds", refused(&program, proposals.iter().step_by(3)));
        // Whole statements go in a stage of their own: the `pass` that one leaves does not fit a body that is hoisted.
        if pass.name() != "statements" {
            every.extend(proposals);
        }
    }
    for (what, least) in [("certain", 0.9), ("likely", 0.4), ("everything", 0.0)] {
        tried += 1;
        let fault = refused(&program, every.iter().filter(|proposal| proposal.prior >= least));
        if fault.is_none() {
            texts.keep(what, &program, every.iter().filter(|proposal| proposal.prior >= least));
        }
        faults.extend(fault.map(|fault| format!("{}: {what} of all passes: {fault}", path.display())));
    }
    tried
}

#[test]
fn every_proposal_and_every_combination_parses_on_the_standard_library() {
    let one_in =
        std::env::var("REDUCE_TEST_PASSES_ONE_IN").ok().and_then(|text| text.parse().ok()).unwrap_or(ONE_FILE_IN);
    let mut faults = Vec::new();
    let files = sample(one_in);
    let mut texts = Texts { folder: tempfile::tempdir().expect("a folder for texts"), count: 0 };
    let tried: usize = files.iter().map(|path| check_file(path, &mut faults, &mut texts)).sum();
    let refused = texts.refused();
    assert!(refused.is_empty(), "Python refuses:\n{refused}");
    assert!(tried > files.len() * 20, "{tried} changes of {} files", files.len());
    assert!(faults.is_empty(), "{} of {tried} changes do not parse:\n{}", faults.len(), faults.join("\n\n"));
}

#[test]
fn keys_stay_the_same_when_the_text_before_them_goes() {
    let text =
        "import os\nimport sys\n\n@timed\ndef f(x):\n    with torch.no_grad():\n        return g(x, num_workers=2)\n";
    let tree = SourceTree::from_texts([("m.py", text)]);
    let program = Program::parse(&tree).expect("one file");
    let facts = Facts::default();
    let keys = |program: &Program| -> Vec<String> {
        ALL.iter()
            .filter(|pass| pass.name() != "imports")
            .flat_map(|pass| pass.proposals(program, &facts))
            .map(|proposal| proposal.key)
            .collect()
    };
    let imports = reduce::passes::by_name("imports").expect("it is registered").proposals(&program, &facts);
    let shorter = combine(&program, &imports).apply(&tree).expect("the edits fit");
    assert_eq!(shorter.get("m.py").map(|file| file.text().contains("import")), Some(false));
    assert_eq!(keys(&program), keys(&Program::parse(&shorter).expect("one file")));
    assert!(keys(&program).len() >= 3);
}
