//! Sites that are batch systems come, change, are drained and go. Whoever keeps the server does it.

use crate::batch::MAX_SITES;
use crate::event::Event;
use crate::rejection::{Rejection, needs};
use crate::state::State;
use shipway_model::{Actor, May, SiteName, SiteSpec};

/// A new one, or another description of one that is there: what is asked from now on is by that.
pub(super) fn add(state: &State, by: &Actor, spec: &SiteSpec) -> Result<Vec<Event>, Rejection> {
    needs(by, May::KeepSites)?;
    spec.check().map_err(Rejection::InvalidSite)?;
    let known = state.sites().get(&spec.name);
    if known.is_none() && state.sites().len() >= MAX_SITES {
        return Err(Rejection::TooManySites);
    }
    if known.is_some_and(|known| *known.spec == *spec) {
        return Ok(Vec::new());
    }
    Ok(vec![Event::SiteAdded { spec: Box::new(spec.clone()), by: Some(by.user.clone()) }])
}

/// What runs there goes on; nothing new goes there, and what waits there is taken back.
pub(super) fn drain(
    state: &State,
    by: &Actor,
    site: &SiteName,
    draining: bool,
) -> Result<Vec<Event>, Rejection> {
    needs(by, May::KeepSites)?;
    let known = state.sites().get(site).ok_or_else(|| Rejection::NoSuchSite(site.clone()))?;
    if known.draining == draining {
        return Ok(Vec::new());
    }
    let mut events =
        vec![Event::SiteDrained { site: site.clone(), draining, by: Some(by.user.clone()) }];
    if draining {
        let all = state.allocations_of(site).map(|(id, _, _)| id);
        events.extend(super::ask_batch::give_up(state, all));
    }
    Ok(events)
}

/// Only when nothing of ours is left there: nobody would look after it any more.
pub(super) fn remove(state: &State, by: &Actor, site: &SiteName) -> Result<Vec<Event>, Rejection> {
    needs(by, May::KeepSites)?;
    if !state.sites().contains_key(site) {
        return Err(Rejection::NoSuchSite(site.clone()));
    }
    let left = state.allocations_of(site).count();
    if left > 0 {
        return Err(Rejection::SiteInUse { site: site.clone(), allocations: left });
    }
    Ok(vec![Event::SiteRemoved { site: site.clone(), by: Some(by.user.clone()) }])
}
