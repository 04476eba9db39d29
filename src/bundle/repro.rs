//! `repro.py`: the reduced program as one file that runs alone.
//!
//! Invariant: each form is only a proposal; the first one that a plain cold run shows to fail in the right way is written.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::{BundleError, words};
use crate::case::{Invocation, Program as CaseProgram};
use crate::evidence::{Found, Ground};
use crate::program::{Program, SourceTree, join};
use crate::trial::Device;

/// A single-file program and the data files that it needs.
#[derive(Clone, Debug)]
pub struct Repro {
    /// The text without its header.
    pub text: String,
    /// Data files that it reads, relative to the project root; they come to lie in `data/`.
    pub data: Vec<String>,
    /// Sizes of the data files in bytes, added up.
    bytes: u64,
}

impl Repro {
    /// A program that reads no file.
    pub fn alone(text: String) -> Self {
        Self { text, data: Vec::new(), bytes: 0 }
    }

    /// The program as a source tree of one file.
    pub fn tree(&self) -> SourceTree {
        SourceTree::from_texts([("repro.py", self.text.as_str())])
    }

    /// Statements and tokens.
    pub fn size(&self) -> (usize, usize) {
        Program::parse(&self.tree()).map_or((0, 0), |program| (program.statements_count(), program.tokens_count()))
    }

    /// Bytes of the data files.
    pub fn data_bytes(&self) -> u64 {
        self.bytes
    }
}

/// The forms to try, the most readable first: flat or with embedded modules, each without and with fixed seeds.
///
/// Its data files are those of `source`.
pub fn forms(program: &Program, invocation: &Invocation, found: &Found, source: &Path) -> Vec<Repro> {
    let roots = roots(invocation);
    let Some(entry) = entry(program, invocation, &roots) else { return Vec::new() };
    let data = data(program, invocation, found);
    let bytes =
        data.iter().filter_map(|path| fs::metadata(source.join(path)).ok()).map(|metadata| metadata.len()).sum();
    let mut bodies = Vec::new();
    if let Some(flat) = join::flatten(program, &entry, &roots) {
        bodies.push(flat);
    }
    if program.paths().len() > 1 {
        bodies.push(embedded(program, &entry, &roots));
    }
    let mut forms = Vec::new();
    for body in bodies {
        for seed in [None, found.pins.seed] {
            for end in ["", SYNCHRONISE] {
                let text = preamble(invocation, &data, seed, body.contains("__file__")) + &body + end;
                forms.push(Repro { text, data: data.clone(), bytes });
            }
        }
    }
    let mut seen = BTreeSet::new();
    forms.retain(|form: &Repro| seen.insert(form.text.clone()));
    forms
}

/// Without blocking launches a failure may be printed and the exit status be 0 all the same.
const SYNCHRONISE: &str = "torch.cuda.synchronize()\n";

/// Folders in which the program finds its modules, relative to the project root.
fn roots(invocation: &Invocation) -> Vec<String> {
    let workdir = if invocation.workdir == "." { String::new() } else { invocation.workdir.clone() };
    let mut roots = Vec::new();
    if let CaseProgram::Script(script) = &invocation.program {
        let folder = Path::new(script).parent().map(|parent| parent.to_string_lossy().into_owned());
        let parts: Vec<String> = [Some(workdir.clone()), folder]
            .into_iter()
            .flatten()
            .filter(|part| !part.is_empty() && part != ".")
            .collect();
        roots.push(parts.join("/"));
    } else {
        roots.push(workdir);
    }
    roots
}

/// Path of the file that is run.
pub fn entry(program: &Program, invocation: &Invocation, roots: &[String]) -> Option<String> {
    let path = match &invocation.program {
        CaseProgram::Script(script) => {
            let full = invocation.project.join(&invocation.workdir).join(script);
            let full = full.canonicalize().ok()?;
            let root = invocation.project.canonicalize().ok()?;
            full.strip_prefix(root).ok()?.to_string_lossy().into_owned()
        }
        CaseProgram::Module(name) => {
            let names = join::module_names(program, roots);
            names.get(&format!("{name}.__main__")).or_else(|| names.get(name))?.clone()
        }
    };
    program.file_named(&path).map(|_| path)
}

/// The entry file of a program as the command names it.
pub fn entry_of(program: &Program, invocation: &Invocation) -> Option<String> {
    entry(program, invocation, &roots(invocation))
}

/// Data files of the project that the program reads: those whose name, or whose folder's name, still stands in its text or
/// arguments; a name that is put together at run time keeps all of them.
fn data(program: &Program, invocation: &Invocation, found: &Found) -> Vec<String> {
    let sources: BTreeSet<&String> = found.sources.iter().collect();
    let mut data: Vec<String> = found
        .opened
        .iter()
        .filter(|opened| opened.project && !opened.mode.contains(['w', 'a', 'x', '+']))
        .map(|opened| opened.path.clone())
        .filter(|path| !sources.contains(path) && !path.ends_with(".py"))
        .filter(|path| invocation.project.join(path).is_file())
        .collect();
    data.sort();
    data.dedup();
    let text: String = program.tree().files.values().map(|file| file.text().to_string()).collect();
    let reads = ["open(", "load", "read", "Path("].iter().any(|word| text.contains(word));
    if reads { data } else { Vec::new() }
}

/// What stands in for the command line: folder, arguments, seeds, and the place of the original script where it asks.
fn preamble(invocation: &Invocation, data: &[String], seed: Option<u64>, names_its_file: bool) -> String {
    let mut lines = Vec::new();
    let chdir = !data.is_empty();
    let argv = !invocation.argv.is_empty();
    match (chdir, argv) {
        (true, true) => lines.push("import os, sys".to_owned()),
        (true, false) => lines.push("import os".to_owned()),
        (false, true) => lines.push("import sys".to_owned()),
        (false, false) => {}
    }
    if chdir {
        let folder = if invocation.workdir == "." { "data".to_owned() } else { format!("data/{}", invocation.workdir) };
        lines.push(format!("os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), {folder:?}))"));
    }
    if let (true, true, CaseProgram::Script(script)) = (chdir, names_its_file, &invocation.program) {
        lines.push(format!("__file__ = os.path.abspath({script:?})"));
    }
    if argv {
        let words: Vec<String> = invocation.argv.iter().map(|word| python_string(word)).collect();
        lines.push(format!("sys.argv[1:] = [{}]", words.join(", ")));
    }
    if let Some(seed) = seed {
        lines.push("import random, numpy, torch".to_owned());
        lines.push(format!("random.seed({seed}), numpy.random.seed({seed}), torch.manual_seed({seed})"));
    }
    if lines.is_empty() { String::new() } else { lines.join("\n") + "\n\n" }
}

/// The modules as strings behind a finder: ugly, but it changes no name and no order.
fn embedded(program: &Program, entry: &str, roots: &[String]) -> String {
    let names = join::module_names(program, roots);
    let mut text = String::from("import importlib.abc, importlib.util, sys\n\nSOURCES = {\n");
    let mut packages = BTreeSet::new();
    for (name, path) in &names {
        if path == entry {
            continue;
        }
        let source = program.tree().get(path).map(|file| file.text().to_string()).unwrap_or_default();
        text += &format!("    {}: {},\n", python_string(name), triple(&source));
        for (at, _) in name.match_indices('.') {
            packages.insert(name.get(..at).unwrap_or_default().to_owned());
        }
        if path.ends_with("__init__.py") {
            packages.insert(name.clone());
        }
    }
    for package in packages.iter().filter(|package| !names.contains_key(*package)) {
        text += &format!("    {}: \"\",\n", python_string(package));
    }
    text += "}\n";
    let packages: Vec<String> = packages.iter().map(|name| python_string(name)).collect();
    text += &format!("PACKAGES = {{{}}}\n", packages.join(", "));
    text += "

class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name in SOURCES:
            return importlib.util.spec_from_loader(name, self, is_package=name in PACKAGES)

    def exec_module(self, module):
        exec(compile(SOURCES[module.__name__], module.__name__ + \".py\", \"exec\"), module.__dict__)


sys.meta_path.insert(0, Finder())

";
    text + program.tree().get(entry).map(|file| file.text().to_string()).unwrap_or_default().as_str()
}

fn triple(text: &str) -> String {
    format!("\"\"\"{}\"\"\"", text.replace('\\', "\\\\").replace("\"\"\"", "\\\"\\\"\\\""))
}

fn python_string(text: &str) -> String {
    format!("{text:?}")
}

/// The header of `repro.py`: what it shows, with what, and how to run it.
pub fn header(found: &Found, ground: &Ground) -> String {
    let torch = ground.python.torch.as_ref().map_or("unknown", |torch| torch.version.as_str());
    // The kernel is that of the larger program: the call alone may fail in another one of the same operator.
    let mut lines = vec![format!("# reduced by machine from a larger program: {}", found.signature)];
    lines.push(format!("# Python {}, torch {torch}", ground.python.version));
    if ground.device == Device::Emulated {
        lines.push(format!("# confirmed on {}", words::ran_on(ground.device)));
        lines.push("# run: python repro.py on a GPU, or: reduce replay . --device emulated".to_owned());
    } else {
        lines.push("# run: python repro.py".to_owned());
    }
    lines.join("\n") + "\n"
}

/// Writes `repro.py` and its data into a folder.
///
/// # Errors
/// When a file cannot be written.
pub fn lay_out(folder: &Path, repro: &Repro, header: &str, source: &Path) -> Result<(), BundleError> {
    let fail = |path: &Path| {
        let path = path.to_owned();
        move |source| BundleError::File { path, source }
    };
    for path in &repro.data {
        let (from, to) = (source.join(path), folder.join("data").join(path));
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).map_err(fail(parent))?;
        }
        fs::copy(&from, &to).map_err(fail(&to))?;
    }
    let path = folder.join("repro.py");
    fs::write(&path, header.to_owned() + &repro.text).map_err(fail(&path))
}
