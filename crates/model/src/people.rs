//! How a node keeps the tasks of different people apart, as its pilot says it. Nothing here does.

use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case", tag = "apart")]
pub enum People {
    /// Each runs under an account of the node: the pilot is root.
    ByAccount,
    /// Each runs under a subordinate id of the pilot's user.
    BySubordinateId,
    /// All run as the pilot's user: what one of them can read or end, all can.
    No {
        /// Whom they run as.
        user: String,
        why: String,
        /// What an administrator of the node can do about it.
        fix: String,
    },
    /// They could be kept apart, but that failed when it was tried: tasks of others are refused.
    Refused { why: String, fix: String },
}

impl People {
    /// In a few letters, for a column.
    pub fn short(&self) -> String {
        match self {
            Self::ByAccount => "account".into(),
            Self::BySubordinateId => "id".into(),
            Self::No { user, .. } => format!("no: all as {user}"),
            Self::Refused { .. } => "others refused".into(),
        }
    }
}

impl fmt::Display for People {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByAccount => f.write_str("people are kept apart by account"),
            Self::BySubordinateId => f.write_str("people are kept apart by subordinate id"),
            Self::No { user, why, .. } => {
                write!(f, "people are not kept apart: their tasks all run as {user}: {why}")
            }
            Self::Refused { why, .. } => {
                write!(f, "tasks of others are refused, as people cannot be kept apart: {why}")
            }
        }
    }
}
