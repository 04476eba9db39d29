//! The axis `commits`: the history of the repository that the program is in.
//!
//! Invariant: each point is the project as it was at that commit, with the files that git does not track; the user's
//! repository and working tree are only read.
//! It asks nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::super::Point;
use super::super::axis::{AxisError, Ordered, Ready};
use super::super::order::Order;
use super::git::{self, Checkout, Repository};
use crate::case::Invocation;
use crate::environment::Surroundings;
use crate::trial::Variation;

/// Key of the point that is the working tree with its uncommitted changes.
const UNCOMMITTED: &str = "uncommitted";
/// Digits that abbreviate an id at least, as git has it.
const SHORTEST: usize = 4;

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Range {
    /// A revision that passes.
    pub good: Option<String>,
    /// A revision that fails; none: the working tree as it is.
    pub bad: Option<String>,
    /// Only commits that touch these.
    pub paths: Vec<String>,
    /// Which parents are followed.
    pub parents: Parents,
    /// Whether the change is searched that broke it or the one that mended it.
    pub sought: Change,
}

/// Which parents of a merge are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parents {
    /// All.
    #[default]
    All,
    /// The first only: a merge is one change.
    First,
}

/// What kind of change is searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Change {
    /// The one that broke it.
    #[default]
    Broke,
    /// The one that mended it.
    Mended,
}

/// The commits between two revisions.
#[derive(Debug)]
pub struct Commits {
    repository: Repository,
    /// The project within the repository.
    inside: PathBuf,
    ids: Vec<String>,
    subjects: BTreeMap<String, String>,
    order: Order,
    changes: PathBuf,
    uncommitted: String,
    checkouts: Vec<(Checkout, Option<Point>, u64)>,
    most: usize,
    cache: PathBuf,
    clock: u64,
}

impl Commits {
    /// Opens the history; at most `width` points are in use at once.
    ///
    /// # Errors
    /// When the revisions do not fit each other, or git fails.
    pub fn open(
        invocation: &Invocation,
        range: &Range,
        surroundings: &Surroundings,
        scratch: &std::path::Path,
        width: usize,
    ) -> Result<Self, AxisError> {
        let repository = Repository::around(&invocation.project)?;
        let root = repository.root.canonicalize().unwrap_or_else(|_| repository.root.clone());
        let inside = invocation.project.strip_prefix(&root).map(PathBuf::from).map_err(|_| {
            AxisError::wrong(
                format!("{} is larger than the repository {}", invocation.project.display(), root.display()),
                "put the case into the repository",
            )
        })?;
        let (ids, order) = match range.sought {
            Change::Broke => forward(&repository, range)?,
            Change::Mended => backward(&repository, range)?,
        };
        let newest = ids.iter().rev().find(|id| *id != UNCOMMITTED).cloned().unwrap_or_default();
        let oldest = ids.first().cloned().unwrap_or_default();
        let mut subjects = repository.subjects(&[&newest, &format!("^{oldest}")])?;
        subjects.extend(repository.subjects(&["--no-walk", &oldest])?);
        if range.sought == Change::Mended {
            subjects.extend(repository.subjects(&[&oldest, &format!("^{newest}")])?);
            subjects.extend(repository.subjects(&["--no-walk", &newest])?);
        }
        subjects.insert(UNCOMMITTED.to_owned(), "uncommitted changes".to_owned());
        let changes = scratch.join("uncommitted.diff");
        let mut uncommitted = UNCOMMITTED.to_owned();
        if ids.iter().any(|id| id == UNCOMMITTED) {
            repository.difference(&changes)?;
            let read = |source| AxisError::File { path: changes.clone(), source };
            let hash = blake3::hash(&std::fs::read(&changes).map_err(read)?).to_hex();
            uncommitted = format!("{UNCOMMITTED}-{}", &hash.as_str()[..12]);
        }
        let name = blake3::hash(root.to_string_lossy().as_bytes()).to_hex().as_str()[..16].to_owned();
        let checkouts = surroundings.cache().join("checkouts");
        git::forget_orphans(&checkouts);
        let cache = checkouts.join(name);
        Ok(Self {
            repository,
            inside,
            ids,
            subjects,
            order,
            changes,
            uncommitted,
            checkouts: Vec::new(),
            most: width.max(1),
            cache,
            clock: 0,
        })
    }

    /// The folder with the project at a point: one that holds it, a new one, or that which was not used for longest.
    fn place(&mut self, point: Point) -> Result<Result<PathBuf, String>, AxisError> {
        self.clock += 1;
        let held = self.checkouts.iter().position(|(_, holds, _)| *holds == Some(point));
        let at = match held {
            Some(at) => at,
            None if self.checkouts.len() < self.most => {
                self.checkouts.push((Checkout::take(&self.repository, &self.cache)?, None, 0));
                self.checkouts.len() - 1
            }
            None => {
                let oldest = self.checkouts.iter().enumerate().min_by_key(|(_, (_, _, used))| *used);
                oldest.map_or(0, |(at, _)| at)
            }
        };
        let (checkout, holds, used) = &mut self.checkouts[at];
        *used = self.clock;
        if held.is_none() {
            *holds = None;
            let id = &self.ids[point];
            let (commit, changes) = match id.as_str() {
                UNCOMMITTED => (self.repository.commit("HEAD")?, Some(self.changes.as_path())),
                _ => (id.clone(), None),
            };
            if let Err(reason) = checkout.set(&self.repository, &commit, changes)? {
                return Ok(Err(reason));
            }
            *holds = Some(point);
        }
        Ok(Ok(checkout.folder.join(&self.inside)))
    }
}

impl Ordered for Commits {
    fn name(&self) -> &'static str {
        "commits"
    }

    fn order(&self) -> Order {
        self.order.clone()
    }

    /// Uncommitted changes are told apart by what they change: a log speaks of those that were run.
    fn key(&self, point: Point) -> String {
        match self.ids[point].as_str() {
            UNCOMMITTED => self.uncommitted.clone(),
            id => id.to_owned(),
        }
    }

    fn label(&self, point: Point) -> String {
        let id = &self.ids[point];
        self.subjects.get(id).cloned().unwrap_or_else(|| id.chars().take(12).collect())
    }

    /// An id may be abbreviated, as git does.
    fn find(&self, word: &str) -> Option<Point> {
        let mut meant = (0..self.ids.len()).filter(|point| self.ids[*point].starts_with(word));
        meant.next().filter(|_| word.len() >= SHORTEST && meant.next().is_none())
    }

    fn prepare(&mut self, point: Point) -> Result<Ready, AxisError> {
        match self.place(point)? {
            Ok(project) if project.is_dir() => {
                let project = project.canonicalize().unwrap_or(project);
                Ok(Ready::with(Variation { project: Some(project), ..Variation::default() }))
            }
            Ok(_) => Ok(Ready::Skip("the folder of the program is not there yet".to_owned())),
            Err(reason) => Ok(Ready::Skip(reason)),
        }
    }
}

fn wanted(name: Option<&String>, flag: &str) -> Result<String, AxisError> {
    name.cloned().ok_or_else(|| {
        AxisError::wrong(format!("bisection over commits needs `{flag}`"), "name a commit, a branch or a tag")
    })
}

/// From a commit that passes to one that fails: the graph between them.
fn forward(repository: &Repository, range: &Range) -> Result<(Vec<String>, Order), AxisError> {
    let mut good = repository.commit(&wanted(range.good.as_ref(), "--good REVISION")?)?;
    let bad = repository.commit(range.bad.as_deref().unwrap_or("HEAD"))?;
    let dirty = range.bad.is_none() && repository.is_dirty()?;
    if good != bad && repository.is_ancestor(&bad, &good)? {
        return Err(AxisError::wrong(
            "the commit that passes comes after the one that fails",
            "to search for the commit that mended it: `--expect fixed`",
        ));
    }
    if !repository.is_ancestor(&good, &bad)? {
        // The base is verified as the passing end: if it fails, the commit named as good holds a fix.
        good = repository.merge_base(&good, &bad)?.ok_or_else(|| {
            AxisError::wrong("the two revisions have no common ancestor", "choose a `--good` that `--bad` grew from")
        })?;
    }
    if good == bad && !dirty {
        return Err(AxisError::wrong("there is no commit between the two revisions", "choose other revisions"));
    }
    let not_good = format!("^{good}");
    let mut words = vec![bad.as_str(), not_good.as_str()];
    if range.parents == Parents::First {
        words.insert(0, "--first-parent");
    }
    if !range.paths.is_empty() {
        words.push("--");
        words.extend(range.paths.iter().map(String::as_str));
    }
    let mut rows = repository.range(&words)?;
    if range.parents == Parents::First {
        rows.iter_mut().for_each(|(_, parents)| parents.truncate(1));
    }
    let mut ids = vec![good.clone()];
    let mut places: BTreeMap<String, Point> = BTreeMap::from([(good, 0)]);
    let mut parents: Vec<Vec<Point>> = vec![Vec::new()];
    for (id, own) in rows {
        places.insert(id.clone(), ids.len());
        parents.push(own.iter().filter_map(|parent| places.get(parent).copied()).collect());
        ids.push(id);
    }
    let mut tip = |id: String, ids: &mut Vec<String>| {
        let childless =
            (0..ids.len()).filter(|point| !parents.iter().any(|own| own.contains(point))).collect::<Vec<_>>();
        parents.push(childless);
        ids.push(id);
    };
    if ids.last() != Some(&bad) && ids.len() > 1 {
        tip(bad.clone(), &mut ids);
    }
    if dirty {
        tip(UNCOMMITTED.to_owned(), &mut ids);
    }
    if ids.len() < 2 {
        return Err(AxisError::wrong("no commit between the two revisions touches these paths", "name other paths"));
    }
    Ok((ids, Order::graph(parents)))
}

/// From a later commit that passes to an earlier one that fails, along first parents: the points stand in reverse.
fn backward(repository: &Repository, range: &Range) -> Result<(Vec<String>, Order), AxisError> {
    let good = repository.commit(range.good.as_deref().unwrap_or("HEAD"))?;
    let bad = repository.commit(&wanted(range.bad.as_ref(), "--bad REVISION")?)?;
    if good == bad || !repository.is_ancestor(&bad, &good)? {
        return Err(AxisError::wrong(
            "with `--expect fixed`, the commit that passes must come after the one that fails",
            "leave `--expect fixed` out to search for the commit that broke it",
        ));
    }
    let not_bad = format!("^{bad}");
    let mut words = vec!["--first-parent", good.as_str(), not_bad.as_str()];
    if !range.paths.is_empty() {
        words.push("--");
        words.extend(range.paths.iter().map(String::as_str));
    }
    let mut ids: Vec<String> = repository.range(&words)?.into_iter().map(|(id, _)| id).collect();
    if ids.last() != Some(&good) {
        ids.push(good);
    }
    ids.reverse();
    ids.push(bad);
    let order = Order::Chain(ids.len());
    Ok((ids, order))
}
