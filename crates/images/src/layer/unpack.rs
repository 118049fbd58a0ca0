//! The three stages of one layer put together, and the last of them: members to files.

use super::LayerError;
use super::decode::{self, Chunks, Expected, QUEUE};
use super::index::{Entry, LayerIndex, LeftOut, Meta, ObjectId, What};
use super::sift::{self, Sifted};
use super::stage::{Growing, LayerStage};
use crate::limits::{ImageMeter, Meter};
use crate::path;
use crate::tar::{Member, TarError, TarReader};
use std::io::{self, BufRead, Read};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;
use std::thread;

/// Files up to this size are gathered in memory, so that one the store already has is never
/// written.
const GATHERED: u64 = 1 << 20;

/// All that unpacking a layer takes.
pub struct LayerJob<'a> {
    pub blob: Box<dyn Read + Send + 'a>,
    pub expected: Expected,
    pub image: Arc<ImageMeter>,
    pub stage: &'a LayerStage,
    /// Told of packed bytes as they come.
    pub heard: Box<dyn FnMut(u64) + Send + 'a>,
}

impl std::fmt::Debug for LayerJob<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LayerJob").field("expected", &self.expected).finish_non_exhaustive()
    }
}

/// Unpacks and checks a layer. Its files are staged only; nothing is told of it when it fails.
pub fn unpack(job: LayerJob<'_>) -> Result<LayerIndex, LayerError> {
    let LayerJob { blob, expected, image, stage, heard } = job;
    let packed = Arc::new(AtomicU64::new(0));
    let meter = Meter::new(image, Arc::clone(&packed));
    let entries = meter.clone();
    let (to_decoder, from_blob) = mpsc::sync_channel(QUEUE);
    let (to_reader, from_decoder) = mpsc::sync_channel(QUEUE);
    thread::scope(|scope| {
        let taken = move || decode::take_in(blob, expected, &packed, &to_decoder, heard);
        let taken = start(scope, taken)?;
        let decode = move || decode::unpack(Chunks::new(from_blob), expected, &meter, &to_reader);
        let decoded = start(scope, decode)?;
        let read = read(Chunks::new(from_decoder), stage, entries);
        // A stage that fails ends the others: the first one that did not merely stop is why.
        let taken = taken.join().map_err(|_| LayerError::Stopped).flatten();
        let decoded = decoded.join().map_err(|_| LayerError::Stopped).flatten();
        first_cause(taken, decoded, read)
    })
}

/// Reads a layer to its end and checks that it is the one expected; nothing of it is kept.
pub fn check(
    blob: Box<dyn Read + Send + '_>,
    expected: Expected,
    image: &Arc<ImageMeter>,
) -> Result<(), LayerError> {
    let packed = Arc::new(AtomicU64::new(0));
    let meter = Meter::new(Arc::clone(image), Arc::clone(&packed));
    let (to_decoder, from_blob) = mpsc::sync_channel(QUEUE);
    let (to_nobody, decoded) = mpsc::sync_channel(QUEUE);
    thread::scope(|scope| {
        let taken = move || decode::take_in(blob, expected, &packed, &to_decoder, |_| {});
        let taken = start(scope, taken)?;
        let decode = move || decode::unpack(Chunks::new(from_blob), expected, &meter, &to_nobody);
        let unpacked = start(scope, decode)?;
        decoded.iter().for_each(drop);
        let taken = taken.join().map_err(|_| LayerError::Stopped).flatten();
        let unpacked = unpacked.join().map_err(|_| LayerError::Stopped).flatten();
        first_cause(taken, unpacked, Ok(LayerIndex::default())).map(drop)
    })
}

/// A stage that cannot be started takes its ends of the channels with it, and so ends the others.
fn start<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    stage: impl FnOnce() -> T + Send + 'scope,
) -> Result<thread::ScopedJoinHandle<'scope, T>, LayerError> {
    thread::Builder::new().spawn_scoped(scope, stage).map_err(LayerError::Thread)
}

fn first_cause(
    taken: Result<(), LayerError>,
    decoded: Result<u64, LayerError>,
    read: Result<LayerIndex, LayerError>,
) -> Result<LayerIndex, LayerError> {
    let unpacked = *decoded.as_ref().unwrap_or(&0);
    let failures = [taken.err(), decoded.err()].into_iter().flatten();
    let mut failures: Vec<LayerError> = failures.collect();
    if failures.is_empty() {
        return read.map(|index| LayerIndex { unpacked, ..index });
    }
    failures.extend(read.err());
    let cause = failures.iter().position(|error| !matches!(error, LayerError::Stopped));
    Err(failures.swap_remove(cause.unwrap_or(0)))
}

fn read(input: impl BufRead, stage: &LayerStage, meter: Meter) -> Result<LayerIndex, LayerError> {
    let mut work = Work { tar: TarReader::new(input), stage, meter, buffer: Vec::new(), serial: 0 };
    let mut entries = Vec::new();
    let mut left_out = LeftOut::default();
    while let Some(member) = work.tar.next_member()? {
        work.meter.entry(member.text_bytes())?;
        let refused = |source| LayerError::Path { path: path::shown(&member.path), source };
        match sift::sift(&member, stage.owners(), &mut left_out).map_err(refused)? {
            Sifted::LeftOut => {}
            Sifted::Plain { path, meta, what } => entries.push(Entry { path, meta, what }),
            Sifted::File { path, meta } => {
                let object = work.file(&member, &meta)?;
                let what = What::File { object, size: member.size };
                entries.push(Entry { path, meta, what });
            }
        }
    }
    Ok(LayerIndex { entries, left_out, unpacked: 0 })
}

struct Work<'a, R> {
    tar: TarReader<R>,
    stage: &'a LayerStage,
    meter: Meter,
    buffer: Vec<u8>,
    serial: u64,
}

impl<R: BufRead> Work<'_, R> {
    fn file(&mut self, member: &Member, meta: &Meta) -> Result<ObjectId, LayerError> {
        let failed = |source| LayerError::Write { path: path::shown(&member.path), source };
        let at_once = member.sparse.is_none() && member.size <= GATHERED;
        let Some(wanted) = usize::try_from(member.size).ok().filter(|_| at_once) else {
            return self.in_pieces(member, meta, &failed);
        };
        if self.tar.content()?.len() == wanted {
            let object = self.stage.whole(self.tar.content()?, meta).map_err(failed)?;
            self.tar.consume(wanted);
            return Ok(object);
        }
        self.buffer.clear();
        while self.tar.left() > 0 {
            let content = self.tar.content()?;
            self.buffer.extend_from_slice(content);
            let count = content.len();
            self.tar.consume(count);
        }
        self.stage.whole(&self.buffer, meta).map_err(failed)
    }

    fn in_pieces(
        &mut self,
        member: &Member,
        meta: &Meta,
        failed: &impl Fn(io::Error) -> LayerError,
    ) -> Result<ObjectId, LayerError> {
        self.serial += 1;
        let mut file = self.stage.begin(self.serial).map_err(failed)?;
        let Some(map) = &member.sparse else {
            self.copy(member.size, &mut file, failed)?;
            return file.end(meta).map_err(failed);
        };
        self.meter.bytes(map.holes())?;
        for segment in map.segments() {
            file.hole(segment.offset).map_err(failed)?;
            self.copy(segment.length, &mut file, failed)?;
        }
        file.hole(map.size()).map_err(failed)?;
        file.end(meta).map_err(failed)
    }

    fn copy(
        &mut self,
        mut left: u64,
        file: &mut Growing<'_>,
        failed: &impl Fn(io::Error) -> LayerError,
    ) -> Result<(), LayerError> {
        while left > 0 {
            let content = self.tar.content()?;
            let wanted = usize::try_from(left).ok().and_then(|left| content.get(..left));
            let content = wanted.unwrap_or(content);
            let count = content.len();
            if count == 0 {
                return Err(TarError::Truncated.into());
            }
            file.write(content).map_err(failed)?;
            self.tar.consume(count);
            left -= count as u64;
        }
        Ok(())
    }
}
