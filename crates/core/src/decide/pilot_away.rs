//! The connection to a pilot broke. Its tasks may well go on: nothing is retried yet.

use crate::event::Event;
use crate::state::State;
use shipway_model::{ConnectionNumber, PilotId};

pub(super) fn decide(state: &State, pilot: &PilotId, connection: ConnectionNumber) -> Vec<Event> {
    let current = state.pilots().get(pilot);
    let is_current =
        current.is_some_and(|known| known.connection == connection && known.is_connected());
    if is_current { vec![Event::PilotAway { pilot: pilot.clone() }] } else { Vec::new() }
}
