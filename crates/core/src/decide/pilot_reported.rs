//! A pilot reports starts and ends. Reports may be repeated, late or out of order; each is taken
//! once and only for the attempt that is active on that pilot.

use super::{site_said, verdict};
use crate::command::PilotReported;
use crate::event::Event;
use crate::state::State;
use shipway_model::{Attempt, EngineTrouble, Held, HeldPhase, TaskId, Timestamp, Usage};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn decide(state: &State, at: Timestamp, report: &PilotReported) -> Vec<Event> {
    // What a pilot says of others it says when it greets.
    let own = report.held.iter().filter(|held| held.of.is_none());
    let here = own.filter_map(|held| {
        let active = state.active().get(&held.id.task)?;
        let is_it = active.attempt == held.id.attempt && active.pilot == report.pilot;
        is_it.then_some((held, active))
    });
    let (mut started, mut used, mut ends) = (Vec::new(), BTreeMap::new(), Vec::new());
    let (mut seen_started, mut seen_ended) = (BTreeSet::new(), BTreeSet::new());
    for (held, active) in here {
        let Held { id, phase, .. } = held;
        match phase {
            HeldPhase::Running { started: since } => {
                used.extend(used_so_far(held).map(|used| (id.task, used)));
                if active.started.is_none() && seen_started.insert(id.task) {
                    started.push((id.task, id.attempt, *since));
                }
            }
            HeldPhase::Ended(_) if seen_ended.insert(id.task) => {
                ends.extend(verdict::ended(state, at, held));
            }
            HeldPhase::Queued | HeldPhase::Ended(_) => {}
        }
    }
    let starts = (!started.is_empty()).then_some(Event::AttemptsStarted { tasks: started });
    // Of one that has ended since, its end says it.
    let used: Vec<_> = used.into_values().filter(|(id, ..)| !seen_ended.contains(id)).collect();
    let used = (!used.is_empty()).then_some(Event::AttemptsUsed { tasks: used });
    let works = || {
        let pilot = state.pilots().get(&report.pilot).filter(|pilot| pilot.site.is_some())?;
        site_said::of_use(state, &pilot.allocation, EngineTrouble::Died)
    };
    let works = if ends.is_empty() { None } else { works() };
    starts.into_iter().chain(used).chain(ends).chain(works).collect()
}

/// What a running attempt has used, by its pilot.
pub(super) fn used_so_far(held: &Held) -> Option<(TaskId, Attempt, Box<Usage>)> {
    let usage = held.usage.as_ref()?.bounded();
    (!usage.is_empty()).then(|| (held.id.task, held.id.attempt, Box::new(usage)))
}
