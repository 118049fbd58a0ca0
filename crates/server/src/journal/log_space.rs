//! Room for the log, made before it is needed.
//!
//! A write that makes a file longer costs a write of the file system's own books with its sync,
//! about as much again as the write itself. So whenever SQLite's log has outgrown its file, a
//! stretch behind it is filled at once, and the commits after that overwrite it. Only speed
//! depends on it: whatever goes wrong here is left alone.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::wal::FILL;

/// How much is filled at a time: some hundred commits' worth, a millisecond's writing.
const STRETCH: usize = 1 << 20;
/// SQLite starts over at the beginning of its log about here; more would never be used.
const MOST: u64 = 16 << 20;

#[derive(Debug)]
pub(super) struct LogSpace {
    /// None where there is none to be made.
    log: Option<File>,
    made_to: u64,
}

impl LogSpace {
    pub(super) fn of(db: &Path) -> Self {
        let mut path = db.as_os_str().to_owned();
        path.push("-wal");
        LogSpace { log: File::options().write(true).open(path).ok(), made_to: 0 }
    }

    /// Call it after a commit, while nobody writes.
    pub(super) fn make(&mut self) {
        let Some(log) = &self.log else { return };
        let used = log.metadata().map_or(MOST, |found| found.len());
        if used <= self.made_to || used >= MOST {
            return;
        }
        let block = vec![FILL; STRETCH];
        self.made_to = used + STRETCH as u64;
        if log.write_all_at(&block, used).is_err() {
            // A full disk, perhaps: what there is of it is for commits.
            let _ = log.set_len(used);
            self.log = None;
        }
    }
}
