//! Owns what the runs of an entry say against what is expected, and whether another run is needed to say it.
//!
//! Invariant: whatever is not as expected is said by runs of fresh interpreters that agree; a run that gave no answer says
//! nothing of the program. Pure: runs nothing, reads no clock.

use std::fmt;

use super::entry::Expected;
use crate::trial::Mode;

/// Fresh interpreters that must agree on what is not as expected.
const CONFIRM: usize = 2;
/// Fresh interpreters of an entry that does not agree with itself: for its rate.
const RATE: usize = 5;

/// Why an entry cannot be run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The entry wants another torch.
    WrongTorch(String),
    /// There is no interpreter with this torch.
    NoTorch(String),
    /// There is no GPU.
    NoGpu,
    /// A module that is not installed.
    PackageMissing(String),
    /// A file that is not there.
    DataMissing(String),
    /// The emulated device cannot do what the program asks for.
    NotEmulated(String),
    /// The machine could not run it: memory, a lost process.
    Machine(String),
}

/// What one run of an entry showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It failed as the signature says.
    Crashes,
    /// It came to its end.
    Passes,
    /// It failed in another way.
    Otherwise(String),
    /// It did not come to its end in time.
    Hangs(String),
    /// It could not be run.
    Cannot(Reason),
    /// The process was lost, for no reason of the program.
    Lost,
}

/// What is to be said of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does what is expected.
    AsExpected,
    /// Expected to crash, and passes.
    FixedNow,
    /// Expected to be fixed, and fails as it once did.
    CrashesAgain,
    /// It fails in another way.
    FailsOtherwise(String),
    /// It fails as its signature says now and then.
    Flaky {
        /// Runs that did.
        hits: usize,
        /// All runs.
        runs: usize,
    },
    /// It could not be run.
    CannotRun(Reason),
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Run it once more.
    Ask(Mode),
    /// Enough is known.
    Say(Verdict),
}

/// Decides from all answers so far; `mode` and `least` are how and how often an entry is run when all is well.
pub(super) fn next(expected: Expected, answers: &[(Mode, Answer)], mode: Mode, least: usize) -> Next {
    let cannot = answers.iter().find_map(|(_, answer)| match answer {
        Answer::Cannot(reason) => Some(reason.clone()),
        _ => None,
    });
    if let Some(reason) = cannot {
        return Next::Say(Verdict::CannotRun(reason));
    }
    if answers.iter().filter(|(_, answer)| *answer == Answer::Lost).count() >= 2 {
        return Next::Say(Verdict::CannotRun(Reason::Machine("its process was lost twice".to_owned())));
    }
    let told: Vec<&(Mode, Answer)> = answers.iter().filter(|(_, answer)| *answer != Answer::Lost).collect();
    let wanted = match expected {
        Expected::Crashes => Answer::Crashes,
        Expected::Fixed => Answer::Passes,
    };
    let hung = told.iter().filter(|(_, answer)| matches!(answer, Answer::Hangs(_))).count();
    if hung >= 2
        && let Some((_, Answer::Hangs(what))) = told.last()
    {
        // A third run would take as long again.
        return Next::Say(Verdict::FailsOtherwise(what.clone()));
    }
    if told.len() < least {
        return Next::Ask(mode);
    }
    if told.iter().all(|(_, answer)| *answer == wanted) {
        return Next::Say(Verdict::AsExpected);
    }
    let forked: Vec<&Answer> = of(&told, Mode::Fork);
    let fresh: Vec<&Answer> = of(&told, Mode::Exec);
    if least > 1 && mode == Mode::Fork && !agree(&forked) {
        return Next::Say(flaky(&forked));
    }
    let needed = if agree(&fresh) { CONFIRM } else { RATE };
    if fresh.len() < needed {
        return Next::Ask(Mode::Exec);
    }
    if !agree(&fresh) {
        return Next::Say(flaky(&fresh));
    }
    Next::Say(match (expected, fresh[0]) {
        (_, Answer::Otherwise(what) | Answer::Hangs(what)) => Verdict::FailsOtherwise(what.clone()),
        (Expected::Crashes, Answer::Passes) => Verdict::FixedNow,
        (Expected::Fixed, Answer::Crashes) => Verdict::CrashesAgain,
        _ => Verdict::AsExpected,
    })
}

fn of<'a>(told: &[&'a (Mode, Answer)], mode: Mode) -> Vec<&'a Answer> {
    told.iter().filter(|(own, _)| *own == mode).map(|(_, answer)| answer).collect()
}

/// Whether all answers are of one kind; how another failure is worded may vary.
fn agree(answers: &[&Answer]) -> bool {
    let kind = |answer: &Answer| match answer {
        Answer::Crashes => 0,
        Answer::Passes => 1,
        _ => 2,
    };
    answers.windows(2).all(|pair| kind(pair[0]) == kind(pair[1]))
}

fn flaky(answers: &[&Answer]) -> Verdict {
    Verdict::Flaky { hits: answers.iter().filter(|answer| ***answer == Answer::Crashes).count(), runs: answers.len() }
}

impl Verdict {
    /// Its name in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::AsExpected => "as expected",
            Self::FixedNow => "fixed now",
            Self::CrashesAgain => "crashes again",
            Self::FailsOtherwise(_) => "fails otherwise",
            Self::Flaky { .. } => "flaky",
            Self::CannotRun(_) => "cannot run here",
        }
    }

    /// What was seen, in one line; empty where the name says all.
    pub fn detail(&self) -> String {
        match self {
            Self::AsExpected | Self::FixedNow | Self::CrashesAgain => String::new(),
            Self::FailsOtherwise(what) => what.clone(),
            Self::Flaky { hits, runs } => format!("fails as recorded in {hits} of {runs} runs"),
            Self::CannotRun(reason) => reason.to_string(),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongTorch(what) => write!(f, "wrong torch: {what}"),
            Self::NoTorch(what) => write!(f, "no torch: {what}"),
            Self::NoGpu => f.write_str("no GPU here"),
            Self::PackageMissing(name) => write!(f, "package missing: {name}"),
            Self::DataMissing(path) => write!(f, "data missing: {path}"),
            Self::NotEmulated(what) => write!(f, "the emulated device does not have {what}"),
            Self::Machine(what) => f.write_str(what),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives answers in turn until something is said; counts the runs by mode.
    fn said(expected: Expected, mode: Mode, least: usize, fork: &[Answer], cold: &[Answer]) -> (Verdict, usize, usize) {
        let (mut answers, mut forks, mut colds) = (Vec::new(), 0, 0);
        loop {
            match next(expected, &answers, mode, least) {
                Next::Say(verdict) => return (verdict, forks, colds),
                Next::Ask(Mode::Fork) => {
                    answers.push((Mode::Fork, fork[forks % fork.len()].clone()));
                    forks += 1;
                }
                Next::Ask(Mode::Exec) => {
                    answers.push((Mode::Exec, cold[colds % cold.len()].clone()));
                    colds += 1;
                }
            }
            assert!(forks + colds < 20);
        }
    }

    const C: Answer = Answer::Crashes;
    const P: Answer = Answer::Passes;

    #[test]
    fn what_is_as_expected_costs_one_run() {
        assert_eq!(said(Expected::Crashes, Mode::Fork, 1, &[C], &[P]), (Verdict::AsExpected, 1, 0));
        assert_eq!(said(Expected::Fixed, Mode::Exec, 1, &[C], &[P]), (Verdict::AsExpected, 0, 1));
        assert_eq!(said(Expected::Fixed, Mode::Fork, 3, &[P], &[P]), (Verdict::AsExpected, 3, 0));
    }

    #[test]
    fn what_is_not_is_said_by_fresh_interpreters_that_agree() {
        assert_eq!(said(Expected::Crashes, Mode::Fork, 1, &[P], &[P]), (Verdict::FixedNow, 1, 2));
        assert_eq!(said(Expected::Fixed, Mode::Fork, 1, &[C], &[C]), (Verdict::CrashesAgain, 1, 2));
        assert_eq!(said(Expected::Crashes, Mode::Exec, 1, &[P], &[P]), (Verdict::FixedNow, 0, 2));
        let other = Answer::Otherwise("x".into());
        let (verdict, ..) =
            said(Expected::Fixed, Mode::Fork, 1, std::slice::from_ref(&other), std::slice::from_ref(&other));
        assert_eq!(verdict, Verdict::FailsOtherwise("x".into()));
        // What only a forked process does is no verdict.
        assert_eq!(said(Expected::Crashes, Mode::Fork, 1, &[P], &[C]), (Verdict::AsExpected, 1, 2));
    }

    #[test]
    fn an_entry_that_contradicts_itself_is_flaky_with_its_rate() {
        let (verdict, ..) = said(Expected::Crashes, Mode::Fork, 1, &[P], &[C, P]);
        assert_eq!(verdict, Verdict::Flaky { hits: 3, runs: 5 });
        assert_eq!(
            said(Expected::Crashes, Mode::Fork, 4, &[C, C, P, C], &[C]),
            (Verdict::Flaky { hits: 3, runs: 4 }, 4, 0)
        );
    }

    #[test]
    fn a_run_without_an_answer_is_none() {
        assert_eq!(said(Expected::Crashes, Mode::Fork, 1, &[Answer::Lost, C], &[C]), (Verdict::AsExpected, 2, 0));
        let (verdict, ..) = said(Expected::Crashes, Mode::Fork, 1, &[Answer::Lost], &[C]);
        assert_eq!(verdict.name(), "cannot run here");
        let hangs = Answer::Hangs("no end".into());
        let (verdict, forks, colds) =
            said(Expected::Crashes, Mode::Fork, 1, std::slice::from_ref(&hangs), std::slice::from_ref(&hangs));
        assert_eq!((verdict, forks + colds), (Verdict::FailsOtherwise("no end".into()), 2));
        let cannot = Answer::Cannot(Reason::NoGpu);
        let (verdict, forks, _) = said(Expected::Fixed, Mode::Fork, 1, &[cannot], &[P]);
        assert_eq!((verdict, forks), (Verdict::CannotRun(Reason::NoGpu), 1));
    }
}
