//! The tasks of a job, page by page, each with its attempts.

use super::Site;
use super::asking::Asked;
use super::caller::{CallerWith, Digits, Path};
use super::error::ApiError;
use super::large::measured_json;
use super::shelf::bytes_of_attempt;
use crate::journal::AttemptRow;
use crate::published::{Node, Stamp};
use crate::views;
use axum::extract::State;
use axum::response::Response;
use shipway_api::error::ErrorBody;
use shipway_api::routes;
use shipway_api::types::{TaskPage, TaskQuery, TaskView};
use shipway_core::job::JobRecord;
use shipway_core::pilot::Active;
use shipway_core::site::SiteKind;
use shipway_core::task_table::TaskStates;
use shipway_model::limits::{DEFAULT_PAGE, MAX_PAGE};
use shipway_model::{
    Attempt, IndexSet, JobId, NodeName, Ordinal, SiteName, TaskId, TaskState, UserName,
};
use std::sync::Arc;

/// In the order of the array.
#[utoipa::path(get, path = routes::JOB_TASKS, operation_id = "list_tasks",
    params(("job" = u64, Path), TaskQuery),
    responses((status = 200, body = TaskPage), (status = "4XX", body = ErrorBody)))]
pub async fn list(
    CallerWith(by, query): CallerWith<TaskQuery>,
    State(site): State<Site>,
    Asked(asking): Asked,
    Path(Digits(id)): Path<Digits<JobId>>,
) -> Result<Response, ApiError> {
    // Ten million tasks are looked through in milliseconds, but not for hundreds at once.
    let turn = asking.turn().await?;
    let row = views::row(&site, &by, id).await?;
    let owner = UserName::new(&row.owner).map_err(|_| ApiError::no_such_job(id))?;
    let limit = query.limit.unwrap_or(DEFAULT_PAGE).clamp(1, MAX_PAGE);
    let wanted = Wanted { from: query.from.unwrap_or(0), limit, state: query.state };
    let live = site.writer.look(|board| {
        let known = Known { is_fresh: board.is_fresh(id), stamp: board.stamp(&owner) };
        let active = |task| {
            let active = board.active(task)?;
            Some((active.clone(), board.node(&active.pilot).map(Where::of)))
        };
        (known, board.tasks(id, |indices, states| page(id, (indices, states), wanted, active)))
    });
    let (known, live) = live.await?;
    let (mut tasks, next) = if let Some(found) = live {
        found
    } else {
        let found = site.readers.read(move |history| {
            let end = history.last_end(id.0)?;
            let record = end.and_then(|end| serde_json::from_str::<JobRecord>(&end.record).ok());
            Ok(record.map(|JobRecord { job, .. }| {
                page(id, (&job.indices, job.tasks.bits()), wanted, |_| None)
            }))
        });
        found.await?.ok_or_else(|| ApiError::no_such_job(id))?
    };
    let attempts = attempts(&site, id, &tasks, known).await?;
    add_attempts(&mut tasks, &attempts);
    for task in tasks.iter_mut().filter(|task| task.state == TaskState::Placed) {
        task.fetching = site.pilots.fetching(task.id.attempt(task.attempt));
    }
    drop(turn);
    // The last outcome of each stands there twice.
    let bytes = attempts.iter().map(|row| 2 * bytes_of_attempt(row)).sum::<usize>();
    measured_json(&asking, TaskPage { tasks, next }, bytes + TASK_BYTES * limit).await
}

/// About how much of an answer a task is, beside its attempts.
const TASK_BYTES: usize = 600;

/// What was known of a job when its tasks were looked at.
#[derive(Debug, Clone, Copy)]
struct Known {
    is_fresh: bool,
    stamp: Stamp,
}

/// Where a task is now.
#[derive(Debug, Clone)]
struct Where {
    node: NodeName,
    /// The batch system that lends the node.
    site: Option<SiteName>,
}

impl Where {
    fn of(node: &Node) -> Where {
        let lent = |site: &&SiteName| SiteKind::of(site) == SiteKind::Batch;
        let site = node.about.site.as_ref().filter(lent).cloned();
        Where { node: node.now.name.clone(), site }
    }
}

type Found = (Vec<TaskView>, Option<u32>);

#[derive(Debug, Clone, Copy)]
struct Wanted {
    from: u32,
    limit: usize,
    state: Option<TaskState>,
}

/// The first tasks from a position on, and where the next page begins. What cannot be wanted is
/// stepped over in runs, whatever lies between one that is and the next.
fn page(
    id: JobId,
    (indices, states): (&IndexSet, &TaskStates),
    Wanted { from, limit, state: wanted }: Wanted,
    active: impl Fn(TaskId) -> Option<(Active, Option<Where>)>,
) -> Found {
    let may_be = |known: TaskState| match wanted {
        None => true,
        Some(TaskState::Running | TaskState::Placed) => known == TaskState::Placed,
        Some(wanted) => known == wanted,
    };
    let mut tasks = Vec::new();
    let runs = states.runs(from, indices.len(), may_be);
    for at in runs.flat_map(|(first, last)| first..=last) {
        let Some(index) = indices.index(Ordinal(at)) else { continue };
        let task = id.task(index);
        let known = states.state(Ordinal(at));
        let now = if known == TaskState::Placed { active(task) } else { None };
        let state = now.as_ref().map_or(known, |(active, _)| active.state());
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

fn view(task: TaskId, state: TaskState, now: Option<(Active, Option<Where>)>) -> TaskView {
    let (active, at) = now.map_or((None, None), |(active, at)| (Some(active), at));
    let (node, site) = at.map_or((None, None), |at| (Some(at.node), at.site));
    TaskView {
        id: task,
        state,
        attempt: active.as_ref().map_or(Attempt(0), |active| active.attempt),
        outcome: None,
        node,
        site,
        fetching: None,
        devices: active.iter().flat_map(|a| &a.devices).map(ToString::to_string).collect(),
        started: active.as_ref().and_then(|active| active.started),
        ended: None,
        usage: active.and_then(|active| active.usage).map(|usage| *usage),
        advice: None,
        attempts: Vec::new(),
    }
}

/// Ended attempts of these tasks, from history: read once for tasks that are all over.
async fn attempts(
    site: &Site,
    id: JobId,
    tasks: &[TaskView],
    known: Known,
) -> Result<Arc<[AttemptRow]>, ApiError> {
    let (Some(first), Some(last)) = (tasks.first(), tasks.last()) else { return Ok(Arc::new([])) };
    if known.is_fresh {
        return Ok(Arc::new([]));
    }
    let (first, last) = (first.id.index.0, last.id.index.0);
    let (kept, key) = (&site.readers.shelves.attempts, (id, first, last));
    // In between there may be others, of another state than was asked for.
    let is_all = last - first < tasks.len() as u64;
    let are_over = is_all && tasks.iter().all(|task| task.state.is_over());
    if let Some(rows) = kept.find(&key, known.stamp).filter(|_| are_over) {
        return Ok(rows);
    }
    let rows = site.readers.read(move |history| history.attempts_between(id.0, first, last));
    let rows: Arc<[AttemptRow]> = rows.await?.into();
    if are_over {
        let bytes = rows.iter().map(bytes_of_attempt).sum();
        kept.keep(key, known.stamp, Arc::clone(&rows), bytes);
    }
    Ok(rows)
}

/// The last one speaks for a task that is over.
fn add_attempts(tasks: &mut [TaskView], rows: &[AttemptRow]) {
    for row in rows {
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
            (task.usage, task.advice) = (attempt.usage.clone(), attempt.advice.clone());
        }
        task.attempts.push(attempt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shipway_core::State;
    use shipway_core::command::{Command, NewJob, Pick, Select, Submit};
    use shipway_core::engine::step;
    use shipway_model::limits::MAX_TASKS;
    use shipway_model::{Actor, Role, TaskIndex, Timestamp, UserName};
    use std::cell::Cell;

    /// An array of the largest size of which all but the last task were cancelled.
    fn cancelled_but_one() -> State {
        let user = UserName::new("ada").expect("good");
        let by = Actor::new(user, Role::User);
        let json = format!(r#"{{"command":["true"],"array":"1-{MAX_TASKS}"}}"#);
        let spec = serde_json::from_str(&json).expect("a good job");
        let job = JobId(1);
        let submit = Submit::one(by.clone(), NewJob::new(job, spec));
        let mut state = State::default();
        let last = Pick::Tasks(vec![TaskIndex(MAX_TASKS)]);
        let select = |pick| Select { by: by.clone(), jobs: vec![(job, pick)] };
        for command in [
            Command::Submit(Box::new(submit)),
            Command::Cancel(select(Pick::All)),
            Command::Retry { select: select(last), revived: Vec::new() },
        ] {
            step(&mut state, Timestamp(1), &command).expect("done");
        }
        state
    }

    #[test]
    fn a_page_of_one_state_does_not_look_at_all_tasks() {
        let state = cancelled_but_one();
        let job = state.job(JobId(1)).expect("there");
        let looked = Cell::new(0);
        let look = |from, limit, wanted| {
            looked.set(0);
            let tasks = (&job.indices, job.tasks.bits());
            let wanted = Wanted { from, limit, state: wanted };
            let (tasks, next) = page(JobId(1), tasks, wanted, |_| {
                looked.set(looked.get() + 1);
                None
            });
            assert!(looked.get() <= 2 * limit, "{wanted:?} looked at {} tasks", looked.get());
            (tasks.into_iter().map(|task| task.id.index.0).collect::<Vec<_>>(), next)
        };
        assert_eq!(look(0, 10, Some(TaskState::Waiting)), (vec![MAX_TASKS], None));
        assert_eq!(look(0, 2, Some(TaskState::Cancelled)), (vec![1, 2], Some(2)));
        assert_eq!(look(2, 1, Some(TaskState::Cancelled)), (vec![3], Some(3)));
        assert_eq!(look(4, 2, None), (vec![5, 6], Some(6)));
        for none in [TaskState::Failed, TaskState::Running, TaskState::Placed] {
            assert_eq!(look(0, 10, Some(none)), (Vec::new(), None));
        }
    }
}
