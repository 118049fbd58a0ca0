//! The connection to a pilot broke. Its tasks may well go on: nothing is retried yet, unless its
//! batch system has said already that it is over.

use super::pilot_ended::{self, Ends};
use crate::event::Event;
use crate::state::State;
use shipway_model::{ConnectionNumber, Lost, PilotId, Timestamp};

pub(super) fn decide(
    state: &State,
    at: Timestamp,
    pilot: &PilotId,
    connection: ConnectionNumber,
) -> Vec<Event> {
    let current = state.pilots().get(pilot);
    let is_current =
        current.is_some_and(|known| known.connection == connection && known.is_connected());
    let Some(known) = current.filter(|_| is_current) else { return Vec::new() };
    let mut events = vec![Event::PilotAway { pilot: pilot.clone() }];
    if state.is_certainly_over(&known.allocation) {
        events.extend(pilot_ended::decide(state, at, pilot, (&Ends::new(), Lost::PilotDied)));
    }
    events
}
