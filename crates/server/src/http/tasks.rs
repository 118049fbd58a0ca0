//! The tasks of a job, page by page, each with its attempts.

use super::Site;
use super::caller::{CallerWith, Digits, Path};
use super::error::ApiError;
use crate::journal::AttemptRow;
use crate::views;
use axum::Json;
use axum::extract::State;
use shipway_api::error::ErrorBody;
use shipway_api::types::{TaskPage, TaskQuery, TaskView};
use shipway_core::job::{Job, JobRecord};
use shipway_core::pilot::Active;
use shipway_model::limits::{DEFAULT_PAGE, MAX_PAGE};
use shipway_model::{Attempt, JobId, NodeName, Ordinal, TaskId, TaskState};

/// In the order of the array.
#[utoipa::path(get, path = "/api/v1/jobs/{job}/tasks", operation_id = "list_tasks",
    params(("job" = u64, Path), TaskQuery),
    responses((status = 200, body = TaskPage), (status = "4XX", body = ErrorBody)))]
pub async fn list(
    CallerWith(by, query): CallerWith<TaskQuery>,
    State(site): State<Site>,
    Path(Digits(id)): Path<Digits<JobId>>,
) -> Result<Json<TaskPage>, ApiError> {
    views::job(&site, &by, id).await?;
    let limit = query.limit.unwrap_or(DEFAULT_PAGE).clamp(1, MAX_PAGE);
    let live = site.writer.ask(move |state| {
        let job = state.job(id)?;
        let active = |task| {
            state.active().get(&task).map(|active| {
                let node = state.pilots().get(&active.pilot).map(|pilot| pilot.ad.node.clone());
                (active.clone(), node)
            })
        };
        Some(page(id, job, query.from.unwrap_or(0), limit, query.state, active))
    });
    let (mut tasks, next) = if let Some(found) = live.await? {
        found
    } else {
        let end = site.readers.read(move |history| history.last_end(id.0)).await?;
        let record = end.and_then(|end| serde_json::from_str::<JobRecord>(&end.record).ok());
        let record = record.ok_or_else(|| ApiError::no_such_job(id))?;
        page(id, &record.job, query.from.unwrap_or(0), limit, query.state, |_| None)
    };
    add_attempts(&site, id, &mut tasks).await?;
    Ok(Json(TaskPage { tasks, next }))
}

type Found = (Vec<TaskView>, Option<u32>);

fn page(
    id: JobId,
    job: &Job,
    from: u32,
    limit: usize,
    wanted: Option<TaskState>,
    active: impl Fn(TaskId) -> Option<(Active, Option<NodeName>)>,
) -> Found {
    let mut tasks = Vec::new();
    for at in from..job.tasks.len() {
        let Some(index) = job.indices.index(Ordinal(at)) else { continue };
        let task = id.task(index);
        let now = active(task);
        let running = now.as_ref().is_some_and(|(active, _)| active.started.is_some());
        let state = if running { TaskState::Running } else { job.tasks.state(Ordinal(at)) };
        if wanted.is_some_and(|wanted| wanted != state) {
            continue;
        }
        if tasks.len() == limit {
            return (tasks, Some(at));
        }
        tasks.push(view(task, state, now));
    }
    (tasks, None)
}

fn view(task: TaskId, state: TaskState, now: Option<(Active, Option<NodeName>)>) -> TaskView {
    let (active, node) = now.map_or((None, None), |(active, node)| (Some(active), node));
    TaskView {
        id: task,
        state,
        attempt: active.as_ref().map_or(Attempt(0), |active| active.attempt),
        outcome: None,
        node,
        devices: active.iter().flat_map(|a| &a.devices).map(ToString::to_string).collect(),
        started: active.and_then(|active| active.started),
        ended: None,
        attempts: Vec::new(),
    }
}

/// Ended attempts, from history; the last one speaks for a task that is over.
async fn add_attempts(site: &Site, id: JobId, tasks: &mut [TaskView]) -> Result<(), ApiError> {
    let (Some(first), Some(last)) = (tasks.first(), tasks.last()) else { return Ok(()) };
    let (first, last) = (first.id.index.0, last.id.index.0);
    let rows = site.readers.read(move |history| history.attempts_between(id.0, first, last));
    let rows: Vec<AttemptRow> = rows.await?;
    for row in &rows {
        let index = views::index_of(row);
        let Ok(at) = tasks.binary_search_by_key(&index, |task| task.id.index) else { continue };
        let (Some(task), Some(attempt)) = (tasks.get_mut(at), views::attempt(row)) else {
            continue;
        };
        if task.state.is_over() || task.state == TaskState::Waiting {
            task.attempt = attempt.attempt;
            task.outcome = Some(attempt.outcome.clone());
            task.node = NodeName::new(&attempt.node).ok();
            (task.started, task.ended) = (attempt.started, Some(attempt.ended));
        }
        task.attempts.push(attempt);
    }
    Ok(())
}
