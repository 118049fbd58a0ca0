//! From a wish to a command: the id of a new job, and what history knows of jobs that have left
//! memory. The last look outside before the core decides.

use super::{Member, Submission, Wish};
use crate::journal::{HistoryReader, JournalError};
use crate::views::may_touch;
use shipway_core::command::{Command, NewJob, Select, Submit};
use shipway_core::job::JobRecord;
use shipway_core::rejection::TooMany;
use shipway_core::{Rejection, State};
use shipway_model::{Actor, After, JobId, JobSpec, JobState};

/// Bytes of records that one request brings back from history, as they are written and as they are
/// in memory. A job takes a few hundred; one with a long list of indices or a long requirement, a
/// few hundred thousand; and one of ten million tasks, however short it is written, four million.
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
        Wish::Submit(submission) => Command::Submit(numbered(*submission, state, history)?.into()),
        Wish::Cancel(select) => Command::Cancel(select),
        Wish::Retry(select) => {
            let revived = from_history(&select, state, history)?;
            Command::Retry { select, revived }
        }
        Wish::Core(command) => command,
    })
}

/// Ids follow each other, so that a job can name those it came with.
fn numbered(
    submission: Submission,
    state: &State,
    history: &HistoryReader,
) -> Result<Submit, JournalError> {
    let Submission { by, jobs: members, digest, key, size: _ } = submission;
    let number = |at: usize| JobId(state.next_job().0.saturating_add(at as u64));
    let mut jobs = Vec::with_capacity(members.len());
    for (at, Member { mut spec, after }) in members.into_iter().enumerate() {
        let ended = ended_before(&by, &spec, state, history)?;
        let of_these = after.into_iter().map(|(at, condition)| (number(at), condition));
        spec.after.extend(of_these.map(|(job, condition)| After { job, condition }));
        jobs.push(NewJob { ended, ..NewJob::new(number(at), spec) });
    }
    Ok(Submit { by, key, digest, jobs })
}

/// How the jobs it waits for ended, as far as they have left memory and are this person's. There
/// may be a thousand of ten million tasks each, so their records are not looked at.
fn ended_before(
    by: &Actor,
    spec: &JobSpec,
    state: &State,
    history: &HistoryReader,
) -> Result<Vec<(JobId, JobState)>, JournalError> {
    let mut known = Vec::new();
    for after in spec.after.iter().filter(|after| state.job(after.job).is_none()) {
        let row = history.job(after.job.0)?.filter(|row| may_touch(by, row));
        let state = row.map(|_| history.last_state(after.job.0)).transpose()?.flatten();
        known.extend(state.as_deref().and_then(ended_state).map(|state| (after.job, state)));
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
        bytes = bytes.saturating_add(end.record.len()).saturating_add(in_memory(&record));
        if bytes > MAX_REVIVED_BYTES {
            return Err(Unprepared::Refused(Rejection::TooMany(TooMany::Revived)));
        }
        records.push(record);
    }
    Ok(records)
}

/// Bytes of the marks of its tasks: three bits each, and some for what is remembered of a few.
fn in_memory(record: &JobRecord) -> usize {
    record.job.tasks.len() as usize / 2
}

fn ended_state(text: &str) -> Option<JobState> {
    [JobState::Succeeded, JobState::Failed, JobState::Cancelled]
        .into_iter()
        .find(|state| state.to_string() == text)
}
