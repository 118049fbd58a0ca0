//! The tail file of a stream: a header and a ring of the newest bytes.
//!
//! The ring has one chunk more than it promises. So a write in progress, or one cut off by
//! `kill -9`, only ever touches bytes that no header has promised any more: data first, header
//! after, and no other care is needed.

use super::{CHUNK_BYTES, Position};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const MAGIC: [u8; 8] = *b"SWTAIL01";
const HEADER_BYTES: usize = 40;

pub(super) fn path_beside(head: &Path) -> PathBuf {
    let mut name = OsString::from(head);
    name.push(".tail");
    PathBuf::from(name)
}

pub(super) fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(true).read(true).write(true).open(path)
}

/// The longest stretch of the file that holds the stream from `offset` on, at most `length`
/// bytes: where it starts in the file, and its length.
pub(super) fn locate(position: &Position, offset: u64, length: usize) -> (u64, usize) {
    let capacity = position.ring + CHUNK_BYTES as u64;
    let within = (offset - position.head) % capacity;
    let until_wrap = usize::try_from(capacity - within).unwrap_or(usize::MAX);
    (HEADER_BYTES as u64 + within, length.min(until_wrap))
}

/// How long the file is at most when so many more bytes are in it.
pub(super) fn length(position: &Position, more: usize) -> u64 {
    let in_ring = position.written.saturating_sub(position.head) + more as u64;
    HEADER_BYTES as u64 + in_ring.min(position.ring + CHUNK_BYTES as u64)
}

pub(super) fn write_header(file: &File, position: &Position) -> io::Result<()> {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&MAGIC);
    let fields = [position.head, position.ring, position.written, position.total];
    for (slot, field) in header[8..].chunks_exact_mut(8).zip(fields) {
        slot.copy_from_slice(&field.to_le_bytes());
    }
    file.write_all_at(&header, 0)
}

/// What the header says, as the position of a finished stream; `None` when it was never written
/// whole or makes no sense.
pub(super) fn read_header(file: &File) -> Option<Position> {
    let mut header = [0; HEADER_BYTES];
    file.read_exact_at(&mut header, 0).ok()?;
    let (magic, fields) = header.split_at(8);
    let mut fields = fields
        .chunks_exact(8)
        .map(|slot| u64::from_le_bytes(slot.try_into().expect("chunks of eight bytes")));
    let mut next = || fields.next().expect("the header has four fields");
    let (head, ring, written, total) = (next(), next(), next(), next());
    let sound =
        magic == MAGIC && written <= total && ring.checked_add(u64::from(u32::MAX)).is_some();
    sound.then_some(Position { head, ring, written, total, closed: true })
}
