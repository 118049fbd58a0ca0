//! Who goes first: the user's own jobs and other users. Jobs that no connected node could ever run
//! hold nobody up, and are not counted.

use crate::guard::guarded;
use crate::job::Job;
use crate::ranks::Rank;
use crate::ready::{UserQueue, rank};
use crate::schedule::needs::Need;
use crate::shape::ShapeId;
use crate::state::State;
use shipway_model::{JobId, Reason, Timestamp, UserName};
use std::collections::BTreeMap;

/// Users who are counted as served first; beyond it "many" is all there is to say.
const MAX_USERS_COUNTED: usize = 10_000;
/// Shapes of one user that are looked at closely; those beyond it are taken for possible ones.
const MAX_SHAPES_LOOKED_AT: usize = 1_000;
/// Jobs before one of which tasks are counted, for its estimate; with more there is none.
const MAX_JOBS_COUNTED: usize = 20_000;

pub(super) fn reasons(state: &State, id: JobId, job: &Job, now: Timestamp) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let own = own_before(state, &job.owner, Some(rank(id, job)));
    if own > 0 {
        reasons.push(Reason::Behind { jobs: own });
    }
    let users = users_before(state, &job.owner, now);
    if users > 0 {
        reasons.push(Reason::OthersFirst { users });
    }
    reasons
}

/// The user's own jobs before this rank; all of them for a job that is not submitted.
pub(super) fn own_before(state: &State, user: &UserName, rank: Option<Rank>) -> u32 {
    let Some(queue) = state.ready().user(user) else { return 0 };
    let before = queue
        .shapes()
        .map(|(shape, ranks)| (shape, rank.map_or_else(|| ranks.len(), |rank| ranks.before(rank))));
    let before = before.filter(|(_, jobs)| *jobs > 0).enumerate();
    let counted =
        before.filter(|(at, (shape, _))| *at >= MAX_SHAPES_LOOKED_AT || is_possible(state, *shape));
    u32::try_from(counted.map(|(_, (_, jobs))| jobs).sum::<usize>()).unwrap_or(u32::MAX)
}

/// Users who have used less for their share and have something that could run.
pub(super) fn users_before(state: &State, user: &UserName, now: Timestamp) -> u32 {
    let fair = state.fair_share();
    let mine = fair.standing(user, now);
    let others = state.ready().users().iter().filter(|(other, _)| *other != user);
    let before = others.take(MAX_USERS_COUNTED).filter(|(other, queue)| {
        fair.standing(other, now).order(mine) == std::cmp::Ordering::Less
            && wants_something_possible(state, queue)
    });
    u32::try_from(before.count()).unwrap_or(u32::MAX)
}

/// What stands before a job: of each shape, how many jobs and how many of their tasks wait.
/// `None`: too much to count.
pub(super) fn before(
    state: &State,
    user: &UserName,
    rank: Option<Rank>,
    now: Timestamp,
) -> Option<BTreeMap<ShapeId, (u32, u64)>> {
    let (mut found, mut left) = (BTreeMap::new(), MAX_JOBS_COUNTED);
    if let Some(queue) = state.ready().user(user) {
        count_tasks(state, queue, rank, &mut left, &mut found)?;
    }
    let fair = state.fair_share();
    let mine = fair.standing(user, now);
    for (other, queue) in state.ready().users() {
        let is_before = fair.standing(other, now).order(mine) == std::cmp::Ordering::Less;
        if other != user && is_before {
            count_tasks(state, queue, None, &mut left, &mut found)?;
        }
    }
    found.retain(|shape, _| is_possible(state, *shape));
    Some(found)
}

/// Of one user all that stands before this rank, or everything.
fn count_tasks(
    state: &State,
    queue: &UserQueue,
    rank: Option<Rank>,
    left: &mut usize,
    found: &mut BTreeMap<ShapeId, (u32, u64)>,
) -> Option<()> {
    for (shape, ranks) in queue.shapes() {
        let before = ranks.following().take_while(|other| rank.is_none_or(|rank| **other < rank));
        for other in before {
            *left = left.checked_sub(1)?;
            let waiting = state.job(other.job()).map_or(0, |job| job.tasks.counts().waiting);
            let counted: &mut (u32, u64) = found.entry(shape).or_default();
            counted.0 = counted.0.saturating_add(1);
            counted.1 = counted.1.saturating_add(u64::from(waiting));
        }
    }
    Some(())
}

fn wants_something_possible(state: &State, queue: &UserQueue) -> bool {
    let mut shapes = queue.shapes().map(|(shape, _)| shape).enumerate();
    shapes.any(|(at, shape)| at >= MAX_SHAPES_LOOKED_AT || is_possible(state, shape))
}

/// Whether a connected node could run it when empty. Without any node nothing is ruled out.
fn is_possible(state: &State, shape: ShapeId) -> bool {
    let nodes = &state.planner().nodes;
    if nodes.is_empty() {
        return true;
    }
    if state.planner().is_set_aside(shape) {
        return false;
    }
    let could = |need: &Need| nodes.classes().any(|(class, _)| need.could_use(class));
    match state.planner().known_need(shape) {
        Some(need) => could(need),
        // Another's job, and another's mistake.
        None => guarded(|| could(&Need::of(state.shapes().get(shape), nodes))).unwrap_or(false),
    }
}
