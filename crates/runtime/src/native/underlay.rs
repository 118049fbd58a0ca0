//! A root with places that the tree does not have, without an overlay: directories that lack one
//! are made anew in memory, and everything that was in them is mounted into the copies.
//!
//! For nodes and file systems that refuse overlays, and for the node's own tree, whose mounts an
//! overlay would not show.

use super::error::{Doing, SetupError};
use super::mounts::{Inside, Kind, copy_of, make_below, put_below, restrict};
use super::room;
use super::root::{Place, seen};
use super::shown::{Part, Shows};
use super::sys::Attributes;
use crate::plan::Container;
use rustix::fs::{CWD, FileType, Mode, OFlags, openat, symlinkat};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Most entries that are mounted one by one. Each costs some microseconds and some kernel memory;
/// a directory with more is no place to be made anew.
const ENTRY_LIMIT: usize = 4096;

pub(super) fn make(
    container: &Container,
    tree: &Path,
    missing: &[Place],
    part: Option<&Part>,
) -> Result<Inside, SetupError> {
    let mount = room::layers(container)?;
    put_below(&mount, CWD, "/").doing("mount on", "/")?;
    let inside = Inside(mount);
    let shows = |path: &Path| part.map_or(Shows::All, |part| part.shows(path));
    let exists = |path: &Path| shows(path) != Shows::Nothing && tree.join(relative(path)).is_dir();
    let parts = part.into_iter().flat_map(Part::paths);
    let anew = made_anew(missing.iter().map(|(target, _)| target.as_path()).chain(parts), exists);
    let filling = Filling { container, tree, inside: &inside, anew: &anew, shows: &shows };
    let mut left = ENTRY_LIMIT;
    anew.iter().try_for_each(|directory| filling.fill(directory, &mut left))?;
    missing.iter().try_for_each(|(target, kind)| inside.make(target, *kind))?;
    let read_only = Attributes::READ_ONLY.and(Attributes::NO_SUID).and(Attributes::NO_DEV);
    restrict(&inside.0, read_only)?;
    Ok(inside)
}

/// The directories that lack something, and those above them; parents come first.
fn made_anew<'a>(
    lacking: impl Iterator<Item = &'a Path>,
    exists: impl Fn(&Path) -> bool,
) -> BTreeSet<PathBuf> {
    let above = lacking.flat_map(|target| target.ancestors().skip(1));
    above.filter(|path| exists(path)).map(Path::to_owned).collect()
}

fn relative(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

struct Filling<'a> {
    container: &'a Container,
    tree: &'a Path,
    inside: &'a Inside,
    anew: &'a BTreeSet<PathBuf>,
    /// What of the tree is shown at all. Links in directories that are made anew always are: they
    /// lead to nothing that is not.
    shows: &'a dyn Fn(&Path) -> Shows,
}

impl Filling<'_> {
    fn fill(&self, directory: &Path, left: &mut usize) -> Result<(), SetupError> {
        let source = self.tree.join(relative(directory));
        let place = self.inside.place(directory)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = || openat(CWD, &source, flags, Mode::empty()).doing("open", &source);
        let opened = seen(self.container, open)?;
        let entries = rustix::fs::Dir::new(opened).doing("list", &source)?;
        for entry in entries {
            let entry = entry.doing("list", &source)?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            *left = left.checked_sub(1).ok_or(rustix::io::Errno::TOOBIG).doing("list", &source)?;
            let name = Path::new(OsStr::from_bytes(name));
            let (path, source) = (directory.join(name), source.join(name));
            let kind = entry.file_type();
            if kind != FileType::Symlink && (self.shows)(&path) == Shows::Nothing {
                continue;
            }
            if make_entry(&source, &place, name, kind)? && !self.anew.contains(&path) {
                let mount = seen(self.container, || copy_of(&source))?;
                put_below(&mount, &place, name).doing("mount on", &source)?;
            }
        }
        Ok(())
    }
}

/// Whether there is a place now for what lies there; a link is copied, and that is all.
fn make_entry(
    source: &Path,
    place: &OwnedFd,
    name: &Path,
    kind: FileType,
) -> Result<bool, SetupError> {
    if kind == FileType::Symlink {
        let target = rustix::fs::readlink(source, Vec::new()).doing("read", source)?;
        symlinkat(target.as_c_str(), place, name).doing("make", source)?;
        return Ok(false);
    }
    let is_directory =
        kind == FileType::Directory || (kind == FileType::Unknown && source.is_dir());
    let kind = if is_directory { Kind::Directory } else { Kind::File };
    make_below(place, name, kind).doing("make", source)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_that_exist_and_lack_something_are_made_anew() {
        let exists = |path: &Path| ["/", "/usr", "/usr/lib"].iter().any(|it| path == Path::new(it));
        let missing = ["/usr/lib/x/y", "/work"].map(Path::new).into_iter();
        let anew: Vec<PathBuf> = made_anew(missing, exists).into_iter().collect();
        assert_eq!(anew, ["/", "/usr", "/usr/lib"].map(PathBuf::from));
    }
}
