//! Writes the history rows of a commit. Insert-only: a row says what happened and never changes.
//! Reading them back is `history.rs`.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, params};
use shipway_shell::{Commit, HistoryRow, Lines};

/// Inserts the rows of a commit as written by the commit whose first event is `seq`.
pub(super) fn insert(conn: &Connection, seq: u64, commit: &Commit<'_>) -> rusqlite::Result<()> {
    commit.rows.iter().try_for_each(|row| match row {
        HistoryRow::JobSubmitted { .. } => insert_job(conn, seq, row, commit.events),
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
            ToSqlOutput::Borrowed(ValueRef::Text(spec.in_full(events.text()))),
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
