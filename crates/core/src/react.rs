//! What the outside has to do after a fact. Looks at the state as it is after the fact.

use crate::effect::Effect;
use crate::event::{Event, Joined, Part, Placement};
use crate::site::Phase;
use crate::state::State;
use shipway_model::limits::CANCEL_GRACE;
use shipway_model::{AllocationId, AttemptId, PilotId, TaskId};
use std::collections::BTreeMap;

pub fn react(state: &State, event: &Event) -> Vec<Effect> {
    match event {
        Event::TasksPlaced { parts } => {
            let assign = |Part { pilot, tasks }| Effect::Assign { pilot, tasks };
            parts.iter().cloned().map(assign).collect()
        }
        Event::StopRequested { tasks, .. } => stop(state, tasks),
        Event::PilotJoined(joined) => joined_again(state, joined),
        Event::PilotTokenEnded { pilot } => vec![Effect::Disconnect { pilot: pilot.clone() }],
        Event::AllocationAsked { allocation, .. } => ask(state, allocation).into_iter().collect(),
        Event::ServerStarted => ask_again(state),
        Event::JobSubmitted(_)
        | Event::DependencyMet { .. }
        | Event::AttemptsStarted { .. }
        | Event::AttemptEnded(_)
        | Event::TasksReady { .. }
        | Event::TasksCancelled { .. }
        | Event::TasksRequeued { .. }
        | Event::JobEnded { .. }
        | Event::JobRevived { .. }
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

/// Of what nothing was heard before the server ended, nobody knows whether it was ever asked for.
fn ask_again(state: &State) -> Vec<Effect> {
    let open = state.allocations().iter().filter(|(_, known)| known.phase == Phase::Asked);
    open.filter_map(|(allocation, _)| ask(state, allocation)).collect()
}

/// With all pilots that may come of it.
fn ask(state: &State, allocation: &AllocationId) -> Option<Effect> {
    let site = state.allocations().get(allocation)?.site.clone();
    let tokens = state.pilot_tokens().iter();
    let of_it = tokens.filter(|(_, token)| token.allocation == *allocation);
    let pilots = of_it.map(|(pilot, _)| pilot.clone()).collect();
    Some(Effect::Ask { site, allocation: allocation.clone(), pilots })
}

fn stop(state: &State, tasks: &[TaskId]) -> Vec<Effect> {
    let mut by_pilot: BTreeMap<PilotId, Vec<AttemptId>> = BTreeMap::new();
    for task in tasks {
        if let Some(active) = state.active().get(task) {
            by_pilot.entry(active.pilot.clone()).or_default().push(task.attempt(active.attempt));
        }
    }
    let effect = |(pilot, attempts)| Effect::Stop { pilot, attempts, grace: CANCEL_GRACE };
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
        active.stopping.map(|_| task.attempt(active.attempt))
    });
    let stops: Vec<_> = joined.stale.iter().copied().chain(stopping).collect();
    let mut effects = Vec::new();
    if !missing.is_empty() {
        effects.push(Effect::Assign { pilot: pilot.clone(), tasks: missing });
    }
    if !stops.is_empty() {
        effects.push(Effect::Stop { pilot: pilot.clone(), attempts: stops, grace: CANCEL_GRACE });
    }
    effects
}
