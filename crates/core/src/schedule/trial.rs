//! The nodes while a plan is made: changed as tasks are put on them, and put back at its end. What
//! was found becomes true when the plan is applied, and not before.

use super::needs::Need;
use super::nodes::{NodeAt, NodeTable};
use crate::event::Placement;
use crate::load::Load;
use crate::pilot::Pilot;
use crate::state::State;
use shipway_model::{DeviceId, GpuShare, PilotId, Resources, Timestamp};
use std::cmp::Reverse;
use std::collections::BTreeMap;

pub(super) struct Trial<'a> {
    state: &'a State,
    table: &'a mut NodeTable,
    pub(super) now: Timestamp,
    /// What was put where, with what was free before.
    put: Vec<Before>,
    /// The devices given out: their nodes, their places there, and how much of each.
    taken: Vec<(NodeAt, usize, u32)>,
    /// Named things, where this pass has given some out.
    loads: BTreeMap<NodeAt, Load>,
    pub(super) moved: Moved,
}

/// By class, the nodes that came into another bucket while a plan was made, where a search may
/// have gone by already.
pub(super) type Moved = Vec<Vec<NodeAt>>;

struct Before {
    at: NodeAt,
    cpus: u64,
    memory: u64,
    disk: u64,
}

impl<'a> Trial<'a> {
    pub(super) fn new(
        state: &'a State,
        table: &'a mut NodeTable,
        mut moved: Moved,
        now: Timestamp,
    ) -> Self {
        moved.resize(table.class_count(), Vec::new());
        let (put, taken, loads) = (Vec::new(), Vec::new(), BTreeMap::new());
        Trial { state, table, now, put, taken, loads, moved }
    }

    pub(super) fn table(&self) -> &NodeTable {
        self.table
    }
    pub(super) fn table_mut(&mut self) -> &mut NodeTable {
        self.table
    }

    pub(super) fn pilot(&self, at: NodeAt) -> Option<&'a Pilot> {
        self.state.pilots().get(self.table.pilot(at)?)
    }

    /// Whether what a site counts itself is there for one more.
    pub(super) fn has_named(&self, need: &Resources, at: NodeAt) -> bool {
        let Some(pilot) = self.pilot(at) else { return false };
        let load = self.loads.get(&at).unwrap_or(&pilot.load);
        load.lacks_named(&pilot.ad, need).is_none()
    }

    /// Puts one task there; returns the devices it gets.
    pub(super) fn put(&mut self, need: &Need, resources: &Resources, at: NodeAt) -> Vec<DeviceId> {
        self.table.change(at, |free| {
            self.put.push(Before { at, cpus: free.cpus, memory: free.memory, disk: free.disk });
            free.cpus = free.cpus.saturating_sub(need.cpus);
            free.memory = free.memory.saturating_sub(need.memory);
            free.disk = free.disk.saturating_sub(need.disk);
            free.unstarted += 1;
        });
        if need.named {
            let pilot = self.pilot(at).expect("a node in the table is a pilot's");
            let load = self.loads.entry(at).or_insert_with(|| pilot.load.clone());
            load.add(&Resources { gpu: None, ..resources.clone() }, &[]);
        }
        if need.gpus == 0 { Vec::new() } else { self.take_devices(need, at) }
    }

    /// Whole devices as they come; for a part, the fullest that still fits.
    fn take_devices(&mut self, need: &Need, at: NodeAt) -> Vec<DeviceId> {
        let class = self.table.free(at).class;
        let groups = need.groups(class).unwrap_or(0);
        let (first, share) = (self.taken.len(), need.share);
        let devices = self.table.devices(at);
        let fits = |device: &usize| {
            groups >> devices.kinds[*device] & 1 == 1
                && devices.used[*device] + share <= GpuShare::WHOLE.0
        };
        let mut fitting: Vec<usize> = (0..devices.used.len()).filter(fits).collect();
        if !need.is_whole() {
            fitting.sort_by_key(|device| Reverse(devices.used[*device]));
        }
        fitting.truncate(need.gpus as usize);
        let ids = fitting.iter().map(|device| devices.ids[*device].clone()).collect();
        self.taken.extend(fitting.iter().map(|device| (at, *device, share)));
        let taken = &self.taken[first..];
        let moved = self.table.use_devices(at, |used| {
            for (_, device, share) in taken {
                used[*device] += share;
            }
        });
        if moved {
            self.moved[class.at()].push(at);
        }
        ids
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

    /// Puts everything back as it was. Says which nodes came into other buckets.
    pub(super) fn undo(self) -> Moved {
        for before in self.put.into_iter().rev() {
            self.table.change(before.at, |free| {
                (free.cpus, free.memory, free.disk) = (before.cpus, before.memory, before.disk);
                free.unstarted -= 1;
            });
        }
        for (at, device, share) in self.taken {
            self.table.use_devices(at, |used| used[device] -= share);
        }
        self.moved
    }
}
