//! Which places of a node a task may reach by a path of somebody's choice: as a bind, a work
//! directory, an image, an input or an output.
//!
//! Judged by where an open descriptor leads, so it does not matter by which links or names it was
//! opened, and nothing can be exchanged between the look and the use.

use crate::binds::{AllowList, NotAllowed};
use rustix::fs::{Mode, OFlags, ResolveFlags, fstatfs, openat, openat2, readlink};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Where the kernel and the services of a node answer. What a container has of them is its own.
const OF_THE_NODE: [&str; 3] = ["/proc", "/sys", "/run"];

/// The numbers of the kernel's own file systems, wherever they are mounted.
const PROC: u64 = 0x9fa0;
const SYSFS: u64 = 0x6265_6572;

/// What is judged by. Empty, it keeps nothing back but the node's own places.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reach {
    /// What no task sees: what the server and the pilot keep. By every path that leads there,
    /// links resolved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closed: Vec<PathBuf>,
    /// One of those that is nobody's but the home directory of the user whom all tasks run as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<PathBuf>,
    /// What the site offers; everything where it says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered: Option<AllowList>,
    /// The task has the user of the server, and is somebody else's. It uses only what the site
    /// offers: by what it writes, or a socket that answers that user (tmux, ssh-agent), it would
    /// soon be that user.
    #[serde(default)]
    pub guest: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    Read,
    Write,
}

/// What may be used, once what has to be covered in it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Within {
    /// Where it is on the node.
    pub place: PathBuf,
    /// What of it is closed, as paths below it.
    pub covered: Vec<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum OutOfReach {
    #[error("{} is not for tasks: {} is {why}", .path.display(), .place.display())]
    Closed { path: PathBuf, place: PathBuf, why: Why },
    #[error(
        "{} is not for writing: it is around {}, {why}; name a folder in it",
        .path.display(), .closed.display()
    )]
    Around { path: PathBuf, closed: PathBuf, why: Why },
    #[error(
        "{} is not for guests: other people's tasks run as the user of the server here, and use \
         folders of their own (--workdir private), or what whoever runs the node offers them \
         (--binds DIR, or --binds DIR:rw for writing); to let them use what their own rights \
         allow, give that user subordinate ids, or start the server as root", .path.display()
    )]
    Guest { path: PathBuf },
    #[error(transparent)]
    NotAllowed(#[from] NotAllowed),
    #[error("where {} leads cannot be told", .path.display())]
    Unknown { path: PathBuf, source: Errno },
}

/// What a place is that is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    Node,
    Server,
    Home,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Node => "where the node's kernel and services answer",
            Self::Server => "where the server keeps its files",
            Self::Home => {
                "part of the home directory of the user whom everybody's tasks run as here"
            }
        })
    }
}

impl Reach {
    /// Whether what is open here, and was asked for as `path`, may be used. What comes out covers
    /// nothing unless it is a folder around something that is closed.
    pub fn judge(&self, file: impl AsFd, path: &Path, how: Use) -> Result<Within, OutOfReach> {
        let unknown = |source| OutOfReach::Unknown { path: path.to_owned(), source };
        let place = leads_to(&file).map_err(unknown)?;
        let found = fstatfs(&file).map_err(unknown)?;
        // The kernel's own numbers are never negative.
        if [PROC, SYSFS].contains(&u64::try_from(found.f_type).unwrap_or_default()) {
            return Err(OutOfReach::Closed { path: path.to_owned(), place, why: Why::Node });
        }
        self.judge_place(place, path, how)
    }

    /// The same for a place that is known. Pure.
    fn judge_place(&self, place: PathBuf, path: &Path, how: Use) -> Result<Within, OutOfReach> {
        if self.all_closed().any(|closed| place.starts_with(closed)) {
            let why = self.why(&place);
            return Err(OutOfReach::Closed { path: path.to_owned(), place, why });
        }
        match &self.offered {
            Some(offered) => offered.allows(&place, path, how == Use::Write)?,
            None if self.guest => return Err(OutOfReach::Guest { path: path.to_owned() }),
            None => {}
        }
        let below = |closed: &Path| closed.strip_prefix(&place).ok().map(Path::to_owned);
        let covered: Vec<PathBuf> = self.all_closed().filter_map(below).collect();
        match self.closed.iter().find(|closed| closed.starts_with(&place)) {
            Some(closed) if self.guest && how == Use::Write => {
                let (why, closed) = (self.why(closed), closed.clone());
                Err(OutOfReach::Around { path: path.to_owned(), closed, why })
            }
            _ => Ok(Within { place, covered }),
        }
    }

    /// The same for the tree of an image. A site's list says nothing about those, but that guests
    /// have nothing else: a tree is as good as a bind.
    #[must_use]
    pub fn for_trees(&self) -> Self {
        let offered = self.offered.clone().filter(|_| self.guest);
        Self { offered, ..self.clone() }
    }

    /// The home may be around what the server keeps: then that is the reason.
    fn why(&self, place: &Path) -> Why {
        let is_home = |closed: &Path| self.home.as_deref() == Some(closed);
        let kept = self.closed.iter().filter(|closed| !is_home(closed));
        if OF_THE_NODE.iter().any(|own| place.starts_with(own)) {
            Why::Node
        } else if kept.into_iter().any(|closed| place.starts_with(closed)) {
            Why::Server
        } else {
            Why::Home
        }
    }

    /// Whether guests may put something else in the place of this one while nobody looks.
    pub(crate) fn may_be_exchanged(&self, place: &Path) -> bool {
        let written = self.offered.as_ref().map(AllowList::writable).unwrap_or_default();
        self.guest && written.iter().any(|offer| place != offer && place.starts_with(offer))
    }

    fn all_closed(&self) -> impl Iterator<Item = &Path> {
        self.closed.iter().map(PathBuf::as_path).chain(OF_THE_NODE.iter().map(Path::new))
    }
}

/// Opens something that somebody named. Links are followed, but for those by which the kernel
/// shows the files of processes: they lead into containers of others, where paths mean something
/// else.
pub fn open(at: impl AsFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    match openat2(at.as_fd(), path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS) {
        // A kernel without it has no containers of ours either.
        Err(Errno::NOSYS) => openat(at, path, flags, Mode::empty()),
        opened => opened,
    }
}

/// The path of what is open, as the kernel knows it. What has none, such as a pipe, is an error.
pub fn leads_to(file: impl AsFd) -> Result<PathBuf, Errno> {
    let link = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    let path = PathBuf::from(OsString::from_vec(readlink(link, Vec::new())?.into_bytes()));
    if path.is_absolute() { Ok(path) } else { Err(Errno::NOENT) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;

    fn told(judged: Result<Within, OutOfReach>) -> String {
        match judged {
            Ok(within) => within.place.display().to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_counts_is_where_a_descriptor_leads() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        for name in ["home/pilot", "data"] {
            fs::create_dir_all(top.join(name)).unwrap();
        }
        fs::write(top.join("home/token"), "secret").unwrap();
        symlink(top.join("home"), top.join("data/link")).unwrap();
        let reach = Reach { closed: vec![top.join("home")], ..Reach::default() };
        let judge = |path: PathBuf| told(reach.judge(File::open(&path).unwrap(), &path, Use::Read));
        for path in ["home", "home/pilot", "home/token", "data/link/token", "data/../home"] {
            let said = judge(top.join(path));
            assert!(said.contains("where the server keeps its files"), "{path}: {said}");
        }
        for path in ["/proc", "/proc/self/root/proc/1", "/sys/kernel", "/run", "/proc/self/fd"] {
            let said = judge(path.into());
            assert!(said.contains("kernel and services answer"), "{path}: {said}");
        }
        for path in ["/proc/self/root/etc", "/proc/self/cwd"] {
            let opened = open(rustix::fs::CWD, Path::new(path), OFlags::PATH);
            assert_eq!(opened.map(drop), Err(Errno::LOOP), "{path}");
        }
        assert_eq!(judge(top.join("data")), top.join("data").display().to_string());
    }

    #[test]
    fn what_is_closed_is_called_what_it_is() {
        let closed = ["/srv/shipway", "/home/svc", "/home/svc/kept"].map(PathBuf::from);
        let (closed, home) = (closed.into(), Some("/home/svc".into()));
        let offered = Some("/:rw".parse().unwrap());
        let reach = Reach { closed, home, offered, guest: true };
        for (place, how, said) in [
            ("/home/svc", Use::Read, "/home/svc is part of the home directory of the user"),
            ("/home/svc/.ssh", Use::Read, "/home/svc/.ssh is part of the home directory"),
            ("/home/svc/kept/x", Use::Read, "is where the server keeps its files"),
            ("/srv/shipway", Use::Read, "is where the server keeps its files"),
            ("/home", Use::Write, "around /home/svc, part of the home directory of the user"),
            ("/srv", Use::Write, "around /srv/shipway, where the server keeps its files"),
        ] {
            let judged = told(reach.judge_place(place.into(), Path::new(place), how));
            assert!(judged.contains(said), "{place}: {judged}");
        }
    }

    #[test]
    fn what_is_around_something_closed_shows_the_rest() {
        let mut reach = Reach { closed: vec!["/home/ada/x".into()], ..Reach::default() };
        let judge = |reach: &Reach, place: &str, how| {
            reach.judge_place(place.into(), Path::new("asked"), how)
        };
        let covered = judge(&reach, "/home", Use::Write).unwrap().covered;
        assert_eq!(covered, [PathBuf::from("ada/x")]);
        let all = judge(&reach, "/", Use::Read).unwrap().covered;
        assert_eq!(all, ["home/ada/x", "proc", "sys", "run"].map(PathBuf::from));
        assert!(judge(&reach, "/home/ada/xy", Use::Write).unwrap().covered.is_empty());
        reach.guest = true;
        for how in [Use::Read, Use::Write] {
            let own_only = told(judge(&reach, "/srv", how));
            assert!(own_only.contains("--workdir private"), "{own_only}");
        }
        reach.offered = Some("/:rw".parse().unwrap());
        assert!(judge(&reach, "/home/ada/y", Use::Write).is_ok());
        // Who can write around it can move it, and find it under its new name.
        assert!(told(judge(&reach, "/home", Use::Write)).contains("it is around"));
    }

    #[test]
    fn what_the_site_does_not_offer_is_refused() {
        let offered = Some("/usr,/var:rw".parse().unwrap());
        let reach = Reach { offered, ..Reach::default() };
        let judge = |place: &str, how| told(reach.judge_place(place.into(), Path::new("p"), how));
        assert_eq!(judge("/usr/lib", Use::Read), "/usr/lib");
        assert_eq!(judge("/var/x", Use::Write), "/var/x");
        assert!(judge("/usr/lib", Use::Write).contains("for reading"));
        assert!(judge("/etc", Use::Read).contains("does not offer"));
        let tree = |reach: &Reach| {
            let judged = reach.for_trees().judge_place("/etc".into(), Path::new("p"), Use::Read);
            judged.is_ok()
        };
        assert!(tree(&reach), "the list is not about images");
        assert!(!tree(&Reach { guest: true, ..reach }), "but for guests");
    }
}
