//! What a batch system said, as whoever ran its commands heard it: what it knows of ours, that it
//! took something, or that it did not.

use super::pilot_ended::{self, Ends};
use crate::batch::InBatch;
use crate::command::{Said, SeenAllocation, SiteSaid};
use crate::event::Event;
use crate::site::{Allocation, Phase};
use crate::state::State;
use shipway_model::{
    AllocationEnd, AllocationId, EngineTrouble, Lost, PilotId, SiteName, Timestamp,
};
use std::collections::{BTreeMap, BTreeSet};

/// The words for what a batch system knows nothing of any more.
const FORGOTTEN: &str = "the batch system knows nothing of it any more";
/// And for what it never knew: its command was cut off, by the end of a server or of patience.
const NEVER_THERE: &str = "it is not known whether it was handed in, and it is not there";

pub(super) fn decide(state: &State, at: Timestamp, said: &SiteSaid) -> Vec<Event> {
    let SiteSaid { site, said } = said;
    if !state.sites().contains_key(site) {
        return Vec::new();
    }
    match said {
        Said::Looked { began, seen } => looked(state, at, site, *began, seen),
        Said::Taken { allocation, engine_id } => taken(state, site, allocation, engine_id),
        Said::Trouble { allocation, words, kind } => {
            trouble(state, at, site, allocation.as_ref(), (words, *kind))
        }
    }
}

/// It was reached; what it says of each of ours, and what it does not name.
fn looked(
    state: &State,
    at: Timestamp,
    site: &SiteName,
    began: Timestamp,
    seen: &[SeenAllocation],
) -> Vec<Event> {
    let seen: BTreeMap<&AllocationId, &SeenAllocation> =
        seen.iter().map(|one| (&one.allocation, one)).collect();
    let mut events = reached(state, site, "", false);
    for (id, known, batch) in state.allocations_of(site).filter(|(_, it, _)| !it.phase.is_over()) {
        match seen.get(id) {
            Some(one) => events.extend(changed(state, at, (id, known, batch), one)),
            // What was handed in is known to it when the command that handed it in returns.
            None if known.phase != Phase::Asked && known.since < began => {
                let never = batch.engine_id.is_none();
                let words = if never { NEVER_THERE } else { FORGOTTEN };
                events.extend(ended(state, at, (id, batch), AllocationEnd::Unknown, words));
            }
            None => {}
        }
    }
    // Of many that failed for the same cause one is enough.
    let mut told = BTreeSet::new();
    events.retain(|event| {
        let Event::SiteTroubled { class, .. } = event else { return true };
        told.insert(class.clone())
    });
    events
}

fn changed(
    state: &State,
    at: Timestamp,
    (id, known, batch): (&AllocationId, &Allocation, &InBatch),
    seen: &SeenAllocation,
) -> Vec<Event> {
    if let Phase::Ended(end) = seen.phase {
        return ended(state, at, (id, batch), end, &seen.words);
    }
    // What is to end does not come back by still being there, nor does a pilot that has come.
    let phase = match (known.phase, seen.phase) {
        // Its pilot has had the one start that it is let in for: who releases it starts nothing.
        (Phase::GivenUp, _) | (Phase::Running, Phase::Held) => Phase::GivenUp,
        (Phase::Running, Phase::Asked | Phase::Queued) => Phase::Running,
        (_, seen) => seen,
    };
    let engine_id = Some(&seen.engine_id);
    let is_news =
        known.phase != phase || batch.words != seen.words || batch.engine_id.as_ref() != engine_id;
    let event = Event::AllocationChanged {
        allocation: id.clone(),
        phase,
        engine_id: engine_id.cloned(),
        words: seen.words.clone(),
    };
    is_news.then_some(event).into_iter().collect()
}

fn taken(state: &State, site: &SiteName, id: &AllocationId, engine_id: &str) -> Vec<Event> {
    let known = state.allocations().get(id).filter(|known| known.site == *site);
    let Some((known, batch)) = known.and_then(|known| Some((known, known.batch.as_deref()?)))
    else {
        return Vec::new();
    };
    let mut events = reached(state, site, &batch.class, true);
    // Its pilot may have come before the word that it was taken.
    let phase = if known.phase == Phase::Asked { Phase::Queued } else { known.phase };
    events.push(Event::AllocationChanged {
        allocation: id.clone(),
        phase,
        engine_id: Some(engine_id.to_owned()),
        words: batch.words.clone(),
    });
    events
}

/// What was said to stand in the way does so no more. That it answers says nothing of what it
/// refuses.
fn reached(state: &State, site: &SiteName, class: &str, took: bool) -> Vec<Event> {
    let Some(known) = state.sites().get(site) else { return Vec::new() };
    let is_over = |over: &&str| {
        let trouble = known.troubles.get(*over);
        trouble.is_some_and(|it| !it.kind.is_of_class() || took && it.kind.is_undone())
    };
    let over: Vec<String> =
        ["", class].iter().filter(|it| is_over(it)).map(|it| (*it).into()).collect();
    let over: std::collections::BTreeSet<String> = over.into_iter().collect();
    over.into_iter().map(|class| Event::SiteReached { site: site.clone(), class }).collect()
}

fn trouble(
    state: &State,
    at: Timestamp,
    site: &SiteName,
    about: Option<&AllocationId>,
    (words, kind): (&str, EngineTrouble),
) -> Vec<Event> {
    let Some(known) = state.sites().get(site) else { return Vec::new() };
    let about = about.and_then(|id| {
        let known = state.allocations().get(id).filter(|known| known.site == *site)?;
        Some((id, known, known.batch.as_deref()?))
    });
    // One refusal is of what was asked for; who does not answer does not answer to anything.
    let class = about.filter(|_| kind.is_of_class()).map_or("", |(_, _, batch)| &batch.class);
    let is_new = about.is_none_or(|(_, _, batch)| class.is_empty() || known.is_news(batch));
    let mut events: Vec<Event> = is_new
        .then(|| Event::SiteTroubled {
            site: site.clone(),
            class: class.to_owned(),
            words: words.to_owned(),
            kind,
            until: at.plus(known.rest(class)),
        })
        .into_iter()
        .collect();
    if let Some((id, known, batch)) = about.filter(|_| kind.is_undone())
        && known.phase == Phase::Asked
    {
        events.extend(ended(state, at, (id, batch), AllocationEnd::Refused, words));
    }
    events
}

/// It is over, and with it what could still have come of it. A pilot that is in touch says so
/// itself; of one that is not nothing is left, if that is certain.
fn ended(
    state: &State,
    at: Timestamp,
    (id, batch): (&AllocationId, &InBatch),
    end: AllocationEnd,
    words: &str,
) -> Vec<Event> {
    let mut events = vec![Event::AllocationChanged {
        allocation: id.clone(),
        phase: Phase::Ended(end),
        engine_id: batch.engine_id.clone(),
        words: words.to_owned(),
    }];
    let pilots = state.pilots().iter().filter(|(_, pilot)| pilot.allocation == *id);
    for (pilot, known) in pilots {
        if end.is_death() {
            let words = format!("its pilot died: {words}");
            events.extend(of_no_use(state, at, id, (EngineTrouble::Died, &words)));
        }
        if !known.is_connected() && end.is_certain() {
            let why = Lost::by(end);
            events.extend(pilot_ended::decide(state, at, pilot, (&Ends::new(), why)));
        }
    }
    let never_came = |pilot: &PilotId| !state.pilots().contains_key(pilot);
    let tokens = state.pilot_tokens().iter().filter(|(_, token)| token.allocation == *id);
    let tokens = tokens.map(|(pilot, _)| pilot).filter(|pilot| never_came(pilot));
    let tokens: Vec<&PilotId> = tokens.collect();
    if !tokens.is_empty() && state.is_wanted(id) && !end.is_ours() {
        let words = format!("{}: {words}", who_did_not_come(tokens.len(), batch.nodes));
        events.extend(of_no_use(state, at, id, (EngineTrouble::Unfit, &words)));
    } else if end.is_good() {
        events.extend(of_use(state, id, EngineTrouble::Died));
    }
    events.extend(tokens.into_iter().map(|pilot| Event::PilotTokenEnded { pilot: pilot.clone() }));
    events
}

fn who_did_not_come(missing: usize, nodes: u32) -> String {
    if missing >= nodes as usize {
        return "no pilot came of it".into();
    }
    format!("of its {nodes} pilots {missing} did not come")
}

/// A site gave something, and nothing good came of it: it is asked for another after a while.
pub(super) fn of_no_use(
    state: &State,
    at: Timestamp,
    id: &AllocationId,
    (kind, words): (EngineTrouble, &str),
) -> Option<Event> {
    let known = state.allocations().get(id)?;
    let batch = known.batch.as_deref()?;
    let site = state.sites().get(&known.site)?;
    site.is_news(batch).then(|| Event::SiteTroubled {
        site: known.site.clone(),
        class: batch.class.clone(),
        words: words.to_owned(),
        kind,
        until: at.plus(site.rest(&batch.class)),
    })
}

/// A pilot works, as far as this trouble goes: it came and its node is fit, or did not die before
/// it was of use.
pub(super) fn of_use(state: &State, id: &AllocationId, over: EngineTrouble) -> Option<Event> {
    let known = state.allocations().get(id)?;
    let class = known.batch.as_ref()?.class.clone();
    let trouble = state.sites().get(&known.site)?.troubles.get(&class)?;
    let site = known.site.clone();
    (trouble.kind == over).then_some(Event::SiteReached { site, class })
}
