//! Place in line, requirements per class, and the smallest change that would let a job start.

use super::line::{own_before, users_before};
use super::look::{Among, Asker, Look, pilot_at};
use super::tried::Tried;
use super::{fits_now, need_of, sites};
use crate::job::Job;
use crate::ready::rank;
use crate::shape::Shape;
use crate::state::State;
use shipway_model::amounts::thousandths;
use shipway_model::limits::DEFAULT_GRACE;
use shipway_model::prospect::{Change, Fit, KeptNodes, PlaceInLine, Prospect, Requirement};
use shipway_model::{JobId, Millis, Quantity, SiteClass, SiteName, Timestamp, UserName};

/// Changes that are offered: the first is the smallest, a second may suit better.
const MAX_CHANGES: usize = 3;
/// And of those, the smallest, that are looked at: each costs a look at all kinds of nodes.
const MAX_CANDIDATES: usize = 32;

pub(super) fn of(state: &State, shape: &Shape, asker: Asker<'_>, now: Timestamp) -> Prospect {
    let classes = looks(state, shape, asker, now).iter().map(Look::prospect).collect();
    Prospect { place: None, classes, changes: Vec::new(), estimate: None }
}

fn looks(state: &State, shape: &Shape, asker: Asker<'_>, now: Timestamp) -> Vec<Look> {
    let need = need_of(state, shape);
    let planner = state.planner();
    let open = planner.nodes.classes().filter(|(at, class)| planner.is_open(shape, *at, class));
    let among = Among::Connected(state);
    open.filter_map(|(_, class)| Look::at(among, class, shape, &need, asker, now)).collect()
}

/// What would help, the smallest change first. Each was tried: what is said to start now, the
/// planner starts on a copy of all there is; of the others a node that is there could run it.
pub(super) fn changes(
    state: &State,
    shape: &Shape,
    asker: Asker<'_>,
    now: Timestamp,
) -> Vec<Change> {
    let looks = looks(state, shape, asker, now);
    if looks.iter().any(|look| fits_now(look.fit)) {
        return Vec::new();
    }
    let pace = state.shapes().find(shape).map(|known| state.shapes().pace(known));
    let usual = pace.filter(|pace| pace.tasks > 0).map(|pace| pace.mean);
    let shorter = looks.iter().find_map(|look| shorter_limit(look, usual, now));
    let at_sites: Vec<_> = sites::looks(state, shape, asker, now).collect();
    let mut sized = candidates(&looks);
    if at_sites.iter().all(|(_, _, look)| look.fit == Fit::Never) {
        let at_site = |(site, class, look): &(&SiteName, &SiteClass, Look)| {
            let (size, change) = change(look, false).or_else(|| without_term(look))?;
            let (site, class) = (Some((*site).clone()), class.name.clone());
            Some((size, Change { site, class, now: false, ..change }))
        };
        sized.extend(at_sites.iter().filter_map(at_site));
    }
    sized.sort_by_key(|(size, change)| (*size, !change.now, change.class.clone()));
    sized.dedup_by(|a, b| {
        a.1.ask == b.1.ask && a.1.instead_of == b.1.instead_of && a.1.without == b.1.without
    });
    sized.truncate(MAX_CANDIDATES);
    let mut tried = Tried::new(state, asker, now);
    let all = shorter.into_iter().chain(sized.into_iter().map(|(_, change)| change));
    all.filter_map(|change| tried.good(shape, change)).take(MAX_CHANGES).collect()
}

/// For each class what would have to be asked for less, and how much that is.
fn candidates(looks: &[Look]) -> Vec<(u64, Change)> {
    let possible = |look: &&Look| look.fit != Fit::Kept;
    let mut sized: Vec<(u64, Change)> = Vec::new();
    for look in looks.iter().filter(possible) {
        if !look.failed.is_empty() {
            sized.extend(without_term(look));
            continue;
        }
        sized.extend(change(look, true));
        // Less than what is free may be too little to be of use; what the node has when it is
        // free is then the better offer.
        if look.fit == Fit::Never {
            sized.extend(change(look, false));
        }
    }
    sized
}

/// A time limit with which it would be over before what the room is kept for begins, or before the
/// node is taken back. None is offered that tasks of this kind usually exceed.
fn shorter_limit(look: &Look, usual: Option<Millis>, now: Timestamp) -> Option<Change> {
    /// It takes a moment to submit the job again, and the room is not kept from then on but until.
    const TO_SUBMIT: Millis = Millis(60_000);
    const MINUTE: u64 = 60_000;
    let is_time = |one: &&Requirement| matches!(one.wanted, Quantity::Time { .. });
    let lent = look.requirements.iter().find(is_time).filter(|one| !one.is_met());
    let others_are_met =
        || look.requirements.iter().filter(|one| !is_time(one)).all(Requirement::is_met);
    let until = match lent {
        Some(time) => others_are_met().then(|| now.plus(Millis(time.free.raw()))),
        None => look.kept_until,
    };
    let time = until?.since(now.plus(TO_SUBMIT).plus(DEFAULT_GRACE));
    let limit = Millis(time.0 / MINUTE * MINUTE);
    let is_enough = limit.0 > 0 && usual.is_none_or(|usual| usual <= limit);
    is_enough.then(|| Change {
        ask: Vec::new(),
        instead_of: Vec::new(),
        time_limit: Some(limit),
        without: None,
        class: look.class.clone(),
        now: true,
        nodes: 0,
        site: None,
        pilots: None,
    })
}

/// The one term of the requirements without which nodes of a class would do. It counts as much as
/// half of a thing that is asked for: whoever wrote it meant it.
fn without_term(look: &Look) -> Option<(u64, Change)> {
    const SIZE: u64 = 500;
    let [failed] = look.failed.as_slice() else { return None };
    // What goes beyond a limit may do so without this term too.
    if failed.of_image || failed.beyond.is_some() {
        return None;
    }
    let change = Change {
        ask: Vec::new(),
        instead_of: Vec::new(),
        time_limit: None,
        without: Some(failed.term.clone()),
        class: look.class.clone(),
        now: look.requirements.iter().all(Requirement::is_met),
        nodes: 0,
        site: None,
        pilots: None,
    };
    look.requirements.iter().all(Requirement::can_be_met).then_some((SIZE, change))
}

/// How much less, in thousandths of what is asked for, and the change itself.
fn change(look: &Look, now: bool) -> Option<(u64, Change)> {
    let limit = |one: &Requirement| if now { one.free.clone() } else { one.has.clone() };
    let short = |one: &&Requirement| one.wanted.raw() > limit(one).raw();
    let short: Vec<&Requirement> = look.requirements.iter().filter(short).collect();
    // A shorter time limit is a change of its own.
    if short.iter().any(|one| matches!(one.wanted, Quantity::Time { .. })) {
        return None;
    }
    let size = short.iter().map(|one| {
        let missing = one.wanted.raw().saturating_sub(limit(one).raw());
        thousandths(missing, one.wanted.raw())
    });
    let change = Change {
        ask: short.iter().map(|one| limit(one)).collect(),
        instead_of: short.iter().map(|one| one.wanted.clone()).collect(),
        time_limit: None,
        without: None,
        class: look.class.clone(),
        now,
        nodes: 0,
        site: None,
        pilots: None,
    };
    // To ask for none of a thing is not a smaller request but another one.
    let asks_for_some = change.ask.iter().all(|ask| ask.raw() > 0);
    (!short.is_empty() && asks_for_some).then(|| (size.fold(0, u64::saturating_add), change))
}

pub(super) fn place(state: &State, id: JobId, job: &Job, now: Timestamp) -> PlaceInLine {
    let held = state.planner().reservation_of(id).map(|held| {
        let nodes = held.nodes().filter_map(|at| Some(pilot_at(state, at)?.name().clone()));
        KeptNodes {
            nodes: nodes.collect(),
            latest: held.clears_by(state, now),
            behind_own: held.behind_own,
        }
    });
    let own_before = own_before(state, &job.owner, Some(rank(id, job)));
    PlaceInLine { own_before, held, ..place_of_new(state, &job.owner, now) }
}

/// Behind all of the user's own jobs.
pub(super) fn place_of_new(state: &State, user: &UserName, now: Timestamp) -> PlaceInLine {
    let fair = state.fair_share();
    PlaceInLine {
        own_before: own_before(state, user, None),
        users_before: users_before(state, user, now),
        used_core_seconds: fair.used_core_seconds(user, now),
        share: fair.share(user),
        held: None,
    }
}
