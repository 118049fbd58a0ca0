//! Something is asked of a site, with a token for the pilot that will come of it; and tokens that
//! are over with time. They also end with a goodbye (`pilot_ended.rs`), and by a person's wish
//! (`users.rs`).

use super::users::outlived_by;
use crate::command::AskSite;
use crate::event::{Awaited, Event};
use crate::rejection::{Rejection, needs};
use crate::site::SiteKind;
use crate::state::State;
use shipway_model::{May, Timestamp};

/// Only an admin lets nodes in, and for no longer than their own token is good.
pub(super) fn decide(state: &State, at: Timestamp, ask: &AskSite) -> Result<Vec<Event>, Rejection> {
    if let Some(by) = &ask.by {
        needs(by, May::LetPilotsIn)?;
        outlived_by(state, at, by, ask.expires.unwrap_or(Timestamp(u64::MAX)))?;
    }
    // On this machine there is one at a time: whoever had an earlier one is dead, or never was.
    let is_here = |kind: SiteKind| kind == SiteKind::ThisMachine;
    let earlier = state.pilot_tokens().iter().filter(|(_, token)| {
        is_here(ask.site) && state.kind_of(&token.allocation).is_some_and(is_here)
    });
    let mut events: Vec<Event> =
        earlier.map(|(pilot, _)| Event::PilotTokenEnded { pilot: pilot.clone() }).collect();
    let Some(site) = ask.site.only() else { return Ok(Vec::new()) };
    let allocation = ask.allocation.clone();
    let pilots = vec![Awaited { pilot: ask.pilot.clone(), hash: ask.hash.clone() }];
    let expires = ask.expires;
    events.push(Event::AllocationAsked { allocation, site, pilots, expires, class: None });
    Ok(events)
}

/// Those whose time has come.
pub(super) fn over(state: &State, at: Timestamp) -> Vec<Event> {
    let over = state.pilot_tokens().iter();
    let over = over.filter(|(_, token)| token.expires.is_some_and(|expires| expires <= at));
    over.map(|(pilot, _)| Event::PilotTokenEnded { pilot: pilot.clone() }).collect()
}
