//! Where outputs go: folders are opened once, judged by where they lead, and worked in by
//! descriptor from then on. A target appears complete or not at all.

use super::modes::{PRIVATE_FILE, USUAL_FILE, USUAL_FOLDER, of_file};
use super::parts::PartNames;
use super::{Progress, StageError};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Stat, fchmod, fstat, mkdirat, openat, renameat, statat,
    symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use shipway_runtime::reach::{self, Reach, Use};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

/// Pieces of a file that may be in memory alone, 1 GiB of it: a large node would hold hundreds, and
/// whoever watches could not tell writing all of that out from a disk that hangs.
const PIECES_UNWRITTEN: u64 = 64;

/// Names that nobody can guess which are tried: one is enough unless the folder itself lies.
const NAMES_TRIED: u32 = 8;

const NEW_FILE: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

pub(super) struct Targets<'a> {
    pub(super) reach: &'a Reach,
    /// Part of the names of what is not complete yet.
    pub(super) mark: &'a str,
    pub(super) progress: &'a Progress,
    /// The folder that all goes into, and its path, once it is open: whoever gives its name to
    /// another one gets nothing of what follows.
    top: Option<(PathBuf, OwnedFd)>,
}

impl<'a> Targets<'a> {
    pub(super) const fn new(reach: &'a Reach, mark: &'a str, progress: &'a Progress) -> Self {
        Targets { reach, mark, progress, top: None }
    }

    /// For all that goes into this folder, which is made unless it is there.
    pub(super) fn below(&self, target: &Path, mode: Mode) -> Result<Self, StageError> {
        self.progress.at(target);
        let folder = self.folder(target, target, mode)?;
        if is_a_trap(&folder).map_err(|errno| unwritten(target, errno))? {
            return Err(StageError::TargetOfOthers { target: target.to_owned() });
        }
        Ok(Targets {
            top: Some((target.to_owned(), folder)),
            ..Self::new(self.reach, self.mark, self.progress)
        })
    }

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
        let failed = |source| StageError::Target { target: to.to_owned(), source };
        let at_first = if mode.is_some() { PRIVATE_FILE } else { USUAL_FILE };
        let made = self.part(&place, |name| openat(&place.folder, name, NEW_FILE, at_first));
        let (file, part) = made.map_err(|errno| failed(errno.into()))?;
        let written = fill(from, &mut File::from(file), mode, self.progress);
        let written = written.and_then(|()| place.complete(&part));
        written.inspect_err(|_| place.drop_part(&part)).map_err(failed)
    }

    pub(super) fn link(&self, leads_to: &OsStr, to: &Path) -> Result<(), StageError> {
        let place = self.place(to)?;
        let made = self.part(&place, |name| symlinkat(leads_to, &place.folder, name));
        let failed = |source| StageError::Target { target: to.to_owned(), source };
        let ((), part) = made.map_err(|errno| failed(errno.into()))?;
        place.complete(&part).inspect_err(|_| place.drop_part(&part)).map_err(failed)
    }

    /// Where a target is made.
    fn place(&self, to: &Path) -> Result<Target, StageError> {
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
        Ok(Target { folder, name: name.to_owned(), mode })
    }

    /// Something new under the name it has at first. That can be guessed, so that another try of
    /// the same task clears it away; where somebody else has it, it is one that cannot.
    fn part<T>(
        &self,
        place: &Target,
        make: impl Fn(&OsStr) -> Result<T, Errno>,
    ) -> Result<(T, OsString), Errno> {
        let names = PartNames::of(&place.name, self.mark);
        let usual = names.usual();
        // What cannot be removed is still there then.
        let _unremoved = unlinkat(&place.folder, &usual, AtFlags::empty());
        match make(&usual) {
            Ok(it) => return Ok((it, usual)),
            Err(Errno::EXIST) => names.clear(&place.folder),
            Err(errno) => return Err(errno),
        }
        for _ in 0..NAMES_TRIED {
            let name = names.random()?;
            match make(&name) {
                Ok(it) => return Ok((it, name)),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::EXIST)
    }

    /// The deepest folder on the way that is there is judged; what is missing is made below it, the
    /// last with this mode.
    fn folder(&self, path: &Path, target: &Path, mode: Mode) -> Result<OwnedFd, StageError> {
        let failed = |errno| unwritten(target, errno);
        let (there, mut folder) = self.deepest(path).map_err(failed)?;
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

    /// The deepest folder on the way that is there.
    fn deepest<'p>(&self, path: &'p Path) -> Result<(&'p Path, OwnedFd), Errno> {
        if let Some((top, folder)) = self.top.as_ref().filter(|(top, _)| path.starts_with(top)) {
            let there = path.ancestors().find(|above| above == top).unwrap_or(path);
            return Ok((there, openat(folder, ".", FOLDER, Mode::empty())?));
        }
        for there in path.ancestors() {
            match reach::open(CWD, there, FOLDER) {
                Err(Errno::NOENT) => {}
                opened => return Ok((there, opened?)),
            }
        }
        Err(Errno::NOENT)
    }
}

/// Whether a folder is one that somebody else has made where everybody may make some: it may have
/// been put there for what others take to be their own.
fn is_a_trap(folder: &OwnedFd) -> Result<bool, Errno> {
    let owner = fstat(folder)?.st_uid;
    let above = statat(folder, "..", AtFlags::empty())?;
    let open_to_all = Mode::from_raw_mode(above.st_mode).contains(Mode::WOTH);
    Ok(open_to_all && owner != geteuid().as_raw() && owner != 0)
}

struct Target {
    folder: OwnedFd,
    name: OsString,
    /// Of the file that has that name now, if it belongs to whoever we copy for.
    mode: Option<Mode>,
}

impl Target {
    fn complete(&self, part: &OsStr) -> io::Result<()> {
        Ok(renameat(&self.folder, part, &self.folder, &self.name)?)
    }

    /// Nobody has a use for what is not complete and never will be.
    fn drop_part(&self, part: &OsStr) {
        let _of_others = unlinkat(&self.folder, part, AtFlags::empty());
    }
}

fn fill(
    from: &mut File,
    file: &mut File,
    mode: Option<Mode>,
    progress: &Progress,
) -> io::Result<()> {
    progress.copy(from, file, (PIECES_UNWRITTEN, File::sync_data))?;
    if let Some(mode) = mode {
        fchmod(&*file, mode)?;
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
