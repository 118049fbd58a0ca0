//! A pilot is known dead and its processes with it: what ran there is lost and may run again.

use super::verdict;
use crate::event::Event;
use crate::rejection::Rejection;
use crate::state::State;
use shipway_model::{Lost, PilotId, Timestamp};

pub(super) fn decide(
    state: &State,
    at: Timestamp,
    pilot: &PilotId,
) -> Result<Vec<Event>, Rejection> {
    let known = state.pilots().get(pilot);
    let known = known.ok_or_else(|| Rejection::NoSuchPilot(pilot.to_string()))?;
    let lost = known.placed.iter();
    let mut events: Vec<Event> =
        lost.filter_map(|task| verdict::lost(state, at, *task, Lost::PilotDied)).collect();
    events.push(Event::PilotEnded { pilot: pilot.clone() });
    Ok(events)
}
