//! Time has passed: waits that are over end, pilots that stay away are noticed, leases run out,
//! and jobs learn of ends that were too many to be told at once.

use super::{ask_site, verdict};
use crate::consequence::{EndsLeft, tell_dependents};
use crate::event::Event;
use crate::pilot::{Link, Pilot};
use crate::state::State;
use shipway_model::limits::{IDEMPOTENCY_KEPT, PILOT_LOST_AFTER};
use shipway_model::{Lost, PilotId, Timestamp};

pub(super) fn decide(state: &State, at: Timestamp) -> Vec<Event> {
    let mut events = Vec::new();
    let ready = state.back_offs.iter().take_while(|(until, _)| *until <= at);
    let tasks: Vec<_> = ready.map(|(_, task)| *task).collect();
    if !tasks.is_empty() {
        events.push(Event::TasksReady { tasks });
    }
    for (id, pilot) in state.pilots() {
        events.extend(check_pilot(state, at, id, pilot));
    }
    events.extend(ask_site::over(state, at));
    if state.keys.next_deadline().is_some_and(|due| due <= at) {
        let before = Timestamp(at.0.saturating_sub(IDEMPOTENCY_KEPT.0));
        events.push(Event::KeysExpired { before });
    }
    events.extend(still_to_tell(state));
    events
}

fn still_to_tell(state: &State) -> Vec<Event> {
    let mut room = EndsLeft::default();
    let ended = state.untold.iter().filter_map(|id| Some((*id, state.job(*id)?.state())));
    ended.flat_map(|ended| tell_dependents(state, ended, &mut room)).collect()
}

fn check_pilot(state: &State, at: Timestamp, id: &PilotId, pilot: &Pilot) -> Vec<Event> {
    let Link::Away { since, lost } = pilot.link else { return Vec::new() };
    if pilot.lease.is_some_and(|lease| since.plus(lease) <= at) {
        let lost = pilot.placed.iter();
        let lost = lost.filter_map(|task| verdict::lost(state, at, *task, Lost::LeaseRanOut));
        return lost.chain([Event::PilotEnded { pilot: id.clone() }]).collect();
    }
    if !lost && since.plus(PILOT_LOST_AFTER) <= at {
        return vec![Event::PilotLost { pilot: id.clone() }];
    }
    Vec::new()
}
