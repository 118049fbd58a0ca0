//! A person wants ended tasks to run again, as new attempts. Jobs that had left memory come back.

use super::select;
use crate::command::Select;
use crate::event::Event;
use crate::evolve::evolve;
use crate::job::JobRecord;
use crate::rejection::{Rejection, TooMany};
use crate::state::State;
use shipway_model::TaskState;

pub(super) fn decide(
    state: &State,
    chosen: &Select,
    revived: &[JobRecord],
) -> Result<Vec<Event>, Rejection> {
    let mut events = Vec::new();
    let mut with_revived;
    let mut state = state;
    let absent = |record: &&JobRecord| state.job(record.id).is_none();
    let records: Vec<_> = revived.iter().filter(absent).cloned().collect();
    if !records.is_empty() {
        // Deciding changes nothing, so the jobs come back in a copy; retrying old jobs is rare.
        with_revived = state.clone();
        for record in records {
            let event = Event::JobRevived { record: Box::new(record) };
            let at = with_revived.at();
            evolve(&mut with_revived, at, &event);
            events.push(event);
        }
        state = &with_revived;
    }
    let (mut any, mut again) = (false, 0_u64);
    for (id, pick) in &chosen.jobs {
        let job = select::job(state, chosen, *id)?;
        if state.is_orphan(*id, job) {
            return Err(Rejection::OwnerRemoved(*id, job.owner.clone()));
        }
        let over = |task| matches!(task, TaskState::Failed | TaskState::Cancelled);
        let tasks = select::tasks(state, (*id, job), pick, over)?;
        if !tasks.is_empty() {
            any = true;
            again += u64::from(job.ended.is_some() && job.owner == chosen.by.user);
            let tasks = tasks.into_iter().collect();
            events.push(Event::TasksRequeued { job: *id, tasks });
        }
    }
    if !any {
        return Err(Rejection::NothingToDo("retried"));
    }
    let most = TooMany::most_jobs(chosen.by.role);
    let over = state.unfinished().of(&chosen.by.user).jobs.saturating_add(again) > most;
    if over { Err(Rejection::TooMany(TooMany::Jobs(chosen.by.role))) } else { Ok(events) }
}
