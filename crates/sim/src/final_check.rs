//! What must hold when everything has come to rest: nothing is lost, nothing ran twice, and the
//! server's books agree with what really happened.

use crate::world::{WishState, World};
use shipway_core::explain::explain;
use shipway_core::invariants;
use shipway_core::job::Job;
use shipway_model::{JobId, Outcome, TaskId, TaskState};

/// The first job that is not over yet, with its reasons.
pub fn not_over(world: &World) -> Option<String> {
    let Some(server) = &world.server else { return Some("the server is down".into()) };
    let unanswered = world
        .wishes
        .iter()
        .position(|wish| wish.state == WishState::Unanswered && wish.key.is_some());
    if let Some(wish) = unanswered {
        return Some(format!("wish {wish} was never answered"));
    }
    let (id, job) = server.state().jobs().iter().find(|(_, job)| job.ended.is_none())?;
    let reasons: Vec<String> =
        explain(server.state(), id, server.state().at()).iter().map(ToString::to_string).collect();
    let active: Vec<String> = server
        .state()
        .active_of(id)
        .take(3)
        .map(|(task, active)| format!("{task} on {}: {:?}", active.pilot, active))
        .collect();
    Some(format!(
        "job {id} is not over: {:?}; reasons {reasons:?}; active {active:?}",
        job.tasks.counts()
    ))
}

pub fn check(world: &World) -> Result<(), String> {
    let Some(server) = &world.server else { return Err("the server is down".into()) };
    if let Some(first) = invariants::check(server.state()).first() {
        return Err(format!("at the end: {first:?}"));
    }
    if let Some(id) = world.truth.alive().next() {
        return Err(format!("{id} is alive though every job is over"));
    }
    for (id, _) in world.accepted() {
        if world.disk.spec(id).is_none() {
            return Err(format!("job {id} was accepted and is in no journal"));
        }
    }
    for id in world.disk.jobs() {
        let record = world.disk.record(id);
        let job = server.state().job(id).or(record.as_ref().map(|record| &record.job));
        let job = job.ok_or_else(|| format!("job {id} is neither in memory nor in history"))?;
        check_job(world, id, job)?;
    }
    Ok(())
}

fn check_job(world: &World, id: JobId, job: &Job) -> Result<(), String> {
    if job.ended.is_none() {
        return Err(format!("job {id} is not over"));
    }
    for (position, state) in job.tasks.states() {
        let index = job.indices.index(position).ok_or("a task without an index")?;
        check_task(world, id.task(index), state)?;
    }
    Ok(())
}

fn check_task(world: &World, task: TaskId, state: TaskState) -> Result<(), String> {
    let recorded: Vec<_> = world.truth.recorded_of(task).collect();
    let real: Vec<_> = world.truth.attempts_of(task).map(|(attempt, _)| attempt).collect();
    // Attempts are numbered without gaps, and each has exactly one end on record.
    if let Some((at, (attempt, _))) =
        recorded.iter().enumerate().find(|(at, (attempt, _))| attempt.0 as usize != at + 1)
    {
        return Err(format!("task {task}: the {}. attempt has number {attempt}", at + 1));
    }
    if let Some(attempt) = real.iter().find(|n| !recorded.iter().any(|(told, _)| *told == **n)) {
        return Err(format!("task {task} attempt {attempt} ran and no journal knows its end"));
    }
    let last = recorded.last().map(|(_, outcome)| *outcome);
    let ok = Outcome::Exit { code: 0 };
    let agrees = match state {
        TaskState::Succeeded => last == Some(&ok),
        TaskState::Failed => last.is_some_and(|last| *last != ok),
        TaskState::Cancelled => last != Some(&ok),
        TaskState::Waiting | TaskState::Placed | TaskState::Running => false,
    };
    if !agrees {
        return Err(format!("task {task} is {state}, but its last end was {last:?}"));
    }
    if state == TaskState::Succeeded && recorded.len() == 1 && real.len() != 1 {
        return Err(format!("task {task} succeeded at once but ran {} times", real.len()));
    }
    Ok(())
}
