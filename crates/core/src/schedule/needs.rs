//! What a shape needs as plain numbers, and which classes could ever serve it, best fit first.

use super::index::common::Common;
use super::index::free::Free;
use super::index::known::Size;
use super::index::nodes::{Class, ClassAt, NodeAt, NodeTable};
use crate::guard::strike;
use crate::pilot::Pilot;
use crate::requirements::Choice;
use crate::shape::{Gang, Shape, ShapeId};
use crate::usage::charge;
use shipway_model::amounts::thousandths;
use shipway_model::{Amounts, GpuRequest, GpuShare, Kind, Millis, Resources, Timestamp};
use std::cmp::Reverse;
use std::sync::Arc;

/// What is asked of every task comes first, in one line of the cache.
#[derive(Debug, Clone, PartialEq)]
#[repr(C, align(64))]
pub struct Need {
    pub amounts: Amounts,
    pub gpus: u32,
    /// Of each device; a part of one when it is less than a whole.
    pub share: u32,
    /// What one task is charged each millisecond: its size, for comparing.
    pub charge: u64,
    /// It asks for things a site counts itself: those are looked up in the pilot.
    pub named: bool,
    /// Its requirements have to be asked of each node, not only of each class.
    pub(super) per_node: bool,
    pub(super) in_container: bool,
    /// Where guests are let in, it is one.
    pub(super) is_guest: bool,
    pub(super) gang: Gang,
    /// The classes that could serve it when empty; see `ClassAt::bit`.
    class_bits: u64,
    pub at_most: Option<Millis>,
    gpu: Option<Box<GpuRequest>>,
    /// By class, the kinds of devices for which its requirements hold.
    allowed: Vec<Groups>,
    /// Requirements and rank.
    pub(crate) choice: Option<Arc<Choice>>,
    /// Of so many classes, in their order, it is known whether they could.
    judged: usize,
    /// The classes that could serve it, best fit first.
    pub(super) classes: Vec<(ClassAt, Groups)>,
    /// The same by class.
    groups: Vec<Option<Groups>>,
}

/// Which kinds of a class's devices a request matches, one bit each.
pub(crate) type Groups = u64;
/// Kinds of devices on one node that are told apart; hardware slices come in a dozen kinds.
pub(crate) const MAX_GROUPS: usize = Groups::BITS as usize;

/// The bit of one kind; those beyond the most have none.
pub(crate) fn bit(kind: usize) -> Groups {
    u32::try_from(kind).ok().and_then(|kind| Groups::from(1u8).checked_shl(kind)).unwrap_or(0)
}

impl Need {
    pub fn of(shape: &Shape, table: &NodeTable) -> Need {
        Need::within(shape, table, u64::MAX)
    }

    /// The same with so many steps for its expressions: beyond those, classes are not asked.
    pub(crate) fn within(shape: &Shape, table: &NodeTable, most: u64) -> Need {
        let need = &shape.resources;
        strike("panics_in_need", need);
        let gpu = need.gpu.as_ref();
        let mut made = Need {
            amounts: need.amounts(),
            gpus: gpu.map_or(0, |gpu| gpu.count),
            share: gpu.map_or(GpuShare::WHOLE, |gpu| gpu.share).0,
            gpu: need.gpu.clone().map(Box::new),
            allowed: Vec::new(),
            named: !need.named.is_empty(),
            per_node: false,
            in_container: shape.expressions.in_container,
            is_guest: shape.is_guest,
            gang: shape.gang,
            choice: Choice::of(shape).map(Arc::new),
            at_most: shape.at_most,
            charge: charge(need),
            classes: Vec::new(),
            class_bits: 0,
            judged: 0,
            groups: Vec::new(),
        };
        made.per_node = made.choice.as_ref().is_some_and(|choice| choice.is_per_node);
        made.learn_classes(shape, table, most);
        made
    }

    /// What all that are placed together are charged.
    pub(super) fn charge_of_gang(&self) -> u64 {
        self.charge.saturating_mul(self.gang.size().into())
    }

    /// Steps that its expressions have taken so far.
    pub(crate) fn steps(&self) -> u64 {
        self.choice.as_ref().map_or(0, |choice| choice.steps())
    }

    #[inline]
    pub(super) fn size(&self, shape: ShapeId) -> Size {
        let Need { gpus, class_bits: classes, .. } = *self;
        Size { shape, gpus, amounts: Common::of(&self.amounts), classes }
    }

    /// Which kinds of a class's devices will do, even when there are too few of them.
    pub(crate) fn matching(&self, class: &Class) -> Groups {
        let Some(gpu) = &self.gpu else { return 0 };
        let examples = class.examples.iter().enumerate().take(MAX_GROUPS);
        let matching = examples.filter(|(_, (example, _))| gpu.matches(example));
        matching.fold(0, |groups, (at, _)| groups | bit(at))
    }

    /// Whether these kinds of a class's devices are enough for one task: for who needs none, that
    /// the node is allowed with any of them. The kinds that it may use then.
    fn choose(&self, class: &Class, allowed: Groups) -> Option<Groups> {
        if self.gpus == 0 {
            return (allowed != 0).then_some(0);
        }
        let groups = allowed & self.matching(class);
        (class.count(groups) >= self.gpus).then_some(groups)
    }

    /// Whether this class was asked.
    pub(crate) fn has_judged(&self, at: ClassAt) -> bool {
        at.at() < self.judged
    }

    fn learn_classes(&mut self, shape: &Shape, table: &NodeTable, most: u64) {
        let need = &shape.resources;
        let places = (0..super::position(table.class_count())).map(ClassAt);
        let all = places.take_while(|_| self.steps() < most).map(|at| {
            let class = table.class(at);
            let choice = self.choice.as_ref();
            let is_kept = self.is_kept_by_containers(class) || shape.is_kept_from(class);
            let allowed = match choice.filter(|_| !is_kept) {
                Some(choice) => choice.kinds_of_class(&class.ads),
                None if is_kept => 0,
                None => Groups::MAX,
            };
            let groups = self.choose(class, allowed).filter(|_| is_large_enough(need, class));
            (at, allowed, groups)
        });
        let all: Vec<_> = all.collect();
        self.judged = all.len();
        let mut fitting = Vec::new();
        for (at, allowed, groups) in all {
            self.groups.push(groups);
            self.allowed.push(allowed);
            let class = table.class(at);
            let rank = || self.choice.as_ref().map_or(0, |choice| choice.rank(&class.ads));
            // What is liked most comes first, and then what fits best.
            fitting.extend(groups.map(|groups| {
                let order = (Reverse(rank()), preference(class, groups));
                (order, at, groups)
            }));
        }
        fitting.sort();
        self.class_bits = fitting.iter().fold(0, |bits, (_, at, _)| bits | at.bit());
        self.classes = fitting.into_iter().map(|(_, at, groups)| (at, groups)).collect();
    }

    /// For which kinds of a node's devices the requirements hold; all where there are none. The
    /// pilot is looked up only where nodes are told apart.
    pub(crate) fn allowed<'p>(
        &self,
        table: &NodeTable,
        at: NodeAt,
        pilot: impl FnOnce() -> Option<&'p Pilot>,
    ) -> Groups {
        let class_at = table.free(at).class;
        let is_per_node = self.per_node && self.could_use(class_at);
        let Some(choice) = self.choice.as_ref().filter(|_| is_per_node) else {
            return self.allowed.get(class_at.at()).copied().unwrap_or(0);
        };
        let (Some(node), Some(pilot)) = (table.identity(at), pilot()) else { return 0 };
        choice.kinds_of_node(node, pilot, &table.class(class_at).ads)
    }

    /// What a request and its requirements mean for one node: the kinds of its devices that may be
    /// used, none for who needs none; `None` when it could never run there, or not from `now` on
    /// before the node is taken back. Everybody who places, checks or explains asks this.
    pub(crate) fn on_node<'p>(
        &self,
        table: &NodeTable,
        (at, now): (NodeAt, Timestamp),
        pilot: impl FnOnce() -> Option<&'p Pilot>,
    ) -> Option<Groups> {
        let class_at = table.free(at).class;
        let groups = self.groups(class_at)?;
        if !table.has_time(at, self.at_most, now) {
            return None;
        }
        if !self.per_node {
            return Some(groups);
        }
        self.choose(table.class(class_at), self.allowed(table, at, pilot))
    }

    /// Whether the requirements leave too few of a class's devices, or none of its nodes.
    pub(crate) fn is_kept_out(&self, class: &Class, allowed: Groups) -> bool {
        self.choose(class, allowed).is_none()
    }

    /// Whether its tasks are to be in containers, and those fail there.
    pub(crate) fn is_kept_by_containers(&self, class: &Class) -> bool {
        self.in_container && class.containers_fail
    }

    /// Whether its tasks may be sent ahead of a free place: for them one node is like another.
    #[inline]
    pub(super) fn may_go_ahead(&self) -> bool {
        self.gpus == 0 && !self.named && self.choice.is_none() && !self.in_container
    }

    #[inline]
    pub(super) fn groups(&self, class: ClassAt) -> Option<Groups> {
        self.groups.get(class.at()).copied().flatten()
    }

    /// How many tasks an empty node of a class runs at a time, if it could run one.
    pub(crate) fn times_in(&self, class: &Class) -> u64 {
        let by_gpus = match self.gpus {
            0 => u64::MAX,
            _ if self.is_whole() => class.key.gpus() as u64 / u64::from(self.gpus),
            _ => class.key.gpus() as u64 * u64::from(GpuShare::WHOLE.0 / self.share.max(1)),
        };
        self.amounts.alike().times_in(&class.key.capacity.amounts()).min(by_gpus)
    }

    /// Whether it asks for whole devices, and not for a part of one.
    pub(super) fn is_whole(&self) -> bool {
        self.share == GpuShare::WHOLE.0
    }

    /// Whether nodes of this class could serve it when empty.
    pub(crate) fn could_use(&self, class: ClassAt) -> bool {
        self.groups(class).is_some()
    }

    /// Whether one more task fits, leaving aside what a site counts itself.
    #[inline]
    pub(super) fn fits(&self, free: &Free, groups: Groups) -> bool {
        self.amounts.fits(&free.amounts) && (self.gpus == 0 || self.gpus_fit(free, groups))
    }

    /// How many things are short on a node, and by how many thousandths of what is wanted in all.
    /// What a site counts itself is left aside: it is named when it comes to it.
    pub(crate) fn shortage(&self, groups: Groups, free: &Free) -> (u32, u64) {
        let matched = free.groups().enumerate().filter(|(at, _)| groups & bit(*at) != 0);
        let gpus: u32 =
            matched.map(|(_, group)| group.whole + u32::from(group.part >= self.share)).sum();
        let counted = Kind::ALL.map(|kind| (self.amounts.get(kind), free.amounts.get(kind)));
        let all = counted.into_iter().chain([(u64::from(self.gpus), u64::from(gpus))]);
        let mut short = (0, 0);
        for (wanted, free) in all.filter(|(wanted, free)| wanted > free) {
            short.0 += 1;
            short.1 += thousandths(wanted - free, wanted);
        }
        short
    }

    /// Whether it would get a part of a device that is in use already.
    pub(super) fn fits_in_part(&self, free: &Free) -> bool {
        let groups = self.groups(free.class).unwrap_or(0);
        let mut matched = free.groups().enumerate().filter(|(at, _)| groups & bit(*at) != 0);
        self.gpus > 0 && !self.is_whole() && matched.any(|(_, group)| group.part >= self.share)
    }

    fn gpus_fit(&self, free: &Free, groups: Groups) -> bool {
        if self.is_whole() && free.whole < self.gpus {
            return false; // Nearly always; what there is of each kind is farther away.
        }
        let matched = free.groups().enumerate().filter(|(at, _)| groups & bit(*at) != 0);
        let mut groups = matched.map(|(_, group)| group);
        if !self.is_whole() {
            return groups.any(|group| group.whole > 0 || group.part >= self.share);
        }
        groups.map(|group| group.whole).sum::<u32>() >= self.gpus
    }
}

/// Whether an empty node of this class has enough of what is no device. What is each node's own is
/// left aside.
fn is_large_enough(need: &Resources, class: &Class) -> bool {
    let has = &class.key.capacity;
    let named =
        |(name, wanted): (&String, &u64)| has.named.get(name).is_some_and(|has| wanted <= has);
    need.amounts().alike().fits(&has.amounts()) && need.named.iter().all(named)
}

/// Smaller is better: no devices for those who need none, then the least device that will do, then
/// few devices, then small nodes; so that the rare and the large stay free for who needs them.
fn preference(class: &Class, groups: Groups) -> (usize, u64, usize, u64) {
    let matched = class.examples.iter().enumerate().filter(|(at, _)| groups & bit(*at) != 0);
    let memory = matched.map(|(_, (example, _))| example.memory.0).min();
    let capacity = &class.key.capacity;
    let needless = if groups == 0 { class.key.gpus() } else { 0 };
    (needless, memory.unwrap_or(0), class.key.gpus(), capacity.cpus.milli)
}
