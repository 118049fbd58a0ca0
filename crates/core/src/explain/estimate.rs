//! When a job may start: the first room by what runs now, then all tasks of the jobs before it at
//! the pace of their kind. A guess with its basis, never a promise; nothing is said when nothing is
//! known.

use super::look::pilot_at;
use super::{line, need_of};
use crate::ranks::Rank;
use crate::schedule::needs::Need;
use crate::schedule::reserve::{RoomFrom, limit_of, room_by};
use crate::shape::{Shape, ShapeId};
use crate::state::State;
use shipway_model::prospect::Estimate;
use shipway_model::{Millis, TaskId, Timestamp, UserName};
use std::collections::BTreeMap;

/// Nodes of one class that are looked at for the first room.
const MAX_LOOKED_AT: usize = 16;

pub(super) fn of(
    state: &State,
    (id, user, rank): (ShapeId, &UserName, Option<Rank>),
    now: Timestamp,
) -> Option<Estimate> {
    let shape = state.shapes().get(id);
    let need = need_of(state, shape);
    let room_at = first_room(state, shape, &need, now)?;
    let pace = state.shapes().pace(id);
    let before = before(state, &need, &line::before(state, user, rank, now)?)?;
    Some(Estimate {
        at: room_at.plus(before.work),
        room_at,
        jobs_before: before.jobs,
        tasks_before: before.tasks,
        work_before: before.work,
        side_by_side: slots(state, &need),
        usual: pace.mean,
        known_of: pace.tasks,
    })
}

/// What has to run first.
#[derive(Debug, Default)]
struct Before {
    jobs: u32,
    tasks: u64,
    work: Millis,
}

/// Counted are those that could run where this one could. `None` where it is not known of one of
/// them how long its tasks run.
fn before(state: &State, need: &Need, waiting: &BTreeMap<ShapeId, (u32, u64)>) -> Option<Before> {
    let mut found = Before::default();
    for (shape, (jobs, tasks)) in waiting {
        let theirs = need_of(state, state.shapes().get(*shape));
        let classes = state.planner().nodes.classes();
        let mut shared = classes.filter(|(at, _)| need.could_use(*at) && theirs.could_use(*at));
        if shared.next().is_none() {
            continue;
        }
        let pace = state.shapes().pace(*shape);
        if pace.tasks == 0 {
            return None;
        }
        let slots = u64::from(slots(state, &theirs).max(1));
        let work = pace.mean.0.saturating_mul(*tasks) / slots;
        found.jobs = found.jobs.saturating_add(*jobs);
        found.tasks = found.tasks.saturating_add(*tasks);
        found.work = Millis(found.work.0.saturating_add(work));
    }
    Some(found)
}

fn first_room(state: &State, shape: &Shape, need: &Need, now: Timestamp) -> Option<Timestamp> {
    let nodes = &state.planner().nodes;
    let looked_at = nodes.classes().filter(|(at, _)| need.could_use(*at)).flat_map(|(_, class)| {
        let usable = class.members.nodes().iter().filter_map(|at| {
            let pilot = pilot_at(state, *at)?;
            let groups = need.on_node(nodes, (*at, now), || Some(pilot))?;
            Some((pilot, nodes.usable(*at, groups), nodes.until(*at)))
        });
        usable.take(MAX_LOOKED_AT)
    });
    let times = looked_at.map(|(pilot, usable, until)| {
        let end = |task| expected_end(state, task, now);
        let room = room_by(state, (pilot, usable), &shape.resources, now, end);
        if room.leaves_time(shape.at_most, until) { room } else { RoomFrom::Never }
    });
    times.min().and_then(RoomFrom::time)
}

/// By its time limit or by how long its kind usually runs, whichever is sooner.
fn expected_end(state: &State, task: TaskId, now: Timestamp) -> Option<Timestamp> {
    let active = state.active().get(&task)?;
    let shape = state.job(task.job)?.shape;
    let begun = active.started.unwrap_or(now);
    let pace = state.shapes().pace(shape);
    // One that has run longer than usual says nothing about when it will end.
    let usual = (pace.tasks > 0).then(|| begun.plus(pace.mean)).filter(|end| *end > now);
    [usual, limit_of(state, task, now)].into_iter().flatten().min()
}

/// How many such tasks all nodes together can run.
fn slots(state: &State, need: &Need) -> u32 {
    let nodes = &state.planner().nodes;
    let classes = nodes.classes().filter(|(at, _)| need.could_use(*at));
    let all = classes.map(|(_, class)| {
        let each = need.times_in(class).min(u64::from(u32::MAX));
        each.saturating_mul(class.members.nodes().len() as u64)
    });
    u32::try_from(all.fold(0u64, u64::saturating_add)).unwrap_or(u32::MAX)
}
