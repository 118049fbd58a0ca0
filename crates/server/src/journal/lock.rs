//! One server per home: a lock on `<home>/lock` that the kernel releases when the process ends.
//! The pid inside is for the message only; nothing is decided by it. Who writes where the lock does
//! not hold is decided by `epoch.rs`.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::error::{JournalError, on_file};

const LOCK_FILE: &str = "lock";
const PRIVATE: u32 = 0o600;

#[derive(Debug)]
pub(super) struct HomeLock {
    file: File,
    path: PathBuf,
}

impl HomeLock {
    /// Takes the lock of a home that has one, changing nothing. `None`: no lock file yet.
    pub(super) fn take_existing(home: &Path) -> Result<Option<Self>, JournalError> {
        let path = home.join(LOCK_FILE);
        match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => Self::take(home, path, file).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(on_file("opening", &path)(error)),
        }
    }

    pub(super) fn create(home: &Path) -> Result<Self, JournalError> {
        let path = home.join(LOCK_FILE);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(PRIVATE)
            .open(&path)
            .map_err(on_file("creating", &path))?;
        Self::take(home, path, file)
    }

    fn take(home: &Path, path: PathBuf, mut file: File) -> Result<Self, JournalError> {
        // Whoever can open it can hold it, and keep the server from starting.
        let private = Permissions::from_mode(PRIVATE);
        file.set_permissions(private).map_err(on_file("closing to others", &path))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { file, path }),
            Err(Errno::WOULDBLOCK) => {
                let mut text = String::new();
                let pid =
                    file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
                Err(JournalError::InUse { home: home.to_owned(), pid })
            }
            Err(errno) => Err(on_file("locking", &path)(errno.into())),
        }
    }

    /// Writes who holds the lock, for the next one who asks.
    pub(super) fn sign(&mut self) -> Result<(), JournalError> {
        self.file
            .set_len(0)
            .and_then(|()| writeln!(self.file, "{}", std::process::id()))
            .map_err(on_file("writing", &self.path))
    }
}

impl Drop for HomeLock {
    /// Said aloud, because a child being started elsewhere in this process shares the descriptor
    /// until it runs its own program, and would hold the lock for that moment.
    fn drop(&mut self) {
        // Failing to unlock changes nothing: closing the file unlocks it as well.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}
