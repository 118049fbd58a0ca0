//! Ids, each its own type, so that a job can never be passed where a task is meant.
//!
//! Ids are chosen at the edge (the server's writer, the pilot) and travel in commands; this file
//! only names, prints and parses them.

use crate::reading::text;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A text that is not an id of the kind asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {wanted}")]
pub struct BadId {
    pub text: String,
    pub wanted: &'static str,
}

/// What a user submits. Small and sequential, because people type it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct JobId(pub u64);

/// The number a task of an array goes by: what the user wrote in `--array`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct TaskIndex(pub u64);

/// What a user is counted as, from 1. A name may be given to somebody else later; its number never
/// is, so whatever is kept apart for each user (subordinate uids, jobs) goes by the number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct UserNumber(pub u32);

/// The position of a task inside its job, from 0: what the tables of the core are indexed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ordinal(pub u32);

/// One try at a task, from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Attempt(pub u32);

/// One task, shown as `JOB/INDEX`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    pub job: JobId,
    pub index: TaskIndex,
}

impl JobId {
    pub fn task(self, index: TaskIndex) -> TaskId {
        TaskId { job: self, index }
    }
}

impl Ordinal {
    /// The position as an index into a table.
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

impl Attempt {
    pub const FIRST: Attempt = Attempt(1);

    #[must_use]
    pub fn next(self) -> Attempt {
        Attempt(self.0.saturating_add(1))
    }
}

macro_rules! show_number {
    ($($kind:ident)*) => {$(
        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
        impl fmt::Debug for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($kind), "({})"), self.0)
            }
        }
    )*};
}
show_number!(JobId TaskIndex Attempt UserNumber);

/// Digits and nothing else: `+1` and ` 1` are numbers to Rust, but no id that was ever shown.
pub(crate) fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

impl FromStr for JobId {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        let bad = || BadId { text: text.chars().take(80).collect(), wanted: "job id (digits)" };
        digits(text).map(JobId).ok_or_else(bad)
    }
}

impl FromStr for TaskIndex {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        let bad = || BadId { text: text.chars().take(80).collect(), wanted: "task index (digits)" };
        digits(text).map(TaskIndex).ok_or_else(bad)
    }
}

impl FromStr for TaskId {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        let bad = || BadId { text: text.into(), wanted: "task id (JOB/INDEX)" };
        let (job, index) = text.split_once('/').ok_or_else(bad)?;
        let index = index.parse().map_err(|_| bad())?;
        Ok(job.parse::<JobId>().map_err(|_| bad())?.task(index))
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.job, self.index)
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskId({self})")
    }
}

impl Serialize for TaskId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TaskId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text(from)
    }
}

macro_rules! text_id {
    ($(#[$doc:meta])* $kind:ident, $wanted:literal, $max:expr $(, $more:literal)?) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
        #[cfg_attr(feature = "schema", schema(value_type = String))]
        #[serde(transparent)]
        pub struct $kind(std::sync::Arc<str>);

        impl $kind {
            #[doc = concat!("Letters, digits, `._-:@", $($more,)? "`; not empty, not over-long.")]
            pub fn new(text: &str) -> Result<Self, BadId> {
                const SIGNS: &str = concat!("._-:@", $($more)?);
                let good = |c: char| c.is_ascii_alphanumeric() || SIGNS.contains(c);
                if text.is_empty() || text.len() > $max || !text.chars().all(good) {
                    return Err(BadId { text: text.chars().take(80).collect(), wanted: $wanted });
                }
                Ok($kind(text.into()))
            }
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl FromStr for $kind {
            type Err = BadId;
            fn from_str(text: &str) -> Result<Self, BadId> {
                Self::new(text)
            }
        }
        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($kind), "({})"), self.0)
            }
        }
        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                text(from)
            }
        }
    };
}

text_id!(
    /// A person or a service account.
    UserName,
    "user name (letters, digits, `.`, `_`, `-`, `:`, `@`; at most 64)",
    64
);
text_id!(
    /// People who have something in common: an experiment, an institute.
    GroupName,
    "group name (letters, digits, `.`, `_`, `-`, `:`, `@`; at most 64)",
    64
);
text_id!(
    /// One pilot process, for its whole life; chosen at random by whoever starts it.
    PilotId,
    "pilot id",
    64
);
text_id!(
    /// A supplier of nodes.
    SiteName,
    "site name (letters, digits, `.`, `_`, `-`, `:`, `@`; at most 64)",
    64
);
text_id!(
    /// What was asked of a site once; by this name it is looked for there.
    AllocationId,
    "allocation id",
    64
);
text_id!(
    /// The node a pilot runs on, as people know it: its host, and a number where that has several.
    NodeName,
    "node name",
    255,
    "#"
);
text_id!(
    /// One device, by the id its driver gives it (a GPU's UUID).
    DeviceId,
    "device id",
    128
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_id_is_written_as_job_slash_index() {
        let id: TaskId = "12/5".parse().expect("good");
        assert_eq!(id, JobId(12).task(TaskIndex(5)));
        assert_eq!(serde_json::to_string(&id).expect("json"), "\"12/5\"");
        assert!("12".parse::<TaskId>().is_err());
        assert!("/5".parse::<TaskId>().is_err());
        assert!("12/-1".parse::<TaskId>().is_err());
    }

    #[test]
    fn an_id_is_digits_and_nothing_else() {
        assert_eq!("12".parse::<JobId>().expect("good"), JobId(12));
        for bad in ["", "+1", "-1", " 1", "1 ", "1.0", "0x1", "99999999999999999999"] {
            assert!(bad.parse::<JobId>().is_err(), "{bad:?}");
            assert!(format!("1/{bad}").parse::<TaskId>().is_err(), "{bad:?}");
            assert!(format!("{bad}/1").parse::<TaskId>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn names_refuse_what_could_be_mistaken_for_something_else() {
        for bad in ["", "a b", "a/b", "ü", "a\n", &"x".repeat(65)] {
            assert!(UserName::new(bad).is_err(), "{bad:?}");
        }
        assert!(UserName::new("ada.lovelace@cern.ch").is_ok());
    }
}
