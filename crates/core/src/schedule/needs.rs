//! What a shape needs as plain numbers, and which classes could ever serve it, best fit first.

use super::nodes::{Class, ClassAt, Free, NodeTable};
use crate::shape::Shape;
use crate::usage::charge;
use shipway_model::{GpuRequest, GpuShare, Millis, Resources};

#[derive(Debug, Clone, PartialEq)]
pub struct Need {
    pub cpus: u64,
    pub memory: u64,
    pub disk: u64,
    pub gpus: u32,
    /// Of each device; a part of one when it is less than a whole.
    pub share: u32,
    gpu: Option<GpuRequest>,
    /// It asks for things a site counts itself: those are looked up in the pilot.
    pub named: bool,
    pub at_most: Option<Millis>,
    /// What one task is charged each millisecond: its size, for comparing.
    pub charge: u64,
    /// The classes that could serve it when empty, best fit first.
    pub(super) classes: Vec<(ClassAt, Groups)>,
    /// The same by class.
    groups: Vec<Option<Groups>>,
}

/// Which kinds of a class's devices a request matches, one bit each.
pub(crate) type Groups = u64;
/// Kinds of devices on one node that are told apart; hardware slices come in a dozen kinds.
const MAX_GROUPS: usize = Groups::BITS as usize;

impl Need {
    pub fn of(shape: &Shape, table: &NodeTable) -> Need {
        let need = &shape.resources;
        let gpu = need.gpu.as_ref();
        let mut made = Need {
            cpus: need.cpus.milli,
            memory: need.memory.0,
            disk: need.disk.0,
            gpus: gpu.map_or(0, |gpu| gpu.count),
            share: gpu.map_or(GpuShare::WHOLE, |gpu| gpu.share).0,
            gpu: need.gpu.clone(),
            named: !need.named.is_empty(),
            at_most: shape.at_most,
            charge: charge(need),
            classes: Vec::new(),
            groups: Vec::new(),
        };
        made.learn_classes(need, table);
        made
    }

    /// Which kinds of a class's devices will do, even when there are too few of them.
    pub(crate) fn matching(&self, class: &Class) -> Groups {
        let Some(gpu) = &self.gpu else { return 0 };
        let examples = class.examples.iter().enumerate().take(MAX_GROUPS);
        let matching = examples.filter(|(_, (example, _))| gpu.matches(example));
        matching.fold(0, |groups, (at, _)| groups | 1 << at)
    }

    /// Whether classes have come since this was made.
    pub(super) fn is_stale(&self, table: &NodeTable) -> bool {
        self.groups.len() != table.class_count()
    }

    fn learn_classes(&mut self, need: &Resources, table: &NodeTable) {
        let all = (0..table.class_count()).map(|at| {
            let at = ClassAt(u32::try_from(at).expect("as many as the table has"));
            (at, groups_for(need, table.class(at)))
        });
        let mut fitting = Vec::new();
        for (at, groups) in all {
            self.groups.push(groups);
            fitting.extend(groups.map(|groups| (preference(table.class(at), groups), at, groups)));
        }
        fitting.sort();
        self.classes = fitting.into_iter().map(|(_, at, groups)| (at, groups)).collect();
    }

    pub(super) fn groups(&self, class: ClassAt) -> Option<Groups> {
        self.groups.get(class.at()).copied().flatten()
    }

    /// Whether nodes of this class could serve it when empty.
    pub(crate) fn could_use(&self, class: ClassAt) -> bool {
        self.groups(class).is_some()
    }

    /// Whether one more task fits, leaving aside what a site counts itself.
    pub(super) fn fits(&self, free: &Free, groups: Groups) -> bool {
        self.cpus <= free.cpus
            && self.memory <= free.memory
            && self.disk <= free.disk
            && (self.gpus == 0 || self.gpus_fit(free, groups))
    }

    /// How many things are short on a node, and by how many thousandths of what is wanted in all.
    /// Disk and what a site counts itself are left aside: they are named when it comes to it.
    pub(crate) fn shortage(&self, groups: Groups, free: &Free) -> (u32, u64) {
        let matched = free.groups.iter().enumerate().filter(|(at, _)| groups >> at & 1 == 1);
        let gpus: u32 =
            matched.map(|(_, group)| group.whole + u32::from(group.part >= self.share)).sum();
        let pairs = [
            (self.cpus, free.cpus),
            (self.memory, free.memory),
            (self.disk, free.disk),
            (u64::from(self.gpus), u64::from(gpus)),
        ];
        let mut short = (0, 0);
        for (wanted, free) in pairs.into_iter().filter(|(wanted, free)| wanted > free) {
            short.0 += 1;
            let missing = u128::from(wanted - free) * 1_000 / u128::from(wanted.max(1));
            short.1 += u64::try_from(missing).unwrap_or(1_000);
        }
        short
    }

    fn gpus_fit(&self, free: &Free, groups: Groups) -> bool {
        let matched = free.groups.iter().enumerate().filter(|(at, _)| groups >> at & 1 == 1);
        let mut groups = matched.map(|(_, group)| group);
        if self.share < GpuShare::WHOLE.0 {
            return groups.any(|group| group.whole > 0 || group.part >= self.share);
        }
        groups.map(|group| group.whole).sum::<u32>() >= self.gpus
    }
}

/// `None`: no node of this class could run it, even an empty one. Disk is each node's own and is
/// left aside.
fn groups_for(need: &Resources, class: &Class) -> Option<Groups> {
    let has = &class.key.capacity;
    let named =
        |(name, wanted): (&String, &u64)| has.named.get(name).is_some_and(|has| wanted <= has);
    if need.cpus > has.cpus || need.memory > has.memory || !need.named.iter().all(named) {
        return None;
    }
    let Some(gpu) = &need.gpu else { return Some(0) };
    let (mut groups, mut found) = (0, 0);
    for (at, (example, count)) in class.examples.iter().enumerate().take(MAX_GROUPS) {
        if gpu.matches(example) {
            groups |= 1 << at;
            found += count;
        }
    }
    (found >= gpu.count).then_some(groups)
}

/// Smaller is better: no devices for those who need none, then the least device that will do, then
/// few devices, then small nodes; so that the rare and the large stay free for who needs them.
fn preference(class: &Class, groups: Groups) -> (usize, u64, usize, u64) {
    let matched = class.examples.iter().enumerate().filter(|(at, _)| groups >> at & 1 == 1);
    let memory = matched.map(|(_, (example, _))| example.memory.0).min();
    let capacity = &class.key.capacity;
    let needless = if groups == 0 { class.key.gpus() } else { 0 };
    (needless, memory.unwrap_or(0), class.key.gpus(), capacity.cpus.milli)
}
