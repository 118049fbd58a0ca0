//! What was fetched of files that travel, kept by its digest while there is room, so that the next
//! task that wants it need not wait. Everything here was verified when it came.
//!
//! It is the pilot's own: nobody else may enter the folder, and no file of it is ever another name
//! of one that a task has. What a task needs is not removed while it is made of it.
//!
//! ```text
//! files/content/HEX  verified
//!       part/HEX     what has come of one so far
//!       boot         of which start of the node: after another one nothing here is trusted
//! ```

use sha2::{Digest as _, Sha256};
use shipway_model::limits::MAX_MANIFEST_BYTES;
use shipway_model::{Bytes, Digest, Manifest};
use shipway_trees::disk::{BLOCK, Disk, Writer};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const BOOT: &str = "/proc/sys/kernel/random/boot_id";
/// How often whoever waits for another's fetch looks whether the task is still wanted.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// What the smallest file counts for.
const LEAST: u64 = BLOCK;
/// For how many bytes a look at the disk is good.
const LOOK_AT_DISK: u64 = 16 << 20;
/// So many may come before the next look.
const FEW_FILES: u64 = LOOK_AT_DISK / LEAST;
/// More than is missing goes, so that it is not looked for again at once.
const MADE_AT_ONCE: u64 = 64 << 20;

#[derive(Debug)]
pub(super) struct Cache {
    folder: PathBuf,
    most: u64,
    books: Mutex<Books>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Books {
    here: HashMap<Digest, Here>,
    /// The longest unused first.
    by_use: BTreeSet<(u64, Digest)>,
    pins: HashMap<Digest, usize>,
    coming: HashSet<Digest>,
    bytes: u64,
    uses: u64,
}

#[derive(Debug)]
struct Here {
    size: u64,
    used: u64,
}

/// Contents that stay while this is held, once they are here.
#[derive(Debug)]
pub(super) struct Pinned {
    cache: Arc<Cache>,
    digests: Vec<Digest>,
}

/// A content that this thread alone fetches.
#[derive(Debug)]
pub(super) struct Claim<'a> {
    cache: &'a Cache,
    pub(super) digest: Digest,
}

/// Somebody claims what is missing, or waits for whoever did.
#[derive(Debug)]
pub(super) enum Claimed<'a> {
    AllHere,
    Mine(Vec<Claim<'a>>),
    OfOthers,
}

impl Cache {
    /// What cannot be used is said by who uses it.
    pub(super) fn open(folder: &Path, most: Bytes) -> Self {
        let books = prepare(folder).and_then(|()| Books::of(folder)).unwrap_or_else(|error| {
            tracing::warn!(%error, "files that travel cannot be kept");
            Books::default()
        });
        let (folder, books) = (folder.to_owned(), Mutex::new(books));
        let cache = Cache { folder, most: most.0, books, changed: Condvar::new() };
        cache.make_room(&mut cache.books(), 0);
        cache
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        // It is consistent between any two statements that can panic.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn content(&self, digest: &Digest) -> PathBuf {
        self.folder.join("content").join(digest.hex())
    }

    fn part(&self, digest: &Digest) -> PathBuf {
        self.folder.join("part").join(digest.hex())
    }

    pub(super) fn pin(self: &Arc<Self>, digests: impl IntoIterator<Item = Digest>) -> Pinned {
        let digests: Vec<Digest> = digests.into_iter().collect();
        let mut books = self.books();
        for digest in &digests {
            *books.pins.entry(*digest).or_default() += 1;
        }
        drop(books);
        Pinned { cache: Arc::clone(self), digests }
    }

    /// What is missing of these is this thread's to fetch, but for what another fetches already.
    pub(super) fn claim(&self, wanted: &[Digest], most: usize) -> Claimed<'_> {
        let mut books = self.books();
        let mut mine = Vec::new();
        let mut others = false;
        for digest in wanted {
            if books.here.contains_key(digest) {
                books.note_use(digest);
            } else if !books.coming.contains(digest) && mine.len() < most {
                books.coming.insert(*digest);
                mine.push(Claim { cache: self, digest: *digest });
            } else {
                others = true;
            }
        }
        match (mine.is_empty(), others) {
            (false, _) => Claimed::Mine(mine),
            (true, true) => Claimed::OfOthers,
            (true, false) => Claimed::AllHere,
        }
    }

    /// Until something may have changed.
    pub(super) fn wait(&self) {
        let books = self.books();
        let _ = self.changed.wait_timeout(books, LOOK_EVERY);
    }

    pub(super) fn manifest(&self, digest: &Digest) -> Result<Manifest, String> {
        let read = File::open(self.content(digest)).and_then(|file| {
            let mut text = Vec::new();
            file.take(MAX_MANIFEST_BYTES as u64 + 1).read_to_end(&mut text)?;
            Ok(text)
        });
        let text = read.map_err(|error| format!("cannot read the list of its files: {error}"))?;
        if text.len() > MAX_MANIFEST_BYTES {
            return Err("the list of its files is too long".into());
        }
        let read: Manifest = serde_json::from_slice(&text)
            .map_err(|error| format!("the list of its files cannot be read: {error}"))?;
        read.checked().map_err(|error| format!("the list of its files cannot be used: {error}"))
    }

    /// Removes the longest unused, as far as nobody needs them, until there is room for so much.
    fn make_room(&self, books: &mut Books, more: u64) {
        self.make_room_within(books, self.most.saturating_sub(more));
    }

    fn make_room_within(&self, books: &mut Books, most: u64) {
        let mut kept = Vec::new();
        while books.bytes > most {
            let Some((used, digest)) = books.by_use.pop_first() else { break };
            if books.pins.contains_key(&digest) {
                kept.push((used, digest));
                continue;
            }
            let size = books.here.remove(&digest).map_or(0, |here| here.size);
            books.bytes = books.bytes.saturating_sub(size);
            let _gone = std::fs::remove_file(self.content(&digest));
        }
        books.by_use.extend(kept);
    }

    /// What nobody needs goes where the disk is short, whatever the cache may have.
    fn see_to_room(&self) -> Result<(), NotKept> {
        let Some(short) = self.short_by() else { return Ok(()) };
        let mut books = self.books();
        let most = books.bytes.saturating_sub(short.max(MADE_AT_ONCE));
        self.make_room_within(&mut books, most);
        drop(books);
        if self.short_by().is_none() {
            return Ok(());
        }
        let Some(disk) = Disk::of(&self.folder) else { return Ok(()) };
        let (free, left) = (Bytes(disk.free), Bytes(disk.left_by(Writer::Images)));
        Err(NotKept::Room { free, left })
    }

    /// How much the disk lacks for what comes next.
    fn short_by(&self) -> Option<u64> {
        let disk = Disk::of(&self.folder)?;
        let bytes = LOOK_AT_DISK.saturating_sub(disk.room_for(Writer::Images));
        let files =
            disk.files_for(Writer::Images).map_or(0, |files| FEW_FILES.saturating_sub(files));
        let short = bytes.max(files.saturating_mul(LEAST));
        (short > 0).then_some(short)
    }
}

impl Books {
    fn of(folder: &Path) -> io::Result<Books> {
        let mut found = BTreeMap::new();
        for entry in std::fs::read_dir(folder.join("content"))? {
            let entry = entry?;
            let name = entry.file_name().into_string().unwrap_or_default();
            let Ok(digest) = format!("sha256:{name}").parse::<Digest>() else { continue };
            let known = entry.metadata()?;
            found.insert((known.modified()?, digest), known.len());
        }
        let mut books = Books::default();
        for ((_, digest), size) in found {
            books.add(digest, size);
        }
        Ok(books)
    }

    fn add(&mut self, digest: Digest, size: u64) {
        // A small file takes a block, and one of so many files.
        let size = size.max(LEAST);
        self.uses += 1;
        self.by_use.insert((self.uses, digest));
        self.here.insert(digest, Here { size, used: self.uses });
        self.bytes += size;
    }

    fn note_use(&mut self, digest: &Digest) {
        self.uses += 1;
        if let Some(here) = self.here.get_mut(digest) {
            self.by_use.remove(&(here.used, *digest));
            here.used = self.uses;
            self.by_use.insert((here.used, *digest));
        }
    }
}

/// What came before the node was started anew may not be what it was: it is not synced.
fn prepare(folder: &Path) -> io::Result<()> {
    let boot = std::fs::read_to_string(BOOT).unwrap_or_default();
    let word = folder.join("boot");
    if std::fs::read_to_string(&word).is_ok_and(|known| known == boot && !boot.is_empty()) {
        return Ok(());
    }
    shipway_trees::remove(folder).map_err(io::Error::other)?;
    for name in ["content", "part"] {
        DirBuilder::new().recursive(true).mode(0o700).create(folder.join(name))?;
    }
    shipway_trees::write_whole(&word, boot.as_bytes())
}

impl Pinned {
    pub(super) fn open(&self, digest: &Digest) -> io::Result<File> {
        File::open(self.cache.content(digest))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let mut books = self.cache.books();
        for digest in &self.digests {
            if let Some(count) = books.pins.get_mut(digest) {
                *count -= 1;
                if *count == 0 {
                    books.pins.remove(digest);
                }
            }
        }
        self.cache.make_room(&mut books, 0);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.cache.books().coming.remove(&self.digest);
        self.cache.changed.notify_all();
    }
}

/// A content as it comes.
#[derive(Debug)]
pub(super) struct Coming {
    file: File,
    hash: Sha256,
    pub(super) at: u64,
    unseen: u64,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum NotKept {
    #[error("the node's disk has no room for files that travel: {free} free, of which {left} stay")]
    Room { free: Bytes, left: Bytes },
    #[error("what came is not what {0} names")]
    Digest(Digest),
    #[error("cannot keep files that travel: {0}")]
    Io(#[from] io::Error),
}

impl Claim<'_> {
    /// How much of it has come before.
    pub(super) fn have(&self) -> u64 {
        std::fs::metadata(self.cache.part(&self.digest)).map_or(0, |found| found.len())
    }

    /// Goes on from there.
    pub(super) fn begin(&self, offset: u64) -> Result<Coming, NotKept> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o600);
        let mut file = options.open(self.cache.part(&self.digest))?;
        let mut hash = Sha256::new();
        if offset == 0 {
            file.set_len(0)?;
        } else {
            let mut buffer = vec![0; 1 << 20];
            let mut before = (&mut file).take(offset);
            loop {
                match before.read(&mut buffer)? {
                    0 => break,
                    count => hash.update(&buffer[..count]),
                }
            }
        }
        Ok(Coming { file, hash, at: offset, unseen: LOOK_AT_DISK })
    }

    /// All of it has come.
    pub(super) fn end(self, coming: Coming, size: u64) -> Result<(), NotKept> {
        let part = self.cache.part(&self.digest);
        if coming.at != size || coming.hash.finalize()[..] != self.digest.0 {
            let _gone = std::fs::remove_file(part);
            return Err(NotKept::Digest(self.digest));
        }
        let mut books = self.cache.books();
        self.cache.make_room(&mut books, size);
        std::fs::rename(part, self.cache.content(&self.digest))?;
        books.add(self.digest, size);
        Ok(())
    }
}

impl Coming {
    pub(super) fn write(&mut self, folder: &Cache, bytes: &[u8]) -> Result<(), NotKept> {
        self.unseen += bytes.len() as u64;
        if self.unseen >= LOOK_AT_DISK {
            self.unseen = 0;
            folder.see_to_room()?;
        }
        self.file.write_all(bytes)?;
        self.hash.update(bytes);
        self.at += bytes.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
