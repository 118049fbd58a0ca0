//! The reading end of a stream: any offset, at any time, without a lock on the writer.
//!
//! A reader may be slow, may start late, and may outlive the writer; it never holds anybody up.
//! It says how much is missing and where; how that looks to people is not decided here.

use super::{Position, tail};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use tokio::sync::watch;

/// The most one read returns; a caller who asks for more gets this much and asks again.
pub const READ_LIMIT: usize = 1024 * 1024;

/// A piece of a stream. The next one starts at `offset + bytes.len()`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    pub offset: u64,
    pub bytes: Vec<u8>,
    /// Bytes missing just before `offset`: dropped by the limit, or lost to a full disk.
    pub dropped: u64,
    /// The task prints nothing after this.
    pub end: bool,
}

impl Chunk {
    /// Whether what is missing could not be stored. What the limit drops is followed by what it
    /// keeps.
    pub fn is_unkept(&self) -> bool {
        self.dropped > 0 && self.bytes.is_empty()
    }
}

#[derive(Debug)]
enum Source {
    Live(watch::Receiver<Position>),
    Finished(Position),
}

#[derive(Debug)]
pub struct LogReader {
    path: PathBuf,
    source: Source,
    head: Option<File>,
    tail: Option<File>,
}

impl LogReader {
    pub(super) fn open(path: PathBuf, live: Option<watch::Receiver<Position>>) -> io::Result<Self> {
        let mut reader = Self {
            path,
            source: Source::Finished(Position {
                head: 0,
                ring: 0,
                written: 0,
                total: 0,
                closed: true,
            }),
            head: None,
            tail: None,
        };
        reader.source = match live {
            Some(receiver) => Source::Live(receiver),
            None => Source::Finished(reader.position_from_files()?),
        };
        Ok(reader)
    }

    /// The bytes from `offset` on, at most `max`; empty when there is nothing new yet.
    pub fn read(&mut self, offset: u64, max: usize) -> io::Result<Chunk> {
        let max = max.clamp(1, READ_LIMIT);
        loop {
            let position = self.position();
            if let Some(chunk) = self.read_at(&position, offset, max)? {
                return Ok(chunk);
            }
            // The writer lapped us while we read: what we wanted is dropped by now. Each round
            // starts at the oldest byte kept, a whole ring away from the writer.
        }
    }

    /// Returns when there may be more to read than at the last `read`; at once when the stream
    /// has ended.
    pub async fn changed(&mut self) {
        if let Source::Live(receiver) = &mut self.source
            && !receiver.borrow().closed
        {
            // The writer says `closed` before it goes, so an error only means that.
            let _gone = receiver.changed().await;
        }
    }

    fn position(&mut self) -> Position {
        match &mut self.source {
            Source::Live(receiver) => *receiver.borrow_and_update(),
            Source::Finished(position) => *position,
        }
    }

    /// `None` when the bytes were overwritten during the read.
    fn read_at(&mut self, now: &Position, offset: u64, max: usize) -> io::Result<Option<Chunk>> {
        let offset = offset.min(now.total);
        if offset >= now.written {
            // Nothing kept from here on; what was lost is told, and skipped.
            let chunk = Chunk {
                offset: now.total,
                bytes: vec![],
                dropped: now.total - offset,
                end: now.closed,
            };
            return Ok(Some(chunk));
        }
        let in_head = offset < now.head;
        let start = if in_head { offset } else { offset.max(oldest_in_ring(now)) };
        let bytes = if in_head {
            let until = now.head.min(now.written);
            self.read_head(start, fewer(max, until - start))?
        } else {
            self.read_tail(now, start, fewer(max, now.written - start))?
        };
        if !in_head && start < oldest_in_ring(&self.peek()) {
            return Ok(None);
        }
        let end = now.closed && start + bytes.len() as u64 == now.total;
        Ok(Some(Chunk { offset: start, bytes, dropped: start - offset, end }))
    }

    fn peek(&self) -> Position {
        match &self.source {
            Source::Live(receiver) => *receiver.borrow(),
            Source::Finished(position) => *position,
        }
    }

    fn read_head(&mut self, at: u64, length: usize) -> io::Result<Vec<u8>> {
        let file = match self.head.take() {
            Some(file) => file,
            None => File::open(&self.path)?,
        };
        read_exactly(self.head.insert(file), at, length)
    }

    fn read_tail(&mut self, now: &Position, start: u64, length: usize) -> io::Result<Vec<u8>> {
        let file = match self.tail.take() {
            Some(file) => file,
            None => File::open(tail::path_beside(&self.path))?,
        };
        let (at, length) = tail::locate(now, start, length);
        read_exactly(self.tail.insert(file), at, length)
    }

    fn position_from_files(&mut self) -> io::Result<Position> {
        self.tail = open_if_there(tail::path_beside(&self.path))?;
        self.head = open_if_there(self.path.clone())?;
        if let Some(position) = self.tail.as_ref().and_then(tail::read_header) {
            return Ok(position);
        }
        let length = self.head.as_ref().map_or(Ok(0), |file| file.metadata().map(|m| m.len()))?;
        Ok(Position { head: length, ring: 0, written: length, total: length, closed: true })
    }
}

fn oldest_in_ring(position: &Position) -> u64 {
    position.head.max(position.written.saturating_sub(position.ring))
}

fn fewer(max: usize, available: u64) -> usize {
    usize::try_from(available).map_or(max, |available| available.min(max))
}

fn read_exactly(file: &File, at: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, at)?;
    Ok(bytes)
}

fn open_if_there(path: PathBuf) -> io::Result<Option<File>> {
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}
