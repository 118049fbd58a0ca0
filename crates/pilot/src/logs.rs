//! What tasks print: kept in bounded files, read while it is written and long after.
//!
//! A stream is a sequence of bytes with offsets `[0, total)`. The first half of its limit is kept
//! in a head file, the rest goes through a ring that holds the newest bytes; what lies between is
//! dropped, and a reader is told how much. A stream that stays empty makes no file. This module
//! does not read pipes (see `spawn`) and renders nothing.
//!
//! ```text
//! <root>/<job>/.user                         whose it is, as the target of a link
//! <root>/<job>/<index>.<attempt>.out         the head, as printed
//! <root>/<job>/<index>.<attempt>.out.tail    header and ring, once the head is full
//! ```

mod keep;
mod reader;
mod recount;
mod room;
mod spool;
mod tail;
mod writer;

pub use reader::{Chunk, LogReader, READ_LIMIT};
pub use spool::Spool;
pub use writer::StreamWriter;

use room::{Allowance, OutputRoom};
use shipway_model::AttemptId;
use shipway_trees::disk::Disk;
use std::collections::HashMap;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// The most a writer takes at once, and so the most a reader can be behind a write in progress.
pub const CHUNK_BYTES: usize = 64 * 1024;

/// Says in the folder of a job whose output is in it.
const OWNER: &str = ".user";

/// Smallest limit a stream can have: a byte for the head and one for the ring.
const LEAST_LIMIT: u64 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    Out,
    Err,
}

/// How much is kept of an attempt's output.
#[derive(Debug, Clone, Copy)]
pub struct Keep<'a> {
    /// Bytes of each stream.
    pub limit: u64,
    /// Out of whose part of the disk.
    pub user: &'a str,
}

/// How far a stream has come, and how its bytes are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    /// Bytes that go to the head file.
    pub(crate) head: u64,
    /// Bytes the ring keeps.
    pub(crate) ring: u64,
    /// Bytes the files have received.
    pub(crate) written: u64,
    /// Bytes the task has printed; those beyond `written` could not be kept.
    pub(crate) total: u64,
    pub(crate) closed: bool,
}

/// All logs of a node.
#[derive(Debug)]
pub struct Logs {
    root: PathBuf,
    /// Streams being written; the others are as their files say.
    live: Mutex<HashMap<(AttemptId, Stream), watch::Receiver<Position>>>,
    room: Arc<OutputRoom>,
}

impl Logs {
    /// Those below `root`, which lies in the pilot's folder and on the same disk.
    pub fn new(root: PathBuf) -> Arc<Self> {
        let folder = root.parent().unwrap_or(&root).to_owned();
        Self::on_disk(root, move || Disk::of(&folder))
    }

    fn on_disk(
        root: PathBuf,
        look: impl Fn() -> Option<Disk> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { root, live: Mutex::default(), room: OutputRoom::new(Box::new(look)) })
    }

    /// The two writers of an attempt, standard output first. From now until each is dropped,
    /// readers of that stream follow it.
    pub fn writers(
        self: &Arc<Self>,
        name: AttemptId,
        keep: Keep<'_>,
    ) -> (StreamWriter, StreamWriter) {
        let allowance = self.room.allowance(keep.user);
        let writer = |stream, allowance| self.writer(name, stream, keep.limit, allowance);
        (writer(Stream::Out, allowance.clone()), writer(Stream::Err, allowance))
    }

    fn writer(
        self: &Arc<Self>,
        name: AttemptId,
        stream: Stream,
        limit: u64,
        allowance: Allowance,
    ) -> StreamWriter {
        let limit = limit.max(LEAST_LIMIT);
        let head = limit / 2;
        let start = Position { head, ring: limit - head, written: 0, total: 0, closed: false };
        let (sender, receiver) = watch::channel(start);
        self.with_live(|live| live.insert((name, stream), receiver));
        StreamWriter::new(Arc::clone(self), name, stream, sender, allowance)
    }

    /// A line below what an attempt of an earlier pilot wrote as errors. Where that was so much
    /// that its file is full, there is no place for it.
    pub(crate) fn add_line(&self, name: AttemptId, line: &str) {
        let path = self.path(name, Stream::Err);
        if tail::path_beside(&path).exists() {
            return;
        }
        let mut options = std::fs::OpenOptions::new();
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        let file = made.and_then(|()| options.append(true).create(true).mode(0o600).open(&path));
        let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
        if let Err(error) = written {
            tracing::warn!(path = %path.display(), %error, "cannot add to a log: {line}");
        }
    }

    /// A reader of one stream, whether it is being written, finished, or was never written.
    pub fn reader(&self, name: AttemptId, stream: Stream) -> io::Result<LogReader> {
        let live = self.with_live(|live| live.get(&(name, stream)).cloned());
        LogReader::open(self.path(name, stream), live)
    }

    pub(crate) fn forget_live(&self, name: AttemptId, stream: Stream) {
        self.with_live(|live| live.remove(&(name, stream)));
    }

    pub(crate) fn path(&self, name: AttemptId, stream: Stream) -> PathBuf {
        let AttemptId { task, attempt } = name;
        let ending = match stream {
            Stream::Out => "out",
            Stream::Err => "err",
        };
        let file = format!("{}.{}.{ending}", task.index.0, attempt.0);
        self.root.join(task.job.0.to_string()).join(file)
    }

    fn with_live<T>(
        &self,
        act: impl FnOnce(&mut HashMap<(AttemptId, Stream), watch::Receiver<Position>>) -> T,
    ) -> T {
        // The table is valid between any two statements: a panic elsewhere does not spoil it.
        act(&mut self.live.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests;
