//! Node classes: nodes that are alike to the matcher, with a name people understand.

use crate::pilot::Pilot;
use crate::state::State;
use shipway_model::{Capacity, GpuDevice, PilotId, Quantity};
use std::collections::BTreeMap;

/// What makes nodes alike: all they have, but for the ids of their devices.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassKey {
    capacity: Capacity,
    gpus: Vec<GpuKind>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct GpuKind {
    model: String,
    memory: shipway_model::Bytes,
    capability: Option<shipway_model::gpu::Version>,
    driver: Option<shipway_model::gpu::Version>,
    slice: Option<String>,
}

pub fn class_of(pilot: &Pilot) -> ClassKey {
    let kind = |gpu: &GpuDevice| GpuKind {
        model: gpu.model.clone(),
        memory: gpu.memory,
        capability: gpu.capability.clone(),
        driver: gpu.driver.clone(),
        slice: gpu.slice.clone(),
    };
    let mut gpus: Vec<GpuKind> = pilot.ad.gpus.iter().map(kind).collect();
    gpus.sort();
    // Free disk differs from node to node by a little; it is compared per node, not per class.
    let capacity = Capacity { disk: shipway_model::Bytes(0), ..pilot.ad.capacity.clone() };
    ClassKey { capacity, gpus }
}

/// Connected pilots by class, in a fixed order.
pub fn connected(state: &State) -> BTreeMap<ClassKey, Vec<&PilotId>> {
    let mut classes: BTreeMap<ClassKey, Vec<&PilotId>> = BTreeMap::new();
    for (id, pilot) in state.pilots().iter().filter(|(_, pilot)| pilot.is_connected()) {
        classes.entry(class_of(pilot)).or_default().push(id);
    }
    classes
}

impl ClassKey {
    /// `8 cores, 32GB, 2 × NVIDIA A100`
    pub fn describe(&self) -> String {
        let mut parts = vec![
            Quantity::Cpus { amount: self.capacity.cpus }.to_string(),
            format!("{} of memory", self.capacity.memory),
        ];
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
        parts.join(", ")
    }
}
