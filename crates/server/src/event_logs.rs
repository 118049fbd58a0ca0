//! HTCondor's job event log, for jobs that ask for one: what is on disk in the journal is written
//! to the file they name, by a thread of its own. The writer only wakes it.
//!
//! The thread reads the journal from where it left off, so that a restart, a slow disk or a long
//! queue changes nothing but the time. What it knows and how far it came is kept beside the journal
//! (`documents.rs`), from before the first such job is accepted.
//!
//! - `story.rs`  from events to what the log says of them; pure
//! - `follow.rs` the thread: reads, renders, appends, remembers
//! - `file.rs`   appending to a file that others append to as well
//! - `place.rs`  where a file may be, and the way there
//! - `keep.rs`   what is remembered over a restart
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

mod file;
mod follow;
mod keep;
mod place;
mod story;

use crate::documents::{DocumentError, Documents};
use crate::journal::{HistoryReader, JournalError};
use crate::locks::Locked;
use crate::panics::Vital;
use crate::pilots::{Pilots, Specs};
use follow::Follower;
use keep::Kept;
pub use place::Places;
use shipway_core::event::{Event, Recorded};
use shipway_model::{Actor, JobId, JobSpec, Ordinal, UserName};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::{JoinHandle, Thread};

/// Jobs whose trouble with their log is remembered for `show`.
const PROBLEMS_KEPT: usize = 1_000;

/// Tasks of one job whose logs are looked for before it is accepted. Trouble with others is said
/// when they are written.
const LOGS_LOOKED_AT: u32 = 1_000;

/// Why a log was not begun.
#[derive(Debug, thiserror::Error)]
pub enum NotBegun {
    #[error("cannot remember how far event logs are written")]
    Keep(#[from] DocumentError),
    #[error("cannot read the journal for event logs")]
    Journal(#[from] JournalError),
    #[error("cannot start the thread that writes event logs")]
    Thread(#[source] io::Error),
}

/// What the thread needs of the server.
#[derive(Debug)]
pub struct Sources {
    pub documents: Arc<dyn Documents>,
    /// The connection that the thread's own is made from.
    pub history: Mutex<Box<dyn HistoryReader>>,
    /// Where logs may be.
    pub places: Places,
    /// Whoever runs the server, and so whose files it may write.
    pub owner: UserName,
    /// Where clients reach it.
    pub address: String,
    pub specs: Arc<Specs>,
    pub pilots: Arc<Pilots>,
}

#[derive(Debug)]
pub struct EventLogs {
    sources: Sources,
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Between the thread and everybody else.
#[derive(Debug, Default)]
struct Shared {
    /// Whether a job that has not ended has a log.
    active: AtomicBool,
    /// Whether there is something to look at.
    woken: AtomicBool,
    stopping: AtomicBool,
    /// To wake it without waiting for anybody.
    follower: OnceLock<Thread>,
    problems: Mutex<BTreeMap<JobId, String>>,
}

impl Shared {
    fn problems(&self) -> MutexGuard<'_, BTreeMap<JobId, String>> {
        self.problems.locked()
    }
}

impl EventLogs {
    /// Goes on where an earlier server left off, if any job here ever had a log.
    pub fn start(sources: Sources) -> Result<Self, NotBegun> {
        let logs = EventLogs { sources, shared: Arc::default(), thread: Mutex::default() };
        if Kept::read(&*logs.sources.documents)?.is_some() {
            logs.begin()?;
        }
        Ok(logs)
    }

    /// Why this person's job cannot have a log, and what to do instead.
    pub fn refusal(&self, by: &Actor, spec: &JobSpec) -> Option<(String, &'static str)> {
        spec.event_log.as_ref()?;
        let is_root = rustix::process::geteuid().is_root();
        // Of root's own server root's own jobs are root's: whoever may submit in that name may
        // write any file already.
        let is_owner = by.user == self.sources.owner;
        if is_owner && (!is_root || by.user.as_str() == "root") {
            return None;
        }
        let whose = if is_root { "root" } else { self.sources.owner.as_str() };
        let why = format!("event_log: this server runs as {whose} and writes no files for others");
        Some((why, "leave it out; `shipway wait` and `shipway show --json` say the same"))
    }

    /// A folder that a log of this job would be in, and that is not there. Looks at the disk.
    pub fn missing_folder(spec: &JobSpec) -> Option<PathBuf> {
        let indices = spec.indices().filter(|_| spec.event_log.is_some())?;
        let mut seen = BTreeSet::new();
        for at in 0..indices.len().min(LOGS_LOOKED_AT) {
            let (log, is_shared) = follow::log_of_coming(spec, at, indices.index(Ordinal(at))?);
            let folder = log.parent().map(Path::to_path_buf).unwrap_or_default();
            // Where the id of the job is a part of it, nobody can tell yet.
            let is_known = !folder.to_string_lossy().contains("{job}");
            if is_known && seen.insert(folder.clone()) && !folder.is_dir() {
                return Some(folder);
            }
            if is_shared {
                break;
            }
        }
        None
    }

    /// Called before a job with a log is accepted: from then on nothing of it is missed.
    pub fn begin(&self) -> Result<(), NotBegun> {
        let mut thread = self.thread.locked();
        if thread.is_some() {
            return Ok(());
        }
        let follower = Follower::new(&self.sources, Arc::clone(&self.shared))?;
        let builder = std::thread::Builder::new().name("event-logs".into());
        let started = builder.spawn(move || {
            let _vital = Vital("event logs");
            follower.run();
        });
        let started = started.map_err(NotBegun::Thread)?;
        let _only_once = self.shared.follower.set(started.thread().clone());
        *thread = Some(started);
        Ok(())
    }

    /// Called with what has just been written to the journal. Costs next to nothing where no job
    /// has a log.
    pub fn happened(&self, events: &[Recorded]) {
        let begins = |recorded: &Recorded| match &recorded.event {
            Event::JobSubmitted(new) => new.spec.event_log.is_some(),
            Event::TasksRequeued { .. } => true,
            _ => false,
        };
        if self.shared.active.load(Ordering::Acquire) || events.iter().any(begins) {
            self.wake();
        }
    }

    fn wake(&self) {
        self.shared.woken.store(true, Ordering::Release);
        if let Some(follower) = self.shared.follower.get() {
            follower.unpark();
        }
    }

    /// What is wrong with the log of a job.
    pub fn problem(&self, job: JobId) -> Option<String> {
        self.shared.problems().get(&job).cloned()
    }

    /// Writes what is left, and ends.
    pub fn stop(&self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.wake();
        let thread = self.thread.locked().take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}
