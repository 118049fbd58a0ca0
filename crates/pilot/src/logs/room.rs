//! How much room there is for output, and who may still take of it: the disk keeps a floor that no
//! output goes below, and nobody's output takes more than is left for the others. How high that
//! floor is says `trees/src/disk.rs`; what is done with output that gets no room, its writer.
//!
//! The books are kept while output is written; the disk is looked at now and then, because others
//! write there too.

use shipway_trees::disk::{BLOCK, Disk, Writer};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How long, and for how many bytes, a look at the disk is good. What others write meanwhile is far
/// less than the floor.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const LOOK_EVERY_BYTES: u64 = 16 << 20;

/// What there is for output, or for the notes on it. Files that can still be made count as what
/// they take.
fn room_for(disk: &Disk, who: Writer) -> u64 {
    let files = disk.files_for(who).map(|files| files.saturating_mul(disk.least_file()));
    disk.room_for(who).min(files.unwrap_or(u64::MAX))
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

pub(super) struct OutputRoom {
    look: Look,
    books: Mutex<Books>,
    /// Somebody got no room, or files were removed: the books may say too much.
    pub(super) recount: Notify,
}

impl fmt::Debug for OutputRoom {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OutputRoom").field("books", &self.books).finish_non_exhaustive()
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

impl OutputRoom {
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
        Arc::new(OutputRoom { look, books: Mutex::new(books), recount: Notify::new() })
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
        self.left = disk.map_or(u64::MAX, |disk| room_for(&disk, Writer::Output));
        self.for_notes = disk.map_or(u64::MAX, |disk| room_for(&disk, Writer::Notes));
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
    room: Arc<OutputRoom>,
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
