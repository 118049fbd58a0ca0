//! The root of the container: which way to make it, and making it.
//!
//! Three ways, cheapest first. A bind, when the tree has every place that something is mounted
//! on. An overlay, when it does not, or when the root is to be writable. An underlay (see
//! `underlay.rs`) where overlays are refused. The tree itself is never written to.

use super::cover;
use super::error::{Doing, SetupError};
use super::mounts::{Inside, Kind, copy_opened, file_system, put_below, restrict};
use super::person::with_rights_of;
use super::room;
use super::shown::{Part, Shows};
use super::sys::Attributes;
use super::underlay;
use crate::plan::{Container, Root, WritableSpace as Where};
use crate::reach::{self, Use};
use rustix::fs::{CWD, Mode, OFlags, chmod, fstat, mkdirat, open, openat};
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, UnmountFlags, unmount};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// A place that something will be mounted on.
pub(super) type MountPoint = (PathBuf, Kind);

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

const GIVES_NOTHING: Attributes = Attributes::NO_SUID.and(Attributes::NO_DEV);

/// Makes the root and mounts it over the node's, where `enter` finds it. Also what in it is to be
/// covered.
pub(super) fn make(
    container: &Container,
    places: &[MountPoint],
) -> Result<(Inside, Vec<PathBuf>), SetupError> {
    let tree = match &container.root {
        Root::Tree(path) => path.as_path(),
        Root::Host => Path::new("/"),
    };
    let open = || match &container.root {
        Root::Tree(_) if !container.tree_is_ours => reach::open(CWD, tree, DIRECTORY),
        _ => open(tree, DIRECTORY, Mode::empty()),
    };
    let open = || open().doing("open", tree);
    let opened = Inside(seen(container, open)?);
    let covered = match &container.root {
        Root::Host => cover::of_root(&container.root, &container.reach.closed),
        Root::Tree(_) if container.tree_is_ours => Vec::new(),
        Root::Tree(path) => judged(container, &opened, path)?,
    };
    // From here on by what was opened, whatever is at its path by now.
    made(container, &opened, places).map(|inside| (inside, covered))
}

/// A tree that somebody named.
fn judged(container: &Container, tree: &Inside, path: &Path) -> Result<Vec<PathBuf>, SetupError> {
    let within = container.reach.for_trees().judge(&tree.0, path, Use::Read)?;
    if within.place.as_os_str() == "/" {
        return Err(SetupError::RootAsImage);
    }
    Ok(cover::of_root(&container.root, &within.covered))
}

fn made(
    container: &Container,
    opened: &Inside,
    places: &[MountPoint],
) -> Result<Inside, SetupError> {
    let part = Part::of(container);
    let missing = seen(container, || missing(opened, places, part.as_ref()))?;
    let writable = container.scratch.is_some();
    let mount = match &container.root {
        _ if missing.is_empty() && !writable => copy_opened(&opened.0).doing("open", "the tree")?,
        Root::Host => return underlay::make(container, opened, &missing, part.as_ref()),
        Root::Tree(_) => match overlay(container, opened, &missing) {
            Err(SetupError::NoOverlay { .. }) if !writable => {
                return underlay::make(container, opened, &missing, None);
            }
            mount => mount?,
        },
    };
    let read_only = if writable { GIVES_NOTHING } else { GIVES_NOTHING.and(Attributes::READ_ONLY) };
    restrict(&mount, read_only)?;
    put_below(&mount, CWD, "/").doing("mount on", "/")?;
    Ok(Inside(mount))
}

/// Looks at the tree with the rights of whoever named it: its person, unless it is kept for all.
pub(super) fn seen<T>(
    container: &Container,
    look: impl FnOnce() -> Result<T, SetupError>,
) -> Result<T, SetupError> {
    if container.tree_is_ours { look() } else { with_rights_of(container, look) }
}

/// The places that the tree does not have, or that are not shown of it. A place behind a link is
/// an error.
fn missing(
    tree: &Inside,
    places: &[MountPoint],
    part: Option<&Part>,
) -> Result<Vec<MountPoint>, SetupError> {
    let mut missing: Vec<MountPoint> = part.map(Part::places).unwrap_or_default();
    for place in places {
        if part.is_some_and(|part| part.shows(&place.0) != Shows::All) {
            missing.push(place.clone());
            continue;
        }
        match tree.place(&place.0) {
            Ok(_) => {}
            Err(SetupError::MissingTarget { .. }) => missing.push(place.clone()),
            Err(error) => return Err(error),
        }
    }
    Ok(missing)
}

/// The tree, below it nothing, above it a layer with the places it lacks, and above that, where
/// the root is writable, what is written.
fn overlay(
    container: &Container,
    tree: &Inside,
    missing: &[MountPoint],
) -> Result<OwnedFd, SetupError> {
    let memory = room::layers(container)?;
    put_below(&memory, CWD, "/").doing("mount on", "/")?;
    let places = places_layer(tree, missing, &memory)?;
    // By descriptor: a colon or a backslash in a path would mean something to the kernel.
    let lower = format!("{}:{}", by_descriptor(&places), by_descriptor(&tree.0));
    let layers = match &container.scratch {
        None => None,
        Some(Where::Directory(path)) => {
            let layers = open(path, DIRECTORY, Mode::empty()).doing("open", path)?;
            Some((layer_below(&layers, "upper")?, layer_below(&layers, "work")?))
        }
        Some(Where::Memory(_)) => {
            Some((layer_below(&memory, "upper")?, layer_below(&memory, "work")?))
        }
    };
    let layers = layers.as_ref().map(|(upper, work)| (by_descriptor(upper), by_descriptor(work)));
    let mut choices = vec![("lowerdir", Some(lower.as_str())), ("userxattr", None)];
    if let Some((upper, work)) = &layers {
        choices.extend([("upperdir", Some(upper.as_str())), ("workdir", Some(work.as_str()))]);
    }
    let made = file_system("overlay", &choices, MountAttrFlags::empty());
    // The overlay holds what it needs of it.
    unmount("/", UnmountFlags::DETACH).doing("let go of", "the layers")?;
    made.map_err(|source| match source {
        Errno::NODEV | Errno::PERM | Errno::INVAL | Errno::OPNOTSUPP => {
            SetupError::NoOverlay { source }
        }
        source => SetupError::Step { act: "make", object: "an overlay".into(), source },
    })
}

/// Places are made in a layer of their own and not in the writable one: so a tree that belongs
/// to somebody else can have them too, and they are no part of what the task changed.
fn places_layer(
    tree: &Inside,
    missing: &[MountPoint],
    memory: &OwnedFd,
) -> Result<OwnedFd, SetupError> {
    let layer = Inside(layer_below(memory, "places")?);
    for (target, kind) in missing {
        layer.make(target, *kind)?;
        // A directory that both have looks as it does in the upper of them.
        for shared in target.ancestors().skip(1) {
            if let Ok(directory) = tree.place(shared) {
                let mode = fstat(&directory).doing("look at", shared)?.st_mode;
                let made = layer.place(shared)?;
                let mode = Mode::from_raw_mode(mode & 0o7777);
                chmod(by_descriptor(&made), mode).doing("make", shared)?;
            }
        }
    }
    Ok(layer.0)
}

/// Makes a writable root's directory removable: the kernel leaves one in it that nobody may
/// enter, and only the task's own user can change that.
pub(super) fn release(scratch: Option<&Where>) {
    if let Some(Where::Directory(path)) = scratch {
        let _absent = chmod(path.join("work/work"), Mode::RWXU);
    }
}

fn layer_below(directory: &OwnedFd, name: &'static str) -> Result<OwnedFd, SetupError> {
    match mkdirat(directory, name, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(source) => return Err(source).doing("make", name),
    }
    openat(directory, name, DIRECTORY.union(OFlags::NOFOLLOW), Mode::empty()).doing("open", name)
}

fn by_descriptor(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}
