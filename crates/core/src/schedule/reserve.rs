//! Reservations: a node kept for the first requests that fit nowhere yet, so that smaller ones
//! cannot starve them, and what may still go before them.
//!
//! A reservation is not a fact: it is made anew after a restart. It stands until its job has
//! started there or elsewhere, or is gone.

use super::free::Free;
use super::needs::Need;
use super::nodes::NodeAt;
use crate::load::{Load, Usable};
use crate::pilot::Pilot;
use crate::state::State;
use crate::usage::Standing;
use shipway_model::{JobId, Millis, Resources, TaskId, Timestamp};
use std::cmp::Ordering;

/// Nodes that are kept at the same time: never more than every second one, and not so many that
/// looking through them would cost.
pub const MAX_RESERVATIONS: usize = 32;

pub fn most(nodes: usize) -> usize {
    nodes.div_ceil(2).min(MAX_RESERVATIONS)
}

/// Where something without a time limit is in the way, a node is kept for so long, then given to
/// others for as long: one large request must not hold up everybody behind a task that never ends.
pub const KEPT_WITHOUT_LIMIT: Millis = Millis(10 * 60 * 1_000);

/// Nodes that are looked at for one reservation.
pub(super) const MAX_LOOKED_AT: usize = 64;

#[derive(Debug, Clone)]
pub struct Reservation {
    pub job: JobId,
    pub node: NodeAt,
    /// When everything that is in the way has to have ended, by its time limits. `None`: something
    /// in the way has no limit.
    pub latest: Option<Timestamp>,
    pub made: Timestamp,
    pub(super) need: Need,
    /// Where its owner stands: a node is kept from those behind, never from those before.
    pub(super) standing: Standing,
}

impl Reservation {
    /// When it is given up, unless its job has started before.
    pub(super) fn ends(&self) -> Option<Timestamp> {
        self.latest.is_none().then(|| self.made.plus(KEPT_WITHOUT_LIMIT))
    }

    /// Whether another task may use the node, with so much of it free: its user stands before this
    /// one's, it is over before the reservation begins, or it takes nothing that is waited for.
    pub(crate) fn lets_by(
        &self,
        now: Timestamp,
        (other, standing): (&Need, Option<Standing>),
        free: &Free,
    ) -> bool {
        let before = |standing: Standing| standing.order(self.standing) == Ordering::Less;
        let ends = other.at_most.map(|at_most| now.plus(at_most));
        standing.is_some_and(before)
            || ends.zip(self.latest).is_some_and(|(ends, latest)| ends <= latest)
            || self.is_beside(other, free)
    }

    /// Whether both would fit although all that is there now stayed.
    fn is_beside(&self, other: &Need, free: &Free) -> bool {
        let fits = |mine: u64, theirs: u64, more: u64, free: u64| {
            theirs == 0 || mine == 0 || mine.saturating_add(more) <= free
        };
        let amount = |mine, theirs, free| fits(mine, theirs, theirs, free);
        // A part of a device that is in use already takes no other device.
        let devices = if other.fits_in_part(free) { 0 } else { u64::from(other.gpus) };
        let (gpus, theirs) = (u64::from(self.need.gpus), u64::from(other.gpus));
        !self.need.named
            && amount(self.need.cpus, other.cpus, free.cpus)
            && amount(self.need.memory, other.memory, free.memory)
            && amount(self.need.disk, other.disk, free.disk)
            && fits(gpus, theirs, devices, u64::from(free.whole))
    }
}

/// When a node has room, if nothing else comes. The sooner, the smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Room {
    At(Timestamp),
    /// Something of which no end is known stands in the way.
    SomeTime,
    /// Not even when it is empty.
    Never,
}

impl Room {
    pub fn time(self) -> Option<Timestamp> {
        match self {
            Room::At(at) => Some(at),
            Room::SomeTime | Room::Never => None,
        }
    }
}

/// When one more task of this need would fit on a node, by the time limits of what runs there.
pub(super) fn room_at(
    state: &State,
    node: (&Pilot, Usable<'_>),
    need: &Resources,
    now: Timestamp,
) -> Room {
    room_by(state, node, need, now, |task| limit_of(state, task, now))
}

/// When a task has to have ended, by its time limit.
pub fn limit_of(state: &State, task: TaskId, now: Timestamp) -> Option<Timestamp> {
    let begun = state.active().get(&task)?.started.unwrap_or(now);
    let at_most = state.shapes().get(state.job(task.job)?.shape).at_most?;
    Some(begun.plus(at_most).max(now))
}

/// When one more task of this need would fit, if what runs on the node ends as `end_of` says.
pub fn room_by(
    state: &State,
    (pilot, usable): (&Pilot, Usable<'_>),
    need: &Resources,
    now: Timestamp,
    end_of: impl Fn(TaskId) -> Option<Timestamp>,
) -> Room {
    if Load::default().lacks(&pilot.ad, need, usable).is_some() {
        return Room::Never;
    }
    let mut load = pilot.load.clone();
    if load.lacks(&pilot.ad, need, usable).is_none() {
        return Room::At(now);
    }
    let mut tasks: Vec<_> = pilot.placed.iter().map(|task| (end_of(*task), *task)).collect();
    tasks.sort_by_key(|(end, _)| end.map_or((1, 0), |end| (0, end.0)));
    for (end, task) in tasks {
        let (Some(active), Some(job)) = (state.active().get(&task), state.job(task.job)) else {
            continue;
        };
        load.remove(&state.shapes().get(job.shape).resources, &active.devices);
        if load.lacks(&pilot.ad, need, usable).is_none() {
            return end.map_or(Room::SomeTime, Room::At);
        }
    }
    Room::SomeTime
}
