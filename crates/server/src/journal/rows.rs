//! Writes the history rows of a batch. Insert-only: a row says what happened and never changes.
//! Reading them back is `history.rs`.

use super::{Batch, Lines};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, params};
use std::ops::Range;

/// One line of the history tables. JSON fields are text that the caller encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HistoryRow {
    JobSubmitted {
        job: u64,
        owner: String,
        name: String,
        /// A JSON object of strings.
        labels: String,
        spec: Text,
        tasks: u64,
        priority: i64,
        submitted_ms: u64,
    },
    JobGiven {
        job: u64,
        owner: String,
        /// A number of a job, for `Owned` of the model.
        since: u64,
    },
    AttemptEnded {
        job: u64,
        index: u64,
        attempt: u64,
        state: String,
        outcome: String,
        node: Option<String>,
        pilot: Option<String>,
        placed_ms: Option<u64>,
        started_ms: Option<u64>,
        ended_ms: u64,
    },
    JobEnded {
        job: u64,
        /// Counts the ends of a job: a retried job ends again.
        revision: u64,
        state: String,
        ended_ms: u64,
        ok: u64,
        failed: u64,
        cancelled: u64,
        record: String,
    },
}

/// A text that may be megabytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Text {
    Own(String),
    /// It stands in the events of the same batch, and is not there twice.
    InEvents(Range<usize>),
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text::Own(text.to_owned())
    }
}

impl Text {
    fn of<'a>(&'a self, events: &'a Lines) -> &'a [u8] {
        match self {
            Text::Own(text) => text.as_bytes(),
            Text::InEvents(place) => events.text().get(place.clone()).unwrap_or_default(),
        }
    }
}

/// Inserts the rows of a batch as written by the commit whose first event is `seq`.
pub(super) fn insert(conn: &Connection, seq: u64, batch: &Batch<'_>) -> rusqlite::Result<()> {
    batch.rows.iter().try_for_each(|row| match row {
        HistoryRow::JobSubmitted { .. } => insert_job(conn, seq, row, batch.events),
        HistoryRow::JobGiven { job, owner, since } => conn
            .prepare_cached("INSERT INTO given VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![job.cast_signed(), seq.cast_signed(), owner, since.cast_signed()])
            .map(drop),
        HistoryRow::AttemptEnded { .. } => insert_attempt(conn, seq, row),
        HistoryRow::JobEnded { .. } => insert_end(conn, seq, row),
    })
}

fn insert_job(
    conn: &Connection,
    seq: u64,
    row: &HistoryRow,
    events: &Lines,
) -> rusqlite::Result<()> {
    let HistoryRow::JobSubmitted { job, owner, name, labels, spec, tasks, priority, submitted_ms } =
        row
    else {
        return Ok(());
    };
    conn.prepare_cached("INSERT INTO jobs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?
        .execute(params![
            job.cast_signed(),
            seq.cast_signed(),
            owner,
            name,
            labels,
            ToSqlOutput::Borrowed(ValueRef::Text(spec.of(events))),
            tasks.cast_signed(),
            priority,
            submitted_ms.cast_signed()
        ])
        .map(drop)
}

fn insert_attempt(conn: &Connection, seq: u64, row: &HistoryRow) -> rusqlite::Result<()> {
    let HistoryRow::AttemptEnded {
        job,
        index,
        attempt,
        state,
        outcome,
        node,
        pilot,
        placed_ms,
        started_ms,
        ended_ms,
    } = row
    else {
        return Ok(());
    };
    conn.prepare_cached(
        "INSERT INTO attempts VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?
    .execute(params![
        job.cast_signed(),
        index.cast_signed(),
        attempt.cast_signed(),
        seq.cast_signed(),
        state,
        outcome,
        node,
        pilot,
        placed_ms.map(u64::cast_signed),
        started_ms.map(u64::cast_signed),
        ended_ms.cast_signed()
    ])
    .map(drop)
}

fn insert_end(conn: &Connection, seq: u64, row: &HistoryRow) -> rusqlite::Result<()> {
    let HistoryRow::JobEnded { job, revision, state, ended_ms, ok, failed, cancelled, record } =
        row
    else {
        return Ok(());
    };
    conn.prepare_cached("INSERT INTO job_ends VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?
        .execute(params![
            job.cast_signed(),
            seq.cast_signed(),
            revision.cast_signed(),
            state,
            ended_ms.cast_signed(),
            ok.cast_signed(),
            failed.cast_signed(),
            cancelled.cast_signed(),
            record
        ])
        .map(drop)
}
