//! One pass: the next user, their next task, a node for it; until nothing fits or the plan is full.

use super::index::known::Needs;
use super::index::nodes::NodeAt;
use super::index::open::Open;
use super::needs::Need;
use super::order::{ServingOrder, Turn};
use super::reserve::Reservation;
use super::search::{Ask, Scope};
use super::trial::{Paper, Trial};
use super::{MAX_PLAN, Plan, Planner, guests, keep};
use crate::shape::ShapeId;
use crate::state::State;
use shipway_model::{Timestamp, UserName};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::mem;

pub(super) struct Pass<'a> {
    pub(super) state: &'a State,
    needs: &'a Needs,
    pub(super) now: Timestamp,
    pub(super) open: Open,
    pub(super) order: ServingOrder<'a>,
    pub(super) trial: Trial<'a>,
    pub(super) reservations: Vec<Reservation>,
    pub(super) resting: &'a BTreeMap<UserName, Timestamp>,
    pub(super) gave_up: &'a BTreeMap<UserName, Timestamp>,
    /// Searches for a node to keep.
    pub(super) searches: usize,
    more: bool,
    /// The shape that is looked at, for whoever has to know should it fail.
    serving: &'a Cell<Option<ShapeId>>,
}

pub(super) fn run(
    state: &State,
    planner: &mut Planner,
    now: Timestamp,
    serving: &Cell<Option<ShapeId>>,
) -> Plan {
    keep::drop_old(state, planner, now);
    if mem::take(&mut planner.somebody_came) {
        // Who came may stand before those that nodes are kept for.
        planner.nodes.are_hot(planner.reservations.iter().flat_map(Reservation::nodes));
    }
    let (mut open, mut paper) = (mem::take(&mut planner.open), mem::take(&mut planner.paper));
    let is_known = planner.needs.are_of(&planner.nodes);
    if !mem::take(&mut planner.was_full) || !planner.nodes.hot.is_empty() || !is_known {
        // With more room or other classes, how far searches have come says nothing any more.
        open.start_over();
        paper.start_over();
    }
    guests::follow(state, planner);
    open.renew(state, planner, serving);
    // With what was not known of the needs before.
    planner.wanted = guests::wanted(state, &planner.nodes, &planner.needs);
    // Whose needs are worked out later comes only then.
    planner.somebody_came = planner.needs.is_behind();
    planner.was_cut = false;
    let is_due = planner.reservations.iter().any(|held| held.ends <= now);
    if open.len() == 0 && !is_due {
        planner.nodes.hot.clear();
        (planner.open, planner.paper) = (open, paper);
        return Plan::default();
    }
    let Planner { nodes, needs, reservations, resting, gave_up, wanted, .. } = planner;
    let mut pass = Pass {
        state,
        needs,
        now,
        open,
        order: ServingOrder::new(state, now),
        trial: Trial::new(state, nodes, paper, (now, wanted)),
        reservations: mem::take(reservations),
        resting,
        gave_up,
        searches: 0,
        more: false,
        serving,
    };
    pass.serve_reservations();
    pass.make_anew();
    pass.keep_for_the_first();
    pass.serve_users();
    let was_cut = pass.order.was_cut;
    let (plan, held, open, paper) = pass.end();
    (planner.reservations, planner.was_cut) = (held, was_cut);
    planner.remember(open, paper, plan.more);
    plan
}

impl<'a> Pass<'a> {
    /// `None` for a shape that was set aside.
    pub(super) fn need(&self, shape: ShapeId) -> Option<&'a Need> {
        self.serving.set(Some(shape));
        self.needs.get(shape)
    }

    /// For all that is placed at once.
    pub(super) fn charge(&self, shape: ShapeId) -> u64 {
        self.need(shape).map_or(0, Need::charge_of_gang)
    }

    fn steps(&self, shape: ShapeId) -> u64 {
        self.needs.get(shape).map_or(0, Need::steps)
    }

    pub(super) fn ask(&self, turn: &Turn) -> Option<Ask<'_>> {
        Some(Ask::of(turn, self.need(turn.shape)?, self.state, &self.reservations))
    }

    /// The plan, the nodes that are kept, and what is worth remembering. All nodes are as before.
    fn end(self) -> (Plan, Vec<Reservation>, Open, Paper) {
        let (plan, paper) = self.trial.end();
        (Plan { more: self.more, ..plan }, self.reservations, self.open, paper)
    }

    fn serve_users(&mut self) {
        while let Some(turn) = self.next_turn() {
            if self.trial.len() >= MAX_PLAN {
                self.more = true;
                return;
            }
            let before = self.steps(turn.shape);
            let has_place = self.serve(&turn);
            self.order.asked(self.steps(turn.shape).saturating_sub(before));
            if has_place {
                self.order.served(&turn, self.charge(turn.shape));
            }
        }
    }

    /// The next task that may find a place.
    fn next_turn(&mut self) -> Option<Turn> {
        let (table, needs, state) = (self.trial.table(), self.needs, self.state);
        self.order.next_turn(&mut self.open, |open, shape| open.may_fit(shape, state, table, needs))
    }

    /// Finds a place for this task. A shape that fits nowhere is out of this pass.
    fn serve(&mut self, turn: &Turn) -> bool {
        let Some(scope) = self.open.scope(turn.shape) else { return false };
        let Some(need) = self.need(turn.shape) else {
            self.open.close(turn.shape);
            return false;
        };
        let found = if need.gang.is_one() {
            self.find(turn, need, scope).map(|at| self.put(turn, need, at))
        } else {
            self.put_all(turn, need, Trial::find_anew)
        };
        let Err(only) = found else {
            self.has_begun(turn.id);
            return true;
        };
        if only == NoPlace::ForThisUser {
            self.open.closed_for_one.push(turn.shape);
            self.order.leave_shape();
        } else {
            self.open.close(turn.shape);
        }
        self.keep_nodes(turn);
        false
    }

    /// A node for one task, or one where it may wait.
    fn find(&mut self, turn: &Turn, need: &Need, scope: Scope) -> Result<NodeAt, NoPlace> {
        let ask = Ask::of(turn, need, self.state, &self.reservations);
        let with_room = match scope {
            Scope::Hot => self.trial.find_hot(&ask),
            Scope::All => {
                let progress = self.open.progress(turn.shape);
                let mut own = *progress;
                let found = self.trial.find(&ask, &mut own);
                // What is left to a job of the same user, others with this shape are to find.
                if !ask.is_for_one_user() {
                    *progress = own;
                }
                found
            }
        };
        let backlogs = &mut self.open.backlogs;
        let found = with_room.or_else(|| self.trial.find_backlog(&ask, scope, backlogs));
        found.ok_or_else(|| NoPlace::of(&ask))
    }

    fn put(&mut self, turn: &Turn, need: &Need, at: NodeAt) {
        self.trial.put(turn, need, at);
        self.open.room_was_used(self.state, self.trial.table(), self.needs);
    }

    /// A place for each task that is placed together with this one, or for none of them.
    pub(super) fn put_all(
        &mut self,
        turn: &Turn,
        need: &Need,
        find: impl Fn(&Trial<'a>, &Ask<'_>, Option<NodeAt>) -> Option<NodeAt>,
    ) -> Result<(), NoPlace> {
        let (before, mut last) = (self.trial.mark(), None);
        for task in need.gang.around(turn.task) {
            let ask = Ask::of(turn, need, self.state, &self.reservations);
            last = find(&self.trial, &ask, last);
            let Some(at) = last else {
                let why = NoPlace::of(&ask);
                self.trial.undo(&before);
                return Err(why);
            };
            self.trial.put(&Turn { task, ..*turn }, need, at);
        }
        self.open.room_was_used(self.state, self.trial.table(), self.needs);
        Ok(())
    }
}

/// For whom there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoPlace {
    ForAnybody,
    /// One that would do is left to another job of the same user.
    ForThisUser,
}

impl NoPlace {
    fn of(ask: &Ask<'_>) -> NoPlace {
        if ask.is_for_one_user() { NoPlace::ForThisUser } else { NoPlace::ForAnybody }
    }
}
