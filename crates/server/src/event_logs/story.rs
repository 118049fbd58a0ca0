//! From the journal's events to what HTCondor's log says of them. Pure: it is given one event
//! after the other, and what it knows in between is plain data that can be kept.

use crate::panics::{Panicked, guarded};
use serde::{Deserialize, Serialize};
use shipway_core::event::{AttemptEnded, CancelReason, Event, Part, Recorded, Verdict, Which};
use shipway_core::runs::Runs;
use shipway_dialects::event_log::{Evicted, How, Resources, Used, What};
use shipway_model::{
    Attempt, DeviceId, JobId, JobSpec, Outcome, PilotId, TaskId, TaskIndex, Timestamp,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a lone signal stands for that the kernel sends for want of memory.
const SIGKILL: i32 = 9;

/// What is known of jobs with a log that have not ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Story {
    /// The last event it knows.
    pub(super) seq: u64,
    pub(super) jobs: BTreeMap<JobId, JobStory>,
    /// The nodes that pilots are on.
    pub(super) nodes: BTreeMap<PilotId, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct JobStory {
    /// By position in the array.
    waiting: Runs<bool>,
    active: BTreeMap<TaskIndex, Active>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Active {
    attempt: Attempt,
    pilot: PilotId,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    devices: Vec<DeviceId>,
    /// Whether the log says that it executes.
    told: bool,
}

/// One thing to say of some tasks of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) job: JobId,
    /// First and last position of each run: a million tasks are submitted in one go.
    pub(super) tasks: Vec<(u32, u32)>,
    pub(super) at: Timestamp,
    pub(super) what: What,
}

/// What an event gives the logs.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub(super) entries: Vec<Entry>,
    /// Jobs over which it failed by a mistake: their logs leave this event out, or a part of it.
    pub(super) left_out: BTreeSet<JobId>,
}

impl Heard {
    /// An event is about tasks of many users: a mistake over one job costs the others nothing.
    fn of(&mut self, job: JobId, look: impl FnOnce() -> Vec<Entry>) {
        match guarded(look) {
            Ok(entries) => self.entries.extend(entries),
            Err(Panicked) => {
                self.left_out.insert(job);
            }
        }
    }
}

/// The specifications of jobs, and where the server is.
pub(super) trait Known {
    fn spec(&self, job: JobId) -> Option<Arc<JobSpec>>;
    fn address(&self) -> &str;
}

impl Story {
    /// What the logs say of this event.
    pub(super) fn hear(&mut self, recorded: &Recorded, known: &dyn Known) -> Heard {
        let (at, mut heard) = (recorded.at, Heard::default());
        match &recorded.event {
            Event::JobSubmitted(new) if new.spec.event_log.is_some() => heard.of(new.job, || {
                let tasks = new.spec.indices().map_or(0, |indices| indices.len());
                let last = tasks.checked_sub(1);
                let all = last.map(|last| (0, last)).into_iter().collect();
                self.queued(new.job, all, at, known)
            }),
            Event::TasksRequeued { job, tasks } => heard.of(*job, || {
                let has_log = known.spec(*job).is_some_and(|spec| spec.event_log.is_some());
                if has_log { self.queued(*job, tasks.runs().collect(), at, known) } else { vec![] }
            }),
            Event::TasksPlaced { parts } => {
                for Part { pilot, tasks } in parts {
                    for placed in tasks {
                        heard.of(placed.task.job, || {
                            self.placed(placed.task, placed.attempt, pilot, &placed.devices, known);
                            Vec::new()
                        });
                    }
                }
            }
            Event::AttemptsStarted { tasks } => {
                for (task, _, at) in tasks {
                    heard.of(task.job, || self.started(*task, *at, known).into_iter().collect());
                }
            }
            Event::AttemptEnded(ended) => heard.of(ended.task.job, || self.ended(ended, known)),
            Event::TasksCancelled { job, which, why } => {
                heard.of(*job, || self.cancelled(*job, which, why, at).into_iter().collect());
            }
            Event::JobEnded { job, .. } => {
                self.jobs.remove(job);
            }
            Event::PilotJoined(joined) => {
                self.nodes.insert(joined.pilot.clone(), joined.name().to_string());
            }
            Event::PilotEnded { pilot } => {
                self.nodes.remove(pilot);
            }
            _ => {}
        }
        heard
    }

    fn queued(
        &mut self,
        job: JobId,
        tasks: Vec<(u32, u32)>,
        at: Timestamp,
        known: &dyn Known,
    ) -> Vec<Entry> {
        let story = self.jobs.entry(job).or_default();
        for (first, last) in &tasks {
            story.waiting.set(*first, *last, true);
        }
        vec![Entry { job, tasks, at, what: What::Submitted { host: known.address().into() } }]
    }

    fn placed(
        &mut self,
        task: TaskId,
        attempt: Attempt,
        pilot: &PilotId,
        devices: &[DeviceId],
        known: &dyn Known,
    ) {
        let Some(story) = self.jobs.get_mut(&task.job) else { return };
        if let Some(at) = position(task, known) {
            story.waiting.remove(at, at);
        }
        let active =
            Active { attempt, pilot: pilot.clone(), devices: devices.to_vec(), told: false };
        story.active.insert(task.index, active);
    }

    fn started(&mut self, task: TaskId, at: Timestamp, known: &dyn Known) -> Option<Entry> {
        let active = self.jobs.get_mut(&task.job)?.active.get_mut(&task.index)?;
        if std::mem::replace(&mut active.told, true) {
            return None;
        }
        let node = self.nodes.get(&active.pilot);
        let node = node.cloned().unwrap_or_else(|| active.pilot.to_string());
        let resources = resources(task.job, &active.devices, known);
        entry(task, at, What::Executing { node, resources }, known)
    }

    fn ended(&mut self, ended: &AttemptEnded, known: &dyn Known) -> Vec<Entry> {
        let task = ended.task;
        if !self.jobs.contains_key(&task.job) {
            return Vec::new();
        }
        // One that ended soon after its start is told of by its end alone.
        let start = ended.started.and_then(|at| self.started(task, at, known));
        let Some(story) = self.jobs.get_mut(&task.job) else { return Vec::new() };
        let active = story.active.remove(&task.index);
        let was_told = active.as_ref().is_some_and(|active| active.told);
        if let (Verdict::Retry { .. }, Some(at)) = (ended.verdict, position(task, known)) {
            story.waiting.set(at, at, true);
        }
        let devices = active.map(|active| active.devices).unwrap_or_default();
        let resources = Resources { used: used(ended), ..resources(task.job, &devices, known) };
        let whats = endings(ended, was_told, &resources);
        let ends = whats.into_iter().filter_map(|what| entry(task, ended.ended, what, known));
        start.into_iter().chain(ends).collect()
    }

    fn cancelled(
        &mut self,
        job: JobId,
        which: &Which,
        why: &CancelReason,
        at: Timestamp,
    ) -> Option<Entry> {
        let story = self.jobs.get_mut(&job)?;
        let tasks: Vec<(u32, u32)> = match which {
            Which::AllWaiting => {
                story.waiting.iter().map(|(first, last, _)| (first, last)).collect()
            }
            Which::These(tasks) => tasks.runs().collect(),
        };
        for (first, last) in &tasks {
            story.waiting.remove(*first, *last);
        }
        let reason = match why {
            CancelReason::Asked => "via shipway cancel".into(),
            CancelReason::OwnerRemoved => "its owner was removed from this server".into(),
            CancelReason::Dependency { on, ended } => {
                format!("job {on}, which it waited for, ended: {ended}")
            }
        };
        Some(Entry { job, tasks, at, what: What::Aborted { reason } })
    }
}

/// What the end of an attempt is in HTCondor's words. What is over there has terminated or was
/// aborted; what goes again was evicted.
fn endings(ended: &AttemptEnded, was_told: bool, resources: &Resources) -> Vec<What> {
    let how = match &ended.outcome {
        Outcome::Exit { code } => Some(How::Exit(*code)),
        Outcome::Signal { signal } => Some(How::Signal(*signal)),
        Outcome::OutOfMemory { .. } => Some(How::Signal(SIGKILL)),
        _ => None,
    };
    let evicted = |why| What::Evicted { why, resources: resources.clone() };
    let reason = ended.outcome.to_string();
    let stopped = |reason| was_told.then(|| evicted(Evicted::Stopped { reason }));
    match (ended.verdict, how) {
        (Verdict::Cancelled, _) => {
            let aborted = What::Aborted { reason: "via shipway cancel".into() };
            stopped(None).into_iter().chain([aborted]).collect()
        }
        (Verdict::Succeeded | Verdict::Failed, Some(how)) => {
            vec![What::Terminated { how, ran_ms: ended.ran.0, resources: resources.clone() }]
        }
        (Verdict::Succeeded | Verdict::Failed, None) => {
            let aborted = What::Aborted { reason: reason.clone() };
            stopped(Some(reason)).into_iter().chain([aborted]).collect()
        }
        (Verdict::Retry { .. }, Some(how)) => vec![evicted(Evicted::Requeued(how))],
        (Verdict::Retry { .. }, None) if !was_told => Vec::new(),
        (Verdict::Retry { .. }, None) => {
            let node = ended.node.to_string();
            let mut whats = Vec::new();
            if matches!(ended.outcome, Outcome::Lost { .. }) {
                whats.push(What::Disconnected { reason: reason.clone(), node: node.clone() });
                whats.push(What::ReconnectFailed { reason: reason.clone(), node });
            }
            whats.push(evicted(Evicted::Stopped { reason: Some(reason) }));
            whats
        }
    }
}

fn entry(task: TaskId, at: Timestamp, what: What, known: &dyn Known) -> Option<Entry> {
    let position = position(task, known)?;
    Some(Entry { job: task.job, tasks: vec![(position, position)], at, what })
}

fn position(task: TaskId, known: &dyn Known) -> Option<u32> {
    Some(known.spec(task.job)?.indices()?.ordinal(task.index)?.0)
}

fn resources(job: JobId, devices: &[DeviceId], known: &dyn Known) -> Resources {
    let Some(spec) = known.spec(job) else { return Resources::default() };
    let need = &spec.resources;
    Resources {
        cpus_milli: need.cpus.milli,
        memory: need.memory.0,
        disk: need.disk.0,
        gpus: need.gpu.as_ref().map_or(0, |gpu| u64::from(gpu.count)),
        devices: devices.iter().map(ToString::to_string).collect(),
        used: Used::default(),
    }
}

fn used(ended: &AttemptEnded) -> Used {
    let Some(usage) = &ended.usage else { return Used::default() };
    let wall = usage.wall_ms.filter(|wall| *wall > 0);
    let cpus = usage.cpu_ms.zip(wall);
    let gpus = usage.gpu_busy.zip(usage.gpus);
    Used {
        cpu_ms: usage.cpu_ms,
        cpus_milli: cpus.map(|(cpu, wall)| cpu.saturating_mul(1_000) / wall),
        memory: usage.memory,
        // Of ten-thousandths.
        gpus_milli: gpus.map(|(busy, gpus)| busy.saturating_mul(gpus) / 10),
    }
}

#[cfg(test)]
mod tests;
