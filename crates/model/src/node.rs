//! What a node has, as its pilot advertises it.

use crate::amounts::{Amounts, Kind};
use crate::gpu::GpuDevice;
use crate::ids::NodeName;
use crate::people::People;
use crate::reading::{list, map};
use crate::units::{Bytes, Cores, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// GPUs of one node, slices of them included: sixteen in seven parts are a fraction.
pub const MAX_DEVICES: usize = 4_096;
/// What a pilot may say of its node beyond that.
pub const MAX_ATTRIBUTES: usize = 1_000;
pub const MAX_REMARKS: usize = 10_000;

/// The attribute by which a node that is only lent says when its site takes it back: seconds since
/// 1970. It is the node's own, and does not make it another kind of node.
pub const ALLOCATION_ENDS: &str = "AllocationEnds";

/// The countable part of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Capacity {
    #[cfg_attr(feature = "schema", schema(value_type = f64))]
    pub cpus: Cores,
    pub memory: Bytes,
    pub disk: Bytes,
    #[serde(
        default,
        deserialize_with = "map::<MAX_ATTRIBUTES, _, _>",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub named: BTreeMap<String, u64>,
}

impl NodeAd {
    /// When its site takes the node back, if it is only lent and says so.
    pub fn allocation_ends(&self) -> Option<Timestamp> {
        let seconds: u64 = self.attributes.get(ALLOCATION_ENDS)?.trim().parse().ok()?;
        Some(Timestamp(seconds.saturating_mul(1_000)))
    }
}

impl Capacity {
    pub fn of(amounts: Amounts) -> Capacity {
        let (cpus, memory, disk) = (amounts.cpus(), amounts.memory(), amounts.disk());
        Capacity { cpus, memory, disk, named: BTreeMap::new() }
    }

    #[inline]
    pub fn amounts(&self) -> Amounts {
        Amounts::of(|kind| match kind {
            Kind::Cpus => self.cpus.milli,
            Kind::Memory => self.memory.0,
            Kind::Disk => self.disk.0,
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NodeAd {
    pub node: NodeName,
    pub capacity: Capacity,
    #[serde(
        default,
        deserialize_with = "list::<MAX_DEVICES, _, _>",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub gpus: Vec<GpuDevice>,
    /// What else is known of it, as ClassAd expressions by name: `HasAVX2` is `true`.
    #[serde(
        default,
        deserialize_with = "map::<MAX_ATTRIBUTES, _, _>",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub attributes: BTreeMap<String, String>,
    /// What the probe could not do and whoever asks should know (no NVML, say).
    #[serde(
        default,
        deserialize_with = "list::<MAX_REMARKS, _, _>",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub notes: Vec<String>,
    /// Why nothing may run here, when the node failed its proof. Nothing is placed then.
    #[serde(
        default,
        deserialize_with = "list::<MAX_REMARKS, _, _>",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub unfit: Vec<String>,
    /// GPUs that are there and are not offered.
    #[serde(
        default,
        deserialize_with = "list::<MAX_DEVICES, _, _>",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub withheld: Vec<Withheld>,
    /// How tasks of different people are kept apart; unknown of pilots that do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub people: Option<People>,
}

/// A GPU that no task is given, because it has not proven that it works.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Withheld {
    pub gpu: GpuDevice,
    /// What people call it on the node: `GPU 0`.
    pub name: String,
    /// How it failed. Without it, the proof has not ended yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Some(why) => write!(f, "{} failed its proof: {why}", self.name),
            None => write!(f, "{} is being proven", self.name),
        }
    }
}

impl NodeAd {
    /// All that whoever looks at the node should read, the gravest first.
    pub fn remarks(&self) -> Vec<String> {
        let unfit = self.unfit.iter().map(|why| format!("not fit: {why}"));
        let withheld = self.withheld.iter().map(ToString::to_string);
        unfit.chain(withheld).chain(self.notes.iter().cloned()).collect()
    }
}
