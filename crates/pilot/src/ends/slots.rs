//! Which process is which attempt, for whoever finds the process dead when the pilot is: a slot for
//! each that runs, written over by the next one. So the file is as long as tasks run at once, and a
//! start costs one small write.

use shipway_model::AttemptId;
use shipway_model::ids::{Attempt, JobId, TaskId, TaskIndex};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

pub(super) const FILE: &str = "running";

/// Process, whether its exit is its end, job, index, attempt, time of the start, checksum.
const SLOT_BYTES: usize = 4 + 4 + 8 + 8 + 4 + 8 + 4;

/// One process of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    pub pid: u32,
    pub log: AttemptId,
    /// Nothing is to be done after its exit.
    pub ends_with_exit: bool,
    /// Milliseconds of the wall clock.
    pub started: u64,
}

/// The file, and which of its places are taken.
#[derive(Debug)]
pub struct Slots {
    dir: PathBuf,
    file: File,
    places: Mutex<Places>,
}

#[derive(Debug, Default)]
struct Places {
    free: Vec<u32>,
    next: u32,
}

impl Slots {
    pub fn begin(dir: &Path) -> io::Result<Self> {
        let path = dir.join(FILE);
        let _ = std::fs::remove_file(&path);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        Ok(Slots { dir: dir.to_owned(), file, places: Mutex::default() })
    }

    /// Where what is left of processes is written down.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The place it has taken, to be given back when the process is reaped.
    pub fn take(&self, slot: &Slot) -> u32 {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let place = places.free.pop().unwrap_or_else(|| {
            places.next += 1;
            places.next - 1
        });
        drop(places);
        // Without it the attempt may run again if the pilot dies at the wrong moment.
        let _unwritten = self.file.write_all_at(&encode(slot), at(place));
        place
    }

    pub fn give_back(&self, place: u32) {
        self.places.lock().unwrap_or_else(PoisonError::into_inner).free.push(place);
    }
}

fn at(place: u32) -> u64 {
    u64::from(place) * SLOT_BYTES as u64
}

fn encode(slot: &Slot) -> [u8; SLOT_BYTES] {
    let mut bytes = Vec::with_capacity(SLOT_BYTES);
    bytes.extend_from_slice(&slot.pid.to_le_bytes());
    bytes.extend_from_slice(&u32::from(slot.ends_with_exit).to_le_bytes());
    bytes.extend_from_slice(&slot.log.task.job.0.to_le_bytes());
    bytes.extend_from_slice(&slot.log.task.index.0.to_le_bytes());
    bytes.extend_from_slice(&slot.log.attempt.0.to_le_bytes());
    bytes.extend_from_slice(&slot.started.to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
    bytes.try_into().expect("the sizes add up")
}

fn decode(bytes: &[u8; SLOT_BYTES]) -> Option<Slot> {
    let small = |at: usize| bytes[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
    let large = |at: usize| bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
    if crc32fast::hash(&bytes[..SLOT_BYTES - 4]) != small(SLOT_BYTES - 4) {
        return None;
    }
    let task = JobId(large(8)).task(TaskIndex(large(16)));
    let log = AttemptId { task, attempt: Attempt(small(24)) };
    Some(Slot { pid: small(0), log, ends_with_exit: small(4) != 0, started: large(28) })
}

/// Which process is which task, or was.
pub(crate) fn tasks(dir: &Path) -> HashMap<i32, TaskId> {
    let mut slots = read(dir).unwrap_or_default();
    slots.sort_by_key(|slot| slot.started);
    slots.iter().map(|slot| (slot.pid.cast_signed(), slot.log.task)).collect()
}

/// Those that check out.
pub(super) fn read(dir: &Path) -> io::Result<Vec<Slot>> {
    let bytes = super::read_bounded(&dir.join(FILE))?;
    let (slots, _torn) = bytes.as_chunks::<SLOT_BYTES>();
    Ok(slots.iter().filter_map(decode).collect())
}
