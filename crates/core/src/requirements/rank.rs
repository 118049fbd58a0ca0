//! Ranks that would say nothing of any node: they are refused, because a job that starts somewhere
//! never shows that its rank was not understood.

use super::ads::{PER_NODE, job_ad};
use super::{MAX_MATCH_STEPS, READ_PER_STEP};
use crate::shape::Shape;
use crate::state::State;
use shipway_classad::{
    Ad, Context, Expr, Sides, Value, evaluate_within, may_be_rank, nearest_within,
    parse_expression, readable_value, references,
};
use shipway_model::validate::Problem;
use std::sync::Arc;

/// Classes of nodes that are asked. Most ranks are a number for the first of them.
const MAX_ASKED: usize = 1_000;
/// Steps for all of them together, tens of milliseconds.
const MAX_STEPS_ASKED: u64 = 5 * MAX_MATCH_STEPS;

/// What looking for pointless ranks may still take, for all jobs of a request. Whoever asks waits,
/// and so does everybody else: what is left when it is used up is not looked at, and nothing is
/// held against it.
#[derive(Debug)]
pub struct RankSteps(u64);

impl Default for RankSteps {
    fn default() -> Self {
        RankSteps(MAX_STEPS_ASKED)
    }
}

impl RankSteps {
    /// `None` when there are not so many left.
    fn spend(&mut self, steps: u64) -> Option<()> {
        let left = self.0.checked_sub(steps);
        self.0 = left.unwrap_or(0);
        left.map(drop)
    }
}

/// What the text alone shows.
pub(super) fn complaint(text: &str) -> Option<String> {
    shipway_classad::rank_complaint(text).or_else(|| {
        let expr = parse_expression(text).ok()?;
        let mut own = None;
        references(&expr, &mut |reference| {
            let name = PER_NODE.iter().find(|name| reference.name().is(name));
            own = own.or(name.filter(|_| reference.is_target() != Some(false)));
        });
        own.map(|name| {
            format!(
                "it cannot look at {name}: it ranks kinds of nodes, and nodes of a kind differ in \
                 that"
            )
        })
    })
}

/// What the nodes that are there show: it is no number for any of them, or a name in it is not
/// known to any and looks like a slip. Where it is a number for one, or no node is there, nothing.
pub fn pointless_rank(shape: &Shape, state: &State, steps: &mut RankSteps) -> Option<Problem> {
    let nodes = &state.planner().nodes;
    let text = shape.expressions.rank.as_ref()?;
    steps.spend(u64::try_from(text.len() / READ_PER_STEP).unwrap_or(u64::MAX))?;
    let expr = parse_expression(text).ok()?;
    let job = Arc::new(job_ad(shape));
    let mut odd = None;
    let ads = || nodes.classes().flat_map(|(_, class)| &class.ads).take(MAX_ASKED);
    for ad in ads() {
        let sides = Sides::new(Arc::clone(&job), Arc::clone(ad));
        let found = evaluate_within(&expr, &sides, &Context::default(), MAX_MATCH_STEPS);
        #[cfg(test)]
        super::counted::STEPS.with(|all| all.set(all.get() + found.steps));
        steps.spend(found.steps)?;
        let value = found.value;
        if !may_be_rank(&value) {
            odd = odd.or(Some(value));
        } else if !value.is_undefined() {
            return None;
        }
    }
    let what = match odd {
        Some(Value::Error) => Some("it is an error for every node".to_owned()),
        Some(odd) => Some(format!("it is {} for a node, and no number", readable_value(&odd))),
        None => slip(&expr, &job, ads),
    };
    what.map(|what| Problem { field: "rank", what })
}

/// Letters that may be wrong in a slip: other names may be of nodes that come later.
const FARTHEST: usize = 2;

/// A name that neither the job nor any node has, with the one that is meant. Names with numbers are
/// left alone: `HasAVX512` is not a slip for `HasAVX2`.
fn slip<'a, A: Iterator<Item = &'a Arc<Ad>>>(
    expr: &Expr,
    job: &Ad,
    ads: impl Fn() -> A,
) -> Option<String> {
    let mut found = None;
    references(expr, &mut |reference| {
        let name = reference.name();
        let is_place = ["my", "target"].iter().any(|place| name.is(place));
        let is_numbered = name.as_bytes().iter().any(u8::is_ascii_digit);
        let is_known = is_place || is_numbered || job.get(name).is_some();
        if found.is_some() || is_known || ads().any(|ad| ad.get(name).is_some()) {
            return;
        }
        let known = ads().flat_map(|ad| ad.iter().map(|(name, _)| name.to_text()));
        let name = name.to_text();
        found = nearest_within(&name, known, FARTHEST).map(|nearest| {
            format!(
                "no node has {name} (did you mean {nearest}?); for nodes that may come, write \
                 ({name} ?: 0)"
            )
        });
    });
    found
}
