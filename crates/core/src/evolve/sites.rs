//! What facts about sites and allocations do to the state.

use super::change_pilot;
use crate::batch::{BatchSite, Did, Finding, InBatch, PastAllocation};
use crate::broker::Expected;
use crate::event::{Awaited, Event};
use crate::site::{Allocation, Phase, PilotToken};
use crate::state::State;
use shipway_model::{AllocationId, PilotId, SiteName, SiteSpec, Timestamp, UserName};
use std::sync::Arc;

#[expect(clippy::wildcard_enum_match_arm, reason = "the others are not handed on to here")]
pub(super) fn evolve(state: &mut State, at: Timestamp, event: &Event) {
    match event {
        Event::AllocationAsked { allocation, site, pilots, expires, class } => {
            let nodes = u32::try_from(pilots.len()).unwrap_or(u32::MAX);
            let batch = class.clone().map(|class| Box::new(InBatch::asked(class, at, nodes)));
            let asked = Allocation { site: site.clone(), phase: Phase::Asked, since: at, batch };
            state.allocations.insert(allocation.clone(), asked);
            if let Some(site) = state.sites.get_mut(site) {
                site.was_asked(at);
            }
            for Awaited { pilot, hash } in pilots {
                let (hash, folder, allocation) = (hash.clone(), None, allocation.clone());
                let token = PilotToken { hash, allocation, expires: *expires, folder };
                state.pilot_tokens.insert(pilot.clone(), token);
            }
        }
        Event::AllocationChanged { allocation, phase, engine_id, words } => {
            allocation_changed(state, at, (allocation, *phase), engine_id.as_ref(), words);
        }
        Event::SiteAdded { spec, by } => add_site(state, at, spec, by.as_ref()),
        Event::SiteRemoved { site, .. } => {
            state.sites.remove(site);
            sites_changed(state);
        }
        Event::SiteDrained { site, draining, by } => {
            if let Some(known) = state.sites.get_mut(site) {
                let what = if *draining { Did::Drained } else { Did::Resumed };
                known.note(at, by.as_ref(), what);
            }
            drain_site(state, site, *draining);
        }
        Event::SiteDiffers { site, class, node, words } => {
            if let Some(site) = state.sites.get_mut(site) {
                let finding = Finding { at, node: node.clone(), words: words.clone() };
                site.findings.insert(class.clone(), finding);
            }
        }
        Event::SiteTroubled { site, class, words, kind, until } => {
            if let Some(site) = state.sites.get_mut(site) {
                site.has_trouble(at, class, words, *kind, *until);
            }
        }
        Event::SiteReached { site, class } => {
            if let Some(site) = state.sites.get_mut(site) {
                site.troubles.remove(class);
            }
        }
        _ => {}
    }
}

fn allocation_changed(
    state: &mut State,
    at: Timestamp,
    (id, phase): (&AllocationId, Phase),
    engine_id: Option<&String>,
    words: &str,
) {
    learn_wait(state, at, id, phase);
    let Some(known) = state.allocations.get_mut(id) else { return };
    if known.phase != phase {
        (known.phase, known.since) = (phase, at);
    }
    let Some(batch) = &mut known.batch else { return };
    batch.engine_id = engine_id.cloned();
    words.clone_into(&mut batch.words);
    if let (Phase::Ended(end), Some(site)) = (phase, state.sites.get_mut(&known.site)) {
        let (allocation, class) = (id.clone(), batch.class.clone());
        let words = words.to_owned();
        site.remember(PastAllocation { allocation, class, end, words, at });
        state.forget_unused(id);
    }
}

/// An allocation that waited does so no more, if it goes on in this phase.
pub(super) fn learn_wait(state: &mut State, at: Timestamp, id: &AllocationId, phase: Phase) {
    let Some(known) = state.allocations.get(id).filter(|known| known.phase.is_pending()) else {
        return;
    };
    let has_begun = phase == Phase::Running;
    if let (Some(batch), Some(site)) = (&known.batch, state.sites.get_mut(&known.site))
        && (has_begun || phase == Phase::GivenUp)
    {
        site.has_waited(&batch.class, at.since(batch.asked), has_begun, at);
    }
}

fn add_site(state: &mut State, at: Timestamp, spec: &SiteSpec, by: Option<&UserName>) {
    let mut fresh = BatchSite::new(spec.clone(), at);
    if let Some(known) = state.sites.get_mut(&spec.name) {
        (known.spec, known.described) = (fresh.spec, at);
        // What was wrong with it may be what was changed.
        known.troubles.clear();
        known.findings.clear();
        known.note(at, by, Did::Changed);
    } else {
        fresh.note(at, by, Did::Added);
        state.sites.insert(spec.name.clone(), fresh);
    }
    sites_changed(state);
}

fn sites_changed(state: &mut State) {
    state.expected = Arc::new(Expected::of(&state.sites));
    state.judge_reach_anew();
}

fn drain_site(state: &mut State, site: &SiteName, draining: bool) {
    if let Some(site) = state.sites.get_mut(site) {
        site.draining = draining;
    }
    let of_it = state.pilots.iter().filter(|(_, pilot)| pilot.site.as_ref() == Some(site));
    let of_it: Vec<PilotId> = of_it.map(|(id, _)| id.clone()).collect();
    for pilot in of_it {
        change_pilot(state, &pilot, |pilot| pilot.closed = draining);
    }
    // It is no home of guests now, or one again.
    state.judge_reach_anew();
}
