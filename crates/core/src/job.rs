//! One job as the core keeps it: what deciding needs, not what the user wrote.
//!
//! The specification itself (command, environment, rows) is in the journal and in history; the
//! core never looks at it again once the job is accepted. A million of these wait at once, so what
//! many have in common is shared.

use crate::reach::Paths;
use crate::shape::{Expressions, Gang, ShapeId};
use crate::task_table::TaskTable;
use serde::{Deserialize, Serialize};
use shipway_model::{
    After, IndexSet, JobId, JobSpec, JobState, Millis, Ordinal, Owned, Resources, RetryPolicy,
    Timestamp, UserName,
};
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    pub owner: UserName,
    pub shape: ShapeId,
    pub priority: i32,
    pub indices: IndexSet,
    pub tasks: TaskTable,
    #[serde(flatten)]
    pub terms: Arc<Terms>,
    /// Jobs it still waits for.
    pub after: Box<[After]>,
    pub submitted: Timestamp,
    pub ended: Option<Timestamp>,
    /// How often it has ended; a retried job ends again.
    pub revision: u32,
    /// How long its tasks run, as a moving average; `None` before the first has ended.
    pub pace: Option<Millis>,
}

/// What a job asked for beside its shape. Few are different, so jobs share them.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Terms {
    pub max_running: Option<u32>,
    pub retries: RetryPolicy,
    #[serde(default, skip_serializing_if = "Paths::are_unknown")]
    pub paths: Paths,
    /// Words that the site it runs at has to have.
    #[serde(default, skip_serializing_if = "<[String]>::is_empty")]
    pub tags: Box<[String]>,
}

impl Terms {
    pub fn of(spec: &JobSpec) -> Terms {
        let mut tags = spec.tags.clone();
        tags.sort_unstable();
        tags.dedup();
        Terms {
            max_running: spec.max_running,
            retries: spec.retries.clone(),
            paths: Paths::of(spec),
            tags: tags.into(),
        }
    }
}

/// A job that has ended, with all that is needed to bring it back for a retry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    pub id: JobId,
    pub resources: Resources,
    /// The longest a task of it may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<Millis>,
    #[serde(default, skip_serializing_if = "Expressions::is_nothing")]
    pub expressions: Expressions,
    #[serde(default, skip_serializing_if = "Gang::is_one")]
    pub gang: Gang,
    /// See `Event::JobsGiven`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<JobId>,
    pub job: Job,
}

impl JobRecord {
    pub fn owned(&self) -> Owned<'_> {
        Owned { owner: &self.job.owner, since: self.given.unwrap_or(self.id) }
    }
}

impl Job {
    pub fn state(&self) -> JobState {
        self.tasks.counts().state(!self.after.is_empty())
    }

    /// How many more of its tasks may be placed, by its own limit.
    pub fn room(&self) -> u32 {
        let limit = self.terms.max_running.unwrap_or(u32::MAX);
        limit.saturating_sub(self.tasks.counts().active)
    }

    /// Tasks that may be placed now; of gangs those that are whole, by their first.
    pub(crate) fn placeable(&self, gang: Gang) -> Box<dyn Iterator<Item = Ordinal> + '_> {
        if gang.is_one() {
            return Box::new(self.tasks.placeable());
        }
        let is_first = move |task: &Ordinal| gang.around(*task).next() == Some(*task);
        let is_whole = move |task: &Ordinal| gang.around(*task).all(|it| self.tasks.may_place(it));
        Box::new(self.tasks.placeable().filter(is_first).filter(is_whole))
    }

    pub fn wants_placing(&self) -> bool {
        self.after.is_empty() && self.room() > 0 && self.tasks.has_placeable()
    }

    /// An average over roughly the last eight tasks: follows a change, forgives an outlier.
    pub(crate) fn learn_pace(&mut self, ran: Millis) {
        let average = self.pace.map_or(ran.0, |pace| (pace.0 * 7 + ran.0) / 8);
        self.pace = Some(Millis(average));
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn plain() -> Job {
        Job {
            owner: UserName::new("ada").expect("good"),
            shape: ShapeId::default(),
            priority: 0,
            indices: IndexSet::single(),
            tasks: TaskTable::new(1),
            terms: Arc::default(),
            after: Box::default(),
            submitted: Timestamp(0),
            ended: None,
            revision: 0,
            pace: None,
        }
    }
}
