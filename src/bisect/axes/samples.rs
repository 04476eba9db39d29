//! The axis `samples`: rows of the data files that the program reads, and whole files where those have no rows.
//!
//! Invariant: a file keeps its name and its heading, and files with as many rows as each other lose the same ones; the
//! user's data is only read.
//! It asks nothing.

use std::collections::BTreeMap;
use std::path::Path;

use super::super::axis::{AxisError, Ready, Unordered};
use super::rows::Rows;
use crate::case::{Case, Invocation};
use crate::trial::{Opened, Outcome, Variation};
use crate::verdict;

/// Largest data file that is cut, in bytes: each trial gets a copy of what stays.
const LARGEST: u64 = 256 << 20;
/// More rows with the offending value than this share are no hint.
const FEW: usize = 10;

/// One part of the data that may be there or not.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Element {
    /// A row of all files of a group.
    Row { group: usize, row: usize },
    /// A whole file.
    File(String),
}

/// The data of a case.
#[derive(Debug)]
pub struct Samples {
    /// Files with as many rows as each other: their rows belong together.
    groups: Vec<Vec<(String, Rows)>>,
    elements: Vec<Element>,
}

impl Samples {
    /// The data files that a run opened for reading, or those that the case names.
    ///
    /// # Errors
    /// When there is nothing to cut.
    pub fn of(case: &Case, invocation: &Invocation, opened: &[Opened]) -> Result<Self, AxisError> {
        let project = &invocation.project;
        let wanted = |path: &str| {
            let absolute = project.join(path);
            !path.ends_with(".py")
                && !case.keep.matches(&absolute)
                && case.data.as_ref().is_none_or(|data| data.matches(&absolute))
        };
        let mut paths: Vec<&str> = opened
            .iter()
            .filter(|opened| opened.project && !opened.mode.contains(['w', 'a', 'x', '+']))
            .map(|opened| opened.path.as_str())
            .filter(|path| wanted(path))
            .collect();
        paths.sort_unstable();
        paths.dedup();
        let mut groups: BTreeMap<usize, Vec<(String, Rows)>> = BTreeMap::new();
        let mut whole = Vec::new();
        for path in paths {
            match read(project, path) {
                Some(rows) => groups.entry(rows.len()).or_default().push((path.to_owned(), rows)),
                None if project.join(path).is_file() => whole.push(path.to_owned()),
                None => {}
            }
        }
        let groups: Vec<_> = groups.into_values().collect();
        let mut elements = Vec::new();
        for (group, files) in groups.iter().enumerate() {
            let rows = files.first().map_or(0, |(_, rows)| rows.len());
            elements.extend((0..rows).map(|row| Element::Row { group, row }));
        }
        // A single file without rows cannot be taken away: the program would only miss it.
        if whole.len() > 1 {
            elements.extend(whole.into_iter().map(Element::File));
        }
        if elements.is_empty() {
            return Err(AxisError::wrong(
                "the program reads no data file of the project that has rows",
                "name data files in crash.yaml: `data: [\"data/*.csv\"]` (csv, tsv, txt, jsonl, json lists and npy have rows)",
            ));
        }
        Ok(Self { groups, elements })
    }

    /// Elements whose row holds exactly this text, in the column where that is rarest: elsewhere it means something else.
    fn with_field(&self, among: &[usize], text: &str) -> Vec<usize> {
        let mut columns: BTreeMap<(usize, usize, usize), Vec<usize>> = BTreeMap::new();
        for at in among {
            let Element::Row { group, row } = &self.elements[*at] else { continue };
            for (file, (_, rows)) in self.groups[*group].iter().enumerate() {
                for place in rows.fields(*row, text) {
                    columns.entry((*group, file, place)).or_default().push(*at);
                }
            }
        }
        columns.into_values().min_by_key(Vec::len).unwrap_or_default()
    }
}

impl Unordered for Samples {
    fn name(&self) -> &'static str {
        "samples"
    }

    fn len(&self) -> usize {
        self.elements.len()
    }

    fn label(&self, element: usize) -> String {
        match &self.elements[element] {
            Element::Row { group, row } => self.groups[*group]
                .iter()
                .map(|(path, rows)| format!("{path} {}", rows.place(*row)))
                .collect::<Vec<_>>()
                .join(" with "),
            Element::File(path) => path.clone(),
        }
    }

    fn prepare(&mut self, elements: &[usize]) -> Result<Ready, AxisError> {
        let mut kept: Vec<Vec<usize>> = vec![Vec::new(); self.groups.len()];
        let mut files = std::collections::BTreeSet::new();
        for element in elements {
            match &self.elements[*element] {
                Element::Row { group, row } => kept[*group].push(*row),
                Element::File(path) => {
                    files.insert(path.clone());
                }
            }
        }
        let mut variation = Variation::default();
        for (group, rows) in self.groups.iter().zip(&kept) {
            for (path, all) in group.iter().filter(|(_, all)| all.len() != rows.len()) {
                variation.files.push((path.clone(), all.with(rows)));
            }
        }
        let gone = self.elements.iter().filter_map(|element| match element {
            Element::File(path) if !files.contains(path) => Some(path.clone()),
            _ => None,
        });
        variation.removed.extend(gone);
        Ok(Ready::with(variation))
    }

    /// The offending element names its sample, and rows that hold its value are worth a look.
    fn suspects(&self, elements: &[usize], outcome: &Outcome) -> Vec<Vec<usize>> {
        let offence = verdict::seen(outcome).and_then(|seen| seen.failure).and_then(|failure| failure.offence);
        let Some(offence) = offence else { return Vec::new() };
        let mut suspects = Vec::new();
        let sample = offence.sample.and_then(|sample| usize::try_from(sample).ok());
        if let (Some(sample), [_]) = (sample, self.groups.as_slice()) {
            suspects.extend(elements.get(sample).map(|element| vec![*element]));
        }
        if let Some(value) = offence.value.filter(|value| value.parse::<i128>().is_ok()) {
            let holding = self.with_field(elements, &value);
            suspects.extend(holding.first().map(|element| vec![*element]));
            if holding.len() * FEW <= elements.len() {
                suspects.push(holding);
            }
        }
        suspects
    }
}

fn read(project: &Path, path: &str) -> Option<Rows> {
    let file = project.join(path);
    if std::fs::metadata(&file).ok()?.len() > LARGEST {
        return None;
    }
    Rows::parse(path, std::fs::read(file).ok()?)
}
