//! A root with places that the tree does not have, without an overlay: directories that lack one
//! are made anew in memory, and everything that was in them is mounted into the copies.
//!
//! For nodes and file systems that refuse overlays, and for the node's own tree, whose mounts an
//! overlay would not show.
//!
//! Tasks may be at work in the tree meanwhile, and exchange in it whatever they may write. So each
//! directory is opened once, behind no link, and everything in it is taken from that descriptor by
//! its own name, be it a link or not. No path is looked up twice.

use super::error::{Doing, SetupError};
use super::mounts::{Inside, Kind, copy_entry, make_below, put_below, restrict};
use super::room;
use super::root::{MountPoint, seen};
use super::shown::{Part, Shows};
use super::sys::Attributes;
use crate::plan::Container;
use rustix::fs::{CWD, Dir, FileType, fstat, readlinkat, symlinkat};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Most entries that are mounted one by one. Each costs some microseconds and some kernel memory;
/// a directory with more is no place to be made anew.
const ENTRY_LIMIT: usize = 4096;

pub(super) fn make(
    container: &Container,
    tree: &Inside,
    missing: &[MountPoint],
    part: Option<&Part>,
) -> Result<Inside, SetupError> {
    let mount = room::layers(container)?;
    put_below(&mount, CWD, "/").doing("mount on", "/")?;
    let inside = Inside(mount);
    let shows = |path: &Path| part.map_or(Shows::All, |part| part.shows(path));
    let targets = || missing.iter().map(|(target, _)| target.as_path());
    let above = above(targets().chain(part.into_iter().flat_map(Part::paths)));
    let above = above.into_iter().filter(|path| shows(path) != Shows::Nothing);
    let anew = seen(container, || directories(tree, above))?;
    // All places first: while there is nothing of the tree, none is made in a directory of it.
    anew.keys().try_for_each(|path| inside.make(path, Kind::Directory))?;
    missing.iter().try_for_each(|(target, kind)| inside.make(target, *kind))?;
    let made = targets().flat_map(Path::ancestors).chain(anew.keys().copied()).collect();
    let filling = Filling { container, inside: &inside, made, shows: &shows };
    let mut left = ENTRY_LIMIT;
    anew.iter().try_for_each(|(path, opened)| filling.fill(path, opened, &mut left))?;
    let read_only = Attributes::READ_ONLY.and(Attributes::NO_SUID).and(Attributes::NO_DEV);
    restrict(&inside.0, read_only)?;
    Ok(inside)
}

/// The directories above something that is lacking.
fn above<'a>(lacking: impl Iterator<Item = &'a Path>) -> BTreeSet<&'a Path> {
    lacking.flat_map(|target| target.ancestors().skip(1)).collect()
}

/// Those that the tree has, open; parents come first. What is behind a link is not the tree's.
fn directories<'a>(
    tree: &Inside,
    paths: impl Iterator<Item = &'a Path>,
) -> Result<BTreeMap<&'a Path, OwnedFd>, SetupError> {
    let open = |path| match tree.directory(path) {
        Ok(opened) => Some(Ok((path, opened))),
        Err(
            SetupError::MissingTarget { .. }
            | SetupError::LinkedTarget { .. }
            | SetupError::WrongKind { .. },
        ) => None,
        Err(error) => Some(Err(error)),
    };
    paths.filter_map(open).collect()
}

struct Filling<'a> {
    container: &'a Container,
    inside: &'a Inside,
    /// Directories that are made anew, and places that the tree does not have.
    made: BTreeSet<&'a Path>,
    /// What of the tree is shown at all. Links in directories that are made anew always are: they
    /// lead to nothing that is not.
    shows: &'a dyn Fn(&Path) -> Shows,
}

/// Something in a directory of the tree, and its place in the copy.
struct Entry<'a> {
    from: &'a OwnedFd,
    to: &'a OwnedFd,
    name: &'a Path,
    path: &'a Path,
}

impl Filling<'_> {
    fn fill(&self, path: &Path, from: &OwnedFd, left: &mut usize) -> Result<(), SetupError> {
        let to = &self.inside.place(path)?;
        let listed = fcntl_dupfd_cloexec(from, 0).and_then(Dir::new).doing("list", path)?;
        for entry in listed {
            let entry = entry.doing("list", path)?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            *left = left.checked_sub(1).ok_or(Errno::TOOBIG).doing("list", path)?;
            let name = Path::new(OsStr::from_bytes(name));
            let path = &path.join(name);
            self.add(&Entry { from, to, name, path }, entry.file_type())?;
        }
        Ok(())
    }

    /// What it was when it was listed spares work. What counts is what it is when it is taken.
    fn add(&self, entry: &Entry<'_>, listed: FileType) -> Result<(), SetupError> {
        let path = entry.path;
        if self.made.contains(path) {
            return Ok(());
        }
        let is_shown = (self.shows)(path) == Shows::All;
        match listed {
            FileType::Symlink => return self.copy_link(entry),
            FileType::Unknown => {}
            _ if !is_shown => return Ok(()),
            _ => {}
        }
        let mount = match seen(self.container, || Ok(copy_entry(entry.from, entry.name)))? {
            // Somebody has removed it.
            Err(Errno::NOENT) => return Ok(()),
            mount => mount.doing("open", path)?,
        };
        let kind = FileType::from_raw_mode(fstat(&mount).doing("look at", path)?.st_mode);
        let kind = match kind {
            FileType::Symlink => return self.copy_link(entry),
            _ if !is_shown => return Ok(()),
            FileType::Directory => Kind::Directory,
            _ => Kind::File,
        };
        if taken(make_below(entry.to, entry.name, kind)).doing("make", path)? {
            return Ok(());
        }
        put_below(&mount, entry.to, entry.name).doing("mount on", path)
    }

    fn copy_link(&self, entry: &Entry<'_>) -> Result<(), SetupError> {
        let read = || readlinkat(entry.from, entry.name, Vec::new()).doing("read", entry.path);
        let leads_to = seen(self.container, read)?;
        let made = symlinkat(leads_to.as_c_str(), entry.to, entry.name);
        taken(made).doing("make", entry.path).map(drop)
    }
}

/// Whether there was one of that name before: what is renamed meanwhile may be listed twice.
fn taken(made: Result<(), Errno>) -> Result<bool, Errno> {
    match made {
        Ok(()) => Ok(false),
        Err(Errno::EXIST) => Ok(true),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags};
    use std::os::unix::fs::symlink;

    #[test]
    fn only_directories_that_exist_and_lack_something_are_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("usr/lib")).unwrap();
        std::fs::create_dir(dir.path().join("kept")).unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        symlink("kept", dir.path().join("link")).unwrap();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let tree = Inside(rustix::fs::open(dir.path(), flags, Mode::empty()).unwrap());
        let lacking = ["/usr/lib/x/y", "/work", "/link/x", "/file/x"].map(Path::new).into_iter();
        let anew = directories(&tree, above(lacking).into_iter()).unwrap();
        let anew: Vec<&Path> = anew.into_keys().collect();
        assert_eq!(anew, ["/", "/usr", "/usr/lib"].map(Path::new));
    }
}
