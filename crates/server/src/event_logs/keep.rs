//! What is remembered over a restart: how far the journal was read, what was known then, and how
//! long each log was. Written whole and renamed; an old one is as good as a new one, because what
//! follows is read from the journal again and what is in the logs already is recognised there.

use super::story::Story;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Logs whose length is remembered. Others, of jobs with a log for each task, are short and read
/// from their beginning.
const SIZES_KEPT: usize = 1_000;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) story: Story,
    sizes: BTreeMap<PathBuf, u64>,
}

pub(super) fn path(home: &Path) -> PathBuf {
    home.join("event-logs.json")
}

impl Kept {
    /// `None`: there is none yet, or it cannot be read.
    pub(super) fn read(home: &Path) -> Option<Kept> {
        let text = std::fs::read(path(home)).ok()?;
        serde_json::from_slice(&text)
            .inspect_err(
                |error| tracing::warn!(%error, "what was known of event logs is unreadable"),
            )
            .ok()
    }

    pub(super) fn write(&self, home: &Path) -> io::Result<()> {
        shipway_trees::write_whole(&path(home), &serde_json::to_vec(self).expect("plain data"))
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
