//! What one task needs of a node. Integers in the type's unit; what is left out is not asked for.

use crate::amounts::{Amounts, Kind, Quantity};
use crate::gpu::GpuRequest;
use crate::limits::MAX_NAMED_RESOURCES;
use crate::reading::map;
use crate::units::{Bytes, Cores};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Resources {
    #[cfg_attr(feature = "schema", schema(value_type = f64))]
    pub cpus: Cores,
    #[serde(skip_serializing_if = "is_nothing")]
    pub memory: Bytes,
    #[serde(skip_serializing_if = "is_nothing")]
    pub disk: Bytes,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuRequest>,
    /// Things a site counts itself, such as licences.
    #[serde(
        deserialize_with = "map::<MAX_NAMED_RESOURCES, _, _>",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub named: BTreeMap<String, u64>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_nothing(bytes: &Bytes) -> bool {
    bytes.0 == 0
}

impl Resources {
    /// The keys of a job file.
    pub const KEYS: &[&str] = &["cpus", "memory", "disk", "gpu", "named"];

    #[inline]
    pub fn amounts(&self) -> Amounts {
        Amounts::of(|kind| match kind {
            Kind::Cpus => self.cpus.milli,
            Kind::Memory => self.memory.0,
            Kind::Disk => self.disk.0,
        })
    }

    /// The same with another amount of one thing.
    #[must_use]
    pub fn with(mut self, quantity: &Quantity) -> Resources {
        match quantity {
            Quantity::Cpus { amount } => self.cpus = *amount,
            Quantity::Memory { amount } => self.memory = *amount,
            Quantity::Disk { amount } => self.disk = *amount,
            Quantity::Gpus { amount, .. } => {
                if let Some(gpu) = &mut self.gpu {
                    gpu.count = *amount;
                }
            }
            Quantity::Named { name, amount } => {
                self.named.insert(name.clone(), *amount);
            }
            // Not a resource: the time limit is the job's.
            Quantity::Time { .. } => {}
        }
        self
    }
}

impl Default for Resources {
    fn default() -> Self {
        Resources {
            cpus: Cores::whole(1),
            memory: Bytes(0),
            disk: Bytes(0),
            gpu: None,
            named: BTreeMap::new(),
        }
    }
}
