//! The thread that writes event logs: reads the journal, renders, appends, remembers. Trouble with
//! a log is said, in the server's log and on `show`; the job goes on. A mistake over one event of
//! one job costs that: it would be made again after every restart, since all is read again then.

use super::keep::Kept;
use super::place::Places;
use super::story::{Entry, Heard, Known};
use super::{NotBegun, PROBLEMS_KEPT, Shared, Sources, file};
use crate::documents::Documents;
use crate::journal::{EventSeq, EventsPage, HistoryReader, JournalError};
use crate::locks::Locked;
use crate::panics::{Panicked, guarded};
use crate::pilots::{Pilots, Specs};
use shipway_core::event::Recorded;
use shipway_dialects::event_log::{Event, render};
use shipway_model::expand::Placeholders;
use shipway_model::{JobId, JobSpec, Ordinal, TaskIndex, Timestamp};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Events read from the journal at once.
const PAGE: usize = 1_000;
/// Text of one append: a million tasks are submitted in one event.
const CHUNK: usize = 1 << 20;
/// Under load, how far it came is noted this often; otherwise whenever it has nothing to do.
const NOTE_EVERY: Duration = Duration::from_secs(1);
/// After trouble with the journal or the home.
const PAUSE: Duration = Duration::from_secs(1);

/// Whose fault it is when work is cut off.
const MISTAKE: &str = "a mistake in the server, whose log says where; please report it";

pub(super) struct Follower {
    documents: Arc<dyn Documents>,
    places: Places,
    kept: Kept,
    reader: Box<dyn HistoryReader>,
    library: Box<dyn Known + Send>,
    pilots: Arc<Pilots>,
    shared: Arc<Shared>,
    /// Up to here an earlier server may have written already; and what of it is there.
    repeat_until: u64,
    there: BTreeMap<PathBuf, BTreeMap<String, u32>>,
    noted: Instant,
}

/// What is looked up of jobs.
struct Library {
    specs: Arc<Specs>,
    address: String,
}

impl Known for Library {
    fn spec(&self, job: JobId) -> Option<Arc<JobSpec>> {
        self.specs.get(job).ok().map(|described| described.spec)
    }

    fn address(&self) -> &str {
        &self.address
    }
}

impl Follower {
    /// When this returns, whatever happens from now on is written, now or by the next server.
    pub(super) fn new(from: &Sources, shared: Arc<Shared>) -> Result<Self, NotBegun> {
        let reader = from.history.locked().try_clone()?;
        let tip = reader.tip()?;
        let mut kept = Kept::read(&*from.documents)?.unwrap_or_else(|| Kept::after(tip));
        kept.story.nodes.extend(from.pilots.nodes());
        kept.write(&*from.documents)?;
        let library = Library { specs: Arc::clone(&from.specs), address: from.address.clone() };
        // What becomes of jobs of an earlier server is news too.
        shared.active.store(!kept.story.jobs.is_empty(), Ordering::Release);
        Ok(Follower {
            documents: Arc::clone(&from.documents),
            places: from.places.clone(),
            kept,
            reader,
            library: Box::new(library),
            pilots: Arc::clone(&from.pilots),
            shared,
            repeat_until: tip.0,
            there: BTreeMap::new(),
            noted: Instant::now(),
        })
    }

    pub(super) fn run(mut self) {
        loop {
            match self.read_on() {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => {
                    let error = shipway_api::causes::causes(&error);
                    tracing::warn!(error, "event logs wait: the journal cannot be read");
                    std::thread::park_timeout(PAUSE);
                }
            }
            self.note();
            let stopping = self.shared.stopping.load(Ordering::Acquire);
            if !self.shared.woken.swap(false, Ordering::AcqRel) {
                if stopping {
                    return;
                }
                std::thread::park();
            }
        }
    }

    /// Whether there was anything to read.
    fn read_on(&mut self) -> Result<bool, JournalError> {
        let events = match self.reader.events_after(EventSeq(self.kept.story.seq), PAGE)? {
            EventsPage::Events(events) => events,
            EventsPage::Pruned { first_kept } => {
                if !self.kept.story.jobs.is_empty() {
                    tracing::warn!("event logs miss what happened before event {first_kept}");
                }
                self.kept.story.seq = first_kept.0 - 1;
                return Ok(true);
            }
        };
        if events.is_empty() {
            return Ok(false);
        }
        self.kept.story.nodes.extend(self.pilots.nodes());
        let mut texts = Texts::default();
        for (seq, body) in events {
            match guarded(|| Recorded::read(&body)) {
                Ok(Ok(recorded)) => self.hear(&recorded, seq, &mut texts),
                Ok(Err(error)) => tracing::warn!(%seq, %error, "event logs leave out an event"),
                Err(Panicked) => tracing::error!(%seq, "event logs leave out an event: {MISTAKE}"),
            }
            self.kept.story.seq = seq.0;
        }
        self.append(&mut texts);
        self.shared.active.store(!self.kept.story.jobs.is_empty(), Ordering::Release);
        if self.noted.elapsed() > NOTE_EVERY {
            self.note();
        }
        Ok(true)
    }

    fn hear(&mut self, recorded: &Recorded, seq: EventSeq, texts: &mut Texts) {
        let Heard { entries, mut left_out } = self.kept.story.hear(recorded, &*self.library);
        for entry in entries {
            if guarded(|| self.write_entry(&entry, seq.0, texts)).is_err() {
                left_out.insert(entry.job);
            }
        }
        for job in left_out {
            tracing::error!(%job, %seq, "the event log of a job leaves out an event: {MISTAKE}");
        }
    }

    fn write_entry(&mut self, entry: &Entry, seq: u64, texts: &mut Texts) {
        let Some(spec) = self.library.spec(entry.job) else { return };
        let Some(indices) = spec.indices() else { return };
        let ahead_s = ahead(entry.at);
        let mut shared_log = None;
        for position in entry.tasks.iter().flat_map(|(first, last)| *first..=*last) {
            let Some(index) = indices.index(Ordinal(position)) else { continue };
            let event = Event {
                cluster: entry.job.0,
                proc: index.0,
                at_ms: entry.at.0,
                ahead_s,
                what: entry.what.clone(),
            };
            let log = shared_log.clone().unwrap_or_else(|| {
                let (log, is_shared) = log_of(&spec, entry.job, position, index);
                shared_log = is_shared.then(|| log.clone());
                log
            });
            let text = render(&event);
            if seq <= self.repeat_until && self.is_there(&log, &text) {
                continue;
            }
            if texts.add(entry.job, log, &text) {
                self.append(texts);
            }
        }
    }

    /// Whether an earlier server has written this.
    fn is_there(&mut self, log: &Path, text: &str) -> bool {
        if !self.there.contains_key(log) {
            let events = file::events_after(log, self.kept.size(log), &self.places);
            self.there.insert(log.to_owned(), events);
        }
        match self.there.get_mut(log).and_then(|events| events.get_mut(&file::mark(text))) {
            Some(times) if *times > 0 => {
                *times -= 1;
                true
            }
            _ => false,
        }
    }

    fn append(&mut self, texts: &mut Texts) {
        for (log, (job, text)) in std::mem::take(&mut texts.logs) {
            let appended = guarded(|| file::append(&log, &text, &self.places));
            match appended.unwrap_or_else(|Panicked| Err(io::Error::other(MISTAKE))) {
                Ok(size) => {
                    self.kept.grown(&log, size);
                    self.shared.problems().remove(&job);
                }
                Err(error) => self.complain(job, &log, &error),
            }
        }
        texts.bytes = 0;
    }

    /// Said once for each job, until it works again.
    fn complain(&self, job: JobId, log: &Path, error: &io::Error) {
        let message = format!("cannot write the event log {}: {error}", log.display());
        let mut problems = self.shared.problems();
        if problems.len() >= PROBLEMS_KEPT && !problems.contains_key(&job) {
            problems.pop_first();
        }
        if problems.insert(job, message.clone()).is_none() {
            tracing::warn!(%job, "{message}; the job goes on, and these events are missing there");
        }
    }

    fn note(&mut self) {
        self.noted = Instant::now();
        if let Err(error) = self.kept.write(&*self.documents) {
            tracing::warn!(%error, "how far event logs are written could not be noted");
        }
    }
}

/// What is to be appended, by log, with a job to blame.
#[derive(Default)]
struct Texts {
    logs: BTreeMap<PathBuf, (JobId, String)>,
    bytes: usize,
}

impl Texts {
    /// Whether it is enough for now.
    fn add(&mut self, job: JobId, log: PathBuf, text: &str) -> bool {
        self.logs.entry(log).or_insert_with(|| (job, String::new())).1.push_str(text);
        self.bytes += text.len();
        self.bytes >= CHUNK
    }
}

/// The log of one task, and whether it is the same for all of them.
fn log_of(spec: &JobSpec, job: JobId, position: u32, index: TaskIndex) -> (PathBuf, bool) {
    log_by(spec, position, |row| Placeholders::of(job.task(index), row))
}

/// The same before the job has an id.
pub(super) fn log_of_coming(spec: &JobSpec, position: u32, index: TaskIndex) -> (PathBuf, bool) {
    log_by(spec, position, |row| Placeholders::before_submission(index, row))
}

fn log_by(
    spec: &JobSpec,
    position: u32,
    placeholders: impl FnOnce(&BTreeMap<String, String>) -> Placeholders<'_>,
) -> (PathBuf, bool) {
    let name = spec.event_log.as_deref().unwrap_or_default();
    let base = spec.basedir.as_deref().unwrap_or_default();
    let is_shared = !name.contains('{') && !base.contains('{');
    let row = spec.each.as_ref().filter(|_| !is_shared);
    let at = usize::try_from(position).unwrap_or(usize::MAX);
    let row = row.and_then(|each| each.row(at)).unwrap_or_default();
    let placeholders = placeholders(&row);
    (Path::new(&placeholders.fill(base)).join(placeholders.fill(name)), is_shared)
}

/// What the clock of this machine is ahead of UTC at a time.
fn ahead(at: Timestamp) -> i32 {
    let at = i64::try_from(at.0).ok().and_then(|at| jiff::Timestamp::from_millisecond(at).ok());
    at.map_or(0, |at| jiff::tz::TimeZone::system().to_offset(at).seconds())
}

#[cfg(test)]
mod tests;
