//! The queue: for each shape, the jobs that have tasks to place, best first.
//!
//! Derived from the jobs and never stored. Jobs of equal priority go in the order of their ids,
//! which is the order of submission.

use crate::job::Job;
use crate::shape::ShapeId;
use shipway_model::JobId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Smaller is sooner.
pub type Rank = (Reverse<i32>, JobId);

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ready {
    by_shape: BTreeMap<ShapeId, BTreeSet<Rank>>,
}

pub fn rank(id: JobId, job: &Job) -> Rank {
    (Reverse(job.priority), id)
}

impl Ready {
    /// Puts the job where it belongs now: in its shape's queue or out of it.
    pub(crate) fn refresh(&mut self, id: JobId, job: &Job) {
        if job.wants_placing() {
            self.by_shape.entry(job.shape).or_default().insert(rank(id, job));
        } else {
            self.remove(id, job);
        }
    }

    pub(crate) fn remove(&mut self, id: JobId, job: &Job) {
        if let Some(queue) = self.by_shape.get_mut(&job.shape) {
            queue.remove(&rank(id, job));
            if queue.is_empty() {
                self.by_shape.remove(&job.shape);
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.by_shape.is_empty()
    }

    pub fn shapes(&self) -> impl Iterator<Item = (ShapeId, &BTreeSet<Rank>)> {
        self.by_shape.iter().map(|(shape, queue)| (*shape, queue))
    }

    pub fn contains(&self, id: JobId, job: &Job) -> bool {
        self.by_shape.get(&job.shape).is_some_and(|queue| queue.contains(&rank(id, job)))
    }

    /// How many jobs stand before this one, over all shapes.
    pub fn ahead_of(&self, rank: Rank) -> usize {
        self.by_shape.values().map(|queue| queue.range(..rank).count()).sum()
    }
}
