//! Who is next, and with which task: users by their standing, their jobs by rank.
#![expect(clippy::indexing_slicing, reason = "a place in the line is one among the users")]

use super::index::open::Open;
use super::jobs::Jobs;
use crate::ranks::{Kind, Rank};
use crate::ready::{UserQueue, rank};
use crate::shape::ShapeId;
use crate::state::State;
use crate::usage::Standing;
use shipway_model::{JobId, Ordinal, Timestamp, UserName};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// Steps that requirements of one user's jobs may take in one pass where each node is asked: some
/// fifteen milliseconds. Then it is the others' turn, and this user's in the next pass.
const MAX_ASKED_STEPS: u64 = 125_000;

pub(super) struct ServingOrder<'a> {
    state: &'a State,
    now: Timestamp,
    line: BinaryHeap<UserTurn>,
    /// In the order of their names.
    users: Vec<User<'a>>,
    served: Served<'a>,
    /// Somebody had to leave the line for what their requirements took.
    pub(super) was_cut: bool,
}

struct User<'a> {
    name: &'a UserName,
    queue: &'a UserQueue,
    /// Made at their first turn.
    jobs: Option<Jobs<'a>>,
    /// Steps that their requirements have taken in this pass.
    asked: u64,
}

/// A user's place in the line.
#[derive(Debug, Clone, Copy)]
struct UserTurn {
    standing: Standing,
    user: usize,
}

/// What was served of jobs that are not done with by that.
#[derive(Default)]
struct Served<'a> {
    /// Arrays that were served in this pass, with the tasks they still have.
    arrays: BTreeMap<JobId, Feed<'a>>,
    /// Jobs of one task that were served out of turn.
    singles: BTreeSet<JobId>,
}

struct Feed<'a> {
    /// The first of each gang, for a job that has them.
    tasks: Box<dyn Iterator<Item = Ordinal> + 'a>,
    next: Option<Ordinal>,
    /// How many more may run, and how many at once are placed.
    left: u32,
    at_once: u32,
}

impl<'a> Feed<'a> {
    fn of(state: &'a State, id: JobId) -> Self {
        let (tasks, left, at_once) = match state.job(id) {
            Some(job) => {
                let gang = state.shapes().get(job.shape).gang;
                (job.placeable(gang), job.room(), gang.size())
            }
            None => (Box::new(std::iter::empty()) as Box<dyn Iterator<Item = _>>, 0, 1),
        };
        let mut feed = Feed { tasks, next: None, left, at_once };
        feed.next = feed.tasks.next();
        feed
    }
}

/// One task that wants a place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    pub(super) id: JobId,
    pub(super) kind: Kind,
    pub(super) shape: ShapeId,
    pub(super) task: Ordinal,
    /// Where its user stands.
    pub(super) standing: Standing,
}

impl<'a> ServingOrder<'a> {
    pub(super) fn new(state: &'a State, now: Timestamp) -> Self {
        let queues = state.ready().users();
        let standing = |name| state.fair_share().standing(name, now);
        let places = queues.keys().zip(0..);
        let line = places.map(|(name, user)| UserTurn { standing: standing(name), user }).collect();
        let user = |(name, queue)| User { name, queue, jobs: None, asked: 0 };
        let users = queues.iter().map(user).collect();
        ServingOrder { state, now, line, users, served: Served::default(), was_cut: false }
    }

    /// The next task of the user who is first in line. Users with nothing that may be placed leave
    /// the line; `may_be_placed` may close shapes that it is asked about.
    pub(super) fn next_turn(
        &mut self,
        open: &mut Open,
        mut may_be_placed: impl FnMut(&mut Open, ShapeId) -> bool,
    ) -> Option<Turn> {
        // When nothing is left that could be placed, nobody is passed by either.
        while let Some(UserTurn { standing, user }) = self.line.peek().filter(|_| open.len() > 0) {
            let User { queue, jobs, asked, .. } = &mut self.users[*user];
            if *asked >= MAX_ASKED_STEPS {
                self.was_cut = true;
                self.line.pop();
                continue;
            }
            let jobs = jobs.get_or_insert_with(|| Jobs::new(queue));
            jobs.pick(open);
            while let Some((rank, shape)) = jobs.best() {
                let (id, kind) = (rank.job(), rank.kind());
                if !may_be_placed(open, shape) {
                    jobs.leave();
                } else if let Some(task) = self.served.next_task(self.state, rank) {
                    return Some(Turn { id, kind, shape, task, standing: *standing });
                } else {
                    jobs.go_on();
                }
            }
            self.line.pop();
        }
        None
    }

    /// The shape of this turn is out of this pass for the first in line, and for nobody else.
    pub(super) fn leave_shape(&mut self) {
        let Some(first) = self.line.peek() else { return };
        if let Some(jobs) = &mut self.users[first.user].jobs {
            jobs.leave();
        }
    }

    /// Asking nodes for the first in line took so many steps.
    pub(super) fn asked(&mut self, steps: u64) {
        if let Some(first) = self.line.peek().filter(|_| steps > 0) {
            let asked = &mut self.users[first.user].asked;
            *asked = asked.saturating_add(steps);
        }
    }

    /// The task of this turn, of the first in line, has its place; what it is charged counts.
    pub(super) fn served(&mut self, turn: &Turn, charge: u64) {
        let Some(mut first) = self.line.peek_mut() else { return };
        first.standing = first.standing.with(charge);
        if turn.kind == Kind::Array {
            self.served.feed_on(turn.id);
        } else if let Some(jobs) = &mut self.users[first.user].jobs {
            jobs.go_on();
        }
    }

    /// The same for a task whose turn it was not: its user goes back in the line for it too.
    pub(super) fn served_out_of_turn(&mut self, turn: &Turn, charge: u64) {
        if turn.kind == Kind::Array {
            self.served.feed_on(turn.id);
        } else {
            self.served.singles.insert(turn.id);
        }
        let owner = self.state.job(turn.id).map(|job| &job.owner);
        let mut line = std::mem::take(&mut self.line).into_vec();
        let of_owner = |place: &&mut UserTurn| Some(self.users[place.user].name) == owner;
        if let Some(place) = line.iter_mut().find(of_owner) {
            place.standing = place.standing.with(charge);
        }
        self.line = line.into();
    }

    /// The shape of the very first in line.
    pub(super) fn first_shape(&self) -> Option<ShapeId> {
        let first = self.users[self.line.peek()?.user].queue;
        first.heads().following().peek().map(|head| head.shape)
    }

    /// Jobs whose shapes are not open and that stand before the first that is: user by user, each
    /// for as long as what is kept for them already leaves them before the others.
    pub(super) fn passed_by(
        &self,
        open: &Open,
        most: usize,
        kept: impl Fn(JobId) -> u64,
    ) -> Vec<(JobId, ShapeId)> {
        let mut line: Vec<UserTurn> = self.line.iter().copied().collect();
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
                match kept(rank.job()) {
                    0 => found.push((rank.job(), shape)),
                    charge => standing = standing.with(charge),
                }
                jobs.go_on();
            }
        }
        found
    }

    /// The next task of one job, whether or not it is its turn.
    pub(super) fn turn_of(&mut self, id: JobId) -> Option<Turn> {
        let job = self.state.job(id).filter(|job| job.wants_placing())?;
        let (rank, shape) = (rank(id, job), job.shape);
        let task = self.served.next_task(self.state, rank)?;
        let standing = self.state.fair_share().standing(&job.owner, self.now);
        Some(Turn { id, kind: rank.kind(), shape, task, standing })
    }
}

impl<'a> Served<'a> {
    /// The next task of a job that has tasks to place, unless this pass has served them all.
    fn next_task(&mut self, state: &'a State, rank: Rank) -> Option<Ordinal> {
        let id = rank.job();
        if rank.kind() != Kind::Array {
            let is_served = !self.singles.is_empty() && self.singles.contains(&id);
            return (!is_served).then_some(Ordinal(0));
        }
        let feed = self.arrays.entry(id).or_insert_with(|| Feed::of(state, id));
        feed.next.filter(|_| feed.left >= feed.at_once)
    }

    /// Goes on to the array's next task.
    fn feed_on(&mut self, id: JobId) {
        if let Some(feed) = self.arrays.get_mut(&id) {
            feed.left = feed.left.saturating_sub(feed.at_once);
            feed.next = feed.tasks.next();
        }
    }
}

impl PartialEq for UserTurn {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for UserTurn {}
impl PartialOrd for UserTurn {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
/// The greatest is served first: the least usage, and by name among equals.
impl Ord for UserTurn {
    fn cmp(&self, other: &Self) -> Ordering {
        other.standing.order(self.standing).then_with(|| other.user.cmp(&self.user))
    }
}
