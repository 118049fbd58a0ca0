//! Opening what somebody named: once, judged by what was opened and not by its name, and in a
//! folder without following links. What is read afterwards is what was judged.

use super::{SourceError, failed};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;
use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Judging = dyn Fn(BorrowedFd<'_>, &Path) -> Result<(), Refusal> + Send + Sync;

/// Why something is not read.
pub type Refusal = Box<dyn Error + Send + Sync>;

/// Says whether what is open, and was named so, may be read. Everything may unless it is told.
#[derive(Clone, Default)]
pub struct Judge(Option<Arc<Judging>>);

impl Judge {
    pub fn new(
        judge: impl Fn(BorrowedFd<'_>, &Path) -> Result<(), Refusal> + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(judge)))
    }

    fn judge(&self, opened: &impl AsFd, path: &Path) -> Result<(), SourceError> {
        let judged = self.0.as_ref().map(|judge| judge(opened.as_fd(), path));
        judged.unwrap_or(Ok(())).map_err(SourceError::Refused)
    }
}

impl fmt::Debug for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Judge" } else { "Judge(all)" })
    }
}

/// To read something that may be a pipe which nobody writes to.
const READING: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A file of somebody else's choosing: nothing that waits for a writer, and nothing without end.
pub(super) fn open_file(path: &Path, judge: &Judge) -> Result<File, SourceError> {
    let file = open_named(path, READING).map_err(|errno| failed("open", path)(errno.into()))?;
    plain(file, path, judge)
}

fn plain(file: OwnedFd, path: &Path, judge: &Judge) -> Result<File, SourceError> {
    judge.judge(&file, path)?;
    let file = File::from(file);
    let found = file.metadata().map_err(failed("look at", path))?;
    if found.is_file() { Ok(file) } else { Err(SourceError::NotAFile { path: path.into() }) }
}

/// Links are followed, but for those by which the kernel shows the files of processes: in those
/// paths mean something else.
fn open_named(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS) {
        Err(Errno::NOSYS) => openat(CWD, path, flags, Mode::empty()),
        opened => opened,
    }
}

/// A folder of somebody else's choosing.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    opened: OwnedFd,
    judge: Judge,
}

impl Folder {
    pub(super) fn open(path: &Path, judge: &Judge) -> Result<Self, SourceError> {
        let opened =
            open_named(path, FOLDER).map_err(|errno| failed("open", path)(errno.into()))?;
        judge.judge(&opened, path)?;
        Ok(Self { path: path.to_owned(), opened, judge: judge.clone() })
    }

    /// A file in it, by the names of the folders on the way and its own. One at a time and without
    /// links, which every kernel can: no name has a slash or leads up.
    pub(super) fn file(&self, way: &[&str], name: &str) -> Result<File, SourceError> {
        let mut path = self.path.clone();
        let mut at: Option<OwnedFd> = None;
        for part in way {
            path.push(part);
            at = Some(self.below(at.as_ref(), part, FOLDER, &path)?);
        }
        path.push(name);
        plain(self.below(at.as_ref(), name, READING, &path)?, &path, &self.judge)
    }

    fn below(
        &self,
        at: Option<&OwnedFd>,
        name: &str,
        flags: OFlags,
        path: &Path,
    ) -> Result<OwnedFd, SourceError> {
        let at = at.unwrap_or(&self.opened);
        let opened = openat(at, name, flags | OFlags::NOFOLLOW, Mode::empty());
        opened.map_err(|errno| match errno {
            // What a link is said to be: one that is not followed, or no folder.
            Errno::LOOP | Errno::NOTDIR => SourceError::Link { path: path.to_owned() },
            errno => failed("open", path)(errno.into()),
        })
    }
}

/// A part of a file that several read at a time.
#[derive(Debug)]
pub(super) struct Piece {
    file: Arc<File>,
    offset: u64,
    left: u64,
}

impl Piece {
    pub(super) fn new(file: &Arc<File>, offset: u64, size: u64) -> Self {
        Self { file: Arc::clone(file), offset, left: size }
    }
}

impl Read for Piece {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let buffer = buffer.get_mut(..most).unwrap_or_default();
        let count = self.file.read_at(buffer, self.offset)?;
        self.offset += count as u64;
        self.left -= count as u64;
        Ok(count)
    }
}
