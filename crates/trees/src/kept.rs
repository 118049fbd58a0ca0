//! What could not be removed with the rights of whoever it had been given to. It is moved to a
//! folder of ours that nobody else may enter, and is then for people to look at: it may be somebody
//! else's. Nothing here is ever removed again by a program.

use rustix::fs::{CWD, Mode, OFlags, RenameFlags};
use rustix::fs::{fchmod, fstat, mkdirat, openat, renameat_with};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::ffi::{CStr, OsStr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What the folder is called.
pub const KEPT: &str = "kept";

/// Names that are tried for one thing: what is kept under the same name already is from before this
/// site was set up anew, which does not happen often.
const NAMES: u32 = 1_000;

/// For what lies two folders deep in a folder of ours, as the folders of tasks do: beside the one
/// that it lies in.
pub(crate) fn place_for(path: &Path) -> Option<PathBuf> {
    Some(path.parent()?.parent()?.join(KEPT))
}

/// Moves something there, and says where it is now.
pub(crate) fn keep(above: BorrowedFd<'_>, name: &CStr, place: &Path) -> Result<PathBuf, Errno> {
    let kept = open_or_make(place)?;
    for number in 1..=NAMES {
        let mut new_name = name.to_bytes().to_vec();
        if number > 1 {
            new_name.extend(format!(".{number}").into_bytes());
        }
        let new_name = OsStr::from_bytes(&new_name);
        match renameat_with(above, name, &kept, new_name, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(place.join(new_name)),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::EXIST)
}

fn open_or_make(place: &Path) -> Result<OwnedFd, Errno> {
    match mkdirat(CWD, place, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(CWD, place, flags, Mode::empty())?;
    if fstat(&opened)?.st_uid != geteuid().as_raw() {
        return Err(Errno::PERM);
    }
    // Whatever mask this process has.
    fchmod(&opened, Mode::RWXU)?;
    Ok(opened)
}
