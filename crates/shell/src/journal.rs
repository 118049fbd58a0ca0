//! What the shell asks of durable storage, and the words both use. No storage is here.

use crate::{HistoryRow, Lines};
use shipway_model::{JobId, UserName};
use std::error::Error;
use std::ops::ControlFlow;

/// The largest body of one commit. SQLite's own limit is 1 GB for a value; this keeps the memory
/// of a commit, and the time it blocks the writer, within reason.
pub const MAX_COMMIT_BYTES: usize = 96 << 20;

/// The number of one event; the first is 1, and 0 means "before all". Live views resume by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EventSeq(pub u64);

impl std::fmt::Display for EventSeq {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(out)
    }
}

/// What one group commit writes, all or nothing.
#[derive(Debug, Clone, Copy)]
pub struct Commit<'a> {
    pub at_ms: u64,
    /// In order, at least one.
    pub events: &'a Lines,
    pub rows: &'a [HistoryRow],
}

/// The numbers a commit's events were given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    pub first: EventSeq,
    pub last: EventSeq,
}

/// The state after the event `seq` and all before it, as the core encoded it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub seq: EventSeq,
    pub body: Vec<u8>,
}

/// One event on its way back into the core.
#[derive(Debug, Clone, Copy)]
pub struct Stored<'a> {
    pub seq: EventSeq,
    /// When its batch was committed.
    pub at_ms: u64,
    pub body: &'a [u8],
}

/// Durable storage of events. One writer owns it, the one that opened it last: what an earlier one
/// would write is refused. Every method blocks until the disk has answered.
pub trait Journal {
    type Error: Error + 'static;
    /// Reads what this one has written.
    type History: History;

    /// When this returns `Ok`, the commit is on disk. After an error that leaves open whether it
    /// is, nothing more is taken until `reopen` succeeds.
    fn append(&mut self, commit: &Commit<'_>) -> Result<Committed, Self::Error>;

    /// Keeps a snapshot that covers all events up to `seq`. The newest two are kept.
    fn save_snapshot(&mut self, seq: EventSeq, body: &[u8]) -> Result<(), Self::Error>;

    /// The newest whole snapshot from which every later event is kept.
    fn load_snapshot(&mut self) -> Result<Option<Snapshot>, Self::Error>;

    /// Shows every event after `after` in order; `visit` may break off.
    fn replay(
        &mut self,
        after: EventSeq,
        visit: &mut dyn FnMut(Stored<'_>) -> ControlFlow<()>,
    ) -> Result<(), Self::Error>;

    /// Drops events that neither a restart nor a live view needs. Bounded work per call; returns
    /// how many events went, 0 when there is nothing left to drop.
    fn prune(&mut self) -> Result<u64, Self::Error>;

    /// Proves that the disk takes writes again after a failure. The commit whose append failed is
    /// not in the journal afterwards; everything confirmed is.
    fn reopen(&mut self) -> Result<(), Self::Error>;

    /// The last event on disk; 0 when there is none.
    fn tip(&self) -> EventSeq;

    /// Whether the last write took so long that the next batch should be decided meanwhile.
    fn is_slow(&self) -> bool {
        false
    }

    /// Whether another writer has taken it over: then it takes nothing from this one ever again.
    fn is_taken_over(&self) -> bool {
        false
    }

    /// An error and its causes, for those who wait and for the log.
    fn words(error: &(dyn Error + 'static)) -> String {
        error.to_string()
    }
}

/// What history knows of jobs that have left memory.
pub trait History {
    type Error: Error;
    /// Whose it is, and since which job.
    fn owner(&self, job: JobId) -> Result<Option<(UserName, JobId)>, Self::Error>;
    /// The state that it ended in last.
    fn last_state(&self, job: JobId) -> Result<Option<String>, Self::Error>;
    /// Its record when it ended last.
    fn last_record(&self, job: JobId) -> Result<Option<String>, Self::Error>;
}
