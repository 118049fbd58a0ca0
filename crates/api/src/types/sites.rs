//! Sites that are batch systems, as people see them.

use serde::{Deserialize, Serialize};
use shipway_model::{
    AllocationEnd, AllocationId, BatchKind, EngineTrouble, Millis, NodeName, SiteLimits, SiteName,
    SiteSpec, Timestamp, UserName,
};
use utoipa::ToSchema;

/// A site, which is a batch system, and what we have there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SiteView {
    #[schema(value_type = String)]
    pub name: SiteName,
    pub kind: BatchKind,
    /// `open`, `draining` or `in trouble`.
    pub state: String,
    pub classes: Vec<SiteClassView>,
    /// What stands in the way of asking it, by the words of its batch system.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub troubles: Vec<SiteTroubleView>,
    /// Pilots that had other than was asked for, the last one of each class: the site's file is
    /// wrong, or the batch system is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<SiteFindingView>,
    pub limits: SiteLimits,
    /// How long a pilot is asked for: jobs with a longer time limit do not go there.
    #[serde(default)]
    #[schema(value_type = String)]
    pub wall: Millis,
    /// Folders that mean the same there: jobs that name others do not go there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared: Vec<String>,
    /// What jobs can ask for with `--tag`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Tags too, and only jobs that ask for all of them go there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_tags: Vec<String>,
    /// What is there or asked for.
    pub allocations: Vec<AllocationView>,
    /// What is over, the newest last.
    pub ended: Vec<EndedAllocationView>,
    /// When its batch system last answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard: Option<Timestamp>,
    /// The nodes that its batch system has, when that was last asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<SiteNodesView>,
    /// What was done to it and by whom, the newest last, for those who keep sites: its beginning,
    /// and the last ninety-nine others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<SiteChangeView>,
    /// Its file, for those who keep sites.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<SiteSpec>,
}

/// One kind of pilots of a site.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SiteClassView {
    pub name: String,
    /// What one of them has, as people read it.
    pub has: String,
    /// As many may be there.
    pub most: u32,
    /// So many come together, on the nodes of one allocation.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schema(default = 1)]
    pub nodes: u32,
    /// Pilots that are to come, and the nodes of all allocations that run: an allocation keeps its
    /// nodes as long as it lasts.
    pub pending: u32,
    pub running: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SiteTroubleView {
    /// Of one kind of pilots; nothing: of the site.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub class: String,
    pub kind: EngineTrouble,
    pub words: String,
    pub since: Timestamp,
    /// It is tried again then.
    pub until: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SiteFindingView {
    pub class: String,
    /// Where the pilot was.
    #[schema(value_type = String)]
    pub node: NodeName,
    pub words: String,
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SiteChangeView {
    pub at: Timestamp,
    /// Nobody is named of what was done by a server that did not write it down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub by: Option<UserName>,
    /// `added`, `changed`, `drained` or `resumed`.
    pub what: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AllocationView {
    #[schema(value_type = String)]
    pub allocation: AllocationId,
    pub class: String,
    /// `asked`, `queued`, `held`, `running`, `given up` or `ended`.
    pub phase: String,
    pub since: Timestamp,
    /// What the batch system calls it, and its words for how it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_id: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub words: String,
    /// How many nodes it has, with a pilot on each.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schema(default = 1)]
    pub pilots: u32,
    /// The nodes of those of its pilots that are there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub nodes: Vec<NodeName>,
}

fn one() -> u32 {
    1
}
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
fn is_one(pilots: &u32) -> bool {
    *pilots == 1
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EndedAllocationView {
    #[schema(value_type = String)]
    pub allocation: AllocationId,
    pub class: String,
    pub end: AllocationEnd,
    pub words: String,
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SiteNodesView {
    pub seen: Timestamp,
    pub groups: Vec<SiteNodeGroup>,
}

/// Alike nodes of one partition, as the batch system has them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SiteNodeGroup {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    pub count: u32,
    pub up: u32,
    pub idle: u32,
    /// What each has, as people read it.
    pub has: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub down: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SiteList {
    pub sites: Vec<SiteView>,
}

/// Whether nothing new is to go to a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Draining {
    pub draining: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RemovedSite {
    #[schema(value_type = String)]
    pub removed: SiteName,
}
