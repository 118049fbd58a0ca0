//! How one attempt went over time. Its sums are on the task (`tasks.rs`).

use super::Site;
use super::caller::{CallerWith, Digits, Path};
use super::error::ApiError;
use crate::views;
use axum::Json;
use axum::extract::State;
use shipway_api::error::ErrorBody;
use shipway_api::routes;
use shipway_api::types::{SeriesQuery, SeriesView};
use shipway_core::Rejection;
use shipway_model::{Attempt, JobId, Series, TaskIndex};
use std::sync::Arc;

/// Without points where nothing is known: of what has not run, ran for a moment, or long ago.
#[utoipa::path(get, path = routes::TASK_USAGE, operation_id = "read_usage",
    params(("job" = u64, Path), ("index" = u64, Path), SeriesQuery),
    responses((status = 200, body = SeriesView), (status = "4XX", body = ErrorBody)))]
pub async fn series(
    CallerWith(by, query): CallerWith<SeriesQuery>,
    State(site): State<Site>,
    Path((Digits(job), Digits(index))): Path<(Digits<JobId>, Digits<TaskIndex>)>,
) -> Result<Json<SeriesView>, ApiError> {
    let task = job.task(index);
    views::row(&site, &by, job).await?;
    let indices = views::spec(&site, job).await?.indices();
    if indices.is_none_or(|indices| indices.ordinal(index).is_none()) {
        return Err(Rejection::NoSuchTask(task).into());
    }
    let (store, attempt) = (Arc::clone(&site.series), query.attempt.map(Attempt));
    // In a turn of whoever asks, like every question to the disk.
    let found = site.readers.read(move |_| Ok(store.get(task, attempt))).await?;
    let found = found.map(|found| SeriesView::of(found.id.attempt, &found.series));
    let none = || SeriesView::of(attempt.unwrap_or(Attempt(0)), &Series::default());
    Ok(Json(found.unwrap_or_else(none)))
}
