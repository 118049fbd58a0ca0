//! What is free on one node, as plain numbers. Names that a site counts itself are looked up in the
//! pilot: few ask.

use super::nodes::ClassAt;
use crate::pilot::Pilot;
use crate::schedule::needs::Need;
use shipway_model::{Amounts, GpuDevice, GpuShare};

/// A line of the cache, so that a look at a node is one look at memory.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub struct Free {
    pub amounts: Amounts,
    /// Devices that nobody uses, over all kinds.
    pub whole: u32,
    /// Work waiting there beyond what it can run.
    pub unstarted: u32,
    /// Beside the numbers, because whoever compares them asks for it too.
    pub(in crate::schedule) class: ClassAt,
    /// Where the node stands in its class; `members.rs` keeps it true.
    pub(in crate::schedule) place: u32,
    /// Of the first kind of device of the node's class, which is nearly always the only one.
    first: Group,
    others: Box<[Group]>,
}

/// One device of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::schedule) struct Device {
    /// Its kind, by its place among those of the class.
    pub(in crate::schedule) kind: u32,
    /// How much of it is used.
    pub(in crate::schedule) used: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Group {
    pub whole: u32,
    /// The largest part that is left of a device in use.
    pub part: u32,
}

impl Free {
    /// All but the devices; see `count`.
    pub(in crate::schedule) fn amounts(pilot: &Pilot, class: ClassAt, kinds: usize) -> Free {
        Free {
            amounts: pilot.ad.capacity.amounts().minus(pilot.load.used.amounts),
            whole: 0,
            unstarted: pilot.unstarted,
            class,
            place: 0,
            first: Group::default(),
            others: vec![Group::default(); kinds.saturating_sub(1)].into_boxed_slice(),
        }
    }

    /// One more task is there; its devices are `count`'s.
    pub(in crate::schedule) fn take(&mut self, need: &Need) {
        self.amounts = self.amounts.minus(need.amounts);
        self.unstarted += 1;
    }

    /// What is left of these devices.
    pub(in crate::schedule) fn count(&mut self, devices: &[Device]) {
        self.first = Group::default();
        self.others.fill(Group::default());
        self.whole = 0;
        for Device { kind, used } in devices {
            let group = match (*kind as usize).checked_sub(1) {
                None => Some(&mut self.first),
                Some(other) => self.others.get_mut(other),
            };
            let Some(group) = group else { continue };
            if *used == 0 {
                group.whole += 1;
                self.whole += 1;
            } else {
                group.part = group.part.max(GpuShare::WHOLE.0.saturating_sub(*used));
            }
        }
    }

    /// Of each kind of device of the node's class.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Devices that nobody uses, and those with a part left.
    pub(in crate::schedule) fn devices(&self) -> u32 {
        self.whole + self.groups().map(|group| u32::from(group.part > 0)).sum::<u32>()
    }

    /// Whether there is more of anything than there was.
    pub(in crate::schedule) fn exceeds(&self, before: &Free) -> bool {
        let more = |(now, then): (&Group, &Group)| now.whole > then.whole || now.part > then.part;
        !self.amounts.fits(&before.amounts)
            || self.unstarted < before.unstarted
            || self.groups().zip(before.groups()).any(more)
    }
}

/// How much of each device is used, in the order of the node's ad.
pub(in crate::schedule) fn used(pilot: &Pilot) -> impl Iterator<Item = u32> {
    let used = |gpu: &GpuDevice| pilot.load.gpus.get(&gpu.id).map_or(0, |share| share.0);
    pilot.ad.gpus.iter().map(used)
}
