//! The files that the answers of a bisection speak of.
//!
//! Invariant: a log is gone on with only where each of them is as it was; they are only read.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::{Work, beside};
use crate::case::Program;
use crate::trial::{Opened, Report};

/// Larger files are told apart by size and time alone.
const LARGEST: u64 = 256 << 20;

/// What each file held, by its path from the project.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Files(BTreeMap<String, String>);

impl Files {
    /// The files that a run imported or read, the script, and the lists that were named as ends.
    pub(super) fn of(work: &Work<'_>, report: &Report, opened: &[Opened]) -> Self {
        let ground = &work.session.ground;
        let invocation = &ground.invocation;
        let mut paths: Vec<String> = report.imported.clone();
        let read = opened.iter().filter(|opened| opened.project && !opened.mode.contains(['w', 'a', 'x', '+']));
        paths.extend(read.map(|opened| opened.path.clone()));
        if let Program::Script(script) = &invocation.program {
            let script = Path::new(&invocation.workdir).join(script);
            let plain: PathBuf = script.components().filter(|part| *part != Component::CurDir).collect();
            paths.push(plain.to_string_lossy().into_owned());
        }
        let lists = [&work.ask.good, &work.ask.bad].into_iter().flatten().map(|end| beside(ground, end));
        paths.extend(lists.filter_map(|list| Some(list.canonicalize().ok()?.to_string_lossy().into_owned())));
        let project = &invocation.project;
        let known = paths.into_iter().filter_map(|path| print_of(&project.join(&path)).map(|print| (path, print)));
        Self(known.collect())
    }

    /// Those that are not as they were.
    pub(super) fn changed(&self, project: &Path) -> Vec<String> {
        let differs = |path: &str, print: &String| print_of(&project.join(path)).as_ref() != Some(print);
        self.0.iter().filter(|(path, print)| differs(path, print)).map(|(path, _)| path.clone()).collect()
    }
}

/// What tells the contents of a file apart; none where it is no file.
fn print_of(path: &Path) -> Option<String> {
    let data = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    if data.len() > LARGEST {
        let time = data.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        return Some(format!("{}-{}", data.len(), time.as_nanos()));
    }
    Some(blake3::hash(&std::fs::read(path).ok()?).to_hex().as_str()[..24].to_owned())
}
