//! The connected nodes as the matcher sees them: by class, each with what is free, as plain
//! numbers. Derived from the pilots and kept up to date by `evolve`; never stored.

use super::classes::{ClassKey, GpuKind, class_of};
use crate::pilot::Pilot;
use shipway_model::{GpuDevice, GpuShare, PilotId};
use std::collections::{BTreeMap, BTreeSet};

/// A node's place in the table; used again when the node has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeAt(pub(super) u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassAt(pub(super) u32);

impl NodeAt {
    pub(super) fn at(self) -> usize {
        self.0 as usize
    }
}
impl ClassAt {
    pub(super) fn at(self) -> usize {
        self.0 as usize
    }
}

/// What is free on one node. Names that a site counts itself are looked up in the pilot: few ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Free {
    pub cpus: u64,
    pub memory: u64,
    pub disk: u64,
    /// Devices that nobody uses, over all kinds.
    pub whole: u32,
    /// The same, and those with a part left.
    pub devices: u32,
    /// Of each kind of device of the node's class.
    pub groups: Box<[Group]>,
    /// Work waiting there beyond what it can run.
    pub unstarted: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Group {
    pub whole: u32,
    /// The largest part that is left of a device in use.
    pub part: u32,
}

impl Free {
    /// Whether there is more of anything than there was.
    fn exceeds(&self, before: &Free) -> bool {
        self.cpus > before.cpus
            || self.memory > before.memory
            || self.disk > before.disk
            || self.unstarted < before.unstarted
            || self
                .groups
                .iter()
                .zip(&before.groups)
                .any(|(now, then)| now.whole > then.whole || now.part > then.part)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    pub key: ClassKey,
    pub(super) kinds: Vec<GpuKind>,
    /// A device of each kind, to be asked whether a request matches it, and how many there are.
    pub(super) examples: Vec<(GpuDevice, u32)>,
    pub members: Vec<NodeAt>,
    /// Nodes with devices, by how many of them nobody uses: the fullest that fits comes first.
    pub(super) by_whole: Vec<BTreeSet<NodeAt>>,
}

#[derive(Debug, Clone, PartialEq)]
struct Identity {
    pilot: PilotId,
    class: ClassAt,
    /// The group of each of its devices, in the order of its ad.
    groups: Box<[usize]>,
    named: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, Default)]
pub struct NodeTable {
    classes: Vec<Class>,
    ids: BTreeMap<ClassKey, ClassAt>,
    by_pilot: BTreeMap<PilotId, NodeAt>,
    nodes: Vec<Option<Identity>>,
    pub(super) free: Vec<Free>,
    vacant: Vec<NodeAt>,
    /// Nodes that have more room than when the scheduler last looked.
    pub(super) hot: BTreeSet<NodeAt>,
}

impl NodeTable {
    pub fn len(&self) -> usize {
        self.by_pilot.len()
    }
    pub fn is_empty(&self) -> bool {
        self.by_pilot.is_empty()
    }
    /// Classes with a connected node, in the order they were first seen.
    pub fn classes(&self) -> impl Iterator<Item = (ClassAt, &Class)> {
        let all = (0u32..).map(ClassAt).zip(&self.classes);
        all.filter(|(_, class)| !class.members.is_empty())
    }
    /// How many classes were ever seen.
    pub(super) fn class_count(&self) -> usize {
        self.classes.len()
    }
    pub fn class(&self, at: ClassAt) -> &Class {
        &self.classes[at.at()]
    }
    pub fn free(&self, at: NodeAt) -> &Free {
        &self.free[at.at()]
    }
    pub fn node(&self, pilot: &PilotId) -> Option<NodeAt> {
        self.by_pilot.get(pilot).copied()
    }
    pub fn pilot(&self, at: NodeAt) -> Option<&PilotId> {
        self.nodes.get(at.at())?.as_ref().map(|node| &node.pilot)
    }
    pub(super) fn class_of(&self, at: NodeAt) -> Option<ClassAt> {
        self.nodes.get(at.at())?.as_ref().map(|node| node.class)
    }
    pub(super) fn is_connected(&self, at: NodeAt) -> bool {
        self.nodes.get(at.at()).is_some_and(Option::is_some)
    }

    /// What a pilot offers or how it is connected has changed.
    pub(crate) fn renew(&mut self, id: &PilotId, pilot: Option<&Pilot>) {
        self.remove(id);
        if let Some(pilot) = pilot.filter(|pilot| pilot.takes_work()) {
            self.insert(id, pilot);
        }
    }

    /// What is placed on a pilot has changed.
    pub(crate) fn refresh(&mut self, id: &PilotId, pilot: &Pilot) {
        let Some(at) = self.by_pilot.get(id).copied() else { return };
        let node = self.nodes[at.at()].as_ref().expect("a node that is listed");
        let free = free(pilot, &node.groups, self.classes[node.class.at()].kinds.len());
        let named_before = node.named != pilot.load.named;
        if free.exceeds(&self.free[at.at()]) || named_before {
            self.hot.insert(at);
        }
        if named_before {
            let node = self.nodes[at.at()].as_mut().expect("a node that is listed");
            node.named.clone_from(&pilot.load.named);
        }
        self.set_free(at, free);
    }

    /// Changes what is free, and where the node stands among its like.
    pub(super) fn set_free(&mut self, at: NodeAt, free: Free) {
        let class = self.class_of(at).expect("a node that is listed");
        let before = std::mem::replace(&mut self.free[at.at()], free);
        self.move_bucket(class, at, before.whole, self.free[at.at()].whole);
    }

    /// For amounts alone; devices go by `count_devices`, which keeps the node's place.
    pub(super) fn free_mut(&mut self, at: NodeAt) -> &mut Free {
        &mut self.free[at.at()]
    }

    /// The kind of a node's device, by its place in the node's ad.
    pub(super) fn group_of(&self, at: NodeAt, device: usize) -> usize {
        self.nodes[at.at()].as_ref().map_or(0, |node| node.groups[device])
    }

    /// What is left of a node's devices when so much of each is used. Whether that put the node
    /// into another bucket.
    pub(super) fn count_devices(&mut self, at: NodeAt, used: &[u32]) -> bool {
        let node = self.nodes[at.at()].as_ref().expect("a node that is listed");
        let mut free = std::mem::take(&mut self.free[at.at()].groups);
        let before = self.free[at.at()].whole;
        count(&mut free, used.iter().copied().zip(node.groups.iter().copied()));
        let (whole, devices) = sums(&free);
        let (class, entry) = (node.class, &mut self.free[at.at()]);
        (entry.groups, entry.whole, entry.devices) = (free, whole, devices);
        self.move_bucket(class, at, before, whole);
        before != whole
    }

    fn move_bucket(&mut self, class: ClassAt, at: NodeAt, before: u32, now: u32) {
        let by_whole = &mut self.classes[class.at()].by_whole;
        if before != now && !by_whole.is_empty() {
            by_whole[before as usize].remove(&at);
            by_whole[now as usize].insert(at);
        }
    }

    fn insert(&mut self, id: &PilotId, pilot: &Pilot) {
        let class = self.class_at(class_of(pilot));
        let entry = &self.classes[class.at()];
        let group =
            |gpu| entry.kinds.binary_search(&GpuKind::of(gpu)).expect("a kind of its class");
        let groups: Box<[usize]> = pilot.ad.gpus.iter().map(group).collect();
        let free = free(pilot, &groups, entry.kinds.len());
        let whole = free.whole as usize;
        let named = pilot.load.named.clone();
        let node = Some(Identity { pilot: id.clone(), class, groups, named });
        let at = if let Some(at) = self.vacant.pop() {
            self.nodes[at.at()] = node;
            self.free[at.at()] = free;
            at
        } else {
            self.nodes.push(node);
            self.free.push(free);
            NodeAt(u32::try_from(self.nodes.len() - 1).expect("fewer nodes than 2^32"))
        };
        self.by_pilot.insert(id.clone(), at);
        let entry = &mut self.classes[class.at()];
        let place = entry.members.partition_point(|other| *other < at);
        entry.members.insert(place, at);
        if let Some(bucket) = entry.by_whole.get_mut(whole) {
            bucket.insert(at);
        }
        self.hot.insert(at);
    }

    fn remove(&mut self, id: &PilotId) {
        let Some(at) = self.by_pilot.remove(id) else { return };
        let node = self.nodes[at.at()].take().expect("a node that is listed");
        let class = &mut self.classes[node.class.at()];
        class.members.retain(|other| *other != at);
        if let Some(bucket) = class.by_whole.get_mut(self.free[at.at()].whole as usize) {
            bucket.remove(&at);
        }
        self.hot.remove(&at);
        self.vacant.push(at);
    }

    fn class_at(&mut self, key: ClassKey) -> ClassAt {
        if let Some(at) = self.ids.get(&key) {
            return *at;
        }
        let at = ClassAt(u32::try_from(self.classes.len()).expect("fewer classes than 2^32"));
        let kinds: Vec<GpuKind> = key.kinds().into_keys().collect();
        let buckets = if kinds.is_empty() { 0 } else { key.gpus() + 1 };
        let by_whole = vec![BTreeSet::new(); buckets];
        let counts = key.kinds().into_values();
        let examples = kinds.iter().map(GpuKind::example).zip(counts).collect();
        self.ids.insert(key.clone(), at);
        self.classes.push(Class { key, kinds, examples, members: Vec::new(), by_whole });
        at
    }
}

fn free(pilot: &Pilot, groups: &[usize], kinds: usize) -> Free {
    let (has, load) = (&pilot.ad.capacity, &pilot.load);
    let mut left = vec![Group::default(); kinds].into_boxed_slice();
    let used = |gpu: &GpuDevice| load.gpus.get(&gpu.id).map_or(0, |share| share.0);
    count(&mut left, pilot.ad.gpus.iter().map(used).zip(groups.iter().copied()));
    let (whole, devices) = sums(&left);
    Free {
        cpus: has.cpus.milli.saturating_sub(load.cpus.milli),
        memory: has.memory.0.saturating_sub(load.memory.0),
        disk: has.disk.0.saturating_sub(load.disk.0),
        whole,
        devices,
        groups: left,
        unstarted: pilot.unstarted,
    }
}

/// From how much of each device is used, with the group it belongs to.
fn count(groups: &mut [Group], used: impl Iterator<Item = (u32, usize)>) {
    groups.fill(Group::default());
    for (used, group) in used {
        let group = &mut groups[group];
        if used == 0 {
            group.whole += 1;
        } else {
            group.part = group.part.max(GpuShare::WHOLE.0.saturating_sub(used));
        }
    }
}

fn sums(groups: &[Group]) -> (u32, u32) {
    let whole = groups.iter().map(|group| group.whole).sum();
    (whole, whole + groups.iter().map(|group| u32::from(group.part > 0)).sum::<u32>())
}

/// By what it says of each pilot: places in the table depend on who came when.
impl PartialEq for NodeTable {
    fn eq(&self, other: &NodeTable) -> bool {
        let seen = |table: &NodeTable| -> Vec<_> {
            let nodes = table.by_pilot.iter().map(|(pilot, at)| {
                let class = table.class_of(*at).expect("a node that is listed");
                let class = table.class(class);
                let listed = class.members.contains(at)
                    && class
                        .by_whole
                        .get(table.free(*at).whole as usize)
                        .is_none_or(|b| b.contains(at));
                (pilot.clone(), class.key.clone(), table.free(*at).clone(), listed)
            });
            nodes.collect()
        };
        seen(self) == seen(other)
    }
}
