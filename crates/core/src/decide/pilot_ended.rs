//! A pilot is known dead and its processes with it: what ran there is lost and may run again, but
//! for what is known to have ended.

use super::verdict;
use crate::event::Event;
use crate::rejection::Rejection;
use crate::state::State;
use shipway_model::{AttemptId, Ended, Held, Lost, PilotId, TaskId, Timestamp};
use std::collections::BTreeMap;

/// What is said of ended attempts, by their names.
pub(super) type Ends<'a> = BTreeMap<AttemptId, &'a Held>;

/// It says so itself, and is not coming back.
pub(super) fn said_goodbye(
    state: &State,
    at: Timestamp,
    pilot: &PilotId,
) -> Result<Vec<Event>, Rejection> {
    if !state.pilots().contains_key(pilot) {
        return Err(Rejection::NoSuchPilot(pilot.to_string()));
    }
    let mut events = decide(state, at, pilot, (&Ends::new(), Lost::PilotDied));
    if state.pilot_tokens().contains_key(pilot) {
        events.push(Event::PilotTokenEnded { pilot: pilot.clone() });
    }
    Ok(events)
}

pub(super) fn decide(
    state: &State,
    at: Timestamp,
    pilot: &PilotId,
    (known, why): (&Ends<'_>, Lost),
) -> Vec<Event> {
    let mut events = left_behind(state, at, pilot, (known, why));
    events.push(Event::PilotEnded { pilot: pilot.clone() });
    events
}

/// What becomes of all that was placed there: of what is not known to have ended it is why the
/// pilot did.
pub(super) fn left_behind(
    state: &State,
    at: Timestamp,
    pilot: &PilotId,
    (known, why): (&Ends<'_>, Lost),
) -> Vec<Event> {
    let placed = state.pilots().get(pilot).into_iter().flat_map(|pilot| &pilot.placed);
    let event = |task: &TaskId| {
        let active = state.active().get(task)?;
        let id = task.attempt(active.attempt);
        let is_its = |held: &&&Held| {
            let end = held.end();
            end.is_some_and(|end| active.started.is_none_or(|started| is_of(end, started)))
        };
        match known.get(&id).filter(is_its) {
            Some(held) => verdict::ended(state, at, held),
            None => verdict::lost(state, at, *task, why),
        }
    };
    placed.filter_map(event).collect()
}

/// Whether it may be the end of what started then. Where the journal is a restored backup, ids were
/// given twice, and the end of another job may lie in the pilot's folder: one that was over before
/// this one began. Both times are by the clock of one node.
fn is_of(end: &Ended, started: Timestamp) -> bool {
    end.started == Some(started) || end.ended >= started
}
