//! What a node has, as its pilot advertises it.

use crate::gpu::GpuDevice;
use crate::ids::NodeName;
use crate::units::{Bytes, Cores};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The countable part of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Capacity {
    #[cfg_attr(feature = "schema", schema(value_type = f64))]
    pub cpus: Cores,
    pub memory: Bytes,
    pub disk: Bytes,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub named: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NodeAd {
    pub node: NodeName,
    pub capacity: Capacity,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuDevice>,
    /// What the probe could not do and whoever asks should know (no NVML, say).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}
