//! Ended jobs that are still in memory, oldest first: which of them may leave it.
//!
//! An index like `totals.rs`: derived from the jobs and never stored. Jobs and tasks are counted
//! apart, because a job of ten million tasks takes as much memory as ten thousand small ones.

use crate::job::Job;
use shipway_model::{JobId, Timestamp};
use std::collections::BTreeSet;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ended {
    jobs: BTreeSet<(Timestamp, JobId)>,
    tasks: u64,
}

impl Ended {
    pub fn jobs(&self) -> usize {
        self.jobs.len()
    }
    /// Tasks of all of them.
    pub fn tasks(&self) -> u64 {
        self.tasks
    }
    /// Oldest first.
    pub fn iter(&self) -> impl Iterator<Item = JobId> + '_ {
        self.jobs.iter().map(|(_, job)| *job)
    }

    /// A job that has not ended is none of these.
    pub(crate) fn add(&mut self, id: JobId, job: &Job) {
        let new = job.ended.is_some_and(|at| self.jobs.insert((at, id)));
        self.tasks += if new { u64::from(job.tasks.len()) } else { 0 };
    }

    pub(crate) fn remove(&mut self, id: JobId, job: &Job) {
        let known = job.ended.is_some_and(|at| self.jobs.remove(&(at, id)));
        self.tasks -= if known { u64::from(job.tasks.len()) } else { 0 };
    }
}
