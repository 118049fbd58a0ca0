//! A pilot takes nothing more. What runs there goes on, and its goodbye follows. Said again after
//! each greeting: a pilot that greets anew without it has changed its mind.

use crate::event::Event;
use crate::state::State;
use shipway_model::{ConnectionNumber, PilotId};

pub(super) fn decide(state: &State, pilot: &PilotId, connection: ConnectionNumber) -> Vec<Event> {
    let known = state.pilots().get(pilot);
    let is_news = known.is_some_and(|known| known.connection == connection && known.takes_work());
    if is_news { vec![Event::PilotLeaving { pilot: pilot.clone() }] } else { Vec::new() }
}
