//! A pilot connects, for the first time or again, and says what it holds. What it holds is
//! compared with what was placed there: nothing is started twice, nothing is forgotten.

use super::{pilot_ended, verdict};
use crate::command::{Held, HeldPhase, PilotJoined};
use crate::event::{Event, Joined};
use crate::state::State;
use shipway_model::session::process_of;
use shipway_model::{Attempt, Lost, TaskId, Timestamp};
use std::collections::BTreeMap;

pub(super) fn decide(state: &State, at: Timestamp, joined: &PilotJoined) -> Vec<Event> {
    let known = state.pilots().get(&joined.pilot);
    if known.is_some_and(|known| known.session > joined.session) {
        return Vec::new(); // A greeting overtaken by a newer one.
    }
    // Started again with the same credentials: what the first process ran is gone with it.
    let is_another =
        known.is_some_and(|known| process_of(known.session) != process_of(joined.session));
    let mut events = Vec::new();
    if let Some(first) = known.filter(|_| is_another) {
        let gone = first.placed.iter();
        events.extend(gone.filter_map(|task| verdict::lost(state, at, *task, Lost::PilotDied)));
    }
    for earlier in joined.succeeds.iter().filter(|earlier| **earlier != joined.pilot) {
        events.extend(pilot_ended::decide(state, at, earlier).unwrap_or_default());
    }
    // By attempt, so that one named twice is taken once; it may hold two attempts of one task.
    let held: BTreeMap<(TaskId, Attempt), &Held> =
        joined.held.iter().map(|held| ((held.task, held.attempt), held)).collect();
    let placed = known.filter(|_| !is_another).map(|pilot| &pilot.placed);
    let is_placed = |task: TaskId, attempt: Attempt| {
        let active = state.active().get(&task).filter(|active| active.pilot == joined.pilot);
        !is_another && active.is_some_and(|active| active.attempt == attempt)
    };
    let missing = placed.into_iter().flatten().filter(|task| {
        let attempt = state.active()[task].attempt;
        !held.contains_key(&(**task, attempt))
    });
    let stale = held.keys().filter(|(task, attempt)| !is_placed(*task, *attempt));
    let stale = stale.copied().collect();
    let missing = missing.copied().collect();
    events.push(Event::PilotJoined(Box::new(Joined::new(joined, missing, stale))));

    let mut started = Vec::new();
    for held in held.values().filter(|held| is_placed(held.task, held.attempt)) {
        match &held.phase {
            HeldPhase::Queued => {}
            HeldPhase::Running { started: since } => {
                if state.active()[&held.task].started.is_none() {
                    started.push((held.task, held.attempt, *since));
                }
            }
            HeldPhase::Ended(ended) => {
                events.extend(verdict::ended(state, at, (held.task, held.attempt), ended));
            }
        }
    }
    if !started.is_empty() {
        events.push(Event::AttemptsStarted { tasks: started });
    }
    events
}
