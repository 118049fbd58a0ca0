//! Which tasks a person means, and whether they may touch them.
//!
//! Tasks that do not run are found as runs, so that all of ten million are one pair of numbers;
//! those that do by what runs, which is never more than the nodes hold.

use crate::command::{Pick, Select};
use crate::event::StopReason;
use crate::job::Job;
use crate::ordinals::Ordinals;
use crate::pilot::Active;
use crate::rejection::{Rejection, Scatters, TooMany};
use crate::shape::Gang;
use crate::state::State;
use shipway_model::limits::MAX_RUNS_CHANGED;
use shipway_model::{Actor, JobId, May, Ordinal, Role, TaskId, TaskIndex, TaskState};
use std::collections::BTreeSet;

/// How many runs of tasks one request changes.
#[derive(Default)]
pub(super) struct Runs(usize);

impl Runs {
    pub(super) fn add(&mut self, tasks: &Ordinals) -> Result<(), Rejection> {
        self.0 = self.0.saturating_add(tasks.count_runs());
        if self.0 > MAX_RUNS_CHANGED { Err(Rejection::TooMany(TooMany::Runs)) } else { Ok(()) }
    }
}

/// Whether tasks may be parted from those beside them: each run of them is kept until they are
/// joined again or the job ends, and counts for its owner. As it was before: what one request
/// changes has a limit of its own. What the system finds (a task ended) is never refused.
///
/// Operators may always: who keeps the server going has to be able to stop any part of anybody's
/// work, and knows what that takes. It counts for the owner all the same.
pub(super) fn may_scatter(
    state: &State,
    by: &Actor,
    (id, job): (JobId, &Job),
    (act, tasks): (Scatters, &Ordinals),
) -> Result<(), Rejection> {
    let is_full = state.unfinished().of(&job.owner).bytes >= TooMany::most_bytes(Role::User);
    if by.may(May::TouchAllJobs) || !is_full {
        return Ok(());
    }
    let more = match act {
        Scatters::Cancel => job.tasks.runs_by_cancelling(tasks),
        Scatters::Retry => job.tasks.runs_by_requeueing(tasks),
    };
    let refused = || Rejection::TooScattered { act, job: id, owner: job.owner.clone() };
    if more > 0 { Err(refused()) } else { Ok(()) }
}

/// The job, if it exists for this person. Somebody else's job "does not exist": whether an id is
/// taken is nobody's business.
pub(super) fn job<'a>(state: &'a State, select: &Select, id: JobId) -> Result<&'a Job, Rejection> {
    let job = state.job(id).filter(|job| select.by.may_touch(&state.owned(id, job)));
    job.ok_or(Rejection::NoSuchJob(id))
}

/// The picked tasks that are in one of these states, none of which is that of an active task. Of a
/// gang all or none.
pub(super) fn idle(
    (id, job): (JobId, &Job),
    gang: Gang,
    pick: &Pick,
    actionable: &[TaskState],
) -> Result<Ordinals, Rejection> {
    let acts = |state: TaskState| actionable.contains(&state);
    let found = match pick {
        Pick::All => job.tasks.runs(0, acts).collect(),
        Pick::State(wanted) => job.tasks.runs(0, |state| state == *wanted && acts(state)).collect(),
        Pick::Tasks(indices) => {
            let mut found = ordinals(id, job, indices)?;
            found.retain(|task| acts(job.tasks.state(*task)));
            found.into_iter().collect()
        }
    };
    Ok(if gang.is_one() { found } else { whole(job, gang, &found) })
}

/// What is left of a gang could not be placed; and while some of it runs, it waits for its end.
fn whole(job: &Job, gang: Gang, found: &Ordinals) -> Ordinals {
    let is_idle = |task: Ordinal| job.tasks.state(task) != TaskState::Placed;
    let tasks = found.runs().flat_map(|(first, last)| first..=last).map(Ordinal);
    let firsts: BTreeSet<Ordinal> = tasks.filter_map(|task| gang.around(task).next()).collect();
    let idle = firsts.into_iter().filter(|first| gang.around(*first).all(is_idle));
    idle.flat_map(|first| gang.around(first)).collect()
}

/// The picked tasks that are placed or run, and were not asked to stop for good yet.
pub(super) fn to_stop(
    state: &State,
    (id, job): (JobId, &Job),
    pick: &Pick,
) -> Result<Vec<TaskId>, Rejection> {
    let runs_on = |active: &Active| !active.stopping.is_some_and(StopReason::is_final);
    let goes_on = |task: &TaskId| state.active().get(task).is_some_and(runs_on);
    match pick {
        Pick::All | Pick::State(_) => {
            let is_wanted = |found: TaskState| match pick {
                Pick::State(wanted) => found == *wanted,
                Pick::All | Pick::Tasks(_) => true,
            };
            let active = state.active_of(id).filter(|(_, active)| runs_on(active));
            let wanted = active.filter(|(_, active)| is_wanted(active.state()));
            Ok(wanted.map(|(task, _)| *task).collect())
        }
        Pick::Tasks(indices) => {
            let found = ordinals(id, job, indices)?;
            let tasks = found.into_iter().filter_map(|task| job.indices.index(task));
            Ok(tasks.map(|index| id.task(index)).filter(goes_on).collect())
        }
    }
}

/// In order, and each once.
fn ordinals(id: JobId, job: &Job, indices: &[TaskIndex]) -> Result<Vec<Ordinal>, Rejection> {
    let known = |index| job.indices.ordinal(index).ok_or_else(|| id.task(index));
    let found: Result<Vec<_>, _> = indices.iter().map(|index| known(*index)).collect();
    let mut found = found.map_err(Rejection::NoSuchTask)?;
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of several jobs together.
    #[test]
    fn tasks_that_are_too_scattered_to_be_written_at_once_are_refused() {
        let half = u32::try_from(MAX_RUNS_CHANGED / 2).expect("fits");
        let scattered: Ordinals = (0..half).map(|at| Ordinal(2 * at)).collect();
        let mut runs = Runs::default();
        assert_eq!((runs.add(&scattered), runs.add(&scattered)), (Ok(()), Ok(())));
        let one_more: Ordinals = [Ordinal(7)].into_iter().collect();
        assert_eq!(runs.add(&one_more), Err(Rejection::TooMany(TooMany::Runs)));
    }
}
