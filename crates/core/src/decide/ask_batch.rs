//! Allocations are asked of a batch system, or given up there. What the broker proposed is checked
//! once more: between its look and this, people and sites have done other things.

use crate::batch::InBatch;
use crate::command::AskBatch;
use crate::event::{Awaited, Event};
use crate::site::{Allocation, Phase};
use crate::state::State;
use shipway_model::{AllocationId, PilotId, Timestamp};
use std::collections::BTreeSet;

pub(super) fn decide(state: &State, at: Timestamp, ask: &AskBatch) -> Vec<Event> {
    let Some(site) = state.sites().get(&ask.site) else { return Vec::new() };
    let Some(class) = site.spec.class(&ask.class) else { return Vec::new() };
    if !site.is_open(&ask.class, at) {
        return Vec::new();
    }
    let nodes = class.nodes.get();
    let held = |of: &dyn Fn(&Allocation, &InBatch) -> bool| {
        let open = state.allocations_of(&ask.site).filter(|(_, known, _)| !known.phase.is_over());
        open.filter(|(_, known, batch)| of(known, batch))
            .map(|(_, _, batch)| batch.nodes)
            .collect::<Vec<u32>>()
    };
    let count = |of: &dyn Fn(&Allocation, &InBatch) -> bool| {
        u32::try_from(held(of).len()).unwrap_or(u32::MAX)
    };
    let of_class = held(&|_, batch| batch.class == ask.class);
    let limits = &site.spec.limits;
    // All in allocations; pilots are as many as their nodes.
    let room = [
        class.pilots.saturating_sub(of_class.into_iter().fold(0, u32::saturating_add)) / nodes,
        limits.running.saturating_sub(count(&|_, _| true)),
        limits.pending.saturating_sub(count(&|known, _| known.phase.is_pending())),
        site.starts_left(at),
    ];
    let room = room.into_iter().min().unwrap_or(0) as usize;
    let is_new = |(allocation, pilots): &&(AllocationId, Vec<Awaited>)| {
        // One for each node, as the site's file has it now.
        let ids: BTreeSet<&PilotId> = pilots.iter().map(|awaited| &awaited.pilot).collect();
        !state.allocations().contains_key(allocation)
            && ids.len() == pilots.len()
            && ids.len() == nodes as usize
            && !ids.into_iter().any(|pilot| state.pilot_tokens().contains_key(pilot))
    };
    let asked = ask.allocations.iter().filter(is_new).take(room);
    let event = |(allocation, pilots): &(AllocationId, Vec<Awaited>)| Event::AllocationAsked {
        allocation: allocation.clone(),
        site: ask.site.clone(),
        pilots: pilots.clone(),
        expires: None,
        class: Some(ask.class.clone()),
    };
    asked.map(event).collect()
}

/// Nobody needs them, or their site is drained. Only what has not begun: who runs, ends by itself.
pub(super) fn give_up<'a>(
    state: &'a State,
    allocations: impl Iterator<Item = &'a AllocationId> + Clone,
) -> Vec<Event> {
    let known = allocations.filter_map(|id| state.allocations().get_key_value(id));
    let without_pilot = state.without_pilot(known.clone());
    let to_come = known.filter(|(id, it)| it.phase.is_pending() || without_pilot.contains(id));
    let event = |(id, known): (&AllocationId, &Allocation)| {
        let batch = known.batch.as_ref()?;
        Some(Event::AllocationChanged {
            allocation: id.clone(),
            phase: Phase::GivenUp,
            engine_id: batch.engine_id.clone(),
            words: batch.words.clone(),
        })
    };
    to_come.filter_map(event).collect()
}
