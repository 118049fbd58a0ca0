//! The container's `/dev`: what every program needs, the devices of the plan, and nothing else.
//!
//! An ordinary user cannot make device nodes, so the node's own are mounted one by one. Each is
//! checked to be what its name says before it is used.

use super::error::{Doing, SetupError};
use super::mounts::{
    Inside, Kind, copy_below, copy_of, file_system, make_below, put_below, restrict,
};
use super::room;
use super::sys::Attributes;
use crate::plan::Container;
use rustix::fs::{CWD, FileType, Mode, fstat, makedev, mkdirat, symlinkat};
use rustix::mount::MountAttrFlags;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Name, major and minor number of what every program may expect.
const NODES: [(&str, u32, u32); 6] = [
    ("null", 1, 3),
    ("zero", 1, 5),
    ("full", 1, 7),
    ("random", 1, 8),
    ("urandom", 1, 9),
    ("tty", 5, 0),
];

const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

const NODE: Attributes = Attributes::NO_SUID.and(Attributes::NO_EXEC);

/// An empty directory of `/dev`, as most nodes have it. What must not be seen is covered by it.
pub(super) const EMPTY: &str = "mqueue";

/// Makes it, and gives a descriptor of it.
pub(super) fn make(container: &Container, inside: &Inside) -> Result<OwnedFd, SetupError> {
    let dev = room::dev(container)?;
    inside.put(&dev, Path::new("/dev"))?;
    for (name, target) in LINKS {
        symlinkat(target, &dev, name).doing("make", name)?;
    }
    for (name, major, minor) in NODES {
        make_below(&dev, name, Kind::File).doing("make", name)?;
        let node = node(name, major, minor)?;
        put_below(&node, &dev, name).doing("mount on", name)?;
    }
    mkdirat(&dev, "shm", Mode::from_raw_mode(0o1777)).doing("make", "/dev/shm")?;
    mkdirat(&dev, EMPTY, Mode::from_raw_mode(0o555)).doing("make", "/dev/mqueue")?;
    make_below(&dev, "pts", Kind::Directory).doing("make", "/dev/pts")?;
    put_below(&terminals()?, &dev, "pts").doing("mount on", "/dev/pts")?;
    container.devices.iter().try_for_each(|path| add(inside, path))?;
    Ok(dev)
}

/// A copy of one of the node's own nodes that is certainly what it is called.
pub(super) fn node(name: &str, major: u32, minor: u32) -> Result<OwnedFd, SetupError> {
    let path = Path::new("/dev").join(name);
    let node = copy_below(CWD, &path).doing("open", &path)?;
    let status = fstat(&node).doing("look at", &path)?;
    let is_character = FileType::from_raw_mode(status.st_mode) == FileType::CharacterDevice;
    if !is_character || status.st_rdev != makedev(major, minor) {
        return Err(SetupError::NotADevice { path });
    }
    restrict(&node, NODE)?;
    Ok(node)
}

/// Pseudo terminals of its own, so that it cannot reach anybody else's.
fn terminals() -> Result<OwnedFd, SetupError> {
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let choices = [("ptmxmode", Some("0666")), ("mode", Some("0620"))];
    file_system("devpts", &choices, attributes).doing("make", "a devpts")
}

fn add(inside: &Inside, path: &Path) -> Result<(), SetupError> {
    let not_a_device = || SetupError::NotADevice { path: path.to_owned() };
    if !path.starts_with("/dev") {
        return Err(not_a_device());
    }
    let node = copy_of(path)?;
    let kind = FileType::from_raw_mode(fstat(&node).doing("look at", path)?.st_mode);
    if !matches!(kind, FileType::CharacterDevice | FileType::BlockDevice) {
        return Err(not_a_device());
    }
    restrict(&node, NODE)?;
    inside.make(path, Kind::File)?;
    inside.put(&node, path)
}
