//! A plan is carried out, as far as it still fits: the state may have changed since it was made.
//! What no longer fits is left out, and the next plan sees to it.

use crate::event::{Event, Placement};
use crate::load::Load;
use crate::rejection::Rejection;
use crate::schedule::Plan;
use crate::schedule::backlog;
use crate::state::State;
use shipway_model::{JobId, PilotId, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// What this plan has used up so far, beside what the state says.
#[derive(Default)]
struct Used {
    load: BTreeMap<PilotId, Load>,
    unstarted: BTreeMap<PilotId, u32>,
    running: BTreeMap<JobId, u32>,
    tasks: BTreeSet<TaskId>,
}

pub(super) fn decide(state: &State, plan: &Plan) -> Result<Vec<Event>, Rejection> {
    let mut used = Used::default();
    let mut events = Vec::new();
    for (pilot, placements) in plan.by_pilot() {
        let good = placements.iter().filter(|placement| take(state, &mut used, pilot, placement));
        let tasks: Vec<Placement> = good.cloned().collect();
        if !tasks.is_empty() {
            events.push(Event::TasksPlaced { pilot: pilot.clone(), tasks });
        }
    }
    if events.is_empty() { Err(Rejection::StalePlan("nothing of it fits")) } else { Ok(events) }
}

fn take(state: &State, used: &mut Used, pilot_id: &PilotId, placement: &Placement) -> bool {
    let task = placement.task;
    let job = state.job(task.job).filter(|job| job.after.is_empty());
    let pilot = state.pilots().get(pilot_id).filter(|pilot| pilot.takes_work());
    let (Some(job), Some(pilot)) = (job, pilot) else { return false };
    let Some(position) = job.indices.ordinal(task.index) else { return false };
    let running = used.running.entry(task.job).or_default();
    let wanted = job.tasks.may_place(position)
        && job.tasks.next_attempt(position) == placement.attempt
        && *running < job.room()
        && used.tasks.insert(task);
    if !wanted {
        return false;
    }
    let need = &state.shapes().get(job.shape).resources;
    let load = used.load.entry(pilot_id.clone()).or_insert_with(|| pilot.load.clone());
    let unstarted = used.unstarted.entry(pilot_id.clone()).or_insert(pilot.unstarted);
    let usable = state.planner().usable(state.shapes(), job.shape, (pilot_id, pilot));
    let Some(usable) = usable else { return false };
    let fits = load.lacks(&pilot.ad, need, usable).is_none();
    let devices_free = load.may_take(&pilot.ad, need, usable, &placement.devices);
    if !(fits && devices_free || backlog::allows(job, pilot, need, *unstarted)) {
        return false;
    }
    load.add(need, &placement.devices);
    *unstarted += 1;
    *running += 1;
    true
}
