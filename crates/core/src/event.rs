//! Facts, the only thing journaled. Written once, read by every later version.
//!
//! The encoding is JSON with a version in each record. A field may be added with a default; a
//! changed meaning needs a new version and a step in `upgrade`. The snapshot test beside this file
//! holds every event's encoding still.

use crate::command::{PilotJoined, Token};
use crate::job::JobRecord;
use crate::ordinals::Ordinals;
use crate::pilot_token::Allocation;
use serde::{Deserialize, Serialize};
use shipway_model::{
    Attempt, DeviceId, JobId, JobSpec, JobState, Millis, NodeAd, NodeName, Outcome, PilotId, Role,
    TaskId, Timestamp, UserName, UserNumber,
};

/// The version this binary writes.
pub const EVENT_VERSION: u32 = 1;

/// An event with the time it was decided at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    pub v: u32,
    pub at: Timestamp,
    #[serde(flatten)]
    pub event: Event,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    ServerStarted,
    JobSubmitted(Box<Submitted>),
    /// A job waited for has ended in the way that was asked for.
    DependencyMet {
        job: JobId,
        on: JobId,
    },
    TasksPlaced {
        pilot: PilotId,
        tasks: Vec<Placement>,
    },
    AttemptsStarted {
        tasks: Vec<(TaskId, Attempt, Timestamp)>,
    },
    AttemptEnded(Box<AttemptEnded>),
    /// The wait before another try is over.
    TasksReady {
        tasks: Vec<TaskId>,
    },
    /// Waiting tasks that will not run.
    TasksCancelled {
        job: JobId,
        which: Which,
        why: CancelReason,
    },
    /// Active tasks that were asked to stop.
    StopRequested {
        tasks: Vec<TaskId>,
    },
    /// Ended tasks that are to run again, at a person's wish.
    TasksRequeued {
        job: JobId,
        tasks: Ordinals,
    },
    JobEnded {
        job: JobId,
        state: JobState,
    },
    /// A job came back from history because a person retries it.
    JobRevived {
        record: Box<JobRecord>,
    },
    JobsArchived {
        jobs: Vec<JobId>,
    },
    PilotJoined(Box<Joined>),
    PilotAway {
        pilot: PilotId,
    },
    /// It is in touch and finishes what it runs, but takes nothing more.
    PilotLeaving {
        pilot: PilotId,
    },
    /// Not heard of for so long that people should know.
    PilotLost {
        pilot: PilotId,
    },
    PilotEnded {
        pilot: PilotId,
    },
    UserAdded {
        user: UserName,
        role: Role,
        /// `None` in journals from before users had numbers: then they are counted as they come.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        number: Option<UserNumber>,
    },
    UserRemoved {
        user: UserName,
        /// Whoever gets the name later has nothing to do with jobs from before this one. `None` in
        /// older journals, where a name took its jobs along.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<JobId>,
    },
    /// What a removed user left unfinished is somebody else's from now on.
    JobsGiven {
        jobs: Vec<JobId>,
        to: UserName,
        /// A number that no job has: what is older was not theirs, see `UserRemoved`.
        since: JobId,
    },
    TokenIssued {
        token: Token,
    },
    TokenRevoked {
        id: String,
    },
    /// Tokens that were good until before this are forgotten.
    TokensExpired {
        before: Timestamp,
    },
    PilotTokenIssued {
        pilot: PilotId,
        hash: String,
        /// Absent in what earlier versions wrote.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        allocation: Option<Allocation>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires: Option<Timestamp>,
    },
    /// A pilot's token is good for nothing any more.
    PilotTokenEnded {
        pilot: PilotId,
    },
    /// Idempotency keys older than this are forgotten.
    KeysExpired {
        before: Timestamp,
    },
    /// How fast past usage fades.
    HalfLifeSet {
        half_life: Millis,
    },
    /// What part of the machines a user may use when others want them too.
    ShareSet {
        user: UserName,
        share: u32,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Submitted {
    pub job: JobId,
    pub owner: UserName,
    pub spec: JobSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(default)]
    pub digest: u64,
    /// Dependencies that were already met at submission.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub met: Vec<JobId>,
}

/// A task put on a pilot with named devices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Placement {
    pub task: TaskId,
    pub attempt: Attempt,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceId>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptEnded {
    pub task: TaskId,
    pub attempt: Attempt,
    pub pilot: PilotId,
    pub node: NodeName,
    pub placed: Timestamp,
    pub outcome: Outcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    pub ended: Timestamp,
    pub ran: Millis,
    pub verdict: Verdict,
}

/// What the end of an attempt means for its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Succeeded,
    Failed,
    Cancelled,
    /// Tried again, not before this time. `counted`: it used up one of the job's retries.
    Retry {
        at: Timestamp,
        counted: bool,
    },
}

/// Which waiting tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Which {
    AllWaiting,
    These(Ordinals),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelReason {
    Asked,
    /// Whoever submitted it was removed.
    OwnerRemoved,
    /// A job it waited for ended in another way than asked for.
    Dependency {
        on: JobId,
        ended: JobState,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Joined {
    pub pilot: PilotId,
    pub session: u64,
    pub ad: NodeAd,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Millis>,
    /// Placements the pilot knows nothing of: the message that carried them was lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<TaskId>,
    /// Attempts it holds that are no longer its to run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stale: Vec<(TaskId, Attempt)>,
    /// The hash of the key of its folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
}

impl Joined {
    pub fn new(from: &PilotJoined, missing: Vec<TaskId>, stale: Vec<(TaskId, Attempt)>) -> Self {
        Joined {
            pilot: from.pilot.clone(),
            session: from.session,
            ad: from.ad.clone(),
            lease: from.lease,
            missing,
            stale,
            folder: from.folder.clone(),
        }
    }
}
