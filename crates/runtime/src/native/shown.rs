//! What a guest sees of the node's own tree: the programs and settings of the system, and what the
//! site offers. Guests have the user of the server, so its files would be theirs to read anywhere,
//! and sockets and pipes answer that user on a read-only mount too. Pure.

use super::mounts::Kind;
use super::root::MountPoint;
use crate::binds::AllowList;
use crate::plan::{Container, Root};
use std::path::{Path, PathBuf};

/// What belongs to the system, where ordinary users can put nothing. `/sys` and `/run` are there
/// for what a container makes of them: see `kernel_files.rs` and `cover.rs`.
const SYSTEM: [&str; 11] = [
    "/bin",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/run",
    "/sbin",
    "/sys",
    "/usr",
];

/// What a container has of its own: an offer below it would not be seen.
const OWN: [&str; 6] = ["/dev", "/proc", "/run", "/sys", "/tmp", "/var/tmp"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shows {
    All,
    /// It is on the way to something that is shown.
    Part,
    Nothing,
}

/// A part of the node's tree.
#[derive(Debug)]
pub(super) struct Part(Vec<PathBuf>);

impl Part {
    /// `None`: all that is not covered.
    pub(super) fn of(container: &Container) -> Option<Self> {
        let reach = &container.reach;
        if container.root != Root::Host || !reach.guest {
            return None;
        }
        let offered = reach.offered.as_ref().map(AllowList::paths).unwrap_or_default();
        let is_seen = |path: &PathBuf| !OWN.iter().any(|own| path.starts_with(own));
        let system = SYSTEM.iter().map(PathBuf::from);
        Some(Self(system.chain(offered.into_iter().filter(is_seen)).collect()))
    }

    pub(super) fn shows(&self, path: &Path) -> Shows {
        if self.0.iter().any(|shown| path.starts_with(shown)) {
            Shows::All
        } else if self.0.iter().any(|shown| shown.starts_with(path)) {
            Shows::Part
        } else {
            Shows::Nothing
        }
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(PathBuf::as_path)
    }

    /// Places that every task has something of its own on.
    pub(super) fn places(&self) -> Vec<MountPoint> {
        let var_tmp = PathBuf::from("/var/tmp");
        let is_missing = self.shows(&var_tmp) != Shows::All;
        is_missing.then_some((var_tmp, Kind::Directory)).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_sees_the_system_and_what_is_offered() {
        let mut container = Container::new(Root::Host, vec!["true".into()]);
        assert!(Part::of(&container).is_none(), "others see what their rights show");
        container.reach.guest = true;
        let shows = |container: &Container, path: &str| {
            Part::of(container).expect("a guest").shows(Path::new(path))
        };
        for (path, expected) in [
            ("/usr/bin/env", Shows::All),
            ("/etc", Shows::All),
            ("/", Shows::Part),
            ("/nix", Shows::Part),
            ("/nix/var", Shows::Nothing),
            ("/opt", Shows::Nothing),
            ("/home", Shows::Nothing),
            ("/var/spool", Shows::Nothing),
            ("/usrx", Shows::Nothing),
        ] {
            assert_eq!(shows(&container, path), expected, "{path}");
        }
        // Only what is there can be offered.
        container.reach.offered = Some("/var/lib,/dev/shm,/tmp:rw".parse().expect("a list"));
        assert_eq!(shows(&container, "/var/lib/x"), Shows::All);
        assert_eq!(shows(&container, "/var"), Shows::Part);
        assert_eq!(shows(&container, "/var/spool"), Shows::Nothing);
        assert_eq!(shows(&container, "/dev/shm"), Shows::Nothing);
        assert_eq!(shows(&container, "/tmp"), Shows::Nothing);
        container.reach.offered = Some("/".parse().expect("a list"));
        assert_eq!(shows(&container, "/home"), Shows::All);
    }
}
