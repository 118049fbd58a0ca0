//! A plan is carried out, as far as it still fits: the state may have changed since it was made.
//! What no longer fits is left out, a gang as a whole, and the next plan sees to it.

use crate::event::{Event, Part, Placement, StopReason};
use crate::job::Job;
use crate::load::Load;
use crate::pilot::Pilot;
use crate::rejection::Rejection;
use crate::schedule::Plan;
use crate::schedule::backlog;
use crate::shape::Shape;
use crate::state::State;
use shipway_model::{JobId, Ordinal, PilotId, TaskId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// A gang by its first task.
type GangOf = (JobId, Ordinal);

pub(super) fn decide(state: &State, now: Timestamp, plan: &Plan) -> Result<Vec<Event>, Rejection> {
    let mut left_out = BTreeSet::new();
    loop {
        let mut used = Used::at(now);
        let parts = carry_out(state, plan, &left_out, &mut used);
        let before = left_out.len();
        left_out.extend(used.broken(state));
        // What a broken gang had taken may be what another task found missing: all over again.
        if left_out.len() > before {
            continue;
        }
        let leave = leave(state, plan);
        if parts.is_empty() && leave.is_empty() {
            return Err(Rejection::StalePlan("nothing of it fits"));
        }
        let placed = (!parts.is_empty()).then_some(Event::TasksPlaced { parts });
        let why = StopReason::Preempted;
        let stopped = (!leave.is_empty()).then_some(Event::StopRequested { tasks: leave, why });
        return Ok(placed.into_iter().chain(stopped).collect());
    }
}

/// The guests that are still there, and were not told to go.
fn leave(state: &State, plan: &Plan) -> Vec<TaskId> {
    let is_guest = |task: &&TaskId| {
        let shape = state.job(task.job).map(|job| state.shapes().get(job.shape));
        let active = state.active().get(task).filter(|active| active.stopping.is_none());
        let pilot = active.and_then(|active| state.pilots().get(&active.pilot));
        shape.is_some_and(|shape| shape.is_guest) && pilot.is_some_and(|it| it.guests.is_some())
    };
    plan.leave.iter().filter(is_guest).copied().collect()
}

fn carry_out(
    state: &State,
    plan: &Plan,
    left_out: &BTreeSet<GangOf>,
    used: &mut Used,
) -> Vec<Part> {
    let mut parts = Vec::new();
    for (pilot, placements) in plan.by_pilot() {
        let good = placements.iter().filter(|placement| {
            let found = Found::new(state, pilot, placement);
            found.is_some_and(|found| used.take(&found, left_out))
        });
        let tasks: Vec<Placement> = good.cloned().collect();
        if !tasks.is_empty() {
            parts.push(Part { pilot: pilot.clone(), tasks });
        }
    }
    parts
}

/// A placement with what it is about.
struct Found<'a> {
    state: &'a State,
    placement: &'a Placement,
    pilot_id: &'a PilotId,
    pilot: &'a Pilot,
    job: &'a Job,
    shape: &'a Shape,
    position: Ordinal,
}

impl<'a> Found<'a> {
    /// `None`: the job may not run, or the pilot takes nothing.
    fn new(state: &'a State, pilot_id: &'a PilotId, placement: &'a Placement) -> Option<Self> {
        let job = state.job(placement.task.job).filter(|job| job.after.is_empty())?;
        let pilot = state.pilots().get(pilot_id).filter(|pilot| pilot.takes_work())?;
        let position = job.indices.ordinal(placement.task.index)?;
        let shape = state.shapes().get(job.shape);
        Some(Found { state, placement, pilot_id, pilot, job, shape, position })
    }

    fn gang(&self) -> Option<GangOf> {
        let first = self.shape.gang.around(self.position).next()?;
        (!self.shape.gang.is_one()).then_some((self.placement.task.job, first))
    }
}

/// What this plan has used up so far, beside what the state says.
#[derive(Default)]
struct Used {
    now: Timestamp,
    load: BTreeMap<PilotId, Load>,
    unstarted: BTreeMap<PilotId, u32>,
    running: BTreeMap<JobId, u32>,
    tasks: BTreeSet<TaskId>,
    /// How many of each gang have their place.
    gangs: BTreeMap<GangOf, u32>,
}

impl Used {
    fn at(now: Timestamp) -> Used {
        Used { now, ..Used::default() }
    }

    fn take(&mut self, found: &Found<'_>, left_out: &BTreeSet<GangOf>) -> bool {
        let gang = found.gang();
        if gang.is_some_and(|gang| left_out.contains(&gang)) {
            return false;
        }
        let has_place = self.has_place(found);
        if let Some(gang) = gang {
            *self.gangs.entry(gang).or_default() += u32::from(has_place);
        }
        has_place
    }

    fn has_place(&mut self, found: &Found<'_>) -> bool {
        let Found { state, placement, pilot_id, pilot, job, shape, position } = *found;
        let running = self.running.entry(placement.task.job).or_default();
        let wanted = job.tasks.may_place(position)
            && job.tasks.next_attempt(position) == placement.attempt
            && *running < job.room()
            && self.tasks.insert(placement.task);
        if !wanted {
            return false;
        }
        let need = &shape.resources;
        let load = self.load.entry(pilot_id.clone()).or_insert_with(|| pilot.load.clone());
        let unstarted = self.unstarted.entry(pilot_id.clone()).or_insert(pilot.unstarted);
        let whose = (pilot_id, pilot);
        let usable = state.planner().usable(state.shapes(), job.shape, whose, self.now);
        let Some(usable) = usable else { return false };
        let fits = load.lacks(&pilot.ad, need, usable).is_none();
        let devices_free = load.may_take(&pilot.ad, need, usable, &placement.devices);
        // What is sent ahead starts when there is room, and a gang starts together.
        let may_wait = || shape.gang.is_one() && backlog::allows(job, pilot, need, *unstarted);
        if !(fits && devices_free || may_wait()) {
            return false;
        }
        load.add(need, &placement.devices);
        *unstarted += 1;
        *running += 1;
        true
    }

    /// The gangs of which some have no place.
    fn broken(&self, state: &State) -> impl Iterator<Item = GangOf> {
        let is_broken = |((id, _), placed): &(&GangOf, &u32)| {
            let gang = state.job(*id).map(|job| state.shapes().get(job.shape).gang);
            gang.is_none_or(|gang| gang.size() != **placed)
        };
        self.gangs.iter().filter(is_broken).map(|(gang, _)| *gang)
    }
}
