//! The durable journal: what the writer appends before it tells anybody. It keeps events as bytes
//! in commit order, snapshots of the state, and the history of jobs as plain tables.
//! It does not know what an event means; that is the core's.
//!
//! `SqliteJournal` is the embedded implementation (one file, `<home>/shipway.db`). The `Journal`
//! trait is small so that a database server can stand in for it.
//!
//! - `chain.rs` one row per commit, each checksummed over the one before
//! - `lines.rs` the events of a commit, before it is one
//! - `recover.rs`, `wal.rs` what is looked at before a home is believed
//! - `sqlite.rs`, `connection.rs`, `room.rs`, `snapshots.rs`, `rows.rs` the writing side
//! - `history.rs`, `attempts.rs`, `live.rs` the reading side, used while the writer writes

mod attempts;
mod chain;
mod connection;
mod error;
mod history;
mod lines;
mod live;
mod lock;
mod recover;
mod room;
mod rows;
mod schema;
mod snapshots;
mod sqlite;
mod wal;

use std::ops::ControlFlow;

pub use attempts::{AttemptRow, MAX_ATTEMPTS};
pub use error::{JournalError, NotDurable};
pub use history::{HistoryReader, JobEnd, JobFilter, JobRow, MAX_PAGE, MAX_SELECTION};
pub use lines::Lines;
pub use live::{EventsPage, MAX_EVENTS_PAGE};
pub use recover::{RecoveryKind, RecoveryNote};
pub use rows::{HistoryRow, Text};
pub use snapshots::KEPT_EVENTS;
pub use sqlite::SqliteJournal;

pub(crate) const DB_FILE: &str = "shipway.db";

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
pub struct Batch<'a> {
    pub at_ms: u64,
    /// In order, at least one.
    pub events: &'a Lines,
    pub rows: &'a [HistoryRow],
}

/// The numbers a batch's events were given.
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
pub struct Recorded<'a> {
    pub seq: EventSeq,
    /// When its batch was committed.
    pub at_ms: u64,
    pub body: &'a [u8],
}

/// Durable storage of events. One writer owns it; every method blocks until the disk has answered.
pub trait Journal {
    /// When this returns `Ok`, the batch is on disk. After `JournalError::NotDurable` nothing more
    /// is taken until `reopen` succeeds.
    fn append(&mut self, batch: &Batch<'_>) -> Result<Committed, JournalError>;

    /// Keeps a snapshot that covers all events up to `seq`. The newest two are kept.
    fn save_snapshot(&mut self, seq: EventSeq, body: &[u8]) -> Result<(), JournalError>;

    /// The newest whole snapshot from which every later event is kept.
    fn load_snapshot(&mut self) -> Result<Option<Snapshot>, JournalError>;

    /// Shows every event after `after` in order; `visit` may break off.
    fn replay(
        &mut self,
        after: EventSeq,
        visit: &mut dyn FnMut(Recorded<'_>) -> ControlFlow<()>,
    ) -> Result<(), JournalError>;

    /// Drops events that neither a restart nor a live view needs. Bounded work per call; returns
    /// how many events went, 0 when there is nothing left to drop.
    fn prune(&mut self) -> Result<u64, JournalError>;

    /// Proves that the disk takes writes again after a failure. The batch whose append failed is
    /// not in the journal afterwards; everything confirmed is.
    fn reopen(&mut self) -> Result<(), JournalError>;

    /// The last event on disk; 0 when there is none.
    fn tip(&self) -> EventSeq;

    /// What was repaired or left behind so far. For the log and for `doctor`.
    fn notes(&self) -> &[RecoveryNote];
}
