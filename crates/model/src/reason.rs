//! Why something waits or was refused, as data with wanted and found values.
//!
//! The command line, the API and the page render the same reason; the one sentence each of them
//! shows is written here, so that they cannot drift apart.

use crate::allocation::EngineTrouble;
use crate::amounts::Quantity;
use crate::ids::{JobId, NodeName, SiteName, UserName};
use crate::site::BatchKind;
use crate::spec::Condition;
use crate::states::JobState;
use crate::units::{Millis, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A term of a job's requirements that does not hold for a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FailedTerm {
    pub term: String,
    /// The attributes it looks at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<Attribute>,
    /// It compares what cannot be compared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// The limit that asking for it went beyond, with what was asked before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beyond: Option<String>,
    /// It is not the job's own: the job has an image, and containers fail there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_image: bool,
}

/// What a server was doing when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum During {
    /// Looking for a place: it is not looked for again before the server is started anew.
    Planning,
    /// Finding out why it waits: it may start all the same.
    Explaining,
}

/// Why a job may not go to a site, whatever that has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum KeptFrom {
    /// It is for other users.
    User {
        #[cfg_attr(feature = "schema", schema(value_type = String))]
        user: UserName,
    },
    /// The job names a path that means something else there.
    Path { path: String },
    /// It was submitted when paths were not remembered yet.
    UnknownPaths,
    /// The job asks for a tag that it does not have.
    Tag { tag: String },
    /// It is for jobs that ask for this tag.
    RequiredTag { tag: String },
}

/// An attribute as an expression names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Attribute {
    pub name: String,
    /// Nothing, where it is not defined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The name that may be meant instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Reason {
    /// Waits for another job to end in a certain way.
    AfterJob { job: JobId, condition: Condition, state: JobState },
    /// Failed attempts are tried again later, the first of them `until` then.
    BackOff { until: Timestamp, tasks: u32 },
    /// As many tasks of this job run as it allows itself.
    MaxRunning { limit: u32 },
    /// No node is connected at all.
    NoNodes,
    /// Nodes are known but out of touch, or take nothing more.
    NodesAway { nodes: u32 },
    /// A node that is in touch failed its proof: nothing is placed there.
    Unfit { node: NodeName, why: String },
    /// A GPU that would match is not offered: it failed its proof, or (no `why`) is being proven.
    Withheld {
        node: NodeName,
        gpu: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// These nodes could never run it: they do not have enough, even when empty.
    TooSmall { nodes: u32, class: String, wanted: Quantity, found: Quantity },
    /// These nodes do not meet the job's requirements: this term does not hold for them.
    Requires { nodes: u32, class: String, failed: FailedTerm },
    /// These nodes could run it, but what it needs is in use now.
    Busy { nodes: u32, class: String, wanted: Quantity, found: Quantity },
    /// These nodes have room, but it is kept for a job that stands before it.
    /// `job` is named when it is of the same user.
    Kept { nodes: u32, class: String, job: Option<JobId> },
    /// Jobs of the same user stand before it.
    Behind { jobs: u32 },
    /// Users with waiting jobs who have used less for their share are served first.
    OthersFirst { users: u32 },
    /// The server failed, by a mistake in it, over this job: it goes on without.
    SetAside { during: During },
    /// How it stands with one kind of pilots of a batch system.
    AtSite {
        #[cfg_attr(feature = "schema", schema(value_type = String))]
        site: SiteName,
        class: String,
        wait: SiteWait,
    },
    /// Nothing stands against it: it starts with the next plan.
    Next,
}

/// Why no pilot of a batch system takes a task yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SiteWait {
    /// The job may not go there.
    KeptFrom { why: KeptFrom },
    /// A pilot would not have enough, even with nothing to do.
    TooSmall { wanted: Quantity, found: Quantity },
    /// The job's requirements would not hold there.
    Requires { failed: FailedTerm },
    /// Pilots are asked for a shorter time than the job may take.
    TooShort {
        #[cfg_attr(feature = "schema", schema(value_type = String))]
        wanted: Millis,
        #[cfg_attr(feature = "schema", schema(value_type = String))]
        found: Millis,
    },
    /// Nothing new goes there.
    Draining,
    /// The batch system did not do what it was asked; it is tried again then.
    Trouble { what: EngineTrouble, words: String, until: Timestamp },
    /// Pilots were asked for and have not come; the batch system's words for one of them.
    Pending {
        pilots: u32,
        words: String,
        /// When the first of them may start; nothing where nothing is known of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        start: Option<ExpectedStart>,
    },
    /// As many pilots as the site's file allows are there or asked for.
    AtLimit { limit: SiteLimit, most: u32 },
    /// It has GPUs, which the job does not ask for, and other pilots would do.
    HasGpus,
    /// The same, but where nobody waits for the GPUs it may be there until somebody does.
    AsGuest { leaves_within: Millis },
    /// A pilot is about to be asked for.
    Asking,
    /// Beside one of the others: the last pilot there that had other than was asked for.
    Differs {
        words: String,
        #[cfg_attr(feature = "schema", schema(value_type = String))]
        node: NodeName,
        at: Timestamp,
    },
}

/// When a pilot that waits may start, and on what that rests. It is no promise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "basis", rename_all = "snake_case")]
pub enum ExpectedStart {
    /// The batch system expected the first of them `at`, when it said so.
    Engine { by: BatchKind, at: Timestamp, said: Timestamp },
    /// So long the last few pilots of the kind waited, of which the last one started at `newest`.
    Others {
        pilots: u32,
        #[cfg_attr(feature = "schema", schema(value_type = String))]
        shortest: Millis,
        #[cfg_attr(feature = "schema", schema(value_type = String))]
        longest: Millis,
        newest: Timestamp,
    },
}

/// Which limit of a site's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SiteLimit {
    Pilots,
    Pending,
    Running,
    StartsPerHour,
}

impl SiteLimit {
    /// As the site's file calls it.
    pub fn key(self) -> &'static str {
        match self {
            SiteLimit::Pilots => "pilots",
            SiteLimit::Pending => "pending",
            SiteLimit::Running => "running",
            SiteLimit::StartsPerHour => "starts_per_hour",
        }
    }
}

impl SiteWait {
    /// Whether no pilot of that kind could ever run it.
    pub fn is_hopeless(&self) -> bool {
        matches!(
            self,
            SiteWait::KeptFrom { .. }
                | SiteWait::TooSmall { .. }
                | SiteWait::Requires { .. }
                | SiteWait::TooShort { .. }
        )
    }
}

impl fmt::Display for KeptFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeptFrom::User { user } => write!(f, "it is not for jobs of {user}"),
            KeptFrom::Path { path } => write!(f, "it does not share {path}, which the job names"),
            KeptFrom::Tag { tag } => {
                write!(f, "it has no tag {tag}, which the job asks for")
            }
            KeptFrom::RequiredTag { tag } => {
                write!(f, "it is for jobs that ask for its tag {tag} (--tag {tag})")
            }
            KeptFrom::UnknownPaths => {
                write!(f, "which paths this job names is not known any more")
            }
        }
    }
}

impl fmt::Display for SiteWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SiteWait::KeptFrom { why } => write!(f, "{why}"),
            SiteWait::TooSmall { wanted, found } => {
                write!(f, "needs {wanted}; a pilot has {}", found.amount())
            }
            SiteWait::Requires { failed } => {
                write!(f, "requires {}; a pilot {}", failed.term, failed.why())
            }
            SiteWait::TooShort { wanted, found: Millis(0) } => {
                write!(
                    f,
                    "may take {wanted} (its time limit, and the time to end after it); its pilots \
                     live too shortly for tasks with a time limit"
                )
            }
            SiteWait::TooShort { wanted, found } => {
                write!(
                    f,
                    "may take {wanted} (its time limit, and the time to end after it); pilots \
                     have {found} for a task"
                )
            }
            SiteWait::Draining => write!(f, "it is being drained and takes nothing new"),
            SiteWait::Trouble { what, words, .. } => {
                write!(f, "{}: {words}", trouble(*what))
            }
            SiteWait::Pending { pilots, words, .. } => {
                let waiting = match pilots {
                    1 => "1 pilot is asked for".to_owned(),
                    many => format!("{many} pilots are asked for"),
                };
                match words.as_str() {
                    "" => write!(f, "{waiting}"),
                    words => write!(f, "{waiting}; the batch system says: {words}"),
                }
            }
            SiteWait::AtLimit { limit, most } => {
                write!(f, "its limit is reached (`{}: {most}`)", limit.key())
            }
            SiteWait::HasGpus => {
                write!(f, "its pilots have GPUs; for a job without, others are asked for")
            }
            SiteWait::AsGuest { leaves_within } => write!(
                f,
                "its pilots have GPUs; a job without may use them while nobody waits for those, \
                 and leaves within {leaves_within}"
            ),
            SiteWait::Asking => write!(f, "a pilot is about to be asked for"),
            SiteWait::Differs { words, node, .. } => {
                write!(f, "a pilot was not as the site's file says, on node {node}: {words}")
            }
        }
    }
}

fn trouble(what: EngineTrouble) -> &'static str {
    match what {
        EngineTrouble::NotReached => "the batch system was not reached",
        EngineTrouble::NotNow => "the batch system takes nothing now",
        EngineTrouble::Refused => "the batch system refused a pilot",
        EngineTrouble::Unreadable => "the batch system was not understood",
        EngineTrouble::Unfit => "its last pilot was of no use",
        EngineTrouble::Died => "its last pilots died before any task had ended",
    }
}

impl Reason {
    /// The same for lists: a job may have terms of many pages, and a list a thousand jobs. What is
    /// asked about one job has all of them.
    #[must_use]
    pub fn brief(mut self) -> Self {
        if let Reason::Requires { failed, .. }
        | Reason::AtSite { wait: SiteWait::Requires { failed }, .. } = &mut self
        {
            cut(&mut failed.term);
            failed.found.truncate(BRIEF_ATTRIBUTES);
            for found in &mut failed.found {
                cut(&mut found.name);
                found.value.iter_mut().chain(&mut found.nearest).for_each(cut);
            }
        }
        self
    }

    /// Whether waiting alone can never end this wait.
    pub fn is_hopeless(&self) -> bool {
        if let Reason::AtSite { wait, .. } = self {
            return wait.is_hopeless();
        }
        matches!(
            self,
            Reason::TooSmall { .. }
                | Reason::Requires { .. }
                | Reason::NoNodes
                | Reason::Unfit { .. }
                | Reason::Withheld { why: Some(_), .. }
                | Reason::SetAside { during: During::Planning }
        )
    }
}

/// Letters of a text, and attributes of a term, that lists show.
const BRIEF_LETTERS: usize = 200;
const BRIEF_ATTRIBUTES: usize = 8;

fn cut(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(BRIEF_LETTERS) {
        text.truncate(end);
        text.push('…');
    }
}

impl FailedTerm {
    /// What every job with an image requires, though nobody wrote it.
    pub const CONTAINERS_WORK: &str = "HasContainer =!= false";

    pub fn of_image() -> FailedTerm {
        let (name, value) = ("HasContainer".into(), Some("false".into()));
        FailedTerm {
            term: Self::CONTAINERS_WORK.into(),
            found: vec![Attribute { name, value, nearest: None }],
            is_error: false,
            beyond: None,
            of_image: true,
        }
    }

    fn write_sentence(&self, f: &mut fmt::Formatter<'_>, nodes: u32, class: &str) -> fmt::Result {
        let (term, why) = (&self.term, self.why());
        match nodes {
            1 if self.of_image => {
                write!(f, "needs a container for its image; they fail on the node with {class}")
            }
            many if self.of_image => write!(
                f,
                "needs a container for its image; they fail on each of {many} nodes with {class}"
            ),
            1 => write!(f, "requires {term}; the node with {class} {why}"),
            many => write!(f, "requires {term}; each of {many} nodes with {class} {why}"),
        }
    }

    /// `has CUDACapability 3.5`, or `has no CudaCapability (did you mean CUDACapability?)`.
    pub fn why(&self) -> String {
        let each = self.found.iter().map(|attribute| {
            let Attribute { name, value, nearest } = attribute;
            match (value, nearest) {
                (Some(value), _) => format!("has {name} {value}"),
                (None, Some(nearest)) => format!("has no {name} (did you mean {nearest}?)"),
                (None, None) => format!("has no {name}"),
            }
        });
        let each: Vec<String> = each.collect();
        match each.as_slice() {
            _ if let Some(beyond) = &self.beyond => format!("cannot be asked for it: {beyond}"),
            [] => "cannot change that".into(),
            _ if self.is_error => {
                format!("{}, which cannot be compared like that", each.join(" and "))
            }
            each => each.join(" and "),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::AfterJob { job, condition, state } => {
                write!(f, "waits for job {job} to end ({condition}); it is {state}")
            }
            // When is for whoever knows the reader's clock and zone to say.
            Reason::BackOff { tasks: 1, .. } => write!(f, "1 failed task will be tried again"),
            Reason::BackOff { tasks, .. } => write!(f, "{tasks} failed tasks will be tried again"),
            Reason::MaxRunning { limit } => {
                write!(f, "{limit} of its tasks run already, as many as it allows (--max-running)")
            }
            Reason::NoNodes => write!(f, "no node is connected"),
            Reason::NodesAway { nodes: 1 } => {
                write!(f, "the one node known is out of touch or leaving")
            }
            Reason::NodesAway { nodes } => {
                write!(f, "all {nodes} nodes known are out of touch or leaving")
            }
            Reason::Unfit { node, why } => write!(f, "node {node} is not fit: {why}"),
            Reason::Withheld { node, gpu, why: Some(why) } => {
                write!(f, "{gpu} of node {node} failed its proof: {why}")
            }
            Reason::Withheld { node, gpu, why: None } => {
                write!(f, "{gpu} of node {node} is being proven before it is offered")
            }
            Reason::TooSmall { nodes, class, wanted, found } => {
                let has = found.amount();
                match nodes {
                    1 => write!(f, "needs {wanted}; the node with {class} has {has}"),
                    many => {
                        write!(f, "needs {wanted}; each of {many} nodes with {class} has {has}")
                    }
                }
            }
            Reason::Requires { nodes, class, failed } => failed.write_sentence(f, *nodes, class),
            Reason::Busy { nodes, class, wanted, found } => {
                let free = found.amount();
                match nodes {
                    1 => write!(f, "needs {wanted}; the node with {class} has {free} free now"),
                    many => write!(
                        f,
                        "needs {wanted}; of the {many} nodes with {class} none has more than \
                         {free} free now"
                    ),
                }
            }
            Reason::Kept { class, job: Some(job), .. } => {
                write!(f, "room on a node with {class} is kept for job {job}")
            }
            Reason::Kept { class, job: None, .. } => {
                write!(f, "room on a node with {class} is kept for a job of another user")
            }
            Reason::Behind { jobs: 1 } => write!(f, "1 job of the same user stands before it"),
            Reason::Behind { jobs } => write!(f, "{jobs} jobs of the same user stand before it"),
            Reason::OthersFirst { users: 1 } => {
                write!(f, "1 user who has used less for their share is served first")
            }
            Reason::OthersFirst { users } => {
                write!(f, "{users} users who have used less for their share are served first")
            }
            Reason::SetAside { during: During::Planning } => {
                write!(f, "set aside: the server failed while looking for a place for it")
            }
            Reason::SetAside { during: During::Explaining } => {
                write!(f, "the server failed while finding out why it waits")
            }
            Reason::AtSite { site, class, wait } => write!(f, "site {site} ({class}): {wait}"),
            Reason::Next => write!(f, "nothing stands against it; it starts with the next plan"),
        }
    }
}
