//! How it stands between a job and each kind of pilots that batch systems would give: what is in
//! the way, what was asked for, and what the batch system says of it.

use super::look::{Among, Asker, Look};
use crate::batch::{BatchSite, Finding, InBatch, Trouble};
use crate::broker::expected::Kind;
use crate::guests::is_too_short;
use crate::job::Terms;
use crate::reach;
use crate::schedule::index::class::Class;
use crate::schedule::needs::Need;
use crate::shape::Shape;
use crate::site::{Allocation, Phase, SiteKind};
use crate::state::State;
use shipway_model::prospect::Fit;
use shipway_model::reason::{KeptFrom, SiteLimit, SiteWait};
use shipway_model::{
    AllocationId, EngineTrouble, Reason, SiteClass, SiteName, Timestamp, UserName,
};
use std::collections::BTreeMap;

/// Kinds that are named, those that could run it before those that could not.
const NAMED: usize = 16;
/// Kinds beyond which those of sites that are not for the job are not looked at.
const MANY: usize = 64;
/// Steps of a job's requirements for one answer; ordinary ones take a few dozen for each kind.
const MAX_STEPS: u64 = 100_000;

/// A reason for each kind of pilots; of sites that it may not go to, only what would be in the way
/// if it might.
pub(super) fn reasons(
    state: &State,
    shape: &Shape,
    asker: Asker<'_>,
    now: Timestamp,
) -> Vec<Reason> {
    let expected = state.expected();
    if expected.kinds().is_empty() {
        return Vec::new();
    }
    // Of very many kinds those of closed sites are left out, and what takes long is not found out
    // of all the others: others wait for the answer.
    let are_many = expected.kinds().len() > MANY;
    let kept_from = if are_many { shape.kept_from.clone() } else { Vec::new() };
    let open = Shape { kept_from, ..shape.clone() };
    let need = Need::within(&open, expected.table(), MAX_STEPS);
    let mut found = Vec::new();
    let is_told = |kind: &&Kind| need.has_judged(kind.at) && !open.kept_from.contains(&kind.site);
    for kind in expected.kinds().iter().filter(is_told) {
        let site = state.sites().get(&kind.site);
        let class = site.and_then(|site| site.spec.classes.get(kind.class));
        let (Some(site), Some(class)) = (site, class) else { continue };
        let mut waits = in_the_way(state, (kind, site, class), (shape, &open, &need), asker, now);
        if waits.is_empty() && !shape.kept_from.contains(&kind.site) {
            waits.push(match class.guests.filter(|_| is_guest(shape, class)) {
                Some(leaves_within) => SiteWait::AsGuest { leaves_within },
                None if is_guest(shape, class) => SiteWait::HasGpus,
                None => standing(state, (&kind.site, site), class, now),
            });
            waits.extend(differs(site, class, &waits));
        }
        let reason = |wait| {
            let (site, class) = (kind.site.clone(), class.name.clone());
            Reason::AtSite { site, class, wait }
        };
        found.extend(waits.into_iter().map(reason));
    }
    found.sort_by_key(Reason::is_hopeless);
    found.truncate(NAMED);
    found
}

fn is_guest(shape: &Shape, class: &SiteClass) -> bool {
    shape.is_guest && class.gpus.is_some()
}

/// All for which no pilot of this kind could ever run it, wherever it may go. `open` is the shape
/// as if it might go everywhere.
fn in_the_way(
    state: &State,
    (kind, site, class): (&Kind, &BatchSite, &SiteClass),
    (shape, open, need): (&Shape, &Shape, &Need),
    asker: Asker<'_>,
    now: Timestamp,
) -> Vec<SiteWait> {
    let mut waits: Vec<SiteWait> = too_short(site, shape).into_iter().collect();
    if !is_guest(shape, class) || class.guests.is_some() {
        let of = state.expected().table().class(kind.at);
        let look = Look::at(Among::Expected(state), of, open, need, asker, now);
        waits.extend(look.into_iter().flat_map(misfits));
    }
    waits
}

/// What a pilot of each kind that has GPUs would be to a task: all for which it could never run it,
/// or else how it stands with asking for one. Of all kinds, by their sites and names.
pub(super) fn of_gpus(
    state: &State,
    shape: &Shape,
    (user, terms): (&UserName, &Terms),
    now: Timestamp,
) -> BTreeMap<(SiteName, String), Vec<SiteWait>> {
    let expected = state.expected();
    let open = Shape { kept_from: Vec::new(), ..shape.clone() };
    let need = Need::within(&open, expected.table(), MAX_STEPS);
    let asker = Asker { job: None, user };
    let mut found = BTreeMap::new();
    for kind in expected.kinds().iter().filter(|kind| need.has_judged(kind.at)) {
        let site = state.sites().get(&kind.site);
        let class = site.and_then(|site| site.spec.classes.get(kind.class));
        let Some((site, class)) = site.zip(class.filter(|class| class.gpus.is_some())) else {
            continue;
        };
        let kept = reach::kept_from(site, user, terms);
        let mut waits: Vec<SiteWait> = kept.map(|why| SiteWait::KeptFrom { why }).collect();
        waits.extend(in_the_way(state, (kind, site, class), (shape, &open, &need), asker, now));
        if waits.is_empty() {
            waits.push(standing(state, (&kind.site, site), class, now));
        }
        found.insert((kind.site.clone(), class.name.clone()), waits);
    }
    found
}

/// Of sites that are not for this user's job on these terms.
pub(super) fn kept_from(state: &State, owner: &UserName, terms: &Terms) -> Vec<Reason> {
    let kept = state.sites().iter().flat_map(|(name, site)| {
        reach::kept_from(site, owner, terms).map(move |why| {
            let classes = site.spec.classes.iter().map(|class| &*class.name);
            let class = classes.collect::<Vec<_>>().join(", ");
            Reason::AtSite { site: name.clone(), class, wait: SiteWait::KeptFrom { why } }
        })
    });
    untagged(state, terms).into_iter().chain(kept.take(NAMED)).collect()
}

/// Nodes that no batch system gives have no tags.
fn untagged(state: &State, terms: &Terms) -> Vec<Reason> {
    let is_there = state.planner().nodes.classes().any(|(_, class)| class.key.site.is_none());
    let Some(site) = SiteKind::ThisMachine.only().filter(|_| is_there) else { return Vec::new() };
    let reason = |tag: &String| Reason::AtSite {
        site: site.clone(),
        class: "and nodes started by hand".into(),
        wait: SiteWait::KeptFrom { why: KeptFrom::Tag { tag: tag.clone() } },
    };
    terms.tags.iter().map(reason).collect()
}

/// Of nodes that are not for it, what would be in the way if they were.
pub(super) fn misfits_of_kept(
    state: &State,
    shape: &Shape,
    asker: Asker<'_>,
    now: Timestamp,
) -> Vec<Reason> {
    let nodes = &state.planner().nodes;
    let open = Shape { kept_from: Vec::new(), ..shape.clone() };
    let is_here = |class: &Class| class.key.site.is_none() && shape.is_kept_from(class);
    let mut kept = nodes.classes().filter(|(_, class)| is_here(class)).peekable();
    if kept.peek().is_none() {
        return Vec::new();
    }
    let need = Need::of(&open, nodes);
    let among = Among::Connected(state);
    let looks = kept.filter_map(|(_, class)| Look::at(among, class, &open, &need, asker, now));
    looks.filter(|look| look.fit == Fit::Never).flat_map(|look| look.reasons(|_| false)).collect()
}

fn too_short(site: &BatchSite, shape: &Shape) -> Option<SiteWait> {
    let wanted = shape.at_most.filter(|_| is_too_short(site, shape))?;
    Some(SiteWait::TooShort { wanted, found: site.spec.longest_task() })
}

/// What else is known of its pilots; one that has nothing of what was asked for is a trouble that
/// says so itself.
fn differs(site: &BatchSite, class: &SiteClass, said: &[SiteWait]) -> Option<SiteWait> {
    let is_said =
        |wait: &SiteWait| matches!(wait, SiteWait::Trouble { what: EngineTrouble::Unfit, .. });
    let Finding { at, node, words } = site.findings.get(&class.name)?.clone();
    (!said.iter().any(is_said)).then_some(SiteWait::Differs { words, node, at })
}

/// All that even an empty one lacks.
fn misfits(look: Look) -> Vec<SiteWait> {
    if look.fit != Fit::Never {
        return Vec::new();
    }
    let wait = |reason| {
        if let Reason::TooSmall { wanted, found, .. } = reason {
            return Some(SiteWait::TooSmall { wanted, found });
        }
        let Reason::Requires { failed, .. } = reason else { return None };
        Some(SiteWait::Requires { failed })
    };
    look.reasons(|_| false).into_iter().filter_map(wait).collect()
}

/// For each kind of pilots what would have to be asked for less, so that one could run it.
pub(super) fn looks<'a>(
    state: &'a State,
    shape: &'a Shape,
    asker: Asker<'a>,
    now: Timestamp,
) -> impl Iterator<Item = (&'a SiteName, &'a SiteClass, Look)> {
    let expected = state.expected();
    let need = Need::within(shape, expected.table(), MAX_STEPS);
    let open = expected.kinds().iter().filter(|kind| !shape.kept_from.contains(&kind.site));
    open.filter_map(move |kind| {
        let site = state.sites().get(&kind.site).filter(|_| need.has_judged(kind.at))?;
        let class = site.spec.classes.get(kind.class)?;
        let of = expected.table().class(kind.at);
        let look = Look::at(Among::Expected(state), of, shape, &need, asker, now)?;
        too_short(site, shape).is_none().then_some((&kind.site, class, look))
    })
}

const HAS_NOT_COME: &str = "its pilot has not come: does the node reach the server, and trust it?";

/// It would do: so how it stands with asking for it.
fn standing(
    state: &State,
    (name, site): (&SiteName, &BatchSite),
    class: &SiteClass,
    now: Timestamp,
) -> SiteWait {
    let open = state.allocations_of(name).filter(|(_, known, _)| !known.phase.is_over());
    let of_class = open.clone().filter(|(_, _, batch)| batch.class == class.name);
    let pending = of_class.clone().filter(|(_, known, _)| known.phase.is_pending());
    // What waits for a person there is what people should hear of first.
    let told = pending.clone().max_by_key(|(_, known, batch)| {
        (known.phase == Phase::Held, !batch.words.is_empty(), std::cmp::Reverse(batch.asked))
    });
    // What it said before it fell silent is not how it stands now.
    let silent = site.trouble(&class.name).filter(|it| !it.kind.is_of_class() && !site.draining);
    if let Some(Trouble { kind, words, until, .. }) = silent {
        return SiteWait::Trouble { what: *kind, words: words.clone(), until: *until };
    }
    if let Some((_, _, batch)) = told {
        // What waits for a person waits as long as that person takes.
        let is_held = pending.clone().all(|(_, known, _)| known.phase == Phase::Held);
        let start = if is_held { None } else { site.last_waits(&class.name, now) };
        return SiteWait::Pending { pilots: nodes(pending), words: batch.words.clone(), start };
    }
    if site.draining {
        return SiteWait::Draining;
    }
    let without_pilot = state.without_pilot(of_class.clone().map(|(id, known, _)| (id, known)));
    let silent = of_class.clone().filter(|(id, _, _)| without_pilot.contains(id));
    if let Some((_, _, batch)) = silent.clone().next() {
        let words = format!("{}, and {HAS_NOT_COME}", batch.words);
        return SiteWait::Pending { pilots: nodes(silent), words, start: None };
    }
    if let Some(trouble) = site.trouble(&class.name).filter(|trouble| trouble.until > now) {
        let (words, until) = (trouble.words.clone(), trouble.until);
        return SiteWait::Trouble { what: trouble.kind, words, until };
    }
    let limits = &site.spec.limits;
    // As many pilots come at a time as an allocation has nodes.
    let most_pilots = class.pilots.saturating_sub(class.nodes.get() - 1);
    if nodes(of_class) >= most_pilots {
        return SiteWait::AtLimit { limit: SiteLimit::Pilots, most: class.pilots };
    }
    let waiting = open.clone().filter(|(_, known, _)| known.phase.is_pending());
    let reached = [
        (SiteLimit::Pending, limits.pending, count(waiting)),
        (SiteLimit::Running, limits.running, count(open)),
        (
            SiteLimit::StartsPerHour,
            limits.starts_per_hour,
            limits.starts_per_hour - site.starts_left(now),
        ),
    ];
    let reached = reached.into_iter().find(|(_, most, now)| now >= most);
    reached.map_or(SiteWait::Asking, |(limit, most, _)| SiteWait::AtLimit { limit, most })
}

/// Of all these allocations.
fn nodes<'a>(of: impl Iterator<Item = (&'a AllocationId, &'a Allocation, &'a InBatch)>) -> u32 {
    of.fold(0, |all, (_, _, batch)| all.saturating_add(batch.nodes))
}

fn count<T>(of: impl Iterator<Item = T>) -> u32 {
    u32::try_from(of.count()).unwrap_or(u32::MAX)
}
