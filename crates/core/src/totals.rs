//! How many jobs and tasks there are in each state that is not over, counted as they change.
//!
//! An index like the others: derived from the jobs, never stored, checked by `invariants`. It is
//! here so that whoever asks how much there is to do need not look at every job. What has ended is
//! not counted: jobs leave memory, and their ends are events.

use crate::job::Job;
use shipway_model::JobState;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub held: Amount,
    pub waiting: Amount,
    pub running: Amount,
}

/// Jobs in one state, and how many of their tasks wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    pub jobs: u64,
    pub waiting_tasks: u64,
}

impl Totals {
    pub(crate) fn add(&mut self, job: &Job) {
        if let Some(amount) = self.of(job.state()) {
            amount.jobs += 1;
            amount.waiting_tasks += u64::from(job.tasks.counts().waiting);
        }
    }

    pub(crate) fn remove(&mut self, job: &Job) {
        if let Some(amount) = self.of(job.state()) {
            amount.jobs -= 1;
            amount.waiting_tasks -= u64::from(job.tasks.counts().waiting);
        }
    }

    fn of(&mut self, state: JobState) -> Option<&mut Amount> {
        match state {
            JobState::Held => Some(&mut self.held),
            JobState::Waiting => Some(&mut self.waiting),
            JobState::Running => Some(&mut self.running),
            JobState::Succeeded | JobState::Failed | JobState::Cancelled => None,
        }
    }
}
