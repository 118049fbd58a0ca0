//! One pilot as the core keeps it: its node, what is placed there, whether it is in touch.

use crate::event::StopReason;
use crate::load::Load;
use serde::{Deserialize, Serialize};
use shipway_model::limits::PILOT_LOST_AFTER;
use shipway_model::{
    AllocationId, Attempt, ConnectionNumber, DeviceId, Millis, NodeAd, NodeName, PilotId, SiteName,
    TaskId, TaskState, Timestamp, Usage,
};
use std::collections::BTreeSet;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pilot {
    pub ad: NodeAd,
    /// Where another pilot had the name of the host already; see `name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<NodeName>,
    // Snapshots have it by this name; see `ConnectionNumber`.
    #[serde(rename = "session")]
    pub connection: ConnectionNumber,
    pub lease: Option<Millis>,
    /// What it came of.
    pub allocation: AllocationId,
    /// The batch system that it came of, if it is of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<SiteName>,
    /// How long guests have to leave it, where its site lets some in; see `guests.rs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guests: Option<Millis>,
    /// When its tasks have to be over: its node is only lent, and it leaves by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<Timestamp>,
    /// The hash of the key of its folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    pub link: Link,
    /// It takes nothing more; see `Event::PilotLeaving`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leaving: bool,
    /// Its site is being drained: it takes nothing more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed: bool,
    pub load: Load,
    pub placed: BTreeSet<TaskId>,
    /// Of the placed ones, how many it has not started yet: its backlog.
    pub unstarted: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Link {
    Connected,
    Away {
        since: Timestamp,
        /// Away for so long that it is shown as lost.
        lost: bool,
    },
}

/// One attempt that is placed or running.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Active {
    pub attempt: Attempt,
    pub pilot: PilotId,
    pub devices: Vec<DeviceId>,
    pub placed: Timestamp,
    pub started: Option<Timestamp>,
    /// Why it was asked to stop, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopping: Option<StopReason>,
    /// What it has used, as far as its pilot has said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Box<Usage>>,
}

impl Active {
    pub fn state(&self) -> TaskState {
        if self.started.is_some() { TaskState::Running } else { TaskState::Placed }
    }
}

impl Pilot {
    /// What people know its node by: no two pilots go by the same. In ads it is `Name`; the name of
    /// the host, which they may share, is `Machine`.
    pub fn name(&self) -> &NodeName {
        self.name.as_ref().unwrap_or(&self.ad.node)
    }

    pub fn is_connected(&self) -> bool {
        self.link == Link::Connected
    }

    /// Whether tasks may be placed there.
    pub fn takes_work(&self) -> bool {
        self.is_connected() && !self.leaving && !self.closed && self.ad.unfit.is_empty()
    }

    /// When this pilot has to be looked at again, if it stays away.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let Link::Away { since, lost } = self.link else { return None };
        let lost_at = (!lost).then(|| since.plus(PILOT_LOST_AFTER));
        let lease_at = self.lease.map(|lease| since.plus(lease));
        [lost_at, lease_at].into_iter().flatten().min()
    }
}
