//! Owns taking a tar file apart: `.tar`, `.tar.gz`, `.tgz`, `.tar.zst`.
//!
//! Invariant: nothing is written outside the folder, whatever the file says; what cannot be written so is refused with
//! the name of the member. Must not know what a bundle is.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use flate2::read::MultiGzDecoder;
use tar::EntryType;

/// How much a tar file may unpack to; a bundle is a few megabytes and its data.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes of the whole, unpacked.
    pub bytes: u64,
    /// Files and folders.
    pub members: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { bytes: 2 << 30, members: 100_000 }
    }
}

/// Why a tar file was refused.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It cannot be read or its content written.
    #[error("cannot unpack {}: {source}", file.display())]
    File {
        /// The tar file.
        file: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A member would not stay in the folder, or is no file.
    #[error("{} is refused: `{member}` {why}", file.display())]
    Member {
        /// The tar file.
        file: PathBuf,
        /// As it is named in it.
        member: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// It unpacks to too much.
    #[error("{} is refused: it holds {what}", file.display())]
    TooLarge {
        /// The tar file.
        file: PathBuf,
        /// The bound that it breaks.
        what: String,
    },
}

/// Whether a path names a tar file, by its name alone.
pub fn is_archive(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    [".tar", ".tar.gz", ".tgz", ".tar.zst"].iter().any(|end| name.ends_with(end) && name.len() > end.len())
}

/// Takes a tar file apart in an empty folder.
///
/// # Errors
/// When a member would leave the folder, is neither file, folder nor link, or there is too much of it.
pub fn unpack(file: &Path, into: &Path, bounds: Bounds) -> Result<(), ArchiveError> {
    let fail = |source| ArchiveError::File { file: file.to_owned(), source };
    let packed = BufReader::new(File::open(file).map_err(fail)?);
    let name = file.to_string_lossy().to_lowercase();
    let plain: Box<dyn Read> = if name.ends_with("gz") {
        Box::new(MultiGzDecoder::new(packed))
    } else if name.ends_with("zst") {
        Box::new(zstd::Decoder::new(packed).map_err(fail)?)
    } else {
        Box::new(packed)
    };
    let left = std::cell::Cell::new(bounds.bytes);
    let counted = Counted { inner: plain, left: &left };
    let mut archive = tar::Archive::new(counted);
    let outcome = members(&mut archive, file, into, bounds);
    match outcome {
        Err(ArchiveError::File { .. }) if left.get() == 0 => Err(ArchiveError::TooLarge {
            file: file.to_owned(),
            what: format!("more than {} MiB when unpacked", bounds.bytes >> 20),
        }),
        other => other,
    }
}

fn members(
    archive: &mut tar::Archive<impl Read>,
    file: &Path,
    into: &Path,
    bounds: Bounds,
) -> Result<(), ArchiveError> {
    let fail = |source| ArchiveError::File { file: file.to_owned(), source };
    for (number, member) in archive.entries().map_err(fail)?.enumerate() {
        let mut member = member.map_err(fail)?;
        let named = member.path().map_err(fail)?.into_owned();
        let refuse = |why| ArchiveError::Member { file: file.to_owned(), member: named.display().to_string(), why };
        if number >= bounds.members {
            let what = format!("more than {} files", bounds.members);
            return Err(ArchiveError::TooLarge { file: file.to_owned(), what });
        }
        let inside = plain_path(&named).ok_or_else(|| refuse("leads out of the folder"))?;
        let target = into.join(&inside);
        let kind = member.header().entry_type();
        if matches!(kind, EntryType::XGlobalHeader) || inside.as_os_str().is_empty() {
            continue;
        }
        if kind != EntryType::Directory && member.size() > bounds.bytes {
            let what = format!("`{}` of {} MiB", named.display(), member.size() >> 20);
            return Err(ArchiveError::TooLarge { file: file.to_owned(), what });
        }
        let folder = if kind == EntryType::Directory { target.as_path() } else { target.parent().unwrap_or(into) };
        make_folder(into, folder).map_err(|error| match error.kind() {
            io::ErrorKind::NotADirectory => refuse("lies behind a link"),
            _ => fail(error),
        })?;
        match kind {
            EntryType::Directory => {}
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                let runs = member.header().mode().unwrap_or(0o644) & 0o111 != 0;
                let mode = if runs { 0o755 } else { 0o644 };
                let new = OpenOptions::new().write(true).create_new(true).mode(mode).open(&target);
                let mut new = new.map_err(|error| match error.kind() {
                    io::ErrorKind::AlreadyExists => refuse("is there twice"),
                    _ => fail(error),
                })?;
                io::copy(&mut member, &mut new).map_err(fail)?;
            }
            EntryType::Symlink => {
                let link = member.link_name().map_err(fail)?.unwrap_or_default().into_owned();
                if !stays_inside(&inside, &link) {
                    return Err(refuse("is a link out of the folder"));
                }
                symlink(&link, &target).map_err(|_| refuse("is there twice"))?;
            }
            EntryType::Link => {
                let link = member.link_name().map_err(fail)?.unwrap_or_default().into_owned();
                let source = plain_path(&link).map(|path| into.join(path));
                let file = source.filter(|path| is_plain_file(into, path));
                let file = file.ok_or_else(|| refuse("is a link to what is not in it"))?;
                fs::copy(file, &target).map_err(fail)?;
            }
            _ => return Err(refuse("is neither a file, a folder nor a link")),
        }
    }
    Ok(())
}

/// The path without `.`; `None` where it is absolute or goes up.
fn plain_path(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(plain)
}

/// Whether a link leads to a place in the folder. `..` is accepted in front only: behind a name it may leave through
/// another link.
fn stays_inside(place: &Path, link: &Path) -> bool {
    let mut depth = place.components().count().saturating_sub(1);
    let mut names = false;
    for part in link.components() {
        match part {
            Component::Normal(_) => names = true,
            Component::CurDir => {}
            Component::ParentDir if !names && depth > 0 => depth -= 1,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    true
}

/// Makes a folder below another, through real folders only.
fn make_folder(root: &Path, folder: &Path) -> io::Result<()> {
    let mut path = root.to_owned();
    for part in folder.strip_prefix(root).unwrap_or(Path::new("")).components() {
        path.push(part);
        match fs::symlink_metadata(&path) {
            Ok(data) if data.is_dir() => {}
            Ok(_) => return Err(io::ErrorKind::NotADirectory.into()),
            Err(_) => fs::create_dir(&path)?,
        }
    }
    Ok(())
}

fn is_plain_file(root: &Path, path: &Path) -> bool {
    let folders = path.strip_prefix(root).into_iter().flat_map(Path::ancestors).skip(1);
    let real = |part: &Path| fs::symlink_metadata(root.join(part)).is_ok_and(|data| data.is_dir());
    fs::symlink_metadata(path).is_ok_and(|data| data.is_file()) && folders.into_iter().all(real)
}

/// A stream that ends with an error after so many bytes.
struct Counted<'a, R> {
    inner: R,
    left: &'a std::cell::Cell<u64>,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        match self.left.get().checked_sub(count as u64) {
            Some(left) if left > 0 || count == 0 => {
                self.left.set(left);
                Ok(count)
            }
            _ => {
                self.left.set(0);
                Err(io::Error::other("it unpacks to too much"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// A tar file of one member whose header says what a careful writer would refuse to.
    fn tar_of(name: &str, kind: EntryType, link: &str, text: &[u8]) -> Vec<u8> {
        let mut header = tar::Header::new_gnu();
        let bytes = header.as_mut_bytes();
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        bytes[157..157 + link.len()].copy_from_slice(link.as_bytes());
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        header.set_entry_type(kind);
        header.set_cksum();
        let mut builder = tar::Builder::new(Vec::new());
        builder.append(&header, text).unwrap();
        builder.into_inner().unwrap()
    }

    fn unpacked(name: &str, bytes: &[u8], bounds: Bounds) -> (Result<(), String>, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(name);
        fs::write(&file, bytes).unwrap();
        let into = folder.path().join("into");
        fs::create_dir(&into).unwrap();
        (unpack(&file, &into, bounds).map_err(|error| error.to_string()), folder)
    }

    fn refused(bytes: &[u8]) -> String {
        let (result, folder) = unpacked("x.tar", bytes, Bounds::default());
        let outside: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(outside.len(), 2, "{outside:?}");
        result.unwrap_err()
    }

    #[test]
    fn what_would_leave_the_folder_is_refused() {
        let file = |name: &str| tar_of(name, EntryType::Regular, "", b"x");
        assert!(refused(&file("../evil")).contains("`../evil` leads out of the folder"));
        assert!(refused(&file("a/../../evil")).contains("leads out of the folder"));
        assert!(refused(&file("/tmp/evil")).contains("leads out of the folder"));
        for link in ["/etc", "..", "../..", "a/../../.."] {
            let error = refused(&tar_of("l", EntryType::Symlink, link, b""));
            assert!(error.contains("`l` is a link out of the folder"), "{link}: {error}");
        }
        assert!(refused(&tar_of("l", EntryType::Link, "/etc/passwd", b"")).contains("is a link to what is not in it"));
        assert!(refused(&tar_of("p", EntryType::Fifo, "", b"")).contains("neither a file, a folder nor a link"));
        assert!(refused(&tar_of("d", EntryType::Char, "", b"")).contains("neither a file, a folder nor a link"));
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let mut bytes = tar_of("l", EntryType::Symlink, "there", b"");
        bytes.truncate(512);
        bytes.extend(tar_of("l/x", EntryType::Regular, "", b"x"));
        assert!(refused(&bytes).contains("`l/x` lies behind a link"));
        let mut bytes = tar_of("l", EntryType::Symlink, "there", b"");
        bytes.truncate(512);
        bytes.extend(tar_of("l", EntryType::Regular, "", b"x"));
        assert!(refused(&bytes).contains("`l` is there twice"));
    }

    #[test]
    fn a_bomb_is_refused_before_it_fills_the_disk() {
        let bounds = Bounds { bytes: 1 << 20, members: 3 };
        let large = tar_of("zeros", EntryType::Regular, "", &vec![0; 3 << 20]);
        let (result, _) = unpacked("x.tar", &large, bounds);
        assert!(result.unwrap_err().contains("`zeros` of 3 MiB"));
        // Many members, each small enough.
        let mut builder = tar::Builder::new(Vec::new());
        for number in 0..3 {
            let mut header = tar::Header::new_gnu();
            header.set_size(1 << 19);
            header.set_mode(0o644);
            builder.append_data(&mut header, format!("f{number}"), vec![0; 1 << 19].as_slice()).unwrap();
        }
        let many = builder.into_inner().unwrap();
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gz.write_all(&many).unwrap();
        let (result, _) = unpacked("x.tar.gz", &gz.finish().unwrap(), bounds);
        assert!(result.unwrap_err().contains("more than 1 MiB when unpacked"));
        let (result, _) = unpacked("x.tar.zst", &zstd::encode_all(many.as_slice(), 3).unwrap(), bounds);
        assert!(result.unwrap_err().contains("more than 1 MiB when unpacked"));
        let mut builder = tar::Builder::new(Vec::new());
        for number in 0..5 {
            let mut header = tar::Header::new_gnu();
            header.set_size(0);
            builder.append_data(&mut header, format!("f{number}"), io::empty()).unwrap();
        }
        let (result, _) = unpacked("x.tar", &builder.into_inner().unwrap(), bounds);
        assert!(result.unwrap_err().contains("more than 3 files"));
    }

    #[test]
    fn a_file_that_is_no_tar_or_is_cut_off_is_an_error() {
        assert!(unpacked("x.tar.gz", b"not gzip", Bounds::default()).0.is_err());
        assert!(unpacked("x.tar.zst", b"not zstd", Bounds::default()).0.is_err());
        let whole = tar_of("f", EntryType::Regular, "", &[1; 2000]);
        assert!(unpacked("x.tar", &whole[..1500], Bounds::default()).0.is_err());
    }

    #[test]
    fn files_folders_and_links_that_stay_inside_come_out() {
        let mut bytes = tar_of("a/f", EntryType::Regular, "", b"text");
        bytes.truncate(1024);
        bytes.extend(tar_of("a/l", EntryType::Symlink, "../a/f", b""));
        bytes.truncate(1536);
        bytes.extend(tar_of("h", EntryType::Link, "a/f", b""));
        let (result, folder) = unpacked("x.tar", &bytes, Bounds::default());
        result.unwrap();
        for name in ["a/f", "a/l", "h"] {
            assert_eq!(fs::read(folder.path().join("into").join(name)).unwrap(), b"text", "{name}");
        }
    }
}
