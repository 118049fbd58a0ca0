//! Everything the core knows: plain ordered maps, and indexes that follow from them.
//!
//! Changed only by `evolve`. A snapshot is this structure as JSON; the indexes are left out and
//! rebuilt. What users wrote (commands, environments, names) is not here but in history.

use crate::command::Token;
use crate::job::{Job, JobRecord};
use crate::pilot::{Active, Pilot};
use crate::ready::Ready;
use crate::shape::Shapes;
use crate::totals::Totals;
use serde::{Deserialize, Serialize};
use shipway_model::limits::IDEMPOTENCY_KEPT;
use shipway_model::{JobId, Millis, PilotId, Role, TaskId, TaskState, Timestamp, UserName};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The time of the last event.
    pub(crate) at: Timestamp,
    pub(crate) next_job: u64,
    pub(crate) jobs: BTreeMap<JobId, Job>,
    pub(crate) shapes: Shapes,
    pub(crate) pilots: BTreeMap<PilotId, Pilot>,
    pub(crate) active: BTreeMap<TaskId, Active>,
    pub(crate) users: BTreeMap<UserName, Role>,
    pub(crate) tokens: BTreeMap<String, Token>,
    pub(crate) pilot_tokens: BTreeMap<PilotId, String>,
    /// Idempotency keys by `owner key`.
    pub(crate) keys: BTreeMap<String, UsedKey>,

    #[serde(skip)]
    pub(crate) ready: Ready,
    #[serde(skip)]
    pub(crate) back_offs: BTreeSet<(Timestamp, TaskId)>,
    #[serde(skip)]
    pub(crate) dependents: BTreeMap<JobId, BTreeSet<JobId>>,
    #[serde(skip)]
    pub(crate) ended: BTreeSet<(Timestamp, JobId)>,
    #[serde(skip)]
    pub(crate) keys_by_age: BTreeSet<(Timestamp, String)>,
    #[serde(skip)]
    pub(crate) totals: Totals,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedKey {
    pub job: JobId,
    pub digest: u64,
    pub at: Timestamp,
}

/// One key per owner: two users may use the same word.
pub fn key_of(owner: &UserName, key: &str) -> String {
    format!("{owner} {key}")
}

impl State {
    pub fn at(&self) -> Timestamp {
        self.at
    }
    /// The id the edge should give to the next job.
    pub fn next_job(&self) -> JobId {
        JobId(self.next_job.max(1))
    }
    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id)
    }
    pub fn jobs(&self) -> &BTreeMap<JobId, Job> {
        &self.jobs
    }
    pub fn shapes(&self) -> &Shapes {
        &self.shapes
    }
    pub fn pilots(&self) -> &BTreeMap<PilotId, Pilot> {
        &self.pilots
    }
    pub fn active(&self) -> &BTreeMap<TaskId, Active> {
        &self.active
    }
    /// The active tasks of one job.
    pub fn active_of(&self, job: JobId) -> impl Iterator<Item = (&TaskId, &Active)> {
        let first = job.task(shipway_model::TaskIndex(0));
        let last = job.task(shipway_model::TaskIndex(u64::MAX));
        self.active.range(first..=last)
    }
    pub fn ready(&self) -> &Ready {
        &self.ready
    }
    /// What is not over, in numbers.
    pub fn totals(&self) -> Totals {
        self.totals
    }
    pub fn users(&self) -> &BTreeMap<UserName, Role> {
        &self.users
    }
    pub fn tokens(&self) -> &BTreeMap<String, Token> {
        &self.tokens
    }
    pub fn pilot_tokens(&self) -> &BTreeMap<PilotId, String> {
        &self.pilot_tokens
    }

    pub fn task_state(&self, task: TaskId) -> Option<TaskState> {
        let job = self.jobs.get(&task.job)?;
        let known = job.tasks.state(job.indices.ordinal(task.index)?);
        let running = self.active.get(&task).is_some_and(|active| active.started.is_some());
        Some(if running { TaskState::Running } else { known })
    }

    /// An ended job with all that history needs to bring it back.
    pub fn record(&self, id: JobId) -> Option<JobRecord> {
        let job = self.jobs.get(&id)?.clone();
        Some(JobRecord { id, resources: self.shapes.get(job.shape).resources.clone(), job })
    }

    /// How many ended jobs are still in memory.
    pub fn ended_in_memory(&self) -> usize {
        self.ended.len()
    }

    /// Ended jobs beyond the newest `keep`, oldest first: they may leave memory.
    pub fn archivable(&self, keep: usize) -> Vec<JobId> {
        let surplus = self.ended.len().saturating_sub(keep);
        let oldest = self.ended.iter().take(surplus).map(|(_, job)| *job);
        // Somebody may still wait for it; its end must stay known until that is settled.
        oldest.filter(|job| !self.dependents.contains_key(job)).collect()
    }

    /// When the core wants to be told the time again.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let back_off = self.back_offs.first().map(|(at, _)| *at);
        let pilots = self.pilots.values().filter_map(Pilot::next_deadline).min();
        // A key is kept through the last moment of its time, so it is looked at just after.
        let kept = Millis(IDEMPOTENCY_KEPT.0 + 1);
        let keys = self.keys_by_age.first().map(|(at, _)| at.plus(kept));
        [back_off, pilots, keys].into_iter().flatten().min()
    }

    /// Builds the indexes anew, after a snapshot was read.
    pub fn rebuild(&mut self) {
        self.shapes.rebuild();
        self.ready = Ready::default();
        self.back_offs.clear();
        self.dependents.clear();
        self.ended.clear();
        self.totals = Totals::default();
        for (id, job) in &self.jobs {
            self.ready.refresh(*id, job);
            self.totals.add(job);
            for after in &job.after {
                self.dependents.entry(after.job).or_default().insert(*id);
            }
            if let Some(ended) = job.ended {
                self.ended.insert((ended, *id));
            }
            for (task, at) in job.tasks.backing_off() {
                let index = job.indices.index(shipway_model::Ordinal(*task));
                let index = index.expect("a task in its table has an index");
                self.back_offs.insert((*at, id.task(index)));
            }
        }
        self.keys_by_age = self.keys.iter().map(|(key, used)| (used.at, key.clone())).collect();
    }
}
