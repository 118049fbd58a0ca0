//! From a wish to a command: the id of a new job, and what history knows of jobs that have left
//! memory. The last look outside before the core decides.

use super::Wish;
use crate::journal::{HistoryReader, JournalError};
use shipway_core::command::{Command, Select, Submit};
use shipway_core::job::JobRecord;
use shipway_core::rejection::TooMany;
use shipway_core::{Rejection, State};
use shipway_model::{Actor, JobId, JobSpec, JobState};

/// Bytes of records that one request brings back from history. A job takes a few hundred; one with
/// a long list of indices or a long requirement, a few hundred thousand.
const MAX_REVIVED_BYTES: usize = 32 << 20;

/// Why there is no command.
#[derive(Debug)]
pub(super) enum Unprepared {
    Journal(JournalError),
    Refused(Rejection),
}

impl From<JournalError> for Unprepared {
    fn from(error: JournalError) -> Self {
        Unprepared::Journal(error)
    }
}

pub(super) fn prepare(
    wish: Wish,
    state: &State,
    history: &HistoryReader,
) -> Result<Command, Unprepared> {
    Ok(match wish {
        Wish::Submit { by, spec, digest, key, size: _ } => {
            let ended = ended_before(&by, &spec, state, history)?;
            let job = state.next_job();
            Command::Submit(Box::new(Submit { by, job, spec: *spec, key, digest, ended }))
        }
        Wish::Cancel(select) => Command::Cancel(select),
        Wish::Retry(select) => {
            let revived = from_history(&select, state, history)?;
            Command::Retry { select, revived }
        }
        Wish::Core(command) => command,
    })
}

/// How the jobs it waits for ended, as far as they have left memory and are this person's.
fn ended_before(
    by: &Actor,
    spec: &JobSpec,
    state: &State,
    history: &HistoryReader,
) -> Result<Vec<(JobId, JobState)>, JournalError> {
    let mut known = Vec::new();
    for after in spec.after.iter().filter(|after| state.job(after.job).is_none()) {
        let Some(record) = record(after.job, history)? else { continue };
        if by.may_touch(&record.owned()) {
            known.push((after.job, record.job.state()));
        }
    }
    Ok(known)
}

/// What of the selection has left memory and is this person's.
fn from_history(
    select: &Select,
    state: &State,
    history: &HistoryReader,
) -> Result<Vec<JobRecord>, Unprepared> {
    let gone = select.jobs.iter().map(|(job, _)| *job).filter(|job| state.job(*job).is_none());
    let (mut records, mut bytes) = (Vec::new(), 0_usize);
    for job in gone {
        let Some(end) = history.last_end(job.0)? else { continue };
        let record = serde_json::from_str::<JobRecord>(&end.record).ok();
        let Some(record) = record.filter(|found| select.by.may_touch(&found.owned())) else {
            continue;
        };
        bytes = bytes.saturating_add(end.record.len());
        if bytes > MAX_REVIVED_BYTES {
            return Err(Unprepared::Refused(Rejection::TooMany(TooMany::Revived)));
        }
        records.push(record);
    }
    Ok(records)
}

fn record(job: JobId, history: &HistoryReader) -> Result<Option<JobRecord>, JournalError> {
    let end = history.last_end(job.0)?;
    Ok(end.and_then(|end| serde_json::from_str(&end.record).ok()))
}
