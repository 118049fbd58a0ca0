//! What a batch system says of what was asked of it: how an allocation ended, and why something
//! was not done.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Why an allocation is over, as far as the batch system tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum AllocationEnd {
    /// The pilot ended by itself and all was well.
    Completed,
    /// The pilot ended with an error, by itself.
    Failed,
    /// Somebody cancelled it: we, its account or an operator.
    Cancelled,
    TimeLimit,
    /// The batch system took it back for somebody else.
    Preempted,
    NodeFailed,
    OutOfMemory,
    /// It was never taken: the batch system refused it.
    Refused,
    /// The batch system does not say, or knows nothing of it any more.
    Unknown,
}

impl AllocationEnd {
    /// Whether nothing of it can still run: of a node that does not answer nobody knows.
    pub fn is_certain(self) -> bool {
        !matches!(self, AllocationEnd::NodeFailed | AllocationEnd::Unknown)
    }

    /// Whether what ran there ended by no will of anybody.
    pub fn is_death(self) -> bool {
        matches!(
            self,
            AllocationEnd::Failed | AllocationEnd::NodeFailed | AllocationEnd::OutOfMemory
        )
    }

    /// Whether it may be our own doing, or was nobody's.
    pub fn is_ours(self) -> bool {
        matches!(self, AllocationEnd::Cancelled | AllocationEnd::Refused)
    }

    /// Whether its pilot came to its end as it should.
    pub fn is_good(self) -> bool {
        self == AllocationEnd::Completed
    }
}

impl fmt::Display for AllocationEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AllocationEnd::Completed => "completed",
            AllocationEnd::Failed => "failed",
            AllocationEnd::Cancelled => "cancelled",
            AllocationEnd::TimeLimit => "over its time limit",
            AllocationEnd::Preempted => "preempted",
            AllocationEnd::NodeFailed => "its node failed",
            AllocationEnd::OutOfMemory => "out of memory",
            AllocationEnd::Refused => "refused",
            AllocationEnd::Unknown => "ended, and nobody knows how",
        })
    }
}

/// What kind of trouble there is with a batch system, and so what can be done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum EngineTrouble {
    /// It did not answer, or its command could not be run: whether something was done is unknown.
    NotReached,
    /// It is there and takes nothing now: busy, or a limit of the account. Later it may.
    NotNow,
    /// It will say the same again until somebody mends the site's file or the batch system.
    Refused,
    /// Its answer makes no sense to us: another version, perhaps.
    Unreadable,
    /// It gave what was asked for, and no pilot came of it, or one whose node failed its proof.
    Unfit,
    /// Its pilots come, and die before any of their tasks has ended.
    Died,
}

impl EngineTrouble {
    /// Whether it is known that nothing was done.
    pub fn is_undone(self) -> bool {
        matches!(self, EngineTrouble::NotNow | EngineTrouble::Refused)
    }

    /// Whether it is about one kind of pilots, and not about the site.
    pub fn is_of_class(self) -> bool {
        self.is_undone() || matches!(self, EngineTrouble::Unfit | EngineTrouble::Died)
    }
}

impl fmt::Display for EngineTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EngineTrouble::NotReached => "not reached",
            EngineTrouble::NotNow => "takes nothing now",
            EngineTrouble::Refused => "refused",
            EngineTrouble::Unreadable => "not understood",
            EngineTrouble::Unfit => "its pilots fail",
            EngineTrouble::Died => "its pilots die",
        })
    }
}
