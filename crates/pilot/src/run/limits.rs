//! Memory, by looking now and then: who uses more than the job said is ended, and a kill by the
//! kernel for want of memory is told apart from any other.
//!
//! Honest polling: a task may go over its limit for up to the time between two looks.

use crate::machine::OutOfMemory;
use crate::memory::{FilesIn, Snapshot, kernel_oom_kills};
use crate::spawn::{Ended, HowEnded, Ticket};
use rustix::process::Signal;
use shipway_model::Bytes;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Often enough to stop a runaway before the node suffers, rarely enough to cost nothing.
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Limits {
    watched: HashMap<Ticket, Watched>,
    next: Option<Instant>,
    /// Tasks that we signalled ourselves: their end is no puzzle.
    signalled: std::collections::HashSet<Ticket>,
    kernel_kills: u64,
}

#[derive(Debug, Clone, Copy)]
struct Watched {
    limit: u64,
    pid: Option<u32>,
    over: Option<u64>,
    files: FilesIn,
}

impl Limits {
    pub(super) fn new() -> Self {
        Limits {
            watched: HashMap::new(),
            next: None,
            signalled: std::collections::HashSet::new(),
            kernel_kills: kernel_oom_kills().unwrap_or(0),
        }
    }

    /// `files` of the task count as well.
    pub(super) fn expect(&mut self, ticket: Ticket, limit: u64, files: FilesIn) {
        if limit > 0 {
            self.watched.insert(ticket, Watched { limit, pid: None, over: None, files });
        }
    }

    pub(super) fn started(&mut self, ticket: Ticket, pid: u32) {
        if let Some(watched) = self.watched.get_mut(&ticket) {
            watched.pid = Some(pid);
            self.next.get_or_insert_with(|| Instant::now() + LOOK_EVERY);
        }
    }

    pub(super) fn signalled(&mut self, ticket: Ticket) {
        self.signalled.insert(ticket);
    }

    pub(super) fn next_look(&self) -> Option<Instant> {
        self.next
    }

    /// Who has to be ended now.
    pub(super) fn look(&mut self, now: Instant) -> Vec<(Ticket, Signal)> {
        if self.next.is_none_or(|next| next > now) {
            return Vec::new();
        }
        self.next = (!self.watched.is_empty()).then(|| now + LOOK_EVERY);
        let Ok(snapshot) = Snapshot::take() else { return Vec::new() };
        let mut over = Vec::new();
        for (ticket, watched) in &mut self.watched {
            let used = watched.pid.map_or(0, |pid| {
                snapshot.resident_bytes(pid) + snapshot.file_bytes(pid, watched.files)
            });
            if used > watched.limit {
                watched.over.get_or_insert(used);
                over.push((*ticket, Signal::KILL));
            }
        }
        over
    }

    /// Of one that never ran, or whose end is known: nothing is looked at any more.
    pub(super) fn forget(&mut self, ticket: Ticket) {
        self.watched.remove(&ticket);
        self.signalled.remove(&ticket);
    }

    pub(super) fn ended(&mut self, ended: &Ended) -> Option<OutOfMemory> {
        let signalled = self.signalled.remove(&ended.ticket);
        let watched = self.watched.remove(&ended.ticket);
        if let Some(Watched { limit, over: Some(used), .. }) = watched {
            return Some(OutOfMemory::OverLimit { limit: Bytes(limit), used: Bytes(used) });
        }
        let killed = ended.how == HowEnded::Signal(9) && !signalled;
        if !killed {
            return None;
        }
        let kills = kernel_oom_kills().unwrap_or(self.kernel_kills);
        let by_kernel = kills > self.kernel_kills;
        self.kernel_kills = kills;
        by_kernel.then_some(OutOfMemory::Kernel)
    }
}
