//! Reads the history of jobs, on connections of its own, while the writer writes.
//! Jobs that have not ended are the core's to tell; here is only what was committed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Row, params_from_iter};

use super::error::{JournalError, during};
use super::{DB_FILE, EventSeq};
use shipway_model::{JobId, UserName};
use shipway_shell::History;

/// Rows of one page: enough for a screen or a script's loop, small enough to answer at once, and
/// one more by which the caller knows that another page follows.
pub const MAX_PAGE: usize = 1_001;

/// Job ids of one selection: what a bulk command such as "cancel all of mine" may name.
pub const MAX_SELECTION: usize = 100_000;

/// Only a checkpoint that restarts the log makes a reader wait, and that is short.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// One read-only connection. `try_clone` gives another thread its own.
#[derive(Debug)]
pub struct HistoryReader {
    pub(super) conn: Connection,
    db: PathBuf,
}

/// Which jobs; every part given must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct JobFilter {
    pub owner: Option<String>,
    /// Of the owner's, only what is theirs since this one: see `Owned` of the model.
    pub since: u64,
    pub name: Option<String>,
    pub labels: Vec<(String, String)>,
    /// Only jobs with a smaller id: where the last page ended.
    pub before: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRow {
    pub job: u64,
    pub seq: EventSeq,
    pub owner: String,
    /// The job's own number, or what it was given with.
    pub since: u64,
    pub name: String,
    /// A JSON object of strings.
    pub labels: String,
    pub tasks: u64,
    pub priority: i64,
    pub submitted_ms: u64,
    /// How large its specification is, as JSON.
    pub spec_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobEnd {
    pub job: u64,
    pub seq: EventSeq,
    pub revision: u64,
    pub state: String,
    pub ended_ms: u64,
    pub ok: u64,
    pub failed: u64,
    pub cancelled: u64,
    pub record: String,
}

/// Whose a job is now. Few were ever given, and looking there is cheap.
const OWNER: &str = "coalesce((SELECT given.owner FROM given WHERE given.job = jobs.job
    ORDER BY given.seq DESC LIMIT 1), owner)";
const SINCE: &str = "coalesce((SELECT given.since FROM given WHERE given.job = jobs.job
    ORDER BY given.seq DESC LIMIT 1), job)";

impl History for HistoryReader {
    type Error = JournalError;

    fn owner(&self, job: JobId) -> Result<Option<(UserName, JobId)>, JournalError> {
        let row = self.job(job.0)?;
        Ok(row.and_then(|row| Some((UserName::new(&row.owner).ok()?, JobId(row.since)))))
    }
    fn last_state(&self, job: JobId) -> Result<Option<String>, JournalError> {
        let sql = "SELECT state FROM job_ends WHERE job = ?1 ORDER BY revision DESC LIMIT 1";
        self.one(sql, job.0, |row| row.get(0))
    }
    fn last_record(&self, job: JobId) -> Result<Option<String>, JournalError> {
        Ok(self.last_end(job.0)?.map(|end| end.record))
    }
}

fn job_columns() -> String {
    let plain = "name, labels, tasks, priority, submitted_ms, octet_length(spec)";
    format!("job, seq, {OWNER}, {plain}, {SINCE}")
}

impl HistoryReader {
    /// Opens the history of a home whose journal is open.
    pub fn open(home: &Path) -> Result<Self, JournalError> {
        Self::open_db(home.join(DB_FILE))
    }

    pub fn try_clone(&self) -> Result<Self, JournalError> {
        Self::open_db(self.db.clone())
    }

    fn open_db(db: PathBuf) -> Result<Self, JournalError> {
        let opening = || during("opening the history");
        let conn =
            Connection::open_with_flags(&db, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(opening())?;
        conn.busy_timeout(BUSY_WAIT).map_err(opening())?;
        Ok(Self { conn, db })
    }

    pub fn job(&self, job: u64) -> Result<Option<JobRow>, JournalError> {
        let sql = format!("SELECT {} FROM jobs WHERE job = ?1", job_columns());
        self.one(&sql, job, job_row)
    }

    /// Whose job it is, and its spec as it was submitted, as JSON.
    pub fn spec(&self, job: u64) -> Result<Option<(String, String)>, JournalError> {
        let sql = format!("SELECT {OWNER}, spec FROM jobs WHERE job = ?1");
        self.one(&sql, job, |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// How the job ended last; a retried job ends more than once.
    pub fn last_end(&self, job: u64) -> Result<Option<JobEnd>, JournalError> {
        let sql = "SELECT job, seq, revision, state, ended_ms, ok, failed, cancelled, record
                   FROM job_ends WHERE job = ?1 ORDER BY revision DESC LIMIT 1";
        self.one(sql, job, end_row)
    }

    /// How many tasks the job has.
    pub fn tasks_of(&self, job: u64) -> Result<Option<u64>, JournalError> {
        self.one("SELECT tasks FROM jobs WHERE job = ?1", job, |row| unsigned(row, 0))
    }

    /// One page of jobs, newest first.
    pub fn jobs(&self, filter: &JobFilter, limit: usize) -> Result<Vec<JobRow>, JournalError> {
        self.select(&job_columns(), filter, limit.min(MAX_PAGE), job_row)
    }

    /// The ids of the selected jobs, newest first, `MAX_SELECTION` at most.
    pub fn job_ids(&self, filter: &JobFilter) -> Result<Vec<u64>, JournalError> {
        self.select("job", filter, MAX_SELECTION, |row| unsigned(row, 0))
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

    pub(super) fn many<T>(
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

pub(super) fn integer(value: u64) -> Value {
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
