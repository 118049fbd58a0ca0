//! `requirements` and `rank` of a job, ClassAd expressions: whether they can be read, and what they
//! make of a class of nodes.
//!
//! - `ads.rs`     nodes and jobs as ads
//! - `failed.rs`  which term does not hold, and what it found
//! - `rank.rs`    ranks that would say nothing of any node

mod ads;
mod failed;
mod rank;

pub(crate) use ads::{class_ads, said};
pub use rank::{RankSteps, pointless_rank};

use crate::pilot::Pilot;
use crate::schedule::needs::{Groups, MAX_GROUPS, bit};
use crate::shape::Shape;
use shipway_classad::{Ad, Context, Expr, Sides, parse_expression, prepare, references};
use shipway_model::JobSpec;
use shipway_model::reason::FailedTerm;
use shipway_model::validate::{Problem, validate_with};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Every problem at once, each naming its field; that of an expression names the place in it too.
pub fn validate(spec: &JobSpec) -> Result<(), Vec<Problem>> {
    validate_with(spec, shipway_classad::requirements_complaint, rank::complaint)
}

/// The expressions of one shape, read once.
#[derive(Debug)]
pub(crate) struct Choice {
    requirements: Option<Expr>,
    rank: Option<Expr>,
    /// What `MY` is.
    job: Arc<Ad>,
    /// They look at what differs between nodes that are alike otherwise, such as their names.
    pub(crate) is_per_node: bool,
    /// What was found for nodes, by their number in the table and the time they came.
    verdicts: Mutex<BTreeMap<(u32, u64), Groups>>,
    /// Steps that reading and asking them has taken: what a pass of the scheduler counts.
    steps: AtomicU64,
}

/// Steps that one evaluation for a node may take: a few milliseconds at worst. Those that people
/// write take a few hundred; a long list of machines, ten thousand.
const MAX_MATCH_STEPS: u64 = 50_000;

/// Bytes of an expression that are read in about the time of one step.
const READ_PER_STEP: usize = 2;

/// Verdicts that are kept; then they are found again, a microsecond each.
const MAX_VERDICTS: usize = 100_000;

/// Two are the same if they say the same; what was found is only remembered work.
impl PartialEq for Choice {
    fn eq(&self, other: &Choice) -> bool {
        let text = |expr: &Option<Expr>| expr.as_ref().map(shipway_classad::unparse);
        text(&self.requirements) == text(&other.requirements)
            && text(&self.rank) == text(&other.rank)
    }
}

impl Choice {
    /// `None` for a shape that has neither.
    pub(crate) fn of(shape: &Shape) -> Option<Choice> {
        if shape.expressions.are_none() {
            return None;
        }
        // What cannot be read was never submitted; nothing meets it.
        let mut steps = 0_u64;
        let mut read = |text: &String| {
            let expr = parse_expression(text).unwrap_or_else(|_| Expr::literal(false));
            let reading = u64::try_from(text.len() / READ_PER_STEP).unwrap_or(u64::MAX);
            steps = steps.saturating_add(reading).saturating_add(prepare(&expr));
            expr
        };
        let requirements = shape.expressions.requirements.as_ref().map(&mut read);
        let rank = shape.expressions.rank.as_ref().map(read);
        let is_per_node = requirements.as_ref().is_some_and(looks_at_nodes);
        Some(Choice {
            requirements,
            rank,
            job: Arc::new(ads::job_ad(shape)),
            is_per_node,
            verdicts: Mutex::default(),
            steps: AtomicU64::new(steps),
        })
    }

    /// Steps that they have taken so far.
    pub(crate) fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Whether the requirements hold for this ad of a node. The one place where that is asked;
    /// `failed` says which terms are in the way where it is not so.
    fn holds(&self, node: &Arc<Ad>) -> bool {
        let Some(requirements) = &self.requirements else { return true };
        #[cfg(test)]
        counted::ASKED.with(|asked| asked.set(asked.get() + 1));
        let sides = Sides::new(Arc::clone(&self.job), Arc::clone(node));
        let context = Context::default();
        let (holds, steps) =
            shipway_classad::holds(requirements, &sides, &context, MAX_MATCH_STEPS);
        self.steps.fetch_add(steps, Ordering::Relaxed);
        holds
    }

    /// For which of a node's kinds of devices they hold, a bit each; without devices the first bit
    /// stands for the node.
    fn kinds<'a>(&self, ads: impl Iterator<Item = &'a Arc<Ad>>) -> Groups {
        let holding = ads.take(MAX_GROUPS).enumerate().filter(|(_, ad)| self.holds(ad));
        holding.fold(0, |bits, (at, _)| bits | bit(at))
    }

    /// The same for all nodes of a class. All kinds where each node has to be asked.
    pub(crate) fn kinds_of_class(&self, ads: &[Arc<Ad>]) -> Groups {
        if self.is_per_node { Groups::MAX } else { self.kinds(ads.iter()) }
    }

    /// The same for one node, which came at this time; asked only where nodes are told apart.
    pub(crate) fn kinds_of_node(
        &self,
        (at, came): (u32, u64),
        pilot: &Pilot,
        ads: &[Arc<Ad>],
    ) -> Groups {
        let lock = || self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&(at, came)) {
            return *known;
        }
        let found = self.kinds(ads_of_node(pilot, ads).iter());
        let mut verdicts = lock();
        if verdicts.len() >= MAX_VERDICTS {
            verdicts.clear();
        }
        verdicts.insert((at, came), found);
        found
    }

    /// How much this class is liked, in thousandths; the most that any of its kinds gives.
    pub(crate) fn rank(&self, ads: &[Arc<Ad>]) -> i64 {
        let Some(rank) = &self.rank else { return 0 };
        let ranks = ads.iter().map(|ad| {
            let sides = Sides::new(Arc::clone(&self.job), Arc::clone(ad));
            let context = Context::default();
            let (rank, steps) =
                shipway_classad::rank_in_thousandths(rank, &sides, &context, MAX_MATCH_STEPS);
            self.steps.fetch_add(steps, Ordering::Relaxed);
            rank
        });
        ranks.max().unwrap_or(0)
    }
}

/// Whether a class of nodes has found that containers fail there.
pub(crate) fn containers_fail(ads: &[Arc<Ad>]) -> bool {
    let Ok(work) = parse_expression(FailedTerm::CONTAINERS_WORK) else { return false };
    let fail = |ad: &Arc<Ad>| {
        let sides = Sides::new(Arc::default(), Arc::clone(ad));
        !shipway_classad::holds(&work, &sides, &Context::default(), MAX_MATCH_STEPS).0
    };
    ads.iter().any(fail)
}

/// The ads of a class, with what is this node's own.
pub(crate) fn ads_of_node(pilot: &Pilot, ads: &[Arc<Ad>]) -> Vec<Arc<Ad>> {
    ads.iter().map(|ad| Arc::new(ads::node_ad(ad, pilot))).collect()
}

/// Whether an expression names an attribute that each node has its own of.
fn looks_at_nodes(expr: &Expr) -> bool {
    let mut found = false;
    references(expr, &mut |reference| {
        let is_own = ads::PER_NODE.iter().any(|name| reference.name().is(name));
        found |= is_own && reference.is_target() != Some(false);
    });
    found
}

/// What tests count, each on its own thread.
#[cfg(test)]
pub(crate) mod counted {
    use std::cell::Cell;

    thread_local! {
        /// How often a node was asked whether requirements hold for it.
        pub(crate) static ASKED: Cell<u64> = const { Cell::new(0) };
        /// Steps that looking for pointless ranks took.
        pub(crate) static STEPS: Cell<u64> = const { Cell::new(0) };
    }
}
