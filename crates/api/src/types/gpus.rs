//! GPUs that batch systems would give, as people see them.

use serde::{Deserialize, Serialize};
use shipway_model::reason::SiteWait;
use shipway_model::{BatchKind, ClassGpus, SiteName, Timestamp};
use utoipa::ToSchema;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
pub struct GpuQuery {
    /// GPUs as one task would ask for them, in the short form: `A100:40GB..:2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
}

/// Every kind of pilots with GPUs, of all sites that are batch systems.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SiteGpuList {
    pub classes: Vec<SiteGpus>,
}

/// One kind of pilots that have GPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SiteGpus {
    #[schema(value_type = String)]
    pub site: SiteName,
    pub kind: BatchKind,
    pub class: String,
    /// What each pilot has, as the site's file says.
    pub gpus: ClassGpus,
    /// Pilots that are there.
    pub running: u32,
    /// Pilots that are asked for and have not come, by what the batch system says of them.
    pub pending: Vec<PendingPilots>,
    /// Pilots that could be asked for beyond those now, by every limit of the site's file; none
    /// while the site or the class rests.
    pub room: u32,
    /// When the batch system last answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard: Option<Timestamp>,
    /// What the batch system says that it has of such GPUs, where it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub there: Option<GpusThere>,
    /// For a request: whether a pilot of this kind could run it. Not said where it took too long to
    /// find out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub would_do: Option<bool>,
    /// For a request: what keeps it out, or else how it stands with asking for a pilot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<SiteWait>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PendingPilots {
    pub pilots: u32,
    /// When the first of them was asked for.
    pub since: Timestamp,
    /// The batch system's own words for them; none before it has said anything.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub words: String,
}

/// GPUs of the nodes of one partition that are what a class asks for, by the batch system's words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GpusThere {
    /// When it said so.
    pub seen: Timestamp,
    pub nodes: u32,
    /// Nodes that take jobs.
    pub up: u32,
    /// Nodes on which nothing runs.
    pub idle: u32,
    /// Of all these nodes.
    pub gpus: u32,
    /// Of the idle ones: of the others it does not say how many are free.
    pub gpus_idle: u32,
}
