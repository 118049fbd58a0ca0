//! Place in line, requirements per class, and the smallest change that would let a job start.

use super::line::{own_before, users_before};
use super::look::{Asker, Look, pilot_at};
use super::{fits_now, need_of};
use crate::job::Job;
use crate::ready::rank;
use crate::shape::Shape;
use crate::state::State;
use shipway_model::amounts::thousandths;
use shipway_model::limits::DEFAULT_GRACE;
use shipway_model::prospect::{Change, Fit, Held, Place, Prospect, Requirement};
use shipway_model::{JobId, Millis, Timestamp, UserName};

/// Changes that are offered: the first is the smallest, a second may suit better.
const MAX_CHANGES: usize = 3;

pub(super) fn of(state: &State, shape: &Shape, asker: Asker<'_>, now: Timestamp) -> Prospect {
    let nodes = &state.planner().nodes;
    let need = need_of(state, shape);
    let classes = nodes.classes();
    let looks: Vec<Look> =
        classes.filter_map(|(_, class)| Look::at(state, class, shape, &need, asker, now)).collect();
    let changes = if looks.iter().any(|look| fits_now(look.fit)) {
        Vec::new()
    } else {
        let pace = state.shapes().find(shape).map(|known| state.shapes().pace(known));
        let usual = pace.filter(|pace| pace.tasks > 0).map(|pace| pace.mean);
        let shorter = looks.iter().find_map(|look| shorter_limit(look, usual, now));
        shorter.into_iter().chain(changes(&looks)).take(MAX_CHANGES).collect()
    };
    let classes = looks.iter().map(Look::prospect).collect();
    Prospect { place: None, classes, changes, estimate: None }
}

/// For each class what would have to be asked for less; the smallest first.
fn changes(looks: &[Look]) -> Vec<Change> {
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
    sized.sort_by_key(|(size, change)| (*size, !change.now, change.class.clone()));
    sized.dedup_by(|a, b| {
        a.1.ask == b.1.ask && a.1.instead_of == b.1.instead_of && a.1.without == b.1.without
    });
    sized.into_iter().take(MAX_CHANGES).map(|(_, change)| change).collect()
}

/// A time limit with which it would be over before what the room is kept for begins. None is
/// offered that tasks of this kind usually exceed.
fn shorter_limit(look: &Look, usual: Option<Millis>, now: Timestamp) -> Option<Change> {
    /// It takes a moment to submit the job again, and the room is not kept from then on but until.
    const TO_SUBMIT: Millis = Millis(60_000);
    const MINUTE: u64 = 60_000;
    let time = look.kept_until?.since(now.plus(TO_SUBMIT).plus(DEFAULT_GRACE));
    let limit = Millis(time.0 / MINUTE * MINUTE);
    let is_enough = limit.0 > 0 && usual.is_none_or(|usual| usual <= limit);
    is_enough.then(|| Change {
        ask: Vec::new(),
        instead_of: Vec::new(),
        time_limit: Some(limit),
        without: None,
        class: look.class.clone(),
        now: true,
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
    };
    look.requirements.iter().all(Requirement::can_be_met).then_some((SIZE, change))
}

/// How much less, in thousandths of what is asked for, and the change itself.
fn change(look: &Look, now: bool) -> Option<(u64, Change)> {
    let limit = |one: &Requirement| if now { one.free.clone() } else { one.has.clone() };
    let short = |one: &&Requirement| one.wanted.raw() > limit(one).raw();
    let short: Vec<&Requirement> = look.requirements.iter().filter(short).collect();
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
    };
    // To ask for none of a thing is not a smaller request but another one.
    let asks_for_some = change.ask.iter().all(|ask| ask.raw() > 0);
    (!short.is_empty() && asks_for_some).then(|| (size.fold(0, u64::saturating_add), change))
}

pub(super) fn place(state: &State, id: JobId, job: &Job, now: Timestamp) -> Place {
    let held = state.planner().reservation_of(id).map(|held| {
        let nodes = held.nodes().filter_map(|at| Some(pilot_at(state, at)?.name().clone()));
        Held { nodes: nodes.collect(), latest: held.latest, behind_own: held.behind_own }
    });
    let own_before = own_before(state, &job.owner, Some(rank(id, job)));
    Place { own_before, held, ..place_of_new(state, &job.owner, now) }
}

/// Behind all of the user's own jobs.
pub(super) fn place_of_new(state: &State, user: &UserName, now: Timestamp) -> Place {
    let fair = state.fair_share();
    Place {
        own_before: own_before(state, user, None),
        users_before: users_before(state, user, now),
        used_core_seconds: fair.used_core_seconds(user, now),
        share: fair.share(user),
        held: None,
    }
}
