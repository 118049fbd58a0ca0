//! Writes the history rows of a commit. Insert-only: a row says what happened and never changes.
//! Reading them back is `history.rs`.

use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, params, params_from_iter};
use shipway_model::Usage;
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
        ran_ms,
        usage,
        advice,
    } = row
    else {
        return Ok(());
    };
    let number = |value: Option<u64>| value.map_or(Value::Null, |it| it.cast_signed().into());
    let text = |text: &Option<String>| text.clone().map_or(Value::Null, Value::from);
    let mut values = vec![
        number(Some(*job)),
        number(Some(*index)),
        number(Some(*attempt)),
        number(Some(seq)),
        state.clone().into(),
        outcome.clone().into(),
        text(node),
        text(pilot),
        number(*placed_ms),
        number(*started_ms),
        number(Some(*ended_ms)),
        number(Some(*ran_ms)),
        text(advice),
    ];
    // Most of it is absent for most attempts, which takes a byte each.
    let sums = usage.as_deref().map_or_else(|| Usage::default().values(), Usage::values);
    values.extend(sums.into_iter().map(number));
    let places = vec!["?"; values.len()].join(", ");
    conn.prepare_cached(&format!("INSERT INTO attempts VALUES ({places})"))?
        .execute(params_from_iter(values))
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
