//! Who is next, and with which task: users by their standing, their jobs by rank.

use super::pass::Open;
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
    /// Jobs that were served in this pass, with the tasks they still have.
    feeds: BTreeMap<JobId, Feed<'a>>,
}

pub(super) struct Waiting<'a> {
    standing: Standing,
    name: &'a UserName,
    queue: &'a UserQueue,
    /// The first job of each open shape; made when the user is first looked at.
    heads: Option<BTreeSet<(Rank, ShapeId)>>,
}

struct Feed<'a> {
    tasks: Box<dyn Iterator<Item = Ordinal> + 'a>,
    next: Option<Ordinal>,
    left: u32,
}

/// One task that wants a place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    pub(super) rank: Rank,
    pub(super) shape: ShapeId,
    pub(super) task: Ordinal,
}

impl<'a> Order<'a> {
    pub(super) fn new(state: &'a State, now: Timestamp) -> Self {
        let users = state.ready().users().iter().map(|(name, queue)| {
            let standing = state.fair_share().standing(name, now);
            Waiting { standing, name, queue, heads: None }
        });
        Order { state, users: users.collect(), feeds: BTreeMap::new() }
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
    pub(super) fn turn(&mut self, user: &mut Waiting<'a>, open: &Open) -> Option<Turn> {
        let queue = user.queue;
        let heads = user.heads.get_or_insert_with(|| open_heads(queue, open));
        while let Some((rank, shape)) = heads.first().copied() {
            if !open.is_open(shape) {
                heads.pop_first();
            } else if let Some(task) = next_task(self.state, &mut self.feeds, rank.job) {
                return Some(Turn { rank, shape, task });
            } else {
                heads.pop_first();
                let next = queue.queue(shape).and_then(|queue| queue.after(rank));
                heads.extend(next.map(|next| (next, shape)));
            }
        }
        None
    }

    /// The task of this turn has its place.
    pub(super) fn served(&mut self, turn: &Turn, user: Option<(&mut Waiting<'a>, u64)>) {
        if let Some(feed) = self.feeds.get_mut(&turn.rank.job) {
            feed.left = feed.left.saturating_sub(1);
            feed.next = feed.tasks.next();
        }
        if let Some((user, charge)) = user {
            user.standing = user.standing.with(charge);
        }
    }

    /// The jobs at the head of the line whose shapes are not open, up to the first that is.
    pub(super) fn first_blocked(&self, open: &Open, most: usize) -> Vec<(Rank, ShapeId)> {
        let mut found = Vec::new();
        // Nearly always the very first may fit, and nobody is passed by.
        let first = self.users.peek().and_then(|user| user.queue.heads().first());
        if first.is_none_or(|(_, shape)| open.is_open(*shape)) {
            return found;
        }
        let mut users: Vec<&Waiting<'a>> = self.users.iter().collect();
        users.sort_unstable_by(|a, b| b.cmp(a));
        for user in users {
            for (rank, shape) in user.queue.heads() {
                if open.is_open(*shape) || found.len() == most {
                    return found;
                }
                found.push((*rank, *shape));
            }
        }
        found
    }

    /// The next task of one job, out of turn: for who holds a reservation.
    pub(super) fn task_of(&mut self, job: JobId) -> Option<Ordinal> {
        next_task(self.state, &mut self.feeds, job)
    }
}

fn next_task<'a>(
    state: &'a State,
    feeds: &mut BTreeMap<JobId, Feed<'a>>,
    id: JobId,
) -> Option<Ordinal> {
    let feed = match feeds.entry(id) {
        std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
        std::collections::btree_map::Entry::Vacant(entry) => {
            let job = state.job(id).filter(|job| job.wants_placing())?;
            let mut tasks = Box::new(job.tasks.placeable());
            let next = tasks.next();
            entry.insert(Feed { tasks, next, left: job.room() })
        }
    };
    feed.next.filter(|_| feed.left > 0)
}

/// Whichever is fewer is gone through: the shapes that are open or those the user waits with.
fn open_heads(queue: &UserQueue, open: &Open) -> BTreeSet<(Rank, ShapeId)> {
    if open.len() < queue.heads().len() {
        let head = |shape: ShapeId| Some((queue.queue(shape)?.first()?, shape));
        return open.shapes().filter_map(head).collect();
    }
    queue.heads().iter().filter(|(_, shape)| open.is_open(*shape)).copied().collect()
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
