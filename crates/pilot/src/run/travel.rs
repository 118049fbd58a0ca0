//! Files that travel: those that came with a job are fetched over the pilot's own connection, kept
//! for the next task that wants them, and handed to whoever makes them in a work directory; those
//! that a task has made go back the same way. All of it on the threads that copy files, which wait.
//!
//! - `line.rs`    the connection that is open now
//! - `cache.rs`   what was fetched, kept while there is room
//! - `fetch.rs`   from the server into the cache
//! - `send.rs`    to the server, from hand to hand
//! - `telling.rs` how far it is

mod cache;
mod fetch;
mod line;
mod send;
mod telling;

use super::copying::Stop;
use crate::stage::talk::{FILES_AT_ONCE, Talk, Word};
use cache::Cache;
pub(super) use line::{Line, line};
use shipway_model::{AttemptId, Bytes, Digest, Manifest};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a node keeps of files that came with jobs, unless told otherwise.
pub(super) const USUAL_ROOM: Bytes = Bytes(20_000_000_000);

/// What the threads share.
#[derive(Debug)]
pub(super) struct Travel {
    line: Line,
    cache: Arc<Cache>,
}

/// Something that travels for one attempt.
pub(super) struct Journey<'a> {
    pub(super) attempt: AttemptId,
    pub(super) person: &'a str,
    pub(super) stop: &'a Stop,
    /// Says a line to whoever follows the task.
    pub(super) say: &'a (dyn Fn(String) + Sync),
    /// Changes whenever something has come further.
    pub(super) moved: &'a AtomicU64,
}

impl Journey<'_> {
    fn has_moved(&self) {
        self.moved.fetch_add(1, Ordering::Relaxed);
    }

    fn has_come(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        self.stop.is_wanted()
    }
}

/// All that a task came with, here for as long as this is held.
#[derive(Debug)]
pub(super) struct Came {
    pub(super) manifest: Manifest,
    pinned: cache::Pinned,
}

impl Travel {
    pub(super) fn new(dir: &Path, room: Option<Bytes>, line: Line) -> Self {
        let cache = Cache::open(&dir.join("files"), room.unwrap_or(USUAL_ROOM));
        Travel { line, cache: Arc::new(cache) }
    }

    /// Sees to it that all that a job came with is here.
    pub(super) fn bring(&self, of: &Journey<'_>, list: Digest) -> Result<Came, String> {
        let first = self.cache.pin([list]);
        fetch::fetch(&self.line, &self.cache, of, &[list], None)?;
        let manifest = self.cache.manifest(&list)?;
        drop(first);
        let contents = manifest.contents();
        let pinned = self.cache.pin(contents.keys().copied());
        let wanted: Vec<Digest> = contents.keys().copied().collect();
        fetch::fetch(&self.line, &self.cache, of, &wanted, Some(manifest.bytes()))?;
        Ok(Came { manifest, pinned })
    }

    /// Hands the files of a list to the process that makes them, in order. It ends when the process
    /// does.
    pub(super) fn hand(came: &Came, talk: &Talk) -> io::Result<()> {
        for files in came.manifest.files.chunks(FILES_AT_ONCE) {
            let opened = files.iter().map(|file| came.pinned.open(&file.sha256));
            let opened = opened.collect::<io::Result<Vec<_>>>()?;
            let handed: Vec<_> = opened.iter().map(AsFd::as_fd).collect();
            talk.say(Word::Files, &[], &handed)?;
        }
        Ok(())
    }

    /// Takes what a task has made from the process that reads it, to the server.
    pub(super) fn take(&self, of: &Journey<'_>, talk: &Talk) -> Result<(), String> {
        send::send(&self.line, of, talk)
    }
}
