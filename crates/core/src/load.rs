//! What of a node is in use, and whether a shape still fits: what is counted by `model/counts.rs`,
//! and devices, of which each is one of its own, here.
//!
//! The same arithmetic is used by the plan, by its re-check, and by the invariants.

use crate::schedule::needs::{Groups, bit};
use serde::{Deserialize, Serialize};
use shipway_model::{Counts, DeviceId, GpuShare, NodeAd, Quantity, Resources};
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
    #[serde(flatten)]
    pub used: Counts,
    pub gpus: BTreeMap<DeviceId, GpuShare>,
}

impl Load {
    pub fn add(&mut self, need: &Resources, devices: &[DeviceId]) {
        self.used.add(need);
        for device in devices {
            let used = self.gpus.entry(device.clone()).or_insert(GpuShare(0));
            used.0 = used.0.saturating_add(share(need));
        }
    }

    pub fn remove(&mut self, need: &Resources, devices: &[DeviceId]) {
        self.used.take(need);
        for device in devices {
            let Some(used) = self.gpus.get_mut(device) else { continue };
            used.0 = used.0.saturating_sub(share(need));
            if used.0 == 0 {
                self.gpus.remove(device);
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
        self.used.lacks(&ad.capacity, need).or_else(|| self.lacks_gpus(ad, need, usable))
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
    pub fn choose_devices(
        &self,
        ad: &NodeAd,
        need: &Resources,
        usable: Usable<'_>,
    ) -> Vec<DeviceId> {
        let count = need.gpu.as_ref().map_or(0, |gpu| gpu.count as usize);
        let mut free: Vec<_> = self.free_devices(ad, need, usable).collect();
        free.sort_by_key(|(used, id)| (std::cmp::Reverse(*used), *id));
        free.into_iter().take(count).map(|(_, id)| id.clone()).collect()
    }
}

/// Of each device.
fn share(need: &Resources) -> u32 {
    need.gpu.as_ref().map_or(GpuShare::WHOLE, |gpu| gpu.share).0
}
