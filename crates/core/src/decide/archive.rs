//! Ended jobs leave memory; history has them.

use crate::event::Event;
use crate::state::State;
use shipway_model::JobId;

pub(super) fn decide(state: &State, jobs: &[JobId]) -> Vec<Event> {
    let ended = |id: &&JobId| state.job(**id).is_some_and(|job| job.ended.is_some());
    let jobs: Vec<JobId> = jobs.iter().filter(ended).copied().collect();
    if jobs.is_empty() { Vec::new() } else { vec![Event::JobsArchived { jobs }] }
}
