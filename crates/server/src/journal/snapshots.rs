//! Snapshots, and dropping the events they make unnecessary.
//! Taking a snapshot of the state is the writer's; here it is only bytes.

use rusqlite::{Connection, params};

use super::chain::Tip;
use super::error::{JournalError, during};
use super::{Epoch, EventSeq, Snapshot, schema};

/// The newest events that are kept whatever snapshots exist, so that a live view that was cut off
/// for a while resumes without loss.
pub const KEPT_EVENTS: u64 = 50_000;

/// Two: if the newest does not check out, the one before and the events since still do.
const KEPT_SNAPSHOTS: i64 = 2;

/// Commits dropped per call of `prune`, so that the writer is never away for long.
const PRUNED_COMMITS_PER_CALL: i64 = 10_000;

pub(super) fn save(
    conn: &mut Connection,
    epoch: Epoch,
    seq: u64,
    body: &[u8],
) -> Result<(), JournalError> {
    const SAVING: &str = "saving a snapshot";
    let saving = || during(SAVING);
    let change = epoch.begin(conn, SAVING)?;
    change
        .execute(
            "INSERT OR REPLACE INTO snapshots VALUES (?1, ?2, ?3)",
            params![seq.cast_signed(), i64::from(crc(seq, body)), body],
        )
        .map_err(saving())?;
    change
        .execute(
            "DELETE FROM snapshots WHERE seq NOT IN
                 (SELECT seq FROM snapshots ORDER BY seq DESC LIMIT ?1)",
            [KEPT_SNAPSHOTS],
        )
        .map_err(saving())?;
    change.commit().map_err(saving())
}

/// What the snapshots offer a restart.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) usable: Option<Snapshot>,
    /// Newer ones that did not check out.
    pub(super) damaged: Vec<EventSeq>,
}

pub(super) fn choose(conn: &Connection) -> Result<Choice, JournalError> {
    let reading = || during("reading the snapshots");
    let mut statement =
        conn.prepare("SELECT seq, crc, body FROM snapshots ORDER BY seq DESC").map_err(reading())?;
    let mut rows = statement.query([]).map_err(reading())?;
    let mut choice = Choice { usable: None, damaged: Vec::new() };
    while let Some(row) = rows.next().map_err(reading())? {
        let seq = row.get::<_, i64>(0).map_err(reading())?.cast_unsigned();
        let stored = row.get::<_, i64>(1).unwrap_or(-1);
        let body = row.get_ref(2).map_err(reading())?.as_bytes().unwrap_or_default();
        if i64::from(crc(seq, body)) == stored {
            choice.usable = Some(Snapshot { seq: EventSeq(seq), body: body.to_vec() });
            break;
        }
        choice.damaged.push(EventSeq(seq));
    }
    Ok(choice)
}

/// Drops the oldest commits that are before the older snapshot and not among the newest events.
/// What the last dropped one ended with is kept, so the chain still has a beginning to check.
pub(super) fn prune(
    conn: &mut Connection,
    epoch: Epoch,
    tip: Tip,
    keep: u64,
) -> Result<u64, JournalError> {
    const PRUNING: &str = "pruning old events";
    let pruning = || during(PRUNING);
    let base = schema::base(conn)?;
    let Some(older) = older_snapshot(conn).map_err(pruning())? else { return Ok(0) };
    let until = older.min(tip.seq.saturating_sub(keep));
    let Some((last, new_base)) = last_within(conn, until).map_err(pruning())? else {
        return Ok(0);
    };
    let change = epoch.begin(conn, PRUNING)?;
    change.execute("DELETE FROM commits WHERE seq_first <= ?1", [last]).map_err(pruning())?;
    for (key, value) in [("base_seq", new_base.seq), ("base_crc", u64::from(new_base.crc))] {
        change
            .execute("UPDATE meta SET value = ?2 WHERE key = ?1", params![key, value.cast_signed()])
            .map_err(pruning())?;
    }
    change.commit().map_err(pruning())?;
    Ok(new_base.seq - base.seq)
}

fn older_snapshot(conn: &Connection) -> rusqlite::Result<Option<u64>> {
    let (count, oldest) =
        conn.query_row("SELECT count(*), min(seq) FROM snapshots", [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?))
        })?;
    Ok(oldest.filter(|_| count >= KEPT_SNAPSHOTS).map(i64::cast_unsigned))
}

/// The last commit of those this call may drop: its row and the tip it made.
fn last_within(conn: &Connection, until: u64) -> rusqlite::Result<Option<(i64, Tip)>> {
    let mut statement =
        conn.prepare("SELECT seq_first, count, crc FROM commits ORDER BY seq_first LIMIT ?1")?;
    let mut rows = statement.query([PRUNED_COMMITS_PER_CALL])?;
    let mut last = None;
    while let Some(row) = rows.next()? {
        let (first, count): (i64, i64) = (row.get(0)?, row.get(1)?);
        let end = (first + count - 1).cast_unsigned();
        if end > until {
            break;
        }
        last = Some((first, Tip { seq: end, crc: row.get(2)? }));
    }
    Ok(last)
}

fn crc(seq: u64, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&seq.to_le_bytes());
    hasher.update(body);
    hasher.finalize()
}
