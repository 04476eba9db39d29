//! Owns the way from the command of a case to an `Invocation`: its place in the project, checked.
//!
//! Invariant: the program is there, and lies in the project.
//! Must not read commands (`command`) nor shell syntax (`script`).

use std::path::{Path, PathBuf};

use super::command::{Found, Origin};
use super::launcher::RankArgument;
use super::refusal::Refusal;
use super::script::{self, Trace};
use super::spy::Spy;
use super::{Case, Invocation, Program, Resolved, globs};
use crate::environment::{Surroundings, Wanted};
use crate::yaml::Error;

/// Understands the command of a case.
///
/// # Errors
/// When it starts no Python program that can be reduced; the error names file, line and key.
pub fn resolve(case: &Case, surroundings: &Surroundings) -> Result<Resolved, Error> {
    let refused = |refusal: Refusal| case.command.error(&refusal);
    // The variables of the case are there when the shell reads the command.
    let surroundings = &surroundings.with(&case.setting.env);
    match script::trace(&case.command.text, &case.workdir, surroundings) {
        Trace::Found(found) => place(*found, case).map(Resolved::Static).map_err(refused),
        Trace::Refused(refusal) => Err(refused(refusal)),
        Trace::Dynamic(reason) => Ok(Resolved::Spy(Spy::new(case, surroundings, reason))),
    }
}

/// Finds the place of a program in the project and checks that it is there.
pub(super) fn place(found: Found, case: &Case) -> Result<Invocation, Refusal> {
    let mut found = found;
    let cwd = found.cwd.canonicalize().map_err(|_| Refusal::Missing(found.cwd.display().to_string()))?;
    let mut project = common(&case.workdir, &cwd, &case.workdir).unwrap_or_else(|| cwd.clone());
    if let Program::Script(script) = &found.program {
        let path = globs::normal(&cwd.join(script));
        if path.is_dir() {
            return Err(Refusal::Folder(script.clone()));
        }
        if !path.is_file() {
            return Err(Refusal::Missing(script.clone()));
        }
        if found.origin == Origin::Typed {
            let folder = path.parent().unwrap_or(&path);
            project = common(&project, folder, &case.workdir)
                .or_else(|| common(&cwd, folder, &case.workdir))
                .ok_or_else(|| Refusal::Outside(script.clone()))?;
        }
        if found.rank_argument == RankArgument::Given {
            let text = std::fs::read(&path).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            // Since 2.0 torch spells it with a dash; a script accepts what its torch gives.
            let name = if text.contains("--local-rank") { "--local-rank=0" } else { "--local_rank=0" };
            found.argv.insert(0, name.to_owned());
        }
    } else if found.rank_argument == RankArgument::Given {
        found.argv.insert(0, "--local-rank=0".to_owned());
    }
    let workdir = match cwd.strip_prefix(&project) {
        Ok(rest) if rest.as_os_str().is_empty() => ".".to_owned(),
        Ok(rest) => rest.to_string_lossy().into_owned(),
        Err(_) => return Err(Refusal::Outside(cwd.display().to_string())),
    };
    if let Some(packages) = found.packages
        && case.setting.python == Wanted::Default
    {
        return Err(Refusal::Packages(packages));
    }
    Ok(Invocation {
        interpreter: found.interpreter,
        options: found.options,
        program: found.program,
        argv: found.argv,
        env: found.env,
        unset: found.unset,
        project,
        workdir,
        ranks: found.ranks,
    })
}

/// The smallest folder that holds both, unless that is so high up that it holds everybody's files.
fn common(left: &Path, right: &Path, workdir: &Path) -> Option<PathBuf> {
    let shared: PathBuf = left.components().zip(right.components()).take_while(|(a, b)| a == b).map(|(a, _)| a).collect();
    let deep_enough = shared.components().count() > 2 || shared == left || shared == workdir;
    deep_enough.then_some(shared)
}
