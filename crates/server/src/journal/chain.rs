//! The commit chain: how a batch becomes one row, and how the rows vouch for each other.
//! Not here: what to do about a row that does not check out (`recover.rs`).

use rusqlite::{Connection, OptionalExtension as _, Row, types::ValueRef};

use super::error::{JournalError, during};
use super::schema;

/// Where the chain stands after some commit. The default is the empty journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tip {
    /// Sequence number of the last event; 0 when there is none.
    pub(super) seq: u64,
    pub(super) crc: u32,
}

/// One row of `commits`, not yet believed.
#[derive(Debug)]
pub(super) struct Commit<'a> {
    pub(super) seq_first: u64,
    pub(super) count: u64,
    pub(super) at_ms: u64,
    pub(super) crc: u32,
    pub(super) body: &'a [u8],
}

/// A row that does not continue the chain.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadRow {
    pub(super) rowid: i64,
    /// No row follows it.
    pub(super) is_last: bool,
    pub(super) what: &'static str,
}

/// How far the chain holds, and what ended it if not its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Walked {
    pub(super) tip: Tip,
    pub(super) bad: Option<BadRow>,
}

impl<'a> Commit<'a> {
    fn read(row: &'a Row<'_>) -> Option<Self> {
        let number = |column| match row.get_ref(column) {
            Ok(ValueRef::Integer(value)) => Some(value.cast_unsigned()),
            _ => None,
        };
        let Ok(ValueRef::Text(body) | ValueRef::Blob(body)) = row.get_ref(4) else {
            return None;
        };
        Some(Self {
            seq_first: number(0)?,
            count: number(1)?,
            at_ms: number(2)?,
            crc: u32::try_from(number(3)?).ok()?,
            body,
        })
    }

    fn fault(&self, before: Tip) -> Option<&'static str> {
        let expected = crc(before.crc, self.seq_first, self.count, self.at_ms, self.body);
        if self.crc != expected {
            return Some("its checksum does not match");
        }
        if self.seq_first != before.seq.wrapping_add(1) {
            return Some("its sequence number does not follow");
        }
        let lines = lines(self.body).count() as u64;
        (lines != self.count).then_some("its event count does not match")
    }

    /// Where the chain stands after this commit.
    pub(super) fn tip(&self) -> Tip {
        Tip { seq: self.seq_first + self.count - 1, crc: self.crc }
    }
}

pub(super) fn crc(before: u32, seq_first: u64, count: u64, at_ms: u64, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&before.to_le_bytes());
    hasher.update(&seq_first.to_le_bytes());
    hasher.update(&count.to_le_bytes());
    hasher.update(&at_ms.to_le_bytes());
    hasher.update(body);
    hasher.finalize()
}

/// The events of a commit's body: one JSON document per line, so that any SQLite tool shows it.
pub(super) fn lines(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    body.split(|byte| *byte == b'\n')
}

/// Follows the chain from `base` over all kept rows, and shows every good one to `visit`.
/// `visit` returns false to stop early.
pub(super) fn walk(
    conn: &Connection,
    base: Tip,
    mut visit: impl FnMut(&Commit<'_>) -> bool,
) -> Result<Walked, JournalError> {
    let reading = || during("reading the commits");
    let mut statement = conn
        .prepare("SELECT seq_first, count, at_ms, crc, body FROM commits ORDER BY seq_first")
        .map_err(reading())?;
    let mut rows = statement.query([]).map_err(reading())?;
    let mut tip = base;
    while let Some(row) = rows.next().map_err(reading())? {
        let commit = Commit::read(row);
        let fault = commit.as_ref().map_or(Some("it is not a commit"), |c| c.fault(tip));
        if let Some(what) = fault {
            let rowid = row.get(0).map_err(reading())?;
            let is_last = rows.next().map_err(reading())?.is_none();
            return Ok(Walked { tip, bad: Some(BadRow { rowid, is_last, what }) });
        }
        let Some(commit) = commit else { continue };
        tip = commit.tip();
        if !visit(&commit) {
            break;
        }
    }
    Ok(Walked { tip, bad: None })
}

/// Where the chain ends, unchecked.
pub(super) fn last(conn: &Connection) -> Result<Tip, JournalError> {
    let sql = "SELECT seq_first + count - 1, crc FROM commits ORDER BY seq_first DESC LIMIT 1";
    let tip =
        |row: &Row<'_>| Ok(Tip { seq: row.get::<_, i64>(0)?.cast_unsigned(), crc: row.get(1)? });
    let last = conn.query_row(sql, [], tip).optional();
    last.map_err(during("reading the last commit"))?.map_or_else(|| schema::base(conn), Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_commit_is_covered() {
        let whole = crc(1, 2, 3, 4, b"body");
        for other in [
            crc(0, 2, 3, 4, b"body"),
            crc(1, 0, 3, 4, b"body"),
            crc(1, 2, 0, 4, b"body"),
            crc(1, 2, 3, 0, b"body"),
            crc(1, 2, 3, 4, b"bodY"),
        ] {
            assert_ne!(whole, other);
        }
    }
}
