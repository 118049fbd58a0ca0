//! One class of nodes against one need: what the node that comes nearest has, and lacks.

use crate::load::Load;
use crate::pilot::Pilot;
use crate::requirements::node_ad;
use crate::schedule::needs::Need;
use crate::schedule::nodes::{Class, NodeAt};
use crate::schedule::reserve::Reservation;
use crate::shape::Shape;
use crate::state::State;
use shipway_model::prospect::{ClassProspect, Fit, Requirement};
use shipway_model::reason::FailedTerm;
use shipway_model::{JobId, Quantity, Reason, Resources, Timestamp};
use std::sync::Arc;

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

impl Look {
    pub(super) fn at(
        state: &State,
        class: &Class,
        shape: &Shape,
        need: &Need,
        job: Option<JobId>,
        now: Timestamp,
    ) -> Look {
        let mut best: Option<((u32, u64), NodeAt, Option<&Reservation>)> = None;
        let nodes = &state.planner().nodes;
        let groups = need.matching(class);
        let failed = failed(state, class, need);
        let suits = |at: NodeAt| {
            let pilot = pilot_at(state, at);
            !failed.is_empty() || pilot.is_some_and(|pilot| need.suits(nodes, at, pilot))
        };
        for at in class.members.nodes().iter().filter(|at| suits(**at)) {
            let short = need.shortage(groups, nodes.free(*at));
            if best.as_ref().is_some_and(|(known, ..)| short >= *known) {
                continue;
            }
            let kept_for = kept_for(state, *at, need, job, now);
            // Room that is kept for another comes after room that is not.
            let score = (short.0, short.1 + u64::from(kept_for.is_some()));
            if best.as_ref().is_none_or(|(known, ..)| score < *known) {
                best = Some((score, *at, kept_for));
            }
            if score == (0, 0) {
                break;
            }
        }
        let (_, nearest, kept) = best.expect("a class that is listed has a node");
        let pilot = pilot_at(state, nearest).expect("a node in the table is a pilot's");
        let requirements = requirements(pilot, &shape.resources);
        let fit = fit(&requirements, &failed, kept.is_some());
        let nodes = u32::try_from(class.members.nodes().len()).unwrap_or(u32::MAX);
        let kept_for = kept.map(|held| held.job);
        let kept_until = kept.filter(|_| fit == Fit::Kept).and_then(|held| held.latest);
        let class = class.key.describe();
        Look { class, nodes, fit, requirements, failed, kept_for, kept_until }
    }

    /// `None`: a node of this class could take it now.
    /// Which job it is kept for is said when it is the same user's.
    pub(super) fn reason(self, is_own: impl Fn(JobId) -> bool) -> Option<Reason> {
        let Look { class, nodes, fit, requirements, failed, kept_for, .. } = self;
        let mut all = requirements.into_iter();
        match fit {
            Fit::Now => None,
            Fit::Kept => {
                let job = kept_for.filter(|job| is_own(*job));
                Some(Reason::Kept { nodes, class, job })
            }
            Fit::Busy => all.find(|one| !one.is_met()).map(|one| {
                let (wanted, found) = (one.wanted, one.free);
                Reason::Busy { nodes, class, wanted, found }
            }),
            Fit::Never => {
                if let Some(one) = all.find(|one| !one.can_be_met()) {
                    let (wanted, found) = (one.wanted, one.has);
                    return Some(Reason::TooSmall { nodes, class, wanted, found });
                }
                let failed = failed.into_iter().next();
                failed.map(|failed| Reason::Requires { nodes, class, failed })
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

/// The terms that hold for no node of a class, as one of its nodes has it. None, if any will do.
fn failed(state: &State, class: &Class, need: &Need) -> Vec<FailedTerm> {
    let Some(choice) = &need.choice else { return Vec::new() };
    let nodes = &state.planner().nodes;
    let first = class.members.nodes().first();
    if !choice.is_per_node {
        // Some of its devices may do, and be too few.
        let is_unusable = first.is_some_and(|at| !need.could_use(nodes.free(*at).class()));
        let failing = class.ads.iter().filter(|ad| !choice.holds(ad)).cloned();
        let failing: Vec<_> = failing.filter(|_| is_unusable).collect();
        return choice.failed(&failing);
    }
    let members = class.members.nodes().iter();
    let mut pilots = members.filter_map(|at| Some((*at, pilot_at(state, *at)?)));
    let example = pilots.clone().next();
    if pilots.any(|(at, pilot)| need.suits(nodes, at, pilot)) {
        return Vec::new();
    }
    let ads = example.map(|(_, pilot)| {
        class.ads.iter().map(|ad| Arc::new(node_ad(ad, &pilot.ad))).collect::<Vec<_>>()
    });
    choice.failed(&ads.unwrap_or_default())
}

fn fit(requirements: &[Requirement], failed: &[FailedTerm], is_kept: bool) -> Fit {
    if !failed.is_empty() || requirements.iter().any(|one| !one.can_be_met()) {
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
    job: Option<JobId>,
    now: Timestamp,
) -> Option<&'a Reservation> {
    let held = state.planner().reservations().iter().find(|held| held.node == at)?;
    let mine = job == Some(held.job);
    let free = state.planner().nodes.free(at);
    let owner = job.and_then(|job| state.job(job)).map(|job| &job.owner);
    let standing = owner.map(|owner| state.fair_share().standing(owner, now));
    (!mine && !held.lets_by(now, (need, standing), free)).then_some(held)
}

/// Calls with wanted, had and free of everything that is asked for.
fn each(pilot: &Pilot, need: &Resources, mut see: impl FnMut(u64, u64, u64)) {
    let (has, load) = (&pilot.ad.capacity, &pilot.load);
    see(need.cpus.milli, has.cpus.milli, has.cpus.milli.saturating_sub(load.cpus.milli));
    see(need.memory.0, has.memory.0, has.memory.0.saturating_sub(load.memory.0));
    see(need.disk.0, has.disk.0, has.disk.0.saturating_sub(load.disk.0));
    if let Some(gpu) = &need.gpu {
        let count = |load: &Load| u64::from(load.free_count(&pilot.ad, need));
        see(u64::from(gpu.count), count(&Load::default()), count(load));
    }
    for (name, wanted) in &need.named {
        let has = has.named.get(name).copied().unwrap_or(0);
        let used = load.named.get(name).copied().unwrap_or(0);
        see(*wanted, has, has.saturating_sub(used));
    }
}

/// The same as quantities; what is not asked for is left out.
fn requirements(pilot: &Pilot, need: &Resources) -> Vec<Requirement> {
    let kinds = quantities(need);
    let mut found = Vec::new();
    let mut at = 0;
    each(pilot, need, |wanted, has, free| {
        let quantity = |amount| kinds[at].with(amount);
        if wanted > 0 {
            let (wanted, has, free) = (quantity(wanted), quantity(has), quantity(free));
            found.push(Requirement { wanted, has, free });
        }
        at += 1;
    });
    found
}

/// What is asked for, in the order of `each`.
fn quantities(need: &Resources) -> Vec<Quantity> {
    let mut kinds = vec![
        Quantity::Cpus { amount: need.cpus },
        Quantity::Memory { amount: need.memory },
        Quantity::Disk { amount: need.disk },
    ];
    let gpus = need.gpu.as_ref();
    kinds.extend(gpus.map(|gpu| Quantity::Gpus { amount: gpu.count, request: gpu.to_string() }));
    let named = need.named.iter();
    kinds.extend(
        named.map(|(name, amount)| Quantity::Named { name: name.clone(), amount: *amount }),
    );
    kinds
}
