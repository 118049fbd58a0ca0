//! What people see of jobs and tasks, put together from the state (what lives) and from history
//! (what was submitted, and what has ended).
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]
#![cfg_attr(
    test,
    allow(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        reason = "a test that fails is to say so"
    )
)]

use crate::http::Site;
use crate::http::error::ApiError;
use crate::journal::{AttemptRow, JobRow};
use shipway_api::types::{AttemptView, JobView};
use shipway_core::State;
use shipway_core::explain::Explainer;
use shipway_core::job::{Job, JobRecord};
use shipway_model::{
    Actor, Attempt, IndexSet, JobCounts, JobId, JobSpec, JobState, Ordinal, Outcome, Owned, Reason,
    TaskIndex, Timestamp, UserName,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Jobs that are explained in one question to the writer: others have theirs in between.
const AT_ONCE: usize = 100;

/// The part of a job that changes.
struct Now {
    state: JobState,
    counts: JobCounts,
    ended: Option<Timestamp>,
    is_array: bool,
    last_attempt: Option<Attempt>,
    reasons: Vec<Reason>,
}

pub fn parse_labels(text: &str) -> Result<BTreeMap<String, String>, ApiError> {
    let bad = |part: &str| ApiError::bad_request(format!("`{part}` is not a label (KEY=VALUE)"));
    let pair = |part: &str| match part.split_once('=') {
        Some((key, value)) => Ok((key.to_string(), value.to_string())),
        None => Err(bad(part)),
    };
    text.split(',').map(pair).collect()
}

pub async fn spec(site: &Site, job: JobId) -> Result<Arc<JobSpec>, ApiError> {
    let specs = Arc::clone(&site.specs);
    let read = tokio::task::spawn_blocking(move || specs.get(job));
    let spec = read.await.map_err(|_| ApiError::internal("a question to history was cut off"))?;
    let spec = spec.map(|described| described.spec);
    spec.map_err(|error| ApiError::internal_because("the specification cannot be read", &error))
}

/// One job, if it exists for this person.
pub async fn job(site: &Site, by: &Actor, id: JobId) -> Result<JobView, ApiError> {
    job_of(site, row(site, by, id).await?).await
}

/// What of a job never changes, if it exists for this person.
pub async fn row(site: &Site, by: &Actor, id: JobId) -> Result<JobRow, ApiError> {
    let row = site.readers.read(move |history| history.job(id.0)).await?;
    row.filter(|row| may_touch(by, row)).ok_or_else(|| ApiError::no_such_job(id))
}

pub fn may_touch(by: &Actor, row: &JobRow) -> bool {
    let since = JobId(row.since);
    UserName::new(&row.owner).is_ok_and(|owner| by.may_touch(&Owned { owner: &owner, since }))
}

/// The job of a row, as it is now.
pub async fn job_of(site: &Site, row: JobRow) -> Result<JobView, ApiError> {
    let id = JobId(row.job);
    jobs(site, vec![row]).await?.pop().ok_or_else(|| ApiError::no_such_job(id))
}

pub async fn jobs(site: &Site, rows: Vec<JobRow>) -> Result<Vec<JobView>, ApiError> {
    let mut now = HashMap::new();
    for part in rows.chunks(AT_ONCE) {
        now.extend(now_of(site, part).await?);
    }
    let gone: Vec<u64> =
        rows.iter().map(|row| row.job).filter(|job| !now.contains_key(&JobId(*job))).collect();
    if !gone.is_empty() {
        let ended = site.readers.read(move |history| {
            gone.into_iter().map(|job| history.last_end(job)).collect::<Result<Vec<_>, _>>()
        });
        for end in ended.await?.into_iter().flatten() {
            if let Ok(record) = serde_json::from_str::<JobRecord>(&end.record) {
                now.insert(JobId(end.job), now_in_history(&record));
            }
        }
    }
    let mut views: Vec<JobView> = rows.into_iter().filter_map(|row| view(row, &mut now)).collect();
    add_outcomes(site, &mut views).await?;
    Ok(views)
}

/// What is in memory of a few jobs.
async fn now_of(site: &Site, rows: &[JobRow]) -> Result<HashMap<JobId, Now>, ApiError> {
    let ids: Vec<JobId> = rows.iter().map(|row| JobId(row.job)).collect();
    let at = site.clock.now();
    let one = ids.len() == 1;
    let look = move |state: &State| -> HashMap<JobId, Now> {
        let mut why = Explainer::new(state, at);
        ids.iter().filter_map(|id| Some((*id, now_in_memory(state, *id, &mut why)?))).collect()
    };
    Ok(if one { site.writer.glance(look).await? } else { site.writer.ask(look).await? })
}

fn now_in_memory(state: &State, id: JobId, why: &mut Explainer<'_>) -> Option<Now> {
    let job = state.job(id)?;
    Some(Now {
        state: job.state(),
        counts: job.tasks.counts(),
        ended: job.ended,
        is_array: job.indices != IndexSet::single(),
        last_attempt: last_attempt(job),
        reasons: why.reasons(id),
    })
}

fn now_in_history(record: &JobRecord) -> Now {
    Now {
        state: record.job.state(),
        counts: record.job.tasks.counts(),
        ended: record.job.ended,
        is_array: record.job.indices != IndexSet::single(),
        last_attempt: last_attempt(&record.job),
        reasons: Vec::new(),
    }
}

/// Of a job with one task that is over.
fn last_attempt(job: &Job) -> Option<Attempt> {
    let known = job.ended.is_some() && job.indices == IndexSet::single();
    known.then(|| Attempt(job.tasks.next_attempt(Ordinal(0)).0.saturating_sub(1)))
}

fn view(row: JobRow, now: &mut HashMap<JobId, Now>) -> Option<JobView> {
    let now = now.remove(&JobId(row.job))?;
    Some(JobView {
        id: JobId(row.job),
        owner: UserName::new(&row.owner).ok()?,
        name: row.name,
        labels: serde_json::from_str(&row.labels).unwrap_or_default(),
        state: now.state,
        counts: now.counts,
        tasks: u32::try_from(row.tasks).unwrap_or(u32::MAX),
        is_array: now.is_array,
        priority: i32::try_from(row.priority).unwrap_or(0),
        submitted: Timestamp(row.submitted_ms),
        ended: now.ended,
        outcome: None,
        last_attempt: now.last_attempt,
        reasons: now.reasons,
        event_log_problem: None,
        spec: None,
    })
}

/// How ended jobs ended: their one task, or the first of many that failed.
async fn add_outcomes(site: &Site, views: &mut [JobView]) -> Result<(), ApiError> {
    let unhappy = |view: &&JobView| view.state.is_over() && view.state != JobState::Succeeded;
    let wanted: Vec<_> =
        views.iter().filter(unhappy).map(|view| (view.id.0, view.state.to_string())).collect();
    let mut found: HashMap<u64, Outcome> = HashMap::new();
    if !wanted.is_empty() {
        let rows = site.readers.read(move |history| {
            wanted
                .iter()
                .map(|(job, state)| history.last_with(*job, state))
                .collect::<Result<Vec<_>, _>>()
        });
        for row in rows.await?.into_iter().flatten() {
            found.extend(serde_json::from_str(&row.outcome).ok().map(|outcome| (row.job, outcome)));
        }
    }
    for view in views.iter_mut() {
        view.outcome = match view.state {
            JobState::Succeeded => Some(Outcome::Exit { code: 0 }),
            // A job can be cancelled before anything of it ran.
            JobState::Cancelled => found.remove(&view.id.0).or(Some(Outcome::Cancelled)),
            JobState::Failed => found.remove(&view.id.0),
            JobState::Held | JobState::Waiting | JobState::Running => None,
        };
    }
    Ok(())
}

pub fn attempt(row: &AttemptRow) -> Option<AttemptView> {
    Some(AttemptView {
        attempt: Attempt(u32::try_from(row.attempt).ok()?),
        outcome: serde_json::from_str(&row.outcome).ok()?,
        node: row.node.clone().unwrap_or_default(),
        started: row.started_ms.map(Timestamp),
        ended: Timestamp(row.ended_ms),
    })
}

pub fn index_of(row: &AttemptRow) -> TaskIndex {
    TaskIndex(row.index)
}
