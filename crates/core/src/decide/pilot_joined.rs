//! A pilot connects, for the first time or again, and says what it holds. What it holds is
//! compared with what was placed there: nothing is started twice, nothing is forgotten.
//!
//! Whose place it takes is not for the pilot to say. The server finds it out from the token it made
//! and the folder whose key the pilot has; see `site.rs`.

use super::pilot_ended::{self, Ends};
use super::pilot_reported::used_so_far;
use super::{differs, site_said, verdict};
use crate::command::PilotJoined;
use crate::event::{Event, Joined};
use crate::pilot::Pilot;
use crate::rejection::Rejection;
use crate::site::SiteKind;
use crate::state::State;
use shipway_model::{
    AllocationId, AttemptId, EngineTrouble, Held, HeldPhase, Lost, NodeAd, NodeName, PilotId,
    Timestamp,
};
use std::collections::{BTreeMap, BTreeSet};

/// Whether the greeting may be that of the pilot whose token it came with.
pub fn may_join(state: &State, joined: &PilotJoined) -> Result<(), Rejection> {
    let elsewhere = || Err(Rejection::PilotElsewhere(joined.pilot.clone()));
    let token = state.pilot_tokens().get(&joined.pilot);
    let token = token.ok_or_else(|| Rejection::NoSuchPilot(joined.pilot.to_string()))?;
    if token.folder.is_some() && token.folder != joined.folder {
        return elsewhere();
    }
    let Some(known) = state.pilots().get(&joined.pilot) else { return Ok(()) };
    if known.connection >= joined.connection {
        return Err(Rejection::PilotOvertaken(joined.pilot.clone()));
    }
    // Another process, and nothing shows that the first is dead.
    if is_another(known, joined) && (joined.folder.is_none() || known.folder != joined.folder) {
        return elsewhere();
    }
    Ok(())
}

/// Whether it was started again with the same credentials: what the first process ran is gone.
fn is_another(known: &Pilot, joined: &PilotJoined) -> bool {
    known.connection.process() != joined.connection.process()
}

/// The pilots whose place it has taken.
fn predecessors<'a>(state: &'a State, joined: &'a PilotJoined) -> Vec<&'a PilotId> {
    let token = state.pilot_tokens().get(&joined.pilot);
    let is_here =
        |allocation: &AllocationId| state.kind_of(allocation) == Some(SiteKind::ThisMachine);
    let comes_here = token.is_some_and(|token| is_here(&token.allocation));
    let is_before = |(id, known): &(&PilotId, &Pilot)| {
        let same_folder = joined.folder.is_some() && known.folder == joined.folder;
        **id != joined.pilot && (same_folder || comes_here && is_here(&known.allocation))
    };
    state.pilots().iter().filter(is_before).map(|(id, _)| id).collect()
}

pub(super) fn decide(
    state: &State,
    at: Timestamp,
    joined: &PilotJoined,
) -> Result<Vec<Event>, Rejection> {
    may_join(state, joined)?;
    let known = state.pilots().get(&joined.pilot);
    let same = known.filter(|known| !is_another(known, joined));
    // By attempt, so that one named twice is taken once; it may hold two attempts of one task.
    let own = joined.held.iter().filter(|held| held.of.is_none());
    let held: BTreeMap<AttemptId, &Held> = own.map(|held| (held.id, held)).collect();
    let mut events = Vec::new();
    if known.is_some() && same.is_none() {
        let ends = ends_of(&joined.pilot, joined);
        events.extend(pilot_ended::left_behind(state, at, &joined.pilot, (&ends, Lost::PilotDied)));
    }
    let predecessors = predecessors(state, joined);
    let name = name_of(state, joined, &predecessors);
    for earlier in predecessors {
        let ends = ends_of(earlier, joined);
        events.extend(pilot_ended::decide(state, at, earlier, (&ends, Lost::PilotDied)));
    }
    let is_placed = |held: &Held| {
        let active = state.active().get(&held.id.task);
        let active = active.filter(|active| active.pilot == joined.pilot);
        let is_active = active.is_some_and(|active| active.attempt == held.id.attempt);
        is_active && same.is_some()
    };
    let missing = same.into_iter().flat_map(|pilot| &pilot.placed).filter(|task| {
        let active = state.active().get(task);
        active.is_some_and(|active| !held.contains_key(&task.attempt(active.attempt)))
    });
    let missing = missing.copied().collect();
    let stale = held.iter().filter(|(_, held)| !is_placed(held)).map(|(id, _)| *id).collect();
    let joined = Joined { name, ..Joined::new(joined, missing, stale) };
    events.extend(proof(state, at, &joined.pilot, &joined.ad));
    events.extend(differs::decide(state, &joined.pilot, &joined.ad, joined.name()));
    events.push(Event::PilotJoined(Box::new(joined)));
    events.extend(news(state, at, held.values().filter(|held| is_placed(held))));
    Ok(events)
}

/// What a pilot's word for its node says of the site that it is of, when it is another than before.
pub(super) fn proof(state: &State, at: Timestamp, pilot: &PilotId, ad: &NodeAd) -> Option<Event> {
    if state.pilots().get(pilot).is_some_and(|known| known.ad.unfit == ad.unfit) {
        return None;
    }
    let allocation = &state.pilot_tokens().get(pilot)?.allocation;
    match ad.unfit.first() {
        Some(words) => site_said::of_no_use(state, at, allocation, (EngineTrouble::Unfit, words)),
        None => site_said::of_use(state, allocation, EngineTrouble::Unfit),
    }
}

/// What its node goes by, if not by the name of its host: pilots that share one are told apart.
/// Once given, it stays the pilot's, and then that of whoever takes its place.
fn name_of(state: &State, joined: &PilotJoined, before: &[&PilotId]) -> Option<NodeName> {
    let host = &joined.ad.node;
    let mut earlier = before.iter().copied().chain([&joined.pilot]);
    let known = earlier.find_map(|id| state.pilots().get(id).filter(|it| it.ad.node == *host));
    if let Some(known) = known {
        return known.name.clone();
    }
    let others = || state.pilots().iter().filter(|(id, _)| !before.contains(id));
    // Nearly always; and there may be ten thousand of them.
    if !others().any(|(_, other)| other.name() == host) {
        return None;
    }
    let taken: BTreeSet<&NodeName> = others().map(|(_, other)| other.name()).collect();
    // As many numbers as there are pilots: one of them is free.
    let numbers = 2..=taken.len() + 1;
    let mut names = numbers.filter_map(|at| NodeName::new(&format!("{host}#{at}")).ok());
    // Where the host's name is too long for a number, the pilot's own will do.
    let own = || NodeName::new(joined.pilot.as_str()).ok();
    names.find(|name| !taken.contains(name)).or_else(own)
}

/// The ends it tells of that pilot's attempts.
fn ends_of<'a>(pilot: &PilotId, joined: &'a PilotJoined) -> Ends<'a> {
    let told = joined.held.iter();
    let told = told.filter(|held| held.of.as_ref().unwrap_or(&joined.pilot) == pilot);
    told.filter(|held| held.end().is_some()).map(|held| (held.id, held)).collect()
}

/// What it says of attempts that are placed on it.
fn news<'a>(
    state: &State,
    at: Timestamp,
    placed: impl Iterator<Item = &'a &'a Held>,
) -> Vec<Event> {
    let (mut events, mut started, mut used) = (Vec::new(), Vec::new(), Vec::new());
    for held in placed {
        match &held.phase {
            HeldPhase::Queued => {}
            HeldPhase::Running { started: since } => {
                let AttemptId { task, attempt } = held.id;
                let active = state.active().get(&task);
                if active.is_some_and(|active| active.started.is_none()) {
                    started.push((task, attempt, *since));
                }
                used.extend(used_so_far(held));
            }
            HeldPhase::Ended(_) => events.extend(verdict::ended(state, at, held)),
        }
    }
    if !started.is_empty() {
        events.push(Event::AttemptsStarted { tasks: started });
    }
    if !used.is_empty() {
        events.push(Event::AttemptsUsed { tasks: used });
    }
    events
}
