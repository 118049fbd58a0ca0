//! The scheduler: shapes × node classes → a plan. It proposes; `ApplyPlan` re-checks and applies.
//!
//! The user who has used least for their share is served next, with the first of their own jobs.
//! A shape that fits nowhere is set aside until some node has more room, with all its jobs: that is
//! what makes a pass cost shapes × classes, and the end of one task cost one node. The first few
//! that fit nowhere get a reservation.
//!
//! - `classes.rs`  what makes nodes alike
//! - `nodes.rs`    what is free where
//! - `needs.rs`    what a shape needs, and which classes could serve it
//! - `search.rs`   the node for one more task
//! - `order.rs`    who is next, and with which task
//! - `pass.rs`     one pass: order, search, reserve
//! - `reserve.rs`  reservations, and what may go before them
//! - `backlog.rs`  how much may wait at a pilot

pub mod backlog;
pub mod classes;
pub mod needs;
pub mod nodes;
mod order;
mod pass;
pub mod reserve;
mod search;

use crate::event::Placement;
use crate::job::Job;
use crate::shape::ShapeId;
use crate::state::State;
use needs::Need;
use nodes::NodeTable;
use reserve::Reservation;
use shipway_model::{JobId, PilotId, Timestamp};
use std::collections::BTreeMap;

/// Placements in one plan: one commit's worth; the next pass follows at once.
pub const MAX_PLAN: usize = 4_096;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    pub placements: Vec<(PilotId, Vec<Placement>)>,
    /// The plan was full: there is more to place right now.
    pub more: bool,
}

impl Plan {
    pub fn len(&self) -> usize {
        self.placements.iter().map(|(_, tasks)| tasks.len()).sum()
    }
    pub fn is_empty(&self) -> bool {
        self.placements.is_empty()
    }
}

/// What the scheduler keeps between passes: all of it follows from the state, or may be forgotten.
#[derive(Debug, Clone, Default)]
pub struct Planner {
    pub nodes: NodeTable,
    needs: Vec<Option<Need>>,
    blocked: Blocked,
    reservations: Vec<Reservation>,
    /// Shapes that no node is kept for until then; see `reserve::KEPT_WITHOUT_LIMIT`.
    resting: BTreeMap<ShapeId, Timestamp>,
    /// A job was submitted since the last pass.
    pub(crate) somebody_came: bool,
    carried: Carried,
}

/// Shapes that are known to fit nowhere, as of the last time that room was made. A shape that
/// nobody waited with then was not looked at, and is not known to.
#[derive(Debug, Clone, Default)]
struct Blocked {
    stamp: u64,
    by_shape: Vec<u64>,
}

impl Blocked {
    fn stamp(&self) -> u64 {
        self.stamp
    }
    fn room_was_made(&mut self) {
        self.stamp += 1;
    }
    fn was(&self, shape: ShapeId, stamp: u64) -> bool {
        // A stamp of 0 was never given: the first is 1.
        self.by_shape.get(shape.at()).is_some_and(|at| *at == stamp + 1)
    }
    fn set(&mut self, shape: ShapeId) {
        if self.by_shape.len() <= shape.at() {
            self.by_shape.resize(shape.at() + 1, 0);
        }
        self.by_shape[shape.at()] = self.stamp + 1;
    }
    fn clear(&mut self, shape: ShapeId) {
        if let Some(at) = self.by_shape.get_mut(shape.at()) {
            *at = 0;
        }
    }
}

/// How far searches had come when a plan was full: the next one goes on from there.
#[derive(Debug, Clone, Default)]
struct Carried {
    progress: BTreeMap<ShapeId, search::Progress>,
    moved: Vec<nodes::NodeAt>,
}

impl Planner {
    pub fn reservations(&self) -> &[Reservation] {
        &self.reservations
    }

    /// When a node is to be given to others, or may be kept again.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let ends = self.reservations.iter().filter_map(Reservation::ends);
        ends.chain(self.resting.values().copied()).min()
    }

    pub fn reservation_of(&self, job: JobId) -> Option<&Reservation> {
        self.reservations.iter().find(|held| held.job == job)
    }

    /// What a shape needs, if a pass has worked it out for the classes there are now.
    pub(crate) fn known_need(&self, shape: ShapeId) -> Option<&Need> {
        self.needs.get(shape.at())?.as_ref().filter(|need| !need.is_stale(&self.nodes))
    }

    fn need(&mut self, state: &State, shape: ShapeId) -> &Need {
        if self.needs.len() <= shape.at() {
            self.needs.resize(shape.at() + 1, None);
        }
        let known = &mut self.needs[shape.at()];
        if known.as_ref().is_none_or(|need| need.is_stale(&self.nodes)) {
            *known = Some(Need::of(state.shapes().get(shape), &self.nodes));
        }
        known.as_ref().expect("just made")
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
    let mut planner = std::mem::take(&mut state.planner);
    let plan = pass::run(state, &mut planner, now);
    state.planner = planner;
    plan
}

/// Whether tasks of this job are known to be so short that a few may wait at a pilot.
fn is_short(job: &Job) -> bool {
    job.pace.is_some_and(|pace| pace <= shipway_model::limits::BACKLOG_TARGET)
}
