//! Open connections, and how often all places were taken.

use super::text::{Kind, Text};
use super::{add, read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::OwnedSemaphorePermit;

#[derive(Debug, Default)]
pub struct Connections {
    open: Arc<AtomicU64>,
    limit: AtomicU64,
    full: AtomicU64,
}

/// One connection; it is closed when this is dropped, and its place is free again.
#[derive(Debug)]
pub struct Open {
    open: Arc<AtomicU64>,
    _place: OwnedSemaphorePermit,
}

impl Connections {
    pub fn may_be_open(&self, limit: usize) {
        self.limit.store(limit as u64, Ordering::Relaxed);
    }

    pub fn opened(&self, place: OwnedSemaphorePermit) -> Open {
        add(&self.open, 1);
        Open { open: Arc::clone(&self.open), _place: place }
    }

    /// Counts that nobody more could be let in; true for the first time, which is worth a word.
    pub fn is_full(&self) -> bool {
        self.full.fetch_add(1, Ordering::Relaxed) == 0
    }

    pub fn open(&self) -> u64 {
        read(&self.open)
    }

    pub(super) fn write(&self, text: &mut Text) {
        let help = "Open connections, those of pilots included.";
        text.single("shipway_http_connections", Kind::Gauge, help, self.open());
        let help = "Connections that may be open; more have to wait.";
        text.single("shipway_http_connections_limit", Kind::Gauge, help, read(&self.limit));
        let help = "How often the last free place was taken.";
        text.single("shipway_http_connections_full_total", Kind::Counter, help, read(&self.full));
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}
