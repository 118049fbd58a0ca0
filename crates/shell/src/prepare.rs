//! From a wish to a command: the id of a new job, and what history knows of jobs that have left
//! memory. The last look outside before the core decides.

use crate::{History, WriteError};
use shipway_core::command::{Command, NewJob, Select, Submit};
use shipway_core::decide::asked_by;
use shipway_core::job::JobRecord;
use shipway_core::rejection::TooMany;
use shipway_core::{Rejection, State};
use shipway_model::{Actor, After, Condition, JobId, JobSpec, JobState, Owned, UserName};

/// Bytes of records that one request brings back from history, as they are written and as they are
/// in memory. A job takes a few hundred; one with a long list of indices or a long requirement, a
/// few hundred thousand; and one of ten million tasks, however short it is written, four million.
const MAX_REVIVED_BYTES: usize = 32 << 20;

/// What somebody wants to happen.
#[derive(Debug)]
pub enum Wish {
    Submit(Box<Submission>),
    Cancel(Select),
    Retry(Select),
    Core(Command),
}

/// Jobs to be taken together.
#[derive(Debug)]
pub struct Submission {
    pub by: Actor,
    pub jobs: Vec<Member>,
    pub digest: u64,
    pub key: Option<String>,
    /// About how many bytes they are when they are written.
    pub size: usize,
}

/// One of them, that may wait for those before it: by their place, as none has a number yet.
#[derive(Debug)]
pub struct Member {
    pub spec: JobSpec,
    pub after: Vec<(usize, Condition)>,
}

impl Wish {
    /// Who wants it. `None`: the server itself, or a pilot.
    pub fn by(&self) -> Option<&UserName> {
        let by = match self {
            Wish::Submit(submission) => Some(&submission.by),
            Wish::Cancel(select) | Wish::Retry(select) => Some(&select.by),
            Wish::Core(command) => asked_by(command),
        };
        by.map(|by| &by.user)
    }
}

pub(crate) fn prepare(
    wish: Wish,
    state: &State,
    history: &impl History,
) -> Result<Command, WriteError> {
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
    history: &impl History,
) -> Result<Submit, WriteError> {
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
    history: &impl History,
) -> Result<Vec<(JobId, JobState)>, WriteError> {
    let mut known = Vec::new();
    // What has no number yet is in no history.
    let may_be_there = |job: JobId| job < state.next_job() && state.job(job).is_none();
    for after in spec.after.iter().filter(|after| may_be_there(after.job)) {
        let owner = history.owner(after.job).map_err(unread)?;
        if owner.is_some_and(|(owner, since)| by.may_touch(&Owned { owner: &owner, since })) {
            let state = history.last_state(after.job).map_err(unread)?;
            known.extend(state.as_deref().and_then(ended_state).map(|state| (after.job, state)));
        }
    }
    Ok(known)
}

/// What of the selection has left memory and is this person's.
fn from_history(
    select: &Select,
    state: &State,
    history: &impl History,
) -> Result<Vec<JobRecord>, WriteError> {
    let gone = select.jobs.iter().map(|(job, _)| *job).filter(|job| state.job(*job).is_none());
    let (mut records, mut bytes) = (Vec::new(), 0_usize);
    for job in gone {
        let Some(text) = history.last_record(job).map_err(unread)? else { continue };
        let record = serde_json::from_str::<JobRecord>(&text).ok();
        let Some(record) = record.filter(|found| select.by.may_touch(&found.owned())) else {
            continue;
        };
        bytes = bytes.saturating_add(text.len()).saturating_add(in_memory(&record));
        if bytes > MAX_REVIVED_BYTES {
            return Err(Rejection::TooMany(TooMany::Revived).into());
        }
        records.push(record);
    }
    Ok(records)
}

/// Nothing was decided, so nothing happened.
fn unread(error: impl std::error::Error) -> WriteError {
    WriteError::NotDurable(error.to_string())
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
