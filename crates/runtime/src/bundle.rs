//! A directory that lives as long as a container: what another runtime reads, or writes to.

use crate::plan::User;
use crate::runtime::LaunchError;
use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The part of a bundle that an overlay writes to.
pub(crate) const LAYER: &str = "layer";

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

    /// Where those of a user are; everybody has a directory that others cannot enter.
    pub(crate) fn directory(&self, user: Option<&User>) -> PathBuf {
        user.map_or_else(
            || self.directory.clone(),
            |user| self.directory.join(user.uid.to_string()),
        )
    }

    pub(crate) fn make(&self, user: Option<&User>) -> Result<Bundle, LaunchError> {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let directory = self.directory(user);
        let made = self.make_for(user).and_then(|()| {
            Bundle::make(directory.join(format!("shipway-{}-{number}", std::process::id())))
        });
        made.map_err(|source| LaunchError::Bundle { dir: directory, source })
    }

    fn make_for(&self, user: Option<&User>) -> io::Result<()> {
        let Some(user) = user else { return Ok(()) };
        let directory = self.directory(Some(user));
        match DirBuilder::new().mode(0o700).create(&directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        lchown(directory, Some(user.uid), Some(user.gid))
    }
}

#[derive(Debug)]
pub(crate) struct Bundle(PathBuf);

impl Bundle {
    /// A new directory only its owner can enter: there are secrets in a task's environment.
    fn make(path: PathBuf) -> io::Result<Self> {
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    /// Gives all of it to the user who has to work with it.
    pub(crate) fn give_to(&self, user: Option<&User>) -> Result<(), LaunchError> {
        let failed = |source| LaunchError::Bundle { dir: self.0.clone(), source };
        user.map_or(Ok(()), |user| give(&self.0, user)).map_err(failed)
    }

    /// The last part of its path, unlike that of any other.
    pub(crate) fn name(&self) -> &OsStr {
        self.0.file_name().expect("it was made with a name")
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

fn give(path: &Path, user: &User) -> io::Result<()> {
    if path.symlink_metadata()?.is_dir() {
        for entry in std::fs::read_dir(path)? {
            give(&entry?.path(), user)?;
        }
    }
    lchown(path, Some(user.uid), Some(user.gid))
}

impl Drop for Bundle {
    fn drop(&mut self) {
        // The kernel leaves a directory here that nobody may enter.
        let open = std::fs::Permissions::from_mode(0o700);
        let _absent = std::fs::set_permissions(self.0.join(LAYER).join("work/work"), open);
        let _already_gone = std::fs::remove_dir_all(&self.0);
    }
}
