//! How much each user has that is not over: what the limits for one user are held against.
//!
//! An index like `totals.rs`, but by owner, and counted as jobs come and end: a task that starts or
//! ends changes something here only where that parts or joins runs of tasks.

use crate::job::Job;
use crate::shape::{ShapeId, Shapes};
use crate::weight;
use shipway_model::UserName;
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unfinished {
    users: BTreeMap<UserName, User>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct User {
    owns: Owns,
    /// How many of the jobs have each shape: its memory counts once.
    shapes: BTreeMap<ShapeId, u32>,
}

/// Jobs that have not ended, all their tasks, and the memory they take beyond plain ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Owns {
    pub jobs: u64,
    pub tasks: u64,
    pub bytes: u64,
}

impl Unfinished {
    pub fn of(&self, user: &UserName) -> Owns {
        self.users.get(user).map(|user| user.owns).unwrap_or_default()
    }

    pub(crate) fn add(&mut self, job: &Job, shapes: &Shapes) {
        if !self.users.contains_key(&job.owner) {
            self.users.insert(job.owner.clone(), User::default());
        }
        let Some(User { owns, shapes: own }) = self.users.get_mut(&job.owner) else { return };
        owns.jobs += 1;
        owns.tasks += u64::from(job.tasks.len());
        owns.bytes += weight::of_job(job);
        let with_it = own.entry(job.shape).or_default();
        if *with_it == 0 {
            owns.bytes += weight::of_shape(shapes.get(job.shape));
        }
        *with_it += 1;
    }

    /// What is kept of a job's tasks took so much before.
    pub(crate) fn tasks_changed(&mut self, job: &Job, before: u64) {
        let now = weight::of_tasks(&job.tasks);
        if now == before {
            return;
        }
        if let Some(User { owns, .. }) = self.users.get_mut(&job.owner) {
            owns.bytes = owns.bytes.saturating_add(now).saturating_sub(before);
        }
    }

    pub(crate) fn remove(&mut self, job: &Job, shapes: &Shapes) {
        let Some(User { owns, shapes: own }) = self.users.get_mut(&job.owner) else { return };
        owns.jobs = owns.jobs.saturating_sub(1);
        owns.tasks = owns.tasks.saturating_sub(u64::from(job.tasks.len()));
        owns.bytes = owns.bytes.saturating_sub(weight::of_job(job));
        if let Some(with_it) = own.get_mut(&job.shape) {
            *with_it = with_it.saturating_sub(1);
            if *with_it == 0 {
                own.remove(&job.shape);
                let shape = weight::of_shape(shapes.get(job.shape));
                owns.bytes = owns.bytes.saturating_sub(shape);
            }
        }
        if owns.jobs == 0 {
            self.users.remove(&job.owner);
        }
    }
}
