//! Everything the core knows: plain ordered maps, and indexes that follow from them.
//!
//! Changed only by `evolve`. `snapshot.rs` stores it; the indexes are left out and rebuilt. What
//! users wrote (commands, environments, names) is not here but in history.

use crate::batch::BatchSite;
use crate::broker::Expected;
use crate::command::Token;
use crate::ended::Ended;
use crate::job::{Job, JobRecord};
use crate::job_table::JobTable;
use crate::keys::Keys;
use crate::pilot::{Active, Pilot};
use crate::ready::Ready;
use crate::schedule::Planner;
use crate::shape::{Shape, ShapeId, Shapes};
use crate::site::{Allocation, Phase, PilotToken};
use crate::terms::SharedTerms;
use crate::totals::Totals;
use crate::unfinished::Unfinished;
use crate::usage::{FairShare, charge};
use crate::users::Users;
use shipway_model::{
    AllocationId, JobId, Ordinal, Owned, PilotId, SiteName, TaskId, TaskState, Timestamp, UserName,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct State {
    /// The time of the last event.
    pub(crate) at: Timestamp,
    pub(crate) next_job: u64,
    pub(crate) jobs: JobTable,
    pub(crate) shapes: Shapes,
    pub(crate) pilots: BTreeMap<PilotId, Pilot>,
    pub(crate) active: BTreeMap<TaskId, Active>,
    pub(crate) users: Users,
    pub(crate) fair_share: FairShare,
    pub(crate) tokens: BTreeMap<String, Token>,
    /// Those that are batch systems.
    pub(crate) sites: BTreeMap<SiteName, BatchSite>,
    /// What was asked of sites.
    pub(crate) allocations: BTreeMap<AllocationId, Allocation>,
    pub(crate) pilot_tokens: BTreeMap<PilotId, PilotToken>,
    /// The folders of pilots that have ended, and when they did.
    pub(crate) folders: BTreeMap<PilotId, (Timestamp, String)>,
    pub(crate) keys: Keys,
    /// Jobs that were given to their owners later, and since when; see `Event::JobsGiven`.
    pub(crate) given: BTreeMap<JobId, JobId>,

    // From here on all follows from the above; see `rebuild`.
    pub(crate) terms: SharedTerms,
    pub(crate) ready: Ready,
    pub(crate) planner: Planner,
    pub(crate) expected: Arc<Expected>,
    pub(crate) back_offs: BTreeSet<(Timestamp, TaskId)>,
    pub(crate) dependents: BTreeMap<JobId, BTreeSet<JobId>>,
    /// Jobs that have ended and are still waited for: those who wait are yet to be told.
    pub(crate) untold: BTreeSet<JobId>,
    pub(crate) ended: Ended,
    pub(crate) totals: Totals,
    pub(crate) unfinished: Unfinished,
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
        self.jobs.get(id)
    }
    pub fn jobs(&self) -> &JobTable {
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
    pub fn fair_share(&self) -> &FairShare {
        &self.fair_share
    }
    pub fn planner(&self) -> &Planner {
        &self.planner
    }
    pub fn ready(&self) -> &Ready {
        &self.ready
    }
    /// What is not over of each user's.
    pub fn unfinished(&self) -> &Unfinished {
        &self.unfinished
    }
    /// What is not over, in numbers.
    pub fn totals(&self) -> Totals {
        self.totals
    }
    pub fn users(&self) -> &Users {
        &self.users
    }
    pub fn tokens(&self) -> &BTreeMap<String, Token> {
        &self.tokens
    }
    /// Whose a job is.
    pub fn owned<'a>(&self, id: JobId, job: &'a Job) -> Owned<'a> {
        Owned { owner: &job.owner, since: self.given.get(&id).copied().unwrap_or(id) }
    }
    /// Whether it is under a name that meant somebody else when it was submitted.
    pub fn is_orphan(&self, id: JobId, job: &Job) -> bool {
        self.is_orphaned(&self.owned(id, job))
    }
    pub(crate) fn is_orphaned(&self, owned: &Owned<'_>) -> bool {
        owned.since < self.users.since(owned.owner)
    }
    /// What is not over of a user's.
    pub fn unfinished_of(&self, user: &UserName) -> Vec<JobId> {
        let theirs = |(_, job): &(JobId, &Job)| job.ended.is_none() && job.owner == *user;
        self.jobs.iter().filter(theirs).map(|(id, _)| id).collect()
    }
    /// The nodes that batch systems would give.
    pub fn expected(&self) -> &Arc<Expected> {
        &self.expected
    }
    pub fn allocations(&self) -> &BTreeMap<AllocationId, Allocation> {
        &self.allocations
    }
    pub fn pilot_tokens(&self) -> &BTreeMap<PilotId, PilotToken> {
        &self.pilot_tokens
    }

    pub fn task_state(&self, task: TaskId) -> Option<TaskState> {
        let job = self.jobs.get(task.job)?;
        let known = job.tasks.state(job.indices.ordinal(task.index)?);
        Some(self.active.get(&task).map_or(known, Active::state))
    }

    /// An ended job with all that history needs to bring it back.
    pub fn record(&self, id: JobId) -> Option<JobRecord> {
        let job = self.jobs.get(id)?.clone();
        let shape = self.shapes.get(job.shape).clone();
        let Shape { resources, at_most, expressions, gang, kept_from: _, is_guest: _ } = shape;
        let given = self.given.get(&id).copied();
        Some(JobRecord { id, resources, at_most, expressions, gang, given, job })
    }

    /// Ended jobs that are still in memory.
    pub fn ended(&self) -> &Ended {
        &self.ended
    }

    /// Ended jobs beyond the newest `keep` jobs and `keep_tasks` tasks, oldest first: they may
    /// leave memory.
    pub fn archivable(&self, keep: usize, keep_tasks: u64) -> Vec<JobId> {
        let (mut jobs, mut tasks) = (self.ended.jobs(), self.ended.tasks());
        let oldest = self.ended.iter().take_while(|id| {
            let is_surplus = jobs > keep || tasks > keep_tasks;
            jobs -= 1;
            tasks -= self.jobs.get(*id).map_or(0, |job| u64::from(job.tasks.len()));
            is_surplus
        });
        // Somebody may still wait for it; its end must stay known until that is settled.
        oldest.filter(|job| !self.dependents.contains_key(job)).collect()
    }

    /// When the core wants to be told the time again.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let back_off = self.back_offs.first().map(|(at, _)| *at);
        let pilots = self.pilots.values().filter_map(Pilot::next_deadline).min();
        let planner = self.planner.next_deadline();
        let is_behind = !self.untold.is_empty() || self.planner.is_behind();
        let now = is_behind.then_some(self.at);
        let others = [self.keys.next_deadline(), self.next_token_end(), now];
        [back_off, pilots, planner].into_iter().chain(others).flatten().min()
    }

    /// Those of them that run there and whose pilots have never come, found in one look at all
    /// tokens and pilots.
    pub(crate) fn without_pilot<'a>(
        &'a self,
        of: impl Iterator<Item = (&'a AllocationId, &'a Allocation)>,
    ) -> BTreeSet<&'a AllocationId> {
        let running = of.filter(|(_, known)| known.phase == Phase::Running).map(|(id, _)| id);
        let running: BTreeSet<&AllocationId> = running.collect();
        if running.is_empty() {
            return running;
        }
        let fresh = self.pilot_tokens.values().filter(|token| token.folder.is_none());
        let fresh = fresh.map(|token| &token.allocation).filter(|id| running.contains(id));
        let mut without: BTreeSet<&AllocationId> = fresh.collect();
        for pilot in self.pilots.values() {
            without.remove(&pilot.allocation);
        }
        without
    }

    /// Builds the indexes anew, after a snapshot was read.
    pub fn rebuild(&mut self) {
        self.shapes.rebuild(self.jobs.iter().map(|(_, job)| job.shape));
        self.terms = SharedTerms::default();
        self.ready = Ready::default();
        self.back_offs.clear();
        self.dependents.clear();
        self.ended = Ended::default();
        self.fair_share.forget_rates();
        self.totals = Totals::default();
        self.unfinished = Unfinished::default();
        for (id, job) in self.jobs.iter() {
            self.terms.share(Arc::clone(&job.terms));
            self.ready.refresh(id, job);
            self.totals.add(job);
            if job.ended.is_none() {
                self.unfinished.add(job, &self.shapes);
            }
            for after in &job.after {
                self.dependents.entry(after.job).or_default().insert(id);
            }
            self.ended.add(id, job);
            for (first, last, at) in job.tasks.backing_off() {
                let indices = (first..=last).filter_map(|task| job.indices.index(Ordinal(task)));
                self.back_offs.extend(indices.map(|index| (at, id.task(index))));
            }
        }
        let has_ended = |id: &&JobId| self.jobs.get(**id).is_some_and(|job| job.ended.is_some());
        self.untold = self.dependents.keys().filter(has_ended).copied().collect();
        for task in self.active.keys() {
            if let Some(job) = self.jobs.get(task.job) {
                let rate = charge(&self.shapes.get(job.shape).resources);
                self.fair_share.restore_rate(&job.owner, rate);
            }
        }
        self.planner = Planner::of(&self.pilots);
        self.expected = Arc::new(Expected::of(&self.sites));
    }

    /// A job has left memory, and with it what nobody else has.
    pub(crate) fn release(&mut self, job: &Job) {
        self.release_shape(job.shape);
        self.terms.release(&job.terms);
    }

    /// One job fewer has this shape.
    pub(crate) fn release_shape(&mut self, shape: ShapeId) {
        if self.shapes.release(shape) {
            self.planner.forget(shape, self.shapes.places());
        }
    }
}
