//! `logs`: what tasks have written.

use super::follow::{End, Follower, task_at};
use super::{Context, waiting};
use crate::args::jobs::LogsArgs;
use crate::failure::{Exit, Failure};
use crate::query::Query;
use crate::view::output::{self, Stream};
use shipway_api::routes;
use shipway_api::types::{JobView, TaskPage, TaskView};
use shipway_model::limits::MAX_PAGE;
use shipway_model::{Attempt, JobId, JobSpec, Ordinal, TaskId, TaskIndex, TaskState};
use std::cell::Cell;
use tokio::sync::watch;

pub async fn run(context: &Context, args: &LogsArgs) -> Result<Exit, Failure> {
    let wanted: &[Stream] = match (args.stdout, args.stderr) {
        (true, _) => &[Stream::Stdout],
        (_, true) => &[Stream::Stderr],
        _ => &[Stream::Stdout, Stream::Stderr],
    };
    let job: JobView = context.client.get(&routes::job(args.target.job)).await?;
    let index = match args.target.index {
        Some(index) => index,
        None if !job.is_array => TaskIndex(0),
        None if args.follow => return Err(Failure::FollowMany { job: job.id }),
        None => return all_tasks(context, args, &job, wanted).await,
    };
    let position = position(&job, index)?;
    let task = job.id.task(index);
    if has_not_begun(context, &job, task, position).await? {
        waiting::say_no_output_yet(&job, job.is_array.then_some(task));
    }
    let follower = Follower {
        streams: &context.client,
        asker: &context.client,
        task,
        position: position.0,
        wanted,
        json: context.output.json,
        passed: Cell::new(0),
    };
    match (args.follow, args.attempt) {
        (true, None) => follow(context, &follower).await?,
        (follow, attempt) => follower.attempt(attempt, follow).await?,
    }
    Ok(Exit::DONE)
}

/// Whether there is no output because no attempt has begun. Of a job of one task its own state says
/// it, and the other question is not asked while there is something to show.
async fn has_not_begun(
    context: &Context,
    job: &JobView,
    task: TaskId,
    position: Ordinal,
) -> Result<bool, Failure> {
    if !job.is_array && !waiting::is_waiting(job) {
        return Ok(false);
    }
    let found = task_at(&context.client, task, position.0).await?;
    let waits = |task: &TaskView| task.attempts.is_empty() && task.state == TaskState::Waiting;
    Ok(found.as_ref().is_some_and(waits))
}

/// From the newest attempt on, through those that come.
async fn follow(context: &Context, follower: &Follower<'_>) -> Result<(), Failure> {
    let task = task_at(&context.client, follower.task, follower.position).await?;
    let newest = task.map_or(Attempt::FIRST, |task| task.attempt.max(Attempt::FIRST));
    // Nobody announces the end of one task of many; the follower looks for itself.
    let (_, never) = watch::channel(End::NotYet);
    follower.attempts_from(newest.0, never).await
}

async fn all_tasks(
    context: &Context,
    args: &LogsArgs,
    job: &JobView,
    wanted: &[Stream],
) -> Result<Exit, Failure> {
    if waiting::is_waiting(job) {
        waiting::say_no_output_yet(job, None);
    }
    let mut from = Some(0);
    while let Some(position) = from {
        let query = Query::new().with("from", position).with("limit", MAX_PAGE);
        let page: TaskPage = context.client.get(&query.on(&routes::job_tasks(job.id))).await?;
        let least = args.attempt.unwrap_or(Attempt::FIRST);
        for task in page.tasks.iter().filter(|task| task.attempt >= least) {
            one_of_many(context, args, task.id, wanted).await?;
        }
        from = page.next;
    }
    Ok(Exit::DONE)
}

async fn one_of_many(
    context: &Context,
    args: &LogsArgs,
    task: TaskId,
    wanted: &[Stream],
) -> Result<(), Failure> {
    if !context.output.json {
        output::heading(task)?;
    }
    let follower = Follower {
        streams: &context.client,
        asker: &context.client,
        task,
        position: 0,
        wanted,
        json: context.output.json,
        passed: Cell::new(0),
    };
    follower.attempt(args.attempt, false).await
}

/// Where a task stands in its job.
pub fn position(job: &JobView, index: TaskIndex) -> Result<Ordinal, Failure> {
    let indices = job.spec.as_deref().and_then(JobSpec::indices);
    let found = indices.and_then(|indices| indices.ordinal(index));
    found.ok_or_else(|| no_such_task(job.id, index))
}

pub fn no_such_task(job: JobId, index: TaskIndex) -> Failure {
    Failure::NoSuchTask { job, index }
}
