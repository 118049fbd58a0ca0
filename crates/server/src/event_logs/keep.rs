//! What is remembered over a restart: how far the journal was read, what was known then, and how
//! long each log was. An old one is as good as a new one, because what follows is read from the
//! journal again and what is in the logs already is recognised there.

use super::story::Story;
use crate::documents::{Document, DocumentError, Documents};
use crate::journal::EventSeq;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Logs whose length is remembered. Others, of jobs with a log for each task, are short and read
/// from their beginning.
const SIZES_KEPT: usize = 1_000;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) story: Story,
    sizes: BTreeMap<PathBuf, u64>,
}

impl Kept {
    /// Of whatever happens after this event.
    pub(super) fn after(tip: EventSeq) -> Kept {
        Kept { story: Story { seq: tip.0, ..Story::default() }, ..Kept::default() }
    }

    /// `None`: no job here ever had a log.
    pub(super) fn read(from: &dyn Documents) -> Result<Option<Kept>, DocumentError> {
        let read = |text: Vec<u8>| {
            serde_json::from_slice(&text).unwrap_or_else(|error| {
                tracing::warn!(%error, "what was known of event logs is unreadable");
                Kept::default()
            })
        };
        Ok(from.read(Document::EventLogs)?.map(read))
    }

    pub(super) fn write(&self, to: &dyn Documents) -> Result<(), DocumentError> {
        let which = Document::EventLogs;
        let text = serde_json::to_vec(self).map_err(|error| DocumentError {
            act: "put together",
            place: to.place(which),
            source: error.into(),
        })?;
        to.write(which, &text)
    }

    pub(super) fn size(&self, log: &Path) -> u64 {
        self.sizes.get(log).copied().unwrap_or(0)
    }

    pub(super) fn grown(&mut self, log: &Path, size: u64) {
        if self.sizes.len() < SIZES_KEPT || self.sizes.contains_key(log) {
            self.sizes.insert(log.to_owned(), size);
        }
        if self.story.jobs.is_empty() && self.sizes.len() >= SIZES_KEPT {
            self.sizes.clear();
        }
    }
}
