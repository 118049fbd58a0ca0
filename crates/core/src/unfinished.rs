//! How much each user has that is not over: what the limits for one user are held against.
//!
//! An index like `totals.rs`, but by owner, and counted only as jobs come and end: a task that
//! starts or ends changes nothing here.

use crate::job::Job;
use shipway_model::UserName;
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unfinished {
    users: BTreeMap<UserName, Owns>,
}

/// Jobs that have not ended, and all their tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Owns {
    pub jobs: u64,
    pub tasks: u64,
}

impl Unfinished {
    pub fn of(&self, user: &UserName) -> Owns {
        self.users.get(user).copied().unwrap_or_default()
    }

    pub(crate) fn add(&mut self, job: &Job) {
        if !self.users.contains_key(&job.owner) {
            self.users.insert(job.owner.clone(), Owns::default());
        }
        if let Some(owns) = self.users.get_mut(&job.owner) {
            owns.jobs += 1;
            owns.tasks += u64::from(job.tasks.len());
        }
    }

    pub(crate) fn remove(&mut self, job: &Job) {
        let Some(owns) = self.users.get_mut(&job.owner) else { return };
        owns.jobs = owns.jobs.saturating_sub(1);
        owns.tasks = owns.tasks.saturating_sub(u64::from(job.tasks.len()));
        if owns.jobs == 0 {
            self.users.remove(&job.owner);
        }
    }
}
