//! Files that travel: what is offered, what is wanted of it, and what has come back.

use serde::{Deserialize, Serialize};
use shipway_model::limits::MAX_TRAVELLING;
use shipway_model::reading::list;
use shipway_model::{Attempt, Bytes, Digest, TaskId, TaskIndex, TravellingFile};
use utoipa::{IntoParams, ToSchema};

/// The contents of one folder, and the list of them.
const MOST_OFFERED: usize = MAX_TRAVELLING + 1;

/// How much of its files has gone to the node of a task, and how much they are. What the node had
/// already is not fetched, so it may begin before all have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Fetching {
    #[schema(value_type = u64)]
    pub sent: Bytes,
    #[schema(value_type = u64)]
    pub of: Bytes,
}

/// Contents that somebody could upload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FilesOffered {
    #[serde(deserialize_with = "list::<MOST_OFFERED, _, _>")]
    pub contents: Vec<ContentOffered>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ContentOffered {
    #[schema(value_type = String)]
    pub sha256: Digest,
    pub size: u64,
}

/// Those that this user has not uploaded before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FilesWanted {
    pub missing: Vec<ContentWanted>,
    /// What the user's files take here, and how much they may.
    #[schema(value_type = u64)]
    pub used: Bytes,
    #[schema(value_type = u64)]
    pub quota: Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ContentWanted {
    #[schema(value_type = String)]
    pub sha256: Digest,
    /// Bytes of it that have come already: the next piece begins there.
    pub have: u64,
}

/// What came of an upload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FilesTaken {
    /// Contents that are whole now.
    pub files: u64,
    pub bytes: u64,
}

/// Tasks of a job that have sent files back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobOutputs {
    pub tasks: Vec<TaskIndex>,
    /// Where the next page begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<TaskIndex>,
}

/// What one task has sent back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TaskOutputs {
    #[schema(value_type = String)]
    pub task: TaskId,
    pub attempt: Attempt,
    pub files: Vec<TravellingFile>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct OutputsQuery {
    /// The first task to list.
    pub from: Option<u64>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct OffsetQuery {
    /// Where to begin.
    pub offset: Option<u64>,
}
