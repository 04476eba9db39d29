//! Names for statements: ids, kinds, places, sets.
//!
//! Invariant: ids are dense, in program order (files in path order, preorder inside), so a parent's id is lower than its
//! children's and a subtree is a run of ids. Must not hold syntax trees or text.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::ops::Range;

use fixedbitset::FixedBitSet;

use super::python::Stmt;

/// A statement of one `Program`; an index into `Program::statements`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StmtId(pub u32);

impl StmtId {
    /// The index into `Program::statements`.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    pub(crate) fn new(index: usize) -> StmtId {
        StmtId(u32::try_from(index).unwrap_or(u32::MAX))
    }
}

/// A file of one `Program`; files are numbered in path order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

impl FileId {
    /// The index into the program's files.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a statement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StmtKind {
    FunctionDef,
    ClassDef,
    Return,
    Delete,
    TypeAlias,
    Assign,
    AugAssign,
    AnnAssign,
    For,
    While,
    If,
    With,
    Match,
    Raise,
    Try,
    Assert,
    Import,
    ImportFrom,
    Global,
    Nonlocal,
    Expr,
    Pass,
    Break,
    Continue,
    /// A whole file that does not parse.
    Opaque,
}

impl StmtKind {
    pub(crate) fn of(node: &Stmt) -> StmtKind {
        match node {
            Stmt::FunctionDef(_) => StmtKind::FunctionDef,
            Stmt::ClassDef(_) => StmtKind::ClassDef,
            Stmt::Return(_) => StmtKind::Return,
            Stmt::Delete(_) => StmtKind::Delete,
            Stmt::TypeAlias(_) => StmtKind::TypeAlias,
            Stmt::Assign(_) => StmtKind::Assign,
            Stmt::AugAssign(_) => StmtKind::AugAssign,
            Stmt::AnnAssign(_) => StmtKind::AnnAssign,
            Stmt::For(_) => StmtKind::For,
            Stmt::While(_) => StmtKind::While,
            Stmt::If(_) => StmtKind::If,
            Stmt::With(_) => StmtKind::With,
            Stmt::Match(_) => StmtKind::Match,
            Stmt::Raise(_) => StmtKind::Raise,
            Stmt::Try(_) => StmtKind::Try,
            Stmt::Assert(_) => StmtKind::Assert,
            Stmt::Import(_) => StmtKind::Import,
            Stmt::ImportFrom(_) => StmtKind::ImportFrom,
            Stmt::Global(_) => StmtKind::Global,
            Stmt::Nonlocal(_) => StmtKind::Nonlocal,
            Stmt::Expr(_) | Stmt::IpyEscapeCommand(_) => StmtKind::Expr,
            Stmt::Pass(_) => StmtKind::Pass,
            Stmt::Break(_) => StmtKind::Break,
            Stmt::Continue(_) => StmtKind::Continue,
        }
    }

    /// Whether the statement has a body of its own.
    pub fn is_compound(self) -> bool {
        matches!(
            self,
            StmtKind::FunctionDef
                | StmtKind::ClassDef
                | StmtKind::For
                | StmtKind::While
                | StmtKind::If
                | StmtKind::With
                | StmtKind::Match
                | StmtKind::Try
        )
    }
}

/// Which body of its parent a statement stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arm {
    /// The body; of a module as well.
    Body,
    /// The n-th `elif`.
    Elif(u16),
    /// The n-th `except`.
    Handler(u16),
    /// The n-th `case`.
    Case(u16),
    /// The `else`.
    Else,
    /// The `finally`.
    Finally,
}

/// One statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Its own id.
    pub id: StmtId,
    /// The file it stands in.
    pub file: FileId,
    /// What it is.
    pub kind: StmtKind,
    /// Its bytes, decorators and body included, without the line end.
    pub range: Range<usize>,
    /// Where its own first word starts: behind the decorators.
    pub keyword: usize,
    /// First and last line, 1-based, inclusive, decorators and body included.
    pub lines: (u32, u32),
    /// The statement it stands in; `None` at module level.
    pub parent: Option<StmtId>,
    /// Which body of the parent it stands in.
    pub arm: Arm,
    /// Its place in that body.
    pub place: u32,
    /// One past the last id of its subtree.
    pub end: StmtId,
}

impl Statement {
    /// Whether another statement is this one or inside it.
    pub fn contains(&self, other: StmtId) -> bool {
        self.id <= other && other < self.end
    }
}

/// A set of statements of one `Program`.
#[derive(Clone, Debug, Default)]
pub struct StmtSet {
    bits: FixedBitSet,
}

/// Equality is of members; the capacity of the bit set does not count.
impl PartialEq for StmtSet {
    fn eq(&self, other: &StmtSet) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for StmtSet {}

impl PartialOrd for StmtSet {
    fn partial_cmp(&self, other: &StmtSet) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for StmtSet {
    fn cmp(&self, other: &StmtSet) -> Ordering {
        self.iter().cmp(other.iter())
    }
}

impl Hash for StmtSet {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.iter().for_each(|id| id.hash(state));
    }
}

impl StmtSet {
    /// The empty set.
    pub fn new() -> StmtSet {
        StmtSet::default()
    }

    /// Adds a statement; false if it was in already.
    pub fn insert(&mut self, id: StmtId) -> bool {
        self.bits.grow(id.index() + 1);
        !self.bits.put(id.index())
    }

    /// Takes a statement out.
    pub fn remove(&mut self, id: StmtId) {
        if id.index() < self.bits.len() {
            self.bits.set(id.index(), false);
        }
    }

    /// Whether a statement is in.
    pub fn contains(&self, id: StmtId) -> bool {
        self.bits.contains(id.index())
    }

    /// The members in program order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = StmtId> + '_ {
        self.bits.ones().map(StmtId::new)
    }

    /// How many members.
    pub fn len(&self) -> usize {
        self.bits.count_ones(..)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bits.is_clear()
    }

    /// Adds the members of another set.
    pub fn extend_set(&mut self, other: &StmtSet) {
        self.bits.union_with(&other.bits);
    }

    /// Takes the members of another set out.
    pub fn subtract(&mut self, other: &StmtSet) {
        self.bits.difference_with(&other.bits);
    }

    /// Keeps only what another set holds as well.
    pub fn intersect(&mut self, other: &StmtSet) {
        self.bits.intersect_with(&other.bits);
    }

    /// Members of either.
    pub fn union(&self, other: &StmtSet) -> StmtSet {
        let mut all = self.clone();
        all.extend_set(other);
        all
    }

    /// Members of this one only.
    pub fn difference(&self, other: &StmtSet) -> StmtSet {
        let mut rest = self.clone();
        rest.subtract(other);
        rest
    }

    /// Whether every member is in another set.
    pub fn is_subset(&self, other: &StmtSet) -> bool {
        self.iter().all(|id| other.contains(id))
    }
}

impl FromIterator<StmtId> for StmtSet {
    fn from_iter<I: IntoIterator<Item = StmtId>>(ids: I) -> StmtSet {
        let mut set = StmtSet::new();
        set.extend(ids);
        set
    }
}

impl Extend<StmtId> for StmtSet {
    fn extend<I: IntoIterator<Item = StmtId>>(&mut self, ids: I) {
        for id in ids {
            self.insert(id);
        }
    }
}
