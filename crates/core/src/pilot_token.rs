//! What lets a pilot in: a token that is good for one pilot, of one allocation, in one folder.
//!
//! Nobody is believed about anybody else. That a pilot is dead and another has taken its place is
//! known in two ways only: both are of this machine, where the server itself sees the lock of
//! their folder; or both have shown the key of the same folder, whose lock one pilot holds at a
//! time.

use crate::state::State;
use serde::{Deserialize, Serialize};
use shipway_model::{PilotId, Timestamp};

/// Folders of ended pilots that are remembered, so that their output can be read by whoever has
/// the folder now. An id and a hash each; more than a site replaces in years.
pub(crate) const REMEMBERED_FOLDERS: usize = 4_096;

/// What a pilot was given its place by. A pilot belongs to one allocation as long as it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Allocation {
    /// The server's own machine. The server starts the pilot, when nobody holds the folder's lock.
    ThisMachine,
    /// Whoever was handed the token.
    Handed,
}

impl Allocation {
    /// Ids are the server's own choice, and said this much before allocations were written down.
    pub fn of_id(pilot: &PilotId) -> Self {
        if pilot.as_str().starts_with(THIS_MACHINE) { Self::ThisMachine } else { Self::Handed }
    }

    /// What the ids of its pilots begin with.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::ThisMachine => THIS_MACHINE,
            Self::Handed => "pilot-",
        }
    }
}

const THIS_MACHINE: &str = "local-";

/// A pilot's token, by its hash; the secret itself is never kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PilotToken {
    pub hash: String,
    pub allocation: Allocation,
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
        if Allocation::of_id(pilot) == Allocation::ThisMachine {
            return Some(KeptIn::ThisMachine);
        }
        let known = self.pilots().get(pilot).and_then(|pilot| pilot.folder.as_ref());
        let known = known.or_else(|| self.folders.get(pilot).map(|(_, folder)| folder));
        known.cloned().map(KeptIn::Folder)
    }

    /// When the first token ends that has a time.
    pub(crate) fn next_token_end(&self) -> Option<Timestamp> {
        self.pilot_tokens().values().filter_map(|token| token.expires).min()
    }
}
