//! A person cancels jobs or tasks: what waits will not run, what runs is asked to stop.

use super::select;
use crate::command::{Pick, Select};
use crate::event::{CancelReason, Event, StopReason, Which};
use crate::rejection::{Rejection, Scatters};
use crate::state::State;
use shipway_model::{JobId, TaskState};

pub(super) fn decide(state: &State, chosen: &Select) -> Result<Vec<Event>, Rejection> {
    let (mut events, mut runs) = (Vec::new(), select::Runs::default());
    for (id, pick) in &chosen.jobs {
        let job = select::job(state, chosen, *id)?;
        for event in one(state, *id, pick, CancelReason::Asked)? {
            if let Event::TasksCancelled { which: Which::These(tasks), .. } = &event {
                runs.add(tasks)?;
                let parted = (Scatters::Cancel, tasks);
                select::may_scatter(state, &chosen.by, (*id, job), parted)?;
            }
            events.push(event);
        }
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
