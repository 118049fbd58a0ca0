//! `requirements` and `rank` of a job, ClassAd expressions: whether they can be read, and what they
//! make of a class of nodes.
//!
//! - `ads.rs`     nodes and jobs as ads
//! - `failed.rs`  which term does not hold, and what it found
//! - `rank.rs`    ranks that would say nothing of any node
//! - `steps.rs`   how many steps they take, and may take

mod ads;
mod failed;
mod rank;
mod steps;

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
use std::sync::{Arc, Mutex, PoisonError};
use steps::Steps;

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
    steps: Steps,
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
            steps: Steps::new(steps),
        })
    }

    /// Steps that they have taken so far.
    pub(crate) fn steps(&self) -> u64 {
        self.steps.taken()
    }

    /// Whether the requirements hold for this ad of a node, and in how many steps that was found
    /// out. The one place where that is asked; `failed` says which terms are in the way where it is
    /// not so.
    fn holds(&self, node: &Arc<Ad>, most: u64) -> (bool, u64) {
        let Some(requirements) = &self.requirements else { return (true, 0) };
        #[cfg(test)]
        counted::ASKED.with(|asked| asked.set(asked.get() + 1));
        let sides = Sides::new(Arc::clone(&self.job), Arc::clone(node));
        let most = most.min(MAX_MATCH_STEPS);
        shipway_classad::holds(requirements, &sides, &Context::default(), most)
    }

    /// For which of a node's kinds of devices they hold, a bit each, and in how many steps; without
    /// devices the first bit stands for the node. What there are no steps left for does not hold.
    fn kinds<'a>(&self, ads: impl Iterator<Item = &'a Arc<Ad>>, most: u64) -> (Groups, u64) {
        let (mut found, mut taken) = (0, 0_u64);
        for (at, ad) in ads.take(MAX_GROUPS).enumerate() {
            if taken >= most {
                break;
            }
            let (holds, steps) = self.holds(ad, most - taken);
            taken = taken.saturating_add(steps);
            found |= if holds { bit(at) } else { 0 };
        }
        (found, taken)
    }

    /// The same for all nodes of a class. All kinds where each node has to be asked.
    pub(crate) fn kinds_of_class(&self, ads: &[Arc<Ad>]) -> Groups {
        if self.is_per_node {
            return Groups::MAX;
        }
        self.steps.for_class(|most| self.kinds(ads.iter(), most))
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
        let (found, steps) = self.kinds(ads_of_node(pilot, ads).iter(), steps::OF_A_NODE);
        self.steps.add(steps);
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
        self.steps.for_class(|most| {
            let (mut best, mut taken) = (None, 0_u64);
            for ad in ads {
                if taken >= most {
                    break;
                }
                let sides = Sides::new(Arc::clone(&self.job), Arc::clone(ad));
                let most = (most - taken).min(MAX_MATCH_STEPS);
                let context = Context::default();
                let (liked, steps) =
                    shipway_classad::rank_in_thousandths(rank, &sides, &context, most);
                taken = taken.saturating_add(steps);
                best = best.max(Some(liked));
            }
            (best.unwrap_or(0), taken)
        })
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
