//! The queue: for each user and each shape, the jobs that have tasks to place, best first.
//!
//! Derived from the jobs and never stored. Which user is served next is the fair share's question;
//! here is only which of their own jobs goes first.

use crate::job::Job;
use crate::ranks::{AHEAD, Ahead, Kind, Rank, Ranked, Ranks};
use crate::shape::ShapeId;
use shipway_model::limits::PRIORITY_IN_WAITING;
use shipway_model::{JobId, Ordinal, TaskIndex, UserName};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ready {
    users: BTreeMap<UserName, UserQueue>,
    demand: Demand,
    len: usize,
}

/// The shapes that anybody waits with.
#[derive(Debug, Clone, Default)]
pub struct Demand {
    /// How many jobs wait with each, over all users.
    jobs: BTreeMap<ShapeId, u32>,
    /// Another one whenever a shape comes or goes: who follows knows when to look.
    version: u64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct UserQueue {
    shapes: BTreeMap<ShapeId, Ranks>,
    heads: Ranks<Head>,
}

/// The first job of a shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub rank: Rank,
    pub shape: ShapeId,
    /// The jobs after it: whoever looks a few ahead need not look the queue up.
    pub ahead: Ahead,
}

impl Ranked for Head {
    fn rank(&self) -> Rank {
        self.rank
    }
}

type Firsts = (Rank, Ahead);

/// One step of priority is worth a stretch of waiting. Whoever waits long enough therefore goes
/// before any newcomer, and as all wait alike the order of two jobs never changes.
pub fn rank(id: JobId, job: &Job) -> Rank {
    let submitted = i64::try_from(job.submitted.0).unwrap_or(i64::MAX / 2);
    let ahead = i64::from(job.priority).saturating_mul(PRIORITY_IN_WAITING.0.cast_signed());
    Rank::new(submitted.saturating_sub(ahead), id, kind(job))
}

/// While a job of one task waits in the queue, this does not change: it leaves when it is placed.
fn kind(job: &Job) -> Kind {
    let is_first = || job.indices.index(Ordinal(0)) == Some(TaskIndex(0));
    match job.tasks.len() {
        1 if job.tasks.is_untouched() && is_first() => Kind::Fresh,
        1 => Kind::Single,
        _ => Kind::Array,
    }
}

impl Ready {
    /// Puts the job where it belongs now: in its queue or out of it. Whether it came in by that.
    pub(crate) fn refresh(&mut self, id: JobId, job: &Job) -> bool {
        let wants_placing = job.wants_placing();
        if !wants_placing {
            self.remove(id, job);
        }
        wants_placing && self.insert(id, job)
    }

    fn insert(&mut self, id: JobId, job: &Job) -> bool {
        if !self.users.contains_key(&job.owner) {
            self.users.insert(job.owner.clone(), UserQueue::default());
        }
        let Some(user) = self.users.get_mut(&job.owner) else { return false };
        let is_new = user.insert(rank(id, job), job.shape);
        if is_new {
            self.demand.add(job.shape);
            self.len += 1;
        }
        is_new
    }

    pub(crate) fn remove(&mut self, id: JobId, job: &Job) {
        let Some(user) = self.users.get_mut(&job.owner) else { return };
        if !user.remove(rank(id, job), job.shape) {
            return;
        }
        if user.shapes.is_empty() {
            self.users.remove(&job.owner);
        }
        self.demand.remove(job.shape);
        self.len -= 1;
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Jobs with tasks to place.
    pub fn len(&self) -> usize {
        self.len
    }
    pub fn users(&self) -> &BTreeMap<UserName, UserQueue> {
        &self.users
    }
    pub fn user(&self, user: &UserName) -> Option<&UserQueue> {
        self.users.get(user)
    }
    pub fn demand(&self) -> &Demand {
        &self.demand
    }
    pub fn contains(&self, id: JobId, job: &Job) -> bool {
        let queue = self.users.get(&job.owner).and_then(|user| user.shapes.get(&job.shape));
        queue.is_some_and(|queue| queue.contains(rank(id, job)))
    }
}

impl Demand {
    fn add(&mut self, shape: ShapeId) {
        let jobs = self.jobs.entry(shape).or_default();
        *jobs += 1;
        self.version += u64::from(*jobs == 1);
    }

    fn remove(&mut self, shape: ShapeId) {
        let Some(jobs) = self.jobs.get_mut(&shape) else { return };
        *jobs -= 1;
        if *jobs == 0 {
            self.jobs.remove(&shape);
            self.version += 1;
        }
    }

    pub fn version(&self) -> u64 {
        self.version
    }
    pub fn shapes(&self) -> impl Iterator<Item = ShapeId> + '_ {
        self.jobs.keys().copied()
    }
}

/// By what it holds: versions depend on how it came to be.
impl PartialEq for Demand {
    fn eq(&self, other: &Demand) -> bool {
        self.jobs == other.jobs
    }
}

impl UserQueue {
    fn insert(&mut self, rank: Rank, shape: ShapeId) -> bool {
        let queue = self.shapes.entry(shape).or_default();
        if queue.len() > AHEAD && queue.ends_before(rank) {
            // Nearly always; and the first ones are far away in memory by then.
            return queue.insert(rank);
        }
        let before = queue.firsts();
        let new = queue.insert(rank);
        let after = queue.firsts();
        self.move_head(shape, before, after);
        new
    }

    fn remove(&mut self, rank: Rank, shape: ShapeId) -> bool {
        let Some(queue) = self.shapes.get_mut(&shape) else { return false };
        let before = queue.firsts();
        let known = queue.remove(rank);
        let after = queue.firsts();
        if queue.is_empty() {
            self.shapes.remove(&shape);
        }
        self.move_head(shape, before, after);
        known
    }

    fn move_head(&mut self, shape: ShapeId, from: Option<Firsts>, to: Option<Firsts>) {
        if from == to {
            return;
        }
        let first = |firsts: Option<Firsts>| firsts.map(|(first, _)| first);
        if let Some(from) = first(from).filter(|from| first(to) != Some(*from)) {
            self.heads.remove(from);
        }
        if let Some((rank, ahead)) = to {
            self.heads.insert(Head { rank, shape, ahead });
        }
    }

    /// The first job of each shape, best first.
    pub fn heads(&self) -> &Ranks<Head> {
        &self.heads
    }
    /// The first job of one shape.
    pub fn head(&self, shape: ShapeId) -> Option<&Head> {
        self.heads.get(*self.shapes.get(&shape)?.following().peek()?)
    }
    pub fn queue(&self, shape: ShapeId) -> Option<&Ranks> {
        self.shapes.get(&shape)
    }
    /// Jobs with tasks to place.
    pub fn len(&self) -> usize {
        self.shapes.values().map(Ranks::len).sum()
    }
    pub fn is_empty(&self) -> bool {
        self.shapes.is_empty()
    }
    /// The shapes this user waits with, and the jobs of each.
    pub fn shapes(&self) -> impl Iterator<Item = (ShapeId, &Ranks)> {
        self.shapes.iter().map(|(shape, ranks)| (*shape, ranks))
    }
}
