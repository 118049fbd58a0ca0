//! A user submits a job. A repeat with the same key changes nothing and is not an error.

use crate::command::Submit;
use crate::consequence::is_met;
use crate::event::{CancelReason, Event, Submitted, Which};
use crate::keys::KeyDigest;
use crate::rejection::Rejection;
use crate::requirements::{pointless_rank, validate};
use crate::shape::Shape;
use crate::state::State;
use shipway_model::limits::MAX_KEY_BYTES;
use shipway_model::validate::Problem;
use shipway_model::{After, JobId, JobState};

pub(super) fn decide(state: &State, submit: &Submit) -> Result<Vec<Event>, Rejection> {
    validate(&submit.spec).map_err(Rejection::InvalidSpec)?;
    if let Some(job) = already_submitted(state, submit)? {
        debug_assert!(job < state.next_job(), "a used key names a job that exists");
        return Ok(Vec::new());
    }
    let shape = Shape::of(&submit.spec, &submit.by.user);
    if let Some(problem) = pointless_rank(&shape, state) {
        return Err(Rejection::InvalidSpec(vec![problem]));
    }
    let mut met = Vec::new();
    let mut never = None;
    for after in &submit.spec.after {
        match how_it_ended(state, submit, after)? {
            Some(how) if is_met(after.condition, how) => met.push(after.job),
            Some(how) => never = Some(CancelReason::Dependency { on: after.job, ended: how }),
            None => {}
        }
    }
    let job = submit.job;
    let mut events = vec![Event::JobSubmitted(Box::new(Submitted {
        job,
        owner: submit.by.user.clone(),
        spec: submit.spec.clone(),
        key: submit.key.clone(),
        digest: submit.digest,
        met,
    }))];
    let cancelled = never.map(|why| Event::TasksCancelled { job, which: Which::AllWaiting, why });
    events.extend(cancelled);
    Ok(events)
}

/// The job this submission repeats, if it does.
pub fn already_submitted(state: &State, submit: &Submit) -> Result<Option<JobId>, Rejection> {
    let Some(key) = &submit.key else { return Ok(None) };
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        let what = format!("{} bytes; between 1 and {MAX_KEY_BYTES}", key.len());
        return Err(Rejection::InvalidSpec(vec![Problem { field: "idempotency key", what }]));
    }
    match state.keys.get(KeyDigest::of(&submit.by.user, key)) {
        None => Ok(None),
        Some(used) if used.digest == submit.digest => Ok(Some(used.job)),
        Some(used) => Err(Rejection::KeyReused(used.job)),
    }
}

/// `None`: it has not ended yet. A job of somebody else does not exist for this user.
fn how_it_ended(
    state: &State,
    submit: &Submit,
    after: &After,
) -> Result<Option<JobState>, Rejection> {
    if let Some(job) = state.job(after.job).filter(|job| submit.by.may_touch(&job.owner)) {
        return Ok(Some(job.state()).filter(|how| how.is_over()));
    }
    let known = submit.ended.iter().find(|(job, _)| *job == after.job);
    let missing = Rejection::NoSuchDependency(after.job);
    known.map(|(_, how)| Some(*how)).ok_or(missing)
}
