//! One class of nodes against one need: what the node that comes nearest has, and lacks.

use crate::load::{Load, Usable};
use crate::pilot::Pilot;
use crate::requirements::ads_of_node;
use crate::schedule::index::nodes::{Class, NodeAt, NodeTable};
use crate::schedule::needs::{Groups, Need};
use crate::schedule::reserve::{Other, Reservation};
use crate::shape::Shape;
use crate::state::State;
use shipway_model::prospect::{ClassProspect, Fit, Requirement};
use shipway_model::reason::{During, FailedTerm};
use shipway_model::{JobId, Kind, Quantity, Reason, Resources, Timestamp, UserName};
use std::collections::BTreeMap;

/// Which nodes are looked at: those that are connected, or those that batch systems would give.
#[derive(Debug, Clone, Copy)]
pub(super) enum Among<'a> {
    Connected(&'a State),
    Expected(&'a State),
}

impl<'a> Among<'a> {
    fn table(self) -> &'a NodeTable {
        match self {
            Among::Connected(state) => &state.planner().nodes,
            Among::Expected(state) => state.expected().table(),
        }
    }

    fn pilot(self, at: NodeAt) -> Option<&'a Pilot> {
        match self {
            Among::Connected(state) => pilot_at(state, at),
            Among::Expected(state) => state.expected().pilot(at),
        }
    }
}

/// Who asks: a user, with a job that waits or one that is not submitted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asker<'a> {
    pub(super) job: Option<JobId>,
    pub(super) user: &'a UserName,
}

#[derive(Debug)]
pub(super) struct Look {
    pub(super) class: String,
    nodes: u32,
    pub(super) fit: Fit,
    pub(super) requirements: Vec<Requirement>,
    /// Terms of the job's own requirements that do not hold.
    pub(super) failed: Vec<FailedTerm>,
    kept_for: Option<JobId>,
    /// When the room is needed at the latest, where it is kept and that is known.
    pub(super) kept_until: Option<Timestamp>,
}

/// The node of a class that comes nearest to a need.
struct Nearest<'a> {
    /// Whether it could never run it, how many things are short, and by how much.
    score: (bool, u32, u64),
    at: NodeAt,
    /// The kinds of its devices that may be used, if it could run it.
    usable: Option<Groups>,
    kept: Option<&'a Reservation>,
}

impl Look {
    /// `None` for a class without nodes.
    pub(super) fn at(
        among: Among<'_>,
        class: &Class,
        shape: &Shape,
        need: &Need,
        asker: Asker<'_>,
        now: Timestamp,
    ) -> Option<Look> {
        let Nearest { at, usable, kept, .. } = nearest(among, class, need, asker, now)?;
        let (nodes, pilot) = (among.table(), among.pilot(at)?);
        let failed = if usable.is_some() { Vec::new() } else { failed(among, class, need, at) };
        // Where none of its devices may be used, those count that were asked for.
        let counted = nodes.usable(at, usable.unwrap_or_else(|| need.matching(class)));
        let time = need.at_most.zip(nodes.until(at)).map(|(wanted, until)| {
            let left = Quantity::Time { amount: until.since(now) };
            let wanted = Quantity::Time { amount: wanted };
            Requirement { wanted, has: left.clone(), free: left }
        });
        let mut requirements = requirements(pilot, &shape.resources, counted);
        requirements.extend(time);
        let fit = fit(&requirements, usable.is_some(), kept.is_some());
        let nodes = u32::try_from(class.members.nodes().len()).unwrap_or(u32::MAX);
        let kept_for = kept.map(|held| held.job);
        let kept_until = kept.filter(|_| fit == Fit::Kept).and_then(|held| held.latest);
        let class = class.key.describe();
        Some(Look { class, nodes, fit, requirements, failed, kept_for, kept_until })
    }

    /// Everything that is in the way; nothing: a node of this class could take it now.
    /// Which job it is kept for is said when it is the same user's.
    pub(super) fn reasons(self, is_own: impl Fn(JobId) -> bool) -> Vec<Reason> {
        let Look { class, nodes, fit, requirements, failed, kept_for, .. } = self;
        match fit {
            Fit::Now => Vec::new(),
            Fit::Kept => {
                let job = kept_for.filter(|job| is_own(*job));
                vec![Reason::Kept { nodes, class, job }]
            }
            Fit::Busy => {
                let short = requirements.into_iter().filter(|one| !one.is_met());
                let busy = |one: Requirement| Reason::Busy {
                    nodes,
                    class: class.clone(),
                    wanted: one.wanted,
                    found: one.free,
                };
                short.map(busy).collect()
            }
            Fit::Never => {
                let short = requirements.into_iter().filter(|one| !one.can_be_met());
                let small = |one: Requirement| Reason::TooSmall {
                    nodes,
                    class: class.clone(),
                    wanted: one.wanted,
                    found: one.has,
                };
                let failed = failed.into_iter().map(|failed| {
                    let class = class.clone();
                    Reason::Requires { nodes, class, failed }
                });
                let all: Vec<Reason> = short.map(small).chain(failed).collect();
                let not_known = || vec![Reason::SetAside { during: During::Explaining }];
                if all.is_empty() { not_known() } else { all }
            }
        }
    }

    pub(super) fn prospect(&self) -> ClassProspect {
        ClassProspect {
            class: self.class.clone(),
            nodes: self.nodes,
            fit: self.fit,
            requirements: self.requirements.clone(),
            failed: self.failed.clone(),
        }
    }
}

pub(super) fn pilot_at(state: &State, at: NodeAt) -> Option<&Pilot> {
    state.pilots().get(state.planner().nodes.pilot(at)?)
}

fn nearest<'a>(
    among: Among<'a>,
    class: &Class,
    need: &Need,
    asker: Asker<'_>,
    now: Timestamp,
) -> Option<Nearest<'a>> {
    let (nodes, matching) = (among.table(), need.matching(class));
    let mut best: Option<Nearest<'a>> = None;
    for at in class.members.nodes().iter().copied() {
        let usable = need.on_node(nodes, (at, now), || among.pilot(at));
        let (short, by) = need.shortage(usable.unwrap_or(matching), nodes.free(at));
        if best.as_ref().is_some_and(|known| (usable.is_none(), short, by) >= known.score) {
            continue;
        }
        let kept = usable.and_then(|_| match among {
            Among::Connected(state) => kept_for(state, at, need, asker, now),
            Among::Expected(_) => None,
        });
        // Room that is kept for another comes after room that is not.
        let score = (usable.is_none(), short, by.saturating_add(u64::from(kept.is_some())));
        if best.as_ref().is_none_or(|known| score < known.score) {
            best = Some(Nearest { score, at, usable, kept });
        }
        if score == (false, 0, 0) {
            break;
        }
    }
    best
}

/// The terms of the requirements that keep a need off a node: those that do not hold for devices
/// that were asked for. None, if the requirements are not what is in the way.
fn failed(among: Among<'_>, class: &Class, need: &Need, at: NodeAt) -> Vec<FailedTerm> {
    if need.is_kept_by_containers(class) {
        return vec![FailedTerm::of_image()];
    }
    let (Some(choice), Some(pilot)) = (&need.choice, among.pilot(at)) else {
        return Vec::new();
    };
    let allowed = need.allowed(among.table(), at, || Some(pilot));
    if !need.is_kept_out(class, allowed) {
        return Vec::new();
    }
    let own = if choice.is_per_node { Some(ads_of_node(pilot, &class.ads)) } else { None };
    let ads = own.as_deref().unwrap_or(&class.ads);
    choice.failed(Class::ads_of(ads, need.matching(class)))
}

fn fit(requirements: &[Requirement], is_usable: bool, is_kept: bool) -> Fit {
    if !is_usable || requirements.iter().any(|one| !one.can_be_met()) {
        Fit::Never
    } else if requirements.iter().any(|one| !one.is_met()) {
        Fit::Busy
    } else if is_kept {
        Fit::Kept
    } else {
        Fit::Now
    }
}

/// What this node is kept for, if that keeps ours out.
fn kept_for<'a>(
    state: &'a State,
    at: NodeAt,
    need: &Need,
    asker: Asker<'_>,
    now: Timestamp,
) -> Option<&'a Reservation> {
    let free = state.planner().nodes.free(at);
    let held = state.planner().reservations().iter();
    let mut others = held.filter(|held| asker.job != Some(held.job));
    others.find(|held| {
        let Some(kept) = held.at(at) else { return false };
        let is_own = state.job(held.job).is_some_and(|job| job.owner == *asker.user);
        let standing = Some(state.fair_share().standing(asker.user, now));
        !held.lets_by(kept, now, &Other { need, standing, is_own }, free)
    })
}

/// Wanted, had and free of everything that is asked for.
fn requirements(pilot: &Pilot, need: &Resources, usable: Usable<'_>) -> Vec<Requirement> {
    let (has, load) = (&pilot.ad.capacity, &pilot.load);
    let mut found = Vec::new();
    let mut see = |wanted: Quantity, has: u64, used: u64| {
        if wanted.raw() > 0 {
            let (has, free) = (wanted.with(has), wanted.with(has.saturating_sub(used)));
            found.push(Requirement { wanted, has, free });
        }
    };
    let (wanted, all, used) = (need.amounts(), has.amounts(), load.used.amounts);
    for kind in Kind::ALL {
        see(kind.quantity(wanted.get(kind)), all.get(kind), used.get(kind));
    }
    if let Some(gpu) = &need.gpu {
        let count = |load: &Load| u64::from(load.free_count(&pilot.ad, need, usable));
        let (has, free) = (count(&Load::default()), count(load));
        let wanted = Quantity::Gpus { amount: gpu.count, request: gpu.to_string() };
        see(wanted, has, has.saturating_sub(free));
    }
    for (name, amount) in &need.named {
        let of = |amounts: &BTreeMap<String, u64>| amounts.get(name).copied().unwrap_or(0);
        let wanted = Quantity::Named { name: name.clone(), amount: *amount };
        see(wanted, of(&has.named), of(&load.used.named));
    }
    found
}
