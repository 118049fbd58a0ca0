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
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, btree_set};

pub(super) struct Order<'a> {
    state: &'a State,
    now: Timestamp,
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
    /// The first job of each shape that was not looked at yet, best first.
    heads: btree_set::Iter<'a, (Rank, ShapeId)>,
    /// The next jobs of shapes whose first jobs were served or are looked at, the best last.
    next: Vec<(Rank, ShapeId)>,
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
    /// Where its user stands.
    pub(super) standing: Standing,
}

impl<'a> Order<'a> {
    pub(super) fn new(state: &'a State, now: Timestamp) -> Self {
        let users = state.ready().users().iter().map(|(name, queue)| {
            let standing = state.fair_share().standing(name, now);
            Waiting { standing, name, queue, heads: queue.heads().iter(), next: Vec::new() }
        });
        let users = users.collect();
        Order { state, now, users, feeds: BTreeMap::new(), served: BTreeSet::new() }
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

    /// The user's next task with a shape that may still be placed.
    pub(super) fn turn(
        &mut self,
        user: &mut Waiting<'a>,
        mut may_be_placed: impl FnMut(ShapeId) -> bool,
    ) -> Option<Turn<'a>> {
        while let Some((rank, shape)) = user.best() {
            if !may_be_placed(shape) {
                user.next.pop();
            } else if let Some(turn) = self.turn_of(rank.job) {
                return Some(Turn { standing: user.standing, ..turn });
            } else {
                user.go_on();
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
            if turn.job.tasks.len() == 1 {
                user.go_on();
            }
        }
    }

    /// The shape of the very first in line.
    pub(super) fn first_shape(&self) -> Option<ShapeId> {
        self.users.peek()?.queue.heads().first().map(|(_, shape)| *shape)
    }

    /// Jobs whose shapes are not open and that stand before the first that is: user by user, each
    /// for as long as what is kept for them already leaves them before the others.
    pub(super) fn passed_by(
        &self,
        open: &Open,
        most: usize,
        kept: impl Fn(JobId) -> u64,
    ) -> Vec<JobId> {
        let mut users: Vec<&Waiting<'a>> = self.users.iter().collect();
        users.sort_unstable_by(|a, b| b.cmp(a));
        let mut found = Vec::new();
        for (at, user) in users.iter().enumerate() {
            let next = users.get(at + 1).map(|next| next.standing);
            let mut standing = user.standing;
            let mut heads: BTreeSet<(Rank, ShapeId)> =
                user.queue.heads().iter().take(most).copied().collect();
            while let Some((rank, shape)) = heads.pop_first() {
                if open.is_open(shape) || found.len() == most {
                    return found;
                }
                if next.is_some_and(|next| standing.order(next) == Ordering::Greater) {
                    break;
                }
                match kept(rank.job) {
                    0 => found.push(rank.job),
                    charge => standing = standing.with(charge),
                }
                let after = user.queue.queue(shape).and_then(|queue| queue.after(rank));
                heads.extend(after.map(|after| (after, shape)));
            }
        }
        found
    }

    /// The next task of one job, whether or not it is its turn.
    pub(super) fn turn_of(&mut self, id: JobId) -> Option<Turn<'a>> {
        let job = self.state.job(id).filter(|job| job.wants_placing())?;
        let shape = job.shape;
        let standing = self.state.fair_share().standing(&job.owner, self.now);
        if job.tasks.len() == 1 {
            let served = !self.served.is_empty() && self.served.contains(&id);
            return (!served).then_some(Turn { id, job, shape, task: Ordinal(0), standing });
        }
        let feed = self.feeds.entry(id).or_insert_with(|| {
            let mut tasks = Box::new(job.tasks.placeable());
            let next = tasks.next();
            Feed { tasks, next, left: job.room() }
        });
        let task = feed.next.filter(|_| feed.left > 0)?;
        Some(Turn { id, job, shape, task, standing })
    }
}

impl Waiting<'_> {
    /// The best job that is left; it is the last of `next` then.
    fn best(&mut self) -> Option<(Rank, ShapeId)> {
        let head = self.heads.clone().next();
        let head = head.filter(|head| self.next.last().is_none_or(|next| *head < next));
        if let Some(head) = head {
            self.heads.next();
            self.next.push(*head);
        }
        self.next.last().copied()
    }

    /// The best job's shape goes on with its next one.
    fn go_on(&mut self) {
        let Some((rank, shape)) = self.next.pop() else { return };
        if let Some(next) = self.queue.queue(shape).and_then(|queue| queue.after(rank)) {
            let at = self.next.partition_point(|other| *other > (next, shape));
            self.next.insert(at, (next, shape));
        }
    }
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
