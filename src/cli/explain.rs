//! `reduce explain`: what failed and why, from a log, a case or a bundle.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::args::ExplainArgs;
use super::progress::print;
use super::run::fail;
use crate::exit::ExitCode;
use crate::explain::{self, Digest};

/// Standard input as it is typed.
const STDIN: &str = "-";

/// Explains what was named.
pub(super) fn run(args: &ExplainArgs) -> ExitCode {
    explain_logs(args)
}

/// Explains logs alone: no Python, no GPU.
fn explain_logs(args: &ExplainArgs) -> ExitCode {
    let mut digest = Digest::default();
    for path in &args.paths {
        let read = if path.as_os_str() == STDIN {
            digest.add("standard input", io::stdin().lock())
        } else if path.is_dir() {
            logs_of(path).iter().try_for_each(|log| digest.add(&log.display().to_string(), File::open(log)?))
        } else {
            File::open(path).and_then(|file| digest.add(&path.display().to_string(), file))
        };
        if let Err(error) = read {
            return fail(&format!("cannot read {}: {error}", path.display()), &[], ExitCode::Usage);
        }
    }
    match explain::explain(&digest) {
        Some(explanation) => {
            if args.json {
                print(&serde_json::to_string(&explanation).unwrap_or_default());
            } else {
                print(explanation.to_string().trim_end());
            }
            ExitCode::Success
        }
        None => {
            let hints =
                ["give standard error of the process that failed; of a distributed run, that of every rank".into()];
            fail("no failure of a device is shown there", &hints, ExitCode::NotReproduced)
        }
    }
}

/// The logs in a launcher's folder, in the order of their names.
fn logs_of(folder: &Path) -> Vec<PathBuf> {
    let mut logs = Vec::new();
    for entry in ignore::WalkBuilder::new(folder).standard_filters(false).build().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_log = ["log", "txt", "err", "out"].iter().any(|end| name.ends_with(&format!(".{end}")));
        if is_log && fs::metadata(entry.path()).is_ok_and(|data| data.is_file()) {
            logs.push(entry.into_path());
        }
    }
    logs.sort();
    logs
}
