//! The container's own memory: file systems of which nothing is left when it ends.

use super::error::{Doing, SetupError};
use super::mounts::{Kind, copy_of, file_system, kind_of, restrict};
use super::sys::Attributes;
use crate::plan::{Container, DEFAULT_MEMORY_ROOM, WritableSpace};
use rustix::mount::MountAttrFlags;
use std::os::fd::OwnedFd;
use std::path::Path;

/// What becomes `/dev`. Programs that work on large data in several processes put it into
/// `/dev/shm`: a limit below that of the task itself would end them for no reason.
pub(super) fn dev(container: &Container) -> Result<OwnedFd, SetupError> {
    memory(container.limits.memory.unwrap_or(DEFAULT_MEMORY_ROOM), "0755")
}

/// What becomes `/tmp`.
pub(super) fn tmp(container: &Container) -> Result<OwnedFd, SetupError> {
    match &container.tmp {
        WritableSpace::Memory(bytes) => memory(*bytes, "1777"),
        WritableSpace::Directory(path) => directory(path),
    }
}

/// What the layers of a root are made in.
pub(super) fn layers(container: &Container) -> Result<OwnedFd, SetupError> {
    let bytes = match container.scratch {
        Some(WritableSpace::Memory(bytes)) => bytes,
        Some(WritableSpace::Directory(_)) | None => DEFAULT_MEMORY_ROOM,
    };
    memory(bytes, "0755")
}

/// What `/run` is made of where something is put there: places of files, and nothing else.
pub(super) fn places() -> Result<OwnedFd, SetupError> {
    const ROOM_FOR_NAMES: u64 = 1 << 20;
    memory(ROOM_FOR_NAMES, "0755")
}

fn memory(bytes: u64, mode: &str) -> Result<OwnedFd, SetupError> {
    let size = bytes.to_string();
    let choices = [("size", Some(size.as_str())), ("mode", Some(mode))];
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    file_system("tmpfs", &choices, attributes).doing("make", "a tmpfs")
}

/// A directory of the node, as a mount that gives nobody anything.
fn directory(path: &Path) -> Result<OwnedFd, SetupError> {
    let mount = copy_of(path)?;
    if kind_of(&mount, path)? != Kind::Directory {
        return Err(SetupError::WrongKind { target: path.to_owned() });
    }
    restrict(&mount, Attributes::NO_SUID.and(Attributes::NO_DEV))?;
    Ok(mount)
}
