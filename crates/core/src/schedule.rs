//! The scheduler: shapes × node classes → a plan. It proposes; `ApplyPlan` re-checks and applies.
//!
//! The user who has used least for their share is served next, with the first of their own jobs.
//! A shape that fits nowhere is set aside until some node has more room, with all its jobs: that is
//! what makes a pass cost shapes × classes, and the end of one task cost one node. The first few
//! that fit nowhere get a reservation.
//!
//! Policy, a file each:
//!
//! - `order.rs`    who is next; `jobs.rs`, with which of their jobs
//! - `needs.rs`    what a shape needs, and which classes could serve it; `classes.rs`, what makes
//!   nodes alike
//! - `search.rs`   the node for one more task
//! - `keep.rs`     who gets nodes kept, and which; `reserve.rs`, what may go before them
//! - `backlog.rs`  how much may wait at a pilot
//! - `guests.rs`   tasks without GPUs on nodes with some: when they come, and who has to leave
//! - `pass.rs`     one pass: order, search, keep; `trial.rs`, the nodes while a plan is made
//!
//! What is remembered so that this is fast is in `index/`.

pub mod backlog;
pub mod classes;
mod guests;
pub mod index;
mod jobs;
mod keep;
pub mod needs;
mod order;
mod pass;
pub mod reserve;
mod search;
#[cfg(test)]
mod tests;
mod trial;

use crate::event::Placement;
use crate::guard::guarded;
use crate::job::Job;
use crate::load::Usable;
use crate::pilot::Pilot;
use crate::shape::{ShapeId, Shapes};
use crate::state::State;
use index::nodes::NodeTable;
use index::{known, open};
use reserve::Reservation;
use shipway_model::{JobId, PilotId, TaskId, Timestamp, UserName};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

/// Placements in one plan: one commit's worth; the next pass follows at once.
pub const MAX_PLAN: usize = 4_096;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// Those of each node together.
    placements: Vec<Placement>,
    /// The pilots in the same order, and how many of the placements are each one's.
    pilots: Vec<(PilotId, usize)>,
    /// The plan was full: there is more to place right now.
    pub more: bool,
    /// Guests that have to make room.
    pub leave: Vec<TaskId>,
}

impl Plan {
    pub fn len(&self) -> usize {
        self.placements.len()
    }
    pub fn is_empty(&self) -> bool {
        self.placements.is_empty() && self.leave.is_empty()
    }

    /// What goes to each pilot.
    pub fn by_pilot(&self) -> impl Iterator<Item = (&PilotId, &[Placement])> {
        let mut rest = self.placements.as_slice();
        self.pilots
            .iter()
            .map(move |(pilot, count)| (pilot, rest.split_off(..*count).unwrap_or_default()))
    }
}

impl FromIterator<(PilotId, Vec<Placement>)> for Plan {
    fn from_iter<I: IntoIterator<Item = (PilotId, Vec<Placement>)>>(pilots: I) -> Plan {
        let mut plan = Plan::default();
        for (pilot, placements) in pilots {
            plan.pilots.push((pilot, placements.len()));
            plan.placements.extend(placements);
        }
        plan
    }
}

/// What the scheduler keeps between passes: all of it follows from the state, or may be forgotten.
#[derive(Debug, Clone, Default)]
pub struct Planner {
    pub nodes: NodeTable,
    needs: known::Needs,
    blocked: open::Blocked,
    reservations: Vec<Reservation>,
    /// Users for whom no node is kept until then; see `reserve::KEPT_WITHOUT_LIMIT`.
    resting: BTreeMap<UserName, Timestamp>,
    /// Users who gave up a node that was kept without a known moment, and when it would have been
    /// given to others: what is kept for them next ends no later, or they would never rest.
    gave_up: BTreeMap<UserName, Timestamp>,
    /// Of the shapes that fit nowhere those of which this is known for one user only.
    blocked_for_one: BTreeSet<ShapeId>,
    /// A job was submitted since the last pass.
    pub(crate) somebody_came: bool,
    open: open::Open,
    paper: trial::Paper,
    /// The last plan was full: the next one goes on from where its searches had come.
    was_full: bool,
    /// The last pass left out somebody whose requirements took too long.
    was_cut: bool,
    /// As of the last pass.
    wanted: guests::Wanted,
    /// Shapes over which a pass failed: no pass looks at them again.
    set_aside: BTreeSet<ShapeId>,
}

impl Planner {
    /// One that remembers nothing.
    pub(crate) fn of(pilots: &BTreeMap<PilotId, Pilot>) -> Planner {
        let mut planner = Planner::default();
        for (id, pilot) in pilots {
            planner.nodes.renew(id, Some(pilot));
        }
        planner
    }

    /// Whether a pass failed over this shape.
    pub fn is_set_aside(&self, shape: ShapeId) -> bool {
        self.set_aside.contains(&shape)
    }

    pub fn reservations(&self) -> &[Reservation] {
        &self.reservations
    }

    /// When a node is to be given to others, looked at again, or may be kept again.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let ends = self.reservations.iter().map(|held| held.ends);
        ends.chain(self.resting.values().copied()).min()
    }

    /// Whether a pass is to follow at once: the last one has left work to it, so that others are
    /// answered in between.
    pub(crate) fn is_behind(&self) -> bool {
        self.was_full || self.was_cut || self.needs.is_behind()
    }

    pub fn reservation_of(&self, job: JobId) -> Option<&Reservation> {
        self.reservations.iter().find(|held| held.job == job)
    }

    /// What a shape needs, if a pass has worked it out for the classes there are now.
    pub(crate) fn known_need(&self, shape: ShapeId) -> Option<&needs::Need> {
        self.needs.known(shape, &self.nodes)
    }

    /// The devices of a pilot's node that a shape may use. `None`: its requirements do not hold
    /// there, or no longer, or there is too little time left.
    pub(crate) fn usable(
        &self,
        shapes: &Shapes,
        id: ShapeId,
        (name, pilot): (&PilotId, &Pilot),
        now: Timestamp,
    ) -> Option<Usable<'_>> {
        let shape = shapes.get(id);
        let has_limit = shape.at_most.is_some() && pilot.until.is_some();
        let is_choosy = shape.expressions.requirements.is_some() || shape.expressions.in_container;
        if !is_choosy && !has_limit {
            return Some(Usable::All);
        }
        let at = (self.nodes.at(name)?, now);
        let on_node = |need: &needs::Need| need.on_node(&self.nodes, at, || Some(pilot));
        let groups = match self.known_need(id) {
            Some(need) => on_node(need),
            None => on_node(&needs::Need::of(shape, &self.nodes)),
        };
        Some(self.nodes.usable(at.0, groups?))
    }

    /// A job that was known before waits again with this shape: it may be another user's than those
    /// of whom it is known that it fits nowhere.
    pub(crate) fn is_back(&mut self, shape: ShapeId) {
        if self.blocked_for_one.remove(&shape) {
            self.blocked.clear(shape);
        }
    }

    /// No job has this shape any more, and ids are below `places`: what stands for the next shape
    /// of this id begins anew.
    pub(crate) fn forget(&mut self, shape: ShapeId, places: usize) {
        self.needs.forget(shape, places);
        self.blocked.forget(shape, places);
        self.open.forget(shape, places);
        self.blocked_for_one.remove(&shape);
        self.set_aside.remove(&shape);
    }

    /// Places that are kept by shape, at most.
    pub(crate) fn places(&self) -> usize {
        self.needs.places().max(self.blocked.places()).max(self.open.places())
    }

    /// What a pass has found out.
    fn remember(&mut self, open: open::Open, paper: trial::Paper, was_full: bool) {
        self.nodes.hot.clear();
        // What found a place to its last task is not known to fit nowhere.
        for shape in open.shapes() {
            self.blocked.clear(shape);
        }
        for shape in &open.closed {
            self.blocked.set(*shape);
            self.blocked_for_one.remove(shape);
        }
        // Whoever else waited with these had their turn, unless the pass left somebody out.
        let left_out = was_full || self.was_cut;
        for shape in open.closed_for_one.iter().filter(|shape| open.is_open(**shape) && !left_out) {
            self.blocked.set(*shape);
            self.blocked_for_one.insert(*shape);
        }
        (self.open, self.paper, self.was_full) = (open, paper, was_full);
    }
}

/// Two planners are alike when they see the same nodes; the rest is only remembered work.
impl PartialEq for Planner {
    fn eq(&self, other: &Planner) -> bool {
        self.nodes == other.nodes
    }
}

/// Proposes what to place now. Changes only what the scheduler remembers.
pub fn schedule(state: &mut State, now: Timestamp) -> Plan {
    loop {
        let mut planner = std::mem::take(&mut state.planner);
        let serving = Cell::new(None);
        let made = guarded(|| {
            let plan = pass::run(state, &mut planner, now, &serving);
            Plan { leave: guests::to_leave(state, &planner, &plan, now), ..plan }
        });
        if let Some(plan) = made {
            state.planner = planner;
            return plan;
        }
        // It stopped half-way, by a mistake. Nothing of it is used again, and the next one leaves
        // out the shape that this one was at: one at a time, so that there is an end to it.
        let mut set_aside = std::mem::take(&mut planner.set_aside);
        let is_new = serving.get().is_some_and(|shape| set_aside.insert(shape));
        state.planner = Planner { set_aside, ..Planner::of(&state.pilots) };
        if !is_new {
            return Plan::default();
        }
    }
}

/// Whether tasks of this job are known to be so short that a few may wait at a pilot.
fn is_short(job: &Job) -> bool {
    job.pace.is_some_and(|pace| pace <= shipway_model::limits::BACKLOG_TARGET)
}

/// Places in lists that a plan's limit, or the number of nodes, keeps short.
fn position(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
