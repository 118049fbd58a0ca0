//! What people see of jobs and tasks, put together from the state (what lives) and from history
//! (what was submitted, and what has ended).
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

use crate::explained::LISTED_REASONS;
use crate::http::Site;
use crate::http::error::ApiError;
use crate::http::shelf::{bytes_of_attempt, bytes_of_job};
use crate::journal::{AttemptRow, JobFilter, JobRow};
use crate::published::{Board, JobNow, Stamp};
use shipway_api::types::{AttemptView, JobView};
use shipway_core::State;
use shipway_core::explain::Explainer;
use shipway_core::job::JobRecord;
use shipway_model::{
    Actor, Advice, Attempt, JobId, JobSpec, JobState, Outcome, Owned, Reason, TaskIndex, Timestamp,
    UserName,
};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One question to the writer, about several jobs, ends after this long and goes on in another one:
/// others have theirs in between. At least one job is explained in each.
const AT_ONCE: Duration = Duration::from_millis(5);

/// The part of a job that changes, and why it waits.
struct Now {
    job: JobNow,
    reasons: Vec<Reason>,
    /// Of its owner, when it was looked at; `None` for one that has left memory.
    stamp: Option<Stamp>,
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
    if let Some(kept) = site.specs.recent(job) {
        return Ok(kept.spec);
    }
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
    let row = any_row(site, id).await?.filter(|row| may_touch(by, row));
    row.map(Arc::unwrap_or_clone).ok_or_else(|| ApiError::no_such_job(id))
}

async fn any_row(site: &Site, id: JobId) -> Result<Option<Arc<JobRow>>, ApiError> {
    let (kept, stamp) = (&site.readers.shelves.jobs, site.writer.look(Board::stamp_of_all).await?);
    if let Some(row) = kept.find(&id, stamp) {
        return Ok(Some(row));
    }
    let row = site.readers.read(move |history| history.job(id.0)).await?.map(Arc::new);
    if let Some(row) = &row {
        kept.keep(id, stamp, Arc::clone(row), bytes_of_job(row));
    }
    Ok(row)
}

/// A page of jobs, newest first.
pub async fn rows(
    site: &Site,
    filter: &JobFilter,
    limit: usize,
) -> Result<Arc<[JobRow]>, ApiError> {
    let owner = filter.owner.as_ref().and_then(|owner| UserName::new(owner).ok());
    let stamp = match owner {
        Some(owner) => Some(site.writer.look(|board| board.stamp(&owner)).await?),
        // Somebody or other has another job all the time.
        None => None,
    };
    let (kept, key) = (&site.readers.shelves.pages, (filter.clone(), limit));
    if let Some(rows) = stamp.and_then(|stamp| kept.find(&key, stamp)) {
        return Ok(rows);
    }
    let page = filter.clone();
    let rows = site.readers.read(move |history| history.jobs(&page, limit)).await?;
    let rows: Arc<[JobRow]> = rows.into();
    if let Some(stamp) = stamp {
        let bytes = rows.iter().map(bytes_of_job).sum();
        kept.keep(key, stamp, Arc::clone(&rows), bytes);
    }
    Ok(rows)
}

pub fn may_touch(by: &Actor, row: &JobRow) -> bool {
    let since = JobId(row.since);
    UserName::new(&row.owner).is_ok_and(|owner| by.may_touch(&Owned { owner: &owner, since }))
}

/// The job of a row, as it is now.
pub async fn job_of(site: &Site, row: JobRow) -> Result<JobView, ApiError> {
    let id = JobId(row.job);
    jobs(site, vec![row], usize::MAX).await?.pop().ok_or_else(|| ApiError::no_such_job(id))
}

/// With this many reasons of each at most.
pub async fn jobs(
    site: &Site,
    rows: Vec<JobRow>,
    reasons: usize,
) -> Result<Vec<JobView>, ApiError> {
    let mut now = in_memory(site, &rows, reasons).await?;
    let gone: Vec<u64> =
        rows.iter().map(|row| row.job).filter(|job| !now.contains_key(&JobId(*job))).collect();
    if !gone.is_empty() {
        // One record after the other: that of a large array may be megabytes.
        let ended = site.readers.read(move |history| {
            let mut found = Vec::new();
            for job in gone {
                let end = history.last_end(job)?;
                let record = end.and_then(|end| serde_json::from_str(&end.record).ok());
                found.extend(record.map(|JobRecord { id, job, .. }| (id, JobNow::of(&job))));
            }
            Ok(found)
        });
        let ended = ended.await?.into_iter();
        now.extend(ended.map(|(id, job)| (id, Now { job, reasons: Vec::new(), stamp: None })));
    }
    let stamps = now.iter().filter_map(|(id, now)| Some((*id, now.stamp?))).collect();
    let mut views: Vec<JobView> = rows.into_iter().filter_map(|row| view(row, &mut now)).collect();
    add_outcomes(site, &mut views, &stamps).await?;
    Ok(views)
}

/// What is in memory of these jobs. The writer is asked only why some of them wait, where that is
/// not known already.
async fn in_memory(
    site: &Site,
    rows: &[JobRow],
    most: usize,
) -> Result<HashMap<JobId, Now>, ApiError> {
    let found: Vec<(JobId, JobNow, Stamp)> = site
        .writer
        .look(|board| {
            let seen = rows.iter().filter_map(|row| {
                let owner = UserName::new(&row.owner).ok()?;
                let job = board.job(JobId(row.job), tasks_of(row))?;
                Some((JobId(row.job), job, board.stamp(&owner)))
            });
            seen.collect()
        })
        .await?;
    let at = site.clock.now();
    let (mut now, mut unknown) = (HashMap::new(), HashMap::new());
    for (id, job, stamp) in found {
        let known = match job.counts.waiting {
            0 => Some(Vec::new()),
            _ => site.explained.find(id, stamp, at, most),
        };
        if known.is_none() {
            unknown.insert(id, stamp);
        }
        let reasons = known.unwrap_or_default();
        now.insert(id, Now { job, reasons, stamp: Some(stamp) });
    }
    let mut rest: VecDeque<JobId> = unknown.keys().copied().collect();
    while !rest.is_empty() {
        let (found, left) = why(site, (rest, most), at).await?;
        for (id, mut reasons) in found {
            let stamp = unknown.get(&id).copied();
            stamp.inspect(|stamp| site.explained.keep(id, *stamp, at, &reasons));
            reasons.truncate(most);
            now.entry(id).and_modify(|now| now.reasons = reasons);
        }
        rest = left;
    }
    Ok(now)
}

type Found = (Vec<(JobId, Vec<Reason>)>, VecDeque<JobId>);

/// Why the first of these jobs wait, and those that are to be asked about next.
async fn why(
    site: &Site,
    (ids, most): (VecDeque<JobId>, usize),
    at: Timestamp,
) -> Result<Found, ApiError> {
    let one = ids.len() == 1;
    // One more than is kept tells that there are more.
    let most = most.max(LISTED_REASONS + 1);
    let sites = Arc::clone(&site.sites);
    let look = move |state: &State| {
        let began = Instant::now();
        let mut found = some_of((&ids, most), || began.elapsed() >= AT_ONCE, state, at);
        // In a list only what is known at once.
        if let (true, [(_, reasons)]) = (one, &mut found.0[..]) {
            sites.say_starts(state, reasons);
        }
        found
    };
    Ok(if one { site.writer.glance(look).await? } else { site.writer.ask(look).await? })
}

fn some_of(
    (ids, most): (&VecDeque<JobId>, usize),
    is_enough: impl Fn() -> bool,
    state: &State,
    at: Timestamp,
) -> Found {
    let mut why = Explainer::new(state, at);
    let mut found = Vec::new();
    let mut rest = ids.iter().copied();
    for id in rest.by_ref() {
        let reasons = why.reasons(id).into_iter().take(most).map(Reason::brief);
        found.push((id, reasons.collect()));
        if is_enough() {
            break;
        }
    }
    (found, rest.collect())
}

fn tasks_of(row: &JobRow) -> u32 {
    u32::try_from(row.tasks).unwrap_or(u32::MAX)
}

fn view(row: JobRow, now: &mut HashMap<JobId, Now>) -> Option<JobView> {
    let Now { job: now, reasons, .. } = now.remove(&JobId(row.job))?;
    let tasks = tasks_of(&row);
    Some(JobView {
        id: JobId(row.job),
        owner: UserName::new(&row.owner).ok()?,
        name: row.name,
        labels: serde_json::from_str(&row.labels).unwrap_or_default(),
        state: now.state(),
        counts: now.counts,
        tasks,
        is_array: now.is_array,
        priority: i32::try_from(row.priority).unwrap_or(0),
        submitted: Timestamp(row.submitted_ms),
        ended: now.ended,
        outcome: None,
        last_attempt: now.last_attempt,
        reasons,
        event_log_problem: None,
        spec: None,
    })
}

/// How ended jobs ended: their one task, or the first of many that failed.
async fn add_outcomes(
    site: &Site,
    views: &mut [JobView],
    stamps: &HashMap<JobId, Stamp>,
) -> Result<(), ApiError> {
    let kept = &site.readers.shelves.outcomes;
    let unhappy = |view: &&JobView| view.state.is_over() && view.state != JobState::Succeeded;
    let (mut found, mut wanted) = (HashMap::new(), Vec::new());
    for view in views.iter().filter(unhappy) {
        match stamps.get(&view.id).and_then(|stamp| kept.find(&view.id, *stamp)) {
            Some(outcome) => drop(found.insert(view.id.0, outcome)),
            None => wanted.push((view.id.0, view.state.to_string())),
        }
    }
    if !wanted.is_empty() {
        let rows = site.readers.read(move |history| {
            wanted
                .iter()
                .map(|(job, state)| history.last_with(*job, state))
                .collect::<Result<Vec<_>, _>>()
        });
        for row in rows.await?.into_iter().flatten() {
            let Ok(outcome) = serde_json::from_str::<Outcome>(&row.outcome) else { continue };
            if let Some(stamp) = stamps.get(&JobId(row.job)) {
                kept.keep(JobId(row.job), *stamp, outcome.clone(), bytes_of_attempt(&row));
            }
            found.insert(row.job, outcome);
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
        usage: row.usage.as_deref().cloned(),
        advice: row.advice.as_ref().and_then(|advice| {
            let advice: Advice = serde_json::from_str(advice).ok()?;
            Some(advice.into())
        }),
    })
}

pub fn index_of(row: &AttemptRow) -> TaskIndex {
    TaskIndex(row.index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_question_about_many_jobs_lets_others_in_between() {
        let all: VecDeque<JobId> = (1..=250).map(JobId).collect();
        let (state, at) = (State::default(), Timestamp(1));
        let looked = Cell::new(0);
        let is_enough = || {
            looked.set(looked.get() + 1);
            looked.get() % 100 == 0
        };
        let (mut rest, mut questions) = (all, 0);
        while !rest.is_empty() {
            (_, rest) = some_of((&rest, 1), is_enough, &state, at);
            questions += 1;
        }
        assert_eq!((questions, looked.get()), (3, 250), "each job once");
        let (_, rest) = some_of((&[JobId(1), JobId(2)].into(), 1), || true, &state, at);
        assert_eq!(rest, [JobId(2)], "one at least");
    }
}
