//! Facts, the only thing journaled. Written once, read by every later version.
//!
//! The encoding is JSON with a version in each record. A field may be added with a default; a
//! changed meaning needs a new version and a step in `event/older.rs`. The snapshot test of this
//! crate (`tests/encoding.rs`) holds every event's encoding still.

mod older;

pub use older::Unreadable;

use crate::command::{PilotJoined, Token};
use crate::job::JobRecord;
use crate::ordinals::Ordinals;
use crate::shape::Gang;
use crate::site::Phase;
use serde::{Deserialize, Serialize};
use shipway_model::{
    Advice, AllocationId, Attempt, AttemptId, ConnectionNumber, DeviceId, EngineTrouble, JobId,
    JobSpec, JobState, Millis, NodeAd, NodeName, Outcome, PilotId, Role, SiteName, SiteSpec,
    TaskId, Timestamp, Usage, UserName, UserNumber,
};

/// The version this binary writes. Events of version 2 are read as they are: since then some came,
/// of sites and of what became of their nodes, which older binaries cannot know.
pub const EVENT_VERSION: u32 = 3;

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
    /// All of it or nothing: what has to start together is in one of these.
    TasksPlaced {
        parts: Vec<Part>,
    },
    AttemptsStarted {
        tasks: Vec<(TaskId, Attempt, Timestamp)>,
    },
    /// What running attempts have used so far, as their pilot says now and then: known even if
    /// nobody lives to tell of their end.
    AttemptsUsed {
        tasks: Vec<(TaskId, Attempt, Box<Usage>)>,
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
        why: StopReason,
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
    /// Its node is described anew.
    PilotChanged {
        pilot: PilotId,
        ad: Box<NodeAd>,
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
    /// Something was asked of a site, and these pilots may come of it.
    AllocationAsked {
        allocation: AllocationId,
        site: SiteName,
        pilots: Vec<Awaited>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires: Option<Timestamp>,
        /// Of a batch system: which kind of pilot.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        class: Option<String>,
    },
    /// A batch system is a site from now on, or is described anew.
    SiteAdded {
        spec: Box<SiteSpec>,
        /// `None` in journals from before this was written down.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<UserName>,
    },
    /// Nothing new goes there, or may again.
    SiteDrained {
        site: SiteName,
        draining: bool,
        /// `None` in journals from before this was written down.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<UserName>,
    },
    SiteRemoved {
        site: SiteName,
        /// `None` in journals from before this was written down.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<UserName>,
    },
    /// A pilot came and had other than was asked for.
    SiteDiffers {
        site: SiteName,
        class: String,
        node: NodeName,
        words: String,
    },
    /// A batch system did not do what it was asked, and is left alone until then.
    SiteTroubled {
        site: SiteName,
        /// The kind of pilots that it is about; nothing: all.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        class: String,
        words: String,
        kind: EngineTrouble,
        until: Timestamp,
    },
    /// That is over.
    SiteReached {
        site: SiteName,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        class: String,
    },
    /// How an allocation stands, by the words of its batch system; or that it is to end.
    AllocationChanged {
        allocation: AllocationId,
        phase: Phase,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        engine_id: Option<String>,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        words: String,
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
    /// How many of its tasks are placed together.
    #[serde(default, skip_serializing_if = "Gang::is_one")]
    pub gang: Gang,
    /// Dependencies that were already met at submission.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub met: Vec<JobId>,
}

/// A pilot that may come, by the hash of its token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Awaited {
    pub pilot: PilotId,
    pub hash: String,
}

/// What one pilot gets of what is placed at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    pub pilot: PilotId,
    pub tasks: Vec<Placement>,
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
    /// What it was given and has used; `None` where nothing is known of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Box<Usage>>,
    /// What could be asked for instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<Box<Advice>>,
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

/// Why an active task is asked to stop. What its end then means is in `decide/verdict.rs`. Nobody
/// asks for the last four yet: journals are kept for years, and older servers are to know them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// A person asked for it.
    Asked,
    /// Whoever submitted it was removed.
    OwnerRemoved,
    /// A task that it was placed together with has ended in another way than success.
    Together,
    /// Somebody with a better claim gets its place.
    Preempted,
    /// Its time is over.
    Time,
    /// It is not worth going on with, by what it has shown so far.
    GaveUp,
    /// What its owner may use is used up.
    Budget,
    /// The site takes back what it gave.
    Site,
}

impl StopReason {
    /// Whether the task is not to run again: somebody decided that it has no place, and not only
    /// that it has none here and now.
    pub fn is_final(self) -> bool {
        match self {
            Self::Preempted | Self::Site => false,
            Self::Asked
            | Self::OwnerRemoved
            | Self::Together
            | Self::Time
            | Self::GaveUp
            | Self::Budget => true,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Joined {
    pub pilot: PilotId,
    // Journals of years ago have it by this name; see `ConnectionNumber`.
    #[serde(rename = "session")]
    pub connection: ConnectionNumber,
    pub ad: NodeAd,
    /// What its node goes by, where another pilot had the name of the host already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<NodeName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Millis>,
    /// Placements the pilot knows nothing of: the message that carried them was lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<TaskId>,
    /// Attempts it holds that are no longer its to run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stale: Vec<AttemptId>,
    /// The hash of the key of its folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
}

impl Joined {
    pub fn new(from: &PilotJoined, missing: Vec<TaskId>, stale: Vec<AttemptId>) -> Self {
        Joined {
            pilot: from.pilot.clone(),
            connection: from.connection,
            ad: from.ad.clone(),
            name: None,
            lease: from.lease,
            missing,
            stale,
            folder: from.folder.clone(),
        }
    }

    /// What people know its node by.
    pub fn name(&self) -> &NodeName {
        self.name.as_ref().unwrap_or(&self.ad.node)
    }
}
