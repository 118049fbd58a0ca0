//! Reads committed events back for live views that resume after a sequence number.
//! A restart does not use this: it replays through the journal, which checks the chain. Who asks
//! while the disk does not answer has to be content with it.

use rusqlite::{Connection, OptionalExtension as _};

use super::error::{JournalError, during};
use super::sqlite_history::unsigned;
use super::{EventSeq, EventsPage, chain};

/// A page is closed at this size too: an event can name a million tasks.
const FULL_PAGE_BYTES: usize = 4 << 20;

/// Events after `after`, `limit` at most.
pub(super) fn events_after(
    conn: &Connection,
    after: EventSeq,
    limit: usize,
) -> Result<EventsPage, JournalError> {
    let reading = || during("reading events for a live view");
    // One transaction: pruning between the two looks must not make a gap.
    let view = conn.unchecked_transaction().map_err(reading())?;
    let base = super::schema::base(&view)?.seq;
    if after.0 < base {
        return Ok(EventsPage::Pruned { first_kept: EventSeq(base + 1) });
    }
    let next = after.0.saturating_add(1).cast_signed();
    let from = view
        .prepare_cached("SELECT max(seq_first) FROM commits WHERE seq_first <= ?1")
        .and_then(|mut query| query.query_row([next], |row| row.get::<_, Option<i64>>(0)))
        .map_err(reading())?;
    let mut query = view
        .prepare_cached("SELECT seq_first, body FROM commits WHERE seq_first >= ?1 ORDER BY 1")
        .map_err(reading())?;
    let mut rows = query.query([from.unwrap_or(0)]).map_err(reading())?;
    let (mut events, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next().map_err(reading())? {
        let first = unsigned(row, 0).map_err(reading())?;
        let body = row.get_ref(1).map_err(reading())?.as_bytes().unwrap_or_default();
        let numbered = (first..).zip(chain::lines(body)).filter(|(seq, _)| *seq > after.0);
        for (seq, event) in numbered {
            if events.len() == limit || bytes >= FULL_PAGE_BYTES {
                return Ok(EventsPage::Events(events));
            }
            bytes += event.len();
            events.push((EventSeq(seq), event.to_vec()));
        }
    }
    Ok(EventsPage::Events(events))
}

/// The last committed event.
pub(super) fn tip(conn: &Connection) -> Result<EventSeq, JournalError> {
    let reading = || during("reading the last event");
    let last = conn
        .prepare_cached("SELECT seq_first + count - 1 FROM commits ORDER BY seq_first DESC LIMIT 1")
        .and_then(|mut query| query.query_row([], |row| unsigned(row, 0)).optional())
        .map_err(reading())?;
    Ok(EventSeq(last.unwrap_or(0)))
}
