//! The text of the program's files and where each piece of it stood in the original.
//!
//! Owns reading, editing and writing of source text. Invariant: the segments of a file tile its text in order, and a
//! segment that came from the original holds the very text that stood there. Must not know Python.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::encoding::Encoding;

/// Why source files could not be read, edited or written.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A file of the program could not be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {path}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is too large to be source.
    #[error("{path} is larger than 1 GiB")]
    TooLarge {
        /// The file.
        path: String,
    },
    /// An edit names a file that the tree does not hold.
    #[error("no file {path} in the program")]
    NoFile {
        /// The file.
        path: String,
    },
    /// Edits overlap, run backwards, or do not lie on character boundaries.
    #[error("edits of {path} do not fit its text at byte {offset}")]
    Edit {
        /// The file.
        path: String,
        /// Where the first misfit starts.
        offset: usize,
    },
    /// Text that an edit put in has no place in the file's encoding.
    #[error("{path} cannot be written in its own encoding")]
    Encode {
        /// The file.
        path: String,
    },
}

/// A run of text with one origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where it starts in the text, in bytes.
    pub at: u32,
    /// Its length in bytes.
    pub len: u32,
    /// Where it starts in the original file; `None` for inserted text.
    pub from: Option<u32>,
}

/// Text that replaces a range of one file; ranges are byte offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// What goes.
    pub range: Range<usize>,
    /// What comes in its place.
    pub text: String,
}

impl Edit {
    /// An edit that only removes.
    pub fn remove(range: Range<usize>) -> Edit {
        Edit {
            range,
            text: String::new(),
        }
    }

    /// An edit that replaces.
    pub fn replace(range: Range<usize>, text: impl Into<String>) -> Edit {
        Edit {
            range,
            text: text.into(),
        }
    }
}

/// Edits by file; those of one file must not overlap, in any order.
pub type Edits = BTreeMap<String, Vec<Edit>>;

/// One file: text, origins, encoding. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    text: Arc<str>,
    origins: Arc<[Segment]>,
    encoding: Encoding,
}

impl SourceFile {
    /// An original file from its bytes.
    pub fn from_bytes(bytes: &[u8]) -> SourceFile {
        let (encoding, text) = Encoding::decode(bytes);
        SourceFile::original(text, encoding)
    }

    /// An original file from its text, in UTF-8.
    pub fn from_text(text: &str) -> SourceFile {
        SourceFile::original(text.to_owned(), Encoding::Utf8)
    }

    fn original(text: String, encoding: Encoding) -> SourceFile {
        let len = u32::try_from(text.len()).unwrap_or(u32::MAX);
        let origins = if len == 0 {
            Vec::new()
        } else {
            vec![Segment {
                at: 0,
                len,
                from: Some(0),
            }]
        };
        SourceFile {
            text: text.into(),
            origins: origins.into(),
            encoding,
        }
    }

    /// The text, decoded, without a byte order mark; line ends as they are.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// The segments, in order of the text.
    pub fn origins(&self) -> &[Segment] {
        &self.origins
    }

    /// How the file is written on disk.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Where the byte at this offset stood in the original file; `None` for inserted text and past the end.
    pub fn origin(&self, offset: usize) -> Option<u32> {
        let offset = u32::try_from(offset).ok()?;
        let after = self.origins.partition_point(|segment| segment.at <= offset);
        let segment = self.origins.get(after.checked_sub(1)?)?;
        let inside = offset - segment.at;
        (inside < segment.len).then_some(())?;
        Some(segment.from? + inside)
    }

    /// The bytes of the file as they go to disk; `None` when the encoding lacks a character of inserted text.
    pub fn encode(&self) -> Option<Vec<u8>> {
        self.encoding.encode(&self.text)
    }

    /// The file after non-overlapping edits; the error is the offset of the first edit that does not fit.
    pub fn with_edits(&self, edits: &[Edit]) -> Result<SourceFile, usize> {
        let mut order: Vec<&Edit> = edits.iter().collect();
        order.sort_by_key(|edit| (edit.range.start, edit.range.end));
        let mut build = Build {
            text: String::with_capacity(self.text.len()),
            origins: Vec::new(),
        };
        let mut done = 0;
        for edit in order {
            let Range { start, end } = edit.range.clone();
            if start < done
                || end < start
                || !self.text.is_char_boundary(start)
                || !self.text.is_char_boundary(end)
            {
                return Err(start);
            }
            build.keep(self, done..start);
            build.insert(&edit.text);
            done = end;
        }
        build.keep(self, done..self.text.len());
        Ok(SourceFile {
            text: build.text.into(),
            origins: build.origins.into(),
            encoding: self.encoding,
        })
    }
}

/// A new text under construction, with its segments.
struct Build {
    text: String,
    origins: Vec<Segment>,
}

impl Build {
    fn keep(&mut self, file: &SourceFile, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let first = file
            .origins
            .partition_point(|segment| segment.at as usize <= range.start)
            .saturating_sub(1);
        for segment in &file.origins[first..] {
            let start = (segment.at as usize).max(range.start);
            let end = (segment.at as usize + segment.len as usize).min(range.end);
            if start >= range.end {
                break;
            }
            if start < end {
                let shift = to_u32(start) - segment.at;
                self.push(
                    &file.text[start..end],
                    segment.from.map(|from| from + shift),
                );
            }
        }
    }

    fn insert(&mut self, text: &str) {
        if !text.is_empty() {
            self.push(text, None);
        }
    }

    fn push(&mut self, text: &str, from: Option<u32>) {
        let at = to_u32(self.text.len());
        let len = to_u32(text.len());
        self.text.push_str(text);
        if let Some(last) = self.origins.last_mut() {
            let joins = match (last.from, from) {
                (Some(before), Some(from)) => before + last.len == from,
                (None, None) => true,
                _ => false,
            };
            if joins {
                last.len += len;
                return;
            }
        }
        self.origins.push(Segment { at, len, from });
    }
}

/// Offsets fit 32 bits because files are at most 1 GiB; text beyond saturates and loses its origin, never its bytes.
fn to_u32(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}

/// The program's files by path relative to the project root. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceTree {
    /// Path to file; paths use `/`.
    pub files: BTreeMap<String, SourceFile>,
}

const LARGEST: u64 = 1 << 30;

impl SourceTree {
    /// Reads the named files below a root.
    pub fn read(root: &Path, files: &[String]) -> Result<SourceTree, SourceError> {
        let mut tree = SourceTree::default();
        for name in files {
            let path = root.join(name);
            let read = |source| SourceError::Read {
                path: path.clone(),
                source,
            };
            if std::fs::metadata(&path).map_err(read)?.len() > LARGEST {
                return Err(SourceError::TooLarge { path: name.clone() });
            }
            tree.files.insert(
                name.clone(),
                SourceFile::from_bytes(&std::fs::read(&path).map_err(read)?),
            );
        }
        Ok(tree)
    }

    /// A tree of UTF-8 texts; for tests and small programs.
    pub fn from_texts<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> SourceTree {
        let files = files
            .into_iter()
            .map(|(path, text)| (path.to_owned(), SourceFile::from_text(text)))
            .collect();
        SourceTree { files }
    }

    /// The file at a path.
    pub fn get(&self, path: &str) -> Option<&SourceFile> {
        self.files.get(path)
    }

    /// The tree after edits. Origins are composed: they always point into the original.
    pub fn with_edits(&self, edits: &Edits) -> Result<SourceTree, SourceError> {
        let mut tree = self.clone();
        for (path, edits) in edits {
            let file = tree
                .files
                .get_mut(path)
                .ok_or_else(|| SourceError::NoFile { path: path.clone() })?;
            if !edits.is_empty() {
                *file = file.with_edits(edits).map_err(|offset| SourceError::Edit {
                    path: path.clone(),
                    offset,
                })?;
            }
        }
        Ok(tree)
    }

    /// The tree without one file.
    pub fn without(&self, path: &str) -> SourceTree {
        let mut tree = self.clone();
        tree.files.remove(path);
        tree
    }

    /// Paths whose text differs from the original's, in path order.
    pub fn changed<'a>(&'a self, original: &'a SourceTree) -> impl Iterator<Item = &'a str> + 'a {
        self.files
            .iter()
            .filter(|(path, file)| {
                original
                    .files
                    .get(*path)
                    .is_none_or(|before| before.text != file.text)
            })
            .map(|(path, _)| path.as_str())
    }

    /// Paths of the original that this tree no longer holds, in path order.
    pub fn removed<'a>(&'a self, original: &'a SourceTree) -> impl Iterator<Item = &'a str> + 'a {
        original
            .files
            .keys()
            .filter(|path| !self.files.contains_key(*path))
            .map(String::as_str)
    }

    /// Writes the files that differ from the original below a folder, in their own encodings; gives their paths.
    pub fn write_changed(
        &self,
        original: &SourceTree,
        dir: &Path,
    ) -> Result<Vec<String>, SourceError> {
        let mut written = Vec::new();
        for path in self.changed(original) {
            self.write_file(path, dir)?;
            written.push(path.to_owned());
        }
        Ok(written)
    }

    /// Writes every file below a folder, in its own encoding.
    pub fn write_all(&self, dir: &Path) -> Result<(), SourceError> {
        self.files
            .keys()
            .try_for_each(|path| self.write_file(path, dir))
    }

    fn write_file(&self, path: &str, dir: &Path) -> Result<(), SourceError> {
        let file = self.files.get(path).ok_or_else(|| SourceError::NoFile {
            path: path.to_owned(),
        })?;
        let bytes = file.encode().ok_or_else(|| SourceError::Encode {
            path: path.to_owned(),
        })?;
        let target = dir.join(path);
        let write = |source| SourceError::Write {
            path: target.clone(),
            source,
        };
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent).map_err(write)?;
        }
        std::fs::write(&target, bytes).map_err(write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_compose_over_two_rounds_of_edits() {
        let file = SourceFile::from_text("abcdefghij");
        let once = file
            .with_edits(&[Edit::replace(2..4, "XY"), Edit::remove(6..8)])
            .expect("edits fit");
        assert_eq!(&**once.text(), "abXYefij");
        let twice = once
            .with_edits(&[Edit::remove(1..3), Edit::replace(8..8, "!")])
            .expect("edits fit");
        assert_eq!(&**twice.text(), "aYefij!");
        let origins: Vec<_> = (0..8).map(|at| twice.origin(at)).collect();
        assert_eq!(
            origins,
            [
                Some(0),
                None,
                Some(4),
                Some(5),
                Some(8),
                Some(9),
                None,
                None
            ]
        );
    }

    #[test]
    fn removal_and_nothing_between_joins_neighbours() {
        let file = SourceFile::from_text("abc");
        assert_eq!(
            file.with_edits(&[Edit::replace(1..1, "")])
                .expect("fits")
                .origins(),
            [Segment {
                at: 0,
                len: 3,
                from: Some(0)
            }]
        );
    }

    #[test]
    fn edits_that_overlap_or_split_a_character_are_refused() {
        let file = SourceFile::from_text("aéb");
        assert_eq!(file.with_edits(&[Edit::remove(0..2)]), Err(0));
        assert_eq!(
            file.with_edits(&[Edit::remove(0..3), Edit::remove(1..4)]),
            Err(1)
        );
        assert_eq!(file.with_edits(&[Edit::remove(3..9)]), Err(3));
    }

    #[test]
    fn only_changed_files_are_written_in_their_encoding() {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(
            dir.path().join("a.py"),
            b"# coding: latin-1\nx = '\xe9'\ny = 2\n",
        )
        .expect("written");
        std::fs::write(dir.path().join("b.py"), b"z = 1\n").expect("written");
        let tree = SourceTree::read(dir.path(), &["a.py".into(), "b.py".into()]).expect("read");
        let edits = Edits::from([("a.py".to_owned(), vec![Edit::remove(27..33)])]);
        let out = tempfile::tempdir().expect("a folder");
        let less = tree.with_edits(&edits).expect("fits");
        assert_eq!(
            less.write_changed(&tree, out.path()).expect("written"),
            ["a.py"]
        );
        assert_eq!(
            std::fs::read(out.path().join("a.py")).expect("read"),
            b"# coding: latin-1\nx = '\xe9'\n"
        );
        assert_eq!(
            less.without("b.py").removed(&tree).collect::<Vec<_>>(),
            ["b.py"]
        );
    }
}
