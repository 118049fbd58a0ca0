//! A person cancels jobs or tasks: what waits will not run, what runs is asked to stop.

use super::select;
use crate::command::{Pick, Select};
use crate::event::{CancelReason, Event, Which};
use crate::rejection::Rejection;
use crate::state::State;
use shipway_model::{JobId, Ordinal, TaskState};

pub(super) fn decide(state: &State, chosen: &Select) -> Result<Vec<Event>, Rejection> {
    let mut events = Vec::new();
    for (id, pick) in &chosen.jobs {
        select::job(state, chosen, *id)?;
        events.extend(one(state, *id, pick, CancelReason::Asked)?);
    }
    if events.is_empty() { Err(Rejection::NothingToDo("cancelled")) } else { Ok(events) }
}

/// All that waits or runs of what was picked.
pub(super) fn one(
    state: &State,
    id: JobId,
    pick: &Pick,
    why: CancelReason,
) -> Result<Vec<Event>, Rejection> {
    let job = state.job(id).ok_or(Rejection::NoSuchJob(id))?;
    let is_waiting = |task: TaskState| task == TaskState::Waiting;
    let is_active = |task: TaskState| matches!(task, TaskState::Placed | TaskState::Running);

    let which = if *pick == Pick::All {
        (job.tasks.counts().waiting > 0).then_some(Which::AllWaiting)
    } else {
        let waiting = select::tasks(state, (id, job), pick, is_waiting)?;
        (!waiting.is_empty()).then(|| Which::These(waiting.into_iter().collect()))
    };
    let active: Vec<Ordinal> = if job.tasks.counts().active > 0 {
        select::tasks(state, (id, job), pick, is_active)?
    } else {
        Vec::new()
    };
    let tasks = active.into_iter().filter_map(|task| job.indices.index(task)).map(|i| id.task(i));
    let stop: Vec<_> = tasks.filter(|task| !state.active()[task].stopping).collect();

    // Stopping is asked for first: once the last waiting task is cancelled the job may be over.
    let mut events = Vec::new();
    if !stop.is_empty() {
        events.push(Event::StopRequested { tasks: stop });
    }
    events.extend(which.map(|which| Event::TasksCancelled { job: id, which, why }));
    Ok(events)
}
