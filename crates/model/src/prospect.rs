//! What stands between a job and its start, as data: its place in line, every requirement with
//! wanted and found per node class, the smallest change that would help, and when it may start.
//!
//! The sentences are here too, so that the command line, the API and the page say the same.

use crate::amounts::Quantity;
use crate::ids::{NodeName, SiteName};
use crate::reason::FailedTerm;
use crate::units::{Millis, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Prospect {
    /// `None` for a job that is not submitted, or that has nothing to place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<PlaceInLine>,
    pub classes: Vec<ClassProspect>,
    /// The least that would have to change, the smallest first.
    pub changes: Vec<Change>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
}

/// Where a job stands in line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PlaceInLine {
    /// Jobs of the same user that go first.
    pub own_before: u32,
    /// Users with waiting jobs who have used less for their share and are therefore served first.
    pub users_before: u32,
    /// What the owner has used, with the past counting less and less.
    pub used_core_seconds: u64,
    pub share: u32,
    /// The nodes that are kept for this job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<KeptNodes>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct KeptNodes {
    /// One, or as many as tasks that are placed together take.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub nodes: Vec<NodeName>,
    /// When all that is in the way has to have ended, by its time limits. Without: something has no
    /// time limit, or one that is more than a week away, or somebody else went first and other
    /// nodes may be kept instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest: Option<Timestamp>,
    /// What leaves last is a task of the same user: only that user's tasks are kept away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub behind_own: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Fit {
    /// One of its nodes could take it now.
    Now,
    /// What it needs is in use.
    Busy,
    /// There is room, but it is kept for a job that stands before it.
    Kept,
    /// Too small, even when empty, or not what the job requires.
    Never,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ClassProspect {
    pub class: String,
    pub nodes: u32,
    pub fit: Fit,
    /// As found on the node of this class that comes nearest.
    pub requirements: Vec<Requirement>,
    /// The terms of the job's own requirements that do not hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedTerm>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Requirement {
    pub wanted: Quantity,
    /// What the node has.
    pub has: Quantity,
    /// What is free of it now.
    pub free: Quantity,
}

impl Requirement {
    pub fn is_met(&self) -> bool {
        self.wanted.raw() <= self.free.raw()
    }
    pub fn can_be_met(&self) -> bool {
        self.wanted.raw() <= self.has.raw()
    }
}

impl ClassProspect {
    /// Whether nodes of this class fit; where they are large enough and a term of the job's own
    /// requirements does not hold, that term.
    pub fn fit_text(&self) -> String {
        let is_large_enough = self.requirements.iter().all(Requirement::can_be_met);
        match self.failed.first() {
            Some(failed) if failed.of_image && is_large_enough => "no containers".into(),
            Some(failed) if self.fit == Fit::Never && is_large_enough => {
                let term: String = failed.term.chars().take(SHOWN_TERM).collect();
                let more = if term.len() < failed.term.len() { "…" } else { "" };
                format!("not {term}{more}")
            }
            _ => self.fit.to_string(),
        }
    }
}

/// Letters of a term that a table has room for; the reasons have the whole.
const SHOWN_TERM: usize = 40;

/// Ask for this instead, and it could start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Change {
    pub ask: Vec<Quantity>,
    pub instead_of: Vec<Quantity>,
    /// A shorter time limit, with which it would be over before kept room is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub time_limit: Option<Millis>,
    /// A term of the requirements to leave out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without: Option<String>,
    pub class: String,
    /// At once: tried with the planner itself. Otherwise as soon as such a node is free.
    pub now: bool,
    /// Connected nodes that could run it then, each when it is free. Not said where there are none.
    #[serde(default, skip_serializing_if = "is_none")]
    pub nodes: u32,
    /// Pilots of this site could run it then; `class` is their kind there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub site: Option<SiteName>,
    /// Of a change for a site: how many such pilots there may be, by the files of all the sites
    /// that it may go to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pilots: Option<u32>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_none(number: &u32) -> bool {
    *number == 0
}

/// When it may start, and what that rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Estimate {
    pub at: Timestamp,
    /// The first room, by what runs now.
    pub room_at: Timestamp,
    /// Jobs before it that were counted, with all their waiting tasks.
    pub jobs_before: u32,
    #[serde(default)]
    pub tasks_before: u64,
    /// How long those take, by how long such tasks usually run and how many run side by side.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub work_before: Millis,
    /// How many tasks of this kind can run side by side.
    pub side_by_side: u32,
    /// How long tasks of this kind ran on average, and how many that is known of.
    pub usual: Millis,
    pub known_of: u32,
}

impl fmt::Display for PlaceInLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.own_before, self.users_before) {
            (0, 0) => write!(f, "first in line")?,
            (own, 0) => write!(f, "after {} of the same user", count(own, "job"))?,
            (0, users) => {
                write!(f, "after {} who used less for their share", count(users, "user"))?;
            }
            (own, users) => write!(
                f,
                "after {} of the same user, and {} who used less for their share",
                count(own, "job"),
                count(users, "user")
            )?,
        }
        write!(f, " (used lately: {}; share {})", core_hours(self.used_core_seconds), self.share)
    }
}

/// Core-seconds as people read them: `0.43 core-hours`.
pub fn core_hours(seconds: u64) -> String {
    let hundredths = seconds.saturating_mul(100) / 3_600;
    match (seconds, hundredths) {
        (0, _) => "nothing".into(),
        (_, 0) => "less than 0.01 core-hours".into(),
        (_, hundredths) if hundredths >= 10_000 => format!("{} core-hours", hundredths / 100),
        (_, hundredths) => format!("{}.{:02} core-hours", hundredths / 100, hundredths % 100),
    }
}

pub fn count(number: u32, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

impl fmt::Display for Fit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fit::Now => "room now",
            Fit::Busy => "busy",
            Fit::Kept => "kept for a job before it",
            Fit::Never => "too small",
        })
    }
}

impl Prospect {
    /// While it waits for other jobs, no change to its needs would start it, and nobody knows when
    /// their ends come.
    pub fn waits_for_jobs(&mut self) {
        self.changes.clear();
        self.estimate = None;
    }
}

impl Change {
    /// What is to be changed, as a request to whoever reads it.
    fn act(&self) -> String {
        if let Some(limit) = self.time_limit {
            return format!("set a time limit of at most {limit} (--time-limit {limit})");
        }
        if let Some(term) = &self.without {
            return format!("leave out the requirement {term}");
        }
        let pairs = self.ask.iter().zip(&self.instead_of);
        let pairs: Vec<String> =
            pairs.map(|(ask, instead)| format!("{} instead of {instead}", ask.amount())).collect();
        format!("ask for {}", pairs.join(" and "))
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (act, class) = (self.act(), &self.class);
        if let Some(site) = &self.site {
            write!(f, "{act}: pilots of site {site} ({class}) could run it")?;
            return self.pilots.map_or(Ok(()), |pilots| {
                let such =
                    if pilots == 1 { "1 such pilot" } else { &format!("{pilots} such pilots") };
                write!(f, " (at most {such} at a time)")
            });
        }
        if self.now {
            write!(f, "{act}: it could start now on a node with {class}")?;
        } else {
            write!(f, "{act}: a node with {class} could run it when it is free")?;
        }
        if self.time_limit.is_some() {
            write!(f, ", before the room is needed")?;
        }
        if self.nodes > 1 {
            write!(f, " ({} nodes could run it)", self.nodes)?;
        }
        Ok(())
    }
}
