//! What one batch changes of what is published: found by its events, and taken from the state that
//! it leaves. So nothing here knows what an event means, only whom it concerns.

use super::entries::{Described, JobNow, Known, NodeNow};
use shipway_core::State;
use shipway_core::event::{Event, Recorded, Which};
use shipway_core::job::Job;
use shipway_core::pilot::Active;
use shipway_core::task_table::{Piece, TaskStates};
use shipway_model::{IndexSet, JobId, PilotId, TaskId, UserName};
use std::collections::{BTreeMap, BTreeSet};

/// Tasks that are this near to each other go into one piece.
const NEAR: u32 = 64;

/// `None` of something: it is gone.
#[derive(Debug, Default)]
pub struct Changes {
    pub(super) jobs: Vec<(JobId, Option<Entry>)>,
    /// Arrays that are new here.
    pub(super) arrays: Vec<(JobId, IndexSet, TaskStates)>,
    pub(super) pieces: Vec<(JobId, Piece)>,
    pub(super) active: Vec<(TaskId, Option<Active>)>,
    /// With a new description, if it is new.
    pub(super) nodes: Vec<(PilotId, Option<NodeNow>, Option<Described>)>,
    /// Whose jobs may wait for other reasons now.
    pub(super) owners: BTreeSet<UserName>,
    pub(super) everybody: bool,
}

#[derive(Debug)]
pub(super) enum Entry {
    /// Nothing has happened to it.
    Fresh {
        held: bool,
    },
    Known(Known),
}

impl Entry {
    pub(super) fn of(state: &State, id: JobId, job: &Job) -> Self {
        if job.tasks.is_untouched() {
            return Entry::Fresh { held: !job.after.is_empty() };
        }
        let since = state.owned(id, job).since;
        Entry::Known(Known { now: JobNow::of(job), owner: job.owner.clone(), since })
    }
}

impl Changes {
    /// The state is the one with exactly these events, and those before, in it.
    pub fn of(state: &State, events: &[Recorded]) -> Changes {
        let mut concerned = Concerned::default();
        for recorded in events {
            concerned.by(state, &recorded.event);
        }
        concerned.look(state)
    }
}

/// Whom a batch concerns.
#[derive(Debug, Default)]
struct Concerned {
    jobs: BTreeSet<JobId>,
    new: BTreeSet<JobId>,
    /// Tasks by their positions: first and last of each range.
    ranges: Vec<(JobId, u32, u32)>,
    active: Vec<TaskId>,
    /// And whether they are described anew.
    nodes: BTreeMap<PilotId, bool>,
    /// Jobs at which something happened that is not the course of their tasks.
    waiting: BTreeSet<JobId>,
    everybody: bool,
}

impl Concerned {
    fn by(&mut self, state: &State, event: &Event) {
        match event {
            Event::ServerStarted => self.all(state),
            Event::JobSubmitted(submitted) => self.new_job(submitted.job),
            Event::JobRevived { record } => self.new_job(record.id),
            Event::DependencyMet { job, .. } => self.other_reasons(*job),
            Event::TasksPlaced { parts } => {
                for part in parts {
                    self.node(&part.pilot, false);
                    part.tasks.iter().for_each(|placed| self.task(state, placed.task));
                }
            }
            Event::AttemptsStarted { tasks } => {
                for (task, ..) in tasks {
                    self.started(state, *task);
                }
            }
            Event::AttemptsUsed { tasks } => self.active.extend(tasks.iter().map(|it| it.0)),
            Event::AttemptEnded(ended) => {
                self.node(&ended.pilot, false);
                self.task(state, ended.task);
            }
            Event::TasksCancelled { job, which, .. } => {
                self.other_reasons(*job);
                match which {
                    Which::AllWaiting => self.ranges.push((*job, 0, u32::MAX)),
                    Which::These(tasks) => self.in_ranges(*job, tasks.runs()),
                }
            }
            Event::TasksRequeued { job, tasks } => {
                self.other_reasons(*job);
                self.in_ranges(*job, tasks.runs());
            }
            Event::JobEnded { job, .. } => {
                self.jobs.insert(*job);
            }
            Event::JobsArchived { jobs } => self.jobs.extend(jobs),
            Event::JobsGiven { jobs, .. } => {
                self.everybody = true;
                self.jobs.extend(jobs);
            }
            Event::PilotJoined(joined) => self.other_nodes(&joined.pilot, true),
            Event::PilotChanged { pilot, .. } => self.other_nodes(pilot, true),
            Event::PilotAway { pilot }
            | Event::PilotLeaving { pilot }
            | Event::PilotLost { pilot }
            | Event::PilotEnded { pilot } => self.other_nodes(pilot, false),
            Event::UserAdded { .. }
            | Event::UserRemoved { .. }
            | Event::HalfLifeSet { .. }
            | Event::ShareSet { .. }
            | Event::SiteAdded { .. }
            | Event::SiteDrained { .. }
            | Event::SiteRemoved { .. }
            | Event::SiteTroubled { .. }
            | Event::SiteReached { .. }
            | Event::SiteDiffers { .. }
            | Event::AllocationChanged { .. } => self.everybody = true,
            Event::StopRequested { tasks, .. } => self.active.extend(tasks),
            Event::TasksReady { .. }
            | Event::TokenIssued { .. }
            | Event::TokenRevoked { .. }
            | Event::TokensExpired { .. }
            | Event::AllocationAsked { .. }
            | Event::PilotTokenEnded { .. }
            | Event::KeysExpired { .. } => {}
        }
    }

    fn started(&mut self, state: &State, task: TaskId) {
        self.active.push(task);
        // One that is over by now has told of its node too.
        if let Some(active) = state.active().get(&task) {
            self.node(&active.pilot, false);
        }
    }

    fn all(&mut self, state: &State) {
        self.everybody = true;
        state.pilots().keys().for_each(|id| self.node(id, false));
    }

    fn new_job(&mut self, job: JobId) {
        self.new.insert(job);
        self.other_reasons(job);
    }

    fn other_reasons(&mut self, job: JobId) {
        self.jobs.insert(job);
        self.waiting.insert(job);
    }

    fn other_nodes(&mut self, pilot: &PilotId, is_described: bool) {
        self.everybody = true;
        self.node(pilot, is_described);
    }

    fn node(&mut self, pilot: &PilotId, is_described: bool) {
        match self.nodes.get_mut(pilot) {
            Some(described) => *described |= is_described,
            None => drop(self.nodes.insert(pilot.clone(), is_described)),
        }
    }

    fn task(&mut self, state: &State, task: TaskId) {
        self.active.push(task);
        self.jobs.insert(task.job);
        let position = state.job(task.job).and_then(|job| job.indices.ordinal(task.index));
        self.ranges.extend(position.map(|at| (task.job, at.0, at.0)));
    }

    fn in_ranges(&mut self, job: JobId, ranges: impl Iterator<Item = (u32, u32)>) {
        self.ranges.extend(ranges.map(|(first, last)| (job, first, last)));
    }

    fn look(mut self, state: &State) -> Changes {
        let is_array = |job: &&Job| job.indices != IndexSet::single();
        let entry = |id: JobId| (id, state.job(id).map(|job| Entry::of(state, id, job)));
        let array = |id: &JobId| {
            let job = state.job(*id).filter(is_array)?;
            Some((*id, job.indices.clone(), job.tasks.bits().clone()))
        };
        let piece = |(id, first, last): (JobId, u32, u32)| {
            let job = state.job(id).filter(is_array)?;
            Some((id, job.tasks.bits().piece(first, last)))
        };
        let node = |(id, is_described): (PilotId, bool)| {
            let pilot = state.pilots().get(&id);
            let described = pilot.filter(|_| is_described);
            (id, pilot.map(NodeNow::of), described.map(|pilot| Described::of(state, pilot)))
        };
        self.active.sort_unstable();
        self.active.dedup();
        let active = self.active.iter().map(|task| (*task, state.active().get(task).cloned()));
        let owner = |id: &JobId| state.job(*id).map(|job| job.owner.clone());
        Changes {
            jobs: self.jobs.into_iter().map(entry).collect(),
            arrays: self.new.iter().filter_map(array).collect(),
            pieces: joined(self.ranges).into_iter().filter_map(piece).collect(),
            active: active.collect(),
            nodes: self.nodes.into_iter().map(node).collect(),
            owners: self.waiting.iter().filter_map(owner).collect(),
            everybody: self.everybody,
        }
    }
}

/// Ranges of one job that are near to each other made one.
fn joined(mut ranges: Vec<(JobId, u32, u32)>) -> Vec<(JobId, u32, u32)> {
    ranges.sort_unstable();
    ranges.dedup_by(|next, before| {
        let is_near = next.0 == before.0 && next.1 <= before.2.saturating_add(NEAR);
        before.2 = if is_near { before.2.max(next.2) } else { before.2 };
        is_near
    });
    ranges
}
