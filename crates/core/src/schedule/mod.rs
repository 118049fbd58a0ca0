//! The scheduler: shapes × node classes → a plan. It proposes; `ApplyPlan` re-checks and applies.
//!
//! The best job of any shape is served first. A shape that fits nowhere is set aside for the rest
//! of the pass, with all its jobs: that is what makes a pass cost shapes × classes and not jobs ×
//! nodes. Which node of a class: the first with room, so that others stay empty for large tasks.

pub mod backlog;
pub mod classes;
mod fit;

use crate::event::Placement;
use crate::ready::Rank;
use crate::shape::ShapeId;
use crate::state::State;
use fit::Nodes;
use shipway_model::PilotId;
use std::collections::{BTreeMap, BTreeSet};

/// Placements in one plan: one commit's worth; the next pass follows at once.
pub const MAX_PLAN: usize = 4_096;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    pub placements: BTreeMap<PilotId, Vec<Placement>>,
    /// The plan was full: there is more to place right now.
    pub more: bool,
}

impl Plan {
    pub fn len(&self) -> usize {
        self.placements.values().map(Vec::len).sum()
    }
    pub fn is_empty(&self) -> bool {
        self.placements.is_empty()
    }
}

pub fn schedule(state: &State) -> Plan {
    let mut plan = Plan::default();
    if state.ready().is_empty() {
        return plan;
    }
    let mut nodes = Nodes::new(state);
    let first = |(shape, queue): (ShapeId, &BTreeSet<Rank>)| queue.first().map(|r| (*r, shape));
    let mut heads: BTreeSet<(Rank, ShapeId)> = state.ready().shapes().filter_map(first).collect();
    let mut placed = 0;
    while let Some((rank, shape)) = heads.pop_first() {
        let room = MAX_PLAN - placed;
        let (count, blocked) = place_job(state, &mut nodes, &mut plan, rank, room);
        placed += count;
        if placed == MAX_PLAN {
            plan.more = true;
            break;
        }
        if !blocked {
            heads.extend(next_job(state, shape, rank).map(|rank| (rank, shape)));
        }
    }
    plan
}

fn next_job(state: &State, shape: ShapeId, after: Rank) -> Option<Rank> {
    let (_, queue) = state.ready().shapes().find(|(id, _)| *id == shape)?;
    let bounds = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
    queue.range(bounds).next().copied()
}

/// Places what it can of one job. Returns how many, and whether its shape fits nowhere any more.
fn place_job(
    state: &State,
    nodes: &mut Nodes<'_>,
    plan: &mut Plan,
    (_, id): Rank,
    room: usize,
) -> (usize, bool) {
    let Some(job) = state.job(id) else { return (0, false) };
    let need = &state.shapes().get(job.shape).resources;
    let mut placed = 0;
    let most = room.min(job.room() as usize);
    for position in job.tasks.placeable().take(most) {
        let Some((pilot, devices)) = nodes.take(job, need) else { return (placed, true) };
        let index = job.indices.index(position).expect("a task in its table has an index");
        let attempt = job.tasks.next_attempt(position);
        let placement = Placement { task: id.task(index), attempt, devices };
        plan.placements.entry(pilot).or_default().push(placement);
        placed += 1;
    }
    (placed, false)
}
