//! Everything that may be asked of the core or reported to it.
//!
//! A command is a wish: `decide` may refuse it. Ids and secrets' hashes are already chosen here,
//! because the edge chooses them; the time travels beside the command.

use crate::event::Awaited;
use crate::job::JobRecord;
use crate::schedule::Plan;
use crate::shape::Gang;
use crate::site::{Phase, SiteKind};
use serde::{Deserialize, Serialize};
use shipway_model::{
    Actor, AllocationId, ConnectionNumber, EngineTrouble, Held, JobId, JobSpec, JobState, Millis,
    NodeAd, PilotId, Role, SiteName, SiteSpec, TaskIndex, TaskState, Timestamp, UserName,
};

#[derive(Debug, Clone)]
pub enum Command {
    /// The server came up: nothing is known to be connected.
    ServerStarted,
    Submit(Box<Submit>),
    Cancel(Select),
    Retry {
        select: Select,
        /// Jobs of the selection that had already left memory, as history keeps them.
        revived: Vec<JobRecord>,
    },
    ApplyPlan(Plan),
    PilotJoined(Box<PilotJoined>),
    PilotReported(PilotReported),
    /// The connection to a pilot broke.
    PilotAway {
        pilot: PilotId,
        connection: ConnectionNumber,
    },
    /// A pilot's node is another than it said when it joined.
    PilotChanged {
        pilot: PilotId,
        connection: ConnectionNumber,
        ad: Box<NodeAd>,
    },
    /// A pilot takes nothing more; it finishes what it runs, then says goodbye.
    PilotLeaving {
        pilot: PilotId,
        connection: ConnectionNumber,
    },
    /// A pilot said goodbye, or its supervisor saw that it and all its processes are gone.
    PilotEnded {
        pilot: PilotId,
    },
    /// Time has passed: back-offs, leases, keys.
    Tick,
    /// These ended jobs are safe in history and may leave memory.
    Archive {
        jobs: Vec<JobId>,
    },
    AddUser {
        by: Actor,
        user: UserName,
        role: Role,
    },
    RemoveUser {
        by: Actor,
        user: UserName,
        /// Who gets what has not ended; cancelled when nobody is named.
        give_jobs_to: Option<UserName>,
    },
    IssueToken {
        by: Actor,
        token: Token,
    },
    RevokeToken {
        by: Actor,
        id: String,
    },
    /// How fast past usage fades, as the server was told at its start.
    SetHalfLife {
        half_life: Millis,
    },
    /// What part of the machines a user may use when others want them too.
    SetShare {
        by: Actor,
        user: UserName,
        share: u32,
    },
    AskSite(Box<AskSite>),
    /// A batch system is a site from now on, or is described anew.
    AddSite {
        by: Actor,
        spec: Box<SiteSpec>,
    },
    /// Nothing new goes to a site, or may again.
    DrainSite {
        by: Actor,
        site: SiteName,
        draining: bool,
    },
    RemoveSite {
        by: Actor,
        site: SiteName,
    },
    AskBatch(Box<AskBatch>),
    /// Nobody needs what was asked of batch systems, as far as it has not begun.
    GiveUp {
        allocations: Vec<AllocationId>,
    },
    SiteSaid(SiteSaid),
}

/// Asks a batch system for allocations, each with the pilots that will be there: one on each node.
#[derive(Debug, Clone)]
pub struct AskBatch {
    pub site: SiteName,
    pub class: String,
    pub allocations: Vec<(AllocationId, Vec<Awaited>)>,
}

/// What a batch system said to whoever ran its commands.
#[derive(Debug, Clone)]
pub struct SiteSaid {
    pub site: SiteName,
    pub said: Said,
}

#[derive(Debug, Clone)]
pub enum Said {
    /// All that it knows of ours.
    Looked {
        /// When it was asked: what was handed in later it could not know.
        began: Timestamp,
        seen: Vec<SeenAllocation>,
    },
    /// It took this.
    Taken { allocation: AllocationId, engine_id: String },
    /// It did not do what it was asked.
    Trouble {
        /// What was handed in.
        allocation: Option<AllocationId>,
        words: String,
        kind: EngineTrouble,
    },
}

/// An allocation as its batch system sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenAllocation {
    pub allocation: AllocationId,
    pub engine_id: String,
    /// Never `Asked` or `GivenUp`: these are ours.
    pub phase: Phase,
    pub words: String,
}

/// Asks a site for an allocation, with a secret that is good for the one pilot that will be there.
/// Of this machine: when nobody holds the folder's lock.
#[derive(Debug, Clone)]
pub struct AskSite {
    /// `None`: the server, for its own machine.
    pub by: Option<Actor>,
    pub site: SiteKind,
    pub allocation: AllocationId,
    pub pilot: PilotId,
    pub hash: String,
    /// `None`: the token ends with its pilot.
    pub expires: Option<Timestamp>,
}

impl AskSite {
    /// For worlds without secrets: all is named after the pilot.
    #[expect(clippy::expect_used, reason = "what is good for the one is good for the other")]
    pub fn named_after(pilot: &PilotId, site: SiteKind) -> AskSite {
        let allocation = AllocationId::new(pilot.as_str()).expect("as good as a pilot's");
        let (pilot, hash) = (pilot.clone(), pilot.to_string());
        AskSite { by: None, site, allocation, pilot, hash, expires: None }
    }
}

/// Jobs of one request: all of them are taken, or none.
#[derive(Debug, Clone)]
pub struct Submit {
    pub by: Actor,
    pub key: Option<String>,
    /// A digest of all specifications, to tell a repeat from a mistake.
    pub digest: u64,
    /// With ids that follow each other. One may wait for those before it.
    pub jobs: Vec<NewJob>,
}

#[derive(Debug, Clone)]
pub struct NewJob {
    pub job: JobId,
    pub spec: JobSpec,
    /// How many of its tasks are placed together.
    pub gang: Gang,
    /// How the jobs in `spec.after` that are no longer in memory ended.
    pub ended: Vec<(JobId, JobState)>,
}

impl NewJob {
    pub fn new(job: JobId, spec: JobSpec) -> NewJob {
        NewJob { job, spec, gang: Gang::default(), ended: Vec::new() }
    }
}

impl Submit {
    /// One job, without a key.
    pub fn one(by: Actor, job: NewJob) -> Submit {
        Submit { by, key: None, digest: 0, jobs: vec![job] }
    }

    /// The id of the first one.
    pub fn first(&self) -> Option<JobId> {
        self.jobs.first().map(|new| new.job)
    }
}

/// Which tasks of which jobs.
#[derive(Debug, Clone)]
pub struct Select {
    pub by: Actor,
    pub jobs: Vec<(JobId, Pick)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pick {
    All,
    Tasks(Vec<TaskIndex>),
    State(TaskState),
}

#[derive(Debug, Clone)]
pub struct PilotJoined {
    pub pilot: PilotId,
    /// Counts the pilot's connections, so that an old one's end is not taken for the new one's.
    pub connection: ConnectionNumber,
    pub ad: NodeAd,
    /// Out of touch for this long, it ends its tasks by itself. `None`: it is supervised, and
    /// only a report of its death counts.
    pub lease: Option<Millis>,
    /// What it holds, and ends that pilots before it in the same folder have left word of.
    pub held: Vec<Held>,
    /// The hash of the key of its folder. The lock of a folder is held by one pilot at a time,
    /// whose processes end before it is free: so whoever has the key is the only one there.
    pub folder: Option<String>,
}

#[derive(Debug, Clone)]
pub struct PilotReported {
    pub pilot: PilotId,
    /// What has started or ended.
    pub held: Vec<Held>,
}

/// A person's token, by its hash; the secret itself is never kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    pub id: String,
    pub user: UserName,
    pub hash: String,
    pub expires: Timestamp,
    pub note: String,
}
