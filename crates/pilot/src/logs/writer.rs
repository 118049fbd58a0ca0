//! The writing end of a stream: takes bytes as they come and keeps what it promised to keep.
//!
//! It never fails and never waits for a reader: a byte that cannot be stored (no room for more of
//! its user's output) is counted as printed and not kept, and the task goes on.

use super::room::{Allowance, Granted, Kind, NoRoom};
use super::{CHUNK_BYTES, Logs, OWNER, Position, Spool, Stream, tail};
use shipway_model::AttemptId;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::watch;

/// Dropping it ends the stream.
#[derive(Debug)]
pub struct StreamWriter {
    logs: Arc<Logs>,
    name: AttemptId,
    stream: Stream,
    head: Option<File>,
    tail: Option<File>,
    allowance: Allowance,
    /// What the two files were allowed to take.
    granted: [Granted; 2],
    /// Set by the first byte that could not be stored. Later bytes are not tried: the offsets of
    /// a stream stay one kept piece and one lost piece, which a reader can be told in place.
    cut: bool,
    position: Position,
    sender: watch::Sender<Position>,
    /// Gets all of it, beside the log.
    also_to: Option<Arc<Spool>>,
}

impl StreamWriter {
    pub(super) fn new(
        logs: Arc<Logs>,
        name: AttemptId,
        stream: Stream,
        sender: watch::Sender<Position>,
        allowance: Allowance,
    ) -> Self {
        let position = *sender.borrow();
        Self {
            logs,
            name,
            stream,
            head: None,
            tail: None,
            allowance,
            granted: Default::default(),
            cut: false,
            position,
            sender,
            also_to: None,
        }
    }

    /// From now on everything goes to this file too.
    pub fn also_to(&mut self, file: File) -> Arc<Spool> {
        let spool = Arc::new(Spool::new(file, self.allowance.clone()));
        Arc::clone(self.also_to.insert(spool))
    }

    /// Takes what the task printed. Readers are woken once it can be read.
    pub fn append(&mut self, bytes: &[u8]) {
        if let Some(spool) = &self.also_to {
            spool.append(bytes);
        }
        for chunk in bytes.chunks(CHUNK_BYTES) {
            if !self.cut
                && let Err(error) = self.store(chunk)
            {
                self.cut = true;
                // Who has no room is told of there, and not once for each of their tasks.
                let cause = error.get_ref();
                if cause.and_then(|cause| cause.downcast_ref::<NoRoom>()).is_none() {
                    let path = self.logs.path(self.name, self.stream).display().to_string();
                    tracing::warn!(path, %error, "log is cut: cannot store output");
                }
            }
            self.position.total += chunk.len() as u64;
            if let Some(file) = &self.tail {
                // Without it only a reader after a restart knows less; the stream goes on.
                let _unstored = tail::write_header(file, &self.position);
            }
            self.sender.send_replace(self.position);
        }
    }

    fn store(&mut self, chunk: &[u8]) -> io::Result<()> {
        let room = self.position.head.saturating_sub(self.position.written);
        let (first, rest) = chunk.split_at(chunk.len().min(clamp_to_usize(room)));
        if !first.is_empty() {
            self.store_in_head(first)?;
        }
        if !rest.is_empty() {
            self.store_in_tail(rest)?;
        }
        Ok(())
    }

    fn store_in_head(&mut self, bytes: &[u8]) -> io::Result<()> {
        let length = self.position.written + bytes.len() as u64;
        let allowed = self.allowance.grow(Kind::Log, &mut self.granted[0], length);
        allowed.map_err(io::Error::other)?;
        let path = || self.logs.path(self.name, self.stream);
        let file = match self.head.take() {
            Some(file) => file,
            None => create_with_directory(&path(), &self.allowance, |path| File::create(path))?,
        };
        let file = self.head.insert(file);
        store_at(file, bytes, self.position.written, &mut self.position.written)
    }

    fn store_in_tail(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let length = tail::length(&self.position, bytes.len());
        let allowed = self.allowance.grow(Kind::Log, &mut self.granted[1], length);
        allowed.map_err(io::Error::other)?;
        let file = match self.tail.take() {
            Some(file) => file,
            None => tail::create(&tail::path_beside(&self.logs.path(self.name, self.stream)))?,
        };
        let file = self.tail.insert(file);
        while !bytes.is_empty() {
            let (at, length) = tail::locate(&self.position, self.position.written, bytes.len());
            let (piece, rest) = bytes.split_at(length);
            store_at(file, piece, at, &mut self.position.written)?;
            bytes = rest;
        }
        Ok(())
    }

    /// The last words for a reader after a restart. An unbroken stream shorter than its head
    /// needs none: the length of the head file says it all.
    fn seal(&mut self) -> io::Result<()> {
        let is_cut = self.position.written < self.position.total;
        if self.tail.is_none() && is_cut {
            let length = tail::length(&self.position, 0);
            let allowed = self.allowance.grow(Kind::Note, &mut self.granted[1], length);
            allowed.map_err(io::Error::other)?;
            let path = tail::path_beside(&self.logs.path(self.name, self.stream));
            self.tail = Some(create_with_directory(&path, &self.allowance, tail::create)?);
        }
        self.tail.as_ref().map_or(Ok(()), |file| tail::write_header(file, &self.position))
    }
}

impl Drop for StreamWriter {
    fn drop(&mut self) {
        // On a full disk a reader after a restart sees a shorter log without the note of the loss.
        let _unsealed = self.seal();
        self.logs.forget_live(self.name, self.stream);
        self.position.closed = true;
        self.sender.send_replace(self.position);
    }
}

/// Writes all of `bytes` at `at`, counting what arrived also when the rest fails.
fn store_at(file: &File, bytes: &[u8], at: u64, stored: &mut u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match file.write_at(&bytes[done..], at + done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                done += count;
                *stored += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn create_with_directory(
    path: &Path,
    allowance: &Allowance,
    create: impl Fn(&Path) -> io::Result<File>,
) -> io::Result<File> {
    match create(path) {
        // Asked for only when it is missing: the second task of a job finds it there.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(directory) = path.parent() {
                std::fs::create_dir_all(directory)?;
                // A link to nowhere: the cheapest note that a file system keeps. Whoever was
                // quicker has said the same; without it the output counts as nobody's.
                if std::os::unix::fs::symlink(&*allowance.user, directory.join(OWNER)).is_ok() {
                    allowance.made_folder();
                }
            }
            create(path)
        }
        other => other,
    }
}

fn clamp_to_usize(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
