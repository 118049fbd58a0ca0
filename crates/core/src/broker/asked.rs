//! What was asked for of each kind of pilots and is not over, by how it stands: numbers, from the
//! state. What to make of them is `demand.rs`'s question.

use super::matching::SiteRoom;
use crate::batch::BatchSite;
use crate::site::Phase;
use crate::state::State;
use shipway_model::{AllocationId, Millis, SiteName, Timestamp};
use std::collections::BTreeMap;

/// A pilot that waits for longer than this at its batch system may wait for long.
const STUCK_AFTER: Millis = Millis(60_000);
/// What nobody needs is given back only when it has waited for so long: work comes and goes.
const GIVEN_BACK_AFTER: Millis = Millis(30_000);
/// A pilot of a kind of which others died is trusted when it has lived for so long.
const TRUSTED_AFTER: Millis = Millis(10 * 60_000);
/// Who has not come so long after others of the same allocation is not thought to be coming.
const TOGETHER: Millis = Millis(60_000);

/// What is asked for of one kind, by how it stands.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// Allocations that are not over, and of those the ones that wait or have yet to bring a pilot.
    pub(super) open: u32,
    pub(super) waiting: u32,
    /// The nodes of all that is not over: whoever has left gives nobody else room.
    pub(super) nodes: u32,
    /// Pilots, these and the next three.
    pub(super) there: u32,
    pub(super) coming: u32,
    pub(super) stuck: u32,
    /// Of those that are there, they have nothing to do.
    pub(super) idle: u32,
    /// Allocations that were asked for since the kind may be tried again, and have not shown yet
    /// whether their pilots live.
    pub(super) on_trial: u32,
    /// The longest that any has been waiting.
    pub(super) waits: Millis,
    /// What may be given back, and when it was asked for.
    pub(super) pending: Vec<(Timestamp, AllocationId)>,
}

/// By the place of the site, and the name of the class.
pub(super) type AskedOf<'a> = BTreeMap<(usize, &'a str), Asked>;

/// The pilots of one allocation.
#[derive(Debug, Clone, Copy, Default)]
struct Pilots {
    come: u32,
    idle: u32,
    /// They have a token, and are not there.
    awaited: u32,
}

/// Each pilot and each token is looked at once: there may be ten thousand of them.
fn pilots(state: &State) -> BTreeMap<&AllocationId, Pilots> {
    let mut found = BTreeMap::<&AllocationId, Pilots>::new();
    for pilot in state.pilots().values() {
        let of = found.entry(&pilot.allocation).or_default();
        of.come += 1;
        of.idle += u32::from(pilot.takes_work() && pilot.placed.is_empty());
    }
    for (pilot, token) in state.pilot_tokens() {
        if !state.pilots().contains_key(pilot) {
            found.entry(&token.allocation).or_default().awaited += 1;
        }
    }
    found
}

pub(super) fn asked<'a>(state: &'a State, sites: &[SiteName], now: Timestamp) -> AskedOf<'a> {
    let pilots = pilots(state);
    let mut found = AskedOf::new();
    for (id, known) in state.allocations().iter().filter(|(_, it)| !it.phase.is_over()) {
        let batch = known.batch.as_deref();
        let site = state.sites().get(&known.site).zip(sites.binary_search(&known.site).ok());
        let (Some(batch), Some((site, place))) = (batch, site) else { continue };
        let asked = found.entry((place, &*batch.class)).or_default();
        let Pilots { come, idle, awaited } = pilots.get(id).copied().unwrap_or_default();
        asked.open += 1;
        asked.nodes = asked.nodes.saturating_add(batch.nodes);
        let waits = now.since(batch.asked);
        let is_stuck = known.phase == Phase::Held || waits >= STUCK_AFTER;
        if known.phase.is_pending() {
            asked.waiting += 1;
            *(if is_stuck { &mut asked.stuck } else { &mut asked.coming }) += batch.nodes;
        } else if known.phase == Phase::Running {
            asked.there += come;
            asked.idle += idle;
            asked.waiting += u32::from(come == 0 && awaited > 0);
            let is_late = come > 0 && now.since(known.since) >= TOGETHER;
            asked.coming += if is_late { 0 } else { awaited };
        }
        let trouble = site.troubles.get(&batch.class);
        if trouble.is_some_and(|trouble| batch.asked >= trouble.until) {
            let has_lived = come > 0 && now.since(known.since) >= TRUSTED_AFTER;
            asked.on_trial += u32::from(!has_lived);
        }
        if known.phase.is_pending() {
            asked.waits = asked.waits.max(waits);
            if waits >= GIVEN_BACK_AFTER {
                asked.pending.push((batch.asked, id.clone()));
            }
        }
    }
    found
}

pub(super) fn room_of(
    place: usize,
    site: &BatchSite,
    asked: &AskedOf<'_>,
    now: Timestamp,
) -> SiteRoom {
    let of_site = || asked.range((place, "")..).take_while(move |((at, _), _)| *at == place);
    let open: u32 = of_site().map(|(_, asked)| asked.open).sum();
    let waiting: u32 = of_site().map(|(_, asked)| asked.waiting).sum();
    let limits = &site.spec.limits;
    let by_pending = limits.pending.saturating_sub(waiting);
    let by_running = limits.running.saturating_sub(open);
    SiteRoom { allocations: by_pending.min(by_running).min(site.starts_left(now)) }
}
