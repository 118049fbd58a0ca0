//! What there is on the board of one job and of one node: the part that changes, copied from the
//! state.

use shipway_core::State;
use shipway_core::job::Job;
use shipway_core::load::Load;
use shipway_core::pilot::{Link, Pilot};
use shipway_model::{
    Attempt, DeviceId, IndexSet, JobCounts, JobId, JobState, NodeAd, NodeName, Ordinal, Owned,
    SiteName, TaskId, Timestamp, UserName,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The part of a job that changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobNow {
    pub counts: JobCounts,
    /// It waits for others.
    pub held: bool,
    pub is_array: bool,
    pub ended: Option<Timestamp>,
    /// Of a job with one task that is over.
    pub last_attempt: Option<Attempt>,
}

impl JobNow {
    pub fn of(job: &Job) -> Self {
        let is_array = job.indices != IndexSet::single();
        let last = || Attempt(job.tasks.next_attempt(Ordinal(0)).0.saturating_sub(1));
        JobNow {
            counts: job.tasks.counts(),
            held: !job.after.is_empty(),
            is_array,
            ended: job.ended,
            last_attempt: (job.ended.is_some() && !is_array).then(last),
        }
    }

    pub fn state(&self) -> JobState {
        self.counts.state(self.held)
    }
}

/// A job that something has happened to, and whose it is.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Known {
    pub(super) now: JobNow,
    pub(super) owner: UserName,
    pub(super) since: JobId,
}

impl Known {
    pub(super) fn owned(&self) -> Owned<'_> {
        Owned { owner: &self.owner, since: self.since }
    }
}

#[derive(Debug, PartialEq)]
pub struct Node {
    pub about: Described,
    pub now: NodeNow,
    /// Its tasks that have devices.
    pub(super) holding: BTreeSet<TaskId>,
}

/// Which tasks hold which devices.
pub type Holders = BTreeMap<DeviceId, Vec<TaskId>>;

/// The part of a node that stays as it is while tasks come and go.
#[derive(Debug, Clone, PartialEq)]
pub struct Described {
    pub ad: Arc<NodeAd>,
    /// Who supplied it.
    pub site: Option<SiteName>,
    /// Which kind of pilots of its site it is, where that is a batch system.
    pub class: Option<Arc<str>>,
}

impl Described {
    pub(super) fn of(state: &State, pilot: &Pilot) -> Self {
        let allocation = state.allocations().get(&pilot.allocation);
        let batch = allocation.and_then(|known| known.batch.as_deref());
        Described {
            ad: Arc::new(pilot.ad.clone()),
            site: allocation.map(|known| known.site.clone()),
            class: batch.map(|batch| Arc::from(&*batch.class)),
        }
    }
}

/// The part of a node that changes as tasks come and go.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeNow {
    /// What people know it by.
    pub name: NodeName,
    pub link: Link,
    pub leaving: bool,
    pub placed: u32,
    pub unstarted: u32,
    pub load: Load,
}

impl NodeNow {
    pub(super) fn of(pilot: &Pilot) -> Self {
        NodeNow {
            name: pilot.name().clone(),
            link: pilot.link,
            leaving: pilot.leaving,
            placed: u32::try_from(pilot.placed.len()).unwrap_or(u32::MAX),
            unstarted: pilot.unstarted,
            load: pilot.load.clone(),
        }
    }
}
