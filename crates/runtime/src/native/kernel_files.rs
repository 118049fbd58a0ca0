//! `/proc` and `/sys`: its own processes, and nothing of the kernel that can be changed.

use super::dev;
use super::error::{Doing, SetupError};
use super::mounts::{
    Inside, Kind, copy_below, copy_of, file_system, kind_of, put_below, put_on, restrict,
};
use super::sys::Attributes;
use crate::plan::{Container, Root};
use rustix::fs::{Access, AtFlags, accessat};
use rustix::mount::MountAttrFlags;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Directories of `/proc` nobody inside needs.
const EMPTY_DIRECTORIES: [&str; 3] = ["acpi", "asound", "scsi"];

/// Files of `/proc` that tell about the whole node, or are its memory.
const EMPTY_FILES: [&str; 6] =
    ["kcore", "keys", "latency_stats", "timer_list", "timer_stats", "sched_debug"];

/// Parts of `/proc` that change the kernel. An ordinary user cannot write them anyway; a mistake
/// of the kernel should not be enough.
const READ_ONLY: [&str; 5] = ["bus", "fs", "irq", "sys", "sysrq-trigger"];

/// The same for tasks that are root's: they own these files.
const READ_ONLY_FOR_ROOT: [&str; 2] = ["driver", "mtrr"];

/// Directories of `/sys` with the node's firmware and its power meters, by which other users'
/// secrets have been measured.
const EMPTY_SYS: [&str; 2] = ["firmware", "devices/virtual/powercap"];

/// Must run as the first process of the new process namespace.
pub(super) fn make(
    container: &Container,
    inside: &Inside,
    dev: &OwnedFd,
) -> Result<(), SetupError> {
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let proc = file_system("proc", &[], attributes).doing("make", "a proc")?;
    inside.put(&proc, Path::new("/proc"))?;
    let of_root = container.user.as_ref().is_some_and(|user| user.uid == 0);
    let of_root = READ_ONLY_FOR_ROOT.iter().filter(|_| of_root);
    for name in READ_ONLY.iter().chain(of_root).copied() {
        // Not every kernel has all of them.
        if !exists(&proc, name) {
            continue;
        }
        let part = copy_below(&proc, name).doing("open", name)?;
        restrict(&part, Attributes::READ_ONLY)?;
        put_below(&part, &proc, name).doing("mount on", name)?;
    }
    let empty = Empty { dev };
    EMPTY_FILES.iter().try_for_each(|name| empty.hide(&proc, name, Kind::File))?;
    EMPTY_DIRECTORIES.iter().try_for_each(|name| empty.hide(&proc, name, Kind::Directory))?;
    let sys = match container.root {
        // Already there, and read-only with all the rest.
        Root::Host => inside.place(Path::new("/sys"))?,
        Root::Tree(_) => {
            let sys = copy_of(Path::new("/sys"))?;
            restrict(&sys, nothing_changes())?;
            inside.put(&sys, Path::new("/sys"))?;
            sys
        }
    };
    EMPTY_SYS.iter().try_for_each(|name| empty.hide(&sys, name, Kind::Directory))?;
    container.hidden.iter().try_for_each(|path| empty.hide_path(inside, path))
}

fn nothing_changes() -> Attributes {
    Attributes::READ_ONLY.and(Attributes::NO_SUID).and(Attributes::NO_DEV).and(Attributes::NO_EXEC)
}

/// Asked before a mount is made for it: one that finds no place costs more to throw away than
/// all the others take to make.
fn exists(below: &OwnedFd, name: &str) -> bool {
    accessat(below, name, Access::EXISTS, AtFlags::empty()).is_ok()
}

/// What is mounted over things that must not be seen.
pub(super) struct Empty<'a> {
    pub(super) dev: &'a OwnedFd,
}

impl Empty<'_> {
    pub(super) fn directory(&self) -> Result<OwnedFd, SetupError> {
        let mount = copy_below(self.dev, dev::EMPTY).doing("open", "an empty directory")?;
        restrict(&mount, nothing_changes())?;
        Ok(mount)
    }

    fn file() -> Result<OwnedFd, SetupError> {
        dev::node("null", 1, 3)
    }

    fn hide(&self, below: &OwnedFd, name: &str, kind: Kind) -> Result<(), SetupError> {
        if !exists(below, name) {
            return Ok(());
        }
        let mount = self.instead_of(kind)?;
        put_below(&mount, below, name).doing("hide", name)
    }

    fn hide_path(&self, inside: &Inside, path: &Path) -> Result<(), SetupError> {
        let place = match inside.place(path) {
            Err(SetupError::MissingTarget { .. }) => return Ok(()),
            found => found?,
        };
        put_on(&self.instead_of(kind_of(&place, path)?)?, &place).doing("hide", path)
    }

    pub(super) fn instead_of(&self, kind: Kind) -> Result<OwnedFd, SetupError> {
        match kind {
            Kind::Directory => self.directory(),
            Kind::File => Self::file(),
        }
    }
}
