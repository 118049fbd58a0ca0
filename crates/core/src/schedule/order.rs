//! Who is next, and with which task: users by their standing, their jobs by rank.

use super::pass::Open;
use crate::job::Job;
use crate::ranks::Rank;
use crate::ready::UserQueue;
use crate::shape::ShapeId;
use crate::state::State;
use crate::usage::Standing;
use shipway_model::{JobId, Ordinal, Timestamp, UserName};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

pub(super) struct Order<'a> {
    state: &'a State,
    users: BinaryHeap<Waiting<'a>>,
    /// Arrays that were served in this pass, with the tasks they still have.
    feeds: BTreeMap<JobId, Feed<'a>>,
    /// Jobs of one task that were served out of turn.
    served: BTreeSet<JobId>,
}

pub(super) struct Waiting<'a> {
    standing: Standing,
    name: &'a UserName,
    queue: &'a UserQueue,
    /// The first job of each open shape, the best last; made when the user is first looked at.
    heads: Option<Vec<(Rank, ShapeId)>>,
}

struct Feed<'a> {
    tasks: Box<dyn Iterator<Item = Ordinal> + 'a>,
    next: Option<Ordinal>,
    left: u32,
}

/// One task that wants a place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn<'a> {
    pub(super) id: JobId,
    pub(super) job: &'a Job,
    pub(super) shape: ShapeId,
    pub(super) task: Ordinal,
}

impl<'a> Order<'a> {
    pub(super) fn new(state: &'a State, now: Timestamp) -> Self {
        let users = state.ready().users().iter().map(|(name, queue)| {
            let standing = state.fair_share().standing(name, now);
            Waiting { standing, name, queue, heads: None }
        });
        let users = users.collect();
        Order { state, users, feeds: BTreeMap::new(), served: BTreeSet::new() }
    }

    /// Takes the user who is next out of the line; put them back with `back`.
    pub(super) fn next_user(&mut self) -> Option<Waiting<'a>> {
        self.users.pop()
    }

    /// Whether this user still goes before all others.
    pub(super) fn is_still_first(&self, user: &Waiting<'a>) -> bool {
        self.users.peek().is_none_or(|next| user.cmp(next) != Ordering::Less)
    }

    pub(super) fn back(&mut self, user: Waiting<'a>) {
        self.users.push(user);
    }

    /// The user's next task with an open shape.
    pub(super) fn turn(&mut self, user: &mut Waiting<'a>, open: &Open) -> Option<Turn<'a>> {
        let queue = user.queue;
        let heads = user.heads.get_or_insert_with(|| open_heads(queue, open));
        while let Some((rank, shape)) = heads.last().copied() {
            if !open.is_open(shape) {
                heads.pop();
            } else if let Some(turn) = self.turn_of(rank.job) {
                return Some(turn);
            } else {
                next_of_shape(heads, queue);
            }
        }
        None
    }

    /// The task of this turn has its place, or a node that is kept for it.
    pub(super) fn served(&mut self, turn: &Turn<'a>, user: Option<(&mut Waiting<'a>, u64)>) {
        if let Some(feed) = self.feeds.get_mut(&turn.id) {
            feed.left = feed.left.saturating_sub(1);
            feed.next = feed.tasks.next();
        } else if user.is_none() {
            self.served.insert(turn.id);
        }
        if let Some((user, charge)) = user {
            user.standing = user.standing.with(charge);
            if turn.job.tasks.len() == 1
                && let Some(heads) = &mut user.heads
            {
                next_of_shape(heads, user.queue);
            }
        }
    }

    /// The next task of one job, whether or not it is its turn.
    pub(super) fn turn_of(&mut self, id: JobId) -> Option<Turn<'a>> {
        let job = self.state.job(id).filter(|job| job.wants_placing())?;
        let shape = job.shape;
        if job.tasks.len() == 1 {
            let served = !self.served.is_empty() && self.served.contains(&id);
            return (!served).then_some(Turn { id, job, shape, task: Ordinal(0) });
        }
        let feed = self.feeds.entry(id).or_insert_with(|| {
            let mut tasks = Box::new(job.tasks.placeable());
            let next = tasks.next();
            Feed { tasks, next, left: job.room() }
        });
        let task = feed.next.filter(|_| feed.left > 0)?;
        Some(Turn { id, job, shape, task })
    }
}

/// The best head's shape goes on with its next job.
fn next_of_shape(heads: &mut Vec<(Rank, ShapeId)>, queue: &UserQueue) {
    let Some((rank, shape)) = heads.pop() else { return };
    if let Some(next) = queue.queue(shape).and_then(|queue| queue.after(rank)) {
        let at = heads.partition_point(|other| *other > (next, shape));
        heads.insert(at, (next, shape));
    }
}

/// Whichever is fewer is gone through: the shapes that are open or those the user waits with.
fn open_heads(queue: &UserQueue, open: &Open) -> Vec<(Rank, ShapeId)> {
    if open.len() * 4 < queue.heads().len() {
        let head = |shape: ShapeId| Some((queue.queue(shape)?.first()?, shape));
        let mut heads: Vec<_> = open.shapes().filter_map(head).collect();
        heads.sort_unstable_by(|a, b| b.cmp(a));
        return heads;
    }
    let heads = queue.heads().iter().rev();
    heads.filter(|(_, shape)| open.is_open(*shape)).copied().collect()
}

impl PartialEq for Waiting<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Waiting<'_> {}
impl PartialOrd for Waiting<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
/// The greatest is served first: the least usage, and by name among equals.
impl Ord for Waiting<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.standing.order(self.standing).then_with(|| other.name.cmp(self.name))
    }
}
