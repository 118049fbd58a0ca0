//! Which tasks a person means, and whether they may touch them.

use crate::command::{Pick, Select};
use crate::job::Job;
use crate::rejection::Rejection;
use crate::state::State;
use shipway_model::{JobId, Ordinal, TaskState};

/// The job, if it exists for this person. Somebody else's job "does not exist": whether an id is
/// taken is nobody's business.
pub(super) fn job<'a>(state: &'a State, select: &Select, id: JobId) -> Result<&'a Job, Rejection> {
    let job = state.job(id).filter(|job| select.by.may_touch(&state.owned(id, job)));
    job.ok_or(Rejection::NoSuchJob(id))
}

/// The picked tasks that are in a state the caller can act on.
pub(super) fn tasks(
    state: &State,
    (id, job): (JobId, &Job),
    pick: &Pick,
    actionable: impl Fn(TaskState) -> bool,
) -> Result<Vec<Ordinal>, Rejection> {
    let state_of = |task: Ordinal| {
        let index = job.indices.index(task)?;
        state.task_state(id.task(index))
    };
    let acts = |task: &Ordinal| state_of(*task).is_some_and(&actionable);
    match pick {
        Pick::All => Ok((0..job.tasks.len()).map(Ordinal).filter(acts).collect()),
        Pick::State(wanted) => {
            let is_wanted = |task: &Ordinal| state_of(*task) == Some(*wanted);
            Ok((0..job.tasks.len()).map(Ordinal).filter(is_wanted).filter(acts).collect())
        }
        Pick::Tasks(indices) => {
            let known = |index| job.indices.ordinal(index).ok_or_else(|| id.task(index));
            let found: Result<Vec<_>, _> = indices.iter().map(|index| known(*index)).collect();
            let mut found = found.map_err(Rejection::NoSuchTask)?;
            found.retain(acts);
            Ok(found)
        }
    }
}
