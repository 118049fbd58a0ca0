//! Facts that follow from facts, whatever command led to them: a job is over when its last task
//! is, and then the jobs that waited for it may go or never will.
//!
//! A hundred thousand jobs can wait for one, or in a row: one step tells as many as `EndsLeft`
//! says. The others stay where they are, held by a job that has ended, until `decide/tick.rs` comes
//! to them.

use crate::event::{AttemptEnded, CancelReason, Event, StopReason, Verdict, Which};
use crate::state::State;
use shipway_model::limits::MAX_TOLD_AT_ONCE;
use shipway_model::{Condition, JobId, JobState, TaskId};

/// How many more jobs one step tells.
#[derive(Debug)]
pub struct EndsLeft(usize);

impl Default for EndsLeft {
    fn default() -> Self {
        EndsLeft(MAX_TOLD_AT_ONCE)
    }
}

pub fn consequences(state: &State, event: &Event, room: &mut EndsLeft) -> Vec<Event> {
    match event {
        Event::AttemptEnded(ended) => {
            let mut events = is_it_over(state, ended.task.job);
            events.extend(stop_its_gang(state, ended));
            events
        }
        Event::TasksCancelled { job, .. } => is_it_over(state, *job),
        Event::JobEnded { job, state: ended } => tell_dependents(state, (*job, *ended), room),
        Event::ServerStarted
        | Event::JobSubmitted(_)
        | Event::DependencyMet { .. }
        | Event::TasksPlaced { .. }
        | Event::AttemptsStarted { .. }
        | Event::AttemptsUsed { .. }
        | Event::TasksReady { .. }
        | Event::StopRequested { .. }
        | Event::TasksRequeued { .. }
        | Event::JobRevived { .. }
        | Event::JobsArchived { .. }
        | Event::PilotJoined(_)
        | Event::PilotAway { .. }
        | Event::PilotChanged { .. }
        | Event::PilotLeaving { .. }
        | Event::PilotLost { .. }
        | Event::PilotEnded { .. }
        | Event::UserAdded { .. }
        | Event::UserRemoved { .. }
        | Event::JobsGiven { .. }
        | Event::TokenIssued { .. }
        | Event::TokenRevoked { .. }
        | Event::TokensExpired { .. }
        | Event::AllocationAsked { .. }
        | Event::PilotTokenEnded { .. }
        | Event::KeysExpired { .. }
        | Event::HalfLifeSet { .. }
        | Event::ShareSet { .. }
        | Event::SiteAdded { .. }
        | Event::SiteDrained { .. }
        | Event::SiteDiffers { .. }
        | Event::SiteRemoved { .. }
        | Event::SiteTroubled { .. }
        | Event::SiteReached { .. }
        | Event::AllocationChanged { .. } => Vec::new(),
    }
}

fn is_it_over(state: &State, id: JobId) -> Vec<Event> {
    let over = state.job(id).filter(|job| job.ended.is_none() && job.tasks.counts().is_over());
    over.map(|job| Event::JobEnded { job: id, state: job.state() }).into_iter().collect()
}

/// A gang goes on only whole.
fn stop_its_gang(state: &State, ended: &AttemptEnded) -> Option<Event> {
    let job = state.job(ended.task.job)?;
    let gang = state.shapes().get(job.shape).gang;
    if gang.is_one() || ended.verdict == Verdict::Succeeded {
        return None;
    }
    let others = gang.around(job.indices.ordinal(ended.task.index)?);
    let others = others.filter_map(|task| Some(ended.task.job.task(job.indices.index(task)?)));
    let goes_on = |task: &TaskId| {
        let active = state.active().get(task);
        active.is_some_and(|active| !active.stopping.is_some_and(StopReason::is_final))
    };
    let tasks: Vec<TaskId> = others.filter(goes_on).collect();
    (!tasks.is_empty()).then_some(Event::StopRequested { tasks, why: StopReason::Together })
}

/// What it means for those who wait for a job that has ended this way.
pub(crate) fn tell_dependents(
    state: &State,
    (ended, how): (JobId, JobState),
    room: &mut EndsLeft,
) -> Vec<Event> {
    let waiting = state.dependents.get(&ended).into_iter().flatten().take(room.0);
    let told: Vec<Event> = waiting
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
        .collect();
    room.0 = room.0.saturating_sub(told.len());
    told
}

/// `failed` means "did not succeed": a clean-up step wants to run after a cancelled job too.
pub(crate) fn is_met(condition: Condition, how: JobState) -> bool {
    match condition {
        Condition::Any => true,
        Condition::Ok => how == JobState::Succeeded,
        Condition::Failed => how != JobState::Succeeded,
    }
}
