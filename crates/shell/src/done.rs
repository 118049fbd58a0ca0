//! What came of a command, for whoever asked: counted from the state before and after, and from
//! the events between.

use shipway_core::command::Command;
use shipway_core::decide::already_submitted;
use shipway_core::event::Event;
use shipway_core::{Rejection, State};
use shipway_model::JobId;

/// How many tasks of the jobs that a command would cancel are cancelled.
pub(crate) fn cancelled(state: &State, command: &Command) -> u32 {
    let Command::Cancel(select) = command else { return 0 };
    let jobs = select.jobs.iter().filter_map(|(id, _)| state.job(*id));
    jobs.map(|job| job.tasks.counts().cancelled).sum()
}

/// How many jobs a user leaves who is to be removed.
pub(crate) fn left_by(state: &State, command: &Command) -> u64 {
    let Command::RemoveUser { user, .. } = command else { return 0 };
    state.unfinished().of(user).jobs
}

/// How many tasks an event touched at a person's wish.
pub(crate) fn touched(event: &Event) -> u32 {
    let count = |tasks: usize| u32::try_from(tasks).unwrap_or(u32::MAX);
    #[allow(clippy::wildcard_enum_match_arm, reason = "the others are nobody's wish")]
    match event {
        Event::StopRequested { tasks, .. } => count(tasks.len()),
        Event::TasksRequeued { tasks, .. } => tasks.len(),
        _ => 0,
    }
}

/// The job that a submission repeats, if it does.
pub(crate) fn repeated_submission(
    state: &State,
    command: &Command,
) -> Result<Option<JobId>, Rejection> {
    match command {
        Command::Submit(submit) => already_submitted(state, submit),
        _ => Ok(None),
    }
}
