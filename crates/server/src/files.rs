//! Files that travel: contents that users have uploaded for their jobs and that tasks have sent
//! back, kept in the home by their digests.
//!
//! Each user has a folder, and nothing in it is anybody else's: who knows a digest has no right to
//! what it names, and cannot even learn whether somebody has it.
//!
//! ```text
//! files/USER.NUMBER/content/ab/HEX   a content, whole and verified
//!                   part/HEX         what has come of one so far
//!                   jobs/JOB         the list of files that a job came with
//!                   outputs/JOB/N    the list of those that task N has made
//! ```
//!
//! - `coming.rs`  a content on its way in
//! - `pack.rs`    many of them in one request
//! - `outputs.rs` what belongs to jobs and tasks
//! - `reading.rs` a content on its way out
//! - `sweep.rs`   what nobody needs any more
//!
//! Not here: who asks, and whether they may.
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

mod coming;
mod outputs;
mod pack;
pub(crate) mod reading;
mod sweep;
#[cfg(test)]
mod tests;

use crate::locks::Locked;
use coming::Partial;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, utimensat};
use shipway_model::limits::MAX_MANIFEST_BYTES;
use shipway_model::manifest::BadManifest;
use shipway_model::{Bytes, Digest, Manifest, Millis, UserName, UserNumber};
use shipway_trees::disk::{BLOCK, Disk, Writer};
use std::collections::HashMap;
use std::fs::{DirBuilder, File};
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

pub(crate) use coming::hash_of;
pub use pack::Taken;
pub use sweep::Standing;

/// What a server keeps of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Of one user.
    pub quota: Bytes,
    /// How long what no job needs is kept, and the files of a job that is over.
    pub keep: Millis,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { quota: Bytes(100_000_000_000), keep: Millis(14 * 24 * 3_600 * 1_000) }
    }
}

/// What each file counts for beside its bytes: a file system has only so many of them, and a file
/// of one byte takes a block.
const LEAST: u64 = BLOCK;

#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    #[error(
        "your files here would take {} of the {quota} that one user may have",
        Bytes(.used.saturating_add(*.more))
    )]
    Quota { used: u64, more: u64, quota: Bytes },
    #[error("the disk of the server has no room for {}", Bytes(*.0))]
    Room(u64),
    #[error("what came is not what {0} names")]
    Digest(Digest),
    #[error("of {digest} {have} bytes are here, and more was sent from {offset} on")]
    Offset { digest: Digest, have: u64, offset: u64 },
    #[error("{0} is being uploaded by another request")]
    Busy(Digest),
    #[error("the upload broke off, or is none")]
    Pack(#[source] io::Error),
    #[error("you have not uploaded {0}, or it was removed since")]
    Missing(Digest),
    #[error("the list of files {0} cannot be read")]
    Unreadable(Digest),
    #[error("the list of files {digest} cannot be used: {source}")]
    Manifest {
        digest: Digest,
        #[source]
        source: BadManifest,
    },
    #[error("cannot {act} files")]
    Io {
        act: &'static str,
        #[source]
        source: io::Error,
    },
}

impl FilesError {
    fn io(act: &'static str) -> impl Fn(io::Error) -> FilesError {
        move |source| FilesError::Io { act, source }
    }
}

/// Whose files: a name and a number that nobody else ever has.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Whose(String);

impl Whose {
    pub fn new(user: &UserName, number: Option<UserNumber>) -> Self {
        Whose(format!("{user}.{}", number.map_or(0, |number| number.0)))
    }
}

#[derive(Debug)]
pub struct FileStore {
    root: PathBuf,
    limits: Limits,
    books: Mutex<Books>,
    /// Held while it is written what belongs to a job.
    recording: Mutex<()>,
}

#[derive(Debug, Default)]
struct Books {
    /// Bytes that somebody's files take, once that was asked for.
    used: HashMap<Whose, u64>,
    /// Contents of which a part is here.
    coming: HashMap<(Whose, Digest), Partial>,
    /// Requests that upload, of each user.
    uploads: HashMap<Whose, usize>,
}

/// Requests of one user that upload at the same time. More would not make a disk faster.
const UPLOADS_OF_ONE: usize = 8;
/// And of all: each has a thread that waits for it.
const UPLOADS_OF_ALL: usize = 128;

/// A request that uploads, until it is over.
#[derive(Debug)]
pub struct Upload<'a> {
    store: &'a FileStore,
    whose: Whose,
}

impl Drop for Upload<'_> {
    fn drop(&mut self) {
        let mut books = self.store.books.locked();
        if let Some(count) = books.uploads.get_mut(&self.whose) {
            *count -= 1;
            if *count == 0 {
                books.uploads.remove(&self.whose);
            }
        }
    }
}

impl FileStore {
    /// Nothing is looked at yet.
    pub fn new(root: PathBuf, limits: Limits) -> Self {
        FileStore { root, limits, books: Mutex::default(), recording: Mutex::default() }
    }

    pub fn limits(&self) -> Limits {
        self.limits
    }

    fn folder(&self, whose: &Whose) -> PathBuf {
        self.root.join(&whose.0)
    }

    fn content(&self, whose: &Whose, digest: &Digest) -> PathBuf {
        let hex = digest.hex();
        let first = hex.get(..2).unwrap_or_default();
        self.folder(whose).join("content").join(first).join(&hex)
    }

    fn part(&self, whose: &Whose, digest: &Digest) -> PathBuf {
        self.folder(whose).join("part").join(digest.hex())
    }

    /// Folders that only the server may enter.
    fn make(path: &Path) -> Result<(), FilesError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(FilesError::io("make room for"))
    }

    /// A place for a request that uploads; `None`: this user has as many as one may.
    pub fn upload(&self, whose: &Whose) -> Option<Upload<'_>> {
        let mut books = self.books.locked();
        let all: usize = books.uploads.values().sum();
        let count = books.uploads.entry(whose.clone()).or_default();
        if *count >= UPLOADS_OF_ONE || all >= UPLOADS_OF_ALL {
            return None;
        }
        *count += 1;
        Some(Upload { store: self, whose: whose.clone() })
    }

    /// Which of these are not here, and how much of each is. What is here counts as used just now.
    pub fn missing(&self, whose: &Whose, wanted: &[(Digest, u64)]) -> Vec<(Digest, u64)> {
        let missing = wanted.iter().filter(|(digest, size)| !self.has(whose, digest, *size));
        missing.map(|(digest, _)| (*digest, self.have(whose, digest))).collect()
    }

    /// Whether it is here, and stays for as long as unused contents do.
    fn has(&self, whose: &Whose, digest: &Digest, size: u64) -> bool {
        let path = self.content(whose, digest);
        // A sweep that has found it unused looks again when it has this lock.
        let _no_sweep = self.books.locked();
        let found = std::fs::symlink_metadata(&path).is_ok_and(|found| found.len() == size);
        found && used_now(&path).is_ok()
    }

    /// How much of a content that is not here has come.
    fn have(&self, whose: &Whose, digest: &Digest) -> u64 {
        std::fs::symlink_metadata(self.part(whose, digest)).map_or(0, |found| found.len())
    }

    /// Opens a content of this user's.
    pub fn open(&self, whose: &Whose, digest: &Digest) -> Result<(File, u64), FilesError> {
        let opened = File::open(self.content(whose, digest));
        let file = opened.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => FilesError::Missing(*digest),
            _ => FilesError::Io { act: "read", source: error },
        })?;
        let size = file.metadata().map_err(FilesError::io("read"))?.len();
        Ok((file, size))
    }

    /// A list of files that this user has uploaded, in order.
    pub fn manifest(&self, whose: &Whose, digest: &Digest) -> Result<Manifest, FilesError> {
        let (file, size) = self.open(whose, digest)?;
        let unreadable = || FilesError::Unreadable(*digest);
        if size > MAX_MANIFEST_BYTES as u64 {
            return Err(unreadable());
        }
        let mut text = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
        let read = file.take(MAX_MANIFEST_BYTES as u64).read_to_end(&mut text);
        read.map_err(FilesError::io("read"))?;
        let read: Manifest = serde_json::from_slice(&text).map_err(|_| unreadable())?;
        read.checked().map_err(|source| FilesError::Manifest { digest: *digest, source })
    }

    /// Whether all that a job comes with is here; it stays until the job can be recorded.
    pub fn check(&self, whose: &Whose, digest: &Digest) -> Result<(), FilesError> {
        let manifest = self.manifest(whose, digest)?;
        let contents: Vec<_> = manifest.contents().into_iter().collect();
        match self.missing(whose, &contents).first() {
            Some((digest, _)) => Err(FilesError::Missing(*digest)),
            None => used_now(&self.content(whose, digest)).map_err(FilesError::io("keep")),
        }
    }

    /// What somebody's files take. Walks through all of them the first time.
    pub fn used(&self, whose: &Whose) -> u64 {
        if let Some(used) = self.books.locked().used.get(whose) {
            return *used;
        }
        let found = ["content", "part"].map(|name| bytes_below(&self.folder(whose).join(name)));
        let found = found.iter().sum();
        *self.books.locked().used.entry(whose.clone()).or_insert(found)
    }

    /// Counts what is about to be written, if there is room for it.
    fn take(&self, whose: &Whose, more: u64) -> Result<(), FilesError> {
        let quota = self.limits.quota;
        self.used(whose);
        let mut books = self.books.locked();
        let used = books.used.entry(whose.clone()).or_default();
        if used.saturating_add(more) > quota.0 {
            return Err(FilesError::Quota { used: *used, more, quota });
        }
        *used += more;
        drop(books);
        // They leave as much of the disk as images do: the journal beside them needs some.
        let has_room = Disk::of(&self.root).is_none_or(|disk| {
            let has_files = disk.files_for(Writer::Images).is_none_or(|files| files > 0);
            has_files && disk.room_for(Writer::Images) >= more
        });
        if has_room {
            return Ok(());
        }
        self.give_back(whose, more);
        Err(FilesError::Room(more))
    }

    fn give_back(&self, whose: &Whose, bytes: u64) {
        if let Some(used) = self.books.locked().used.get_mut(whose) {
            *used = used.saturating_sub(bytes);
        }
    }
}

fn bytes_below(folder: &Path) -> u64 {
    let mut left = vec![folder.to_owned()];
    let mut bytes = 0;
    while let Some(folder) = left.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(found) if found.is_dir() => left.push(entry.path()),
                Ok(found) => bytes += LEAST.saturating_add(found.len()),
                Err(_) => {}
            }
        }
    }
    bytes
}

/// Notes that a content is wanted.
fn used_now(path: &Path) -> io::Result<()> {
    let at = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    let times = Timestamps { last_access: at(UTIME_OMIT), last_modification: at(UTIME_NOW) };
    Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}
