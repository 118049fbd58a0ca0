//! Tasks of a job, one line each, and the attempts of one task.

use super::paper::{Paper, Tone};
use super::table::{Cell, Table};
use super::time::{Reader, short};
use shipway_api::types::{AttemptView, TaskView};
use shipway_model::{Outcome, TaskState, Timestamp};

/// What people look for comes first: failures, then what runs now.
pub fn rank(state: TaskState) -> u8 {
    match state {
        TaskState::Failed => 0,
        TaskState::Running => 1,
        TaskState::Placed => 2,
        TaskState::Waiting => 3,
        TaskState::Cancelled => 4,
        TaskState::Succeeded => 5,
    }
}

pub fn write_tasks(paper: &mut Paper, tasks: &[TaskView], reader: &Reader) {
    let mut table = Table::new(&["TASK", "STATE", "ATTEMPT", "NODE", "TIME", "OUTCOME"]);
    for task in tasks {
        table.row(vec![
            task.id.into(),
            Cell::toned(task.state, Tone::of_task(task.state)),
            task.attempt.into(),
            task.node.as_ref().map_or_else(|| "-".into(), Cell::from),
            time(task.started, task.ended, reader).into(),
            task.outcome.as_ref().map(Outcome::to_string).unwrap_or_default().into(),
        ]);
    }
    table.write(paper);
}

pub fn write_attempts(paper: &mut Paper, attempts: &[AttemptView], reader: &Reader) {
    let mut table = Table::new(&["ATTEMPT", "NODE", "ENDED", "TIME", "OUTCOME"]);
    for attempt in attempts {
        let tone = if attempt.outcome.is_success() { Tone::Good } else { Tone::Bad };
        table.row(vec![
            attempt.attempt.into(),
            Cell::from(&attempt.node),
            reader.moment(attempt.ended).into(),
            time(attempt.started, Some(attempt.ended), reader).into(),
            Cell::toned(&attempt.outcome, tone),
        ]);
    }
    table.write(paper);
}

/// From its start to its end, or to now; nothing when it never started.
fn time(started: Option<Timestamp>, ended: Option<Timestamp>, reader: &Reader) -> String {
    let until = ended.unwrap_or(reader.now);
    started.map_or_else(|| "-".into(), |started| short(until.since(started)))
}
