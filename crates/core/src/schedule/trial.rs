//! The nodes while a plan is made: changed as tasks are put on them, and put back at its end. What
//! was found becomes true when the plan is applied, and not before.
#![expect(
    clippy::indexing_slicing,
    reason = "places that this module gives out itself, asked for very often"
)]

use super::guests::Wanted;
use super::index::free::{Device, Free};
use super::index::nodes::{ClassAt, Devices, NodeAt, NodeTable};
use super::needs::{Groups, Need};
use super::order::Turn;
use super::{Plan, position};
use crate::event::Placement;
use crate::guard::strike;
use crate::job::Job;
use crate::pilot::Pilot;
use crate::ranks::Kind;
use crate::state::State;
use shipway_model::{
    Amounts, Attempt, Counts, DeviceId, GpuShare, JobId, Ordinal, Resources, TaskId, TaskIndex,
    Timestamp,
};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

pub(super) struct Trial<'a> {
    state: &'a State,
    table: &'a mut NodeTable,
    pub(super) now: Timestamp,
    wanted: &'a Wanted,
    /// Named things, where this pass has given some out.
    named: BTreeMap<NodeAt, Counts>,
    paper: Paper,
}

/// What is written down while a plan is made. Kept for the next, so that memory need not be asked
/// for again.
#[derive(Debug, Clone, Default)]
pub(super) struct Paper {
    put: Vec<Put>,
    /// The devices given out, one task after the other: their places on their nodes.
    taken: Vec<usize>,
    /// What was put, by node.
    order: Vec<(NodeAt, u32)>,
    /// By class, the nodes that came into another bucket, where a search may have gone by already.
    moved: Vec<Vec<NodeAt>>,
}

impl Paper {
    /// No search has come anywhere.
    pub(super) fn start_over(&mut self) {
        self.moved.iter_mut().for_each(Vec::clear);
    }
}

pub(super) struct Mark {
    put: usize,
    taken: usize,
}

/// One task on its node.
#[derive(Debug, Clone)]
struct Put {
    at: NodeAt,
    task: Ordinal,
    job: JobId,
    kind: Kind,
    /// Of each device.
    share: u32,
    /// Which of those taken are its own.
    devices: Range<u32>,
    /// What was free before.
    before: Amounts,
}

impl<'a> Trial<'a> {
    pub(super) fn new(
        state: &'a State,
        table: &'a mut NodeTable,
        mut paper: Paper,
        (now, wanted): (Timestamp, &'a Wanted),
    ) -> Self {
        paper.moved.resize(table.class_count(), Vec::new());
        paper.put.clear();
        paper.taken.clear();
        Trial { state, table, now, wanted, named: BTreeMap::new(), paper }
    }

    /// How many tasks were put on nodes.
    pub(super) fn len(&self) -> usize {
        self.paper.put.len()
    }
    /// Whether somebody waits for the GPUs of nodes that let guests in.
    pub(super) fn is_wanted(&self, class: ClassAt) -> bool {
        self.wanted.contains(&class)
    }
    pub(super) fn table(&self) -> &NodeTable {
        self.table
    }
    pub(super) fn table_mut(&mut self) -> &mut NodeTable {
        self.table
    }
    pub(super) fn job(&self, id: JobId) -> Option<&'a Job> {
        self.state.job(id)
    }

    pub(super) fn pilot(&self, at: NodeAt) -> Option<&'a Pilot> {
        self.state.pilots().get(self.table.pilot(at)?)
    }

    /// Whether what a site counts itself is there for one more.
    pub(super) fn has_named(&self, need: &Resources, at: NodeAt) -> bool {
        let Some(pilot) = self.pilot(at) else { return false };
        let used = self.named.get(&at).unwrap_or(&pilot.load.used);
        used.lacks_named(&pilot.ad.capacity.named, &need.named).is_none()
    }

    /// Puts one task there.
    pub(super) fn put(&mut self, turn: &Turn, need: &Need, at: NodeAt) {
        if let Some(pilot) = self.pilot(at).filter(|_| need.named) {
            let resources = &self.state.shapes().get(turn.shape).resources;
            strike("panics_in_put", resources);
            let used = self.named.entry(at).or_insert_with(|| pilot.load.used.clone());
            used.add_named(&resources.named);
        }
        let groups = if need.gpus == 0 { 0 } else { self.groups_at(need, at).unwrap_or(0) };
        let free = self.table.free(at);
        let Paper { put, taken, moved, .. } = &mut self.paper;
        let (class, first) = (free.class, taken.len());
        let before = free.amounts;
        if need.gpus == 0 {
            self.table.change(at, |free| free.take(need));
        } else {
            let is_moved = self.table.change_devices(at, |free, devices| {
                free.take(need);
                choose(need, groups, devices, taken);
                for device in &taken[first..] {
                    devices.each[*device].used += need.share;
                }
            });
            if is_moved {
                moved[class.at()].push(at);
            }
        }
        let devices = position(first)..position(taken.len());
        let Turn { id: job, kind, task, .. } = *turn;
        put.push(Put { at, task, job, kind, share: need.share, devices, before });
    }

    pub(super) fn has_put_on(&self, at: NodeAt) -> bool {
        self.paper.put.iter().any(|put| put.at == at)
    }

    /// How far it has come, to go back to; see `undo`.
    pub(super) fn mark(&self) -> Mark {
        Mark { put: self.paper.put.len(), taken: self.paper.taken.len() }
    }

    /// Takes back what was put on nodes since then. No search may have been made meanwhile but
    /// those that remember nothing (`find_anew`).
    pub(super) fn undo(&mut self, mark: &Mark) {
        while self.paper.put.len() > mark.put
            && let Some(put) = self.paper.put.pop()
        {
            let class = self.table.free(put.at).class;
            let is_moved = put_back(self.table, put.at, [&put].into_iter(), &self.paper.taken);
            let moved = &mut self.paper.moved[class.at()];
            if is_moved && moved.last() == Some(&put.at) {
                moved.pop();
            }
            let shape = self.job(put.job).map(|job| self.state.shapes().get(job.shape));
            if let Some((shape, used)) = shape.zip(self.named.get_mut(&put.at)) {
                used.take_named(&shape.resources.named);
            }
        }
        self.paper.taken.truncate(mark.taken);
    }

    /// The nodes of a class that came into another bucket, beginning with this one of them.
    pub(super) fn moved(&self, class: ClassAt, from: usize) -> &[NodeAt] {
        &self.paper.moved[class.at()][from..]
    }

    /// The placements of each node together, in the order they were made. All nodes are as they
    /// were before.
    #[expect(clippy::expect_used, reason = "a task is put only on nodes, and each has its pilot")]
    pub(super) fn end(mut self) -> (Plan, Paper) {
        let Trial { state, table, paper, .. } = &mut self;
        let Paper { put, taken, order, .. } = paper;
        order.clear();
        order.extend(put.iter().map(|put| put.at).zip(0..));
        order.sort_unstable_by_key(|(at, nth)| u64::from(at.0) << 32 | u64::from(*nth));
        let of_nodes = || order.chunk_by(|(a, _), (b, _)| a == b);
        for of_node in of_nodes() {
            let put = of_node.iter().map(|(_, nth)| &put[*nth as usize]);
            put_back(table, of_node[0].0, put, taken);
        }
        let pilot = |at| table.pilot(at).expect("a node in the table is a pilot's");
        let ids = |put: &Put| {
            let ids = table.devices(put.at).filter(|_| !put.devices.is_empty());
            let ids = ids.map_or(&[][..], |devices| &devices.ids);
            put.devices(taken).iter().map(|device| &ids[*device])
        };
        prefetch(of_nodes().map(|of_node| pilot(of_node[0].0).as_str()));
        prefetch(put.iter().flat_map(ids).map(DeviceId::as_str));
        let placements = order.iter().map(|(_, nth)| {
            let put = &put[*nth as usize];
            let (task, attempt) = put.task(state);
            Placement { task, attempt, devices: ids(put).cloned().collect() }
        });
        let pilots = of_nodes().map(|of_node| (pilot(of_node[0].0).clone(), of_node.len()));
        let (placements, pilots) = (placements.collect(), pilots.collect());
        let plan = Plan { placements, pilots, ..Plan::default() };
        (plan, self.paper)
    }
}

/// A copy of a name is counted where the name is, and the processor waits for each. Looked at one
/// after the other before, memory brings many of them at once.
fn prefetch<'b>(names: impl Iterator<Item = &'b str>) {
    let first = |name: &str| name.as_bytes().first().copied().unwrap_or(0);
    std::hint::black_box(names.fold(0, |all, name| all ^ first(name)));
}

impl Put {
    fn task(&self, state: &State) -> (TaskId, Attempt) {
        let look = || {
            let job = state.job(self.job)?;
            let index = job.indices.index(self.task)?;
            Some((self.job.task(index), job.tasks.next_attempt(self.task)))
        };
        let fresh = (self.job.task(TaskIndex(0)), Attempt::FIRST);
        if self.kind != Kind::Fresh {
            // What is not there is left out where the plan is checked.
            return look().unwrap_or(fresh);
        }
        debug_assert_eq!(Some(fresh), look());
        fresh
    }

    fn devices<'b>(&self, taken: &'b [usize]) -> &'b [usize] {
        &taken[self.devices.start as usize..self.devices.end as usize]
    }
}

/// Whole devices as they come; for a part, the fullest that still fits.
fn choose(need: &Need, groups: Groups, devices: &Devices, taken: &mut Vec<usize>) {
    let (first, count) = (taken.len(), need.gpus as usize);
    let fits = |device: &Device| {
        groups >> device.kind & 1 == 1 && device.used + need.share <= GpuShare::WHOLE.0
    };
    let fitting = (0..devices.each.len()).filter(|device| fits(&devices.each[*device]));
    if need.is_whole() {
        taken.extend(fitting.take(count));
    } else {
        taken.extend(fitting);
        taken[first..].sort_by_key(|device| Reverse(devices.each[*device].used));
        taken.truncate(first + count);
    }
}

/// Makes one node what it was before any of these tasks. Whether it came into another bucket.
fn put_back<'b>(
    table: &mut NodeTable,
    at: NodeAt,
    put: impl ExactSizeIterator<Item = &'b Put> + Clone,
    taken: &[usize],
) -> bool {
    let count = position(put.len());
    let Some(before) = put.clone().next().map(|first| first.before) else { return false };
    let amounts = |free: &mut Free| {
        free.amounts = before;
        free.unstarted -= count;
    };
    if put.clone().all(|put| put.devices.is_empty()) {
        table.change(at, amounts);
        return false;
    }
    table.change_devices(at, |free, devices| {
        amounts(free);
        for put in put {
            for device in put.devices(taken) {
                devices.each[*device].used -= put.share;
            }
        }
    })
}
