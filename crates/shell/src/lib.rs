//! The order of things around the core, without threads, clock or files: a wish is prepared,
//! decided, applied and given its rows; what waits is planned; the batch is written; and only then
//! anything of it leaves. The server's writer and the simulator run this very code: one with
//! SQLite, threads and sockets around it, the other with a disk that fails when it is told to.
//!
//! - `prepare.rs` from a wish to a command: ids, and what history knows
//! - `desk.rs`    the state, and deciding; `limits.rs` how much is kept
//! - `batch.rs`   what is decided and not yet on disk
//! - `rows.rs`    what of an event goes into history
//! - `lines.rs`   the events of a commit, as they are written
//! - `keeper.rs`  the journal in somebody's hands: writing, then telling
//! - `journal.rs` what is asked of a journal and of its history
//! - `outside.rs` what is told, and to whom
//! - `restore.rs` from disk to state
//!
//! Not here: who waits for whom, who is next, and when a disk that failed is tried again.
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unreachable,
    clippy::unwrap_used
)]

mod batch;
mod desk;
mod journal;
mod keeper;
mod limits;
mod lines;
mod outside;
mod panics;
mod prepare;
mod restore;
mod rows;

pub use batch::Batch;
pub use desk::Desk;
pub use journal::{
    Commit, Committed, EventSeq, History, Journal, MAX_COMMIT_BYTES, Snapshot, Stored,
};
pub use keeper::{Failed, Keeper, WriteResult};
pub use limits::{Core, Limits};
pub use lines::Lines;
pub use outside::{Outside, Question, WriteError};
pub use panics::{Panicked, guarded};
pub use prepare::{Member, Submission, Wish};
pub use restore::{RestoreError, read_event, read_snapshot, restore};
pub use rows::{HistoryRow, Text};
pub use shipway_core::Done;
