//! Counts of a ledger: trials by verdict, phase and pass, and the wins that made the program smaller.
//!
//! Invariant: a win belongs to the trial that showed it; wins are in the order of their adoption, each smaller than the last.
//! Must not read anything but records.

use std::collections::{BTreeMap, BTreeSet};

use crate::ledger::{Record, TrialRecord};

/// The verdicts, in the order in which they are shown.
pub(super) const VERDICTS: [&str; 5] = ["same", "other", "clean", "invalid", "unresolved"];

/// The trials of a ledger and what they won.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) trials: Vec<TrialRecord>,
    pub(super) wins: Vec<Win>,
}

/// A new smallest candidate.
#[derive(Clone, Debug)]
pub(super) struct Win {
    /// Which trial showed it, counted from 1 in the order of the ledger.
    pub(super) trial: usize,
    pub(super) phase: String,
    pub(super) pass: String,
    pub(super) what: String,
    pub(super) statements: usize,
    pub(super) tokens: usize,
    /// How much smaller it is than the one before.
    pub(super) fewer_statements: usize,
    pub(super) fewer_tokens: usize,
    /// Seconds since the run began.
    pub(super) at: f64,
}

/// What a pass cost and what it brought.
#[derive(Clone, Debug, Default)]
pub(super) struct PassAccount {
    pub(super) phase: String,
    pub(super) pass: String,
    pub(super) trials: usize,
    pub(super) wins: usize,
    pub(super) fewer_statements: usize,
    pub(super) fewer_tokens: usize,
    pub(super) seconds: f64,
}

/// A phase: which trials, and their verdicts.
#[derive(Clone, Debug, Default)]
pub(super) struct PhaseAccount {
    pub(super) phase: String,
    /// In the order of [`VERDICTS`].
    pub(super) verdicts: [usize; VERDICTS.len()],
    pub(super) seconds: f64,
}

impl Tally {
    /// Counts records; the original has so many statements and tokens.
    pub(super) fn of(records: &[Record], original: (usize, usize)) -> Self {
        let mut trials: Vec<TrialRecord> = Vec::new();
        let mut wins: Vec<Win> = Vec::new();
        let mut size = original;
        for record in records {
            match record {
                Record::Trial(trial) => trials.push(trial.as_ref().clone()),
                // A resumed run adopts again what was adopted before: only what is smaller is news.
                Record::Best { candidate, statements, tokens, phase, at }
                    if (*tokens, *statements) < (size.1, size.0) =>
                {
                    let shown = trials.iter().rposition(|trial| trial.candidate == *candidate && is_same(trial));
                    let trial = shown.map(|place| &trials[place]);
                    wins.push(Win {
                        trial: shown
                            .map_or(trials.len(), |place| place + 1)
                            .max(wins.last().map_or(0, |win| win.trial)),
                        phase: phase.clone(),
                        pass: trial.map(|trial| trial.pass.clone()).unwrap_or_default(),
                        what: trial.map(|trial| trial.what.clone()).unwrap_or_default(),
                        statements: *statements,
                        tokens: *tokens,
                        fewer_statements: size.0.saturating_sub(*statements),
                        fewer_tokens: size.1 - tokens,
                        at: *at,
                    });
                    size = (*statements, *tokens);
                }
                _ => {}
            }
        }
        Self { trials, wins }
    }

    /// Trials by verdict.
    pub(super) fn by_verdict(&self) -> BTreeMap<String, u64> {
        self.count(|trial| trial.verdict.name().to_owned())
    }

    /// Trials by phase.
    pub(super) fn by_phase(&self) -> BTreeMap<String, u64> {
        self.count(|trial| trial.phase.clone())
    }

    /// Trials by phase and pass.
    pub(super) fn by_pass(&self) -> BTreeMap<String, u64> {
        self.count(|trial| format!("{}/{}", trial.phase, trial.pass))
    }

    fn count(&self, key: impl Fn(&TrialRecord) -> String) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for trial in &self.trials {
            *counts.entry(key(trial)).or_default() += 1;
        }
        counts
    }

    /// Seconds in trials, added up.
    pub(super) fn seconds(&self) -> f64 {
        self.trials.iter().map(|trial| trial.seconds).sum()
    }

    /// Seconds in trials by phase.
    pub(super) fn seconds_by_phase(&self) -> BTreeMap<String, f64> {
        let mut seconds = BTreeMap::new();
        for trial in &self.trials {
            *seconds.entry(trial.phase.clone()).or_default() += trial.seconds;
        }
        seconds
    }

    /// The phases in the order of their first trial.
    pub(super) fn phases(&self) -> Vec<PhaseAccount> {
        let mut phases: Vec<PhaseAccount> = Vec::new();
        for trial in &self.trials {
            let place = phases.iter().position(|one| one.phase == trial.phase).unwrap_or_else(|| {
                phases.push(PhaseAccount { phase: trial.phase.clone(), ..PhaseAccount::default() });
                phases.len() - 1
            });
            let phase = &mut phases[place];
            phase.verdicts[verdict(trial)] += 1;
            phase.seconds += trial.seconds;
        }
        phases
    }

    /// The passes of the search, those that took most away first; evidence and confirmation take nothing away.
    pub(super) fn passes(&self) -> Vec<PassAccount> {
        let searching: BTreeSet<&str> = self.wins.iter().map(|win| win.phase.as_str()).collect();
        let mut accounts: BTreeMap<(&str, &str), PassAccount> = BTreeMap::new();
        for trial in self.trials.iter().filter(|trial| searching.contains(trial.phase.as_str())) {
            let one = accounts.entry((&trial.phase, &trial.pass)).or_default();
            one.trials += 1;
            one.seconds += trial.seconds;
        }
        for win in &self.wins {
            let one = accounts.entry((&win.phase, &win.pass)).or_default();
            one.wins += 1;
            one.fewer_statements += win.fewer_statements;
            one.fewer_tokens += win.fewer_tokens;
        }
        let mut passes: Vec<PassAccount> = accounts
            .into_iter()
            .map(|((phase, pass), one)| PassAccount { phase: phase.to_owned(), pass: pass.to_owned(), ..one })
            .collect();
        passes.sort_by(|one, other| other.fewer_tokens.cmp(&one.fewer_tokens).then(one.trials.cmp(&other.trials)));
        passes
    }
}

/// Place of a trial's verdict in [`VERDICTS`].
pub(super) fn verdict(trial: &TrialRecord) -> usize {
    let name = trial.verdict.name();
    VERDICTS.iter().position(|one| *one == name).unwrap_or(VERDICTS.len() - 1)
}

fn is_same(trial: &TrialRecord) -> bool {
    verdict(trial) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidate::CandidateId;
    use crate::trial::Mode;
    use crate::verdict::Verdict;

    fn trial(number: u64, phase: &str, pass: &str, verdict: Verdict) -> Record {
        Record::Trial(Box::new(TrialRecord {
            trial: number,
            candidate: CandidateId(number.to_string()),
            setting: "pinned".to_owned(),
            mode: Mode::Fork,
            phase: phase.to_owned(),
            pass: pass.to_owned(),
            what: String::new(),
            verdict,
            seconds: 0.5,
            at: 0.0,
            statements: 1,
            tokens: 2,
        }))
    }

    fn best(number: u64, phase: &str, tokens: usize) -> Record {
        let candidate = CandidateId(number.to_string());
        Record::Best { candidate, statements: tokens / 10, tokens, phase: phase.to_owned(), at: 1.0 }
    }

    #[test]
    fn a_win_belongs_to_its_trial_and_what_a_resumed_run_adopts_again_is_none() {
        let records = [
            trial(1, "slice", "truncated", Verdict::Same),
            best(1, "slice", 500),
            trial(3, "sweep", "sweep", Verdict::Clean),
            trial(2, "sweep", "sweep", Verdict::Same),
            best(2, "sweep", 400),
            best(1, "slice", 500),
            best(2, "sweep", 400),
        ];
        let tally = Tally::of(&records, (100, 1000));
        let wins: Vec<_> = tally.wins.iter().map(|win| (win.trial, win.pass.as_str(), win.fewer_tokens)).collect();
        assert_eq!(wins, [(1, "truncated", 500), (3, "sweep", 100)]);
        let passes: Vec<_> = tally.passes().iter().map(|one| (one.pass.clone(), one.wins, one.trials)).collect();
        assert_eq!(passes, [("truncated".to_owned(), 1, 1), ("sweep".to_owned(), 1, 2)]);
        assert_eq!(tally.phases()[1].verdicts, [1, 0, 1, 0, 0]);
        assert!((tally.seconds() - 1.5).abs() < 1e-9);
    }
}
