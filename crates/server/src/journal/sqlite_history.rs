//! History as tables of the journal's database, read on connections of its own.

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Row, params_from_iter};

use shipway_model::Usage;

use super::error::{JournalError, during};
use super::history::{
    AttemptRow, EventsPage, HistoryReader, JobEnd, JobFilter, JobRow, MAX_ATTEMPTS,
    MAX_EVENTS_PAGE, MAX_PAGE, MAX_SELECTION,
};
use super::{EventSeq, Snapshot, live, snapshots};

/// Only a checkpoint that restarts the log makes a reader wait, and that is short.
const BUSY_WAIT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct SqliteHistory {
    conn: Connection,
    db: PathBuf,
}

/// Whose a job is now. Few were ever given, and looking there is cheap.
const OWNER: &str = "coalesce((SELECT given.owner FROM given WHERE given.job = jobs.job
    ORDER BY given.seq DESC LIMIT 1), owner)";
const SINCE: &str = "coalesce((SELECT given.since FROM given WHERE given.job = jobs.job
    ORDER BY given.seq DESC LIMIT 1), job)";

fn job_columns() -> String {
    let plain = "name, labels, tasks, priority, submitted_ms, octet_length(spec)";
    format!("job, seq, {OWNER}, {plain}, {SINCE}")
}

impl SqliteHistory {
    pub(super) fn open(db: PathBuf) -> Result<Self, JournalError> {
        let opening = || during("opening the history");
        let conn =
            Connection::open_with_flags(&db, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(opening())?;
        conn.busy_timeout(BUSY_WAIT).map_err(opening())?;
        Ok(Self { conn, db })
    }

    fn select<T>(
        &self,
        columns: &str,
        filter: &JobFilter,
        limit: usize,
        read: fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, JournalError> {
        let given = self.any_given(filter.owner.as_deref())?;
        let (conditions, mut values) = conditions(filter, given);
        let sql = format!("SELECT {columns} FROM jobs{conditions} ORDER BY job DESC LIMIT ?");
        values.push(integer(limit as u64));
        self.many(&sql, values, read)
    }

    /// Whether somebody was given jobs of others.
    fn any_given(&self, owner: Option<&str>) -> Result<bool, JournalError> {
        let Some(owner) = owner else { return Ok(false) };
        self.conn
            .prepare_cached("SELECT 1 FROM given WHERE owner = ?1 LIMIT 1")
            .and_then(|mut query| query.exists([owner]))
            .map_err(during("reading the history"))
    }

    fn one<T>(
        &self,
        sql: &str,
        job: u64,
        read: fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, JournalError> {
        self.conn
            .prepare_cached(sql)
            .and_then(|mut query| query.query_row([job.cast_signed()], read).optional())
            .map_err(during("reading a job's history"))
    }

    fn many<T>(
        &self,
        sql: &str,
        values: Vec<Value>,
        read: fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, JournalError> {
        let reading = || during("reading the history");
        let mut query = self.conn.prepare_cached(sql).map_err(reading())?;
        let rows = query.query_map(params_from_iter(values), read).map_err(reading())?;
        rows.collect::<Result<_, _>>().map_err(reading())
    }
}

impl HistoryReader for SqliteHistory {
    fn try_clone(&self) -> Result<Box<dyn HistoryReader>, JournalError> {
        Ok(Box::new(Self::open(self.db.clone())?))
    }

    fn job(&self, job: u64) -> Result<Option<JobRow>, JournalError> {
        let sql = format!("SELECT {} FROM jobs WHERE job = ?1", job_columns());
        self.one(&sql, job, job_row)
    }

    fn spec(&self, job: u64) -> Result<Option<(String, String)>, JournalError> {
        let sql = format!("SELECT {OWNER}, spec FROM jobs WHERE job = ?1");
        self.one(&sql, job, |row| Ok((row.get(0)?, row.get(1)?)))
    }

    fn tasks_of(&self, job: u64) -> Result<Option<u64>, JournalError> {
        self.one("SELECT tasks FROM jobs WHERE job = ?1", job, |row| unsigned(row, 0))
    }

    fn last_end(&self, job: u64) -> Result<Option<JobEnd>, JournalError> {
        let sql = "SELECT job, seq, revision, state, ended_ms, ok, failed, cancelled, record
                   FROM job_ends WHERE job = ?1 ORDER BY revision DESC LIMIT 1";
        self.one(sql, job, end_row)
    }

    fn end_state(&self, job: u64) -> Result<Option<String>, JournalError> {
        let sql = "SELECT state FROM job_ends WHERE job = ?1 ORDER BY revision DESC LIMIT 1";
        self.one(sql, job, |row| row.get(0))
    }

    fn jobs(&self, filter: &JobFilter, limit: usize) -> Result<Vec<JobRow>, JournalError> {
        self.select(&job_columns(), filter, limit.min(MAX_PAGE), job_row)
    }

    fn job_ids(&self, filter: &JobFilter) -> Result<Vec<u64>, JournalError> {
        self.select("job", filter, MAX_SELECTION, |row| unsigned(row, 0))
    }

    fn attempts_between(
        &self,
        job: u64,
        first: u64,
        last: u64,
    ) -> Result<Vec<AttemptRow>, JournalError> {
        let sql = "SELECT * FROM attempts WHERE job = ? AND idx BETWEEN ? AND ?
                   ORDER BY idx, attempt LIMIT ?";
        let limit = MAX_ATTEMPTS as u64;
        self.many(sql, [job, first, last, limit].map(integer).to_vec(), attempt_row)
    }

    fn last_with(&self, job: u64, state: &str) -> Result<Option<AttemptRow>, JournalError> {
        let sql = "SELECT * FROM attempts WHERE job = ?1 AND state = ?2 AND idx =
                       (SELECT idx FROM attempts WHERE job = ?1 AND state = ?2
                        ORDER BY idx LIMIT 1)
                   ORDER BY attempt DESC LIMIT 1";
        let values = vec![integer(job), Value::from(state.to_owned())];
        Ok(self.many(sql, values, attempt_row)?.pop())
    }

    fn events_after(&self, after: EventSeq, limit: usize) -> Result<EventsPage, JournalError> {
        live::events_after(&self.conn, after, limit.min(MAX_EVENTS_PAGE))
    }

    fn snapshot(&self) -> Result<Option<Snapshot>, JournalError> {
        Ok(snapshots::choose(&self.conn)?.usable)
    }

    fn tip(&self) -> Result<EventSeq, JournalError> {
        live::tip(&self.conn)
    }
}

/// Conditions only for what was asked, so that SQLite picks the index of the owner or the newest.
fn conditions(filter: &JobFilter, given: bool) -> (String, Vec<Value>) {
    // What was given away is another's; only who was given something need look for it.
    const OWN: &str = "owner = ? AND job >= ? AND job NOT IN (SELECT job FROM given)";
    const LABEL: &str = "EXISTS (SELECT 1 FROM json_each(labels) WHERE key = ? AND value = ?)";
    let own_or_given = format!(
        "(({OWN}) OR (job IN (SELECT job FROM given WHERE owner = ?
        AND since >= ?) AND {OWNER} = ?))"
    );
    let mut parts = Vec::new();
    let mut values = Vec::new();
    if let Some(owner) = &filter.owner {
        parts.push(if given { own_or_given.as_str() } else { OWN });
        let (owner, since) = (Value::from(owner.clone()), integer(filter.since));
        values.extend([owner.clone(), since.clone()]);
        if given {
            values.extend([owner.clone(), since, owner]);
        }
    }
    if let Some(name) = &filter.name {
        parts.push("name = ?");
        values.push(Value::from(name.clone()));
    }
    if let Some(before) = filter.before {
        parts.push("job < ?");
        values.push(integer(before));
    }
    for (key, value) in &filter.labels {
        parts.push(LABEL);
        values.extend([Value::from(key.clone()), Value::from(value.clone())]);
    }
    if parts.is_empty() {
        return (String::new(), values);
    }
    (format!(" WHERE {}", parts.join(" AND ")), values)
}

fn integer(value: u64) -> Value {
    Value::Integer(value.cast_signed())
}

pub(super) fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(i64::cast_unsigned)
}

fn job_row(row: &Row<'_>) -> rusqlite::Result<JobRow> {
    Ok(JobRow {
        job: unsigned(row, 0)?,
        seq: EventSeq(unsigned(row, 1)?),
        owner: row.get(2)?,
        name: row.get(3)?,
        labels: row.get(4)?,
        tasks: unsigned(row, 5)?,
        priority: row.get(6)?,
        submitted_ms: unsigned(row, 7)?,
        spec_bytes: unsigned(row, 8)?,
        since: unsigned(row, 9)?,
    })
}

fn end_row(row: &Row<'_>) -> rusqlite::Result<JobEnd> {
    Ok(JobEnd {
        job: unsigned(row, 0)?,
        seq: EventSeq(unsigned(row, 1)?),
        revision: unsigned(row, 2)?,
        state: row.get(3)?,
        ended_ms: unsigned(row, 4)?,
        ok: unsigned(row, 5)?,
        failed: unsigned(row, 6)?,
        cancelled: unsigned(row, 7)?,
        record: row.get(8)?,
    })
}

fn maybe_unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<u64>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(i64::cast_unsigned))
}

fn attempt_row(row: &Row<'_>) -> rusqlite::Result<AttemptRow> {
    Ok(AttemptRow {
        job: unsigned(row, 0)?,
        index: unsigned(row, 1)?,
        attempt: unsigned(row, 2)?,
        seq: EventSeq(unsigned(row, 3)?),
        state: row.get(4)?,
        outcome: row.get(5)?,
        node: row.get(6)?,
        pilot: row.get(7)?,
        placed_ms: maybe_unsigned(row, 8)?,
        started_ms: maybe_unsigned(row, 9)?,
        ended_ms: unsigned(row, 10)?,
        ran_ms: maybe_unsigned(row, 11)?,
        advice: row.get(12)?,
        usage: usage(row, 13)?,
    })
}

/// The sums from this column on.
fn usage(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<Box<Usage>>> {
    let columns = first..first + Usage::NAMES.len();
    let values: Vec<_> = columns.map(|at| maybe_unsigned(row, at)).collect::<Result<_, _>>()?;
    let usage = Usage::of_values(values);
    Ok((!usage.is_empty()).then(|| Box::new(usage)))
}
