//! Guests on nodes of sites with GPUs: they come only while nobody waits who could use those, and
//! have to leave when somebody does. Who is a guest is in `core/src/guests.rs`.
//!
//! Nobody comes as a guest to a kind of nodes as long as any task waits that could use its GPUs: so
//! what guests have left is not taken by the next ones, and a task that needs it starts as soon as
//! they are gone.

use super::index::known::Needs;
use super::index::nodes::{Class, ClassAt, NodeTable};
use super::needs::Need;
use super::{Plan, Planner};
use crate::broker::demand::waiting;
use crate::load::Load;
use crate::pilot::{Active, Pilot};
use crate::shape::{Shape, ShapeId};
use crate::state::State;
use shipway_model::{PilotId, TaskId, Timestamp};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Kinds of nodes that let guests in, and for whose GPUs somebody waits.
pub(super) type Wanted = BTreeSet<ClassAt>;

/// As it is now, as far as the needs of those who wait are known.
pub(super) fn wanted(state: &State, nodes: &NodeTable, needs: &Needs) -> Wanted {
    let lets_in = nodes.classes().filter(|(_, class)| class.key.guests.is_some());
    let lets_in: Vec<ClassAt> = lets_in.map(|(at, _)| at).collect();
    if lets_in.is_empty() {
        return Wanted::new();
    }
    let shapes = || state.ready().demand().shapes().filter_map(|shape| needs.get(shape));
    // Of nodes that are told apart, one that it could use has to be there.
    let is_for_some = |need: &Need, at: ClassAt| {
        let pilot = |node| state.pilots().get(nodes.pilot(node)?);
        let mut all = nodes.class(at).members.nodes().iter();
        !need.per_node
            || all.any(|node| need.on_node(nodes, (*node, Timestamp(0)), || pilot(*node)).is_some())
    };
    let is_wanted = |at: &ClassAt| {
        shapes().any(|need| need.gpus > 0 && need.could_use(*at) && is_for_some(need, *at))
    };
    lets_in.into_iter().filter(is_wanted).collect()
}

/// Where nobody waits for the GPUs any more, guests may be looked for a place once more.
pub(super) fn follow(state: &State, planner: &mut Planner) {
    let now = wanted(state, &planner.nodes, &planner.needs);
    for at in planner.wanted.difference(&now) {
        let nodes = planner.nodes.class(*at).members.nodes().to_vec();
        planner.nodes.are_hot(nodes.into_iter());
    }
    planner.wanted = now;
}

impl Planner {
    /// Whether nodes of this kind may be looked at for such tasks now.
    pub(crate) fn is_open(&self, shape: &Shape, at: ClassAt, class: &Class) -> bool {
        let is_kept_out = shape.is_guest_at(class) && self.wanted.contains(&at);
        !(is_kept_out || shape.is_kept_from(class))
    }
}

/// A node with guests, while it is found out who has to leave.
struct Node<'a> {
    id: &'a PilotId,
    pilot: &'a Pilot,
    class: ClassAt,
    /// Without those that have been told to leave.
    load: Load,
    /// The others; who came last leaves first.
    guests: Vec<TaskId>,
}

/// The guests that have to leave for what waits and has no place in this plan. What was told to
/// leave before counts as gone: nobody leaves twice for the same.
pub(super) fn to_leave(
    state: &State,
    planner: &Planner,
    plan: &Plan,
    now: Timestamp,
) -> Vec<TaskId> {
    // A full plan is followed by the next at once.
    if planner.wanted.is_empty() || plan.more {
        return Vec::new();
    }
    let mut nodes = with_guests(state, planner, plan);
    if nodes.is_empty() {
        return Vec::new();
    }
    let need = |shape: ShapeId| planner.known_need(shape).filter(|need| need.gpus > 0);
    let mut waiting = waiting(state, |shape| need(shape).is_some());
    for placement in plan.by_pilot().flat_map(|(_, placements)| placements) {
        let shape = state.job(placement.task.job).map(|job| job.shape);
        if let Some(tasks) = shape.and_then(|shape| waiting.get_mut(&shape)) {
            *tasks = tasks.saturating_sub(1);
        }
    }
    let mut leave = Vec::new();
    for (shape, mut tasks) in waiting {
        let Some(need) = need(shape) else { continue };
        for node in nodes.iter_mut().filter(|node| need.could_use(node.class)) {
            while tasks > 0 && node.clear(state, (planner, now), (shape, need), &mut leave) {
                tasks -= 1;
            }
        }
    }
    leave
}

fn with_guests<'a>(state: &'a State, planner: &'a Planner, plan: &Plan) -> Vec<Node<'a>> {
    let placed: BTreeMap<_, _> = plan.by_pilot().collect();
    let mut found = Vec::new();
    for class in &planner.wanted {
        for at in planner.nodes.class(*class).members.nodes() {
            let Some(id) = planner.nodes.pilot(*at) else { continue };
            let Some(pilot) = state.pilots().get(id) else { continue };
            let all: Vec<_> = pilot.placed.iter().filter_map(|task| guest(state, *task)).collect();
            if all.is_empty() {
                continue;
            }
            let mut node =
                Node { id, pilot, class: *class, load: pilot.load.clone(), guests: vec![] };
            let (mut guests, mut is_left) = (Vec::new(), false);
            for (task, active) in all {
                if active.stopping.is_some() {
                    node.remove(state, task, active);
                    is_left = true;
                } else {
                    guests.push((active.placed, task));
                }
            }
            if guests.is_empty() && !is_left {
                continue;
            }
            guests.sort();
            node.guests = guests.into_iter().map(|(_, task)| task).collect();
            for placement in placed.get(id).into_iter().flat_map(|it| it.iter()) {
                if let Some(job) = state.job(placement.task.job) {
                    let need = &state.shapes().get(job.shape).resources;
                    node.load.add(need, &placement.devices);
                }
            }
            found.push(node);
        }
    }
    // Where fewest would have to leave.
    found.sort_by_key(|node| (node.guests.len(), Reverse(node.pilot.ad.capacity.cpus)));
    found
}

fn guest(state: &State, task: TaskId) -> Option<(TaskId, &Active)> {
    let shape = state.shapes().get(state.job(task.job)?.shape);
    let active = if shape.is_guest { state.active().get(&task)? } else { return None };
    Some((task, active))
}

impl Node<'_> {
    fn remove(&mut self, state: &State, task: TaskId, active: &Active) {
        if let Some(job) = state.job(task.job) {
            self.load.remove(&state.shapes().get(job.shape).resources, &active.devices);
        }
    }

    /// Makes room for one task of this shape, if that can be done; it has the room then.
    fn clear(
        &mut self,
        state: &State,
        (planner, now): (&Planner, Timestamp),
        (id, need): (ShapeId, &Need),
        leave: &mut Vec<TaskId>,
    ) -> bool {
        let shape = state.shapes().get(id);
        let whose = (self.id, self.pilot);
        let Some(usable) = planner.usable(state.shapes(), id, whose, now) else { return false };
        let (ad, wanted) = (&self.pilot.ad, &shape.resources);
        let (before, mut stay) = (self.load.clone(), self.guests.len());
        while self.load.lacks(ad, wanted, usable).is_some() {
            let last = stay.checked_sub(1).and_then(|at| self.guests.get(at).copied());
            let Some((task, active)) = last.and_then(|task| guest(state, task)) else {
                self.load = before;
                return false;
            };
            self.remove(state, task, active);
            stay -= 1;
        }
        debug_assert!(need.gpus > 0, "others do not drive anybody out");
        let devices = self.load.choose_devices(ad, wanted, usable);
        self.load.add(wanted, &devices);
        leave.extend(self.guests.drain(stay..));
        true
    }
}
