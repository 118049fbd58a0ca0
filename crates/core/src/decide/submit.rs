//! A user submits jobs, all of them or none. A repeat with the same key changes nothing and is not
//! an error.
//!
//! Everybody waits while this goes on, so it does no more than it must: what there is no room for
//! is not looked at, and whether expressions can be read was judged by whoever took the request
//! (`requirements::validate`), which takes milliseconds for each.

use crate::command::{NewJob, Submit};
use crate::consequence::is_met;
use crate::done::{Decided, Done};
use crate::event::{CancelReason, Event, Submitted, Which};
use crate::job::Job;
use crate::keys::KeyDigest;
use crate::rejection::{Rejection, TooMany};
use crate::requirements::{RankSteps, pointless_rank};
use crate::shape::Shape;
use crate::state::State;
use shipway_model::limits::{MAX_KEY_BYTES, MAX_UNFINISHED_TASKS};
use shipway_model::validate::{Problem, validate};
use shipway_model::{Actor, After, JobId, JobState};

pub(super) fn decide(state: &State, submit: &Submit) -> Result<Decided, Rejection> {
    if let Some(job) = already_submitted(state, submit)? {
        debug_assert!(job < state.next_job(), "a used key names a job that exists");
        let done = Done::Submitted { first: job, repeated: true };
        return Ok(Decided { events: Vec::new(), done });
    }
    has_room(state, submit)?;
    for new in &submit.jobs {
        validate(&new.spec).map_err(Rejection::InvalidSpec)?;
        makes_whole_gangs(new)?;
    }
    let mut steps = RankSteps::default();
    let mut events = Vec::with_capacity(submit.jobs.len());
    // Only when all of them are there: who waits for one that never runs has to learn of it.
    let mut cancelled = Vec::new();
    for (at, new) in submit.jobs.iter().enumerate() {
        let (submitted, never) = one(state, submit, (at, new), &mut steps)?;
        events.push(submitted);
        let which = Which::AllWaiting;
        cancelled.extend(never.map(|why| Event::TasksCancelled { job: new.job, which, why }));
    }
    events.append(&mut cancelled);
    let first = submit.first().map(|first| Done::Submitted { first, repeated: false });
    Ok(Decided { events, done: first.unwrap_or_default() })
}

/// The job, and why it will never run if that is known already.
fn one(
    state: &State,
    submit: &Submit,
    (at, new): (usize, &NewJob),
    steps: &mut RankSteps,
) -> Result<(Event, Option<CancelReason>), Rejection> {
    let shape = Shape::of(&new.spec, &submit.by.user, new.gang);
    if let Some(problem) = pointless_rank(&shape, state, steps) {
        return Err(Rejection::InvalidSpec(vec![problem]));
    }
    let first = submit.first().unwrap_or(new.job);
    let is_of_these = |after: &&After| (first..new.job).contains(&after.job);
    let mut met = Vec::new();
    let mut never = None;
    for after in new.spec.after.iter().filter(|after| !is_of_these(after)) {
        match how_it_ended(state, &submit.by, new, after)? {
            Some(how) if is_met(after.condition, how) => met.push(after.job),
            Some(how) => never = Some(CancelReason::Dependency { on: after.job, ended: how }),
            None => {}
        }
    }
    let submitted = Event::JobSubmitted(Box::new(Submitted {
        job: new.job,
        owner: submit.by.user.clone(),
        spec: new.spec.clone(),
        // The others follow the first, whose number is all that a repeat has to find.
        key: submit.key.clone().filter(|_| at == 0),
        digest: if at == 0 { submit.digest } else { 0 },
        gang: new.gang,
        met,
    }));
    Ok((submitted, never))
}

/// What is left over of the last gang would never be placed, nor would more at once than may run.
fn makes_whole_gangs(new: &NewJob) -> Result<(), Rejection> {
    let (tasks, size) = (new.spec.indices().map_or(0, |it| it.len()), new.gang.size());
    let are_whole = tasks.is_multiple_of(size);
    if are_whole && new.spec.max_running.is_none_or(|most| size <= most) {
        return Ok(());
    }
    let what = format!("{size} tasks together need a multiple of {size}, and as many may run");
    Err(Rejection::InvalidSpec(vec![Problem { field: "gang", what }]))
}

/// One user's queue must not take the memory that the others' need.
fn has_room(state: &State, submit: &Submit) -> Result<(), Rejection> {
    let now = state.unfinished().of(&submit.by.user);
    let tasks = |new: &NewJob| new.spec.indices().map_or(0, |indices| u64::from(indices.len()));
    let tasks: u64 = submit.jobs.iter().map(tasks).fold(0, u64::saturating_add);
    let jobs = now.jobs.saturating_add(submit.jobs.len() as u64);
    if jobs > TooMany::most_jobs(submit.by.role) {
        return Err(Rejection::TooMany(TooMany::Jobs(submit.by.role)));
    }
    if now.tasks.saturating_add(tasks) > MAX_UNFINISHED_TASKS {
        return Err(Rejection::TooMany(TooMany::Tasks));
    }
    // As it was before these: what one request may take has limits of its own.
    if now.bytes >= TooMany::most_bytes(submit.by.role) {
        return Err(Rejection::TooMany(TooMany::Bytes(submit.by.role)));
    }
    Ok(())
}

/// The first job that this submission repeats, if it does; the others follow it.
fn already_submitted(state: &State, submit: &Submit) -> Result<Option<JobId>, Rejection> {
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
    by: &Actor,
    new: &NewJob,
    after: &After,
) -> Result<Option<JobState>, Rejection> {
    let theirs = |job: &&Job| by.may_touch(&state.owned(after.job, job));
    if let Some(job) = state.job(after.job).filter(theirs) {
        return Ok(Some(job.state()).filter(|how| how.is_over()));
    }
    let known = new.ended.iter().find(|(job, _)| *job == after.job);
    let missing = Rejection::NoSuchDependency(after.job);
    known.map(|(_, how)| Some(*how)).ok_or(missing)
}
