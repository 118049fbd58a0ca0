//! A pilot takes nothing more. What runs there goes on, and its goodbye follows. Said again after
//! each greeting: a pilot that greets anew without it has changed its mind.

use crate::event::Event;
use crate::state::State;
use shipway_model::PilotId;

pub(super) fn decide(state: &State, pilot: &PilotId, session: u64) -> Vec<Event> {
    let known = state.pilots().get(pilot);
    let is_news = known.is_some_and(|known| known.session == session && known.takes_work());
    if is_news { vec![Event::PilotLeaving { pilot: pilot.clone() }] } else { Vec::new() }
}
