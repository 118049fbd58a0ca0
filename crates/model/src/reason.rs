//! Why something waits or was refused, as data with wanted and found values.
//!
//! The command line, the API and the page render the same reason; the one sentence each of them
//! shows is written here, so that they cannot drift apart.

use crate::amounts::Quantity;
use crate::ids::{JobId, NodeName};
use crate::spec::Condition;
use crate::states::JobState;
use crate::units::Timestamp;
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
    /// Nothing stands against it: it starts with the next plan.
    Next,
}

impl Reason {
    /// Whether waiting alone can never end this wait.
    pub fn is_hopeless(&self) -> bool {
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

    fn tell(&self, f: &mut fmt::Formatter<'_>, nodes: u32, class: &str) -> fmt::Result {
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
            _ if self.is_error => format!("{}, which cannot be compared so", each.join(" and ")),
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
            Reason::Requires { nodes, class, failed } => failed.tell(f, *nodes, class),
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
            Reason::Next => write!(f, "nothing stands against it; it starts with the next plan"),
        }
    }
}
