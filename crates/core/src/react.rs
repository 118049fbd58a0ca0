//! What the outside has to do after a fact. Looks at the state as it is after the fact.

use crate::effect::Effect;
use crate::event::{Event, Joined, Part, Placement, StopReason};
use crate::site::Phase;
use crate::state::State;
use shipway_model::limits::CANCEL_GRACE;
use shipway_model::{AllocationId, AttemptId, Millis, PilotId, TaskId};
use std::collections::BTreeMap;

pub fn react(state: &State, event: &Event) -> Vec<Effect> {
    match event {
        Event::TasksPlaced { parts } => {
            let assign = |Part { pilot, tasks }| Effect::Assign { pilot, tasks };
            parts.iter().cloned().map(assign).collect()
        }
        Event::StopRequested { tasks, why } => stop(state, tasks, *why),
        Event::PilotJoined(joined) => joined_again(state, joined),
        Event::PilotTokenEnded { pilot } => vec![Effect::Disconnect { pilot: pilot.clone() }],
        Event::AllocationAsked { allocation, .. } => {
            ask(state, allocation, false).into_iter().collect()
        }
        Event::AllocationChanged { allocation, phase, .. } => {
            allocation_changed(state, allocation, *phase)
        }
        Event::SiteAdded { .. } | Event::SiteRemoved { .. } => {
            vec![Effect::SitesChanged, Effect::Broker]
        }
        Event::ServerStarted => after_start(state),
        Event::JobSubmitted(_)
        | Event::DependencyMet { .. }
        | Event::TasksReady { .. }
        | Event::TasksRequeued { .. }
        | Event::SiteDrained { .. }
        | Event::SiteReached { .. } => broker(state),
        Event::AttemptsStarted { .. }
        | Event::AttemptsUsed { .. }
        | Event::AttemptEnded(_)
        | Event::TasksCancelled { .. }
        | Event::JobEnded { .. }
        | Event::JobRevived { .. }
        | Event::SiteTroubled { .. }
        | Event::SiteDiffers { .. }
        | Event::JobsArchived { .. }
        | Event::PilotAway { .. }
        | Event::PilotChanged { .. }
        | Event::PilotLeaving { .. }
        | Event::PilotLost { .. }
        | Event::PilotEnded { .. }
        | Event::UserAdded { .. }
        | Event::UserRemoved { .. }
        | Event::JobsGiven { .. }
        | Event::TokenIssued { .. }
        | Event::TokenRevoked { .. }
        | Event::TokensExpired { .. }
        | Event::KeysExpired { .. }
        | Event::HalfLifeSet { .. }
        | Event::ShareSet { .. } => Vec::new(),
    }
}

fn broker(state: &State) -> Vec<Effect> {
    if state.sites().is_empty() { Vec::new() } else { vec![Effect::Broker] }
}

/// Of what nothing was heard before the server ended, nobody knows whether it was ever asked for,
/// nor whether what was to end was ever told so.
fn after_start(state: &State) -> Vec<Effect> {
    let mut effects = Vec::new();
    for (allocation, known) in state.allocations() {
        match known.phase {
            Phase::Asked => effects.extend(ask(state, allocation, true)),
            Phase::GivenUp => effects.extend(give_up(state, allocation)),
            Phase::Queued | Phase::Held | Phase::Running | Phase::Ended(_) => {}
        }
    }
    effects.extend(broker(state));
    effects
}

fn allocation_changed(state: &State, allocation: &AllocationId, phase: Phase) -> Vec<Effect> {
    match phase {
        Phase::GivenUp => give_up(state, allocation).into_iter().collect(),
        // There is room for another, and perhaps need.
        Phase::Ended(_) => broker(state),
        Phase::Asked | Phase::Queued | Phase::Held | Phase::Running => Vec::new(),
    }
}

fn give_up(state: &State, allocation: &AllocationId) -> Option<Effect> {
    let known = state.allocations().get(allocation)?;
    known.batch.as_ref()?;
    Some(Effect::GiveUp { site: known.site.clone(), allocation: allocation.clone() })
}

/// With all pilots that may come of it.
fn ask(state: &State, allocation: &AllocationId, again: bool) -> Option<Effect> {
    let site = state.allocations().get(allocation)?.site.clone();
    let tokens = state.pilot_tokens().iter();
    let of_it = tokens.filter(|(_, token)| token.allocation == *allocation);
    let pilots = of_it.map(|(pilot, _)| pilot.clone()).collect();
    Some(Effect::Ask { site, allocation: allocation.clone(), pilots, again })
}

/// How long it has to end by itself.
fn grace(state: &State, pilot: &PilotId, why: StopReason) -> Millis {
    let guests = state.pilots().get(pilot).and_then(|pilot| pilot.guests);
    guests.filter(|_| why == StopReason::Preempted).unwrap_or(CANCEL_GRACE)
}

fn stop(state: &State, tasks: &[TaskId], why: StopReason) -> Vec<Effect> {
    let mut by_pilot: BTreeMap<PilotId, Vec<AttemptId>> = BTreeMap::new();
    for task in tasks {
        if let Some(active) = state.active().get(task) {
            by_pilot.entry(active.pilot.clone()).or_default().push(task.attempt(active.attempt));
        }
    }
    let effect = |(pilot, attempts)| {
        let grace = grace(state, &pilot, why);
        Effect::Stop { pilot, attempts, grace }
    };
    by_pilot.into_iter().map(effect).collect()
}

/// A pilot that came back gets what it missed: placements, and orders to stop.
fn joined_again(state: &State, joined: &Joined) -> Vec<Effect> {
    let pilot = &joined.pilot;
    let placement = |task: &TaskId| {
        let active = state.active().get(task)?;
        Some(Placement { task: *task, attempt: active.attempt, devices: active.devices.clone() })
    };
    let missing: Vec<Placement> = joined.missing.iter().filter_map(placement).collect();
    let placed = state.pilots().get(pilot).map(|pilot| &pilot.placed);
    let stopping = placed.into_iter().flatten().filter_map(|task| {
        let active = state.active().get(task)?;
        Some((grace(state, pilot, active.stopping?), task.attempt(active.attempt)))
    });
    let stale = joined.stale.iter().map(|id| (CANCEL_GRACE, *id));
    let mut stops: BTreeMap<Millis, Vec<AttemptId>> = BTreeMap::new();
    for (grace, id) in stale.chain(stopping) {
        stops.entry(grace).or_default().push(id);
    }
    let mut effects = Vec::new();
    if !missing.is_empty() {
        effects.push(Effect::Assign { pilot: pilot.clone(), tasks: missing });
    }
    for (grace, attempts) in stops {
        effects.push(Effect::Stop { pilot: pilot.clone(), attempts, grace });
    }
    effects
}
