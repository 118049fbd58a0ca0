//! Facts that follow from facts, whatever command led to them: a job is over when its last task
//! is, and then the jobs that waited for it may go or never will.

use crate::event::{CancelReason, Event, Which};
use crate::state::State;
use shipway_model::{Condition, JobId, JobState};

pub fn consequences(state: &State, event: &Event) -> Vec<Event> {
    match event {
        Event::AttemptEnded(ended) => is_it_over(state, ended.task.job),
        Event::TasksCancelled { job, .. } => is_it_over(state, *job),
        Event::JobEnded { job, state: ended } => tell_dependents(state, *job, *ended),
        Event::ServerStarted
        | Event::JobSubmitted(_)
        | Event::DependencyMet { .. }
        | Event::TasksPlaced { .. }
        | Event::AttemptsStarted { .. }
        | Event::TasksReady { .. }
        | Event::StopRequested { .. }
        | Event::TasksRequeued { .. }
        | Event::JobRevived { .. }
        | Event::JobsArchived { .. }
        | Event::PilotJoined(_)
        | Event::PilotAway { .. }
        | Event::PilotLeaving { .. }
        | Event::PilotLost { .. }
        | Event::PilotEnded { .. }
        | Event::UserAdded { .. }
        | Event::UserRemoved { .. }
        | Event::JobsGiven { .. }
        | Event::TokenIssued { .. }
        | Event::TokenRevoked { .. }
        | Event::TokensExpired { .. }
        | Event::PilotTokenIssued { .. }
        | Event::PilotTokenEnded { .. }
        | Event::KeysExpired { .. }
        | Event::HalfLifeSet { .. }
        | Event::ShareSet { .. } => Vec::new(),
    }
}

fn is_it_over(state: &State, id: JobId) -> Vec<Event> {
    let over = state.job(id).filter(|job| job.ended.is_none() && job.tasks.counts().is_over());
    over.map(|job| Event::JobEnded { job: id, state: job.state() }).into_iter().collect()
}

fn tell_dependents(state: &State, ended: JobId, how: JobState) -> Vec<Event> {
    let waiting = state.dependents.get(&ended).into_iter().flatten();
    waiting
        .filter_map(|id| {
            let job = state.job(*id)?;
            let after = job.after.iter().find(|after| after.job == ended)?;
            Some(if is_met(after.condition, how) {
                Event::DependencyMet { job: *id, on: ended }
            } else {
                let why = CancelReason::Dependency { on: ended, ended: how };
                Event::TasksCancelled { job: *id, which: Which::AllWaiting, why }
            })
        })
        .collect()
}

/// `failed` means "did not succeed": a clean-up step wants to run after a cancelled job too.
pub(crate) fn is_met(condition: Condition, how: JobState) -> bool {
    match condition {
        Condition::Any => true,
        Condition::Ok => how == JobState::Succeeded,
        Condition::Failed => how != JobState::Succeeded,
    }
}
