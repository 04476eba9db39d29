//! Owns the data files of a program as units that can go (rows of a table, lines of a text), and what is left of them.
//!
//! Invariant: a unit keeps its bytes and its place among the others, and what is left is a selection, never bytes in
//! memory; a file that is not understood has no units, and the user's file is only read.
//! Must not know what a unit means to the program.

mod units;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files above this size stay whole, in bytes: they are held once while their units are found.
const LARGEST: u64 = 256 << 20;
/// Folder for what is left of files, within the temporary folder of a run.
const STORE: &str = "data";

/// A data file that has units.
#[derive(Debug)]
pub struct DataFile {
    path: String,
    place: PathBuf,
    /// Hash of its content.
    hash: blake3::Hash,
    size: u64,
    /// Bytes before the first unit, which always stay.
    heading: u64,
    /// Whether these hold a line that counts as a heading.
    headed: bool,
    /// Where each unit begins.
    starts: Vec<u64>,
}

impl DataFile {
    /// A file of a project by its path there; `None` where it has less than two units, or is reached through a link.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(project: &Path, path: &str) -> io::Result<Option<Self>> {
        let place = project.join(path);
        // What is laid over a link would hide the folder behind it.
        let linked = place.canonicalize()? != project.canonicalize()?.join(path);
        let facts = fs::metadata(&place)?;
        if linked || !units::has_kind(path) || !facts.is_file() || facts.len() > LARGEST {
            return Ok(None);
        }
        let bytes = fs::read(&place)?;
        let Some(units::Found { heading, headed, starts }) = units::find(path, &bytes) else { return Ok(None) };
        let hash = blake3::hash(&bytes);
        let size = bytes.len() as u64;
        Ok((starts.len() > 1).then(|| Self { path: path.to_owned(), place, hash, size, heading, headed, starts }))
    }

    /// Relative to the project root.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        self.starts.len()
    }

    /// The unit that is a row as a reader counts: from 1, the first line of a table never counted; `line` counts all.
    pub fn unit(&self, row: Option<usize>, line: Option<usize>) -> Option<usize> {
        let unit = match (units::is_table(&self.path), row, line) {
            (true, Some(row), _) => row.checked_sub(usize::from(self.headed))?,
            (false, _, Some(line)) => line.checked_sub(1)?,
            _ => return None,
        };
        (unit < self.units()).then_some(unit)
    }

    fn range(&self, units: &Range<usize>) -> Range<u64> {
        let at = |unit: usize| self.starts.get(unit).copied().unwrap_or(self.size);
        at(units.start)..at(units.end)
    }
}

/// What is left of a file.
#[derive(Clone, Debug)]
struct Cut {
    file: Arc<DataFile>,
    kept: Arc<[Range<usize>]>,
}

impl Cut {
    fn feed(&self, hasher: &mut blake3::Hasher) {
        let path = self.file.path.as_bytes();
        hasher.update(&(path.len() as u64).to_le_bytes()).update(path).update(self.file.hash.as_bytes());
        hasher.update(&(self.kept.len() as u64).to_le_bytes());
        for run in self.kept.iter() {
            hasher.update(&(run.start as u64).to_le_bytes()).update(&(run.end as u64).to_le_bytes());
        }
    }

    /// Writes it, once for all trials that want it.
    fn write(&self, store: &Path) -> io::Result<PathBuf> {
        let place = self.place(store);
        if place.is_file() {
            return Ok(place);
        }
        fs::create_dir_all(store)?;
        let part = place.with_extension("part");
        let mut from = File::open(&self.file.place)?;
        if from.metadata()?.len() != self.file.size {
            return Err(io::Error::other("it has changed since the run began"));
        }
        let mut to = BufWriter::new(File::create(&part)?);
        let heading = 0..self.file.heading;
        for bytes in std::iter::once(heading).chain(self.kept.iter().map(|run| self.file.range(run))) {
            from.seek(SeekFrom::Start(bytes.start))?;
            io::copy(&mut (&mut from).take(bytes.end - bytes.start), &mut to)?;
        }
        to.flush()?;
        fs::rename(&part, &place)?;
        Ok(place)
    }

    fn place(&self, store: &Path) -> PathBuf {
        let mut hasher = blake3::Hasher::new();
        self.feed(&mut hasher);
        store.join(&hasher.finalize().to_hex().as_str()[..24])
    }
}

/// What is left of the data files of a program; files that are not in it are whole.
#[derive(Clone, Debug, Default)]
pub struct Data(Arc<BTreeMap<String, Cut>>);

impl Data {
    /// Whether every file is whole.
    pub fn is_whole(&self) -> bool {
        self.0.is_empty()
    }

    /// The same with only these units of a file, in rising order.
    #[must_use]
    pub fn with(&self, file: &Arc<DataFile>, units: impl IntoIterator<Item = usize>) -> Self {
        let mut kept: Vec<Range<usize>> = Vec::new();
        for unit in units {
            match kept.last_mut() {
                Some(run) if run.end == unit => run.end += 1,
                _ => kept.push(unit..unit + 1),
            }
        }
        let mut files = BTreeMap::clone(&self.0);
        if matches!(kept.as_slice(), [all] if all.len() == file.units()) {
            files.remove(&file.path);
        } else {
            files.insert(file.path.clone(), Cut { file: Arc::clone(file), kept: kept.into() });
        }
        Self(Arc::new(files))
    }

    /// Units that are left of a file.
    pub fn units(&self, file: &DataFile) -> usize {
        self.0.get(&file.path).map_or(file.units(), |cut| cut.kept.iter().map(ExactSizeIterator::len).sum())
    }

    /// Which unit of the whole file is the one with this number among those that are left.
    pub fn original(&self, file: &DataFile, number: usize) -> Option<usize> {
        match self.0.get(&file.path) {
            Some(cut) => cut.kept.iter().cloned().flatten().nth(number),
            None => Some(number),
        }
    }

    /// Adds to a hash what tells it from other data; nothing where every file is whole.
    pub fn feed(&self, hasher: &mut blake3::Hasher) {
        self.0.values().for_each(|cut| cut.feed(hasher));
    }

    /// The files that are not whole, written below a run's temporary folder: path in the project, and where it lies.
    ///
    /// # Errors
    /// With the file that cannot be read or written.
    pub fn lay_out(&self, scratch: &Path) -> Result<Vec<(String, PathBuf)>, DataError> {
        let store = scratch.join(STORE);
        self.0
            .iter()
            .map(|(path, cut)| {
                let written = cut.write(&store);
                let place = written.map_err(|source| DataError { path: cut.file.place.clone(), source })?;
                Ok((path.clone(), place))
            })
            .collect()
    }

    /// Removes what was written for it and is not part of `kept`.
    pub fn forget(&self, scratch: &Path, kept: &Self) {
        let store = scratch.join(STORE);
        let keep: Vec<PathBuf> = kept.0.values().map(|cut| cut.place(&store)).collect();
        for place in self.0.values().map(|cut| cut.place(&store)).filter(|place| !keep.contains(place)) {
            let _written_again_where_wanted = fs::remove_file(place);
        }
    }
}

/// A data file cannot be read, or what is left of it not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot cut data file `{path}`: {source}")]
pub struct DataError {
    /// Which.
    pub path: PathBuf,
    /// The system's reason.
    pub source: io::Error,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(name: &str, bytes: &[u8], units: &[usize]) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(name), bytes).unwrap();
        let file = Arc::new(DataFile::open(folder.path(), name).unwrap().unwrap());
        let laid = Data::default().with(&file, units.iter().copied()).lay_out(&folder.path().join("run")).unwrap();
        assert_eq!(fs::read(folder.path().join(name)).unwrap(), bytes, "the original");
        fs::read(&laid[0].1).unwrap()
    }

    #[test]
    fn what_is_left_keeps_its_bytes() {
        assert_eq!(left("a.csv", b"x,y\n1,\"a\nb\"\n2,c\n3,d", &[0, 2]), b"x,y\n1,\"a\nb\"\n3,d");
        assert_eq!(left("a.csv", b"\xef\xbb\xbfx;y\r\n1;\"a\"\r\n2;c\r\n", &[1]), b"\xef\xbb\xbfx;y\r\n2;c\r\n");
        assert_eq!(left("a.tsv", b"1\t5\" pipe\n2\t\"q\"\"\tr\"\n3\t4\n", &[1]), b"2\t\"q\"\"\tr\"\n");
        assert_eq!(left("a.csv", b"x,y\n1,2,3\n\n4\n\xff,5\n", &[2]), b"x,y\n\xff,5\n");
        assert_eq!(left("a.jsonl", b"{\"y\": 1}\n\n{\"y\": 12}\n", &[2]), b"{\"y\": 12}\n");
        assert_eq!(left("a.txt", b"one\r\ntwo\r\nthree", &[]), b"");
    }

    #[test]
    fn a_row_is_found_as_a_reader_counts() {
        let folder = tempfile::tempdir().unwrap();
        let unit = |name: &str, text: &str, row, line| {
            fs::write(folder.path().join(name), text).unwrap();
            DataFile::open(folder.path(), name).unwrap().unwrap().unit(row, line)
        };
        assert_eq!(unit("a.csv", "x,y\n1,2\n3,4\n", Some(2), Some(3)), Some(1));
        assert_eq!(unit("a.csv", "1,2\n3,4\n5,6\n", Some(2), Some(3)), Some(2));
        assert_eq!(unit("a.jsonl", "{}\n\n{}\n", Some(2), Some(3)), Some(2));
        assert_eq!(unit("a.csv", "x,y\n1,2\n3,4\n", Some(3), None), None);
    }

    #[test]
    fn what_cannot_be_cut_stays_whole() {
        let folder = tempfile::tempdir().unwrap();
        let is_whole = |name: &str, bytes: &[u8]| {
            fs::write(folder.path().join(name), bytes).unwrap();
            DataFile::open(folder.path(), name).unwrap().is_none()
        };
        assert!(is_whole("empty.csv", b"") && is_whole("heading.csv", b"x,y\n") && is_whole("one.txt", b"one line"));
        assert!(is_whole("wide.csv", b"\xff\xfex\0,\0y\0\n\x001\0,\x002\0\n\0"), "UTF-16");
        assert!(is_whole("a.bin", b"1\n2\n") && is_whole("a.npy", b"\x93NUMPY\n1\n2\n"));
        std::os::unix::fs::symlink("empty.csv", folder.path().join("link.csv")).unwrap();
        fs::write(folder.path().join("empty.csv"), "x,y\n1,2\n3,4\n").unwrap();
        assert!(DataFile::open(folder.path(), "link.csv").unwrap().is_none());
        assert!(DataFile::open(folder.path(), "gone.csv").is_err());
    }

    #[test]
    fn equal_selections_are_one_file_and_the_whole_is_none() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.txt"), "1\n2\n3\n").unwrap();
        let file = Arc::new(DataFile::open(folder.path(), "a.txt").unwrap().unwrap());
        let (one, two) = (Data::default().with(&file, [0, 1]), Data::default().with(&file, [1]));
        let (first, second) = (one.lay_out(folder.path()).unwrap(), one.clone().lay_out(folder.path()).unwrap());
        assert_eq!(first, second);
        assert_eq!((two.units(&file), two.original(&file, 0), two.original(&file, 1)), (1, Some(1), None));
        assert!(one.with(&file, 0..3).is_whole() && !two.is_whole());
        two.lay_out(folder.path()).unwrap();
        two.forget(folder.path(), &one);
        assert_eq!(fs::read_dir(folder.path().join(STORE)).unwrap().count(), 1);
    }
}
