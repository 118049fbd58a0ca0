//! Cancelling and retrying: a selection of jobs and tasks, resolved to names; the core decides.

use super::Site;
use super::body::Body;
use super::caller::Caller;
use super::error::ApiError;
use crate::journal::JobFilter;
use crate::writer::Wish;
use axum::Json;
use axum::extract::State;
use shipway_api::error::ErrorBody;
use shipway_api::types::{Acted, Selection};
use shipway_core::command::{Pick, Select};
use shipway_model::{Actor, JobId, TaskIndex, TaskState};
use std::collections::BTreeMap;

/// Cancels what waits and stops what runs.
#[utoipa::path(post, path = "/api/v1/cancel", request_body = Selection,
    responses((status = 200, body = Acted), (status = "4XX", body = ErrorBody)))]
pub async fn cancel(
    caller: Caller,
    State(site): State<Site>,
    Body(selection): Body<Selection>,
) -> Result<Json<Acted>, ApiError> {
    let over = |state: TaskState| state.is_over();
    let jobs = resolve(&site, &caller.0, selection, over).await?;
    let named = jobs.iter().map(|(job, _)| *job).collect();
    act(&site, named, Wish::Cancel(Select { by: caller.0, jobs })).await
}

/// Runs failed and cancelled tasks again, as new attempts.
#[utoipa::path(post, path = "/api/v1/retry", request_body = Selection,
    responses((status = 200, body = Acted), (status = "4XX", body = ErrorBody)))]
pub async fn retry(
    caller: Caller,
    State(site): State<Site>,
    Body(selection): Body<Selection>,
) -> Result<Json<Acted>, ApiError> {
    let cannot = |state| !matches!(state, TaskState::Failed | TaskState::Cancelled);
    let jobs = resolve(&site, &caller.0, selection, cannot).await?;
    let named = jobs.iter().map(|(job, _)| *job).collect();
    act(&site, named, Wish::Retry(Select { by: caller.0, jobs })).await
}

async fn act(site: &Site, jobs: Vec<JobId>, wish: Wish) -> Result<Json<Acted>, ApiError> {
    let done = site.writer.wish(wish).await?;
    Ok(Json(Acted { jobs, tasks: done.tasks }))
}

/// From what a person wrote to jobs and picks. Labels are looked up in history, which knows all
/// jobs; with neither jobs nor tasks named, labels choose among one's own.
async fn resolve(
    site: &Site,
    by: &Actor,
    selection: Selection,
    useless: impl Fn(TaskState) -> bool,
) -> Result<Vec<(JobId, Pick)>, ApiError> {
    if let Some(state) = selection.state.filter(|state| useless(*state)) {
        return Err(ApiError::bad_request(format!(
            "nothing can be done to tasks that are {state}"
        )));
    }
    let named_tasks = !selection.tasks.is_empty();
    if named_tasks && (selection.state.is_some() || !selection.labels.is_empty()) {
        return Err(ApiError::bad_request("tasks are named; a state or label says nothing more"));
    }
    let mut tasks: BTreeMap<JobId, Vec<TaskIndex>> = BTreeMap::new();
    for task in selection.tasks {
        tasks.entry(task.job).or_default().push(task.index);
    }
    let mut jobs: Vec<(JobId, Pick)> =
        tasks.into_iter().map(|(job, indices)| (job, Pick::Tasks(indices))).collect();
    let pick = selection.state.map_or(Pick::All, Pick::State);
    jobs.extend(selection.jobs.into_iter().map(|job| (job, pick.clone())));
    if jobs.is_empty() {
        if selection.labels.is_empty() {
            let message = "nothing is selected";
            return Err(ApiError::bad_request(message).hint("name jobs, tasks or labels"));
        }
        let owner = Some(by.user.to_string());
        let labels = selection.labels.into_iter().collect();
        let since = by.since.0;
        let filter = JobFilter { owner, since, labels, ..JobFilter::default() };
        let found = site.readers.read(move |history| history.job_ids(&filter)).await?;
        jobs.extend(found.into_iter().map(|job| (JobId(job), pick.clone())));
        jobs = still_useful(site, jobs).await?;
    } else if !selection.labels.is_empty() {
        return Err(ApiError::bad_request("jobs are named; a label says nothing more"));
    }
    if jobs.is_empty() {
        return Err(ApiError::bad_request("no job matches the selection"));
    }
    jobs.sort_by_key(|(job, _)| *job);
    jobs.dedup();
    Ok(jobs)
}

/// A selection by label may find thousands of jobs that ended long ago; only those in memory can
/// have something to cancel, and they are what people mean.
async fn still_useful(
    site: &Site,
    jobs: Vec<(JobId, Pick)>,
) -> Result<Vec<(JobId, Pick)>, ApiError> {
    let known = site.writer.ask(move |state| {
        jobs.iter().filter(|(job, _)| state.job(*job).is_some()).cloned().collect()
    });
    Ok(known.await?)
}
