//! Room for an image on the disk of its store. Images leave a part of it free, more than output
//! does and more than a node needs to take tasks (`trees/src/disk.rs`): whoever may have images
//! fetched keeps nobody from running what is there.
//!
//! The disk is looked at each so many bytes and not at each write. Once there was no room the image
//! is given up, whatever else it fails of by then; removing what was written is for whoever wrote.

use shipway_model::Bytes;
use shipway_trees::disk::{BLOCK, Disk, Writer};
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// For how many bytes a look is good.
const LOOK_EVERY: u64 = 16 << 20;
/// On small disks it is less: this part of what stays free. Eight images that a node fetches at the
/// same time then take no more than an eighth of that by what they have not seen of each other.
const PART_UNSEEN: u64 = 64;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    #[error(
        "unpacking the image needs more room than the disk of {} has to spare ({free} free, and \
         images leave {left} to tasks): {HELP}",
        .folder.display()
    )]
    Bytes { folder: PathBuf, free: Bytes, left: Bytes },
    #[error(
        "unpacking the image needs more files than the disk of {} has to spare ({free} can still \
         be made, and images leave {left} to tasks): {HELP}",
        .folder.display()
    )]
    Files { folder: PathBuf, free: u64, left: u64 },
}

const HELP: &str = "whoever runs the node can remove images (`shipway image rm`, `image gc`), have \
                    the longest unused removed (--images-size), or free some of the disk";

/// What the disk has; after all that was written is on it, if so asked.
type Look = Box<dyn Fn(When) -> Option<Disk> + Send + Sync>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    AtOnce,
    AfterSync,
}

/// What one image may still take.
pub struct DiskRoom {
    folder: PathBuf,
    look: Look,
    /// Taken since the last look.
    unseen: AtomicU64,
    /// For how much that look is good.
    good_for: AtomicU64,
    /// Taken since the last `syncfs`: some file systems say only then what they have left.
    unsynced: AtomicU64,
    short: OnceLock<NoRoom>,
}

impl fmt::Debug for DiskRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskRoom").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl DiskRoom {
    /// On the disk of a folder.
    pub fn of(folder: &Path) -> Self {
        let disk = folder.to_path_buf();
        Self::looking(folder, move |when| {
            if when == When::AfterSync
                && let Ok(opened) = File::open(&disk)
            {
                // Where it fails the next write will too, and says why.
                let _ = rustix::fs::syncfs(&opened);
            }
            Disk::of(&disk)
        })
    }

    /// Where nothing is known, and so nothing refused: a write that fails tells.
    pub fn unknown() -> Self {
        Self::looking(Path::new(""), |_| None)
    }

    fn looking(folder: &Path, look: impl Fn(When) -> Option<Disk> + Send + Sync + 'static) -> Self {
        let [unseen, good_for, unsynced] = Default::default();
        let (folder, look, short) = (folder.to_path_buf(), Box::new(look), OnceLock::new());
        DiskRoom { folder, look, unseen, good_for, unsynced, short }
    }

    /// Before anything is written: whether there is room for what is known to come.
    pub fn begin(&self, bytes: u64) -> Result<(), NoRoom> {
        self.looked(bytes).inspect_err(|short| self.give_up(short))
    }

    /// Before each write, of so many bytes. Without room the image is given up.
    pub(crate) fn take(&self, bytes: u64) -> io::Result<()> {
        let taken = self.ask(bytes).inspect_err(|short| self.give_up(short));
        taken.map_err(|short| io::Error::new(io::ErrorKind::StorageFull, short))
    }

    /// The same for a new file that holds so many bytes at first, or a folder.
    pub(crate) fn take_file(&self, bytes: u64) -> io::Result<()> {
        self.take(bytes.max(1).next_multiple_of(BLOCK))
    }

    /// The same for what the image can do without.
    pub(crate) fn ask(&self, bytes: u64) -> Result<(), NoRoom> {
        self.unsynced.fetch_add(bytes, Ordering::Relaxed);
        let unseen = self.unseen.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if unseen < self.good_for.load(Ordering::Relaxed) { Ok(()) } else { self.looked(bytes) }
    }

    /// Whether there seems to be room for so much.
    pub(crate) fn could_take(&self, bytes: u64) -> bool {
        let disk = (self.look)(When::AtOnce);
        disk.is_none_or(|disk| disk.room_for(Writer::Images) >= bytes)
    }

    /// Why the image was given up.
    pub(crate) fn short(&self) -> Option<&NoRoom> {
        self.short.get()
    }

    fn give_up(&self, short: &NoRoom) {
        // The first is as good as any.
        let _ = self.short.set(short.clone());
    }

    fn looked(&self, bytes: u64) -> Result<(), NoRoom> {
        let Some(disk) = (self.look)(When::AtOnce) else { return Ok(()) };
        let unsynced = self.unsynced.load(Ordering::Relaxed);
        if disk.room_for(Writer::Images) >= bytes.saturating_add(unsynced) {
            return self.judge(disk, bytes);
        }
        // It may have less than it says, by what it has not put anywhere yet.
        let Some(disk) = (self.look)(When::AfterSync) else { return Ok(()) };
        self.unsynced.fetch_sub(unsynced, Ordering::Relaxed);
        self.judge(disk, bytes)
    }

    fn judge(&self, disk: Disk, bytes: u64) -> Result<(), NoRoom> {
        let left = disk.left_by(Writer::Images);
        self.good_for.store(LOOK_EVERY.min(left / PART_UNSEEN), Ordering::Relaxed);
        self.unseen.store(0, Ordering::Relaxed);
        let folder = || self.folder.clone();
        if disk.room_for(Writer::Images) < bytes || disk.free < left {
            let (free, left) = (Bytes(disk.free), Bytes(left));
            return Err(NoRoom::Bytes { folder: folder(), free, left });
        }
        match disk.files_for(Writer::Images) {
            Some(0) => {
                let left = disk.files_left_by(Writer::Images);
                Err(NoRoom::Files { folder: folder(), free: disk.files_free, left })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const MIB: u64 = 1 << 20;

    /// A disk of 100 MiB, of which images leave 20; how often it was looked at.
    #[derive(Default)]
    struct Fake {
        taken: AtomicU64,
        /// Taken, and not said before a sync.
        hidden: AtomicU64,
        looks: AtomicU64,
    }

    fn room(fake: &Arc<Fake>) -> DiskRoom {
        let fake = Arc::clone(fake);
        DiskRoom::looking(Path::new("/images"), move |when| {
            fake.looks.fetch_add(1, Ordering::Relaxed);
            if when == When::AfterSync {
                let hidden = fake.hidden.swap(0, Ordering::Relaxed);
                fake.taken.fetch_add(hidden, Ordering::Relaxed);
            }
            let free = 100 * MIB - fake.taken.load(Ordering::Relaxed);
            Some(Disk { size: 100 * MIB, free, files: 10_000, files_free: 9_000 })
        })
    }

    /// Writes until there is no room: how much there was.
    fn fill(room: &DiskRoom, by: impl Fn(u64)) -> u64 {
        let mut written = 0;
        while room.take(BLOCK).is_ok() {
            by(BLOCK);
            written += BLOCK;
        }
        written
    }

    #[test]
    fn images_end_above_what_they_leave_and_the_disk_is_looked_at_now_and_then() {
        let fake = Arc::new(Fake::default());
        let room = room(&fake);
        let written = fill(&room, |bytes| _ = fake.taken.fetch_add(bytes, Ordering::Relaxed));
        assert!((79 * MIB..81 * MIB).contains(&written), "{written}");
        let looks = fake.looks.load(Ordering::Relaxed);
        assert!(looks < written / BLOCK / 20, "{looks} looks");
        let said = room.short().expect("given up").to_string();
        assert!(said.contains("/images") && said.contains("image gc"), "{said}");
    }

    #[test]
    fn what_is_known_not_to_fit_is_not_begun() {
        let fake = Arc::new(Fake::default());
        assert_eq!(room(&fake).begin(79 * MIB), Ok(()));
        assert!(room(&fake).begin(81 * MIB).is_err());
        assert!(room(&fake).begin(u64::MAX).is_err());
        fake.taken.store(81 * MIB, Ordering::Relaxed);
        assert!(room(&fake).begin(0).is_err(), "of no known size");
        // What an image can do without is no reason to give it up.
        let room = room(&fake);
        assert!(room.ask(1).is_err() && !room.could_take(1) && room.short().is_none());
        assert_eq!(DiskRoom::unknown().begin(u64::MAX), Ok(()));
    }

    #[test]
    fn what_a_disk_has_not_said_yet_counts() {
        let fake = Arc::new(Fake::default());
        let room = room(&fake);
        let written = fill(&room, |bytes| _ = fake.hidden.fetch_add(bytes, Ordering::Relaxed));
        assert!((79 * MIB..81 * MIB).contains(&written), "{written}");
    }

    #[test]
    fn files_run_out_before_bytes() {
        let look = |_| Some(Disk { size: 1 << 40, free: 1 << 39, files: 1000, files_free: 200 });
        let said = DiskRoom::looking(Path::new("/images"), look).begin(1).unwrap_err().to_string();
        assert!(said.contains("200 can still be made"), "{said}");
    }
}
