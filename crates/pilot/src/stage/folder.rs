//! A folder that nothing leads out of: names are followed below it and nowhere else, whatever
//! links lie there.

use super::leases::when_free;
use super::modes::{PRIVATE_FILE, USUAL_FOLDER};
use super::{Remembered, Stamp};
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, mkdirat, openat, openat2, statat,
    symlinkat, unlinkat,
};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use shipway_model::Digest;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

#[derive(Debug)]
pub(super) struct Folder(OwnedFd);

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Self, Errno> {
        Ok(Folder(rustix::fs::open(path, FOLDER | OFlags::NOFOLLOW, Mode::empty())?))
    }

    /// What is there, following links that stay below. `Errno::XDEV`: one leads out.
    pub(super) fn read(&self, name: &Path) -> Result<(File, Stat), Errno> {
        // Without waiting: what lies there may be a pipe that nobody writes to.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let file = when_free(|| openat2(&self.0, name, flags, Mode::empty(), resolve))?;
        let stat = rustix::fs::fstat(&file)?;
        Ok((File::from(file), stat))
    }

    /// What is there by this name, where nothing on the way to it is a link, and all of it is on
    /// this file system.
    pub(super) fn read_plainly(&self, name: &Path) -> Result<(File, Stat), Errno> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let file = when_free(|| openat2(&self.0, name, flags, Mode::empty(), resolve))?;
        let stat = rustix::fs::fstat(&file)?;
        Ok((File::from(file), stat))
    }

    /// A new file in place of whatever has that name; folders on the way are made.
    pub(super) fn create(&self, name: &Path) -> Result<File, Errno> {
        let (folder, last) = self.parent(name)?;
        clear(&folder, last)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        Ok(File::from(openat(&folder, last, flags | OFlags::NOFOLLOW, PRIVATE_FILE)?))
    }

    pub(super) fn link(&self, name: &Path, leads_to: &Path) -> Result<(), Errno> {
        let (folder, last) = self.parent(name)?;
        clear(&folder, last)?;
        symlinkat(leads_to, &folder, last)
    }

    /// Makes folders, one in the other, where there are none; the last of them with this mode.
    pub(super) fn make(&self, name: &Path, mode: Mode) -> Result<OwnedFd, Errno> {
        let mut at = self.0.try_clone().map_err(|_| Errno::MFILE)?;
        let mut parts = name.components().peekable();
        while let Some(part) = parts.next() {
            let Component::Normal(part) = part else { continue };
            let mode = if parts.peek().is_none() { mode } else { USUAL_FOLDER };
            match mkdirat(&at, part, mode) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
            at = openat(&at, part, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
        }
        Ok(at)
    }

    fn parent<'a>(&self, name: &'a Path) -> Result<(OwnedFd, &'a OsStr), Errno> {
        let last = name.file_name().ok_or(Errno::INVAL)?;
        Ok((self.make(name.parent().unwrap_or(Path::new("")), USUAL_FOLDER)?, last))
    }

    pub(super) fn is(&self, stat: (u64, u64)) -> bool {
        rustix::fs::fstat(&self.0).is_ok_and(|own| (own.st_dev, own.st_ino) == stat)
    }

    /// The files at its top, as they are now.
    pub(super) fn remember(&self) -> Result<Remembered, Errno> {
        let mut found = Remembered::new();
        for name in names(&self.0)? {
            let stat = statat(&self.0, &*name, AtFlags::SYMLINK_NOFOLLOW)?;
            found.insert(key(&name), stamp(&stat));
        }
        Ok(found)
    }

    pub(super) fn top(&self) -> Result<Vec<OsString>, Errno> {
        names(&self.0)
    }

    pub(super) fn look(&self, name: &OsStr) -> Result<Stat, Errno> {
        statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)
    }
}

/// What is in an open folder.
pub(super) fn names(folder: &OwnedFd) -> Result<Vec<OsString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

fn clear(folder: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    match unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Longer names are remembered by their digest: how long they are is the task's choice, and the
/// pilot keeps all of them for as long as it runs.
const LONG_NAME: usize = 64;

/// Different for different names, also for those that are no text.
pub(super) fn key(name: &OsStr) -> String {
    let name = name.as_bytes();
    if name.len() <= LONG_NAME {
        return name.escape_ascii().to_string();
    }
    // Of no short one: a name has no such sign but behind a backslash.
    format!("\n{}", Digest(Sha256::digest(name).into()).hex())
}

pub(super) fn stamp(stat: &Stat) -> Stamp {
    let changed = (stat.st_ctime, i64::try_from(stat.st_ctime_nsec).unwrap_or(0));
    Stamp { inode: stat.st_ino, size: stat.st_size, changed }
}

pub(super) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}
