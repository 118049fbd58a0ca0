//! Attempts: their names, what a pilot says of one that it holds, and how one ended. The journal,
//! the pilot protocol and the pilot's own files all speak of these.

use crate::ids::{Attempt, PilotId, TaskId};
use crate::outcome::Outcome;
use crate::units::{Millis, Timestamp};
use crate::usage::Usage;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One attempt, by its task and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "(TaskId, Attempt)", into = "(TaskId, Attempt)")]
pub struct AttemptId {
    pub task: TaskId,
    pub attempt: Attempt,
}

impl TaskId {
    pub fn attempt(self, attempt: Attempt) -> AttemptId {
        AttemptId { task: self, attempt }
    }
}

impl From<(TaskId, Attempt)> for AttemptId {
    fn from((task, attempt): (TaskId, Attempt)) -> Self {
        AttemptId { task, attempt }
    }
}

impl From<AttemptId> for (TaskId, Attempt) {
    fn from(id: AttemptId) -> Self {
        (id.task, id.attempt)
    }
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} attempt {}", self.task, self.attempt)
    }
}

/// A pilot's word on one attempt it holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Held {
    pub id: AttemptId,
    pub phase: HeldPhase,
    /// The pilot it was placed on, if not the one that says so; of ends alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<PilotId>,
    /// What it has used so far, or in all; of those that run now and then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Box<Usage>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldPhase {
    Queued,
    Running { started: Timestamp },
    Ended(Ended),
}

/// How an attempt ended, and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    pub outcome: Outcome,
    /// `None`: it never started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    pub ended: Timestamp,
    /// How long it ran by the pilot's steady clock.
    pub ran: Millis,
}

impl Held {
    /// Of the pilot that says so.
    pub fn own(id: AttemptId, phase: HeldPhase) -> Self {
        Held { id, phase, of: None, usage: None }
    }

    /// Its end, if it has ended.
    pub fn end(&self) -> Option<&Ended> {
        match &self.phase {
            HeldPhase::Ended(ended) => Some(ended),
            HeldPhase::Queued | HeldPhase::Running { .. } => None,
        }
    }
}
