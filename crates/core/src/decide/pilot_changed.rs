//! A pilot describes its node anew, over the connection that it has. What is placed there stays.

use super::differs;
use super::pilot_joined::proof;
use crate::event::Event;
use crate::pilot::Pilot;
use crate::state::State;
use shipway_model::{ConnectionNumber, NodeAd, PilotId, Timestamp};

pub(super) fn decide(
    state: &State,
    at: Timestamp,
    pilot: &PilotId,
    connection: ConnectionNumber,
    ad: &NodeAd,
) -> Vec<Event> {
    let known = state.pilots().get(pilot).filter(|known| known.connection == connection);
    // It is on the node that it greeted from: the name is what people and history know it by.
    let is_news = known.is_some_and(|known| known.ad.node == ad.node && known.ad != *ad);
    let changed = || Event::PilotChanged { pilot: pilot.clone(), ad: Box::new(ad.clone()) };
    if !is_news {
        return Vec::new();
    }
    let name = known.map_or(&ad.node, Pilot::name);
    let differs = differs::decide(state, pilot, ad, name);
    proof(state, at, pilot, ad).into_iter().chain(differs).chain([changed()]).collect()
}
