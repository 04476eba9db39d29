//! Parse, edit and print on a large body of real code: every file of the standard library and of the installed torch.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use reduce::program::{Edits, Program, SourceFile, SourceTree, StmtId, StmtKind, StmtSet};

const DELETIONS: usize = 50;

fn test_python() -> PathBuf {
    std::env::var_os("REDUCE_TEST_PYTHON").map_or_else(
        || {
            let home = std::env::var_os("HOME").expect("a home folder");
            Path::new(&home).join(".cache/reduce/test/torch-2.11.0/bin/python")
        },
        PathBuf::from,
    )
}

fn ask_python(code: &str) -> String {
    let output = Command::new(test_python()).args(["-c", code]).output().expect("the test interpreter starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The folders of the standard library and of torch.
fn folders() -> Vec<PathBuf> {
    let code = "import importlib.util, os, sysconfig\n\
                print(sysconfig.get_path('stdlib'))\n\
                print(os.path.dirname(importlib.util.find_spec('torch').origin))";
    ask_python(code).lines().map(PathBuf::from).collect()
}

fn python_files(folder: &Path) -> Vec<PathBuf> {
    let is_other = |name: &std::ffi::OsStr| name == "site-packages" || name == "dist-packages";
    let entries = walkdir::WalkDir::new(folder)
        .sort_by_file_name()
        .into_iter()
        .filter_entry(|entry| !is_other(entry.file_name()));
    let files =
        entries.filter_map(Result::ok).filter(|entry| entry.file_type().is_file()).map(walkdir::DirEntry::into_path);
    files.filter(|path| path.extension().is_some_and(|extension| extension == "py")).collect()
}

/// A small generator with a fixed start: the same deletions in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).expect("48 bits") % limit
    }
}

/// What one file gave.
enum Trial {
    Refused,
    Tried(usize),
}

fn try_file(path: &Path) -> Result<Trial, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let file = SourceFile::from_bytes(&bytes);
    if file.encode().as_deref() != Some(&bytes[..]) {
        return Err("reading and writing changes the bytes".into());
    }
    let mut tree = SourceTree::default();
    tree.files.insert("a.py".into(), file);
    let program = Program::parse(&tree).map_err(|error| error.to_string())?;
    if !program.opaque().is_empty() {
        return Ok(Trial::Refused);
    }
    let count = program.statements().len();
    if count == 0 {
        return Ok(Trial::Tried(0));
    }
    let seed = path.as_os_str().len() as u64 * 0x9E37_79B9 + bytes.len() as u64 + 1;
    let mut dice = Dice(seed.wrapping_mul(0xD134_2543_DE82_EF95) | 1);
    for _ in 0..DELETIONS {
        let id = StmtId(u32::try_from(dice.below(count)).expect("an id"));
        try_deletion(&program, id).map_err(|what| {
            let statement = program.statement(id);
            format!("{what}: deleting {:?} of lines {:?}", statement.kind, statement.lines)
        })?;
    }
    Ok(Trial::Tried(DELETIONS))
}

fn try_deletion(program: &Program, id: StmtId) -> Result<(), String> {
    let edits: Edits = program.delete(&StmtSet::from_iter([id]));
    let statement = program.statement(id);
    let text = program.text(statement.file);
    let mut inserted = 0;
    for edit in edits.get("a.py").into_iter().flatten() {
        match edit.text.trim_start() {
            "" => {}
            "pass" => inserted += 1,
            other => return Err(format!("inserts {other:?}")),
        }
        let before = edit.range.start..edit.range.end.min(statement.range.start).max(edit.range.start);
        let after = edit.range.start.max(statement.range.end).min(edit.range.end)..edit.range.end;
        let (above, behind) = (code_of(&text[before]), code_of(&text[after]));
        let is_header = ["else", "finally", "elif"].iter().any(|word| above.starts_with(word)) && above.ends_with(':');
        if !(above.is_empty() || is_header && above.matches('\n').count() < 9) || !behind.is_empty() {
            return Err(format!("removes {above:?} and {behind:?}"));
        }
    }
    let tree = program.tree().with_edits(&edits).map_err(|error| error.to_string())?;
    let next = Program::parse(&tree).map_err(|error| error.to_string())?;
    if let Some(broken) = next.opaque().first() {
        return Err(format!("line {}: {}", broken.line, broken.message));
    }
    let kept: Vec<_> =
        program.statements().iter().filter(|s| !statement.contains(s.id)).map(|s| own_text(program, s.id)).collect();
    let mut left: Vec<_> = next.statements().iter().map(|s| own_text(&next, s.id)).collect();
    let is_pass = statement.kind == StmtKind::Pass && edits.is_empty();
    if inserted == 1 || is_pass {
        if left.get(id.index()) != Some(&(StmtKind::Pass, "pass")) {
            return Err("pass is not in the place of the statement".into());
        }
        left.remove(id.index());
    }
    if kept != left {
        return Err("another statement changed".into());
    }
    Ok(())
}

/// A statement's kind, and its text where it has no body.
fn own_text(program: &Program, id: StmtId) -> (StmtKind, &str) {
    let kind = program.statement(id).kind;
    (kind, if kind.is_compound() { "" } else { program.text_of(id) })
}

/// What is left of removed text without comments, blank lines and what joins statements.
fn code_of(text: &str) -> String {
    let code = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim_matches([' ', '\t', '\u{c}', ';', '\\']));
    code.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

#[test]
fn deleting_any_statement_of_real_code_leaves_code_that_parses_and_nothing_else_changed() {
    let files: Vec<PathBuf> = folders().iter().flat_map(|folder| python_files(folder)).collect();
    assert!(files.len() > 2_000, "only {} files found", files.len());
    let next = AtomicUsize::new(0);
    let work = || {
        let mut seen = (0, 0, Vec::new(), Vec::new());
        while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            match try_file(path) {
                Ok(Trial::Refused) => seen.2.push(path.clone()),
                Ok(Trial::Tried(deletions)) => {
                    seen.0 += 1;
                    seen.1 += deletions;
                }
                Err(what) => seen.3.push(format!("{}: {what}", path.display())),
            }
        }
        seen
    };
    let parts = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
    });
    let tried: usize = parts.iter().map(|part| part.0).sum();
    let deletions: usize = parts.iter().map(|part| part.1).sum();
    let mut refused: Vec<_> = parts.iter().flat_map(|part| part.2.clone()).collect();
    let mut failed: Vec<_> = parts.iter().flat_map(|part| part.3.clone()).collect();
    refused.sort();
    failed.sort();
    println!("{tried} files, {deletions} deletions, {} files that do not parse", refused.len());
    for path in &refused {
        println!("  does not parse: {}", path.display());
    }
    assert!(failed.is_empty(), "{} files failed:\n{}", failed.len(), failed.join("\n"));
    // Python must refuse them too.
    for path in &refused {
        let code =
            format!("compile(open({:?}, 'rb').read(), 'x', 'exec', dont_inherit=True)", path.display().to_string());
        let output = Command::new(test_python()).args(["-c", &code]).output().expect("the test interpreter starts");
        assert!(!output.status.success(), "{} is Python", path.display());
    }
}

#[test]
fn statements_and_tokens_are_counted_as_python_counts_them() {
    let code = "import ast, io, sysconfig, os, tokenize\n\
                skip = {tokenize.COMMENT, tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER}\n\
                root = sysconfig.get_path('stdlib')\n\
                for name in sorted(os.listdir(root)):\n\
                \x20   if name.endswith('.py'):\n\
                \x20       path = os.path.join(root, name)\n\
                \x20       data = open(path, 'rb').read()\n\
                \x20       statements = sum(isinstance(node, ast.stmt) for node in ast.walk(ast.parse(data)))\n\
                \x20       tokens = inside = 0\n\
                \x20       for token in tokenize.tokenize(io.BytesIO(data).readline):\n\
                \x20           kind = tokenize.tok_name[token.type]\n\
                \x20           tokens += token.type not in skip and not inside\n\
                \x20           inside += (kind == 'FSTRING_START') - (kind == 'FSTRING_END')\n\
                \x20       print(path, statements, tokens, sep='\\t')";
    let report = ask_python(code);
    let mut files = 0;
    for line in report.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let mut tree = SourceTree::default();
        tree.files.insert("a.py".into(), SourceFile::from_bytes(&std::fs::read(fields[0]).expect("readable")));
        let program = Program::parse(&tree).expect("small");
        let counts = (program.statements_count().to_string(), program.tokens_count().to_string());
        assert_eq!((counts.0.as_str(), counts.1.as_str()), (fields[1], fields[2]), "{}", fields[0]);
        files += 1;
    }
    assert!(files > 100, "only {files} files");
}
