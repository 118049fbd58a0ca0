//! One pass: the next user, their next task, a node for it; until nothing fits or the plan is full.

use super::needs::Need;
use super::nodes::{NodeAt, NodeTable};
use super::order::{Order, Turn, Waiting};
use super::reserve::{self, MAX_LOOKED_AT, Reservation, Room, room_at};
use super::search::{Asking, Progress, Scope, Search};
use super::{Carried, MAX_PLAN, Plan, Planner, backlog};
use crate::event::Placement;
use crate::shape::ShapeId;
use crate::state::State;
use shipway_model::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// With more nodes changed than this, every shape is tried: asking each of them about each node
/// would cost more.
const MANY_HOT: usize = 256;
/// Requests at the head of the line that are looked at for a node to keep, in one pass.
const MAX_PASSED_BY: usize = 16;
/// Searches for a node to keep, in one pass: each looks at many nodes.
const MAX_SEARCHES: usize = 4;

/// The shapes that may still find a place in this pass.
#[derive(Debug, Default)]
pub(super) struct Open {
    by_shape: Vec<Option<Scope>>,
    progress: BTreeMap<ShapeId, Progress>,
    listed: Vec<ShapeId>,
    len: usize,
}

impl Open {
    fn add(&mut self, shape: ShapeId, scope: Scope) {
        if self.by_shape.len() <= shape.at() {
            self.by_shape.resize(shape.at() + 1, None);
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
    fn shapes(&self) -> impl Iterator<Item = ShapeId> + '_ {
        self.listed.iter().copied().filter(|shape| self.is_open(*shape))
    }
}

pub(super) fn run(state: &State, planner: &mut Planner, now: Timestamp) -> Plan {
    drop_old_reservations(state, planner, now);
    if std::mem::take(&mut planner.somebody_came) {
        // Who came may stand before those that nodes are kept for.
        let kept = planner.reservations.iter().map(|held| held.node);
        planner.nodes.hot.extend(kept);
    }
    // With more room anywhere, how far searches have come says nothing any more.
    let carried = Some(std::mem::take(&mut planner.carried));
    let carried = carried.filter(|_| planner.nodes.hot.is_empty()).unwrap_or_default();
    let (mut open, least) = open_shapes(state, planner);
    planner.nodes.hot.retain(|_| open.len > 0);
    if open.len == 0 {
        return Plan::default();
    }
    open.progress = carried.progress;
    let Planner { nodes, needs, reservations, resting, .. } = planner;
    let most_reservations = reserve::most(nodes.len());
    let mut pass = Pass {
        state,
        needs,
        now,
        open,
        order: Order::new(state, now),
        search: Search::new(state, nodes, carried.moved, now),
        reservations: std::mem::take(reservations),
        resting,
        most_reservations,
        searches: 0,
        least,
        closed: Vec::new(),
        placed: Vec::new(),
        more: false,
    };
    pass.serve_reservations();
    pass.keep_nodes_for_the_first();
    pass.serve_users();
    let Pass { search, closed, placed, more, reservations: held, open, .. } = pass;
    let plan = Plan { placements: search.by_pilot(placed), more };
    let (nodes, moved) = search.undo();
    nodes.hot.clear();
    *reservations = held;
    // What found a place to its last task is not known to fit nowhere.
    for shape in open.shapes() {
        planner.blocked.clear(shape);
    }
    for shape in closed {
        planner.blocked.set(shape);
    }
    if plan.more {
        planner.carried = Carried { progress: open.progress, moved };
    }
    plan
}

/// Shapes that may fit: those not known to fit nowhere, and those that fit where room was made.
/// Also the least that anybody who waits is charged.
fn open_shapes(state: &State, planner: &mut Planner) -> (Open, u64) {
    let mut open = Open::default();
    let mut least = u64::MAX;
    let hot = planner.nodes.hot.len();
    let was_blocked = planner.blocked.stamp();
    if hot > 0 {
        planner.blocked.room_was_made();
    }
    for shape in state.ready().shapes() {
        least = least.min(planner.need(state, shape).charge);
        if !planner.blocked.was(shape, was_blocked) || hot > MANY_HOT {
            open.add(shape, Scope::All);
        } else if hot > 0 {
            let need = planner.needs[shape.at()].as_ref().expect("just made");
            if may_fit_hot(state, &planner.nodes, need, shape) {
                open.add(shape, Scope::Hot);
            } else {
                planner.blocked.set(shape);
            }
        }
    }
    (open, least)
}

fn may_fit_hot(state: &State, nodes: &NodeTable, need: &Need, shape: ShapeId) -> bool {
    let short = || backlog::may_be_short(state.shapes().pace(shape), need.gpus, need.named);
    nodes.hot.iter().any(|at| {
        let free = nodes.free(*at);
        let groups = || nodes.class_of(*at).and_then(|class| need.groups(class));
        let fits =
            need.cpus <= free.cpus && need.memory <= free.memory && need.gpus <= free.devices;
        fits && groups().is_some_and(|groups| need.fits(free, groups))
            || short() && groups().is_some()
    })
}

/// A job that started, ended or was taken back needs no node kept, and a node may have gone. Where
/// nobody knows how long it will take, others have their turn now and then.
fn drop_old_reservations(state: &State, planner: &mut Planner, now: Timestamp) {
    let Planner { nodes, reservations, resting, .. } = planner;
    resting.retain(|_, until| *until > now);
    reservations.retain_mut(|held| {
        let job = state.job(held.job).filter(|job| state.ready().contains(held.job, job));
        let over = held.ends().is_some_and(|ends| ends <= now);
        if let Some(job) = job.filter(|_| over) {
            resting.insert(job.shape, now.plus(reserve::KEPT_WITHOUT_LIMIT));
        }
        if let Some(job) = job {
            held.standing = state.fair_share().standing(&job.owner, now);
        }
        let keep = job.is_some() && !over && nodes.is_connected(held.node);
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
    resting: &'a BTreeMap<ShapeId, Timestamp>,
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
            standing: turn.standing,
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
        // When nothing is left that could be placed, nobody is passed by either.
        while self.open.len > 0
            && let Some(mut user) = self.order.next_user()
        {
            let mut turn = self.turn(&mut user);
            while let Some(next) = turn {
                if self.placed.len() == MAX_PLAN {
                    self.more = true;
                    return;
                }
                if self.serve(&next) {
                    let charge = self.need(next.shape).charge;
                    self.order.served(&next, Some((&mut user, charge)));
                }
                turn = self.turn(&mut user);
                if !self.order.is_still_first(&user) {
                    break;
                }
            }
            if turn.is_some() {
                self.order.back(user);
            }
        }
    }

    /// The user's next task that may find a place. What room was made for may be gone again: then
    /// the shape is out of this pass without a look at its jobs.
    fn turn(&mut self, user: &mut Waiting<'a>) -> Option<Turn<'a>> {
        let (open, search, needs, state) = (&mut self.open, &self.search, self.needs, self.state);
        let closed = &mut self.closed;
        self.order.turn(user, |shape| match open.scope(shape) {
            None => false,
            Some(Scope::All) => true,
            Some(Scope::Hot) => {
                let need = needs[shape.at()].as_ref().expect("made for every open shape");
                let fits = may_fit_hot(state, search.table(), need, shape);
                if !fits {
                    open.close(shape);
                    closed.push(shape);
                }
                fits
            }
        })
    }

    /// Finds a place for this task. A shape that fits nowhere is out of this pass.
    fn serve(&mut self, turn: &Turn<'a>) -> bool {
        let Some(scope) = self.open.scope(turn.shape) else { return false };
        let mut progress = self.open.progress.remove(&turn.shape).unwrap_or_default();
        let found = self.search.find(&self.asking(turn), scope, &mut progress, &self.reservations);
        if let Some(at) = found {
            self.open.progress.insert(turn.shape, progress);
            self.put(turn, at);
            return true;
        }
        self.closed.push(turn.shape);
        self.open.close(turn.shape);
        self.keep_a_node(turn);
        false
    }

    /// Requests that were found to fit nowhere earlier, and stand before the first that may fit
    /// now: they are not to be passed by for ever.
    fn keep_nodes_for_the_first(&mut self) {
        if self.reservations.len() >= self.most_reservations || self.is_nobody_passed_by() {
            return;
        }
        let held = |job| self.reservations.iter().find(|held: &&Reservation| held.job == job);
        let charge = |job| held(job).map_or(0, |held| held.need.charge);
        for id in self.order.passed_by(&self.open, MAX_PASSED_BY, charge) {
            if let Some(turn) = self.order.turn_of(id) {
                self.keep_a_node(&turn);
            }
        }
    }

    /// Nearly always the very first may fit, and nobody is passed by.
    fn is_nobody_passed_by(&self) -> bool {
        self.order.first_shape().is_none_or(|shape| self.open.is_open(shape))
    }

    fn put(&mut self, turn: &Turn<'a>, at: NodeAt) {
        let devices = self.search.put(&self.asking(turn), at);
        let index = turn.job.indices.index(turn.task).expect("a task in its table has an index");
        let attempt = turn.job.tasks.next_attempt(turn.task);
        self.placed.push((at, Placement { task: turn.id.task(index), attempt, devices }));
    }

    /// Without anybody smaller in line, the next room that comes is theirs anyway.
    fn keep_a_node(&mut self, turn: &Turn<'a>) {
        let starved = self.least < self.need(turn.shape).charge;
        let known = self.reservations.iter().any(|held| held.job == turn.id);
        let rests = self.resting.contains_key(&turn.shape);
        let enough = rests || self.reservations.len() >= self.most_reservations;
        if enough || !starved || known || self.searches == MAX_SEARCHES {
            return;
        }
        self.searches += 1;
        let made = self.reserve(turn);
        self.reservations.extend(made);
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
        let standing = turn.standing;
        Some(Reservation { job, node, latest, made, need: need.clone(), standing })
    }
}
