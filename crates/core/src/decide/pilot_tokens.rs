//! Tokens of pilots: made, and over with time. They also end with a goodbye (`pilot_ended.rs`), and
//! by a person's wish (`users.rs`).

use super::users::outlived_by;
use crate::event::Event;
use crate::pilot_token::Allocation;
use crate::rejection::{Rejection, needs};
use crate::state::State;
use shipway_model::{Actor, May, PilotId, Timestamp};

/// Only an admin lets nodes in, and for no longer than their own token is good.
pub(super) fn may_issue(
    state: &State,
    at: Timestamp,
    by: &Actor,
    expires: Option<Timestamp>,
) -> Result<(), Rejection> {
    needs(by, May::LetPilotsIn)?;
    outlived_by(state, at, by, expires.unwrap_or(Timestamp(u64::MAX)))
}

/// On this machine there is one at a time: whoever had an earlier one is dead, or never was.
pub(super) fn issue(
    state: &State,
    pilot: &PilotId,
    hash: &str,
    allocation: Allocation,
    expires: Option<Timestamp>,
) -> Vec<Event> {
    let earlier = state.pilot_tokens().iter().filter(|(_, token)| {
        allocation == Allocation::ThisMachine && token.allocation == allocation
    });
    let mut events: Vec<Event> =
        earlier.map(|(pilot, _)| Event::PilotTokenEnded { pilot: pilot.clone() }).collect();
    let (pilot, hash) = (pilot.clone(), hash.to_owned());
    events.push(Event::PilotTokenIssued { pilot, hash, allocation: Some(allocation), expires });
    events
}

/// Those whose time has come.
pub(super) fn over(state: &State, at: Timestamp) -> Vec<Event> {
    let over = state.pilot_tokens().iter();
    let over = over.filter(|(_, token)| token.expires.is_some_and(|expires| expires <= at));
    over.map(|(pilot, _)| Event::PilotTokenEnded { pilot: pilot.clone() }).collect()
}
