//! Removes output that is older than it is to be kept, now and then. What is being written is never
//! touched, however long it is silent. Whose output it is, or how its task ended, plays no part.

use super::{Logs, OWNER, tail};
use std::collections::HashSet;
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Nobody minds output that is kept an hour longer.
const EVERY: Duration = Duration::from_hours(1);

impl Logs {
    pub async fn keep(self: Arc<Self>, keep: Duration) {
        loop {
            let logs = Arc::clone(&self);
            let sweep = move || logs.remove_older(SystemTime::now(), keep);
            match tokio::task::spawn_blocking(sweep).await {
                Ok(Ok(0)) | Err(_) => {}
                Ok(Ok(files)) => {
                    tracing::info!(files, "old output is removed");
                    self.room.recount.notify_one();
                }
                Ok(Err(error)) => tracing::warn!(%error, "old output cannot be removed"),
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    /// Removes streams that nothing was written to for so long, and folders that have been empty
    /// for so long. How many files it removed.
    pub fn remove_older(&self, now: SystemTime, keep: Duration) -> io::Result<usize> {
        let live: HashSet<PathBuf> = self.with_live(|live| {
            live.keys().map(|(name, stream)| self.path(*name, *stream)).collect()
        });
        let Some(before) = now.checked_sub(keep) else { return Ok(0) };
        let mut removed = 0;
        for job in entries(&self.root)? {
            let mut files = entries(&job.path())?;
            files.retain(|file| file.file_name() != OWNER);
            if files.is_empty() && is_older(&job.path(), before) {
                remove_folder(&job.path());
            }
            for file in files.iter().map(DirEntry::path) {
                let (head, tail) = both_parts(&file);
                let is_old = [&head, &tail].into_iter().all(|part| is_older(part, before));
                if is_old && !live.contains(&head) {
                    fs::remove_file(&file)?;
                    removed += 1;
                }
            }
        }
        Ok(removed)
    }
}

/// One that is just being used again is not empty, and stays.
fn remove_folder(folder: &Path) {
    let owner = folder.join(OWNER);
    let user = fs::read_link(&owner);
    let _none = fs::remove_file(&owner);
    if fs::remove_dir(folder).is_err()
        && let Ok(user) = user
    {
        let _there = std::os::unix::fs::symlink(user, owner);
    }
}

/// What is not there has nothing in it; so has what is not a folder.
pub(super) fn entries(folder: &Path) -> io::Result<Vec<DirEntry>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.collect(),
        Err(error) if is_nothing(error.kind()) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn is_nothing(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The head and the tail of the stream that a file belongs to.
fn both_parts(file: &Path) -> (PathBuf, PathBuf) {
    let head = if file.extension().is_some_and(|ending| ending == "tail") {
        file.with_extension("")
    } else {
        file.to_path_buf()
    };
    let tail = tail::path_beside(&head);
    (head, tail)
}

/// What is not there is as old as anything.
fn is_older(path: &Path, than: SystemTime) -> bool {
    match fs::metadata(path).and_then(|found| found.modified()) {
        Ok(modified) => modified < than,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}
