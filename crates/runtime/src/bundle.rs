//! A directory that lives as long as a container: what another runtime reads, or writes to.
//!
//! Where root makes it for an account there are two, one in the other. The outer stays root's, and
//! nobody else may write there, so that no name in it can be exchanged: what root mounts for the
//! runtime is mounted there. The inner is made complete while nobody else can enter it, and handed
//! over last, by descriptor. From then on root only has it removed, with the account's rights.

use crate::plan::User;
use crate::runtime::LaunchError;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Uid, chownat, fchown, mkdirat, openat, statat,
};
use rustix::io::Errno;
use shipway_trees::{Progress, Removal};
use std::ffi::{CStr, CString, OsStr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The part of a bundle that an overlay writes to.
pub(crate) const LAYER: &str = "layer";

/// The part that is the account's.
const INNER: &str = "bundle";

/// Through the outer one accounts may pass, and see nothing.
const OUTER_MODE: Mode = Mode::RWXU.union(Mode::XGRP).union(Mode::XOTH);

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Files and folders of a bundle that are removed at once: all there are, unless the task wrote to
/// its layer.
const AT_ONCE: u32 = 64;

/// Where they are made, each under a name of its own.
#[derive(Debug)]
pub(crate) struct Bundles {
    directory: PathBuf,
    count: AtomicU64,
}

impl Bundles {
    pub(crate) const fn new(directory: PathBuf) -> Self {
        Self { directory, count: AtomicU64::new(0) }
    }

    pub(crate) fn make(&self) -> Result<Bundle, LaunchError> {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let name = format!("shipway-{}-{number}", std::process::id());
        Bundle::make(self.directory.join(name)).map_err(|errno| LaunchError::Bundle {
            dir: self.directory.clone(),
            source: errno.into(),
        })
    }
}

#[derive(Debug)]
pub(crate) struct Bundle {
    outer: PathBuf,
    inner: PathBuf,
    opened: OwnedFd,
}

impl Bundle {
    fn make(outer: PathBuf) -> Result<Self, Errno> {
        mkdirat(CWD, &outer, OUTER_MODE)?;
        let opened = openat(CWD, &outer, FOLDER, Mode::empty())?;
        // Whatever mask this process has.
        rustix::fs::fchmod(&opened, OUTER_MODE)?;
        let inner = outer.join(INNER);
        let bundle = Self { outer, inner, opened };
        // Only its owner can enter it: there are secrets in a task's environment.
        mkdirat(&bundle.opened, INNER, Mode::RWXU)?;
        Ok(bundle)
    }

    /// A directory beside what is handed over, for something that root mounts.
    pub(crate) fn make_beside(&self, name: &str) -> Result<PathBuf, LaunchError> {
        let made = mkdirat(&self.opened, name, Mode::RWXU);
        made.map_err(|errno| self.failed(errno))?;
        Ok(self.outer.join(name))
    }

    /// Gives all of it to the user who has to work with it. Nothing is made in it any more.
    pub(crate) fn give_to(&self, user: Option<&User>) -> Result<(), LaunchError> {
        let Some(user) = user else { return Ok(()) };
        let given = openat(&self.opened, INNER, FOLDER, Mode::empty())
            .and_then(|inner| give(&inner, Uid::from_raw(user.uid), Gid::from_raw(user.gid)));
        given.map_err(|errno| self.failed(errno))
    }

    fn failed(&self, errno: Errno) -> LaunchError {
        LaunchError::Bundle { dir: self.outer.clone(), source: errno.into() }
    }

    /// The last part of its path, unlike that of any other.
    pub(crate) fn name(&self) -> &OsStr {
        self.outer.file_name().expect("it was made with a name")
    }

    /// The part of it that will be handed over.
    pub(crate) fn path(&self) -> &Path {
        &self.inner
    }
}

/// What is in it first and the folder itself last: until then nobody else can enter it.
fn give(folder: &OwnedFd, uid: Uid, gid: Gid) -> Result<(), Errno> {
    for name in names(folder)? {
        let found = statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
            give(&openat(folder, &name, FOLDER, Mode::empty())?, uid, gid)?;
        } else {
            chownat(folder, &name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        }
    }
    fchown(folder, Some(uid), Some(gid))
}

fn names(folder: &OwnedFd) -> Result<Vec<CString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name: CString = entry?.file_name().to_owned();
        let own: [&CStr; 2] = [c".", c".."];
        if !own.contains(&name.as_c_str()) {
            names.push(name);
        }
    }
    Ok(names)
}

impl Drop for Bundle {
    fn drop(&mut self) {
        // Whoever drops it has other tasks to see to.
        let mut removal = Removal::of_others(&self.outer);
        if !matches!(removal.go_on(AT_ONCE), Progress::Over(Ok(()))) {
            shipway_trees::remove_later(self.outer.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADA: u32 = 64_001;
    const BOB: u32 = 64_002;

    #[test]
    fn what_is_not_the_accounts_is_kept_when_its_container_has_ended() {
        if !crate::rights::tests::is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let directory = dir.path().join("containers");
        std::fs::create_dir(&directory).unwrap();
        let bundles = Bundles::new(directory.clone());
        let bundle = bundles.make().unwrap();
        bundle.make_beside("tree").unwrap();
        std::fs::write(bundle.path().join("config.json"), "{}").unwrap();
        let ada = User { uid: ADA, gid: ADA, groups: Vec::new() };
        bundle.give_to(Some(&ada)).unwrap();
        let theirs = bundle.path().join("bob");
        std::fs::create_dir(&theirs).unwrap();
        std::fs::write(theirs.join("thesis"), "years").unwrap();
        std::os::unix::fs::chown(&theirs, Some(BOB), Some(BOB)).unwrap();
        let kept = dir.path().join("kept").join(bundle.name()).join(INNER);
        drop(bundle);
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
        assert_eq!(std::fs::read_to_string(kept.join("bob/thesis")).unwrap(), "years");
        assert!(!kept.join("config.json").exists());
        // And where there is nothing of the kind, nothing is kept.
        let bundle = bundles.make().unwrap();
        bundle.give_to(Some(&ada)).unwrap();
        drop(bundle);
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
        assert_eq!(std::fs::read_dir(dir.path().join("kept")).unwrap().count(), 1);
    }
}
