//! Telling whoever looks at a job that shows nothing what it waits for. `why` has all of it.

use crate::view::reason::sentence;
use crate::view::talk;
use crate::view::time::Reader;
use shipway_api::types::JobView;
use shipway_model::{JobState, TaskId};

/// Reasons said at once to whoever stays with the job.
const REASONS_SAID: usize = 2;

pub fn is_waiting(job: &JobView) -> bool {
    matches!(job.state, JobState::Held | JobState::Waiting)
}

/// A line for each of the first reasons.
pub fn say_reasons(job: &JobView) {
    let id = job.id;
    for reason in job.reasons.iter().take(REASONS_SAID) {
        talk::say(format_args!("shipway: job {id} waits: {}", sentence(reason, &Reader::here())));
    }
    if job.reasons.len() > REASONS_SAID {
        talk::say(format_args!("shipway: more with `shipway why {id}`"));
    }
}

/// One line for whoever asked for the output of something that has not begun.
pub fn say_no_output_yet(job: &JobView, task: Option<TaskId>) {
    let id = job.id;
    let what = task.map_or_else(|| format!("job {id}"), |task| format!("task {task}"));
    let first = job.reasons.first().map(|reason| sentence(reason, &Reader::here()));
    let why = first.map(|first| format!(": {first}")).unwrap_or_default();
    talk::say(format_args!(
        "shipway: {what} has written nothing, it waits{why} (more with `shipway why {id}`)"
    ));
}
