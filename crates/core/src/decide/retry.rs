//! A person wants ended tasks to run again, as new attempts. Jobs that had left memory come back.

use super::select;
use crate::command::Select;
use crate::done::{Decided, Done};
use crate::event::Event;
use crate::job::{Job, JobRecord};
use crate::rejection::{Rejection, Scatters, TooMany};
use crate::state::State;
use shipway_model::TaskState;
use shipway_model::limits::MAX_UNFINISHED_TASKS;
use std::collections::BTreeMap;

/// Without success.
const OVER: [TaskState; 2] = [TaskState::Failed, TaskState::Cancelled];

pub(super) fn decide(
    state: &State,
    chosen: &Select,
    revived: &[JobRecord],
) -> Result<Decided, Rejection> {
    let mut events = Vec::new();
    let mut known = BTreeMap::new();
    for record in revived.iter().filter(|record| state.job(record.id).is_none()) {
        if known.insert(record.id, record).is_none() {
            events.push(Event::JobRevived { record: Box::new(record.clone()) });
        }
    }
    let (mut touched, mut runs) = (0_u32, select::Runs::default());
    let (mut again, mut tasks_again) = (0_u64, 0_u64);
    for (id, pick) in &chosen.jobs {
        let (job, gang, is_orphan) = if let Some(record) = known.get(id) {
            let is_orphan = state.is_orphaned(&record.owned());
            (from_history(chosen, record)?, record.gang, is_orphan)
        } else {
            let job = select::job(state, chosen, *id)?;
            (job, state.shapes().get(job.shape).gang, state.is_orphan(*id, job))
        };
        if is_orphan {
            return Err(Rejection::OwnerRemoved(*id, job.owner.clone()));
        }
        let tasks = select::idle((*id, job), gang, pick, &OVER)?;
        runs.add(&tasks)?;
        if job.ended.is_none() {
            let parted = (Scatters::Retry, &tasks);
            select::may_scatter(state, &chosen.by, (*id, job), parted)?;
        }
        if !tasks.is_empty() {
            touched = touched.saturating_add(tasks.len());
            if job.ended.is_some() && job.owner == chosen.by.user {
                again += 1;
                tasks_again = tasks_again.saturating_add(job.tasks.len().into());
            }
            events.push(Event::TasksRequeued { job: *id, tasks });
        }
    }
    if touched == 0 {
        return Err(Rejection::NothingToDo("retried"));
    }
    let (now, role) = (state.unfinished().of(&chosen.by.user), chosen.by.role);
    if now.jobs.saturating_add(again) > TooMany::most_jobs(role) {
        return Err(Rejection::TooMany(TooMany::Jobs(role)));
    }
    if now.tasks.saturating_add(tasks_again) > MAX_UNFINISHED_TASKS {
        return Err(Rejection::TooMany(TooMany::Tasks));
    }
    // As it was before: what comes back at once has a limit of its own.
    if again > 0 && now.bytes >= TooMany::most_bytes(role) {
        return Err(Rejection::TooMany(TooMany::Bytes(role)));
    }
    Ok(Decided { events, done: Done::Touched { tasks: touched } })
}

/// As `select::job`, for one that has left memory.
fn from_history<'a>(chosen: &Select, record: &'a JobRecord) -> Result<&'a Job, Rejection> {
    let theirs = chosen.by.may_touch(&record.owned());
    if theirs { Ok(&record.job) } else { Err(Rejection::NoSuchJob(record.id)) }
}
