//! Looking at jobs: a page of them, one, why it waits, and waiting for its end.

use super::Site;
use super::asking::Asked;
use super::caller::{Caller, CallerWith, Digits, Path};
use super::error::ApiError;
use super::large::large_json;
use crate::explained::LISTED_REASONS;
use crate::journal::{JobFilter, JobRow};
use crate::length::length;
use crate::views;
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use shipway_api::error::ErrorBody;
use shipway_api::routes;
use shipway_api::types::{JobPage, JobQuery, JobView, WaitQuery, Why};
use shipway_core::State as Core;
use shipway_core::explain::{explain, prospect};
use shipway_core::rejection::needs;
use shipway_model::limits::{DEFAULT_PAGE, MAX_PAGE};
use shipway_model::{Actor, JobId, May};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// A wait is answered after this long at most, so that proxies do not cut it; clients ask again.
const LONGEST_WAIT: u64 = 60;
/// Rows looked through for one page when a state is asked for: the state is not in the table.
const MOST_SCANNED: usize = 10_000;

/// Newest first.
#[utoipa::path(get, path = routes::JOBS, operation_id = "list_jobs",
    params(JobQuery),
    responses((status = 200, body = JobPage), (status = "4XX", body = ErrorBody)))]
pub async fn list(
    CallerWith(by, query): CallerWith<JobQuery>,
    State(site): State<Site>,
    Asked(asking): Asked,
) -> Result<Response, ApiError> {
    // What is being put together is in memory before it can be counted: one of each user's at once.
    let turn = asking.turn().await?;
    let page = page(&site, &by, &query).await?;
    asking.hold(page.jobs.iter().map(about_bytes).sum())?;
    drop(turn);
    large_json(&asking, page).await
}

/// About how much of an answer a job is.
fn about_bytes(job: &JobView) -> usize {
    /// Numbers and names of fields.
    const PLAIN: usize = 400;
    let labels = job.labels.iter().map(|(key, value)| key.len() + value.len() + 6);
    PLAIN + job.name.len() + labels.sum::<usize>() + length(&job.reasons)
}

async fn page(site: &Site, by: &Actor, query: &JobQuery) -> Result<JobPage, ApiError> {
    let limit = query.limit.unwrap_or(DEFAULT_PAGE).clamp(1, MAX_PAGE);
    let mut filter = filter(by, query)?;
    let mut jobs: Vec<JobView> = Vec::new();
    let mut scanned = 0;
    loop {
        // One more than asked for tells whether another page follows.
        let rows = views::rows(site, &filter, limit + 1).await?;
        let full = rows.len() > limit;
        let rows: Vec<JobRow> = rows.iter().take(limit).cloned().collect();
        scanned += rows.len();
        filter.before = rows.last().map(|row| row.job).or(filter.before);
        let views = views::jobs(site, rows, LISTED_REASONS).await?;
        jobs.extend(views.into_iter().filter(|job| query.state.is_none_or(|s| s == job.state)));
        if jobs.len() >= limit || !full || scanned >= MOST_SCANNED {
            let more = full || jobs.len() > limit;
            jobs.truncate(limit);
            let last = jobs.last().map(|job| job.id);
            let next = last.or(filter.before.map(JobId)).filter(|_| more);
            return Ok(JobPage { jobs, next });
        }
    }
}

fn filter(by: &Actor, query: &JobQuery) -> Result<JobFilter, ApiError> {
    let own = Some(by.user.to_string());
    let owner = match query.owner.as_deref() {
        None => own,
        Some(user) if user == by.user.as_str() => own,
        Some(user) => {
            needs(by, May::TouchAllJobs)?;
            (user != "*").then(|| user.to_string())
        }
    };
    let labels = query.label.as_deref().map(views::parse_labels).transpose()?.unwrap_or_default();
    // Whoever sees the jobs of others sees what was of earlier holders of a name too.
    let since = if by.may(May::TouchAllJobs) { 0 } else { by.since.0 };
    Ok(JobFilter {
        owner,
        since,
        name: query.name.clone(),
        labels: labels.into_iter().collect(),
        before: query.before,
    })
}

/// One job with its specification.
#[utoipa::path(get, path = routes::JOB, params(("job" = u64, Path)),
    responses((status = 200, body = JobView), (status = "4XX", body = ErrorBody)))]
pub async fn show(
    caller: Caller,
    State(site): State<Site>,
    Asked(asking): Asked,
    Path(Digits(job)): Path<Digits<JobId>>,
) -> Result<Response, ApiError> {
    let row = views::row(&site, &caller.0, job).await?;
    asking.hold(usize::try_from(row.spec_bytes).unwrap_or(usize::MAX))?;
    let mut view = views::job_of(&site, row).await?;
    view.spec = Some(Box::new(views::spec(&site, job).await?.as_ref().clone()));
    view.event_log_problem = site.event_logs.problem(job);
    large_json(&asking, view).await
}

/// Answers when the job has ended, or after `seconds` with the job as it is.
#[utoipa::path(get, path = routes::JOB_WAIT, params(("job" = u64, Path), WaitQuery),
    responses((status = 200, body = JobView), (status = "4XX", body = ErrorBody)))]
pub async fn wait(
    CallerWith(by, query): CallerWith<WaitQuery>,
    State(site): State<Site>,
    Path(Digits(job)): Path<Digits<JobId>>,
) -> Result<Json<JobView>, ApiError> {
    let row = views::row(&site, &by, job).await?;
    let seconds = query.seconds.unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT);
    let waiter = site.live.waiter(job);
    let view = wait_for_end(&site, row, &waiter, Duration::from_secs(seconds)).await;
    site.live.release(job, waiter);
    view.map(Json)
}

async fn wait_for_end(
    site: &Site,
    row: JobRow,
    waiter: &Notify,
    longest: Duration,
) -> Result<JobView, ApiError> {
    // Registered before the state is asked for, so that an end in between is not missed.
    let woken = waiter.notified();
    tokio::pin!(woken);
    woken.as_mut().enable();
    let view = views::job_of(site, row.clone()).await?;
    if view.state.is_over() {
        return Ok(view);
    }
    let _ = tokio::time::timeout(longest, woken).await;
    views::job_of(site, row).await
}

/// Every reason why it does not run.
#[utoipa::path(get, path = routes::JOB_WHY, params(("job" = u64, Path)),
    responses((status = 200, body = Why), (status = "4XX", body = ErrorBody)))]
pub async fn why(
    caller: Caller,
    State(site): State<Site>,
    Asked(asking): Asked,
    Path(Digits(id)): Path<Digits<JobId>>,
) -> Result<Json<Why>, ApiError> {
    let view = views::job(&site, &caller.0, id).await?;
    if view.counts.waiting == 0 {
        let (state, reasons, prospect) = (view.state, Vec::new(), None);
        return Ok(Json(Why { job: id, state, reasons, prospect }));
    }
    let now = site.clock.now();
    let sites = Arc::clone(&site.sites);
    let look = move |state: &Core| {
        let mut reasons = explain(state, id, now);
        sites.say_starts(state, &mut reasons);
        (reasons, prospect(state, id, now))
    };
    let (reasons, prospect) = asking.try_out(&site.writer, look).await?;
    Ok(Json(Why { job: id, state: view.state, reasons, prospect }))
}
