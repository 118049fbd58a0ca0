//! From a wish to a command: the id of a new job, and what history knows of jobs that have left
//! memory. The last look outside before the core decides.

use super::Wish;
use crate::journal::{HistoryReader, JournalError};
use shipway_core::State;
use shipway_core::command::{Command, Select, Submit};
use shipway_core::job::JobRecord;
use shipway_model::{Actor, JobId, JobSpec, JobState};

pub(super) fn prepare(
    wish: Wish,
    state: &State,
    history: &HistoryReader,
) -> Result<Command, JournalError> {
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

fn from_history(
    select: &Select,
    state: &State,
    history: &HistoryReader,
) -> Result<Vec<JobRecord>, JournalError> {
    let gone = select.jobs.iter().map(|(job, _)| *job).filter(|job| state.job(*job).is_none());
    let mut records = Vec::new();
    for job in gone {
        records.extend(record(job, history)?);
    }
    Ok(records)
}

fn record(job: JobId, history: &HistoryReader) -> Result<Option<JobRecord>, JournalError> {
    let end = history.last_end(job.0)?;
    Ok(end.and_then(|end| serde_json::from_str(&end.record).ok()))
}
