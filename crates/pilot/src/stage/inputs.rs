//! Brings files and folders into a work directory. They are read as the one who asked for them,
//! links included, and from nowhere that is closed to tasks; they are written below the work
//! directory and nowhere else.

use super::folder::{Folder, kind, names};
use super::leases::when_free;
use super::talk::Talk;
use super::{Input, Progress, Remembered, StageError, StageIn};
use super::{given, made, modes};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fchmod, readlinkat, statat};
use rustix::io::Errno;
use shipway_runtime::reach::{self, Reach, Use};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A work directory is gone with its task: what is put there need not be on disk.
pub(super) const NEVER: (u64, fn(&File) -> io::Result<()>) = (u64::MAX, |_| Ok(()));

pub(super) fn bring(
    plan: &StageIn,
    talk: Option<&Talk>,
    progress: &Progress,
) -> Result<Remembered, StageError> {
    let reach = &plan.reach;
    if let Some((from, to)) = &plan.stdin {
        progress.at(from);
        let (file, found) = open_source(reach, CWD, from, from)?;
        if !found.is_file() {
            return Err(StageError::InputKind { path: from.clone() });
        }
        fill(file, to, progress)?;
    }
    let Some(path) = &plan.work else { return Ok(Remembered::new()) };
    let work = open(path)?;
    if let (Some(manifest), Some(talk)) = (&plan.given, talk) {
        given::make(manifest, talk, &work, progress)?;
    }
    let bringer = Bringer { reach, work: &work, progress };
    for input in &plan.inputs {
        bringer.bring(input)?;
    }
    let unreadable = |errno: Errno| StageError::Work { path: path.clone(), source: errno.into() };
    if plan.remember && plan.given.is_some() {
        return made::remember_all(&work);
    }
    if plan.remember { work.remember().map_err(unreadable) } else { Ok(Remembered::new()) }
}

fn open(path: &Path) -> Result<Folder, StageError> {
    let failed = |errno: Errno| StageError::Work { path: path.to_owned(), source: errno.into() };
    Folder::open(path).map_err(failed)
}

/// Something that may be read.
type Opened = (File, Metadata);

struct Bringer<'a> {
    reach: &'a Reach,
    work: &'a Folder,
    progress: &'a Progress,
}

impl Bringer<'_> {
    fn bring(&self, input: &Input) -> Result<(), StageError> {
        let path = &input.source;
        self.progress.at(path);
        let (file, found) = open_source(self.reach, CWD, path, path)?;
        if found.is_dir() {
            return self.folder((file, found), path, &input.target);
        }
        if input.contents {
            return Err(StageError::InputNoFolder { path: path.clone() });
        }
        self.copy((file, found), path, &input.target)
    }

    /// All that is in a folder. Links in it are copied as the files they lead to; those that lead
    /// to a folder, nowhere, or where tasks may not look stay links, so that none leads round in a
    /// circle.
    ///
    /// One folder after the other: how deep they are is somebody else's choice.
    fn folder(&self, from: Opened, source: &Path, target: &Path) -> Result<(), StageError> {
        let mut left = vec![(source.to_owned(), target.to_owned())];
        let mut first = Some(from);
        while let Some((source, target)) = left.pop() {
            let reopen = || open_source(self.reach, CWD, &source, &source);
            let (file, found) = first.take().map_or_else(reopen, Ok)?;
            if self.work.is((found.dev(), found.ino())) {
                return Err(StageError::InputAround { path: source });
            }
            let made = self.work.make(&target, modes::of_folder(found.mode()));
            made.map_err(|errno| unwritten(&target, errno.into()))?;
            let folder = OwnedFd::from(file);
            for name in names(&folder).map_err(|errno| unread(&source, errno))? {
                let (path, inside) = (source.join(&name), target.join(&name));
                self.progress.at(&path);
                if self.entry((&folder, &name), &path, &inside)? {
                    left.push((path, inside));
                }
            }
        }
        Ok(())
    }

    /// Something in a folder. Whether it is a folder itself, which is left to be brought.
    fn entry(
        &self,
        (folder, name): (&OwnedFd, &OsStr),
        path: &Path,
        inside: &Path,
    ) -> Result<bool, StageError> {
        let look = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
        let is_link = kind(&look.map_err(|errno| unread(path, errno))?) == FileType::Symlink;
        match open_source(self.reach, folder, Path::new(name), path) {
            Ok((_, found)) if found.is_dir() && !is_link => return Ok(true),
            Ok(from) if from.1.is_file() || !is_link => self.copy(from, path, inside)?,
            Err(error) if !is_link => return Err(error),
            Ok(_) | Err(_) => {
                let leads_to = readlinkat(folder, name, Vec::new());
                let leads_to = leads_to.map_err(|errno| unread(path, errno))?;
                let made =
                    self.work.link(inside, Path::new(OsStr::from_bytes(leads_to.as_bytes())));
                made.map_err(|errno| unwritten(inside, errno.into()))?;
            }
        }
        Ok(false)
    }

    fn copy(&self, from: Opened, source: &Path, target: &Path) -> Result<(), StageError> {
        let (mut from, found) = from;
        if !found.is_file() {
            return Err(StageError::InputKind { path: source.to_owned() });
        }
        let failed = |error| unwritten(target, error);
        let mut to = self.work.create(target).map_err(|errno| failed(errno.into()))?;
        // Of the two only the writing side can run out of something.
        self.progress.copy(&mut from, &mut to, NEVER).map_err(failed)?;
        fchmod(&to, modes::of_file(found.mode())).map_err(|errno| failed(errno.into()))
    }
}

/// Judged by what was really opened.
fn open_source(
    reach: &Reach,
    at: impl AsFd,
    name: &Path,
    path: &Path,
) -> Result<Opened, StageError> {
    // Without waiting: it may be a pipe that nobody writes to.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = when_free(|| reach::open(at.as_fd(), name, flags));
    let file = opened.map_err(|errno| unread(path, errno))?;
    reach.judge(&file, path, Use::Read)?;
    let file = File::from(file);
    let found = file.metadata();
    let failed = |source| StageError::Input { path: path.to_owned(), source };
    Ok((file, found.map_err(failed)?))
}

/// Copies into a file that was made for it, in a folder where this account may make none.
fn fill(mut from: File, file: &Path, progress: &Progress) -> Result<(), StageError> {
    let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let to = rustix::fs::open(file, flags, Mode::empty());
    let mut to = File::from(to.map_err(|errno| unwritten(file, errno.into()))?);
    progress.copy(&mut from, &mut to, NEVER).map_err(|error| unwritten(file, error))
}

fn unread(path: &Path, errno: Errno) -> StageError {
    StageError::Input { path: path.to_owned(), source: errno.into() }
}

fn unwritten(target: &Path, source: io::Error) -> StageError {
    StageError::Place { path: target.to_owned(), source }
}
