//! A directory that lives as long as a container: what another runtime reads, or writes to.

use crate::runtime::LaunchError;
use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

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

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn make(&self) -> Result<Bundle, LaunchError> {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let path = self.directory.join(format!("shipway-{}-{number}", std::process::id()));
        Bundle::make(path)
            .map_err(|source| LaunchError::Bundle { dir: self.directory.clone(), source })
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

    /// The last part of its path, unlike that of any other.
    pub(crate) fn name(&self) -> &OsStr {
        self.0.file_name().expect("it was made with a name")
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Bundle {
    fn drop(&mut self) {
        // The kernel leaves a directory here that nobody may enter.
        let open = std::fs::Permissions::from_mode(0o700);
        let _absent = std::fs::set_permissions(self.0.join("work/work"), open);
        let _already_gone = std::fs::remove_dir_all(&self.0);
    }
}
