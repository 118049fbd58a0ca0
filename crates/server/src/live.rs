//! What just happened, told to whoever watches: after the commit, never before.
//!
//! Watchers that fall behind lose the broadcast and read the journal instead; waiters for the end
//! of one job are woken by name.
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

use crate::journal::EventSeq;
use crate::locks::Locked;
use shipway_core::event::Recorded;
use shipway_model::JobId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::{Notify, broadcast};

/// Commits a watcher may lag behind before it has to read the journal.
const LAG: usize = 256;

/// The events of one commit with the number of the first.
#[derive(Debug)]
pub struct Told {
    pub first: EventSeq,
    pub events: Vec<Recorded>,
}

#[derive(Debug)]
pub struct Live {
    sender: broadcast::Sender<Arc<Told>>,
    waiters: Mutex<HashMap<JobId, Arc<Notify>>>,
}

impl Default for Live {
    fn default() -> Self {
        Live { sender: broadcast::channel(LAG).0, waiters: Mutex::default() }
    }
}

impl Live {
    pub fn watch(&self) -> broadcast::Receiver<Arc<Told>> {
        self.sender.subscribe()
    }

    /// Woken when the job ends. Ask for the state after calling this, not before.
    pub fn waiter(&self, job: JobId) -> Arc<Notify> {
        let mut waiters = self.waiters.locked();
        Arc::clone(waiters.entry(job).or_default())
    }

    /// Forgets a waiter that nobody waits by any more: most jobs that are asked about end long
    /// after their askers have gone.
    pub fn release(&self, job: JobId, waiter: Arc<Notify>) {
        drop(waiter);
        let mut waiters = self.waiters.locked();
        if waiters.get(&job).is_some_and(|kept| Arc::strong_count(kept) == 1) {
            waiters.remove(&job);
        }
    }

    pub(crate) fn notify(&self, told: Told) {
        for recorded in &told.events {
            if let shipway_core::Event::JobEnded { job, .. } = &recorded.event {
                self.wake(*job);
            }
        }
        // No watcher is no error.
        let _ = self.sender.send(Arc::new(told));
    }

    fn wake(&self, job: JobId) {
        let waiter = self.waiters.locked().remove(&job);
        if let Some(waiter) = waiter {
            waiter.notify_waiters();
        }
    }
}
