//! One pass: the next user, their next task, a node for it; until nothing fits or the plan is full.

use super::order::{Order, Turn};
use super::reserve::{MAX_LOOKED_AT, MAX_RESERVATIONS, Reservation, Room, room_at};
use super::search::{Asking, Progress, Scope, Search};
use super::{MAX_PLAN, Plan, Planner, backlog};
use crate::event::Placement;
use crate::schedule::nodes::{NodeAt, NodeTable};
use crate::shape::ShapeId;
use crate::state::State;
use shipway_model::{JobId, Ordinal, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// With more nodes changed than this, every shape is tried: asking each of them about each node
/// would cost more.
const MANY_HOT: usize = 256;
/// Blocked requests at the head of the line that are looked at for a reservation.
const MAX_PASSED_BY: usize = 16;

/// The shapes that may still find a place in this pass.
#[derive(Debug, Default)]
pub(super) struct Open {
    shapes: BTreeMap<ShapeId, (Scope, Progress)>,
}

impl Open {
    pub(super) fn is_open(&self, shape: ShapeId) -> bool {
        self.shapes.contains_key(&shape)
    }
    pub(super) fn len(&self) -> usize {
        self.shapes.len()
    }
    pub(super) fn shapes(&self) -> impl Iterator<Item = ShapeId> + '_ {
        self.shapes.keys().copied()
    }
}

pub(super) fn run(state: &State, planner: &mut Planner, now: Timestamp) -> Plan {
    drop_old_reservations(state, planner);
    let open = open_shapes(state, planner);
    if open.shapes.is_empty() {
        planner.nodes.hot.clear();
        return Plan::default();
    }
    let Planner { nodes, needs, blocked, reservations } = planner;
    let mut pass = Pass {
        state,
        needs,
        now,
        open,
        order: Order::new(state, now),
        search: Search::new(state, nodes, now),
        reservations: std::mem::take(reservations),
        closed: BTreeSet::new(),
        plan: Plan::default(),
        placed: 0,
    };
    pass.serve_reservations();
    pass.reserve_for_the_first();
    pass.serve_users();
    let Pass { search, closed, plan, reservations: held, open, .. } = pass;
    let nodes = search.undo();
    *reservations = held;
    // A shape that was placed to the last task is not known to fit nowhere.
    blocked.retain(|shape| !open.is_open(*shape) || closed.contains(shape));
    blocked.extend(closed);
    if !plan.more {
        nodes.hot.clear();
    }
    plan
}

/// Shapes that may fit: those not known to fit nowhere, and those that fit where room was made.
fn open_shapes(state: &State, planner: &mut Planner) -> Open {
    let mut open = Open::default();
    let hot = !planner.nodes.hot.is_empty();
    for shape in state.ready().shapes() {
        let blocked = planner.blocked.contains(&shape);
        if blocked && !hot {
            continue;
        }
        planner.need(state, shape);
        let scope = if blocked { Scope::Hot } else { Scope::All };
        if !blocked || may_fit_hot(state, planner, shape) {
            open.shapes.insert(shape, (scope, Progress::default()));
        }
    }
    open
}

fn may_fit_hot(state: &State, planner: &Planner, shape: ShapeId) -> bool {
    let hot = &planner.nodes.hot;
    let need = planner.needs[shape.at()].as_ref().expect("just made");
    let sent_ahead = backlog::may_be_short(state.shapes().pace(shape), need.gpus, need.named);
    let fits = |at: &NodeAt| {
        let groups = planner.nodes.class_of(*at).and_then(|class| need.groups(class));
        groups.is_some_and(|groups| sent_ahead || need.fits(planner.nodes.free(*at), groups))
    };
    hot.len() > MANY_HOT || hot.iter().any(fits)
}

/// A job that started, ended or was taken back needs no node held; and a node may have gone.
fn drop_old_reservations(state: &State, planner: &mut Planner) {
    let Planner { nodes, reservations, .. } = planner;
    reservations.retain(|held| {
        let waits = state.job(held.job).is_some_and(|job| state.ready().contains(held.job, job));
        let keep = waits && nodes.is_connected(held.node);
        if !keep && nodes.is_connected(held.node) {
            nodes.hot.insert(held.node);
        }
        keep
    });
}

struct Pass<'a> {
    state: &'a State,
    needs: &'a [Option<super::Need>],
    now: Timestamp,
    open: Open,
    order: Order<'a>,
    search: Search<'a>,
    reservations: Vec<Reservation>,
    /// Shapes that were found to fit nowhere.
    closed: BTreeSet<ShapeId>,
    plan: Plan,
    placed: usize,
}

impl Pass<'_> {
    fn asking(&self, id: JobId, shape: ShapeId) -> Option<Asking<'_>> {
        Some(Asking {
            id,
            job: self.state.job(id)?,
            need: self.needs[shape.at()].as_ref()?,
            resources: &self.state.shapes().get(shape).resources,
            reservations: &self.reservations,
        })
    }

    /// Who has waited for a node to be emptied gets it before anybody else.
    fn serve_reservations(&mut self) {
        for held in self.reservations.clone() {
            let Some(shape) = self.state.job(held.job).map(|job| job.shape) else { continue };
            let Some(task) = self.order.task_of(held.job) else { continue };
            let fits =
                self.asking(held.job, shape).is_some_and(|a| self.search.fits(&a, held.node));
            if fits {
                self.put(held.job, shape, task, held.node);
                let rank = crate::ranks::Rank { key: 0, job: held.job };
                self.order.served(&Turn { rank, shape, task }, None);
                self.reservations.retain(|other| other.job != held.job);
            }
        }
    }

    /// Requests that were found to fit nowhere earlier, and stand before the first that may fit
    /// now: they are not to be passed by for ever.
    fn reserve_for_the_first(&mut self) {
        for (rank, shape) in self.order.first_blocked(&self.open, MAX_PASSED_BY) {
            let Some(task) = self.order.task_of(rank.job) else { continue };
            self.reserve_if_starved(&Turn { rank, shape, task });
        }
    }

    fn serve_users(&mut self) {
        while let Some(mut user) = self.order.next_user() {
            while self.order.is_still_first(&user) {
                let Some(turn) = self.order.turn(&mut user, &self.open) else { break };
                if self.placed == MAX_PLAN {
                    self.plan.more = true;
                    return;
                }
                match self.find(&turn) {
                    Some(at) => {
                        self.put(turn.rank.job, turn.shape, turn.task, at);
                        let charge = self.needs[turn.shape.at()].as_ref().map_or(0, |n| n.charge);
                        self.order.served(&turn, Some((&mut user, charge)));
                    }
                    None => self.close(&turn),
                }
            }
            if self.order.turn(&mut user, &self.open).is_some() {
                self.order.back(user);
            }
        }
    }

    fn find(&mut self, turn: &Turn) -> Option<NodeAt> {
        // Taken out while it is in use: the rest of the pass is only read meanwhile.
        let (scope, progress) = self.open.shapes.get_mut(&turn.shape)?;
        let (scope, mut progress) = (*scope, std::mem::take(progress));
        let asking = self.asking(turn.rank.job, turn.shape)?;
        let found = self.search.find(&asking, scope, &mut progress);
        if let Some(entry) = self.open.shapes.get_mut(&turn.shape) {
            entry.1 = progress;
        }
        found
    }

    fn put(&mut self, id: JobId, shape: ShapeId, task: Ordinal, at: NodeAt) {
        let Some(job) = self.state.job(id) else { return };
        let asking = Asking {
            id,
            job,
            need: self.needs[shape.at()].as_ref().expect("made for every open shape"),
            resources: &self.state.shapes().get(shape).resources,
            reservations: &self.reservations,
        };
        let devices = self.search.put(&asking, at);
        let index = job.indices.index(task).expect("a task in its table has an index");
        let attempt = job.tasks.next_attempt(task);
        let placement = Placement { task: id.task(index), attempt, devices };
        let pilot = self.search.pilot(at).expect("a node in the table is a pilot's").clone();
        self.plan.placements.entry(pilot).or_default().push(placement);
        self.placed += 1;
    }

    /// This shape fits nowhere; the first few such requests have a node held for them.
    fn close(&mut self, turn: &Turn) {
        self.open.shapes.remove(&turn.shape);
        self.closed.insert(turn.shape);
        self.reserve_if_starved(turn);
    }

    fn reserve_if_starved(&mut self, turn: &Turn) {
        if self.reservations.len() < MAX_RESERVATIONS && self.is_starved_by_others(turn) {
            let made = self.reserve(turn);
            self.reservations.extend(made);
        }
    }

    /// Without anybody smaller in line, the next room that comes is theirs anyway.
    fn is_starved_by_others(&self, turn: &Turn) -> bool {
        let charge = |shape: ShapeId| {
            self.needs.get(shape.at()).and_then(Option::as_ref).map(|need| need.charge)
        };
        let mine = charge(turn.shape).unwrap_or(0);
        let reserved = self.reservations.iter().any(|held| held.job == turn.rank.job);
        let mut others = self.state.ready().shapes();
        !reserved && others.any(|other| charge(other).is_some_and(|other| other < mine))
    }

    /// The node where it can start first, by the time limits of what runs there.
    fn reserve(&self, turn: &Turn) -> Option<Reservation> {
        let need = self.needs[turn.shape.at()].as_ref()?;
        let resources = &self.state.shapes().get(turn.shape).resources;
        let taken: BTreeSet<NodeAt> = self.reservations.iter().map(|held| held.node).collect();
        let nodes = self.search.candidates(need, MAX_LOOKED_AT);
        let free = nodes.into_iter().filter(|at| !taken.contains(at));
        let times = free.filter_map(|at| {
            let pilot = self.state.pilots().get(self.search.pilot(at)?)?;
            Some((room_at(self.state, pilot, resources, self.now), at))
        });
        let (room, node) = times.filter(|(room, _)| *room != Room::Never).min()?;
        let (job, made, latest) = (turn.rank.job, self.now, room.time());
        Some(Reservation { job, node, latest, made, need: need.clone() })
    }
}

impl Search<'_> {
    pub(super) fn pilot(&self, at: NodeAt) -> Option<&shipway_model::PilotId> {
        self.table().pilot(at)
    }

    /// Nodes that could serve this need when empty; those with most devices free first.
    fn candidates(&self, need: &super::Need, most: usize) -> Vec<NodeAt> {
        let table: &NodeTable = self.table();
        let mut found = Vec::new();
        for (class, _) in &need.classes {
            let class = table.class(*class);
            let by_devices = class.by_whole.iter().rev().flatten().copied();
            let plain = class.members.iter().copied().filter(|_| class.by_whole.is_empty());
            found.extend(by_devices.chain(plain).take(most));
        }
        found
    }
}
