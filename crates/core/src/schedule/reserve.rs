//! Reservations: nodes kept for the first requests that fit nowhere yet, so that smaller ones
//! cannot starve them, and what may still go before them. One node for most; for tasks that are
//! placed together as many as they take, with one moment by which there is room for all.
//!
//! A reservation is not a fact: it is made anew after a restart. It stands until its job has
//! started there or elsewhere, or is gone; what it says of the nodes is looked at again now and
//! then.
//!
//! It keeps nobody away on account of its own user's tasks: where one of those has to leave last,
//! of all its nodes, the reservation is behind its own, and concerns that user's tasks only.

use super::index::free::Free;
use super::index::nodes::NodeAt;
use super::needs::Need;
use crate::load::{Load, Usable};
use crate::pilot::Pilot;
use crate::state::State;
use crate::usage::Standing;
use shipway_model::{JobId, Millis, Resources, TaskId, Timestamp, UserName};
use std::cmp::Ordering;

/// Nodes that are kept at the same time: when every second one is, nobody gets another, and when
/// they are so many that looking through them would cost. The last that came may have brought it
/// beyond: what is placed together on most of the nodes would wait for ever otherwise.
pub const MAX_RESERVATIONS: usize = 32;

pub fn most(nodes: usize) -> usize {
    nodes.div_ceil(2).min(MAX_RESERVATIONS)
}

/// Reservations behind tasks of their own users, beside those: of one user as many as of the others
/// together, so that nobody takes all of them.
pub(super) const MAX_BEHIND_OWN: usize = 2 * MAX_RESERVATIONS;

/// Where something without a time limit is in the way, a node is kept for so long, then given to
/// others for as long: one large request must not hold up everybody behind a task that never ends.
pub const KEPT_WITHOUT_LIMIT: Millis = Millis(10 * 60 * 1_000);

/// A moment that is farther away is as good as none.
const FORESEEABLE: Millis = Millis(7 * 24 * 3_600 * 1_000);

/// Ends are reported a little after a time limit. Also how often what should be over, and is not,
/// is looked at again.
const AFTER_LATEST: Millis = Millis(10_000);

/// Nodes of a class that are looked at for one reservation; more for tasks that are placed together
/// on more, up to as many as nodes are kept for.
pub(super) const MAX_LOOKED_AT: usize = 64;
/// Tasks placed together for which nodes are kept. More of them take what they find.
pub(super) const MAX_KEPT_TASKS: usize = 1_024;
/// Places for them that are compared; and never fewer than nodes were looked at.
pub(super) const MAX_PLACES: usize = 4 * MAX_KEPT_TASKS;

/// A node that is kept, for so many tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    pub(crate) at: NodeAt,
    pub(crate) tasks: u32,
}

#[derive(Debug, Clone)]
pub struct Reservation {
    pub job: JobId,
    /// Nearly always the only one.
    first: Kept,
    /// How far the last of the others is from it, so that most nodes are told without a look there.
    span: u32,
    others: Box<[Kept]>,
    /// When everything that is in the way has to have ended, by its time limits. `None`: something
    /// in the way has no limit, or one that is too far away.
    pub latest: Option<Timestamp>,
    /// What has to leave last is a task of the same user: that user's other tasks are kept away,
    /// and nobody else's.
    pub behind_own: bool,
    /// When it is given up or made anew, unless its job has started before.
    pub(super) ends: Timestamp,
    pub(super) need: Need,
    /// Where its owner stands: a node is kept from those behind, never from those before.
    pub(super) standing: Standing,
}

/// Somebody else who asks for a node that is kept.
pub(crate) struct Other<'a> {
    pub(crate) need: &'a Need,
    pub(crate) standing: Option<Standing>,
    /// Of the user for whom it is kept.
    pub(crate) is_own: bool,
}

impl Reservation {
    /// In these places, one for each task that is placed together. `None` if there are too few.
    pub(super) fn new(
        (job, need, standing): (JobId, &Need, Standing),
        mut places: Vec<(Clearing, NodeAt)>,
        now: Timestamp,
    ) -> Option<Reservation> {
        let tasks = need.gang.size() as usize;
        if places.len() < tasks {
            return None;
        }
        // The best of them, and the last of those.
        let (_, (Clearing { room, behind_own }, _), _) = places.select_nth_unstable(tasks - 1);
        let (room, behind_own) = (*room, *behind_own);
        places.truncate(tasks);
        places.sort_unstable_by_key(|(_, at)| *at);
        let kept = |of_node: &[(Clearing, NodeAt)]| {
            let tasks = super::position(of_node.len());
            of_node.first().map(|(_, at)| Kept { at: *at, tasks })
        };
        let mut nodes = places.chunk_by(|(_, one), (_, other)| one == other).filter_map(kept);
        let (first, others): (Kept, Box<[Kept]>) = (nodes.next()?, nodes.collect());
        let span = others.last().unwrap_or(&first).at.0 - first.at.0;
        let latest = room.time().filter(|latest| latest.since(now) <= FORESEEABLE);
        let for_some_time = now.plus(KEPT_WITHOUT_LIMIT);
        let ends = latest.map_or(for_some_time, |latest| latest.plus(AFTER_LATEST));
        // Others may have come by then, and be what it has to wait for.
        let ends = if behind_own { ends.min(for_some_time) } else { ends };
        let need = need.clone();
        Some(Reservation { job, first, span, others, latest, behind_own, ends, need, standing })
    }

    /// In the order of their places in the table.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeAt> + Clone {
        std::iter::once(&self.first).chain(&self.others).map(|kept| kept.at)
    }
    pub fn node_count(&self) -> usize {
        self.others.len() + 1
    }

    /// What is kept of this node, if anything is.
    #[inline]
    pub(crate) fn at(&self, at: NodeAt) -> Option<Kept> {
        let away = at.0.wrapping_sub(self.first.at.0);
        if away > self.span {
            return None;
        }
        if away == 0 {
            return Some(self.first);
        }
        let found = self.others.binary_search_by_key(&at, |kept| kept.at).ok()?;
        self.others.get(found).copied()
    }

    /// What all that are placed together are charged each millisecond.
    pub(super) fn charge(&self) -> u64 {
        self.need.charge_of_gang()
    }

    /// When there is room on all its nodes at the latest, by the time limits of what runs there by
    /// now: somebody who goes first may have come since it was made. None when that is after its
    /// end: then other nodes may be kept. Behind tasks of its own user it promises nothing against
    /// others, and says when those are over.
    pub fn clears_by(&self, state: &State, now: Timestamp) -> Option<Timestamp> {
        let (nodes, job) = (&state.planner().nodes, state.job(self.job)?);
        let need = &state.shapes().get(job.shape).resources;
        let mut last = self.latest?;
        for kept in std::iter::once(&self.first).chain(&self.others) {
            let pilot = state.pilots().get(nodes.pilot(kept.at)?)?;
            let groups = self.need.on_node(nodes, (kept.at, now), || Some(pilot))?;
            let node = (pilot, nodes.usable(kept.at, groups));
            let mut rooms = Vec::new();
            let asked = (&job.owner, need, kept.tasks as usize);
            let until = nodes.until(kept.at);
            rooms_at(state, node, asked, now, |place| {
                let in_time = place.room.leaves_time(self.need.at_most, until);
                rooms.push(place.room.time().filter(|_| in_time));
            });
            if rooms.len() < kept.tasks as usize {
                return None;
            }
            for room in rooms {
                last = last.max(room?);
            }
        }
        let holds = self.behind_own || last <= self.ends;
        (last > now && holds).then_some(last)
    }

    /// Whether its user is to have no other for a while when it ends.
    pub(super) fn rests(&self) -> bool {
        self.latest.is_none()
    }

    /// Whether another task may use a node, with so much of it free: it is none of those that are
    /// kept away, its user stands before this one's, it is over before the reservation begins, or
    /// it takes nothing that is waited for.
    pub(crate) fn lets_by(
        &self,
        kept: Kept,
        now: Timestamp,
        other: &Other<'_>,
        free: &Free,
    ) -> bool {
        let before = |standing: Standing| standing.order(self.standing) == Ordering::Less;
        let ends = other.need.at_most.map(|at_most| now.plus(at_most));
        (self.behind_own && !other.is_own)
            || other.standing.is_some_and(before)
            || ends.zip(self.latest).is_some_and(|(ends, latest)| ends <= latest)
            || self.is_beside(kept.tasks, other.need, free)
    }

    /// Whether both would fit although all that is there now stayed.
    fn is_beside(&self, tasks: u32, other: &Need, free: &Free) -> bool {
        let gpus = self.need.gpus.saturating_mul(tasks);
        // A part of a device that is in use already takes no other device.
        let theirs = if other.fits_in_part(free) { 0 } else { other.gpus };
        let are_beside = gpus == 0 || other.gpus == 0 || gpus.saturating_add(theirs) <= free.whole;
        let amounts = self.need.amounts.times(tasks.into());
        !self.need.named && are_beside && other.amounts.is_beside(&amounts, &free.amounts)
    }
}

/// When a node has room, if nothing else comes. The sooner, the smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RoomFrom {
    At(Timestamp),
    /// Something of which no end is known stands in the way.
    SomeTime,
    /// Not even when it is empty.
    Never,
}

impl RoomFrom {
    /// Whether a task that begins when there is room is over by then. Where nobody knows when that
    /// is, nobody knows this either, and nothing is waited for.
    pub(crate) fn leaves_time(self, at_most: Option<Millis>, until: Option<Timestamp>) -> bool {
        let (Some(at_most), Some(until)) = (at_most, until) else { return true };
        self.time().is_some_and(|from| from.plus(at_most) <= until)
    }

    pub fn time(self) -> Option<Timestamp> {
        match self {
            RoomFrom::At(at) => Some(at),
            RoomFrom::SomeTime | RoomFrom::Never => None,
        }
    }
}

/// When a node has room, and who leaves last for it. The better, the smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Clearing {
    pub(super) room: RoomFrom,
    /// A task of the user who waits.
    behind_own: bool,
}

/// Tells when one more task of this user would fit on a node, by the time limits of what runs
/// there; then when one beside it, and so on for at most so many.
pub(super) fn rooms_at(
    state: &State,
    node: (&Pilot, Usable<'_>),
    (user, need, most): (&UserName, &Resources, usize),
    now: Timestamp,
    tell: impl FnMut(Clearing),
) {
    let is_own = |task: TaskId| state.job(task.job).is_some_and(|job| job.owner == *user);
    let end_of = |task| (limit_of(state, task, now), is_own(task));
    clearings(state, node, (need, most), now, end_of, tell);
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
    node: (&Pilot, Usable<'_>),
    need: &Resources,
    now: Timestamp,
    end_of: impl Fn(TaskId) -> Option<Timestamp>,
) -> RoomFrom {
    let mut found = RoomFrom::Never;
    let end_of = |task| (end_of(task), false);
    clearings(state, node, (need, 1), now, end_of, |clearing| found = clearing.room);
    found
}

/// The same for one more, and then for more beside it, where `end_of` also says whether a task is
/// of the user who waits. Of tasks that end together those leave last: whoever else ran there,
/// theirs would still be in the way. None where not even one fits when the node is empty.
fn clearings(
    state: &State,
    (pilot, usable): (&Pilot, Usable<'_>),
    (need, most): (&Resources, usize),
    now: Timestamp,
    end_of: impl Fn(TaskId) -> (Option<Timestamp>, bool),
    mut tell: impl FnMut(Clearing),
) {
    if Load::default().lacks(&pilot.ad, need, usable).is_some() {
        return;
    }
    let (mut load, mut found) = (pilot.load.clone(), 0);
    let mut fill = |load: &mut Load, room: RoomFrom, behind_own: bool| {
        while found < most && load.lacks(&pilot.ad, need, usable).is_none() {
            tell(Clearing { room, behind_own });
            found += 1;
            if found < most {
                load.add(need, &load.choose_devices(&pilot.ad, need, usable));
            }
        }
        found == most
    };
    if fill(&mut load, RoomFrom::At(now), false) {
        return;
    }
    let mut tasks: Vec<_> = pilot.placed.iter().map(|task| (end_of(*task), *task)).collect();
    tasks.sort_by_key(|((end, is_own), _)| (end.is_none(), *end, *is_own));
    for ((end, is_own), task) in tasks {
        let (Some(active), Some(job)) = (state.active().get(&task), state.job(task.job)) else {
            continue;
        };
        load.remove(&state.shapes().get(job.shape).resources, &active.devices);
        if fill(&mut load, end.map_or(RoomFrom::SomeTime, RoomFrom::At), is_own) {
            return;
        }
    }
}
