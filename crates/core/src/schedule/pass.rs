//! One pass: the next user, their next task, a node for it; until nothing fits or the plan is full.

use super::needs::Need;
use super::nodes::NodeAt;
use super::order::{Order, Turn};
use super::reserve::{self, MAX_LOOKED_AT, Reservation, Room, room_at};
use super::search::{Asking, Progress, Scope, Search};
use super::{MAX_PLAN, Plan, Planner, backlog};
use crate::event::Placement;
use crate::shape::ShapeId;
use crate::state::State;
use shipway_model::Timestamp;
use std::collections::BTreeSet;

/// With more nodes changed than this, every shape is tried: asking each of them about each node
/// would cost more.
const MANY_HOT: usize = 256;
/// Searches for a node to keep, in one pass: each looks at many nodes.
const MAX_SEARCHES: usize = 8;

/// The shapes that may still find a place in this pass, or a node to be kept for them.
#[derive(Debug, Default)]
pub(super) struct Open {
    by_shape: Vec<Option<Scope>>,
    progress: Vec<Progress>,
    listed: Vec<ShapeId>,
    len: usize,
}

impl Open {
    fn add(&mut self, shape: ShapeId, scope: Scope) {
        let size = shape.at() + 1;
        if self.by_shape.len() < size {
            self.by_shape.resize(size, None);
            self.progress.resize_with(size, Progress::default);
        }
        self.by_shape[shape.at()] = Some(scope);
        self.listed.push(shape);
        self.len += 1;
    }
    fn close(&mut self, shape: ShapeId) {
        self.len -= usize::from(self.by_shape[shape.at()].take().is_some());
    }
    fn scope(&self, shape: ShapeId) -> Option<Scope> {
        self.by_shape.get(shape.at()).copied().flatten()
    }
    pub(super) fn is_open(&self, shape: ShapeId) -> bool {
        self.scope(shape).is_some()
    }
    pub(super) fn len(&self) -> usize {
        self.len
    }
    pub(super) fn shapes(&self) -> impl Iterator<Item = ShapeId> + '_ {
        self.listed.iter().copied().filter(|shape| self.is_open(*shape))
    }
}

pub(super) fn run(state: &State, planner: &mut Planner, now: Timestamp) -> Plan {
    drop_old_reservations(state, planner);
    let (open, least) = open_shapes(state, planner);
    if open.len == 0 {
        planner.nodes.hot.clear();
        return Plan::default();
    }
    let Planner { nodes, needs, blocked, reservations } = planner;
    let most_reservations = reserve::most(nodes.len());
    let mut pass = Pass {
        state,
        needs,
        now,
        open,
        order: Order::new(state, now),
        search: Search::new(state, nodes, now),
        reservations: std::mem::take(reservations),
        most_reservations,
        searches: 0,
        least,
        closed: Vec::new(),
        placed: Vec::new(),
        more: false,
    };
    pass.serve_reservations();
    pass.serve_users();
    let Pass { search, closed, placed, more, reservations: held, open, .. } = pass;
    let plan = Plan { placements: search.by_pilot(placed), more };
    let nodes = search.undo();
    *reservations = held;
    // What found a place to its last task is not known to fit nowhere.
    for shape in open.shapes().filter(|shape| open.scope(*shape) == Some(Scope::Hot)) {
        blocked[shape.at()] = false;
    }
    for shape in closed {
        blocked[shape.at()] = true;
    }
    if !plan.more {
        nodes.hot.clear();
    }
    plan
}

/// Shapes that may fit: those not known to fit nowhere, and those that fit where room was made.
/// The others may still have a node kept for them, when anything at all is to be placed. Also the
/// least that anybody who waits is charged.
fn open_shapes(state: &State, planner: &mut Planner) -> (Open, u64) {
    let mut open = Open::default();
    let mut blocked = Vec::new();
    let mut least = u64::MAX;
    let hot = !planner.nodes.hot.is_empty();
    for shape in state.ready().shapes() {
        let need = planner.need(state, shape);
        least = least.min(need.charge);
        if !planner.blocked[shape.at()] {
            open.add(shape, Scope::All);
        } else if hot && may_fit_hot(state, planner, shape) {
            open.add(shape, Scope::Hot);
        } else {
            blocked.push(shape);
        }
    }
    if open.len > 0 && planner.reservations.len() < reserve::most(planner.nodes.len()) {
        for shape in blocked {
            open.add(shape, Scope::Kept);
        }
    }
    (open, least)
}

fn may_fit_hot(state: &State, planner: &Planner, shape: ShapeId) -> bool {
    let hot = &planner.nodes.hot;
    let need = planner.needs[shape.at()].as_ref().expect("just made");
    if hot.len() > MANY_HOT {
        return true;
    }
    hot.iter().any(|at| {
        let free = planner.nodes.free(*at);
        let groups = || planner.nodes.class_of(*at).and_then(|class| need.groups(class));
        let fits =
            need.cpus <= free.cpus && need.memory <= free.memory && need.gpus <= free.devices;
        if fits && groups().is_some_and(|groups| need.fits(free, groups)) {
            return true;
        }
        let pace = state.shapes().pace(shape);
        backlog::may_be_short(pace, need.gpus, need.named) && groups().is_some()
    })
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
    needs: &'a [Option<Need>],
    now: Timestamp,
    open: Open,
    order: Order<'a>,
    search: Search<'a>,
    reservations: Vec<Reservation>,
    most_reservations: usize,
    searches: usize,
    /// The least that anybody who waits is charged.
    least: u64,
    /// Shapes that were found to fit nowhere.
    closed: Vec<ShapeId>,
    placed: Vec<(NodeAt, Placement)>,
    more: bool,
}

impl<'a> Pass<'a> {
    fn need(&self, shape: ShapeId) -> &'a Need {
        self.needs[shape.at()].as_ref().expect("made for every shape that anybody waits with")
    }

    fn asking(&self, turn: &Turn<'a>) -> Asking<'a> {
        Asking {
            id: turn.id,
            job: turn.job,
            need: self.need(turn.shape),
            resources: &self.state.shapes().get(turn.shape).resources,
        }
    }

    /// Who has waited for a node to be emptied gets it before anybody else.
    fn serve_reservations(&mut self) {
        let mut at = 0;
        while at < self.reservations.len() {
            let node = self.reservations[at].node;
            let turn = self.order.turn_of(self.reservations[at].job);
            let fitting =
                turn.filter(|turn| self.search.fits(&self.asking(turn), node, &self.reservations));
            if let Some(turn) = fitting {
                self.put(&turn, node);
                self.order.served(&turn, None);
                self.reservations.remove(at);
            } else {
                at += 1;
            }
        }
    }

    fn serve_users(&mut self) {
        while self.open.len() > 0
            && let Some(mut user) = self.order.next_user()
        {
            let mut turn = self.order.turn(&mut user, &self.open);
            while let Some(next) = turn {
                if self.placed.len() == MAX_PLAN {
                    self.more = true;
                    return;
                }
                if self.serve(&next) {
                    let charge = self.need(next.shape).charge;
                    self.order.served(&next, Some((&mut user, charge)));
                }
                turn = self.order.turn(&mut user, &self.open);
                if !self.order.is_still_first(&user) {
                    break;
                }
            }
            if turn.is_some() {
                self.order.back(user);
            }
        }
    }

    /// Finds a place for this task, or has one kept for it. False: neither.
    fn serve(&mut self, turn: &Turn<'a>) -> bool {
        let Some(scope) = self.open.scope(turn.shape) else { return false };
        if scope != Scope::Kept {
            let mut progress = std::mem::take(&mut self.open.progress[turn.shape.at()]);
            let found =
                self.search.find(&self.asking(turn), scope, &mut progress, &self.reservations);
            self.open.progress[turn.shape.at()] = progress;
            if let Some(at) = found {
                self.put(turn, at);
                return true;
            }
            self.closed.push(turn.shape);
        }
        // From here on it fits nowhere; the first in line have nodes kept for them.
        let kept = self.keep_a_node(turn);
        if kept {
            self.open.by_shape[turn.shape.at()] = Some(Scope::Kept);
        } else {
            self.open.close(turn.shape);
        }
        kept
    }

    fn put(&mut self, turn: &Turn<'a>, at: NodeAt) {
        let devices = self.search.put(&self.asking(turn), at);
        let index = turn.job.indices.index(turn.task).expect("a task in its table has an index");
        let attempt = turn.job.tasks.next_attempt(turn.task);
        self.placed.push((at, Placement { task: turn.id.task(index), attempt, devices }));
    }

    /// Without anybody smaller in line, the next room that comes is theirs anyway.
    fn keep_a_node(&mut self, turn: &Turn<'a>) -> bool {
        let starved = self.least < self.need(turn.shape).charge;
        let known = self.reservations.iter().any(|held| held.job == turn.id);
        let enough = self.reservations.len() >= self.most_reservations;
        if enough || !starved || known || self.searches == MAX_SEARCHES {
            return false;
        }
        self.searches += 1;
        let made = self.reserve(turn);
        let found = made.is_some();
        self.reservations.extend(made);
        found
    }

    /// The node where it can start first, by the time limits of what runs there.
    fn reserve(&self, turn: &Turn<'a>) -> Option<Reservation> {
        let need = self.need(turn.shape);
        let resources = &self.state.shapes().get(turn.shape).resources;
        let taken: BTreeSet<NodeAt> = self.reservations.iter().map(|held| held.node).collect();
        let nodes = self.search.candidates(need, MAX_LOOKED_AT);
        let free = nodes.into_iter().filter(|at| !taken.contains(at));
        let times = free.filter_map(|at| {
            let pilot = self.search.pilot(at)?;
            Some((room_at(self.state, pilot, resources, self.now), at))
        });
        let (room, node) = times.filter(|(room, _)| *room != Room::Never).min()?;
        let (job, made, latest) = (turn.id, self.now, room.time());
        Some(Reservation { job, node, latest, made, need: need.clone() })
    }
}
