//! What a file system has left, and how much of that stays free of whom: the one place that says
//! so. Who writes looks here before they go on; what becomes of what finds no room is for them to
//! say.
//!
//! ```text
//! images   leave twice as much as output   so images keep no output from being kept
//! output   leaves 1 GiB, or a tenth
//! notes    leave half of it                on what is missing of somebody's output
//! tasks    come while there is that half   so neither images nor output keep them away
//! ```

use std::path::Path;

/// What output leaves free: the journal of a server beside it, the ends of tasks and whoever clears
/// up need some.
const OUTPUT_LEAVES: u64 = 1 << 30;
/// But no more than this part of a small disk.
const PART: u64 = 10;
/// The same for the files that a file system can still make.
const OUTPUT_LEAVES_FILES: u64 = 100_000;

/// Below this nothing can be kept on the smallest disk, not even the output of a task.
pub const LEAST_ROOM: u64 = 1 << 20;

/// What is taken is counted in blocks, as file systems give it.
pub const BLOCK: u64 = 4096;

/// Who writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// A few words on output that is missing.
    Notes,
    Output,
    Images,
}

impl Writer {
    /// What they leave free, in halves of what output does.
    const fn halves(self) -> u64 {
        match self {
            Self::Notes => 1,
            Self::Output => 2,
            Self::Images => 4,
        }
    }
}

/// What `statvfs` says of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disk {
    pub size: u64,
    pub free: u64,
    /// 0 where a file system does not say.
    pub files: u64,
    pub files_free: u64,
}

impl Disk {
    /// That of a folder; `None` where nobody knows.
    pub fn of(folder: &Path) -> Option<Self> {
        let found = rustix::fs::statvfs(folder).ok()?;
        Some(Self {
            size: found.f_blocks.saturating_mul(found.f_frsize),
            // Without what a file system keeps for root, for root too.
            free: found.f_bavail.saturating_mul(found.f_frsize),
            files: found.f_files,
            files_free: found.f_favail,
        })
    }

    /// With less than this free no more tasks should come. Neither output, with the notes on what
    /// is missing, nor images lead there: nobody keeps others from a node by either.
    pub fn least(&self) -> u64 {
        LEAST_ROOM.max(self.left_by(Writer::Notes))
    }

    /// What somebody leaves free.
    pub fn left_by(&self, who: Writer) -> u64 {
        let usual = OUTPUT_LEAVES.min(self.size / PART) * who.halves() / 2;
        // On the smallest disks a part of it is less than what tasks need.
        if who == Writer::Images { usual.max(2 * LEAST_ROOM) } else { usual }
    }

    /// The same of files.
    pub fn files_left_by(&self, who: Writer) -> u64 {
        OUTPUT_LEAVES_FILES.min(self.files / PART) * who.halves() / 2
    }

    /// What somebody may still take.
    pub fn room_for(&self, who: Writer) -> u64 {
        self.free.saturating_sub(self.left_by(who))
    }

    /// How many files; `None` where a file system does not say, or has none: then making one fails.
    pub fn files_for(&self, who: Writer) -> Option<u64> {
        let is_known = self.files > 0 && self.files_free > 0;
        is_known.then(|| self.files_free.saturating_sub(self.files_left_by(who)))
    }

    /// What a file takes at least: a block, and its part of all files that there can be.
    pub fn least_file(&self) -> u64 {
        BLOCK.max(self.size.checked_div(self.files).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn disk(size: u64) -> Disk {
        Disk { size, free: size, files: 0, files_free: 0 }
    }

    #[test]
    fn images_leave_more_than_output_and_that_more_than_tasks_need() {
        for size in [3 * MIB, 64 * MIB, 5 << 30, 20 << 30, 1 << 50] {
            let disk = disk(size);
            let (images, output) = (disk.left_by(Writer::Images), disk.left_by(Writer::Output));
            assert!(images > output && images > disk.least(), "{size}");
            assert!(output >= disk.left_by(Writer::Notes), "{size}");
        }
        let large = disk(1 << 50);
        assert_eq!((large.left_by(Writer::Images), large.least()), (2 << 30, 1 << 29));
        assert_eq!(disk(100 * MIB).left_by(Writer::Images), 20 * MIB);
    }

    #[test]
    fn files_are_left_where_a_file_system_counts_them() {
        let counted = Disk { files: 1000, files_free: 300, ..disk(64 * MIB) };
        assert_eq!(counted.files_for(Writer::Images), Some(100));
        assert_eq!(counted.files_for(Writer::Output), Some(200));
        assert_eq!(disk(64 * MIB).files_for(Writer::Images), None);
    }

    #[test]
    fn a_folder_has_a_disk() {
        assert!(Disk::of(Path::new("/")).is_some_and(|disk| disk.size > 0));
        assert_eq!(Disk::of(Path::new("/no/such/folder")), None);
    }
}
