//! One folder of a tree, opened from the one above it: never by way of a link or into a mount.

use rustix::fs::{
    AtFlags, Dir, Mode, OFlags, ResolveFlags, Stat, chmod, fchmod, fstat, openat, openat2, statat,
    unlinkat,
};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Whose folder it is may read, change and enter it.
const OWN: Mode = Mode::RWXU;

const READ: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Which folder it is, under any name.
pub(crate) type Id = (u64, u64);

pub(crate) fn id(folder: impl AsFd) -> Result<Id, Errno> {
    fstat(folder).map(|found| id_of(&found))
}

pub(crate) const fn id_of(found: &Stat) -> Id {
    (found.st_dev, found.st_ino)
}

/// Whether a name in a folder leads to that other one.
pub(crate) fn is(above: &Dir, name: &CStr, expected: Id) -> bool {
    let found = above.fd().and_then(|above| statat(above, name, AtFlags::SYMLINK_NOFOLLOW));
    found.is_ok_and(|found| id_of(&found) == expected)
}

/// A folder in another one. Its owner may have closed it to everybody, which includes us where we
/// are not root.
pub(crate) fn open(above: BorrowedFd<'_>, name: &CStr) -> Result<Dir, Errno> {
    match open_as(above, name, READ) {
        Err(Errno::ACCESS) => {
            unlock_child(above, name)?;
            Dir::new(open_as(above, name, READ)?)
        }
        opened => Dir::new(opened?),
    }
}

/// The folder that this one is in, if it is still the one that it was found in.
pub(crate) fn open_above(below: BorrowedFd<'_>, expected: Id) -> Result<Dir, Errno> {
    let above = openat(below, c"..", READ, Mode::empty())?;
    if id(&above)? == expected { Dir::new(above) } else { Err(Errno::STALE) }
}

fn open_as(above: BorrowedFd<'_>, name: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
    match openat2(above, name, flags, Mode::empty(), resolve) {
        // Older than the call, or a filter that does not know it. What is mounted there from the
        // same file system cannot be told then; its removal fails, because it is in use.
        Err(Errno::NOSYS | Errno::PERM) => {
            let opened = openat(above, name, flags, Mode::empty())?;
            if id(&opened)?.0 == id(above)?.0 { Ok(opened) } else { Err(Errno::XDEV) }
        }
        // Somebody renames things at this moment; the answer to that is another try.
        Err(Errno::AGAIN) => openat2(above, name, flags, Mode::empty(), resolve),
        opened => opened,
    }
}

/// Opens a folder to us that its mode keeps closed. It is held while its mode is changed, so that
/// nothing else can be put in its place.
fn unlock_child(above: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = open_as(above, name, flags)?;
    // What is only held cannot be changed but by this detour.
    chmod(format!("/proc/self/fd/{}", held.as_raw_fd()), OWN)
}

/// What is in a folder can only be removed where the folder may be changed.
pub(crate) fn unlock(folder: BorrowedFd<'_>) -> Result<(), Errno> {
    fchmod(folder, OWN)
}

/// Something that is no folder. `Errno::ISDIR` says that it is one.
pub(crate) fn remove_file(above: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    gone(unlinkat(above, name, AtFlags::empty()))
}

/// A folder. `Errno::NOTEMPTY` says that there is something in it.
pub(crate) fn remove_folder(above: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    match gone(unlinkat(above, name, AtFlags::REMOVEDIR)) {
        // Some file systems say it so.
        Err(Errno::EXIST) => Err(Errno::NOTEMPTY),
        done => done,
    }
}

fn gone(done: Result<(), Errno>) -> Result<(), Errno> {
    if done == Err(Errno::NOENT) { Ok(()) } else { done }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// What was a folder a moment ago may be a link now: whoever wins that race gains nothing.
    #[test]
    fn a_link_and_a_mount_are_no_folders() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("folder")).unwrap();
        fs::create_dir(dir.path().join("kept")).unwrap();
        symlink("kept", dir.path().join("beside")).unwrap();
        symlink(dir.path().join("kept"), dir.path().join("by path")).unwrap();
        let here = fs::File::open(dir.path()).unwrap();
        assert!(open(here.as_fd(), c"folder").is_ok());
        for link in [c"beside", c"by path"] {
            let opened = open(here.as_fd(), link).map(drop);
            assert!(matches!(opened, Err(Errno::LOOP | Errno::NOTDIR)), "{link:?}: {opened:?}");
        }
        let top = fs::File::open("/").unwrap();
        assert_eq!(open(top.as_fd(), c"proc").map(drop), Err(Errno::XDEV));
    }
}
