//! A person wants ended tasks to run again, as new attempts. Jobs that had left memory come back.

use super::select;
use crate::command::Select;
use crate::event::Event;
use crate::evolve::evolve;
use crate::job::JobRecord;
use crate::rejection::Rejection;
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
    let mut any = false;
    for (id, pick) in &chosen.jobs {
        let job = select::job(state, chosen, *id)?;
        let over = |task| matches!(task, TaskState::Failed | TaskState::Cancelled);
        let tasks = select::tasks(state, (*id, job), pick, over)?;
        if !tasks.is_empty() {
            any = true;
            let tasks = tasks.into_iter().collect();
            events.push(Event::TasksRequeued { job: *id, tasks });
        }
    }
    if any { Ok(events) } else { Err(Rejection::NothingToDo("retried")) }
}
