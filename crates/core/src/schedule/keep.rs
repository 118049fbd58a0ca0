//! Nodes kept for requests that fit nowhere yet: which requests, and which nodes.
//! What a reservation keeps others from is in `reserve.rs`.

use super::index::nodes::NodeAt;
use super::order::Turn;
use super::pass::Pass;
use super::reserve::{
    self, MAX_BEHIND_OWN, MAX_KEPT_TASKS, MAX_LOOKED_AT, MAX_PLACES, Reservation, rooms_at,
};
use super::trial::Trial;
use super::{Planner, search::Ask};
use crate::shape::ShapeId;
use crate::state::State;
use shipway_model::{JobId, Millis, Timestamp, UserName};
use std::collections::BTreeSet;

/// Requests at the head of the line that are looked at for a node to keep, in one pass.
const MAX_PASSED_BY: usize = 16;
/// Searches for a node to keep, in one pass: each looks at many nodes.
const MAX_SEARCHES: usize = 4;
/// What is to be made anew and has to wait for that.
const PUT_OFF: Millis = Millis(1_000);

/// A job that started, ended or was taken back needs no node kept, and a node may have gone. Where
/// nobody knows how long it will take, others have their turn now and then: the user rests, however
/// many requests that differ a little they have.
pub(super) fn drop_old(state: &State, planner: &mut Planner, now: Timestamp) {
    let Planner { nodes, reservations, resting, gave_up, .. } = planner;
    resting.retain(|_, until| *until > now);
    gave_up.retain(|_, until| *until > now);
    reservations.retain_mut(|held| {
        let job = state.job(held.job).filter(|job| state.ready().contains(held.job, job));
        let is_over = held.ends <= now;
        let rests = is_over && held.rests();
        if let Some(job) = job.filter(|_| rests) {
            resting.insert(job.owner.clone(), now.plus(reserve::KEPT_WITHOUT_LIMIT));
        }
        if let Some(owner) = given_up(state, held).filter(|_| job.is_none() && !is_over) {
            let until = gave_up.entry(owner.clone()).or_insert(held.ends);
            *until = held.ends.min(*until);
        }
        if let Some(job) = job {
            held.standing = state.fair_share().standing(&job.owner, now);
        }
        let keep = job.is_some() && !rests && held.nodes().all(|at| nodes.is_connected(at));
        // What is made anew may keep others away from then on, or elsewhere.
        if !keep || is_over {
            nodes.are_hot(held.nodes());
        }
        keep
    });
}

/// Whose it was, if others would have had their turn at the end.
fn given_up<'a>(state: &'a State, held: &Reservation) -> Option<&'a UserName> {
    state.job(held.job).filter(|_| held.rests()).map(|job| &job.owner)
}

impl Pass<'_> {
    /// Who has waited for a node to be emptied gets it before anybody else; but who has waited for
    /// tasks of their own, when it is their turn.
    pub(super) fn serve_reservations(&mut self) {
        let mut at = 0;
        while let Some(&Reservation { job, behind_own, .. }) = self.reservations.get(at) {
            let turn = if behind_own { None } else { self.order.turn_of(job) };
            if let Some(turn) = turn.filter(|turn| self.put_on_kept(turn, at)) {
                self.order.served_out_of_turn(&turn, self.charge(turn.shape));
                self.reservations.remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// Whether all that are placed together have their places on the nodes that are kept for them.
    fn put_on_kept(&mut self, turn: &Turn, held: usize) -> bool {
        let (Some(need), Some(held)) = (self.need(turn.shape), self.reservations.get(held)) else {
            return false;
        };
        let ask = Ask::of(turn, need, self.state, &self.reservations);
        // Nearly always none has room yet.
        if !held.nodes().any(|at| self.trial.fits(&ask, at)) {
            return false;
        }
        let nodes: Vec<NodeAt> = held.nodes().collect();
        let find = |trial: &Trial<'_>, ask: &Ask<'_>, last: Option<NodeAt>| {
            let all = last.into_iter().chain(nodes.iter().copied());
            all.into_iter().find(|at| trial.fits(ask, *at))
        };
        self.put_all(turn, need, find).is_ok()
    }

    /// What was said of these nodes is to be looked at again: somebody else may be in the way by
    /// now, or another node be free sooner.
    pub(super) fn make_anew(&mut self) {
        let mut at = 0;
        while let Some(held) = self.reservations.get_mut(at) {
            if held.ends > self.now {
                at += 1;
            } else if self.searches == MAX_SEARCHES {
                held.ends = self.now.plus(PUT_OFF);
                // What was said does not hold any more.
                held.latest = held.latest.map(|_| self.now);
                at += 1;
            } else {
                self.searches += 1;
                let old = self.reservations.remove(at);
                let turn = self.order.turn_of(old.job);
                if let Some(made) = turn.and_then(|turn| self.reserve(&turn)) {
                    self.reservations.insert(at, made);
                    at += 1;
                }
            }
        }
    }

    /// Requests that were found to fit nowhere earlier, and stand before the first that may fit
    /// now: they are not to be passed by for ever.
    pub(super) fn keep_for_the_first(&mut self) {
        // Nearly always the very first may fit, and nobody is passed by.
        let first = self.order.first_shape();
        if self.are_enough_kept() || first.is_none_or(|shape| self.open.is_open(shape)) {
            return;
        }
        let held = |job| self.reservations.iter().find(|held: &&Reservation| held.job == job);
        let charge = |job| held(job).map_or(0, Reservation::charge);
        for (id, shape) in self.order.passed_by(&self.open, MAX_PASSED_BY, charge) {
            let turn = self.may_keep(id, shape).then(|| self.order.turn_of(id)).flatten();
            if let Some(turn) = turn {
                self.keep_nodes(&turn);
            }
        }
    }

    fn most(&self) -> usize {
        reserve::most(self.trial.table().len())
    }

    fn are_enough_kept(&self) -> bool {
        let from_all = self.reservations.iter().filter(|held| !held.behind_own);
        from_all.map(Reservation::node_count).sum::<usize>() >= self.most()
    }

    /// Whether a node may be kept for this one. Without anybody smaller in line, the next room
    /// that comes is theirs anyway.
    fn may_keep(&self, id: JobId, shape: ShapeId) -> bool {
        let is_starved = self.open.least < self.charge(shape);
        let is_known = || self.reservations.iter().any(|held| held.job == id);
        is_starved
            && self.searches < MAX_SEARCHES
            && !is_known()
            && !self.are_enough_kept()
            && self.owner(id).is_some_and(|owner| {
                !self.resting.contains_key(owner) && self.behind_own(owner).count() < self.most()
            })
    }

    fn owner(&self, job: JobId) -> Option<&UserName> {
        self.state.job(job).map(|job| &job.owner)
    }

    /// Those of one user that only concern that user.
    fn behind_own(&self, user: &UserName) -> impl Iterator<Item = &Reservation> {
        let held = self.reservations.iter().filter(|held| held.behind_own);
        held.filter(move |held| self.owner(held.job) == Some(user))
    }

    /// One more of this kind may be had. Which kind it is, is known when a node was found.
    fn may_be_made(&self, made: &Reservation, user: &UserName) -> bool {
        let own = || self.reservations.iter().filter(|held| held.behind_own);
        if made.behind_own && own().count() >= MAX_BEHIND_OWN
            || !made.behind_own && self.are_enough_kept()
        {
            return false;
        }
        let concerns_nobody_else = made.behind_own && !made.rests();
        concerns_nobody_else || !self.resting.contains_key(user)
    }

    pub(super) fn keep_nodes(&mut self, turn: &Turn) {
        if self.may_keep(turn.id, turn.shape) {
            self.searches += 1;
            let made = self.reserve(turn);
            self.reservations.extend(made);
        }
    }

    /// The nodes where it can start first, by the time limits of what runs there. One that is kept
    /// from another user's own tasks is as good as any.
    fn reserve(&self, turn: &Turn) -> Option<Reservation> {
        let (ask, owner) = (self.ask(turn)?, self.owner(turn.id)?);
        let Ask { need, standing, .. } = ask;
        let tasks = need.gang.size() as usize;
        if tasks > MAX_KEPT_TASKS {
            return None;
        }
        let from_all = self.reservations.iter().filter(|held| !held.behind_own);
        let taken: BTreeSet<NodeAt> =
            from_all.chain(self.behind_own(owner)).flat_map(Reservation::nodes).collect();
        let nodes = self.trial.candidates(need, MAX_LOOKED_AT.max(tasks));
        let most = nodes.len().max(MAX_PLACES);
        let mut places = Vec::new();
        for at in nodes.into_iter().filter(|at| !taken.contains(at)) {
            let found = self.trial.pilot(at).zip(self.trial.groups_at(need, at));
            let Some((pilot, groups)) = found.filter(|_| places.len() < most) else { continue };
            let node = (pilot, self.trial.table().usable(at, groups));
            let asked = (owner, ask.resources(), tasks);
            let until = self.trial.table().until(at);
            rooms_at(self.state, node, asked, self.now, |place| {
                if place.room.leaves_time(need.at_most, until) {
                    places.push((place, at));
                }
            });
        }
        let mut made = Reservation::new((turn.id, need, standing), places, self.now)?;
        if let Some(until) = self.gave_up.get(owner).filter(|_| made.rests()) {
            made.ends = made.ends.min(*until);
        }
        // Rooms are those of what runs. What this pass has put there counts from the next one on.
        if !made.rests() && made.nodes().any(|at| self.trial.has_put_on(at)) {
            made.ends = self.now;
        }
        self.may_be_made(&made, owner).then_some(made)
    }

    /// A task of this job has its place: what is kept for the next one is another question.
    pub(super) fn has_begun(&mut self, job: JobId) {
        // One that rests counts down: whoever has it is not to have it longer by this.
        let may_end = self.reservations.iter_mut().filter(|held| held.behind_own || !held.rests());
        for held in may_end.filter(|held| held.job == job) {
            held.ends = self.now;
        }
    }
}
