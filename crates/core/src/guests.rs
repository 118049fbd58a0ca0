//! Guests: tasks that need no GPU, where a site's nodes have some. Which tasks those are, and what
//! lets them in; when they have to leave is the scheduler's (`schedule/guests.rs`).
//!
//! A task is a guest where a kind of pilots without GPUs could run it: it has a home. For a task
//! that has none, nodes with GPUs are asked for like any other. The broker sees it the same way.
//! Whoever says by requirements which nodes will do is none: what they hold for is found out by
//! whoever has the time, and not where events are applied.

use crate::batch::BatchSite;
use crate::broker::Expected;
use crate::broker::expected::Kind;
use crate::guard::guarded;
use crate::job::{Job, Terms};
use crate::reach::sites_kept_from;
use crate::schedule::index::class::Class;
use crate::schedule::needs::Need;
use crate::shape::{Expressions, Shape};
use crate::site::SiteKind;
use crate::state::State;
use shipway_model::site::LAST_MINUTE;
use shipway_model::{AllocationId, Millis, NodeAd, SiteName, Timestamp, UserName};
use std::collections::BTreeMap;

/// A shape as it is for jobs of this user on these terms, by what is known of the sites.
pub(crate) fn at_sites(
    sites: &BTreeMap<SiteName, BatchSite>,
    expected: &Expected,
    shape: Shape,
    (owner, terms): (&UserName, &Terms),
) -> Shape {
    let mut kept_from = sites_kept_from(sites, owner, terms);
    let too_short = sites.iter().filter(|(_, site)| is_too_short(site, &shape));
    kept_from.extend(too_short.map(|(name, _)| name.clone()));
    kept_from.sort_unstable();
    kept_from.dedup();
    let shape = Shape { kept_from, ..shape };
    let may_be = shape.resources.gpu.is_none()
        && shape.expressions.requirements.is_none()
        && shape.gang.is_one();
    // What cannot be judged is no guest; the planner finds out the same, and sets it aside.
    let is_guest = may_be && guarded(|| has_home(sites, expected, &shape)).unwrap_or(false);
    Shape { is_guest, ..shape }
}

/// Whether not even a pilot that has just come is there for long enough.
pub(crate) fn is_too_short(site: &BatchSite, shape: &Shape) -> bool {
    shape.at_most.is_some_and(|limit| limit > site.spec.longest_task())
}

/// Whether there are kinds with GPUs, and one without could run it.
fn has_home(sites: &BTreeMap<SiteName, BatchSite>, expected: &Expected, shape: &Shape) -> bool {
    let models = expected.alike();
    let has_gpus = |kind: &Kind| models.class(kind.alike).key.gpus() > 0;
    if !expected.kinds().iter().any(has_gpus) {
        return false;
    }
    let expressions = Expressions { rank: None, ..shape.expressions.clone() };
    let open = Shape { kept_from: Vec::new(), expressions, ..shape.clone() };
    let need = Need::of(&open, models);
    let takes_it = |kind: &Kind| {
        let site = sites.get(&kind.site).filter(|site| !site.draining);
        site.is_some_and(|site| !is_too_short(site, shape))
    };
    let mut homes = expected.kinds().iter().filter(|kind| !has_gpus(kind));
    homes.any(|kind| {
        need.could_use(kind.alike)
            && takes_it(kind)
            && shape.kept_from.binary_search(&kind.site).is_err()
    })
}

impl State {
    /// The same for jobs that are not there yet.
    pub fn at_sites(&self, shape: Shape, owner: &UserName, terms: &Terms) -> Shape {
        at_sites(&self.sites, &self.expected, shape, (owner, terms))
    }

    /// When tasks have to be over on a node of this allocation, if it is only lent: its pilot
    /// begins to leave then.
    pub(crate) fn until(&self, allocation: &AllocationId, ad: &NodeAd) -> Option<Timestamp> {
        let known = self.allocations.get(allocation);
        let site = known.and_then(|known| self.sites.get(&known.site));
        let last = site.map_or(LAST_MINUTE, |site| site.spec.last());
        Some(Timestamp(ad.allocation_ends()?.0.saturating_sub(last.0)))
    }

    /// How long guests have to leave a pilot of this allocation; nothing where none are let in.
    pub(crate) fn guests_of(&self, allocation: &AllocationId) -> Option<Millis> {
        let known = self.allocations.get(allocation)?;
        let class = &known.batch.as_ref()?.class;
        self.sites.get(&known.site)?.spec.class(class)?.guests
    }
}

impl Shape {
    /// A job with tasks that run and came as no guests is none, whatever has become of the sites:
    /// they were not told that they may have to leave.
    #[must_use]
    pub(crate) fn kept_as_before(self, before: &Shape, job: &Job) -> Shape {
        let stays = !before.is_guest && job.tasks.counts().active > 0;
        Shape { is_guest: self.is_guest && !stays, ..self }
    }

    /// Whether these nodes are not for it: their site is not, or it has no need of their GPUs.
    pub(crate) fn is_kept_from(&self, class: &Class) -> bool {
        let Some(site) = &class.key.site else {
            return self.kept_from.iter().any(|it| SiteKind::of(it) == SiteKind::ThisMachine);
        };
        let is_let_in = class.key.guests.is_some();
        self.kept_from.contains(site) || self.is_guest && class.key.gpus() > 0 && !is_let_in
    }

    /// Whether it is a guest on these nodes.
    pub(crate) fn is_guest_at(&self, class: &Class) -> bool {
        self.is_guest && class.key.guests.is_some()
    }
}
