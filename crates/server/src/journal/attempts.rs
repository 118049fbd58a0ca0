//! Reads ended attempts from the history. Attempts that still run are the core's to tell.

use rusqlite::Row;
use rusqlite::types::Value;

use super::EventSeq;
use super::error::JournalError;
use super::history::{HistoryReader, MAX_PAGE, integer, unsigned};

/// Attempts shown for one page of tasks: several for each, without a limit for none.
pub const MAX_ATTEMPTS: usize = 10 * MAX_PAGE;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRow {
    pub job: u64,
    pub index: u64,
    pub attempt: u64,
    pub seq: EventSeq,
    pub state: String,
    pub outcome: String,
    pub node: Option<String>,
    pub pilot: Option<String>,
    pub placed_ms: Option<u64>,
    pub started_ms: Option<u64>,
    pub ended_ms: u64,
}

impl HistoryReader {
    /// Ended attempts of a job, or of one task, in order of task and attempt. `after` is the task
    /// and attempt with which the last page ended.
    pub fn attempts(
        &self,
        job: u64,
        index: Option<u64>,
        after: Option<(u64, u64)>,
        limit: usize,
    ) -> Result<Vec<AttemptRow>, JournalError> {
        let mut sql = String::from("SELECT * FROM attempts WHERE job = ?");
        let mut values = vec![integer(job)];
        if let Some(index) = index {
            sql.push_str(" AND idx = ?");
            values.push(integer(index));
        }
        if let Some((index, attempt)) = after {
            sql.push_str(" AND (idx, attempt) > (?, ?)");
            values.extend([integer(index), integer(attempt)]);
        }
        sql.push_str(" ORDER BY idx, attempt LIMIT ?");
        values.push(integer(limit.min(MAX_PAGE) as u64));
        self.many(&sql, values, attempt_row)
    }

    /// Ended attempts of the tasks `first` to `last`, in order of task and attempt.
    pub fn attempts_between(
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

    /// The last attempt with this state, of the first task that has one.
    pub fn last_with(&self, job: u64, state: &str) -> Result<Option<AttemptRow>, JournalError> {
        let sql = "SELECT * FROM attempts WHERE job = ?1 AND state = ?2 AND idx =
                       (SELECT idx FROM attempts WHERE job = ?1 AND state = ?2
                        ORDER BY idx LIMIT 1)
                   ORDER BY attempt DESC LIMIT 1";
        let values = vec![integer(job), Value::from(state.to_owned())];
        Ok(self.many(sql, values, attempt_row)?.pop())
    }
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
    })
}
