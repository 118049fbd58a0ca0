//! The states a task and a job can be in, and how the second follows from the first.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum TaskState {
    Waiting,
    /// Given to a pilot, not yet started there.
    Placed,
    Running,
    Succeeded,
    Failed,
    Cancelled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// Waits for the end of other jobs.
    Held,
    Waiting,
    Running,
    Succeeded,
    Failed,
    Cancelled,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobCounts {
    pub waiting: u32,
    /// Placed or running.
    pub active: u32,
    pub succeeded: u32,
    pub failed: u32,
    pub cancelled: u32,
}

impl JobCounts {
    pub fn total(self) -> u32 {
        self.waiting + self.active + self.succeeded + self.failed + self.cancelled
    }
    pub fn is_over(self) -> bool {
        self.waiting == 0 && self.active == 0
    }

    /// A job with any failed task failed; with any cancelled one it was cancelled.
    pub fn state(self, held: bool) -> JobState {
        if !self.is_over() {
            return match (held, self.active) {
                (true, 0) => JobState::Held,
                (_, 0) if self.waiting == self.total() => JobState::Waiting,
                _ => JobState::Running,
            };
        }
        match (self.failed, self.cancelled) {
            (0, 0) => JobState::Succeeded,
            (0, _) => JobState::Cancelled,
            _ => JobState::Failed,
        }
    }
}

impl JobState {
    pub fn is_over(self) -> bool {
        matches!(self, JobState::Succeeded | JobState::Failed | JobState::Cancelled)
    }
}

impl TaskState {
    pub fn is_over(self) -> bool {
        matches!(self, TaskState::Succeeded | TaskState::Failed | TaskState::Cancelled)
    }
}

/// A word that names no state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a state (known: {known})")]
pub struct BadState {
    pub text: String,
    pub known: String,
}

macro_rules! words {
    ($kind:ident: $($variant:ident = $word:literal),*) => {
        impl $kind {
            pub const ALL: &'static [$kind] = &[$($kind::$variant),*];
            pub fn as_str(self) -> &'static str {
                match self { $($kind::$variant => $word),* }
            }
        }
        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
        impl FromStr for $kind {
            type Err = BadState;
            fn from_str(text: &str) -> Result<Self, BadState> {
                Self::ALL.iter().copied().find(|state| state.as_str() == text).ok_or_else(|| {
                    let known: Vec<&str> = Self::ALL.iter().map(|state| state.as_str()).collect();
                    BadState { text: text.into(), known: known.join(", ") }
                })
            }
        }
    };
}
words!(TaskState: Waiting = "waiting", Placed = "placed", Running = "running",
    Succeeded = "succeeded", Failed = "failed", Cancelled = "cancelled");
words!(JobState: Held = "held", Waiting = "waiting", Running = "running",
    Succeeded = "succeeded", Failed = "failed", Cancelled = "cancelled");
