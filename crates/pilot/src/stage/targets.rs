//! Where outputs go: folders are opened once, judged by where they lead, and worked in by
//! descriptor from then on. A target appears complete or not at all.

use super::modes::{PRIVATE_FILE, USUAL_FILE, USUAL_FOLDER, of_file};
use super::{Progress, StageError};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Stat, fchmod, mkdirat, openat, renameat, statat,
    symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use shipway_runtime::reach::{self, Reach, Use};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

/// Bytes of a name that are part of the name of what is not complete yet; a name may have 255.
const NAME_PART: usize = 100;

/// Pieces of a file that may be in memory alone, 1 GiB of it: a large node would hold hundreds, and
/// whoever watches could not tell writing all of that out from a disk that hangs.
const PIECES_UNWRITTEN: u64 = 64;

const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

pub(super) struct Targets<'a> {
    pub(super) reach: &'a Reach,
    /// Part of the names of what is not complete yet.
    pub(super) mark: &'a str,
    pub(super) progress: &'a Progress,
}

impl Targets<'_> {
    /// Sees to it that a folder is there. One that was there already keeps its mode.
    pub(super) fn make(&self, target: &Path, mode: Mode) -> Result<(), StageError> {
        self.progress.at(target);
        self.folder(target, target, mode).map(drop)
    }

    /// A copy, under another name first, then under its own. `mode` is that of the original; where
    /// there is none it is that of the file that is replaced, as a shell would leave it.
    pub(super) fn write(
        &self,
        from: &mut File,
        to: &Path,
        mode: Option<Mode>,
    ) -> Result<(), StageError> {
        let place = self.place(to)?;
        let mode = mode.or(place.mode);
        let written = fill(from, &place, mode, self.progress).and_then(|()| place.complete());
        written.map_err(|source| {
            // What is left of it is in nobody's way: the next try clears it away.
            let _ = unlinkat(&place.folder, &place.part, AtFlags::empty());
            StageError::Target { target: to.to_owned(), source }
        })
    }

    pub(super) fn link(&self, leads_to: &OsStr, to: &Path) -> Result<(), StageError> {
        let place = self.place(to)?;
        let made = symlinkat(leads_to, &place.folder, &place.part).map_err(io::Error::from);
        let made = made.and_then(|()| place.complete());
        made.map_err(|source| StageError::Target { target: to.to_owned(), source })
    }

    /// Where a target is made; nothing is there under the name it has at first.
    fn place(&self, to: &Path) -> Result<Place, StageError> {
        self.progress.at(to);
        let unfit = || StageError::TargetKind { target: to.to_owned() };
        let (Some(parent), Some(name)) = (to.parent(), to.file_name()) else {
            return Err(unfit());
        };
        let folder = self.folder(parent, to, USUAL_FOLDER)?;
        let there = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).ok();
        let mode = match there.map(|found| (FileType::from_raw_mode(found.st_mode), found)) {
            Some((FileType::RegularFile, found)) => mode_of_own(&found),
            Some((FileType::Symlink, _)) | None => None,
            Some(_) => return Err(unfit()),
        };
        let start = &name.as_bytes()[..name.len().min(NAME_PART)];
        let part = [b".", start, b".", self.mark.as_bytes(), b".part"].concat();
        let part = OsStr::from_bytes(&part).to_owned();
        match unlinkat(&folder, &part, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(Place { folder, part, name: name.to_owned(), mode }),
            Err(errno) => Err(unwritten(to, errno)),
        }
    }

    /// The deepest folder on the way that is there is judged; what is missing is made below it, the
    /// last with this mode.
    fn folder(&self, path: &Path, target: &Path, mode: Mode) -> Result<OwnedFd, StageError> {
        let failed = |errno| unwritten(target, errno);
        let mut above = path.ancestors();
        let (there, mut folder) = loop {
            let there = above.next().ok_or(Errno::NOENT).map_err(failed)?;
            match reach::open(CWD, there, FOLDER) {
                Ok(folder) => break (there, folder),
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(failed(errno)),
            }
        };
        self.reach.judge(&folder, target, Use::Write)?;
        let mut missing = path.strip_prefix(there).unwrap_or(path).components().peekable();
        while let Some(part) = missing.next() {
            let Component::Normal(part) = part else { return Err(failed(Errno::NOENT)) };
            let mode = if missing.peek().is_none() { mode } else { USUAL_FOLDER };
            match mkdirat(&folder, part, mode) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(failed(errno)),
            }
            let next = openat(&folder, part, FOLDER | OFlags::NOFOLLOW, Mode::empty());
            folder = next.map_err(failed)?;
            // Somebody else may have put it there just now.
            self.reach.judge(&folder, target, Use::Write)?;
        }
        Ok(folder)
    }
}

struct Place {
    folder: OwnedFd,
    part: OsString,
    name: OsString,
    /// Of the file that has that name now, if it belongs to whoever we copy for.
    mode: Option<Mode>,
}

impl Place {
    fn complete(&self) -> io::Result<()> {
        Ok(renameat(&self.folder, &self.part, &self.folder, &self.name)?)
    }
}

fn fill(from: &mut File, place: &Place, mode: Option<Mode>, progress: &Progress) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let at_first = if mode.is_some() { PRIVATE_FILE } else { USUAL_FILE };
    let file = openat(&place.folder, &place.part, flags, at_first)?;
    let mut file = File::from(file);
    progress.copy(from, &mut file, (PIECES_UNWRITTEN, File::sync_data))?;
    if let Some(mode) = mode {
        fchmod(&file, mode)?;
    }
    // The end of the task is told after this: what it made must then be there to stay.
    file.sync_data()
}

/// What others may do with a file of theirs says nothing about what they may do with one of ours.
fn mode_of_own(found: &Stat) -> Option<Mode> {
    (found.st_uid == geteuid().as_raw()).then(|| of_file(found.st_mode))
}

fn unwritten(target: &Path, errno: Errno) -> StageError {
    StageError::Target { target: target.to_owned(), source: errno.into() }
}
