//! What must not be seen of the node is covered: the files of the server and the pilot, and `/run`,
//! where the node's services answer to whoever can reach their sockets, whatever network they have.

use super::error::{Doing, SetupError};
use super::kernel_files::Empty;
use super::mounts::{Inside, Kind, copy_opened, kind_of, put_on, restrict};
use super::room;
use super::sys::Attributes;
use crate::plan::{Container, Root};
use crate::reach::leads_to;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Where sockets of services are. `/var/run` leads there, or is told apart by the caller.
pub(super) const SERVICES: &str = "/run";

/// What a container has of its own in its root, whatever the tree has there.
const OWN: [&str; 4] = ["/proc", "/sys", "/dev", "/tmp"];

/// How names of other machines are found. On many nodes it is a link to what a service writes.
const RESOLVER: &str = "/etc/resolv.conf";

/// Of the places to cover in a root, those that nothing of the container's own lies over.
pub(super) fn of_root(root: &Root, covered: &[PathBuf]) -> Vec<PathBuf> {
    let services = (*root == Root::Host).then_some(SERVICES);
    let own: Vec<&str> = OWN.into_iter().chain(services).collect();
    let rooted = covered.iter().map(|place| Path::new("/").join(place));
    rooted.filter(|place| !own.iter().any(|own| place.starts_with(own))).collect()
}

/// Covers places below something that is mounted in the container, and is called `top` there. What
/// is not there needs no cover, nor does what the task's user cannot come near.
///
/// They are looked up from what is mounted: a task may exchange what lies at its path meanwhile.
pub(super) fn below(
    mounted: &Inside,
    dev: &OwnedFd,
    top: &Path,
    covered: &[PathBuf],
) -> Result<(), SetupError> {
    covered.iter().try_for_each(|place| cover(mounted, dev, place, &top.join(place)))
}

fn cover(mounted: &Inside, dev: &OwnedFd, place: &Path, path: &Path) -> Result<(), SetupError> {
    match mounted.place(place) {
        Ok(place) => {
            let mount = Empty { dev }.instead_of(kind_of(&place, path)?)?;
            put_on(&mount, &place).doing("cover", path)
        }
        Err(
            SetupError::MissingTarget { .. }
            | SetupError::WrongKind { .. }
            | SetupError::Step { source: Errno::ACCESS, .. },
        ) => Ok(()),
        // What was a folder a moment ago leads elsewhere: where, nobody has looked.
        Err(SetupError::LinkedTarget { .. }) => {
            Err(SetupError::CoveredLink { path: path.to_owned() })
        }
        Err(error) => Err(error),
    }
}

/// Empties `/run` of the node's own tree but for the file that names are looked up by, and for
/// what the plan puts there.
pub(super) fn services(
    container: &Container,
    inside: &Inside,
    dev: &OwnedFd,
) -> Result<(), SetupError> {
    let services = Path::new(SERVICES);
    match inside.place(services) {
        Ok(_) => {}
        // A node without it, or where it leads to a place that the caller has named.
        Err(SetupError::MissingTarget { .. } | SetupError::LinkedTarget { .. }) => return Ok(()),
        Err(error) => return Err(error),
    }
    let resolver = resolver().filter(|(path, _)| path.starts_with(services));
    let has_binds = container.binds.iter().any(|bind| bind.target.starts_with(services));
    if resolver.is_none() && !has_binds {
        return inside.put(&Empty { dev }.directory()?, services);
    }
    inside.put(&room::places()?, services)?;
    let Some((path, file)) = resolver else { return Ok(()) };
    inside.make(&path, Kind::File)?;
    let mount = copy_opened(&file).doing("open", &path)?;
    restrict(&mount, Attributes::READ_ONLY.and(Attributes::NO_SUID).and(Attributes::NO_DEV))?;
    inside.put(&mount, &path)
}

/// The file that is really read, and where it is; `None` where nobody could read it.
fn resolver() -> Option<(PathBuf, OwnedFd)> {
    let file = open(RESOLVER, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let is_file = kind_of(&file, Path::new(RESOLVER)).is_ok_and(|kind| kind == Kind::File);
    Some((leads_to(&file).ok().filter(|_| is_file)?, file))
}
