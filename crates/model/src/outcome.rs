//! How an attempt ended, told apart: exit code, signal, out of memory, time-out, lost, cancelled.

use crate::allocation::AllocationEnd;
use crate::limits::MAX_WHY_BYTES;
use crate::units::{Bytes, Millis};
use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    Exit {
        code: i32,
    },
    Signal {
        signal: i32,
    },
    /// Ended for its memory: over the job's limit by the pilot, which knows what it used, or by the
    /// kernel; or because the node had none left (no limit).
    OutOfMemory {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<Bytes>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        used: Option<Bytes>,
        /// It was the memory of a GPU, of which it has a share.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        on_gpu: bool,
    },
    TimedOut {
        #[cfg_attr(feature = "schema", schema(value_type = String))]
        limit: Millis,
    },
    /// The program could not be started at all.
    NotStarted {
        message: String,
    },
    /// The program has done its work, but what it made could not be taken.
    OutputsFailed {
        message: String,
    },
    /// The attempt went down with its pilot, and what it did is not known; or its node failed it
    /// before it began.
    Lost {
        why: Lost,
    },
    Cancelled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Lost {
    /// The pilot is known dead and its processes with it.
    PilotDied,
    /// The pilot was out of touch until its lease ran out; it ends its tasks by itself then.
    LeaseRanOut,
    /// The node had no room for another process or container just then: it was not begun.
    NoRoom,
    /// Whoever lent the node wanted it back: the pilot ended its tasks and left.
    SiteTookBack,
    /// It was a guest on a node with GPUs, and left for a task that needs them.
    MadeRoom,
    /// The time for which the node was lent was over.
    TimeOver,
    /// The batch system ended the pilot, to give its node to somebody else.
    Preempted,
    /// Somebody cancelled the pilot at the batch system: an operator there, or its account.
    PilotCancelled,
    /// The pilot died with its node, by what the batch system says.
    NodeFailed,
    /// The batch system ended the pilot, which used more memory there than was asked for.
    PilotOutOfMemory,
}

impl Lost {
    /// What the end of a pilot means for its tasks, by what its batch system says of it.
    pub fn by(end: AllocationEnd) -> Lost {
        match end {
            AllocationEnd::TimeLimit => Lost::TimeOver,
            AllocationEnd::Preempted => Lost::Preempted,
            AllocationEnd::Cancelled => Lost::PilotCancelled,
            AllocationEnd::NodeFailed => Lost::NodeFailed,
            AllocationEnd::OutOfMemory => Lost::PilotOutOfMemory,
            AllocationEnd::Completed
            | AllocationEnd::Failed
            | AllocationEnd::Refused
            | AllocationEnd::Unknown => Lost::PilotDied,
        }
    }

    /// Whether the site took its node away from what ran there, for reasons of its own. That
    /// happens to a long task as often as it takes.
    pub fn is_of_site(self) -> bool {
        match self {
            Lost::SiteTookBack
            | Lost::MadeRoom
            | Lost::TimeOver
            | Lost::Preempted
            | Lost::PilotCancelled => true,
            Lost::PilotDied
            | Lost::LeaseRanOut
            | Lost::NoRoom
            | Lost::NodeFailed
            | Lost::PilotOutOfMemory => false,
        }
    }
}

impl Outcome {
    pub fn is_success(&self) -> bool {
        *self == Outcome::Exit { code: 0 }
    }

    /// Whether nothing went wrong: it had a place only for so long.
    pub fn had_to_go(&self) -> bool {
        matches!(self, Outcome::Lost { why } if why.is_of_site())
    }

    /// The same, with what went wrong in as many words as are taken.
    #[must_use]
    pub fn brief(mut self) -> Self {
        const CUT: char = '…';
        if let Outcome::NotStarted { message } | Outcome::OutputsFailed { message } = &mut self
            && message.len() > MAX_WHY_BYTES
        {
            let end = message.floor_char_boundary(MAX_WHY_BYTES - CUT.len_utf8());
            message.truncate(end);
            message.push(CUT);
        }
        self
    }

    /// The code a shell would report, so that `run` and `wait` can exit like the task did.
    pub fn exit_code(&self) -> i32 {
        match self {
            Outcome::Exit { code } => *code,
            Outcome::Signal { signal } => 128 + signal,
            Outcome::OutOfMemory { .. } => 137,
            Outcome::TimedOut { .. } => 124,
            Outcome::NotStarted { .. } => 127,
            Outcome::OutputsFailed { .. } | Outcome::Lost { .. } => 1,
            Outcome::Cancelled => 130,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Exit { code } => write!(f, "exit code {code}"),
            Outcome::Signal { signal } => write!(f, "ended by signal {signal}"),
            Outcome::OutOfMemory { limit: Some(limit), used: Some(used), on_gpu: true } => {
                write!(f, "out of GPU memory: used {used}, and its share is {limit}")
            }
            Outcome::OutOfMemory { limit: Some(limit), used: Some(used), .. } => {
                write!(f, "out of memory: used {used} of {limit}")
            }
            Outcome::OutOfMemory { limit: Some(limit), used: None, .. } => {
                write!(f, "out of memory: used more than its {limit}")
            }
            Outcome::OutOfMemory { .. } => write!(f, "out of memory: ended by the kernel"),
            Outcome::TimedOut { limit } => write!(f, "over its time limit of {limit}"),
            Outcome::NotStarted { message } => write!(f, "could not start: {message}"),
            Outcome::OutputsFailed { message } => write!(f, "outputs were not taken: {message}"),
            Outcome::Lost { why: Lost::PilotDied } => write!(f, "lost: its pilot died"),
            Outcome::Lost { why: Lost::LeaseRanOut } => {
                write!(f, "lost: its pilot was out of touch for too long")
            }
            Outcome::Lost { why: Lost::NoRoom } => {
                write!(f, "not begun: its node has no room for another process for now")
            }
            Outcome::Lost { why: Lost::SiteTookBack } => {
                write!(f, "lost: the site took its node back")
            }
            Outcome::Lost { why: Lost::MadeRoom } => {
                write!(f, "made room: a task that needs the node's GPUs came")
            }
            Outcome::Lost { why: Lost::TimeOver } => {
                write!(f, "lost: the time for which its node was lent was over")
            }
            Outcome::Lost { why: Lost::Preempted } => {
                write!(f, "lost: the batch system gave its node to somebody else")
            }
            Outcome::Lost { why: Lost::PilotCancelled } => {
                write!(f, "lost: its pilot was cancelled at the batch system")
            }
            Outcome::Lost { why: Lost::NodeFailed } => {
                write!(f, "lost: its node failed, says the batch system")
            }
            Outcome::Lost { why: Lost::PilotOutOfMemory } => {
                write!(f, "lost: its pilot had used more memory than it had there")
            }
            Outcome::Cancelled => write!(f, "cancelled"),
        }
    }
}
