//! A user submits a job. A repeat with the same key changes nothing and is not an error.

use crate::command::Submit;
use crate::consequence::is_met;
use crate::event::{CancelReason, Event, Submitted, Which};
use crate::job::Job;
use crate::keys::KeyDigest;
use crate::rejection::{Rejection, TooMany};
use crate::requirements::{pointless_rank, validate};
use crate::shape::Shape;
use crate::state::State;
use shipway_model::limits::{MAX_KEY_BYTES, MAX_UNFINISHED_TASKS};
use shipway_model::validate::Problem;
use shipway_model::{After, JobId, JobState};

pub(super) fn decide(state: &State, submit: &Submit) -> Result<Vec<Event>, Rejection> {
    validate(&submit.spec).map_err(Rejection::InvalidSpec)?;
    makes_whole_gangs(submit)?;
    if let Some(job) = already_submitted(state, submit)? {
        debug_assert!(job < state.next_job(), "a used key names a job that exists");
        return Ok(Vec::new());
    }
    has_room(state, submit)?;
    let shape = Shape::of(&submit.spec, &submit.by.user, submit.gang);
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
        gang: submit.gang,
        met,
    }))];
    let cancelled = never.map(|why| Event::TasksCancelled { job, which: Which::AllWaiting, why });
    events.extend(cancelled);
    Ok(events)
}

/// What is left over of the last gang would never be placed, nor would more at once than may run.
fn makes_whole_gangs(submit: &Submit) -> Result<(), Rejection> {
    let (tasks, size) = (submit.spec.indices().map_or(0, |it| it.len()), submit.gang.size());
    let are_whole = tasks.is_multiple_of(size);
    if are_whole && submit.spec.max_running.is_none_or(|most| size <= most) {
        return Ok(());
    }
    let what = format!("{size} tasks together need a multiple of {size}, and as many may run");
    Err(Rejection::InvalidSpec(vec![Problem { field: "gang", what }]))
}

/// One user's queue must not take the memory that the others' need.
fn has_room(state: &State, submit: &Submit) -> Result<(), Rejection> {
    let now = state.unfinished().of(&submit.by.user);
    let tasks = submit.spec.indices().map_or(0, |indices| u64::from(indices.len()));
    if now.jobs >= TooMany::most_jobs(submit.by.role) {
        return Err(Rejection::TooMany(TooMany::Jobs(submit.by.role)));
    }
    if now.tasks.saturating_add(tasks) > MAX_UNFINISHED_TASKS {
        return Err(Rejection::TooMany(TooMany::Tasks));
    }
    // As it was before this one: what one job may take has limits of its own.
    if now.bytes >= TooMany::most_bytes(submit.by.role) {
        return Err(Rejection::TooMany(TooMany::Bytes(submit.by.role)));
    }
    Ok(())
}

/// The job this submission repeats, if it does.
pub fn already_submitted(state: &State, submit: &Submit) -> Result<Option<JobId>, Rejection> {
    let Some(key) = &submit.key else { return Ok(None) };
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        let what = format!("{} bytes; between 1 and {MAX_KEY_BYTES}", key.len());
        return Err(Rejection::InvalidSpec(vec![Problem { field: "idempotency key", what }]));
    }
    let used = state.keys.get(KeyDigest::of(&submit.by.user, key));
    // What somebody of the same name used before is not this one's.
    match used.filter(|used| used.job >= submit.by.since) {
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
    let theirs = |job: &&Job| submit.by.may_touch(&state.owned(after.job, job));
    if let Some(job) = state.job(after.job).filter(theirs) {
        return Ok(Some(job.state()).filter(|how| how.is_over()));
    }
    let known = submit.ended.iter().find(|(job, _)| *job == after.job);
    let missing = Rejection::NoSuchDependency(after.job);
    known.map(|(_, how)| Some(*how)).ok_or(missing)
}
