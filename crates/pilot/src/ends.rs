//! Ends that outlive their pilot. Whatever kills a pilot, the next one in the same folder can say
//! which attempts had ended, so that they need not run again.
//!
//! ```text
//! ends      by the pilot    each end, before it is reported
//! running   by the pilot    which process is which attempt, in a slot each (`slots.rs`)
//! reaped    by the guard    how the processes of a dead pilot ended (`guard.rs`)
//! told/     by helpers      how the task in a container ended, in a file each
//! ```
//!
//! `leftover.rs` reads all four, when the folder's lock is held and nothing of the earlier pilot
//! runs any more. Nothing is synced: a killed process loses none of it. After a power cut parts may
//! be missing or torn, which is noticed; then those attempts run again, like the tasks that the cut
//! itself has ended.
//!
//! Only an exit with 0 counts of what the pilot itself did not see: any other end may have come
//! from the pilot's death, by a pipe that nobody reads. And only where nothing is to be done after
//! the end: an attempt whose files were not taken has not ended.

mod leftover;
mod slots;

pub(crate) use leftover::{LEFT_BY_GUARD, Left, TOLD, name_of, take};
pub(crate) use slots::tasks;
pub use slots::{Slot, Slots};

use serde::{Deserialize, Serialize};
use shipway_model::{Held, PilotId};
use shipway_trees::Draft;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const ENDS: &str = "ends";

/// Below this the file is never written anew: some two thousand ends, which a greeting carries.
const SHORT: u64 = 256 << 10;
/// Longest record that is read: an outcome holds a message, and no more.
const LONGEST_RECORD: usize = 1 << 20;
/// Most that is read of a file: far above what a pilot holds at once.
const LONGEST_FILE: u64 = 256 << 20;

/// The ends that the server may not have yet, and some that it has.
#[derive(Debug)]
pub(crate) struct Ends {
    path: PathBuf,
    /// The pilot whose ends these are.
    own: PilotId,
    file: File,
    size: u64,
    /// What was live when it was last written anew.
    at_least: u64,
    /// Said once: the pilot goes on without.
    failed: bool,
}

impl Ends {
    /// Begins with what earlier pilots left.
    pub(crate) fn begin(dir: &Path, own: &PilotId, left: &[Held]) -> io::Result<Self> {
        let (path, own) = (dir.join(ENDS), own.clone());
        let (file, size) = write_anew(&path, &own, left.iter().cloned())?;
        Ok(Ends { path, own, file, size, at_least: size, failed: false })
    }

    /// One write, however many there are.
    pub(crate) fn keep(&mut self, ended: impl Iterator<Item = Held>) {
        let mut bytes = Vec::new();
        ended.for_each(|ended| put(&mut bytes, &Record::Ended(ended)));
        // After a short write nothing behind it could be read; so it is cut off again.
        let written = self.file.write_all(&bytes).inspect_err(|_| {
            let _ = self.file.set_len(self.size);
        });
        match written {
            Ok(()) => self.size += bytes.len() as u64,
            Err(error) if !std::mem::replace(&mut self.failed, true) => {
                tracing::warn!(%error, "ends of tasks cannot be kept in {}: those that the server \
                    does not hear of before this pilot dies run again", self.path.display());
            }
            Err(_) => {}
        }
    }

    pub(crate) fn is_long(&self) -> bool {
        self.size > SHORT.max(2 * self.at_least)
    }

    /// Leaves out those that the server has.
    pub(crate) fn shorten(&mut self, live: impl Iterator<Item = Held>) {
        match write_anew(&self.path, &self.own, live) {
            Ok((file, size)) => (self.file, self.size, self.at_least) = (file, size, size),
            // As it is, it says too much rather than too little.
            Err(error) => {
                tracing::debug!(%error, "ends of tasks are not sorted out");
                self.at_least = self.size;
            }
        }
    }
}

/// Whole or not at all; then open for more.
fn write_anew(
    path: &Path,
    own: &PilotId,
    ended: impl Iterator<Item = Held>,
) -> io::Result<(File, u64)> {
    let mut draft = Draft::of(path)?;
    let mut bytes = Vec::new();
    put(&mut bytes, &Record::Of(own.clone()));
    ended.for_each(|ended| put(&mut bytes, &Record::Ended(ended)));
    draft.file.write_all(&bytes)?;
    // After a power cut nothing runs whose end it could tell.
    Ok((draft.publish_unsynced()?, bytes.len() as u64))
}

const FRAME: usize = 2 * size_of::<u32>();

/// What stands in the file, as JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Record {
    /// The first: the pilot that writes it.
    Of(PilotId),
    /// As it is said by whoever comes after its pilot.
    Ended(Held),
}

/// Length, checksum, and the record.
fn put(bytes: &mut Vec<u8>, record: &Record) {
    let body = serde_json::to_vec(record).expect("a record is plain data");
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
    bytes.extend_from_slice(&body);
}

/// Every record up to the first that does not check out.
fn records(mut bytes: &[u8]) -> Vec<Record> {
    let mut found = Vec::new();
    while let Some((frame, rest)) = bytes.split_at_checked(FRAME) {
        let number = |at: usize| frame[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
        let length = usize::try_from(number(0)).unwrap_or(usize::MAX);
        let Some((body, rest)) = rest.split_at_checked(length) else { break };
        if length > LONGEST_RECORD || crc32fast::hash(body) != number(4) {
            break;
        }
        let Ok(record) = serde_json::from_slice(body) else { break };
        found.push(record);
        bytes = rest;
    }
    found
}

/// What there is of a file; nothing if there is none.
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(LONGEST_FILE).read_to_end(&mut bytes).map(|_| bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(bytes),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
