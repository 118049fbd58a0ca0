//! How much room there is for output, and who may still take of it: the disk keeps a floor that no
//! output goes below, and nobody's output takes more than is left for the others. What is done
//! with output that gets no room is for its writer to say.
//!
//! The books are kept while output is written; the disk is looked at now and then, because others
//! write there too.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// What stays free of output on the disk of the pilot's folder: the journal of a server beside it,
/// the ends of tasks and whoever clears up need some.
const FLOOR_BYTES: u64 = 1 << 30;
/// But no more than this part of a small disk.
const FLOOR_PART: u64 = 10;
/// How far the notes on what is missing may go: to this part of the floor.
const PART_FOR_NOTES: u64 = 2;
/// Below this nothing can be kept on the smallest disk, not even the output of a task.
pub const LEAST_ROOM: u64 = 1 << 20;
/// The same floor for the files that a file system can still make.
const FLOOR_FILES: u64 = 100_000;

/// What is taken is counted in blocks, as file systems give it.
const BLOCK: u64 = 4096;

/// How long, and for how many bytes, a look at the disk is good. What others write meanwhile is far
/// less than the floor.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const LOOK_EVERY_BYTES: u64 = 16 << 20;

/// What `statvfs` says of a file system.
#[derive(Debug, Clone, Copy)]
pub struct Disk {
    pub size: u64,
    pub free: u64,
    /// 0 where a file system does not say.
    pub files: u64,
    pub files_free: u64,
}

impl Disk {
    /// That of a folder; `None` where nobody knows.
    pub fn of(folder: &Path) -> Option<Disk> {
        let found = rustix::fs::statvfs(folder).ok()?;
        Some(Disk {
            size: found.f_blocks.saturating_mul(found.f_frsize),
            // Without what a file system keeps for root, root's output too.
            free: found.f_bavail.saturating_mul(found.f_frsize),
            files: found.f_files,
            files_free: found.f_favail,
        })
    }

    /// With less than this free no more tasks should come. Output alone never leads there, with the
    /// notes on what is missing: nobody keeps others from a node by printing.
    pub fn least(&self) -> u64 {
        LEAST_ROOM.max(self.floor() / PART_FOR_NOTES)
    }

    /// What output leaves free.
    fn floor(&self) -> u64 {
        FLOOR_BYTES.min(self.size / FLOOR_PART)
    }

    /// What there is above the floor, or above this part of it. Files that can still be made count
    /// as what they take.
    fn above_floor(&self, part: u64) -> u64 {
        let bytes = self.free.saturating_sub(self.floor() / part);
        if self.files == 0 || self.files_free == 0 {
            // Unknown, or there is none: then making one fails.
            return bytes;
        }
        let floor = FLOOR_FILES.min(self.files / FLOOR_PART) / part;
        let files = self.files_free.saturating_sub(floor);
        bytes.min(files.saturating_mul(self.least_file()))
    }

    /// What a file takes at least: a block, and its part of all files that there can be.
    fn least_file(&self) -> u64 {
        BLOCK.max(self.size.checked_div(self.files).unwrap_or(0))
    }
}

/// Why output gets no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoRoom {
    #[error("the disk of the pilot's folder has no room for output; free some")]
    Disk,
    #[error(
        "what is kept of this user's output takes as much of the disk of the pilot's folder as is \
         left there for everybody else; remove some of it (--keep-output), or free some of the disk"
    )]
    Share,
}

/// What somebody's output takes.
#[derive(Debug, Default, Clone, Copy)]
struct Used {
    kept: u64,
    /// Until it is taken to where its job wants it.
    spooled: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Log,
    Spool,
    /// A few words on what is missing. They may go below the floor, and are counted like the rest:
    /// what many tasks lose must not fill the disk either.
    Note,
}

impl Used {
    fn of(&mut self, kind: Kind) -> &mut u64 {
        match kind {
            Kind::Log | Kind::Note => &mut self.kept,
            Kind::Spool => &mut self.spooled,
        }
    }
}

type Look = Box<dyn Fn() -> Option<Disk> + Send + Sync>;

pub(super) struct Room {
    look: Look,
    books: Mutex<Books>,
    /// Somebody got no room, or files were removed: the books may say too much.
    pub(super) recount: Notify,
}

impl fmt::Debug for Room {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Room").field("books", &self.books).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Books {
    looked: Option<Instant>,
    /// Above the floor, less what was given since the look.
    left: u64,
    given: u64,
    /// The same for notes.
    for_notes: u64,
    least_file: u64,
    people: HashMap<Arc<str>, Used>,
    /// Once for each count of what is kept: the pilot's log is on the same disk.
    is_told: bool,
}

impl Room {
    pub(super) fn new(look: Look) -> Arc<Self> {
        let books = Books {
            looked: None,
            left: 0,
            given: 0,
            for_notes: 0,
            least_file: BLOCK,
            people: HashMap::new(),
            is_told: false,
        };
        Arc::new(Room { look, books: Mutex::new(books), recount: Notify::new() })
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        // Sound between any two statements: a panic elsewhere does not spoil them.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For all that one person's tasks print.
    pub(super) fn allowance(self: &Arc<Self>, user: &str) -> Allowance {
        Allowance { room: Arc::clone(self), user: user.into() }
    }

    fn take(&self, user: &Arc<str>, kind: Kind, bytes: u64) -> Result<(), NoRoom> {
        let mut books = self.books();
        let fresh = !books.is_good(Instant::now());
        if fresh {
            books.look((self.look)());
        }
        let mut taken = books.take(user, kind, bytes);
        if taken.is_err() && !fresh {
            books.look((self.look)());
            taken = books.take(user, kind, bytes);
        }
        if let Err(error) = taken {
            if !std::mem::replace(&mut books.is_told, true) {
                tracing::warn!(%user, %error, "output is not kept");
            }
            self.recount.notify_one();
        }
        taken
    }

    /// What the folder of a job is counted as, without its files.
    pub(super) fn folder_cost(&self) -> u64 {
        folder_cost(self.books().least_file)
    }

    /// What a file of this length is counted as.
    pub(super) fn cost(&self, length: u64) -> u64 {
        cost(length, self.books().least_file)
    }

    /// What everybody's logs take, as the books have it.
    pub(super) fn kept(&self) -> HashMap<Arc<str>, u64> {
        let books = self.books();
        books.people.iter().map(|(user, used)| (Arc::clone(user), used.kept)).collect()
    }

    /// What was found on disk, by a look that began when the books said `before`. What was taken
    /// meanwhile may have been seen too, and is counted twice until the next look.
    pub(super) fn found(&self, found: &HashMap<Arc<str>, u64>, before: &HashMap<Arc<str>, u64>) {
        let mut books = self.books();
        books.is_told = false;
        for user in found.keys() {
            books.people.entry(Arc::clone(user)).or_default();
        }
        for (user, used) in &mut books.people {
            let of = |all: &HashMap<Arc<str>, u64>| all.get(user).copied().unwrap_or(0);
            used.kept = of(found) + used.kept.saturating_sub(of(before));
        }
    }
}

fn cost(length: u64, least: u64) -> u64 {
    length.next_multiple_of(BLOCK).max(least)
}

/// It has a link in it, which says whose it is.
fn folder_cost(least: u64) -> u64 {
    2 * least
}

impl Books {
    fn is_good(&self, now: Instant) -> bool {
        let is_new = |looked| now.saturating_duration_since(looked) < LOOK_EVERY;
        self.looked.is_some_and(is_new) && self.given < LOOK_EVERY_BYTES
    }

    fn look(&mut self, disk: Option<Disk>) {
        // Of a disk that does not say, a write that fails tells.
        self.left = disk.map_or(u64::MAX, |disk| disk.above_floor(1));
        self.for_notes = disk.map_or(u64::MAX, |disk| disk.above_floor(PART_FOR_NOTES));
        self.least_file = disk.map_or(BLOCK, |disk| disk.least_file());
        (self.looked, self.given) = (Some(Instant::now()), 0);
    }

    /// Whoever takes leaves at least as much to the others as they have. So whoever comes with
    /// nothing finds room, however many have taken all that they may.
    fn take(&mut self, user: &Arc<str>, kind: Kind, bytes: u64) -> Result<(), NoRoom> {
        let left = if kind == Kind::Note { self.for_notes } else { self.left };
        let rest = left.checked_sub(bytes).ok_or(NoRoom::Disk)?;
        let used = self.people.entry(Arc::clone(user)).or_default();
        if used.kept.saturating_add(used.spooled).saturating_add(bytes) > rest {
            return Err(NoRoom::Share);
        }
        self.count(user, kind, bytes);
        Ok(())
    }

    fn count(&mut self, user: &Arc<str>, kind: Kind, bytes: u64) {
        *self.people.entry(Arc::clone(user)).or_default().of(kind) += bytes;
        self.left = self.left.saturating_sub(bytes);
        self.for_notes = self.for_notes.saturating_sub(bytes);
        self.given += bytes;
    }
}

/// What one person may still take.
#[derive(Debug, Clone)]
pub(super) struct Allowance {
    room: Arc<Room>,
    pub(super) user: Arc<str>,
}

/// What a file was allowed to take so far.
#[derive(Debug, Default)]
pub(super) struct Granted(u64);

impl Allowance {
    /// Whether a file may grow to this length.
    pub(super) fn grow(
        &self,
        kind: Kind,
        granted: &mut Granted,
        length: u64,
    ) -> Result<(), NoRoom> {
        if length <= granted.0 {
            return Ok(());
        }
        let wanted =
            if granted.0 == 0 { self.room.cost(length) } else { length.next_multiple_of(BLOCK) };
        self.room.take(&self.user, kind, wanted - granted.0)?;
        granted.0 = wanted;
        Ok(())
    }

    /// A file is gone.
    pub(super) fn give_back(&self, kind: Kind, granted: &mut Granted) {
        let bytes = std::mem::take(&mut granted.0);
        if bytes == 0 {
            return;
        }
        let mut books = self.room.books();
        let used = books.people.entry(Arc::clone(&self.user)).or_default();
        *used.of(kind) = used.of(kind).saturating_sub(bytes);
    }

    /// A job of theirs has output now.
    pub(super) fn made_folder(&self) {
        let mut books = self.room.books();
        let bytes = folder_cost(books.least_file);
        books.count(&self.user, Kind::Log, bytes);
    }
}
