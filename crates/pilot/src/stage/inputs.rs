//! Brings files and folders into a work directory. They are read as the one who asked for them,
//! links included; they are written below the work directory and nowhere else.

use super::folder::Folder;
use super::{Input, Remembered, StageError, StageIn};
use rustix::fs::OFlags;
use std::fs::{DirEntry, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What of a file's mode is kept: who may read, write and run it.
const PERMISSIONS: u32 = 0o777;

pub(super) fn bring(plan: &StageIn) -> Result<Remembered, StageError> {
    if let Some((from, to)) = &plan.stdin {
        fill(from, to)?;
    }
    let Some(path) = &plan.work else { return Ok(Remembered::new()) };
    let work = open(path)?;
    for input in &plan.inputs {
        bring_one(input, &work)?;
    }
    let unreadable =
        |errno: rustix::io::Errno| StageError::Work { path: path.clone(), source: errno.into() };
    if plan.remember { work.remember().map_err(unreadable) } else { Ok(Remembered::new()) }
}

fn open(path: &Path) -> Result<Folder, StageError> {
    let failed =
        |errno: rustix::io::Errno| StageError::Work { path: path.to_owned(), source: errno.into() };
    Folder::open(path).map_err(failed)
}

fn bring_one(input: &Input, work: &Folder) -> Result<(), StageError> {
    let path = || input.source.clone();
    let found = input.source.metadata();
    let found = found.map_err(|source| StageError::Input { path: path(), source })?;
    if found.is_dir() {
        return bring_folder(&input.source, &input.target, &found, work);
    }
    if input.contents {
        return Err(StageError::InputNoFolder { path: path() });
    }
    copy(&input.source, work, &input.target)
}

/// All that is in a folder. Links in it are copied as the files they lead to; those that lead to
/// a folder, or nowhere, stay links, so that none leads round in a circle.
///
/// One folder after the other: how deep they are is somebody else's choice.
fn bring_folder(
    source: &Path,
    target: &Path,
    found: &Metadata,
    work: &Folder,
) -> Result<(), StageError> {
    let mut folders = vec![(source.to_owned(), target.to_owned(), found.clone())];
    while let Some((source, target, found)) = folders.pop() {
        if work.is((found.dev(), found.ino())) {
            return Err(StageError::InputAround { path: source });
        }
        work.make(&target).map_err(|errno| unwritten(&target, errno))?;
        for entry in source.read_dir().map_err(|error| unread(&source, error))? {
            let entry = entry.map_err(|error| unread(&source, error))?;
            folders.extend(bring_entry(&entry, target.join(entry.file_name()), work)?);
        }
    }
    Ok(())
}

/// Copies into a file that was made for it, in a folder where this account may make none.
fn fill(source: &Path, file: &Path) -> Result<(), StageError> {
    let (mut from, _) = open_plain(source)?;
    let unwritten = |error| StageError::Place { path: file.to_owned(), source: error };
    let flags = i32::try_from(OFlags::NOFOLLOW.bits()).expect("flags of Linux fit");
    let mut options = OpenOptions::new();
    let mut to = options.write(true).custom_flags(flags).open(file).map_err(unwritten)?;
    io::copy(&mut from, &mut to).map_err(unwritten)?;
    Ok(())
}

/// A folder that is still to be brought, where to, and which it is.
type ToBring = (PathBuf, PathBuf, Metadata);

fn bring_entry(
    entry: &DirEntry,
    inside: PathBuf,
    work: &Folder,
) -> Result<Option<ToBring>, StageError> {
    let path = entry.path();
    let kind = entry.file_type().map_err(|error| unread(&path, error))?;
    if kind.is_symlink() && !path.metadata().is_ok_and(|found| found.is_file()) {
        let leads_to = path.read_link().map_err(|error| unread(&path, error))?;
        work.link(&inside, &leads_to).map_err(|errno| unwritten(&inside, errno))?;
        return Ok(None);
    }
    if kind.is_dir() {
        let found = entry.metadata().map_err(|error| unread(&path, error))?;
        return Ok(Some((path, inside, found)));
    }
    copy(&path, work, &inside).map(|()| None)
}

fn unread(path: &Path, source: io::Error) -> StageError {
    StageError::Input { path: path.to_owned(), source }
}

fn unwritten(target: &Path, errno: rustix::io::Errno) -> StageError {
    StageError::Place { path: target.to_owned(), source: errno.into() }
}

fn copy(source: &Path, work: &Folder, target: &Path) -> Result<(), StageError> {
    let (mut from, found) = open_plain(source)?;
    let unwritten = |error| StageError::Place { path: target.to_owned(), source: error };
    let mut to = work.create(target).map_err(|errno| unwritten(errno.into()))?;
    // Of the two only the writing side can run out of something.
    io::copy(&mut from, &mut to).map_err(unwritten)?;
    let mode = Permissions::from_mode(found.mode() & PERMISSIONS);
    to.set_permissions(mode).map_err(unwritten)
}

fn open_plain(source: &Path) -> Result<(File, Metadata), StageError> {
    let unread = |error| StageError::Input { path: source.to_owned(), source: error };
    let (from, found) = open_source(source).map_err(unread)?;
    if !found.is_file() {
        return Err(StageError::InputKind { path: source.to_owned() });
    }
    Ok((from, found))
}

fn open_source(source: &Path) -> io::Result<(File, Metadata)> {
    // Without waiting: it may be a pipe that nobody writes to.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).expect("flags of Linux fit");
    let file = OpenOptions::new().read(true).custom_flags(flags).open(source)?;
    let found = file.metadata()?;
    Ok((file, found))
}
