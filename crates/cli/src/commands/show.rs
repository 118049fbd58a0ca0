//! `show`: one job with a page of its tasks, or one task with its attempts.

use super::Context;
use super::follow::task_at;
use super::logs::{no_such_task, position};
use crate::args::jobs::ShowArgs;
use crate::failure::{Exit, Failure};
use crate::query::Query;
use crate::view;
use crate::view::job_detail::{JobDetail, TaskDetail};
use crate::view::task_table::rank;
use crate::view::time::Reader;
use shipway_api::client::{Client, ClientError};
use shipway_api::routes;
use shipway_api::types::{JobView, SeriesView, TaskPage, TaskView};
use shipway_model::limits::DEFAULT_PAGE;
use shipway_model::{Attempt, JobId, TaskIndex, TaskState};

/// What is worth seeing first in a job with more tasks than a page.
const FIRST_STATES: [TaskState; 3] = [TaskState::Failed, TaskState::Running, TaskState::Placed];

pub async fn run(context: &Context, args: &ShowArgs) -> Result<Exit, Failure> {
    let job: JobView = context.client.get(&routes::job(args.target.job)).await?;
    match args.target.index {
        Some(index) => one_task(context, job, index).await?,
        None => whole_job(context, job, args).await?,
    }
    Ok(Exit::DONE)
}

async fn one_task(context: &Context, job: JobView, index: TaskIndex) -> Result<(), Failure> {
    let position = position(&job, index)?;
    let task = task_at(&context.client, job.id.task(index), position.0).await?;
    let task = task.ok_or_else(|| no_such_task(job.id, index))?;
    let series = series(&context.client, &task).await;
    view::show(&TaskDetail { job, task, series, reader: Reader::here() }, context.output)
}

/// How it went over time: an older server does not know, and nothing depends on it.
async fn series(client: &Client, task: &TaskView) -> Option<SeriesView> {
    if task.attempt == Attempt(0) {
        return None;
    }
    let path = routes::task_usage(task.id.job, task.id.index);
    let series: SeriesView = client.get(&path).await.ok()?;
    (series.step_ms > 0).then_some(series)
}

async fn whole_job(context: &Context, job: JobView, args: &ShowArgs) -> Result<(), Failure> {
    let limit = args.limit.unwrap_or(DEFAULT_PAGE);
    let asked_for_a_page = args.state.is_some() || args.from.is_some();
    let tasks = if asked_for_a_page || job.tasks as usize <= limit {
        page(&context.client, job.id, args.from, args.state, limit).await?
    } else {
        most_wanted(&context.client, job.id, limit).await?
    };
    let shown = u32::try_from(tasks.tasks.len()).unwrap_or(u32::MAX);
    let of = match args.state {
        None => job.tasks.saturating_sub(args.from.unwrap_or(0)),
        // How many match from here on is not known; a next page says that there are more.
        Some(_) => shown + u32::from(tasks.next.is_some()),
    };
    let not_shown = of.saturating_sub(shown);
    view::show(&JobDetail { job, tasks, not_shown, reader: Reader::here() }, context.output)
}

async fn page(
    client: &Client,
    job: JobId,
    from: Option<u32>,
    state: Option<TaskState>,
    limit: usize,
) -> Result<TaskPage, ClientError> {
    let query = Query::new().maybe("from", from).maybe("state", state).with("limit", limit);
    let mut page: TaskPage = client.get(&query.on(&routes::job_tasks(job))).await?;
    page.tasks.sort_by_key(|task| (rank(task.state), task.id.index));
    Ok(page)
}

/// Failed and running tasks as far as they fit, then the first of the others.
pub async fn most_wanted(
    client: &Client,
    job: JobId,
    limit: usize,
) -> Result<TaskPage, ClientError> {
    let mut tasks = Vec::new();
    for state in FIRST_STATES {
        let room = limit - tasks.len();
        if room == 0 {
            break;
        }
        tasks.extend(page(client, job, None, Some(state), room).await?.tasks);
    }
    let others = page(client, job, None, None, limit).await?.tasks.into_iter();
    let others = others.filter(|task| !FIRST_STATES.contains(&task.state));
    tasks.extend(others.take(limit - tasks.len()));
    Ok(TaskPage { tasks, next: None })
}
