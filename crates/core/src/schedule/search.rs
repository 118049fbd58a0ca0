//! The node for one more task: the fullest that fits, in the least class that will do.

use super::needs::{Groups, Need};
use super::nodes::{ClassAt, Free, NodeAt, NodeTable};
use super::reserve::Reservation;
use super::{backlog, is_short};
use crate::job::Job;
use crate::load::Load;
use crate::state::State;
use shipway_model::{DeviceId, JobId, Resources, Timestamp};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// The nodes during one pass: changed as tasks are put on them, and put back at its end.
pub(super) struct Search<'a> {
    state: &'a State,
    table: &'a mut NodeTable,
    now: Timestamp,
    /// What each node had free before this pass changed it.
    before: BTreeMap<NodeAt, Free>,
    /// Devices and named things, where this pass has given some out.
    loads: BTreeMap<NodeAt, Load>,
}

/// How far a shape's search has come in this pass. Room only shrinks, so no node is looked at
/// twice for a shape that needs no device.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    class: usize,
    member: usize,
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

/// Who asks: what it needs, and the reservations of others that it has to respect.
pub(super) struct Asking<'b> {
    pub(super) id: JobId,
    pub(super) job: &'b Job,
    pub(super) need: &'b Need,
    pub(super) resources: &'b Resources,
    pub(super) reservations: &'b [Reservation],
}

impl<'a> Search<'a> {
    pub(super) fn new(state: &'a State, table: &'a mut NodeTable, now: Timestamp) -> Self {
        Search { state, table, now, before: BTreeMap::new(), loads: BTreeMap::new() }
    }

    pub(super) fn table(&self) -> &NodeTable {
        self.table
    }

    pub(super) fn find(
        &self,
        asking: &Asking<'_>,
        scope: Scope,
        progress: &mut Progress,
    ) -> Option<NodeAt> {
        let with_room = match scope {
            Scope::Hot => self.find_hot(asking),
            Scope::All if asking.need.gpus > 0 => self.find_by_devices(asking),
            Scope::All => self.find_in_order(asking, progress),
        };
        with_room.or_else(|| self.find_backlog(asking, scope, progress))
    }

    /// Whether one more task fits on this node now.
    pub(super) fn fits(&self, asking: &Asking<'_>, at: NodeAt) -> bool {
        let groups = self.table.class_of(at).and_then(|class| asking.need.groups(class));
        groups.is_some_and(|groups| self.has_room(asking, at, groups))
    }

    fn has_room(&self, asking: &Asking<'_>, at: NodeAt, groups: Groups) -> bool {
        asking.need.fits(self.table.free(at), groups)
            && (!asking.need.named || self.has_named(asking, at))
            && self.is_let_by(asking, at)
    }

    fn has_named(&self, asking: &Asking<'_>, at: NodeAt) -> bool {
        let Some(pilot) = self.table.pilot(at).and_then(|id| self.state.pilots().get(id)) else {
            return false;
        };
        let load = self.loads.get(&at).unwrap_or(&pilot.load);
        load.lacks_named(&pilot.ad, asking.resources).is_none()
    }

    fn is_let_by(&self, asking: &Asking<'_>, at: NodeAt) -> bool {
        let held = asking.reservations.iter().find(|held| held.node == at);
        held.is_none_or(|held| {
            let pilot = self.table.pilot(at).and_then(|id| self.state.pilots().get(id));
            held.job == asking.id
                || pilot.is_some_and(|pilot| held.lets_by(self.now, asking.need, pilot))
        })
    }

    fn find_hot(&self, asking: &Asking<'_>) -> Option<NodeAt> {
        let fitting = self.table.hot.iter().filter(|at| self.fits(asking, **at));
        fitting.min_by_key(|at| self.table.free(**at).whole).copied()
    }

    fn find_by_devices(&self, asking: &Asking<'_>) -> Option<NodeAt> {
        let fits_in = |class: ClassAt, groups: Groups| {
            let whole = asking.need.share == shipway_model::GpuShare::WHOLE.0;
            // A part of a device may be found on a node without a whole one.
            let least = if whole { asking.need.gpus as usize } else { 0 };
            let buckets = self.table.class(class).by_whole.get(least..).unwrap_or_default();
            let mut nodes = buckets.iter().flatten().copied();
            nodes.find(|at| self.has_room(asking, *at, groups))
        };
        asking.need.classes.iter().find_map(|(class, groups)| fits_in(*class, *groups))
    }

    fn find_in_order(&self, asking: &Asking<'_>, progress: &mut Progress) -> Option<NodeAt> {
        while let Some((class, groups)) = asking.need.classes.get(progress.class) {
            let members = &self.table.class(*class).members;
            while let Some(at) = members.get(progress.member) {
                if self.has_room(asking, *at, *groups) {
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
    ) -> Option<NodeAt> {
        if !is_short(asking.job) || asking.need.gpus > 0 || asking.need.named {
            return None;
        }
        let backlogs = progress.backlogs.get_or_insert_with(|| self.backlogs(scope));
        while let Some(Reverse((counted, at))) = backlogs.pop() {
            let unstarted = self.table.free(at).unstarted;
            if counted != unstarted {
                backlogs.push(Reverse((unstarted, at)));
            } else if self.may_wait_at(asking, at, unstarted) {
                backlogs.push(Reverse((unstarted, at)));
                return Some(at);
            }
        }
        None
    }

    fn backlogs(&self, scope: Scope) -> BinaryHeap<Reverse<(u32, NodeAt)>> {
        let entry = |at: &NodeAt| Reverse((self.table.free(*at).unstarted, *at));
        match scope {
            Scope::Hot => self.table.hot.iter().map(entry).collect(),
            Scope::All => {
                self.table.classes().flat_map(|(_, class)| &class.members).map(entry).collect()
            }
        }
    }

    fn may_wait_at(&self, asking: &Asking<'_>, at: NodeAt, unstarted: u32) -> bool {
        let pilot = self.table.pilot(at).and_then(|id| self.state.pilots().get(id));
        let free_of_others = asking.reservations.iter().all(|held| held.node != at);
        free_of_others
            && pilot.is_some_and(|pilot| {
                backlog::allows(asking.job, pilot, asking.resources, unstarted)
            })
    }

    /// Puts one task there; returns the devices it gets.
    pub(super) fn put(&mut self, asking: &Asking<'_>, at: NodeAt) -> Vec<DeviceId> {
        let devices = self.take_devices(asking, at);
        let before = self.table.free(at);
        let mut free = before.clone();
        free.cpus = free.cpus.saturating_sub(asking.need.cpus);
        free.memory = free.memory.saturating_sub(asking.need.memory);
        free.disk = free.disk.saturating_sub(asking.need.disk);
        free.unstarted += 1;
        if asking.need.gpus > 0 {
            self.count_devices(at, &mut free);
        }
        let before = self.table.set_free(at, free);
        self.before.entry(at).or_insert(before);
        devices
    }

    fn take_devices(&mut self, asking: &Asking<'_>, at: NodeAt) -> Vec<DeviceId> {
        if asking.need.gpus == 0 && !asking.need.named {
            return Vec::new();
        }
        let pilot = self.table.pilot(at).and_then(|id| self.state.pilots().get(id));
        let pilot = pilot.expect("a node in the table is a pilot's");
        let load = self.loads.entry(at).or_insert_with(|| pilot.load.clone());
        let devices = load.choose_devices(&pilot.ad, asking.resources);
        load.add(asking.resources, &devices);
        devices
    }

    fn count_devices(&self, at: NodeAt, free: &mut Free) {
        let pilot = self.table.pilot(at).and_then(|id| self.state.pilots().get(id));
        let (Some(pilot), Some(load)) = (pilot, self.loads.get(&at)) else { return };
        let counted = self.table.devices_free(at, pilot, load);
        free.whole = counted.iter().map(|group| group.whole).sum();
        free.groups = counted;
    }

    /// Puts everything back as it was: what was found becomes true when the plan is applied.
    pub(super) fn undo(self) -> &'a mut NodeTable {
        for (at, free) in self.before {
            self.table.set_free(at, free);
        }
        self.table
    }
}
