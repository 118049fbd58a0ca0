//! Snapshots of the first version: the whole state as one JSON object.

use super::BadSnapshot;
use crate::command::Token;
use crate::job::Job;
use crate::keys::{KeyDigest, UsedKey};
use crate::pilot::{Active, Pilot};
use crate::shape::Shapes;
use crate::site::{Allocation, PilotToken};
use crate::state::State;
use crate::users::Users;
use serde::Deserialize;
use shipway_model::{AllocationId, JobId, PilotId, TaskId, Timestamp};
use std::collections::BTreeMap;

#[derive(Debug, Deserialize)]
struct First {
    at: Timestamp,
    next_job: u64,
    jobs: BTreeMap<JobId, Job>,
    shapes: Shapes,
    pilots: BTreeMap<PilotId, Pilot>,
    active: BTreeMap<TaskId, Active>,
    users: Users,
    tokens: BTreeMap<String, Token>,
    allocations: BTreeMap<AllocationId, Allocation>,
    pilot_tokens: BTreeMap<PilotId, PilotToken>,
    /// By owner and key, with a space between.
    keys: BTreeMap<String, UsedKey>,
}

pub(super) fn read(bytes: &[u8]) -> Result<State, BadSnapshot> {
    let first: First = super::older::read(bytes)?;
    let mut state = State {
        at: first.at,
        next_job: first.next_job,
        shapes: first.shapes,
        pilots: first.pilots,
        active: first.active,
        users: first.users,
        tokens: first.tokens,
        allocations: first.allocations,
        pilot_tokens: first.pilot_tokens,
        ..State::default()
    };
    for (id, mut job) in first.jobs {
        job.owner = state.fair_share.name(&job.owner, first.at);
        job.terms = state.terms.share(job.terms);
        state.jobs.insert(id, job);
    }
    for (key, used) in first.keys {
        state.keys.insert(KeyDigest::of_text(&key), used);
    }
    Ok(state)
}
