//! Cancelling and retrying: a selection of jobs and tasks, resolved to names; the core decides, a
//! large selection in pieces.

use super::Site;
use super::asking::{Asked, Asking};
use super::body::Body;
use super::caller::Caller;
use super::error::ApiError;
use super::pieces::{Chosen, gone, is_small, pieces};
use crate::journal::JobFilter;
use crate::writer::{Wish, WriteError};
use axum::Json;
use axum::extract::State;
use shipway_api::error::ErrorBody;
use shipway_api::routes;
use shipway_api::types::{Acted, Selection};
use shipway_core::Rejection;
use shipway_core::command::{Pick, Select};
use shipway_model::{Actor, JobId, TaskId, TaskState};
use std::collections::{BTreeMap, HashMap};

/// Cancels what waits and stops what runs.
#[utoipa::path(post, path = routes::CANCEL, request_body = Selection,
    responses((status = 200, body = Acted), (status = "4XX", body = ErrorBody)))]
pub async fn cancel(
    caller: Caller,
    State(site): State<Site>,
    Asked(asking): Asked,
    Body(selection): Body<Selection>,
) -> Result<Json<Acted>, ApiError> {
    let over = |state: TaskState| state.is_over();
    let jobs = resolve(&site, &caller.0, selection, over).await?;
    act(site, &asking, Select { by: caller.0, jobs }, Act::Cancel).await
}

/// Runs failed and cancelled tasks again, as new attempts.
#[utoipa::path(post, path = routes::RETRY, request_body = Selection,
    responses((status = 200, body = Acted), (status = "4XX", body = ErrorBody)))]
pub async fn retry(
    caller: Caller,
    State(site): State<Site>,
    Asked(asking): Asked,
    Body(selection): Body<Selection>,
) -> Result<Json<Acted>, ApiError> {
    let cannot = |state| !matches!(state, TaskState::Failed | TaskState::Cancelled);
    let jobs = resolve(&site, &caller.0, selection, cannot).await?;
    act(site, &asking, Select { by: caller.0, jobs }, Act::Retry).await
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Cancel,
    Retry,
}

impl Act {
    fn wish(self, select: Select) -> Wish {
        match self {
            Act::Cancel => Wish::Cancel(select),
            Act::Retry => Wish::Retry(select),
        }
    }
}

async fn act(
    site: Site,
    asking: &Asking,
    chosen: Select,
    act: Act,
) -> Result<Json<Acted>, ApiError> {
    let jobs: Vec<JobId> = chosen.jobs.iter().map(|(job, _)| *job).collect();
    // One of each user's at once: a single array of millions that is found not to be worth it takes
    // the writer a moment too, and hundreds of such requests would stand before everybody else's.
    let turn = asking.turn().await?;
    let tasks = if is_small(&chosen.jobs) {
        site.writer.wish(act.wish(chosen)).await?.tasks()
    } else {
        let Select { by, jobs } = chosen.clone();
        let sizes =
            if act == Act::Retry { sizes_of_gone(&site, &jobs).await? } else { HashMap::new() };
        let cut = site.writer.ask(move |state| {
            // A name that is wrong is found before anything is done. History, which knows more jobs
            // to retry, is asked piece by piece.
            let theirs = |id| state.job(id).filter(|job| by.may_touch(&state.owned(id, job)));
            let unknown = jobs.iter().map(|(job, _)| *job).find(|job| theirs(*job).is_none());
            match unknown.filter(|_| act == Act::Cancel) {
                Some(unknown) => Err(Rejection::NoSuchJob(unknown)),
                None => Ok(pieces(jobs.clone(), state, &sizes)),
            }
        });
        let (cut, by) = (cut.await??, chosen.by);
        // What was begun is done, should the client leave.
        let all = tokio::spawn(async move {
            let _turn = turn;
            in_pieces(&site, &by, cut, act).await
        });
        all.await.map_err(|_| ApiError::internal("the work on a request was cut off"))??
    };
    Ok(Json(Acted { jobs, tasks }))
}

/// How many tasks those have that have left memory.
async fn sizes_of_gone(site: &Site, jobs: &Chosen) -> Result<HashMap<JobId, usize>, ApiError> {
    let asked = jobs.clone();
    let gone = site.writer.ask(move |state| gone(&asked, state)).await?;
    let sizes = site.readers.read(move |history| {
        let size = |job: JobId| Ok(history.tasks_of(job.0)?.map(|tasks| (job, tasks)));
        gone.into_iter().filter_map(|job| size(job).transpose()).collect::<Result<Vec<_>, _>>()
    });
    let known = sizes.await?.into_iter();
    Ok(known.map(|(job, tasks)| (job, usize::try_from(tasks).unwrap_or(usize::MAX))).collect())
}

/// How many tasks were touched. A piece of which nothing was left to do is no mistake, unless all
/// of them are.
async fn in_pieces(site: &Site, by: &Actor, cut: Vec<Chosen>, act: Act) -> Result<u32, ApiError> {
    let (mut tasks, mut jobs, mut nothing) = (0_u32, 0_usize, None);
    for piece in cut {
        let more = piece.len();
        match site.writer.wish(act.wish(Select { by: by.clone(), jobs: piece })).await {
            Ok(done) => {
                tasks = tasks.saturating_add(done.tasks());
                jobs += more;
            }
            Err(error @ WriteError::Rejected(Rejection::NothingToDo(_))) => nothing = Some(error),
            Err(error) if jobs == 0 => return Err(error.into()),
            Err(error) => return Err(ApiError::from(error).only_first(jobs)),
        }
    }
    match nothing {
        Some(error) if jobs == 0 => Err(error.into()),
        _ => Ok(tasks),
    }
}

/// From what a person wrote to jobs and picks. Labels are looked up in history, which knows all
/// jobs; with neither jobs nor tasks named, labels choose among one's own.
async fn resolve(
    site: &Site,
    by: &Actor,
    selection: Selection,
    useless: impl Fn(TaskState) -> bool,
) -> Result<Chosen, ApiError> {
    if let Some(state) = selection.state.filter(|state| useless(*state)) {
        return Err(ApiError::bad_request(format!(
            "nothing can be done to tasks that are {state}"
        )));
    }
    let named_tasks = !selection.tasks.is_empty();
    if named_tasks && (selection.state.is_some() || !selection.labels.is_empty()) {
        return Err(ApiError::bad_request("tasks are named; a state or label says nothing more"));
    }
    let pick = selection.state.map_or(Pick::All, Pick::State);
    let mut jobs = each_once(selection.tasks, &selection.jobs, &pick);
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
    Ok(jobs)
}

/// Each job once, as what is done is counted: a job that is named itself need not be
/// named by its tasks.
fn each_once(tasks: Vec<TaskId>, jobs: &[JobId], pick: &Pick) -> Chosen {
    let mut each: BTreeMap<JobId, Pick> = jobs.iter().map(|job| (*job, pick.clone())).collect();
    for task in tasks {
        let picked = each.entry(task.job).or_insert_with(|| Pick::Tasks(Vec::new()));
        if let Pick::Tasks(indices) = picked {
            indices.push(task.index);
        }
    }
    each.into_iter().collect()
}

/// A selection by label may find thousands of jobs that ended long ago; only those in memory can
/// have something to cancel, and they are what people mean.
async fn still_useful(site: &Site, jobs: Chosen) -> Result<Chosen, ApiError> {
    let known = site.writer.ask(move |state| {
        jobs.iter().filter(|(job, _)| state.job(*job).is_some()).cloned().collect()
    });
    Ok(known.await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shipway_model::TaskIndex;

    #[test]
    fn a_job_that_is_named_itself_is_not_named_by_its_tasks_too() {
        let task = |job: u64, index| JobId(job).task(TaskIndex(index));
        let tasks = vec![task(5, 1), task(3, 2), task(3, 4)];
        let chosen = each_once(tasks, &[JobId(7), JobId(5), JobId(5)], &Pick::All);
        let of_third = Pick::Tasks(vec![TaskIndex(2), TaskIndex(4)]);
        let once = [(JobId(3), of_third), (JobId(5), Pick::All), (JobId(7), Pick::All)];
        assert_eq!(chosen, once);
    }
}
