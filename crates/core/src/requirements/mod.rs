//! `requirements` and `rank` of a job, ClassAd expressions: whether they can be read, and what they
//! make of a class of nodes.
//!
//! - `ads.rs`     nodes and jobs as ads
//! - `failed.rs`  which term does not hold, and what it found
//! - `rank.rs`    ranks that would say nothing of any node

mod ads;
mod failed;
mod rank;

pub(crate) use ads::{class_ads, node_ad};
pub use rank::pointless_rank;

use crate::shape::Shape;
use shipway_classad::{Ad, Context, Expr, Sides, evaluate, is_true, parse_expression, references};
use shipway_model::validate::{Problem, validate_with};
use shipway_model::{JobSpec, NodeAd};
use std::collections::BTreeMap;
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
    verdicts: Mutex<BTreeMap<(u32, u64), bool>>,
}

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
        let read = |text: &String| parse_expression(text).unwrap_or_else(|_| Expr::literal(false));
        let requirements = shape.expressions.requirements.as_ref().map(read);
        let is_per_node = requirements.as_ref().is_some_and(looks_at_nodes);
        Some(Choice {
            requirements,
            rank: shape.expressions.rank.as_ref().map(read),
            job: Arc::new(ads::job_ad(shape)),
            is_per_node,
            verdicts: Mutex::default(),
        })
    }

    /// Whether the requirements hold for this ad of a node.
    pub(crate) fn holds(&self, node: &Arc<Ad>) -> bool {
        let Some(requirements) = &self.requirements else { return true };
        let sides = Sides::new(Arc::clone(&self.job), Arc::clone(node));
        is_true(&evaluate(requirements, &sides, &Context::default()).value)
    }

    /// Which of a class's kinds of devices may be used, a bit each; without devices the first bit
    /// stands for the node. All of them where each node has to be asked.
    pub(crate) fn kinds(&self, ads: &[Arc<Ad>]) -> u64 {
        let holding = ads.iter().enumerate().take(u64::BITS as usize);
        let holding = holding.filter(|(_, ad)| self.is_per_node || self.holds(ad));
        holding.fold(0, |bits, (at, _)| bits | 1 << at)
    }

    /// Whether one node will do, which came at this time; asked only where nodes are told apart.
    /// Where it has several kinds of devices, for all that would be used.
    pub(crate) fn suits(
        &self,
        (at, came): (u32, u64),
        node: &NodeAd,
        ads: &[Arc<Ad>],
        kinds: u64,
    ) -> bool {
        let lock = || self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&(at, came)) {
            return *known;
        }
        let of_kind = |(_, ad): (usize, &Arc<Ad>)| self.holds(&Arc::new(node_ad(ad, node)));
        let mut ads = ads.iter().enumerate();
        let found = if kinds == 0 {
            ads.any(of_kind)
        } else {
            ads.filter(|(at, _)| kinds >> at & 1 == 1).all(of_kind)
        };
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
            shipway_classad::rank_in_thousandths(rank, &sides, &Context::default())
        });
        ranks.max().unwrap_or(0)
    }
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
