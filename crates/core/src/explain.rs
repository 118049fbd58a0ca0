//! Why a job waits: every reason, from the state as it is. Computed when asked, never stored.
//!
//! - `line.rs`      who goes first
//! - `sites.rs`     how it stands with batch systems
//! - `look.rs`      what each class of nodes has and lacks for a need
//! - `prospect.rs`  place in line, requirements, the smallest change
//! - `tried.rs`     whether a change would do, by the planner itself
//! - `estimate.rs`  when it may start

mod estimate;
mod line;
mod look;
mod prospect;
mod sites;
mod tried;

use crate::guard::{guarded, strike};
use crate::job::{Job, Terms};
use crate::pilot::Pilot;
use crate::ready::rank;
use crate::schedule::needs::Need;
use crate::shape::{Shape, ShapeId};
use crate::state::State;
use look::{Among, Asker, Look};
use shipway_model::prospect::{Fit, Prospect};
use shipway_model::reason::{During, SiteWait};
use shipway_model::{JobId, JobState, Reason, SiteName, Timestamp, UserName, Withheld};
use std::borrow::Cow;
use std::collections::BTreeMap;
pub use tried::can_be_tried;

/// Explains several jobs: what is found for a shape once is not looked for again.
#[derive(Debug)]
pub struct Explainer<'a> {
    state: &'a State,
    now: Timestamp,
    /// Where nodes are kept, what is found depends on the user too.
    needs: BTreeMap<(ShapeId, Option<&'a UserName>), Option<Vec<Reason>>>,
}

impl<'a> Explainer<'a> {
    pub fn new(state: &'a State, now: Timestamp) -> Self {
        Explainer { state, now, needs: BTreeMap::new() }
    }

    /// The reasons of a job that is in memory; empty when nothing of it waits.
    pub fn reasons(&mut self, id: JobId) -> Vec<Reason> {
        guarded(|| self.find(id)).unwrap_or_else(not_explained)
    }

    fn find(&mut self, id: JobId) -> Vec<Reason> {
        let Some(job) = self.state.job(id).filter(|job| job.tasks.counts().waiting > 0) else {
            return Vec::new();
        };
        let mut reasons = own_reasons(self.state, job);
        if !job.wants_placing() {
            return reasons;
        }
        let (state, now) = (self.state, self.now);
        if state.planner().is_set_aside(job.shape) {
            reasons.push(Reason::SetAside { during: During::Planning });
            return reasons;
        }
        let user = Some(&job.owner).filter(|_| !state.planner().reservations().is_empty());
        let found = self.needs.entry((job.shape, user)).or_insert_with(|| {
            let shape = state.shapes().get(job.shape);
            let asker = Asker { job: Some(id), user: &job.owner };
            // Kept for all jobs of this shape: none of them fails again.
            let found = guarded(|| reasons_of_need(state, shape, asker, now));
            found.unwrap_or_else(|| Some(not_explained()))
        });
        if let Some(found) = found {
            reasons.extend(found.iter().cloned());
            reasons.extend(sites::kept_from(state, &job.owner, &job.terms));
        }
        if !reasons
            .iter()
            .any(|reason| matches!(reason, Reason::TooSmall { .. } | Reason::Requires { .. }))
        {
            reasons.extend(line::reasons(state, id, job, now));
        }
        if reasons.is_empty() { vec![Reason::Next] } else { reasons }
    }
}

fn not_explained() -> Vec<Reason> {
    vec![Reason::SetAside { during: During::Explaining }]
}

pub fn explain(state: &State, id: JobId, now: Timestamp) -> Vec<Reason> {
    Explainer::new(state, now).reasons(id)
}

/// Why one task of this user with this need and these terms could not start right now, class by
/// class; empty when it could: where the state can be copied that was tried.
pub fn explain_need(
    state: &State,
    shape: &Shape,
    (user, terms): (&UserName, &Terms),
    now: Timestamp,
) -> Vec<Reason> {
    let asker = Asker { job: None, user };
    let reasons = guarded(|| {
        let Some(mut reasons) = reasons_of_need(state, shape, asker, now) else {
            return tried::in_the_way(state, shape, asker, now);
        };
        reasons.extend(sites::kept_from(state, user, terms));
        reasons
    });
    reasons.unwrap_or_else(not_explained)
}

/// Of each kind of pilots with GPUs that batch systems would give, by site and class: all for which
/// one could never run such a task, or else how it stands with asking for one. What could not be
/// found out in reasonable time is left out.
pub fn explain_gpus(
    state: &State,
    shape: &Shape,
    asking: (&UserName, &Terms),
    now: Timestamp,
) -> BTreeMap<(SiteName, String), Vec<SiteWait>> {
    guarded(|| sites::of_gpus(state, shape, asking, now)).unwrap_or_default()
}

/// All that is to be said about a job that waits, as far as it can be found out.
pub fn prospect(state: &State, id: JobId, now: Timestamp) -> Option<Prospect> {
    guarded(|| prospect_of_job(state, id, now)).flatten()
}

fn prospect_of_job(state: &State, id: JobId, now: Timestamp) -> Option<Prospect> {
    let job = state.job(id).filter(|job| job.tasks.counts().waiting > 0)?;
    let asker = Asker { job: Some(id), user: &job.owner };
    let shape = state.shapes().get(job.shape);
    let mut found = prospect::of(state, shape, asker, now);
    if job.wants_placing() {
        found.changes = prospect::changes(state, shape, asker, now);
        let place = prospect::place(state, id, job, now);
        let rank = Some(rank(id, job));
        let estimate = estimate::of(state, (job.shape, &job.owner, rank), now);
        found.estimate = estimate.filter(|_| !is_kept(&found));
        found.place = Some(place);
    }
    Some(found)
}

/// The same for a job that is not submitted, had this user submitted it.
pub fn prospect_of_new(state: &State, shape: &Shape, user: &UserName, now: Timestamp) -> Prospect {
    let found = guarded(|| prospect_of_shape(state, shape, user, now));
    found.unwrap_or_else(|| Prospect {
        place: None,
        classes: Vec::new(),
        changes: Vec::new(),
        estimate: None,
    })
}

fn prospect_of_shape(state: &State, shape: &Shape, user: &UserName, now: Timestamp) -> Prospect {
    let asker = Asker { job: None, user };
    let mut found = prospect::of(state, shape, asker, now);
    found.changes = prospect::changes(state, shape, asker, now);
    let place = prospect::place_of_new(state, user, now);
    if let Some(known) = state.shapes().find(shape) {
        let estimate = estimate::of(state, (known, user, None), now);
        found.estimate = estimate.filter(|_| !is_kept(&found));
    }
    found.place = Some(place);
    found
}

/// Of room that is kept for others nobody knows when it is left.
fn is_kept(found: &Prospect) -> bool {
    found.classes.iter().any(|class| class.fit == Fit::Kept)
}

/// What the job itself waits for, whatever nodes there are.
fn own_reasons(state: &State, job: &Job) -> Vec<Reason> {
    let mut reasons = Vec::new();
    for after in &job.after {
        let ended = state.job(after.job).map_or(JobState::Succeeded, Job::state);
        let (job, condition) = (after.job, after.condition);
        reasons.push(Reason::AfterJob { job, condition, state: ended });
    }
    if !reasons.is_empty() {
        return reasons;
    }
    if let Some(until) = job.tasks.backing_off().map(|(_, _, until)| until).min() {
        let tasks = job.tasks.backing_off().map(|(first, last, _)| last - first + 1).sum();
        reasons.push(Reason::BackOff { until, tasks });
    }
    if job.tasks.has_placeable() && job.room() == 0 {
        let limit = job.terms.max_running.unwrap_or(u32::MAX);
        reasons.push(Reason::MaxRunning { limit });
    }
    reasons
}

/// Nothing if it could start right now.
fn reasons_of_need(
    state: &State,
    shape: &Shape,
    asker: Asker<'_>,
    now: Timestamp,
) -> Option<Vec<Reason>> {
    let nodes = &state.planner().nodes;
    let at_sites = || sites::reasons(state, shape, asker, now);
    if nodes.is_empty() {
        return Some(if state.sites().is_empty() { no_nodes(state) } else { at_sites() });
    }
    let need = need_of(state, shape);
    strike("panics_in_look", &shape.resources);
    let mut reasons = Vec::new();
    let among = Among::Connected(state);
    let open = nodes.classes().filter(|(at, class)| state.planner().is_open(shape, *at, class));
    for (_, class) in open {
        let Some(look) = Look::at(among, class, shape, &need, asker, now) else { continue };
        let mine = |other: JobId| state.job(other).is_some_and(|job| job.owner == *asker.user);
        let in_the_way = look.reasons(mine);
        if in_the_way.is_empty() {
            return None;
        }
        reasons.extend(in_the_way);
    }
    reasons.extend(sites::misfits_of_kept(state, shape, asker, now));
    reasons.extend(unfit(state));
    reasons.extend(withheld(state, shape));
    reasons.extend(at_sites());
    Some(reasons)
}

/// As the planner has worked it out, if somebody waits with it: its requirements are not asked of
/// every node once more.
fn need_of<'a>(state: &'a State, shape: &Shape) -> Cow<'a, Need> {
    let known = state.shapes().find(shape).and_then(|id| state.planner().known_need(id));
    known.map_or_else(|| Cow::Owned(Need::of(shape, &state.planner().nodes)), Cow::Borrowed)
}

/// Nodes, or GPUs, that failed their proof and are named one by one: enough to see what is wrong.
const NAMED_FAULTS: usize = 4;

fn no_nodes(state: &State) -> Vec<Reason> {
    let unfit: Vec<Reason> = unfit(state).collect();
    let known = u32::try_from(state.pilots().len()).unwrap_or(u32::MAX);
    match known {
        0 => vec![Reason::NoNodes],
        _ if !unfit.is_empty() => unfit,
        nodes => vec![Reason::NodesAway { nodes }],
    }
}

fn unfit(state: &State) -> impl Iterator<Item = Reason> {
    let connected = state.pilots().values().filter(|pilot| pilot.is_connected());
    let reasons = connected.filter_map(|pilot| {
        let why = pilot.ad.unfit.first()?.clone();
        Some(Reason::Unfit { node: pilot.name().clone(), why })
    });
    reasons.take(NAMED_FAULTS)
}

/// GPUs that are what is asked for, and are not offered.
fn withheld(state: &State, shape: &Shape) -> impl Iterator<Item = Reason> {
    let wanted = shape.resources.gpu.as_ref();
    let connected = state.pilots().values().filter(|pilot| pilot.takes_work());
    let all = connected.flat_map(|pilot| pilot.ad.withheld.iter().map(move |gpu| (pilot, gpu)));
    let matching = all.filter(move |(_, held)| wanted.is_some_and(|gpu| gpu.matches(&held.gpu)));
    let reason = |(pilot, held): (&Pilot, &Withheld)| Reason::Withheld {
        node: pilot.name().clone(),
        gpu: held.name.clone(),
        why: held.why.clone(),
    };
    matching.map(reason).take(NAMED_FAULTS)
}

/// Whether a class could take it at once.
fn fits_now(fit: Fit) -> bool {
    fit == Fit::Now
}
