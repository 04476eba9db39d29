//! Plans: which passes are asked in which order, for how many proposals and runs.
//!
//! Owns the strategies (`strategies/*.yaml`). Invariant: a plan is checked when it is read, so that a stage can neither name
//! an unknown pass nor be empty. Must not run anything or know a verdict.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use crate::passes::{Facts, Pass, Proposal, by_name};
use crate::program::Program;
use crate::yaml::{self, Error, Node, Value};

/// The strategies that come with the program: name and text.
const BUILT_IN: [(&str, &str); 3] = [
    ("default", include_str!("../../strategies/default.yaml")),
    ("quick", include_str!("../../strategies/quick.yaml")),
    ("thorough", include_str!("../../strategies/thorough.yaml")),
];

/// A strategy that was read: stages in order.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The name it was asked for by.
    pub name: String,
    /// What it is for, in one line.
    pub about: String,
    stages: Vec<Stage>,
}

/// Passes whose proposals are tried together.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The name that progress and the ledger show.
    pub name: String,
    /// What it does, in one line.
    pub about: String,
    /// Runs that it may cost each time; no limit when `None`.
    pub max_runs: Option<u32>,
    /// Misses in a row that end it; no limit when `None`.
    pub max_misses: Option<u32>,
    entries: Vec<Entry>,
}

/// One pass in a stage.
#[derive(Clone)]
struct Entry {
    pass: &'static dyn Pass,
    /// Less likely proposals are left out.
    min_prior: f64,
    /// Only so many, those with the greatest gain.
    max_proposals: Option<usize>,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {}", self.pass.name(), self.min_prior)
    }
}

/// Name and purpose of the strategies that come with the program.
pub fn built_in() -> impl Iterator<Item = (&'static str, String)> {
    BUILT_IN.into_iter().map(|(name, text)| (name, Plan::parse(name, text).map_or(String::new(), |plan| plan.about)))
}

/// The text of a strategy that comes with the program.
pub fn text(name: &str) -> Option<&'static str> {
    BUILT_IN.into_iter().find(|(known, _)| *known == name).map(|(_, text)| text)
}

impl Plan {
    /// The strategy of a name, or of a file (relative to a folder).
    pub fn load(name: &str, folder: &Path) -> Result<Plan, Error> {
        if let Some(text) = text(name) {
            return Plan::parse(name, text);
        }
        let known: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
        let is_file = name.contains(['/', '.']);
        if !is_file {
            let error = Error::of_file(name, "no such strategy");
            let error = error.hint(format!("{} come with the program", yaml::one_of(&known)));
            return Err(match yaml::nearest(name, &known) {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None => error.hint("a file is named with its ending: `mine.yaml`"),
            });
        }
        Plan::read(yaml::read(&folder.join(name), name)?, name)
    }

    /// A strategy from text; `file` is how messages name it.
    pub fn parse(file: &str, text: &str) -> Result<Plan, Error> {
        Plan::read(yaml::parse(file, text)?, file)
    }

    /// The stages in order.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    fn read(node: Node, name: &str) -> Result<Plan, Error> {
        node.mapping(&["about", "stages"])?;
        let about = node.get("about").map(Node::text).transpose()?.unwrap_or_default().to_owned();
        let list = node.required("stages")?;
        let stages = list.list()?.iter().map(Stage::read).collect::<Result<Vec<Stage>, Error>>()?;
        if stages.is_empty() {
            return Err(list.expected("at least one stage"));
        }
        let mut names = BTreeSet::new();
        match list.list()?.iter().zip(&stages).find(|(_, stage)| !names.insert(stage.name.clone())) {
            Some((node, stage)) => Err(node.error(format!("a second stage of the name `{}`", stage.name))),
            None => Ok(Plan { name: name.to_owned(), about, stages }),
        }
    }
}

impl Stage {
    /// What the passes of this stage would try on a program, likely enough and within the limits: stage order, then
    /// program order.
    pub fn proposals(&self, program: &Program, facts: &Facts) -> Vec<Proposal> {
        self.untried(program, facts, &BTreeSet::new())
    }

    /// The same without proposals whose keys were tried; they do not count against the limits either.
    pub fn untried(&self, program: &Program, facts: &Facts, tried: &BTreeSet<String>) -> Vec<Proposal> {
        self.entries.iter().flat_map(|entry| entry.proposals(program, facts, tried)).collect()
    }

    /// The names of its passes.
    pub fn passes(&self) -> impl Iterator<Item = &'static str> {
        self.entries.iter().map(|entry| entry.pass.name())
    }

    fn read(node: &Node) -> Result<Stage, Error> {
        node.mapping(&["name", "about", "passes", "min_prior", "max_proposals", "max_runs", "max_misses"])?;
        let limits = Limits::read(node, &Limits { min_prior: 0.0, max_proposals: None })?;
        let passes = node.required("passes")?;
        let entries =
            passes.list()?.iter().map(|pass| Entry::read(pass, &limits)).collect::<Result<Vec<Entry>, Error>>()?;
        if entries.is_empty() {
            return Err(passes.expected("at least one pass"));
        }
        Ok(Stage {
            name: node.required("name")?.text()?.to_owned(),
            about: node.get("about").map(Node::text).transpose()?.unwrap_or_default().to_owned(),
            max_runs: count(node, "max_runs")?,
            max_misses: count(node, "max_misses")?,
            entries,
        })
    }
}

struct Limits {
    min_prior: f64,
    max_proposals: Option<usize>,
}

impl Limits {
    fn read(node: &Node, outer: &Limits) -> Result<Limits, Error> {
        let min_prior = match node.get("min_prior") {
            Some(prior) => probability(prior)?,
            None => outer.min_prior,
        };
        let own = count(node, "max_proposals")?.map(|most| most as usize);
        Ok(Limits { min_prior, max_proposals: own.or(outer.max_proposals) })
    }
}

impl Entry {
    fn read(node: &Node, outer: &Limits) -> Result<Entry, Error> {
        let (name, limits) = match &node.value {
            Value::Mapping(_) => {
                node.mapping(&["pass", "min_prior", "max_proposals"])?;
                (node.required("pass")?, Limits::read(node, outer)?)
            }
            _ => (node, Limits { ..*outer }),
        };
        let known: Vec<&str> = crate::passes::ALL.iter().map(|pass| pass.name()).collect();
        let chosen = known[name.choice(&known)?];
        let pass = by_name(chosen).expect("the name is one of the register");
        Ok(Entry { pass, min_prior: limits.min_prior, max_proposals: limits.max_proposals })
    }

    fn proposals(&self, program: &Program, facts: &Facts, tried: &BTreeSet<String>) -> Vec<Proposal> {
        let mut proposals = self.pass.proposals(program, facts);
        proposals.retain(|proposal| proposal.prior >= self.min_prior && !tried.contains(&proposal.key));
        let Some(most) = self.max_proposals.filter(|most| *most < proposals.len()) else { return proposals };
        let mut order: Vec<usize> = (0..proposals.len()).collect();
        order.sort_by(|&one, &two| proposals[two].gain().total_cmp(&proposals[one].gain()).then(one.cmp(&two)));
        let best: BTreeSet<usize> = order.into_iter().take(most).collect();
        let chosen = proposals.into_iter().enumerate().filter(|(at, _)| best.contains(at));
        chosen.map(|(_, proposal)| proposal).collect()
    }
}

fn count(node: &Node, key: &str) -> Result<Option<u32>, Error> {
    let number = node.get(key).map(|value| value.integer(1, i128::from(u32::MAX))).transpose()?;
    Ok(number.and_then(|number| u32::try_from(number).ok()))
}

fn probability(node: &Node) -> Result<f64, Error> {
    match node.value {
        Value::Float(value) if (0.0..=1.0).contains(&value) => Ok(value),
        Value::Integer(0) => Ok(0.0),
        Value::Integer(1) => Ok(1.0),
        _ => Err(node.expected("a number from 0 to 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::ALL;
    use crate::program::SourceTree;

    fn refusal(text: &str) -> String {
        Plan::parse("mine.yaml", text).expect_err("it is refused").to_string()
    }

    #[test]
    fn the_strategies_that_come_along_are_right_and_say_what_they_are_for() {
        assert!(built_in().all(|(_, about)| !about.is_empty()));
        let plan = Plan::load("default", Path::new(".")).expect("it parses");
        assert_eq!(plan.stages()[0].name, "certain");
        let runs: u32 = plan.stages().iter().filter_map(|stage| stage.max_runs).sum();
        assert!(runs <= 44, "structure may cost about half of eighty runs: {runs}");
        let thorough = Plan::load("thorough", Path::new(".")).expect("it parses");
        let passes = |plan: &Plan| -> BTreeSet<&str> { plan.stages().iter().flat_map(Stage::passes).collect() };
        let (default, thorough) = (passes(&plan), passes(&thorough));
        let missing: Vec<&str> = ALL.iter().map(|pass| pass.name()).filter(|name| !default.contains(name)).collect();
        assert_eq!(missing, ["inline"], "the default strategy has every other pass");
        assert!(thorough.contains("inline"));
    }

    #[test]
    fn a_wrong_strategy_is_refused_with_its_place() {
        assert_eq!(refusal("stages: []"), "mine.yaml:1: stages: expected at least one stage, found a list");
        let text = "stages:\n  - {name: a, passes: [hoits]}\n";
        assert!(
            refusal(text).starts_with("mine.yaml:2: stages[0].passes[0]: expected hoist, arms"),
            "{}",
            refusal(text)
        );
        let text = "stages:\n  - name: a\n    passes: [hoist]\n    max_run: 3\n";
        assert!(refusal(text).contains("max_run: unknown key; did you mean `max_runs`?"), "{}", refusal(text));
        let text = "stages:\n  - {name: a, passes: [hoist], min_prior: 2}\n";
        assert!(refusal(text).contains("expected a number from 0 to 1, found the number 2"), "{}", refusal(text));
        let text = "stages:\n  - {name: a, passes: [hoist]}\n  - {name: a, passes: [arms]}\n";
        assert!(refusal(text).contains("a second stage of the name `a`"), "{}", refusal(text));
        let error = Plan::load("defualt", Path::new(".")).expect_err("no such name");
        assert!(error.hints.iter().any(|hint| hint.contains("`default`")), "{error:?}");
    }

    #[test]
    fn limits_keep_the_greatest_gain_and_what_was_tried_does_not_count() {
        let text = "stages:\n  - {name: a, passes: [{pass: arguments, max_proposals: 1}], min_prior: 0.3}\n";
        let plan = Plan::parse("mine.yaml", text).expect("it parses");
        let tree = SourceTree::from_texts([("m.py", "g(a, k=1, j=[1, 2, 3])\n")]);
        let program = Program::parse(&tree).expect("one file");
        let first = plan.stages()[0].proposals(&program, &Facts::default());
        let labels =
            |proposals: &[Proposal]| -> Vec<u32> { proposals.iter().map(|proposal| proposal.weight).collect() };
        assert_eq!(labels(&first), [10]);
        let tried = first.iter().map(|proposal| proposal.key.clone()).collect();
        assert_eq!(labels(&plan.stages()[0].untried(&program, &Facts::default(), &tried)), [4]);
    }
}
