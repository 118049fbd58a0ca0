//! The durable journal: what the writer appends before it tells anybody. It keeps events as bytes
//! in commit order, snapshots of the state, and the history of jobs as plain tables.
//! It does not know what an event means; that is the core's.
//!
//! `SqliteJournal` is the embedded implementation (one file, `<home>/shipway.db`). The traits are
//! small, so that a database server can stand in for it: `Journal` is the shell's and for the
//! writer, `HistoryReader` for those who read meanwhile. Nobody outside names what is behind them.
//!
//! - `chain.rs` one row per commit, each checksummed over the one before
//! - `recover.rs`, `wal.rs` what is looked at before a home is believed; `reopen.rs` the same for a
//!   disk that failed
//! - `lock.rs`, `epoch.rs` one writer at a time
//! - `sqlite.rs`, `connection.rs`, `log_space.rs`, `snapshots.rs`, `rows.rs` the writing side
//! - `history.rs` what may be read meanwhile; `sqlite_history.rs`, `live.rs` the reading side
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

mod chain;
mod connection;
mod epoch;
mod error;
mod history;
mod live;
mod lock;
mod log_space;
mod recover;
mod reopen;
mod rows;
mod schema;
mod snapshots;
mod sqlite;
mod sqlite_history;
mod wal;

pub use epoch::{Epoch, Tenure};
pub use error::{JournalError, NotDurable};
pub use history::{
    AttemptRow, EventsPage, HistoryReader, JobEnd, JobFilter, JobRow, MAX_ATTEMPTS,
    MAX_EVENTS_PAGE, MAX_PAGE, MAX_SELECTION,
};
pub use recover::{RecoveryKind, RecoveryNote};
pub use snapshots::KEPT_EVENTS;
pub use sqlite::SqliteJournal;

pub use shipway_shell::{
    Commit, Committed, EventSeq, HistoryRow, Journal, Lines, MAX_COMMIT_BYTES, Snapshot, Stored,
    Text,
};

/// What a home's journal is kept in: said here and nowhere else.
pub type HomeJournal = SqliteJournal;

const DB_FILE: &str = "shipway.db";
