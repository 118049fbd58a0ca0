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
    /// Shapes that fit nowhere but on nodes that have more room since.
    blocked: Vec<bool>,
    reservations: Vec<Reservation>,
}

impl Planner {
    pub fn reservations(&self) -> &[Reservation] {
        &self.reservations
    }

    pub fn reservation_of(&self, job: JobId) -> Option<&Reservation> {
        self.reservations.iter().find(|held| held.job == job)
    }

    fn need(&mut self, state: &State, shape: ShapeId) -> &Need {
        if self.needs.len() <= shape.at() {
            self.needs.resize(shape.at() + 1, None);
            self.blocked.resize(shape.at() + 1, false);
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
