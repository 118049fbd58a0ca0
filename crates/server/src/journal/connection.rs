//! The writing connection to the database: how it is set up, and how its log is emptied.
//! Readers open their own (`history.rs`).

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::error::{JournalError, NotDurable, during};

/// Log pages (4 KiB each) before SQLite moves them into the database. A larger log is checkpointed
/// more rarely and merges more rewrites of a page; it costs disk space and time at the next start.
const WAL_PAGES: i64 = 4_000;

/// The log file is reused up to this size, not cut and grown again: growing costs a metadata
/// write with every sync.
const WAL_KEPT_BYTES: i64 = 2 * WAL_PAGES * 4_120;

/// Page cache of the writer in KiB: room for what most transactions change. The pages of the
/// largest jobs go into the log as they are made.
const CACHE_KIB: i64 = 16 * 1024;

/// Readers never block the writer; only a program that locks the file by hand does.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// Opens the writing connection, which confirms a commit only when it is on disk.
pub(super) fn connect(db: &Path) -> Result<Connection, JournalError> {
    let opening = || during("opening");
    let conn =
        Connection::open_with_flags(db, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(opening())?;
    conn.busy_timeout(BUSY_WAIT).map_err(opening())?;
    conn.execute_batch(&format!(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
         PRAGMA wal_autocheckpoint = {WAL_PAGES}; PRAGMA journal_size_limit = {WAL_KEPT_BYTES};
         PRAGMA cache_size = -{CACHE_KIB};"
    ))
    .map_err(opening())?;
    Ok(conn)
}

/// Moves the whole log into the database, syncs that, and empties the log.
pub(super) fn checkpoint(conn: &Connection) -> Result<(), JournalError> {
    let busy = conn
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0))
        .map_err(during("a checkpoint"))?;
    if busy == 0 {
        return Ok(());
    }
    // A reader kept it from that; SQLite says so in the answer, not as an error.
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
    Err(JournalError::NotDurable {
        act: "a checkpoint",
        what: NotDurable::Busy,
        source: rusqlite::Error::SqliteFailure(code, None).into(),
    })
}
