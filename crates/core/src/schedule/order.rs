//! Who is next, and with which task: users by their standing, their jobs by rank.

use super::jobs::Jobs;
use super::open::Open;
use crate::job::Job;
use crate::ready::UserQueue;
use crate::shape::ShapeId;
use crate::state::State;
use crate::usage::Standing;
use shipway_model::{JobId, Ordinal, Timestamp, UserName};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

pub(super) struct Order<'a> {
    state: &'a State,
    now: Timestamp,
    line: BinaryHeap<Place>,
    /// In the order of their names.
    users: Vec<User<'a>>,
    /// Arrays that were served in this pass, with the tasks they still have.
    feeds: BTreeMap<JobId, Feed<'a>>,
    /// Jobs of one task that were served out of turn.
    served: BTreeSet<JobId>,
}

struct User<'a> {
    name: &'a UserName,
    queue: &'a UserQueue,
    /// Made at their first turn.
    jobs: Option<Jobs<'a>>,
}

/// A user's place in the line.
#[derive(Debug, Clone, Copy)]
struct Place {
    standing: Standing,
    user: usize,
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
        let queues = state.ready().users();
        let standing = |name| state.fair_share().standing(name, now);
        let places = queues.keys().zip(0..);
        let line = places.map(|(name, user)| Place { standing: standing(name), user }).collect();
        let users = queues.iter().map(|(name, queue)| User { name, queue, jobs: None }).collect();
        Order { state, now, line, users, feeds: BTreeMap::new(), served: BTreeSet::new() }
    }

    /// The next task of the user who is first in line. Users with nothing that may be placed leave
    /// the line; `may_be_placed` may close shapes that it is asked about.
    pub(super) fn next_turn(
        &mut self,
        open: &mut Open,
        mut may_be_placed: impl FnMut(&mut Open, ShapeId) -> bool,
    ) -> Option<Turn<'a>> {
        while let Some(Place { standing, user }) = self.line.peek().copied() {
            // When nothing is left that could be placed, nobody is passed by either.
            if open.len() == 0 {
                return None;
            }
            let User { queue, jobs, .. } = &mut self.users[user];
            let mut jobs = jobs.take().unwrap_or_else(|| Jobs::new(queue));
            jobs.pick(open);
            let task = self.task(&mut jobs, |shape| may_be_placed(open, shape));
            self.users[user].jobs = Some(jobs);
            if let Some((id, job, task)) = task {
                return Some(Turn { id, job, shape: job.shape, task, standing });
            }
            self.line.pop();
        }
        None
    }

    fn task(
        &mut self,
        jobs: &mut Jobs<'a>,
        mut may_be_placed: impl FnMut(ShapeId) -> bool,
    ) -> Option<(JobId, &'a Job, Ordinal)> {
        while let Some((rank, shape)) = jobs.best() {
            if !may_be_placed(shape) {
                jobs.leave();
            } else if let Some((job, task)) = self.task_of(rank.job) {
                return Some((rank.job, job, task));
            } else {
                jobs.go_on();
            }
        }
        None
    }

    /// The task of this turn, of the first in line, has its place; what it is charged counts.
    pub(super) fn served(&mut self, turn: &Turn<'a>, charge: u64) {
        self.feed_on(turn.id);
        let Some(mut first) = self.line.peek_mut() else { return };
        first.standing = first.standing.with(charge);
        let jobs = self.users[first.user].jobs.as_mut();
        if let Some(jobs) = jobs.filter(|_| turn.job.tasks.len() == 1) {
            jobs.go_on();
        }
    }

    /// The same for a task whose turn it was not: its user goes back in the line for it too.
    pub(super) fn served_out_of_turn(&mut self, turn: &Turn<'a>, charge: u64) {
        if !self.feed_on(turn.id) {
            self.served.insert(turn.id);
        }
        let mut line = std::mem::take(&mut self.line).into_vec();
        let of_owner = |place: &&mut Place| *self.users[place.user].name == turn.job.owner;
        if let Some(place) = line.iter_mut().find(of_owner) {
            place.standing = place.standing.with(charge);
        }
        self.line = line.into();
    }

    /// Goes on to the next task, if this is an array.
    fn feed_on(&mut self, id: JobId) -> bool {
        let Some(feed) = self.feeds.get_mut(&id) else { return false };
        feed.left = feed.left.saturating_sub(1);
        feed.next = feed.tasks.next();
        true
    }

    /// The shape of the very first in line.
    pub(super) fn first_shape(&self) -> Option<ShapeId> {
        let first = self.users[self.line.peek()?.user].queue;
        first.heads().values().next().map(|head| head.shape)
    }

    /// Jobs whose shapes are not open and that stand before the first that is: user by user, each
    /// for as long as what is kept for them already leaves them before the others.
    pub(super) fn passed_by(
        &self,
        open: &Open,
        most: usize,
        kept: impl Fn(JobId) -> u64,
    ) -> Vec<JobId> {
        let mut line: Vec<Place> = self.line.iter().copied().collect();
        line.sort_unstable_by(|a, b| b.cmp(a));
        let mut found = Vec::new();
        for (at, place) in line.iter().enumerate() {
            let next = line.get(at + 1).map(|next| next.standing);
            let mut standing = place.standing;
            let mut jobs = Jobs::new(self.users[place.user].queue);
            while let Some((rank, shape)) = jobs.best() {
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
                jobs.go_on();
            }
        }
        found
    }

    /// The next task of one job, whether or not it is its turn.
    pub(super) fn turn_of(&mut self, id: JobId) -> Option<Turn<'a>> {
        let (job, task) = self.task_of(id)?;
        let standing = self.state.fair_share().standing(&job.owner, self.now);
        Some(Turn { id, job, shape: job.shape, task, standing })
    }

    fn task_of(&mut self, id: JobId) -> Option<(&'a Job, Ordinal)> {
        let job = self.state.job(id).filter(|job| job.wants_placing())?;
        if job.tasks.len() == 1 {
            let served = !self.served.is_empty() && self.served.contains(&id);
            return (!served).then_some((job, Ordinal(0)));
        }
        let feed = self.feeds.entry(id).or_insert_with(|| {
            let mut tasks = Box::new(job.tasks.placeable());
            let next = tasks.next();
            Feed { tasks, next, left: job.room() }
        });
        feed.next.filter(|_| feed.left > 0).map(|task| (job, task))
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Place {}
impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
/// The greatest is served first: the least usage, and by name among equals.
impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        other.standing.order(self.standing).then_with(|| other.user.cmp(&self.user))
    }
}
