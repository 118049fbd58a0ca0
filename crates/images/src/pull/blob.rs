//! A layer's bytes from a registry: gone on with where they broke off, in this process or in the
//! next one.

use super::client::{Ask, Part};
use super::registry::{PAUSE, Registry, may_pass};
use super::registry_error::RegistryError;
use shipway_model::Digest;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// Smaller layers come again as fast as they would be looked for.
const WORTH_KEEPING: u64 = 8 << 20;
/// A registry that sends less than this in a while is not fetching for us, it is keeping us.
const LEAST: u64 = 64 << 10;
const WHILE: Duration = Duration::from_mins(1);
/// Breaks of one layer that are mended, without a byte in between.
const BREAKS: u32 = 5;

/// The file in which a layer's bytes are kept while they come.
#[derive(Debug)]
pub(super) struct Kept {
    path: PathBuf,
    size: u64,
}

impl Kept {
    pub(super) fn new(path: PathBuf, size: u64) -> Self {
        Kept { path, size }
    }

    /// True if there was something.
    pub(super) fn discard(&self) -> bool {
        fs::remove_file(&self.path).is_ok()
    }

    /// What an earlier process left, to be read again.
    fn earlier(&self) -> Option<(File, u64)> {
        let file = File::open(&self.path).ok()?;
        let length = file.metadata().ok()?.len();
        (0 < length && length <= self.size).then_some((file, length))
    }

    fn append(&self) -> Option<File> {
        File::options().append(true).create(true).open(&self.path).ok()
    }
}

/// Reads kept bytes first, then the rest from the registry.
pub(super) struct Resuming<'a> {
    registry: &'a Registry,
    digest: Digest,
    size: u64,
    /// Bytes given out.
    given: u64,
    breaks: u32,
    state: State,
    kept: Option<Kept>,
    copy: Option<File>,
    pace: Pace,
}

/// How much came in how much waiting; what we do between two reads is not the registry's fault.
#[derive(Debug, Default)]
struct Pace {
    waited: Duration,
    came: u64,
}

impl Pace {
    fn is_too_slow(&mut self, count: u64, waited: Duration) -> bool {
        self.came += count;
        self.waited += waited;
        if self.waited < WHILE {
            return false;
        }
        std::mem::take(self).came < LEAST
    }
}

enum State {
    /// Of an earlier process.
    Kept(io::Take<File>),
    Closed,
    Open(Box<dyn Read + Send>),
}

impl<'a> Resuming<'a> {
    pub(super) fn new(
        registry: &'a Registry,
        digest: Digest,
        size: u64,
        kept: Option<Kept>,
        keeps: bool,
    ) -> Self {
        let kept = kept.filter(|_| size >= WORTH_KEEPING);
        let earlier = kept.as_ref().and_then(Kept::earlier);
        let state = if let Some((file, length)) = earlier {
            State::Kept(file.take(length))
        } else {
            // Longer than the layer, or not readable: of no use.
            kept.as_ref().map(Kept::discard);
            State::Closed
        };
        let copy = kept.as_ref().filter(|_| keeps).and_then(Kept::append);
        let pace = Pace::default();
        Resuming { registry, digest, size, given: 0, breaks: 0, state, kept, copy, pace }
    }

    /// Of one whose first connection is open already, and of which nothing is kept.
    pub(super) fn opened(
        registry: &'a Registry,
        digest: Digest,
        size: u64,
        reader: Box<dyn Read + Send>,
    ) -> Self {
        let opened = Resuming::new(registry, digest, size, None, false);
        Resuming { state: State::Open(reader), ..opened }
    }

    /// A connection that goes on where we are.
    fn open(&self) -> Result<Box<dyn Read + Send>, RegistryError> {
        let path = self.registry.blob_path(&self.digest);
        let what = format!("the layer {}", self.digest);
        let (of, part) = (Some(self.digest), Part::From(self.given));
        let ask = Ask { path: &path, what: &what, of, accept: None, part };
        let answer = self.registry.client.get(ask)?;
        let partial = answer.status().as_u16() == 206;
        let range = answer.headers().get("content-range").and_then(|value| value.to_str().ok());
        let host = || self.registry.client.host.clone();
        if partial {
            let wanted = format!("bytes {}-", self.given);
            if !range.is_some_and(|range| range.starts_with(&wanted)) {
                return Err(RegistryError::Answer { host: host(), what: "a part of a layer" });
            }
            return Ok(Box::new(answer.into_body().into_reader()));
        }
        // It does not know ranges: what we have comes again and is passed over.
        let mut reader = answer.into_body().into_reader();
        let skipped = io::copy(&mut reader.by_ref().take(self.given), &mut io::sink());
        match skipped {
            Ok(count) if count == self.given => Ok(Box::new(reader)),
            Ok(_) => Err(RegistryError::Answer { host: host(), what: "a layer" }),
            Err(source) => Err(RegistryError::Read { host: host(), source }),
        }
    }

    /// After a break: wait a little, longer each time, unless it is hopeless.
    fn mend(&mut self, error: io::Error) -> io::Result<()> {
        let passes = match error.get_ref().and_then(|inner| inner.downcast_ref::<RegistryError>()) {
            Some(error) => may_pass(error),
            None => true,
        };
        if !passes || self.breaks >= BREAKS {
            return Err(error);
        }
        thread::sleep(PAUSE * 2u32.pow(self.breaks));
        self.breaks += 1;
        self.state = State::Closed;
        Ok(())
    }

    fn fresh(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if matches!(self.state, State::Closed) {
            let reader = self.open().map_err(io::Error::other)?;
            self.state = State::Open(reader);
        }
        let State::Open(reader) = &mut self.state else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let count = reader.read(buffer)?;
        if count == 0 && self.given < self.size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.keep(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }

    /// A copy that cannot be written (a full disk) is done without.
    fn keep(&mut self, bytes: &[u8]) {
        let Some(copy) = &mut self.copy else { return };
        let room = self.registry.room.ask(bytes.len() as u64);
        if room.is_err() || copy.write_all(bytes).is_err() {
            self.copy = None;
            self.kept.as_ref().map(Kept::discard);
        }
    }
}

impl Read for Resuming<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // From here on: tries that came to nothing took their time too.
        let asked = Instant::now();
        loop {
            if let State::Kept(file) = &mut self.state {
                let count = file.read(buffer)?;
                if count > 0 {
                    self.given += count as u64;
                    return Ok(count);
                }
                self.state = State::Closed;
            }
            if self.given == self.size && matches!(self.state, State::Closed) {
                return Ok(0);
            }
            match self.fresh(buffer) {
                Ok(count) => {
                    self.given += count as u64;
                    if self.pace.is_too_slow(count as u64, asked.elapsed()) {
                        let host = self.registry.client.host.clone();
                        return Err(io::Error::other(RegistryError::Slow { host }));
                    }
                    self.breaks = if count > 0 { 0 } else { self.breaks };
                    return Ok(count);
                }
                Err(error) => self.mend(error)?,
            }
        }
    }
}
