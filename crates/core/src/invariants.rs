//! What must always hold, checked over the whole state after every step of tests and simulation.

use crate::load::Load;
use crate::site::Allocation;
use crate::state::State;
use shipway_model::{AllocationId, JobId, PilotId, TaskId};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// An index that is derived differs from what it is derived from.
    StaleIndex(&'static str),
    ActiveWithoutJob(TaskId),
    ActiveCountWrong {
        job: JobId,
        counted: u32,
        found: u32,
    },
    PlacedTwice(TaskId),
    PlacedNotActive {
        pilot: PilotId,
        task: TaskId,
    },
    ActiveOnUnknownPilot(TaskId),
    LoadWrong(PilotId),
    /// Another pilot goes by the same name.
    NameTwice(PilotId),
    /// More of a device is given out than there is.
    DeviceOverused {
        pilot: PilotId,
        device: String,
    },
    UnstartedWrong(PilotId),
    OverMaxRunning(JobId),
    /// A job is over but not ended, or ended but not over.
    EndWrong(JobId),
    HeldJobRuns(JobId),
    /// A pilot or its token came of nothing that was asked of a site, or of another site's.
    AllocationUnknown(PilotId),
    /// More pilots came of one allocation than it has nodes, or can still come.
    AllocationShared(AllocationId),
    /// A pilot is not of the allocation that its token is for.
    PilotOfAnother(PilotId),
    /// Something is asked of a batch system that nobody knows.
    SiteUnknown(AllocationId),
}

pub fn check(state: &State) -> Vec<Violation> {
    let mut found = Vec::new();
    check_indexes(state, &mut found);
    check_jobs(state, &mut found);
    check_active(state, &mut found);
    check_allocations(state, &mut found);
    let mut names = BTreeSet::new();
    for (id, pilot) in state.pilots() {
        if !names.insert(pilot.name()) {
            found.push(Violation::NameTwice(id.clone()));
        }
        let mut load = Load::default();
        let mut unstarted = 0;
        for task in &pilot.placed {
            let active = state.active().get(task).filter(|active| active.pilot == *id);
            let (Some(active), Some(job)) = (active, state.job(task.job)) else {
                found.push(Violation::PlacedNotActive { pilot: id.clone(), task: *task });
                continue;
            };
            load.add(&state.shapes().get(job.shape).resources, &active.devices);
            unstarted += u32::from(active.started.is_none());
        }
        if load != pilot.load {
            found.push(Violation::LoadWrong(id.clone()));
        }
        if unstarted != pilot.unstarted {
            found.push(Violation::UnstartedWrong(id.clone()));
        }
        let over = load.gpus.iter().filter(|(_, share)| share.0 > 10_000);
        found.extend(over.map(|(device, _)| Violation::DeviceOverused {
            pilot: id.clone(),
            device: device.to_string(),
        }));
    }
    found
}

fn check_indexes(state: &State, found: &mut Vec<Violation>) {
    let mut rebuilt = state.clone();
    rebuilt.rebuild();
    let pairs = [
        ("ready", rebuilt.ready == state.ready),
        ("back_offs", rebuilt.back_offs == state.back_offs),
        ("dependents", rebuilt.dependents == state.dependents),
        ("untold", rebuilt.untold == state.untold),
        ("ended", rebuilt.ended == state.ended),
        ("fair_share", rebuilt.fair_share == state.fair_share),
        ("nodes", rebuilt.planner == state.planner),
        ("shapes", rebuilt.shapes == state.shapes),
        ("terms", rebuilt.terms == state.terms),
        ("shapes of the planner", state.planner.places() <= state.shapes.places()),
        ("totals", rebuilt.totals == state.totals),
        ("unfinished", rebuilt.unfinished == state.unfinished),
    ];
    found.extend(
        pairs.iter().filter(|(_, same)| !same).map(|(name, _)| Violation::StaleIndex(name)),
    );
}

fn check_jobs(state: &State, found: &mut Vec<Violation>) {
    for (id, job) in state.jobs().iter() {
        let counts = job.tasks.counts();
        let active = u32::try_from(state.active_of(id).count()).unwrap_or(u32::MAX);
        if active != counts.active {
            let counted = counts.active;
            found.push(Violation::ActiveCountWrong { job: id, counted, found: active });
        }
        if job.terms.max_running.is_some_and(|limit| counts.active > limit) {
            found.push(Violation::OverMaxRunning(id));
        }
        if counts.is_over() != job.ended.is_some() {
            found.push(Violation::EndWrong(id));
        }
        if !job.after.is_empty() && counts.active > 0 {
            found.push(Violation::HeldJobRuns(id));
        }
    }
}

fn check_allocations(state: &State, found: &mut Vec<Violation>) {
    let tokens = state.pilot_tokens().iter().map(|(pilot, token)| (pilot, &token.allocation));
    let mut all: BTreeMap<&AllocationId, BTreeSet<&PilotId>> = BTreeMap::new();
    for (id, pilot) in state.pilots() {
        let known = state.allocations().get(&pilot.allocation);
        let is_its =
            |known: &Allocation| pilot.site.as_ref().is_none_or(|site| *site == known.site);
        if !known.is_some_and(is_its) {
            found.push(Violation::AllocationUnknown(id.clone()));
        }
        let token = state.pilot_tokens().get(id);
        if token.is_some_and(|token| token.allocation != pilot.allocation) {
            found.push(Violation::PilotOfAnother(id.clone()));
        }
        all.entry(&pilot.allocation).or_default().insert(id);
    }
    for (pilot, allocation) in tokens {
        all.entry(allocation).or_default().insert(pilot);
    }
    for (id, pilots) in all {
        let batch = state.allocations().get(id).and_then(|known| known.batch.as_deref());
        if batch.is_some_and(|batch| pilots.len() > batch.nodes as usize) {
            found.push(Violation::AllocationShared(id.clone()));
        }
    }
    let tokens = state.pilot_tokens().iter();
    let lost = tokens.filter(|(_, token)| !state.allocations().contains_key(&token.allocation));
    found.extend(lost.map(|(pilot, _)| Violation::AllocationUnknown(pilot.clone())));
    let batch = state.allocations().iter().filter(|(_, known)| known.batch.is_some());
    let homeless = batch.filter(|(_, known)| !state.sites().contains_key(&known.site));
    found.extend(homeless.map(|(id, _)| Violation::SiteUnknown(id.clone())));
}

fn check_active(state: &State, found: &mut Vec<Violation>) {
    let mut placed = BTreeSet::new();
    for task in state.pilots().values().flat_map(|pilot| &pilot.placed) {
        if !placed.insert(*task) {
            found.push(Violation::PlacedTwice(*task));
        }
    }
    for (task, active) in state.active() {
        if state.job(task.job).is_none() {
            found.push(Violation::ActiveWithoutJob(*task));
        }
        if !state.pilots().contains_key(&active.pilot) {
            found.push(Violation::ActiveOnUnknownPilot(*task));
        }
    }
}
