//! A person cancels jobs or tasks: what waits will not run, what runs is asked to stop.

use super::select;
use crate::command::{Pick, Select};
use crate::done::{Decided, Done};
use crate::event::{CancelReason, Event, StopReason, Which};
use crate::job::Job;
use crate::rejection::{Rejection, Scatters};
use crate::state::State;
use shipway_model::{JobId, TaskState};

pub(super) fn decide(state: &State, chosen: &Select) -> Result<Decided, Rejection> {
    let (mut events, mut runs, mut tasks) = (Vec::new(), select::Runs::default(), 0_u32);
    for (id, pick) in &chosen.jobs {
        let job = select::job(state, chosen, *id)?;
        for event in one(state, *id, pick, CancelReason::Asked)? {
            tasks = tasks.saturating_add(touched(job, &event));
            if let Event::TasksCancelled { which: Which::These(tasks), .. } = &event {
                runs.add(tasks)?;
                let parted = (Scatters::Cancel, tasks);
                select::may_scatter(state, &chosen.by, (*id, job), parted)?;
            }
            events.push(event);
        }
    }
    if events.is_empty() {
        return Err(Rejection::NothingToDo("cancelled"));
    }
    Ok(Decided { events, done: Done::Touched { tasks } })
}

/// How many tasks of the job it cancels or asks to stop.
fn touched(job: &Job, event: &Event) -> u32 {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others cancel nothing")]
    match event {
        Event::StopRequested { tasks, .. } => u32::try_from(tasks.len()).unwrap_or(u32::MAX),
        Event::TasksCancelled { which: Which::AllWaiting, .. } => job.tasks.counts().waiting,
        Event::TasksCancelled { which: Which::These(tasks), .. } => tasks.len(),
        _ => 0,
    }
}

/// All that waits or runs of what was picked.
pub(super) fn one(
    state: &State,
    id: JobId,
    pick: &Pick,
    why: CancelReason,
) -> Result<Vec<Event>, Rejection> {
    let job = state.job(id).ok_or(Rejection::NoSuchJob(id))?;
    let which = if *pick == Pick::All {
        (job.tasks.counts().waiting > 0).then_some(Which::AllWaiting)
    } else {
        let gang = state.shapes().get(job.shape).gang;
        let waiting = select::idle((id, job), gang, pick, &[TaskState::Waiting])?;
        (!waiting.is_empty()).then_some(Which::These(waiting))
    };
    let stop = select::to_stop(state, (id, job), pick)?;

    // Stopping is asked for first: once the last waiting task is cancelled the job may be over.
    let mut events = Vec::new();
    if !stop.is_empty() {
        let why = match why {
            CancelReason::OwnerRemoved => StopReason::OwnerRemoved,
            CancelReason::Asked | CancelReason::Dependency { .. } => StopReason::Asked,
        };
        events.push(Event::StopRequested { tasks: stop, why });
    }
    events.extend(which.map(|which| Event::TasksCancelled { job: id, which, why }));
    Ok(events)
}
