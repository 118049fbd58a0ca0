//! What the API's requests and answers look like.
//!
//! Views are what people see; they are made from the state and from history by the server and
//! rendered by the command line and the page.

mod files;
mod gpus;
mod sites;
mod usage;

pub use files::{
    ContentOffered, ContentWanted, Fetching, FilesOffered, FilesTaken, FilesWanted, JobOutputs,
    OffsetQuery, OutputsQuery, TaskOutputs,
};
pub use gpus::{GpuQuery, GpusThere, PendingPilots, SiteGpuList, SiteGpus};
pub use sites::{
    AllocationView, Draining, EndedAllocationView, RemovedSite, SiteChangeView, SiteClassView,
    SiteFindingView, SiteList, SiteNodeGroup, SiteNodesView, SiteTroubleView, SiteView,
};
pub use usage::{AdviceView, SeriesQuery, SeriesView};

use crate::together::{MAX_TOGETHER, Named};
use serde::{Deserialize, Serialize};
use shipway_model::limits::{MAX_DEPENDENCIES, MAX_LABELS, MAX_SELECTED};
use shipway_model::prospect::Prospect;
use shipway_model::reading::{list, map};
use shipway_model::{
    AfterNamed, Attempt, Capacity, GpuDevice, JobCounts, JobId, JobSpec, JobState, Millis, NodeAd,
    NodeName, Outcome, PilotId, Reason, Role, SiteName, TaskId, TaskIndex, TaskState, Timestamp,
    Usage, UserName,
};
use std::collections::BTreeMap;
use utoipa::ToSchema;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobView {
    pub id: JobId,
    pub owner: UserName,
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub state: JobState,
    pub counts: JobCounts,
    pub tasks: u32,
    pub is_array: bool,
    pub priority: i32,
    pub submitted: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// How its one task ended, or the first that failed; for `run` and `wait` to exit with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// The last attempt at its one task, when it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_attempt: Option<Attempt>,
    /// Why it does not run, when it waits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
    /// Why its event log is not written. Only in the answer about one job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_log_problem: Option<String>,
    /// Only in the answer about one job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<Box<JobSpec>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobPage {
    pub jobs: Vec<JobView>,
    /// Ask with `before=` this for the next, older page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<JobId>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields, default)]
pub struct JobQuery {
    /// Only jobs older than this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// `KEY=VALUE[,KEY=VALUE…]`
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^[^=,]*=[^,]*(,[^=,]*=[^,]*)*$")]
    pub label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(inline)]
    pub state: Option<JobState>,
    /// Operators may ask for one user's jobs or, with `*`, everybody's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    pub spec: JobSpec,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Submitted {
    pub id: JobId,
    /// The key had been used before: this is the job it made then.
    pub repeated: bool,
}

/// Jobs that are taken together, or none of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Together {
    /// In any order.
    #[serde(deserialize_with = "list::<MAX_TOGETHER, _, _>")]
    pub jobs: Vec<Member>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Member {
    pub spec: JobSpec,
    /// Jobs of the same request that have to end first, by their names: `NAME`, `NAME:ok`,
    /// `NAME:failed` or `NAME:any`. Others are named by their ids in the specification.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(deserialize_with = "list::<MAX_DEPENDENCIES, _, _>")]
    #[schema(value_type = Vec<String>)]
    pub after: Vec<AfterNamed>,
}

impl Member {
    pub fn named(&self) -> Named<'_> {
        Named { name: &self.spec.name, after: &self.after }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SubmittedTogether {
    /// In the order of the request.
    pub ids: Vec<JobId>,
    /// The key had been used before: these are the jobs it made then.
    pub repeated: bool,
}

/// What would happen to a job that is not submitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DryRun {
    pub tasks: u32,
    /// The specification with every default filled in.
    pub spec: JobSpec,
    /// The command of the first task, as it would be started.
    pub first_command: Vec<String>,
    /// Why its first task could not start right now; empty when it could.
    pub reasons: Vec<Reason>,
    pub prospect: Prospect,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TaskView {
    #[schema(value_type = String)]
    pub id: TaskId,
    pub state: TaskState,
    /// The newest attempt; 0 before the first.
    pub attempt: Attempt,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
    /// The batch system that lends the node, while the task is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub site: Option<SiteName>,
    /// While its node fetches the files that it comes with: how far that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetching: Option<Fetching>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// What its newest attempt has used: so far, where it runs, and as its pilot says now and then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What could be asked for instead, when that attempt has shown it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<AdviceView>,
    /// Attempts that have ended, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<AttemptView>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AttemptView {
    pub attempt: Attempt,
    pub outcome: Outcome,
    pub node: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    pub ended: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<AdviceView>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TaskPage {
    pub tasks: Vec<TaskView>,
    /// Ask with `from=` this for the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields, default)]
pub struct TaskQuery {
    /// Position of the first task of the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(inline)]
    pub state: Option<TaskState>,
}

/// Which tasks of which jobs to cancel or retry: named jobs or tasks, or all that match.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Selection {
    #[serde(
        deserialize_with = "list::<MAX_SELECTED, _, _>",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub jobs: Vec<JobId>,
    #[serde(
        deserialize_with = "list::<MAX_SELECTED, _, _>",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schema(value_type = Vec<String>)]
    pub tasks: Vec<TaskId>,
    #[serde(
        deserialize_with = "map::<MAX_LABELS, _, _>",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub labels: BTreeMap<String, String>,
    /// Only tasks in this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<TaskState>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Acted {
    pub jobs: Vec<JobId>,
    pub tasks: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Why {
    pub job: JobId,
    pub state: JobState,
    pub reasons: Vec<Reason>,
    /// What would change it, and when it may start; only while something of it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prospect: Option<Prospect>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields, default)]
pub struct WaitQuery {
    /// Give up after this many seconds and answer with the job as it is (at most 60).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields, default)]
pub struct LogQuery {
    /// `stdout` (default) or `stderr`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^(stdout|stderr)$")]
    pub stream: Option<String>,
    /// The newest one when not named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Go on until the attempt has ended; wait for its start if need be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follow: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeView {
    pub pilot: PilotId,
    /// What the node goes by here: its host's name, with a number where other pilots share that.
    pub name: NodeName,
    /// Who supplied it: a batch system by its name, `this-machine`, or `by-hand`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub site: Option<SiteName>,
    /// Which kind of pilots of its site it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    pub ad: NodeAd,
    /// `connected`, `leaving` (takes nothing more), `unfit` (failed its proof), `away` or `lost`.
    pub link: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub away_since: Option<Timestamp>,
    pub running: u32,
    pub backlog: u32,
    /// What its tasks hold of its capacity.
    pub used: Capacity,
    pub gpus: Vec<GpuView>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GpuView {
    pub device: GpuDevice,
    /// Ten-thousandths in use.
    pub used: u32,
    /// Tasks that hold it or a share of it, as far as the asking person may see their jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub tasks: Vec<TaskId>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeList {
    pub nodes: Vec<NodeView>,
}

/// What a pilot that is started by hand or by a batch system is let in with; shown once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct IssuedPilot {
    pub pilot: PilotId,
    pub token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
pub struct NewPilot {
    /// How long its token is good for: 30 days unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>)]
    pub lasts: Option<Millis>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UserView {
    pub user: UserName,
    pub role: Role,
    /// The user's part of the machines when others want them too, against the others' parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<u32>,
    /// What the user has used, with the past counting less and less. Given in answers only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_core_seconds: Option<u64>,
}

/// A user's new share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewShare {
    pub share: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RegistryList {
    pub registries: Vec<RegistryView>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RegistryView {
    pub host: String,
    /// The name one is known by there.
    pub user: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AddedUser {
    pub user: UserName,
    pub role: Role,
    /// The user was there before, in the same role: nothing has changed.
    #[serde(default)]
    pub existed: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UserList {
    pub users: Vec<UserView>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields, default)]
pub struct RemoveQuery {
    /// Who gets what the user has not finished; it is cancelled when nobody is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub give_jobs_to: Option<UserName>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RemovedUser {
    pub removed: UserName,
    /// Jobs that had not ended and will not.
    pub cancelled_jobs: u64,
    /// Jobs that had not ended and are somebody else's now.
    pub given_jobs: u64,
    /// Who is left.
    pub users: Vec<UserView>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// Whose token; one's own when not named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserName>,
    #[serde(default)]
    pub note: String,
    /// How long it is good for; 30 days when not named, a year at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub lasts: Option<Millis>,
}

/// Shown once: the server keeps only a hash.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct IssuedToken {
    pub id: String,
    pub secret: String,
    pub user: UserName,
    pub expires: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TokenView {
    pub id: String,
    pub user: UserName,
    pub note: String,
    pub expires: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TokenList {
    pub tokens: Vec<TokenView>,
    /// For admins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pilots: Vec<PilotTokenView>,
}

/// What lets one pilot in; revoked by its pilot's id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PilotTokenView {
    pub pilot: PilotId,
    /// Whether it is for the pilot of the server's own machine.
    pub this_machine: bool,
    /// It ends with its pilot where this is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// Whether a pilot has come with it; then it is good in that pilot's folder alone.
    pub used: bool,
    /// Where that pilot is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<shipway_model::NodeName>,
}

/// One line of the live view: what changed, small enough to send to everybody who may see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum LiveEvent {
    JobSubmitted {
        job: JobId,
    },
    TasksPlaced {
        job: JobId,
        tasks: Vec<TaskIndex>,
        node: Option<NodeName>,
    },
    TasksStarted {
        job: JobId,
        tasks: Vec<TaskIndex>,
    },
    TaskEnded {
        job: JobId,
        task: TaskIndex,
        attempt: Attempt,
        outcome: Outcome,
        state: TaskState,
        /// What could be asked for instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        advice: Option<Box<AdviceView>>,
    },
    TasksCancelled {
        job: JobId,
    },
    TasksRequeued {
        job: JobId,
    },
    JobEnded {
        job: JobId,
        state: JobState,
    },
    NodeChanged {
        pilot: PilotId,
        link: String,
    },
    /// Events were missed; ask for the state anew.
    Reset,
}

/// What a relay asks the server before it gives a pilot anything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TicketJudged {
    /// A pilot made it that the server lets in now.
    pub good: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    pub ok: bool,
    /// What is wrong, when something is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    pub version: String,
}
