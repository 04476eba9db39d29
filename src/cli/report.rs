//! `reduce report`: makes the reports of a bundle again, from its ledger and its files alone.

use super::args::ReportArgs;
use super::progress::print;
use super::run::{fail, private};
use crate::bundle::secrets::Secrets;
use crate::bundle::{self, ReportError};
use crate::exit::ExitCode;

/// Writes `REPORT.md`, `report.html` and `report.json` of a bundle.
pub(super) fn run(args: &ReportArgs) -> ExitCode {
    match bundle::rebuild(&args.bundle, &Secrets::new(private())) {
        Ok(_) => {
            for name in ["REPORT.md", "report.html", "report.json"] {
                print(&args.bundle.join(name).display().to_string());
            }
            ExitCode::Success
        }
        Err(error) => fail(&error.to_string(), &error.hints(), code_of(&error)),
    }
}

/// A folder that cannot be used is wrong usage; what cannot be written is an error of ours.
fn code_of(error: &ReportError) -> ExitCode {
    match error {
        ReportError::Write(_) | ReportError::Page(_) => ExitCode::Internal,
        _ => ExitCode::Usage,
    }
}
