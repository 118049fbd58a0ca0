//! A pilot reports starts and ends. Reports may be repeated, late or out of order; each is taken
//! once and only for the attempt that is active on that pilot.

use super::verdict;
use crate::command::PilotReported;
use crate::event::Event;
use crate::state::State;
use shipway_model::Timestamp;

pub(super) fn decide(state: &State, at: Timestamp, report: &PilotReported) -> Vec<Event> {
    let is_here = |task, attempt| {
        let active = state.active().get(&task);
        active.filter(|active| active.attempt == attempt && active.pilot == report.pilot)
    };
    let mut events = Vec::new();
    let starts = report.started.iter().filter(|(task, attempt, _)| {
        is_here(*task, *attempt).is_some_and(|active| active.started.is_none())
    });
    let starts: Vec<_> = starts.copied().collect();
    if !starts.is_empty() {
        events.push(Event::AttemptsStarted { tasks: starts });
    }
    let ends = report.ended.iter().filter(|(task, attempt, _)| is_here(*task, *attempt).is_some());
    let mut seen = std::collections::BTreeSet::new();
    for (task, attempt, ended) in ends {
        if seen.insert(*task) {
            events.extend(verdict::ended(state, at, (*task, *attempt), ended));
        }
    }
    events
}
