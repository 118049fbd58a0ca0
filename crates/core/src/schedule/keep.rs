//! Nodes kept for requests that fit nowhere yet: which requests, and which nodes.
//! What a reservation keeps others from is in `reserve.rs`.

use super::nodes::NodeAt;
use super::order::Turn;
use super::pass::Pass;
use super::reserve::{self, MAX_LOOKED_AT, Reservation, Room, room_at};
use super::{Planner, search::Ask};
use crate::shape::ShapeId;
use crate::state::State;
use shipway_model::{JobId, Timestamp};
use std::collections::BTreeSet;

/// Requests at the head of the line that are looked at for a node to keep, in one pass.
const MAX_PASSED_BY: usize = 16;
/// Searches for a node to keep, in one pass: each looks at many nodes.
const MAX_SEARCHES: usize = 4;

/// A job that started, ended or was taken back needs no node kept, and a node may have gone. Where
/// nobody knows how long it will take, others have their turn now and then.
pub(super) fn drop_old(state: &State, planner: &mut Planner, now: Timestamp) {
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

impl Pass<'_> {
    /// Who has waited for a node to be emptied gets it before anybody else.
    pub(super) fn serve_reservations(&mut self) {
        let mut at = 0;
        while let Some(&Reservation { node, job, .. }) = self.reservations.get(at) {
            let turn = self.order.turn_of(job);
            let fits = |turn: &Turn| self.ask(turn).is_some_and(|ask| self.trial.fits(&ask, node));
            let fitting = turn.filter(fits);
            if let Some(turn) = fitting {
                self.put(&turn, node);
                self.order.served_out_of_turn(&turn, self.charge(turn.shape));
                self.reservations.remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// Requests that were found to fit nowhere earlier, and stand before the first that may fit
    /// now: they are not to be passed by for ever.
    pub(super) fn keep_nodes_for_the_first(&mut self) {
        // Nearly always the very first may fit, and nobody is passed by.
        let first = self.order.first_shape();
        if self.are_enough_kept() || first.is_none_or(|shape| self.open.is_open(shape)) {
            return;
        }
        let held = |job| self.reservations.iter().find(|held: &&Reservation| held.job == job);
        let charge = |job| held(job).map_or(0, |held| held.need.charge);
        for (id, shape) in self.order.passed_by(&self.open, MAX_PASSED_BY, charge) {
            let turn = self.may_keep(id, shape).then(|| self.order.turn_of(id)).flatten();
            if let Some(turn) = turn {
                self.keep_a_node(&turn);
            }
        }
    }

    fn are_enough_kept(&self) -> bool {
        self.reservations.len() >= reserve::most(self.trial.table().len())
    }

    /// Whether a node may be kept for this one. Without anybody smaller in line, the next room
    /// that comes is theirs anyway.
    fn may_keep(&self, id: JobId, shape: ShapeId) -> bool {
        let is_starved = self.open.least < self.charge(shape);
        let is_known = self.reservations.iter().any(|held| held.job == id);
        let is_enough = self.resting.contains_key(&shape) || self.are_enough_kept();
        is_starved && !is_known && !is_enough && self.searches < MAX_SEARCHES
    }

    pub(super) fn keep_a_node(&mut self, turn: &Turn) {
        if self.may_keep(turn.id, turn.shape) {
            self.searches += 1;
            let made = self.reserve(turn);
            self.reservations.extend(made);
        }
    }

    /// The node where it can start first, by the time limits of what runs there.
    fn reserve(&self, turn: &Turn) -> Option<Reservation> {
        let ask = self.ask(turn)?;
        let Ask { need, standing, .. } = ask;
        let taken: BTreeSet<NodeAt> = self.reservations.iter().map(|held| held.node).collect();
        let nodes = self.trial.candidates(need, MAX_LOOKED_AT);
        let free = nodes.into_iter().filter(|at| !taken.contains(at));
        let times = free.filter_map(|at| {
            let (pilot, groups) = (self.trial.pilot(at)?, self.trial.groups_at(need, at)?);
            let node = (pilot, self.trial.table().usable(at, groups));
            Some((room_at(self.state, node, ask.resources(), self.now), at))
        });
        let (room, node) = times.filter(|(room, _)| *room != Room::Never).min()?;
        let (job, made, latest) = (turn.id, self.now, room.time());
        Some(Reservation { job, node, latest, made, need: need.clone(), standing })
    }
}
