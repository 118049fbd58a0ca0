//! The two stages before the archive is read: take the packed bytes in and check them, unpack
//! them and check the result. Each runs in a thread of its own; chunks go between them.

use super::LayerError;
use crate::limits::{Meter, ZSTD_WINDOW_LOG};
use sha2::{Digest as _, Sha256};
use shipway_model::Digest;
use std::io::{self, BufRead, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};

/// Large enough that passing it on costs nothing, small enough for a processor's cache.
const CHUNK: usize = 256 << 10;
/// Chunks in flight between two stages: a few milliseconds of work.
pub const QUEUE: usize = 8;
/// Memory for gzip layers that are unpacked in one go, which is nearly twice as fast: packed and
/// unpacked bytes of all layers of this process together. Those that find no room are streamed.
const WHOLE_MEMORY: u64 = 1 << 30;
static WHOLE_TAKEN: AtomicU64 = AtomicU64::new(0);

/// More than this deflate cannot pack; a size beyond it is a lie, and no memory is taken for it.
const DEFLATE_RATIO: usize = 1032;

pub type Chunk = Arc<Vec<u8>>;

/// What the packed bytes must be. A source that states no digest (a Docker archive) is judged by
/// the unpacked digest alone.
#[derive(Debug, Clone, Copy, Default)]
pub struct Expected {
    pub digest: Option<Digest>,
    pub size: Option<u64>,
    /// Of the unpacked bytes; none when the whole source was verified before.
    pub diff_id: Option<Digest>,
}

/// Reads the blob to its end, counts and checks it, and passes it on.
pub fn take_in(
    mut blob: impl Read,
    expected: Expected,
    packed: &AtomicU64,
    to: &SyncSender<Chunk>,
    mut heard: impl FnMut(u64),
) -> Result<(), LayerError> {
    let mut hash = Sha256::new();
    let mut total = 0;
    loop {
        let chunk = read_chunk(&mut blob).map_err(LayerError::Read)?;
        if chunk.is_empty() {
            break;
        }
        let count = chunk.len() as u64;
        total += count;
        // A stream that does not end must not be hashed to the end of days.
        if let Some(wanted) = expected.size.filter(|wanted| total > *wanted) {
            return Err(LayerError::Size { wanted, found: total });
        }
        packed.fetch_add(count, Ordering::Relaxed);
        heard(count);
        if expected.digest.is_some() {
            hash.update(&chunk);
        }
        to.send(Arc::new(chunk)).map_err(|_| LayerError::Stopped)?;
    }
    if let Some(wanted) = expected.size.filter(|wanted| total != *wanted) {
        return Err(LayerError::Size { wanted, found: total });
    }
    let found = Digest(hash.finalize().into());
    match expected.digest.filter(|wanted| *wanted != found) {
        Some(wanted) => Err(LayerError::Digest { wanted, found }),
        None => Ok(()),
    }
}

/// Unpacks what comes in, checks it against its digest, and passes it on.
pub fn unpack(
    mut from: Chunks,
    expected: Expected,
    meter: &Meter,
    to: &SyncSender<Chunk>,
) -> Result<u64, LayerError> {
    let start = from.fill_buf().map_err(LayerError::Read)?;
    let gzip = start.starts_with(&[0x1f, 0x8b]);
    let zstd = start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]);
    let mut check = Check { hash: Sha256::new(), total: 0, meter, to };
    if zstd {
        let mut decoder = zstd::Decoder::with_buffer(from).map_err(LayerError::Read)?;
        decoder.window_log_max(ZSTD_WINDOW_LOG).map_err(LayerError::Read)?;
        check.all(decoder)?;
    } else if gzip && let Some(_room) = expected.size.and_then(MemoryShare::take) {
        let mut packed = Vec::new();
        from.read_to_end(&mut packed).map_err(LayerError::Read)?;
        match whole(&packed) {
            Some((unpacked, _room)) => check.one(unpacked)?,
            None => check.all(flate2::bufread::MultiGzDecoder::new(packed.as_slice()))?,
        }
    } else if gzip {
        check.all(flate2::bufread::MultiGzDecoder::new(from))?;
    } else {
        check.all(from)?;
    }
    let found = Digest(check.hash.finalize().into());
    match expected.diff_id.filter(|wanted| *wanted != found) {
        Some(wanted) => Err(LayerError::DiffId { wanted, found }),
        None => Ok(check.total),
    }
}

/// One gzip member in one go. The size at its end is a hint by whoever made it: when it is a lie,
/// or belongs to another of several members, the stream decoder has the last word.
fn whole(packed: &[u8]) -> Option<(Vec<u8>, MemoryShare)> {
    let (rest, size) = packed.split_last_chunk()?;
    let (_, crc) = rest.split_last_chunk()?;
    let (crc, size) = (u32::from_le_bytes(*crc), u32::from_le_bytes(*size));
    let size = usize::try_from(size).ok().filter(|size| size / DEFLATE_RATIO <= packed.len())?;
    let room = MemoryShare::take(size as u64)?;
    let mut out = vec![0; size];
    let got = libdeflater::Decompressor::new().gzip_decompress(packed, &mut out).ok()?;
    (got == size && libdeflater::crc32(&out) == crc).then_some((out, room))
}

/// A part of the memory set aside, given back when dropped.
struct MemoryShare(u64);

impl MemoryShare {
    fn take(bytes: u64) -> Option<MemoryShare> {
        let add = |taken: u64| taken.checked_add(bytes).filter(|sum| *sum <= WHOLE_MEMORY);
        WHOLE_TAKEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        Some(MemoryShare(bytes))
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        WHOLE_TAKEN.fetch_sub(self.0, Ordering::Relaxed);
    }
}

struct Check<'a> {
    hash: Sha256,
    total: u64,
    meter: &'a Meter,
    to: &'a SyncSender<Chunk>,
}

impl Check<'_> {
    fn all(&mut self, mut from: impl Read) -> Result<(), LayerError> {
        loop {
            let chunk = read_chunk(&mut from).map_err(LayerError::Read)?;
            if chunk.is_empty() {
                return Ok(());
            }
            self.one(chunk)?;
        }
    }

    /// Passed on first: the next stage writes while this one hashes.
    fn one(&mut self, chunk: Vec<u8>) -> Result<(), LayerError> {
        self.meter.bytes(chunk.len() as u64)?;
        let chunk = Arc::new(chunk);
        self.to.send(Arc::clone(&chunk)).map_err(|_| LayerError::Stopped)?;
        self.total += chunk.len() as u64;
        self.hash.update(chunk.as_slice());
        Ok(())
    }
}

/// The next chunk; empty at the end.
pub(crate) fn read_chunk(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut chunk = vec![0; CHUNK];
    let mut length = 0;
    while let Some(rest) = chunk.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match from.read(rest) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    chunk.truncate(length);
    Ok(chunk)
}

/// What a stage sent, as a reader.
#[derive(Debug)]
pub struct Chunks {
    from: Receiver<Chunk>,
    current: Chunk,
    at: usize,
}

impl Chunks {
    pub fn new(from: Receiver<Chunk>) -> Self {
        Chunks { from, current: Arc::default(), at: 0 }
    }
}

impl BufRead for Chunks {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        // A sender that is gone has said all it had to say, or failed and says so itself.
        while self.at == self.current.len()
            && let Ok(next) = self.from.recv()
        {
            (self.current, self.at) = (next, 0);
        }
        Ok(self.current.get(self.at..).unwrap_or_default())
    }

    fn consume(&mut self, count: usize) {
        self.at = (self.at + count).min(self.current.len());
    }
}

impl Read for Chunks {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}
