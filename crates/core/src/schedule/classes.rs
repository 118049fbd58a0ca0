//! Node classes: nodes that are alike to the matcher, with a name people understand.

use crate::pilot::Pilot;
use shipway_model::gpu::Version;
use shipway_model::node::ALLOCATION_ENDS;
use shipway_model::{
    Bytes, Capacity, DeviceId, GpuDevice, GpuSource, GpuVendor, Kind, Millis, SiteName,
};
use std::collections::BTreeMap;

/// What makes nodes alike: all they have, but for the ids of their devices.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassKey {
    pub capacity: Capacity,
    gpus: Vec<GpuKind>,
    /// What else the pilot says of the node, for requirements.
    pub(crate) attributes: BTreeMap<String, String>,
    /// The batch system that they are of: not every job may go there.
    pub site: Option<SiteName>,
    /// How long guests have to leave it; none are let in where nothing is said.
    pub guests: Option<Millis>,
}

/// What makes devices alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GpuKind {
    model: String,
    memory: Bytes,
    vendor: GpuVendor,
    source: GpuSource,
    capability: Option<Version>,
    driver: Option<Version>,
    slice: Option<String>,
}

impl GpuKind {
    pub(super) fn of(gpu: &GpuDevice) -> GpuKind {
        GpuKind {
            model: gpu.model.clone(),
            memory: gpu.memory,
            vendor: gpu.vendor,
            source: gpu.source,
            capability: gpu.capability.clone(),
            driver: gpu.driver.clone(),
            slice: gpu.slice.clone(),
        }
    }

    /// A device of this kind, to be asked whether a request matches it.
    #[expect(clippy::expect_used, reason = "the id is written here")]
    pub(super) fn example(&self) -> GpuDevice {
        GpuDevice {
            id: DeviceId::new("example").expect("a good id"),
            model: self.model.clone(),
            memory: self.memory,
            vendor: self.vendor,
            source: self.source,
            capability: self.capability.clone(),
            driver: self.driver.clone(),
            slice: self.slice.clone(),
        }
    }
}

pub fn class_of(pilot: &Pilot) -> ClassKey {
    let mut gpus: Vec<GpuKind> = pilot.ad.gpus.iter().map(GpuKind::of).collect();
    gpus.sort();
    let has = &pilot.ad.capacity;
    let capacity = Capacity { named: has.named.clone(), ..Capacity::of(has.amounts().alike()) };
    let mut attributes = pilot.ad.attributes.clone();
    // No two allocations end in the same second, and they are alike all the same.
    attributes.remove(ALLOCATION_ENDS);
    let guests = pilot.guests.filter(|_| !gpus.is_empty());
    ClassKey { capacity, gpus, attributes, site: pilot.site.clone(), guests }
}

impl ClassKey {
    pub fn gpus(&self) -> usize {
        self.gpus.len()
    }

    /// Each kind of device once, with how many there are.
    pub(super) fn kinds(&self) -> BTreeMap<GpuKind, u32> {
        let mut kinds = BTreeMap::new();
        for gpu in &self.gpus {
            *kinds.entry(gpu.clone()).or_default() += 1;
        }
        kinds
    }

    /// `8 cores, 32GB, 2 × NVIDIA A100`, and ` at SITE` where it is of a batch system.
    pub fn describe(&self) -> String {
        let (alike, has) = (|kind: &Kind| !kind.row().is_nodes_own, self.capacity.amounts());
        let counted = Kind::ALL.into_iter().filter(alike);
        let counted = counted.map(|kind| kind.quantity(has.get(kind)).to_string());
        let mut parts: Vec<String> = counted.collect();
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for gpu in &self.gpus {
            let slice = gpu.slice.as_deref().map(|slice| format!(" {slice}")).unwrap_or_default();
            *counts.entry(format!("{}{slice}", gpu.model)).or_default() += 1;
        }
        parts.extend(counts.iter().map(|(model, count)| format!("{count} × {model}")));
        if counts.is_empty() {
            parts.push("no GPU".into());
        }
        let named = self.capacity.named.iter();
        parts.extend(named.map(|(name, amount)| format!("{amount} {name}")));
        let at = self.site.as_ref().map(|site| format!(" at {site}")).unwrap_or_default();
        format!("{}{at}", parts.join(", "))
    }
}
