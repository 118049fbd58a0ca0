//! The connected nodes as the matcher sees them: by class, each with what is free. Derived from
//! the pilots and kept up to date by `evolve`; never stored.
#![expect(
    clippy::indexing_slicing,
    reason = "places that this module gives out itself, asked for very often"
)]

pub use super::class::Class;
use super::free::{Device, Free, Group, used};
use crate::load::Usable;
use crate::pilot::Pilot;
use crate::schedule::classes::{ClassKey, GpuKind, class_of};
use crate::schedule::needs::Groups;
use crate::schedule::position;
use shipway_model::{DeviceId, Millis, PilotId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// Classes without a node that are remembered, as a node comes back or changes and changes again;
/// beyond those the one without for longest gives its place to the next. Few in tests, so that
/// places come to stand for other classes there.
const EMPTY_CLASSES: usize = if cfg!(test) { 2 } else { 64 };

/// What the pilots of those said of their nodes, in bytes: beyond that the largest goes first.
const EMPTY_SAID: usize = if cfg!(test) { 64 << 10 } else { 1 << 20 };

/// What is not lent is never taken back.
const FOR_EVER: Timestamp = Timestamp(u64::MAX);

/// A node's place in the table; used again when the node has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeAt(pub(in crate::schedule) u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassAt(pub(in crate::schedule) u32);

impl NodeAt {
    pub(in crate::schedule) fn at(self) -> usize {
        self.0 as usize
    }
}
impl ClassAt {
    /// One of sixty-four, for sets of classes that may say too much: beyond those they share.
    pub(in crate::schedule) fn bit(self) -> u64 {
        1 << (self.0 % u64::BITS)
    }
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug, Clone)]
struct Node {
    pilot: PilotId,
    /// Counts the nodes that ever came: what is remembered of one is not taken for the next in its
    /// place.
    came: u64,
    devices: Devices,
    named: BTreeMap<String, u64>,
}

/// The devices of one node, in the order of its ad.
#[derive(Debug, Clone)]
pub(in crate::schedule) struct Devices {
    pub(in crate::schedule) ids: Box<[DeviceId]>,
    pub(in crate::schedule) each: Box<[Device]>,
    /// The kind of each, by its place among those of the class.
    kinds: Box<[u32]>,
}

#[derive(Debug, Clone, Default)]
pub struct NodeTable {
    classes: Vec<Class>,
    /// Counts the classes that ever came: what is known by place is of those there were then.
    classes_came: u64,
    ids: BTreeMap<ClassKey, ClassAt>,
    by_pilot: BTreeMap<PilotId, NodeAt>,
    nodes: Vec<Option<Node>>,
    free: Vec<Free>,
    /// How many devices nobody uses, of each: what `free` says too, side by side.
    whole: Vec<u32>,
    /// When the tasks of each have to be over; most nodes are there for ever.
    until: Vec<Timestamp>,
    vacant: Vec<NodeAt>,
    came: u64,
    /// Nodes that have more room than when the scheduler last looked.
    pub(in crate::schedule) hot: BTreeSet<NodeAt>,
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
        all.filter(|(_, class)| !class.members.nodes().is_empty())
    }
    /// Another one whenever a class has come.
    pub(in crate::schedule) fn version_of_classes(&self) -> u64 {
        self.classes_came
    }
    /// Places of classes, those without a node among them.
    pub(crate) fn class_count(&self) -> usize {
        self.classes.len()
    }
    /// All of them, those without a node among them.
    pub(crate) fn class_places(&self) -> impl Iterator<Item = ClassAt> + use<> {
        (0..position(self.classes.len())).map(ClassAt)
    }
    pub fn class(&self, at: ClassAt) -> &Class {
        &self.classes[at.at()]
    }
    pub(in crate::schedule) fn whole(&self, at: NodeAt) -> u32 {
        self.whole[at.at()]
    }
    /// When the tasks of a connected node have to be over, if it is only lent.
    pub(crate) fn until(&self, at: NodeAt) -> Option<Timestamp> {
        Some(self.until[at.at()]).filter(|until| *until != FOR_EVER)
    }
    /// Whether a task that begins then is over before the node is taken back. One without a time
    /// limit takes what it gets.
    #[inline]
    pub(crate) fn has_time(&self, at: NodeAt, at_most: Option<Millis>, from: Timestamp) -> bool {
        at_most.is_none_or(|span| from.plus(span) <= self.until[at.at()])
    }
    /// What is free on a connected node.
    pub fn free(&self, at: NodeAt) -> &Free {
        &self.free[at.at()]
    }
    pub fn pilot(&self, at: NodeAt) -> Option<&PilotId> {
        self.nodes.get(at.at())?.as_ref().map(|node| &node.pilot)
    }
    /// Its place, and when it came: together they mean one node.
    pub(crate) fn identity(&self, at: NodeAt) -> Option<(u32, u64)> {
        self.nodes.get(at.at())?.as_ref().map(|node| (at.0, node.came))
    }
    /// The class of a connected node.
    pub(crate) fn class_of(&self, pilot: &PilotId) -> Option<ClassAt> {
        self.at(pilot).map(|at| self.free(at).class)
    }
    pub(crate) fn at(&self, pilot: &PilotId) -> Option<NodeAt> {
        self.by_pilot.get(pilot).copied()
    }
    pub(in crate::schedule) fn is_connected(&self, at: NodeAt) -> bool {
        self.nodes.get(at.at()).is_some_and(Option::is_some)
    }
    pub(in crate::schedule) fn devices(&self, at: NodeAt) -> Option<&Devices> {
        self.nodes.get(at.at())?.as_ref().map(|node| &node.devices)
    }

    /// Which devices of a node are of these kinds.
    pub(crate) fn usable(&self, at: NodeAt, groups: Groups) -> Usable<'_> {
        let node = self.nodes.get(at.at()).and_then(Option::as_ref);
        node.map_or(Usable::NONE, |node| Usable::Kinds(&node.devices.kinds, groups))
    }

    /// What a pilot offers or how it is connected has changed.
    pub(crate) fn renew(&mut self, id: &PilotId, pilot: Option<&Pilot>) {
        self.remove(id);
        if let Some(pilot) = pilot.filter(|pilot| pilot.takes_work()) {
            self.insert(id, pilot);
        }
    }

    /// These are to be looked at by the next pass, as far as they are still there.
    pub(in crate::schedule) fn are_hot(&mut self, nodes: impl Iterator<Item = NodeAt>) {
        for at in nodes {
            if self.is_connected(at) {
                self.hot.insert(at);
            }
        }
    }

    /// What is placed on a pilot has changed.
    pub(crate) fn refresh(&mut self, id: &PilotId, pilot: &Pilot) {
        let Some(at) = self.by_pilot.get(id).copied() else { return };
        let Some(node) = self.nodes[at.at()].as_mut() else { return };
        let named_changed = node.named != pilot.load.used.named;
        if named_changed {
            node.named.clone_from(&pilot.load.used.named);
        }
        for (known, used) in node.devices.each.iter_mut().zip(used(pilot)) {
            known.used = used;
        }
        let before = &self.free[at.at()];
        let mut free = Free::amounts(pilot, before.class, before.groups().count());
        free.count(&node.devices.each);
        if named_changed || free.exceeds(before) {
            self.hot.insert(at);
        }
        free.place = before.place;
        self.change(at, |now| *now = free);
    }

    /// Changes what is free, and with it where the node stands among its like. For amounts;
    /// devices are `change_devices`'s.
    pub(in crate::schedule) fn change(&mut self, at: NodeAt, change: impl FnOnce(&mut Free)) {
        let free = &mut self.free[at.at()];
        let whole_before = free.whole;
        change(free);
        self.whole[at.at()] = free.whole;
        self.classes[free.class.at()].members.changed(whole_before, free);
    }

    /// The same, and how much of each device is used. Whether fewer or more are whole then.
    pub(in crate::schedule) fn change_devices(
        &mut self,
        at: NodeAt,
        change: impl FnOnce(&mut Free, &mut Devices),
    ) -> bool {
        let Some(node) = self.nodes[at.at()].as_mut() else { return false };
        let devices = &mut node.devices;
        let free = &mut self.free[at.at()];
        let before = free.whole;
        change(free, devices);
        free.count(&devices.each);
        self.whole[at.at()] = free.whole;
        self.classes[free.class.at()].members.changed(before, free);
        before != free.whole
    }

    /// Takes the bounds of one bucket of a class anew.
    pub(in crate::schedule) fn tighten(&mut self, class: ClassAt, block: usize, bucket: usize) {
        self.classes[class.at()].members.tighten(block, bucket);
    }

    fn insert(&mut self, id: &PilotId, pilot: &Pilot) {
        let class = self.class_at(class_of(pilot));
        let entry = &self.classes[class.at()];
        // Each is a kind of its class.
        let kind = |gpu| entry.kinds.binary_search(&GpuKind::of(gpu)).unwrap_or(0);
        let device = |(gpu, used)| Device { kind: position(kind(gpu)), used };
        let each: Box<[Device]> = pilot.ad.gpus.iter().zip(used(pilot)).map(device).collect();
        let devices = Devices {
            ids: pilot.ad.gpus.iter().map(|gpu| gpu.id.clone()).collect(),
            kinds: each.iter().map(|device| device.kind).collect(),
            each,
        };
        let mut free = Free::amounts(pilot, class, entry.kinds.len());
        free.count(&devices.each);
        self.came += 1;
        let (came, named) = (self.came, pilot.load.used.named.clone());
        let node = Some(Node { pilot: id.clone(), came, devices, named });
        let at = if let Some(at) = self.vacant.pop() {
            self.nodes[at.at()] = node;
            self.free[at.at()] = free;
            at
        } else {
            self.nodes.push(node);
            self.free.push(free);
            self.whole.push(0);
            self.until.push(FOR_EVER);
            NodeAt(position(self.nodes.len() - 1))
        };
        self.whole[at.at()] = self.free[at.at()].whole;
        self.until[at.at()] = pilot.until.unwrap_or(FOR_EVER);
        self.by_pilot.insert(id.clone(), at);
        self.classes[class.at()].members.insert(at, &mut self.free);
        self.hot.insert(at);
    }

    fn remove(&mut self, id: &PilotId) {
        let Some(at) = self.by_pilot.remove(id) else { return };
        self.nodes[at.at()] = None;
        let class = &mut self.classes[self.free[at.at()].class.at()];
        class.members.remove(at, &mut self.free);
        class.left = self.came;
        self.hot.remove(&at);
        self.vacant.push(at);
    }

    fn class_at(&mut self, key: ClassKey) -> ClassAt {
        if let Some(at) = self.ids.get(&key) {
            return *at;
        }
        self.classes_came += 1;
        let class = Class::new(key.clone());
        let at = if let Some(at) = self.place_to_reuse() {
            let gone = std::mem::replace(&mut self.classes[at.at()], class);
            self.ids.remove(&gone.key);
            at
        } else {
            self.classes.push(class);
            ClassAt(position(self.classes.len() - 1))
        };
        self.ids.insert(key, at);
        at
    }

    fn place_to_reuse(&self) -> Option<ClassAt> {
        let all = (0u32..).map(ClassAt).zip(&self.classes);
        let empty = || all.clone().filter(|(_, class)| class.members.nodes().is_empty());
        let said: usize = empty().map(|(_, class)| class.said).sum();
        let are_many = empty().count() > EMPTY_CLASSES;
        let found = if said > EMPTY_SAID {
            empty().max_by_key(|(_, class)| class.said)
        } else {
            empty().min_by_key(|(_, class)| class.left).filter(|_| are_many)
        };
        found.map(|(at, _)| at)
    }
}

/// By what it says of each pilot: places in the table depend on who came when.
impl PartialEq for NodeTable {
    fn eq(&self, other: &NodeTable) -> bool {
        let seen = |table: &NodeTable| -> Vec<_> {
            let nodes = table.by_pilot.iter().map(|(pilot, at)| {
                let devices = table.devices(*at).map(|devices| devices.each.clone());
                let free = table.free(*at);
                let class = table.class(free.class);
                let amounts = (free.amounts, free.unstarted);
                let listed = class.members.lists(*at, free) && table.whole(*at) == free.whole;
                let groups: Vec<Group> = free.groups().copied().collect();
                let amounts = (amounts, table.until(*at));
                (pilot.clone(), class.key.clone(), amounts, groups, devices, listed)
            });
            nodes.collect()
        };
        seen(self) == seen(other)
    }
}
