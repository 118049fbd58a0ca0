//! The verbs of mounting, by descriptors: copy a mount, make a file system, put it in its place.
//!
//! A place inside the container is looked up by the kernel from the container's root, with no
//! link followed on the way: whatever an image holds, a mount lands where the plan says or
//! nowhere. Nothing here knows what a container consists of.

use super::error::{Doing, SetupError};
use super::sys::{Attributes, add_attributes};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, mkdirat, openat, openat2};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    File,
}

/// A copy of what is mounted at a path of the node, and below it, that is mounted nowhere yet.
pub(super) fn copy_of(path: &Path) -> Result<OwnedFd, SetupError> {
    copy_below(CWD, path).doing("open", path)
}

/// The same of what is open already.
pub(super) fn copy_opened(file: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(file, "", flags)
}

/// The same for a path whose last part may be no link.
pub(super) fn copy_of_last(path: &Path) -> Result<OwnedFd, SetupError> {
    copy_entry(CWD, path).doing("open", path)
}

/// The same for a name in a directory. A link is not followed: that it is a copy of one can be seen
/// by its kind.
pub(super) fn copy_entry(directory: impl AsFd, name: &Path) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    open_tree(directory, name, flags)
}

pub(super) fn copy_below(directory: impl AsFd, path: impl AsRef<Path>) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(directory, path.as_ref(), flags)
}

pub(super) fn restrict(mount: &OwnedFd, attributes: Attributes) -> Result<(), SetupError> {
    add_attributes(mount, attributes).doing("set the attributes of", "a mount")
}

pub(super) fn kind_of(file: &OwnedFd, path: &Path) -> Result<Kind, SetupError> {
    let mode = fstat(file).doing("look at", path)?.st_mode;
    let is_directory = FileType::from_raw_mode(mode) == FileType::Directory;
    Ok(if is_directory { Kind::Directory } else { Kind::File })
}

/// An option of a file system: a name, and for some a value.
pub(super) type Choice<'a> = (&'a str, Option<&'a str>);

/// A file system that is mounted nowhere yet.
pub(super) fn file_system(
    name: &'static str,
    choices: &[Choice<'_>],
    attributes: MountAttrFlags,
) -> Result<OwnedFd, Errno> {
    let context = fsopen(name, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in choices {
        match value {
            Some(value) => fsconfig_set_string(context.as_fd(), *key, *value)?,
            None => fsconfig_set_flag(context.as_fd(), *key)?,
        }
    }
    fsconfig_create(context.as_fd())?;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Puts a mount on a name directly below `directory`, which nobody else can change.
pub(super) fn put_below(
    mount: &OwnedFd,
    directory: impl AsFd,
    name: impl AsRef<Path>,
) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(mount, "", directory, name.as_ref(), flags)
}

pub(super) fn put_on(mount: &OwnedFd, place: &OwnedFd) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(mount, "", place, "", flags)
}

/// A directory that is, or will be, the root of the container.
#[derive(Debug)]
pub(super) struct Inside(pub(super) OwnedFd);

impl Inside {
    /// The place of a path inside, or why there is none.
    pub(super) fn place(&self, target: &Path) -> Result<OwnedFd, SetupError> {
        self.open(target, OFlags::PATH)
    }

    /// A directory inside, to be listed.
    pub(super) fn directory(&self, path: &Path) -> Result<OwnedFd, SetupError> {
        self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    fn open(&self, target: &Path, flags: OFlags) -> Result<OwnedFd, SetupError> {
        let resolve =
            ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::CLOEXEC;
        openat2(&self.0, below_root(target), flags, Mode::empty(), resolve).map_err(|errno| {
            let target = target.to_owned();
            match errno {
                Errno::LOOP => SetupError::LinkedTarget { target },
                Errno::NOENT => SetupError::MissingTarget { target },
                Errno::NOTDIR => SetupError::WrongKind { target },
                source => SetupError::Step { act: "look up", object: target, source },
            }
        })
    }

    pub(super) fn put(&self, mount: &OwnedFd, target: &Path) -> Result<(), SetupError> {
        let place = self.place(target)?;
        put_on(mount, &place).map_err(|errno| match errno {
            Errno::NOTDIR | Errno::ISDIR => SetupError::WrongKind { target: target.to_owned() },
            source => SetupError::Step { act: "mount on", object: target.to_owned(), source },
        })
    }

    /// Makes what is missing of a path. Only for trees that are the container's own: nothing is
    /// ever made in an image or on the node.
    pub(super) fn make(&self, target: &Path, kind: Kind) -> Result<(), SetupError> {
        let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
            return Ok(());
        };
        let directory = match self.place(parent) {
            Err(SetupError::MissingTarget { .. }) => {
                self.make(parent, Kind::Directory)?;
                self.place(parent)?
            }
            found => found?,
        };
        match make_below(&directory, name, kind) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(source) => Err(SetupError::Step { act: "make", object: target.to_owned(), source }),
        }
    }
}

pub(super) fn make_below(
    directory: impl AsFd,
    name: impl AsRef<OsStr>,
    kind: Kind,
) -> Result<(), Errno> {
    let name = Path::new(name.as_ref());
    match kind {
        Kind::Directory => mkdirat(directory, name, Mode::from_raw_mode(0o755)),
        Kind::File => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            openat(directory, name, flags, Mode::from_raw_mode(0o644)).map(drop)
        }
    }
}

/// The same path for a look-up that starts at the root.
fn below_root(target: &Path) -> PathBuf {
    let rest = target.strip_prefix("/").unwrap_or(target);
    if rest.as_os_str().is_empty() { PathBuf::from(".") } else { rest.to_owned() }
}
