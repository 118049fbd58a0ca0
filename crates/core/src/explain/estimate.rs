//! When a job may start: the first room by what runs now, then the jobs before it at the pace of
//! their kind. A guess with its basis, never a promise; nothing is said when nothing is known.

use super::look::pilot_at;
use super::need_of;
use crate::schedule::needs::Need;
use crate::schedule::reserve::{Room, limit_of, room_by};
use crate::shape::{Shape, ShapeId};
use crate::state::State;
use shipway_model::prospect::{Estimate, Place};
use shipway_model::{Millis, TaskId, Timestamp};

/// Nodes of one class that are looked at for the first room.
const MAX_LOOKED_AT: usize = 16;

pub(super) fn of(state: &State, id: ShapeId, place: &Place, now: Timestamp) -> Option<Estimate> {
    let shape = state.shapes().get(id);
    let need = need_of(state, shape);
    let room_at = first_room(state, shape, &need, now)?;
    let pace = state.shapes().pace(id);
    let before = place.own_before.saturating_add(place.users_before);
    let side_by_side = slots(state, &need);
    let rounds = u64::from(before) / u64::from(side_by_side.max(1));
    if before > 0 && pace.tasks == 0 {
        return None;
    }
    Some(Estimate {
        at: room_at.plus(Millis(pace.mean.0.saturating_mul(rounds))),
        room_at,
        jobs_before: before,
        side_by_side,
        usual: pace.mean,
        known_of: pace.tasks,
    })
}

fn first_room(state: &State, shape: &Shape, need: &Need, now: Timestamp) -> Option<Timestamp> {
    let nodes = &state.planner().nodes;
    let looked_at = nodes.classes().filter(|(at, _)| need.could_use(*at)).flat_map(|(_, class)| {
        let usable = class.members.nodes().iter().filter_map(|at| {
            let pilot = pilot_at(state, *at)?;
            let groups = need.on_node(nodes, *at, || Some(pilot))?;
            Some((pilot, nodes.usable(*at, groups)))
        });
        usable.take(MAX_LOOKED_AT)
    });
    let times = looked_at.map(|node| {
        room_by(state, node, &shape.resources, now, |task| expected_end(state, task, now))
    });
    times.min().and_then(Room::time)
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
        let has = &class.key.capacity.amounts();
        let by_gpus = (class.key.gpus() as u64).checked_div(u64::from(need.gpus));
        let each = need.amounts.alike().times_in(has).min(by_gpus.unwrap_or(u64::MAX));
        each.min(u64::from(u32::MAX)).saturating_mul(class.members.nodes().len() as u64)
    });
    u32::try_from(all.fold(0u64, u64::saturating_add)).unwrap_or(u32::MAX)
}
