//! What of a node is in use, and whether a shape still fits. All integers.
//!
//! The same arithmetic is used by the plan, by its re-check, and by the invariants.

use crate::schedule::needs::{Groups, bit};
use serde::{Deserialize, Serialize};
use shipway_model::{Bytes, Cores, DeviceId, GpuShare, NodeAd, Quantity, Resources};
use std::collections::{BTreeMap, BTreeSet};

/// Which of a node's devices a task may be given: those of some kinds, where its requirements do
/// not hold for all.
#[derive(Debug, Clone, Copy)]
pub enum Usable<'a> {
    All,
    /// The kind of each device in the order of the node's ad, and the kinds, a bit each.
    Kinds(&'a [u32], Groups),
}

impl Usable<'_> {
    pub(crate) const NONE: Usable<'static> = Usable::Kinds(&[], 0);

    fn has(self, nth: usize) -> bool {
        match self {
            Usable::All => true,
            Usable::Kinds(kinds, groups) => {
                kinds.get(nth).is_some_and(|kind| groups & bit(*kind as usize) != 0)
            }
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    pub cpus: Cores,
    pub memory: Bytes,
    pub disk: Bytes,
    pub named: BTreeMap<String, u64>,
    pub gpus: BTreeMap<DeviceId, GpuShare>,
}

impl Load {
    pub fn add(&mut self, need: &Resources, devices: &[DeviceId]) {
        self.cpus.milli = self.cpus.milli.saturating_add(need.cpus.milli);
        self.memory.0 = self.memory.0.saturating_add(need.memory.0);
        self.disk.0 = self.disk.0.saturating_add(need.disk.0);
        for (name, amount) in &need.named {
            let used = self.named.entry(name.clone()).or_default();
            *used = used.saturating_add(*amount);
        }
        for device in devices {
            let share = need.gpu.as_ref().map_or(GpuShare::WHOLE, |gpu| gpu.share);
            let used = self.gpus.entry(device.clone()).or_insert(GpuShare(0));
            used.0 = used.0.saturating_add(share.0);
        }
    }

    pub fn remove(&mut self, need: &Resources, devices: &[DeviceId]) {
        self.cpus.milli = self.cpus.milli.saturating_sub(need.cpus.milli);
        self.memory.0 = self.memory.0.saturating_sub(need.memory.0);
        self.disk.0 = self.disk.0.saturating_sub(need.disk.0);
        for (name, amount) in &need.named {
            drop_to_zero(&mut self.named, name, *amount);
        }
        for device in devices {
            let share = need.gpu.as_ref().map_or(GpuShare::WHOLE, |gpu| gpu.share);
            if let Some(used) = self.gpus.get_mut(device) {
                used.0 = used.0.saturating_sub(share.0);
                if used.0 == 0 {
                    self.gpus.remove(device);
                }
            }
        }
    }

    /// The first thing that is missing for one more task of this need, as (wanted, free).
    pub fn lacks(
        &self,
        ad: &NodeAd,
        need: &Resources,
        usable: Usable<'_>,
    ) -> Option<(Quantity, Quantity)> {
        let has = &ad.capacity;
        let cpus = Cores { milli: has.cpus.milli.saturating_sub(self.cpus.milli) };
        if need.cpus > cpus {
            let quantity = |amount| Quantity::Cpus { amount };
            return Some((quantity(need.cpus), quantity(cpus)));
        }
        let memory = Bytes(has.memory.0.saturating_sub(self.memory.0));
        if need.memory > memory {
            let quantity = |amount| Quantity::Memory { amount };
            return Some((quantity(need.memory), quantity(memory)));
        }
        let disk = Bytes(has.disk.0.saturating_sub(self.disk.0));
        if need.disk > disk {
            let quantity = |amount| Quantity::Disk { amount };
            return Some((quantity(need.disk), quantity(disk)));
        }
        self.lacks_named(ad, need).or_else(|| self.lacks_gpus(ad, need, usable))
    }

    pub fn lacks_named(&self, ad: &NodeAd, need: &Resources) -> Option<(Quantity, Quantity)> {
        need.named.iter().find_map(|(name, wanted)| {
            let has = ad.capacity.named.get(name).copied().unwrap_or(0);
            let free = has.saturating_sub(self.named.get(name).copied().unwrap_or(0));
            let quantity = |amount| Quantity::Named { name: name.clone(), amount };
            (*wanted > free).then(|| (quantity(*wanted), quantity(free)))
        })
    }

    fn lacks_gpus(
        &self,
        ad: &NodeAd,
        need: &Resources,
        usable: Usable<'_>,
    ) -> Option<(Quantity, Quantity)> {
        let gpu = need.gpu.as_ref()?;
        let free = self.free_count(ad, need, usable);
        let quantity = |amount| Quantity::Gpus { amount, request: gpu.to_string() };
        (free < gpu.count).then(|| (quantity(gpu.count), quantity(free)))
    }

    /// How many devices one more task could choose from.
    pub fn free_count(&self, ad: &NodeAd, need: &Resources, usable: Usable<'_>) -> u32 {
        u32::try_from(self.free_devices(ad, need, usable).count()).unwrap_or(u32::MAX)
    }

    fn free_devices<'a>(
        &'a self,
        ad: &'a NodeAd,
        need: &'a Resources,
        usable: Usable<'a>,
    ) -> impl Iterator<Item = (u32, &'a DeviceId)> {
        need.gpu.iter().flat_map(move |gpu| {
            let usable = ad.gpus.iter().enumerate().filter(move |(nth, _)| usable.has(*nth));
            let matching = usable.map(|(_, device)| device).filter(|device| gpu.matches(device));
            matching.filter_map(move |device| {
                let used = self.gpus.get(&device.id).map_or(0, |share| share.0);
                let is_free = used.saturating_add(gpu.share.0) <= GpuShare::WHOLE.0;
                is_free.then_some((used, &device.id))
            })
        })
    }

    /// Whether exactly these devices are what one more task may be given now.
    pub fn may_take(
        &self,
        ad: &NodeAd,
        need: &Resources,
        usable: Usable<'_>,
        devices: &[DeviceId],
    ) -> bool {
        let count = need.gpu.as_ref().map_or(0, |gpu| gpu.count as usize);
        let free = self.free_devices(ad, need, usable).map(|(_, id)| id);
        let free: BTreeSet<&DeviceId> = free.collect();
        let wanted: BTreeSet<&DeviceId> = devices.iter().collect();
        devices.len() == count && wanted.len() == count && wanted.is_subset(&free)
    }

    /// The devices one more task gets; for shares the fullest that still fits, so that whole
    /// devices stay whole. Empty when it needs none.
    pub fn choose_devices(&self, ad: &NodeAd, need: &Resources) -> Vec<DeviceId> {
        let count = need.gpu.as_ref().map_or(0, |gpu| gpu.count as usize);
        let mut free: Vec<_> = self.free_devices(ad, need, Usable::All).collect();
        free.sort_by_key(|(used, id)| (std::cmp::Reverse(*used), *id));
        free.into_iter().take(count).map(|(_, id)| id.clone()).collect()
    }
}

fn drop_to_zero(map: &mut BTreeMap<String, u64>, name: &str, amount: u64) {
    if let Some(used) = map.get_mut(name) {
        *used = used.saturating_sub(amount);
        if *used == 0 {
            map.remove(name);
        }
    }
}
