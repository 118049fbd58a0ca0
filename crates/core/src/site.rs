//! Sites, what was asked of them, and what lets the pilots in that come of it.
//!
//! A site supplies nodes: this machine, whoever starts pilots by hand, a batch system. What is
//! asked of one is an allocation. A pilot belongs to one allocation as long as it lives, and its
//! token is good for that pilot, of that allocation, in one folder.
//!
//! Nobody is believed about anybody else. That a pilot is dead and another has taken its place is
//! known in two ways only: both are of a site of which the server itself sees the lock of their
//! folder; or both have shown the key of the same folder, whose lock one pilot holds at a time.

use crate::batch::InBatch;
use crate::state::State;
use serde::{Deserialize, Serialize};
use shipway_model::{AllocationEnd, AllocationId, PilotId, SiteName, Timestamp};
use std::sync::LazyLock;

/// Folders of ended pilots that are remembered, so that their output can be read by whoever has
/// the folder now. An id and a hash each; more than a site replaces in years.
pub(crate) const REMEMBERED_FOLDERS: usize = 4_096;

/// What kind of supplier a site is. Every home has the one of each of the first two kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SiteKind {
    /// The server's own machine: the server starts the pilot, when nobody holds the lock of its
    /// folder, and sees its end by that lock.
    ThisMachine,
    /// Whoever was handed a token starts the pilot, and nobody here sees its end.
    ByHand,
    /// A batch system starts the pilot, and says when it is over. See `batch.rs`.
    Batch,
}

#[expect(clippy::expect_used, reason = "plain words are good names")]
static NAMES: LazyLock<[(SiteName, SiteKind); 2]> = LazyLock::new(|| {
    [("this-machine", SiteKind::ThisMachine), ("by-hand", SiteKind::ByHand)]
        .map(|(name, kind)| (SiteName::new(name).expect("a plain word"), kind))
});

impl SiteKind {
    /// Of all others somebody has told us.
    pub fn of(site: &SiteName) -> Self {
        NAMES.iter().find(|(name, _)| name == site).map_or(Self::Batch, |(_, kind)| *kind)
    }

    /// The name of the only one; `None` where there may be several.
    pub fn only(self) -> Option<SiteName> {
        NAMES.iter().find(|(_, kind)| *kind == self).map(|(name, _)| name.clone())
    }

    /// What the ids of its pilots begin with. Ids are the server's own choice, and are all that is
    /// left of a pilot in history.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::ThisMachine => "local-",
            Self::ByHand => "pilot-",
            Self::Batch => "batch-",
        }
    }

    pub fn of_pilot(pilot: &PilotId) -> Self {
        let begins = |kind: &Self| pilot.as_str().starts_with(kind.prefix());
        [Self::ThisMachine, Self::Batch].into_iter().find(begins).unwrap_or(Self::ByHand)
    }

    /// Whether the server sees the end of a pilot there. Elsewhere a pilot has a lease: out of
    /// touch for that long, it ends its tasks by itself.
    pub fn is_watched(self) -> bool {
        self == Self::ThisMachine
    }
}

/// What was asked of a site, until nothing is left of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    pub site: SiteName,
    pub phase: Phase,
    /// When it came into this phase.
    pub since: Timestamp,
    /// What the batch system that it was asked of knows of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<Box<InBatch>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Nothing was heard of it yet. The site is asked again after a restart.
    Asked,
    /// It waits for its turn at the batch system.
    Queued,
    /// It waits for a person there: nobody's turn will start it.
    Held,
    /// It runs, or a pilot of it has come.
    Running,
    /// It is to end. The site is told again after a restart.
    GivenUp,
    /// It is over, and what is known of its pilots is not settled yet.
    Ended(AllocationEnd),
}

impl Phase {
    /// Whether it may still become a pilot.
    pub fn is_pending(self) -> bool {
        matches!(self, Phase::Asked | Phase::Queued | Phase::Held)
    }

    pub fn is_over(self) -> bool {
        matches!(self, Phase::Ended(_))
    }
}

/// A pilot's token, by its hash; the secret itself is never kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PilotToken {
    pub hash: String,
    pub allocation: AllocationId,
    /// `None`: it ends with its pilot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// The hash of the key of the folder that it was first used in; good in no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
}

/// Where the output of a pilot's tasks is, whoever has the folder now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeptIn {
    ThisMachine,
    Folder(String),
}

impl State {
    /// `None`: nobody but the pilot itself can have it.
    pub fn kept_in(&self, pilot: &PilotId) -> Option<KeptIn> {
        if SiteKind::of_pilot(pilot) == SiteKind::ThisMachine {
            return Some(KeptIn::ThisMachine);
        }
        let known = self.pilots().get(pilot).and_then(|pilot| pilot.folder.as_ref());
        let known = known.or_else(|| self.folders.get(pilot).map(|(_, folder)| folder));
        known.cloned().map(KeptIn::Folder)
    }

    /// What kind of site an allocation is of.
    pub fn kind_of(&self, allocation: &AllocationId) -> Option<SiteKind> {
        Some(SiteKind::of(&self.allocations.get(allocation)?.site))
    }

    /// When the first token ends that has a time.
    pub(crate) fn next_token_end(&self) -> Option<Timestamp> {
        self.pilot_tokens().values().filter_map(|token| token.expires).min()
    }

    /// An allocation is there as long as a pilot of it is, or a token that could bring one; and one
    /// of a batch system until that has said that it is over.
    pub(crate) fn forget_unused(&mut self, allocation: &AllocationId) {
        let is_open = |known: &Allocation| known.batch.is_some() && !known.phase.is_over();
        if self.allocations.get(allocation).is_some_and(is_open) {
            return;
        }
        let has_token = self.pilot_tokens.values().any(|token| token.allocation == *allocation);
        if !has_token && !self.pilots.values().any(|pilot| pilot.allocation == *allocation) {
            self.allocations.remove(allocation);
        }
    }
}
