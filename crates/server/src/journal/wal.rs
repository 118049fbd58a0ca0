//! Reads the bytes of an SQLite `-wal` file the way SQLite's own recovery does, to learn what it
//! is about to drop. Pure: bytes in, a report out. Not a WAL reader: pages are never interpreted.
//!
//! SQLite ends recovery at the first frame that does not check out and says nothing about what
//! came after it. That is right for a torn tail and silent about damage; so we look first.

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
const MAGIC_LITTLE: u32 = 0x377f_0682;
const MAGIC_BIG: u32 = 0x377f_0683;

/// What the log's file is filled with ahead of its use (`log_space.rs`): not what a disk that lost
/// something shows, and as the salts of a frame it belongs to no use of the log.
pub(super) const FILL: u8 = 0xA5;

/// What a `-wal` file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WalReport {
    /// Where the content of page 1 begins in its newest committed copy.
    pub(super) page_one: Option<usize>,
    pub(super) tail: Tail,
}

/// What lies behind the last whole transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    /// Nothing, or only frames of an earlier use of the file.
    Clean,
    /// Whole frames of a transaction that was never committed: an ordinary crash.
    Unfinished { bytes: usize },
    /// The last transaction is torn or damaged. It is lost; all before it is whole.
    Torn { bytes: usize },
    /// Damage with confirmed transactions behind it: dropping the tail would lose those.
    DamagedWithin { bytes: usize },
}

/// Four bytes, in whatever order.
type Word = [u8; 4];

struct Header {
    big_endian: bool,
    page_size: usize,
    salts: [Word; 2],
    sum: (u32, u32),
}

/// A frame as the bytes show it, judged against the header.
struct Frame {
    page: u32,
    commit: bool,
    salts_match: bool,
    blank: bool,
    stored: (u32, u32),
}

/// A whole frame: the words before the page, and the page.
struct Raw<'a> {
    words: [Word; FRAME_HEADER / 4],
    page: &'a [u8],
}

impl Raw<'_> {
    fn of(bytes: &[u8]) -> Option<Raw<'_>> {
        let (head, page) = bytes.split_first_chunk::<FRAME_HEADER>()?;
        Some(Raw { words: head.as_chunks().0.try_into().ok()?, page })
    }
}

pub(super) fn inspect(wal: &[u8]) -> WalReport {
    let Some(header) = read_header(wal) else {
        return WalReport { page_one: None, tail: without_header(wal) };
    };
    let frame_size = FRAME_HEADER + header.page_size;
    let frames = wal.get(HEADER..).unwrap_or_default();
    let (mut sum, mut offset) = (header.sum, 0);
    let (mut committed, mut page_one, mut pending_page_one) = (0, None, None);
    while let Some(raw) = frames.get(offset..offset + frame_size).and_then(Raw::of) {
        let frame = read_frame(&raw, &header);
        let next = frame_sum(&raw, &header, sum);
        if !frame.salts_match || frame.page == 0 || frame.stored != next {
            break;
        }
        if frame.page == 1 {
            pending_page_one = Some(HEADER + offset + FRAME_HEADER);
        }
        (sum, offset) = (next, offset + frame_size);
        if frame.commit {
            (committed, page_one) = (offset, pending_page_one.or(page_one));
        }
    }
    let tail = judge_tail(frames, &header, &Valid { committed, end: offset, sum });
    WalReport { page_one, tail }
}

/// How far the frames check out.
struct Valid {
    committed: usize,
    end: usize,
    sum: (u32, u32),
}

fn judge_tail(frames: &[u8], header: &Header, valid: &Valid) -> Tail {
    let frame_size = FRAME_HEADER + header.page_size;
    let rest = frames.get(valid.end..).unwrap_or_default();
    let mut last_of_ours = 0;
    let mut first_commit = None;
    let mut header_only = false;
    for (index, bytes) in rest.chunks(frame_size).enumerate() {
        let end = index * frame_size + bytes.len();
        if bytes.len() < frame_size {
            // A file ends within a frame only when the write of that frame was cut; right behind
            // our frames it is ours, and behind stale frames it is as stale as they are.
            if index * frame_size == last_of_ours {
                // SQLite writes header and page apart: a process that is killed leaves just this.
                header_only = last_of_ours == 0 && bytes.len() == FRAME_HEADER;
                last_of_ours = end;
            }
            break;
        }
        let Some(raw) = Raw::of(bytes) else { break };
        let frame = read_frame(&raw, header);
        // The checksum does not cover the salts: a frame that continues the sum is ours even
        // when its salts are damaged.
        let continues = index == 0 && frame.stored == frame_sum(&raw, header, valid.sum);
        header_only |= index == 0 && raw.page.iter().all(|byte| *byte == FILL);
        if frame.salts_match || continues || frame.blank {
            last_of_ours = end;
            header_only &= index == 0;
            if frame.commit && first_commit.is_none() {
                first_commit = Some(end);
            }
        }
    }
    let bytes = valid.end - valid.committed + last_of_ours;
    match first_commit {
        _ if bytes == 0 => Tail::Clean,
        _ if last_of_ours == 0 || header_only => Tail::Unfinished { bytes },
        // Every commit is synced before the next transaction writes: a commit with more frames
        // behind it was confirmed.
        Some(end) if end < last_of_ours => Tail::DamagedWithin { bytes },
        _ => Tail::Torn { bytes },
    }
}

/// SQLite ignores the whole file then. It syncs the header before the first frame, so a bad
/// header in front of a frame is damage, not a crash.
fn without_header(wal: &[u8]) -> Tail {
    const SMALLEST_FRAME: usize = FRAME_HEADER + 512;
    let unused = |byte: &u8| *byte == 0 || *byte == FILL;
    if wal.len() < HEADER + SMALLEST_FRAME || wal.iter().all(unused) {
        return Tail::Clean;
    }
    Tail::DamagedWithin { bytes: wal.len() }
}

fn read_header(wal: &[u8]) -> Option<Header> {
    let (words, _) = wal.first_chunk::<HEADER>()?.as_chunks();
    let [magic, _, page_size, _, salt, other_salt, sum, other_sum] = words else { return None };
    let magic = u32::from_be_bytes(*magic);
    if magic != MAGIC_LITTLE && magic != MAGIC_BIG {
        return None;
    }
    let page_size = usize::try_from(u32::from_be_bytes(*page_size)).ok()?;
    if !page_size.is_power_of_two() || !(512..=65_536).contains(&page_size) {
        return None;
    }
    let big_endian = magic == MAGIC_BIG;
    let found = checksum(words.first_chunk::<6>()?, big_endian, (0, 0));
    if found != (u32::from_be_bytes(*sum), u32::from_be_bytes(*other_sum)) {
        return None;
    }
    Some(Header { big_endian, page_size, salts: [*salt, *other_salt], sum: found })
}

fn read_frame(raw: &Raw<'_>, header: &Header) -> Frame {
    let [page, commit, salt, other_salt, sum, other_sum] = raw.words;
    Frame {
        page: u32::from_be_bytes(page),
        commit: u32::from_be_bytes(commit) != 0,
        salts_match: [salt, other_salt] == header.salts,
        blank: raw.words.as_flattened().iter().all(|byte| *byte == 0),
        stored: (u32::from_be_bytes(sum), u32::from_be_bytes(other_sum)),
    }
}

fn frame_sum(raw: &Raw<'_>, header: &Header, from: (u32, u32)) -> (u32, u32) {
    let [page, commit, ..] = raw.words;
    let sum = checksum(&[page, commit], header.big_endian, from);
    checksum(raw.page.as_chunks().0, header.big_endian, sum)
}

fn checksum(words: &[Word], big_endian: bool, from: (u32, u32)) -> (u32, u32) {
    let read = if big_endian { u32::from_be_bytes } else { u32::from_le_bytes };
    words.as_chunks().0.iter().fold(from, |(a, b), [one, other]| {
        let a = a.wrapping_add(read(*one)).wrapping_add(b);
        (a, b.wrapping_add(read(*other)).wrapping_add(a))
    })
}

#[cfg(test)]
#[path = "wal_tests.rs"]
mod tests;
