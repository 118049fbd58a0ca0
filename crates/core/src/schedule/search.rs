//! The node for one more task: the fullest that fits, in the least class that will do.

use super::needs::{Groups, Need};
use super::nodes::{Free, NodeAt, NodeTable};
use super::reserve::Reservation;
use super::{backlog, is_short};
use crate::event::Placement;
use crate::job::Job;
use crate::load::Load;
use crate::pilot::Pilot;
use crate::state::State;
use crate::usage::Standing;
use shipway_model::{DeviceId, GpuShare, JobId, PilotId, Resources, Timestamp};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Bound;

/// The nodes during one pass: changed as tasks are put on them, and put back at its end.
pub(super) struct Search<'a> {
    state: &'a State,
    table: &'a mut NodeTable,
    now: Timestamp,
    /// What each node had free before this pass changed it.
    before: BTreeMap<NodeAt, Free>,
    /// How much of each device is used, where this pass has given some out.
    devices: BTreeMap<NodeAt, Vec<u32>>,
    /// Named things, where this pass has given some out.
    loads: BTreeMap<NodeAt, Load>,
    /// Nodes that came into another bucket in this pass, where a search may have gone by already.
    moved: Vec<NodeAt>,
}

/// How far a shape's search has come in this pass. Room only shrinks, so a node that was too full
/// is not looked at again.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    class: usize,
    /// How far in the class: a member, or a bucket and the last node of it that was looked at.
    member: usize,
    bucket: usize,
    last: Option<NodeAt>,
    /// How many of the nodes that changed buckets were looked at.
    moved: usize,
    /// Pilots by how much waits there, for tasks that are sent ahead.
    backlogs: Option<BinaryHeap<Reverse<(u32, NodeAt)>>>,
}

/// Which nodes a search may find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    All,
    /// Only nodes that have more room since the last pass: the others are known to have none.
    Hot,
}

/// Who asks, and for what.
pub(super) struct Asking<'b> {
    pub(super) id: JobId,
    pub(super) job: &'b Job,
    pub(super) need: &'b Need,
    pub(super) resources: &'b Resources,
    pub(super) standing: Standing,
}

type Held<'b> = &'b [Reservation];

impl<'a> Search<'a> {
    pub(super) fn new(
        state: &'a State,
        table: &'a mut NodeTable,
        moved: Vec<NodeAt>,
        now: Timestamp,
    ) -> Self {
        let (before, devices, loads) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Search { state, table, now, before, devices, loads, moved }
    }

    pub(super) fn table(&self) -> &NodeTable {
        self.table
    }

    pub(super) fn pilot(&self, at: NodeAt) -> Option<&'a Pilot> {
        self.state.pilots().get(self.table.pilot(at)?)
    }

    pub(super) fn find(
        &self,
        asking: &Asking<'_>,
        scope: Scope,
        progress: &mut Progress,
        held: Held<'_>,
    ) -> Option<NodeAt> {
        let with_room = match scope {
            Scope::Hot => self.find_hot(asking, held),
            Scope::All if asking.need.gpus > 0 => self.find_by_devices(asking, progress, held),
            Scope::All => self.find_in_order(asking, progress, held),
        };
        with_room.or_else(|| self.find_backlog(asking, scope, progress, held))
    }

    /// Whether one more task fits on this node now.
    pub(super) fn fits(&self, asking: &Asking<'_>, at: NodeAt, held: Held<'_>) -> bool {
        let groups = self.table.class_of(at).and_then(|class| asking.need.groups(class));
        groups.is_some_and(|groups| self.has_room(asking, at, groups, held))
    }

    fn has_room(&self, asking: &Asking<'_>, at: NodeAt, groups: Groups, held: Held<'_>) -> bool {
        asking.need.fits(self.table.free(at), groups)
            && (!asking.need.named || self.has_named(asking, at))
            && self.is_let_by(asking, at, held)
    }

    fn has_named(&self, asking: &Asking<'_>, at: NodeAt) -> bool {
        let Some(pilot) = self.pilot(at) else { return false };
        let load = self.loads.get(&at).unwrap_or(&pilot.load);
        load.lacks_named(&pilot.ad, asking.resources).is_none()
    }

    fn is_let_by(&self, asking: &Asking<'_>, at: NodeAt, held: Held<'_>) -> bool {
        let held = held.iter().find(|held| held.node == at);
        held.is_none_or(|held| {
            let free = self.table.free(at);
            let lets_by =
                |pilot| held.lets_by(self.now, (asking.need, Some(asking.standing)), pilot, free);
            held.job == asking.id || self.pilot(at).is_some_and(lets_by)
        })
    }

    fn find_hot(&self, asking: &Asking<'_>, held: Held<'_>) -> Option<NodeAt> {
        let fitting = self.table.hot.iter().filter(|at| self.fits(asking, **at, held));
        fitting.min_by_key(|at| self.table.free(**at).whole).copied()
    }

    fn find_by_devices(
        &self,
        asking: &Asking<'_>,
        progress: &mut Progress,
        held: Held<'_>,
    ) -> Option<NodeAt> {
        while let Some(at) = self.moved.get(progress.moved) {
            if self.fits(asking, *at, held) {
                return Some(*at);
            }
            progress.moved += 1;
        }
        let whole = asking.need.share == GpuShare::WHOLE.0;
        // A part of a device may be found on a node without a whole one.
        let least = if whole { asking.need.gpus as usize } else { 0 };
        while let Some((class, groups)) = asking.need.classes.get(progress.class) {
            progress.bucket = progress.bucket.max(least);
            while let Some(bucket) = self.table.class(*class).by_whole.get(progress.bucket) {
                let from = progress.last.map_or(Bound::Unbounded, Bound::Included);
                for at in bucket.range((from, Bound::Unbounded)) {
                    progress.last = Some(*at);
                    if self.has_room(asking, *at, *groups, held) {
                        return Some(*at);
                    }
                }
                progress.last = None;
                progress.bucket += 1;
            }
            progress.class += 1;
            progress.bucket = 0;
        }
        None
    }

    fn find_in_order(
        &self,
        asking: &Asking<'_>,
        progress: &mut Progress,
        held: Held<'_>,
    ) -> Option<NodeAt> {
        while let Some((class, groups)) = asking.need.classes.get(progress.class) {
            let members = &self.table.class(*class).members;
            while let Some(at) = members.get(progress.member) {
                if self.has_room(asking, *at, *groups, held) {
                    return Some(*at);
                }
                progress.member += 1;
            }
            progress.class += 1;
            progress.member = 0;
        }
        None
    }

    /// The pilot with the shortest backlog that may still grow.
    fn find_backlog(
        &self,
        asking: &Asking<'_>,
        scope: Scope,
        progress: &mut Progress,
        held: Held<'_>,
    ) -> Option<NodeAt> {
        if !is_short(asking.job) || asking.need.gpus > 0 || asking.need.named {
            return None;
        }
        let backlogs = progress.backlogs.get_or_insert_with(|| self.backlogs(scope));
        while let Some(Reverse((counted, at))) = backlogs.pop() {
            let unstarted = self.table.free(at).unstarted;
            if counted != unstarted {
                backlogs.push(Reverse((unstarted, at)));
            } else if self.may_wait_at(asking, at, unstarted, held) {
                backlogs.push(Reverse((unstarted, at)));
                return Some(at);
            }
        }
        None
    }

    fn backlogs(&self, scope: Scope) -> BinaryHeap<Reverse<(u32, NodeAt)>> {
        let entry = |at: &NodeAt| Reverse((self.table.free(*at).unstarted, *at));
        if scope == Scope::Hot {
            return self.table.hot.iter().map(entry).collect();
        }
        self.table.classes().flat_map(|(_, class)| &class.members).map(entry).collect()
    }

    fn may_wait_at(&self, asking: &Asking<'_>, at: NodeAt, unstarted: u32, held: Held<'_>) -> bool {
        let allows = |pilot| backlog::allows(asking.job, pilot, asking.resources, unstarted);
        held.iter().all(|held| held.node != at) && self.pilot(at).is_some_and(allows)
    }

    /// Puts one task there; returns the devices it gets.
    pub(super) fn put(&mut self, asking: &Asking<'_>, at: NodeAt) -> Vec<DeviceId> {
        let free = self.table.free(at);
        self.before.entry(at).or_insert_with(|| free.clone());
        let (changed, need) = (self.table.free_mut(at), asking.need);
        changed.cpus = changed.cpus.saturating_sub(need.cpus);
        changed.memory = changed.memory.saturating_sub(need.memory);
        changed.disk = changed.disk.saturating_sub(need.disk);
        changed.unstarted += 1;
        if need.named {
            let pilot = self.pilot(at).expect("a node in the table is a pilot's");
            let load = self.loads.entry(at).or_insert_with(|| pilot.load.clone());
            load.add(&Resources { gpu: None, ..asking.resources.clone() }, &[]);
        }
        if need.gpus == 0 {
            return Vec::new();
        }
        self.take_devices(asking, at)
    }

    /// Whole devices as they come; for a part, the fullest that still fits.
    fn take_devices(&mut self, asking: &Asking<'_>, at: NodeAt) -> Vec<DeviceId> {
        let pilot = self.pilot(at).expect("a node in the table is a pilot's");
        let class = self.table.class_of(at).expect("a node that is listed");
        let groups = asking.need.groups(class).unwrap_or(0);
        let used = self.devices.entry(at).or_insert_with(|| {
            let used = |gpu: &shipway_model::GpuDevice| pilot.load.gpus.get(&gpu.id);
            pilot.ad.gpus.iter().map(|gpu| used(gpu).map_or(0, |share| share.0)).collect()
        });
        let mut taken = Vec::with_capacity(asking.need.gpus as usize);
        for _ in 0..asking.need.gpus {
            let fits = |(device, used): &(usize, &u32)| {
                let matches = groups >> self.table.group_of(at, *device) & 1 == 1;
                matches && **used + asking.need.share <= GpuShare::WHOLE.0
            };
            let free = used.iter().enumerate().filter(fits);
            let Some((device, _)) = free.max_by_key(|(device, used)| (**used, Reverse(*device)))
            else {
                break;
            };
            used[device] += asking.need.share;
            taken.push(pilot.ad.gpus[device].id.clone());
        }
        if self.table.count_devices(at, used) {
            self.moved.push(at);
        }
        taken
    }

    /// Nodes that could serve this need when empty; those with most devices free first.
    pub(super) fn candidates(&self, need: &Need, most: usize) -> Vec<NodeAt> {
        let mut found = Vec::new();
        for (class, _) in &need.classes {
            let class = self.table.class(*class);
            let by_devices = class.by_whole.iter().rev().flatten().copied();
            let plain = class.members.iter().copied().filter(|_| class.by_whole.is_empty());
            found.extend(by_devices.chain(plain).take(most));
        }
        found
    }

    /// The placements of each node together, in the order they were made.
    pub(super) fn by_pilot(
        &self,
        mut placed: Vec<(NodeAt, Placement)>,
    ) -> Vec<(PilotId, Vec<Placement>)> {
        placed.sort_by_key(|(at, _)| *at);
        let mut grouped: Vec<(PilotId, Vec<Placement>)> = Vec::new();
        let mut last = None;
        for (at, placement) in placed {
            if last != Some(at) {
                let pilot = self.table.pilot(at).expect("a node in the table is a pilot's");
                grouped.push((pilot.clone(), Vec::new()));
                last = Some(at);
            }
            grouped.last_mut().expect("just put there").1.push(placement);
        }
        grouped
    }

    /// Puts everything back as it was: what was found becomes true when the plan is applied.
    /// Also the nodes that came into other buckets.
    pub(super) fn undo(self) -> (&'a mut NodeTable, Vec<NodeAt>) {
        for (at, free) in self.before {
            self.table.set_free(at, free);
        }
        (self.table, self.moved)
    }
}
