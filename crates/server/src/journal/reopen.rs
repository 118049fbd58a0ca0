//! What a disk that failed has to show before it is used again. When to ask is the writer's.

use std::path::Path;

use rusqlite::Connection;

use super::chain::{self, Tip};
use super::connection::{checkpoint, connect};
use super::error::{JournalError, during};
use super::recover::{self, damaged};
use super::{Epoch, EventSeq, schema};

/// Bytes that must fit on the disk before a journal that failed is used again.
const ROOM_TO_GO_ON: i64 = 128 << 10;

/// A connection to a disk that holds all it had confirmed, nothing more, and takes writes.
pub(super) fn reconnect(
    db: &Path,
    confirmed: Tip,
    epoch: Epoch,
) -> Result<Connection, JournalError> {
    let mut conn = connect(db)?;
    // After a failed sync the kernel may call pages clean that never reached the disk. This
    // writes all of the log once more, into the other file, and syncs that.
    checkpoint(&conn)?;
    // What another server has made of it since is not for this one to judge.
    epoch.check(&conn)?;
    let found = check_confirmed(&conn, db, confirmed)?;
    settle(&mut conn, confirmed, found, epoch)?;
    find_room(&conn)?;
    Ok(conn)
}

/// The whole chain must hold, and must contain the last commit that was confirmed.
fn check_confirmed(conn: &Connection, db: &Path, tip: Tip) -> Result<Tip, JournalError> {
    let mut confirmed = false;
    let base = schema::base(conn)?;
    let walked = chain::walk(conn, base, |commit| {
        confirmed |= commit.tip() == tip;
        true
    })?;
    if walked.bad.is_none() && (confirmed || tip == base) {
        return Ok(walked.tip);
    }
    let what = "the disk does not hold what it had confirmed";
    Err(damaged(db, Some(EventSeq(walked.tip.seq)), what))
}

/// Takes out what was never confirmed, and writes something: a disk that only reads is no use.
fn settle(
    conn: &mut Connection,
    confirmed: Tip,
    found: Tip,
    epoch: Epoch,
) -> Result<(), JournalError> {
    const PROBING: &str = "the probe after a failure";
    let probing = || during(PROBING);
    let change = epoch.begin(conn, PROBING)?;
    if found != confirmed {
        change
            .execute("DELETE FROM commits WHERE seq_first > ?1", [confirmed.seq.cast_signed()])
            .map_err(probing())?;
        recover::delete_rows_after(&change, confirmed)?;
    }
    change
        .execute("UPDATE meta SET value = value + 1 WHERE key = 'probe'", [])
        .map_err(probing())?;
    change.commit().map_err(probing())
}

/// Writes and frees as much as an ordinary batch takes: a disk with room for a byte would be
/// called good now and full at the next batch, over and over.
fn find_room(conn: &Connection) -> Result<(), JournalError> {
    let probing = || during("the search for room after a failure");
    conn.execute("INSERT OR REPLACE INTO meta VALUES ('room', zeroblob(?1))", [ROOM_TO_GO_ON])
        .map_err(probing())?;
    conn.execute("DELETE FROM meta WHERE key = 'room'", []).map_err(probing())?;
    // Hands the log's room back; what the database grew by stays its own, to be used again.
    checkpoint(conn)
}
