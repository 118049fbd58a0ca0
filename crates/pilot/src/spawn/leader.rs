//! Signals to a task: to the group that its first process leads, and to nobody who has come after.

use super::{Shared, lock, watcher};
use rustix::process::{Pid, Signal, kill_process_group};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

/// What came of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signalled {
    Sent,
    /// It has ended, waits to be started, or was never here.
    NotRunning,
}

/// A process group's leader. The lock makes sure that nobody signals its pid after it was reaped,
/// when the number may be somebody else's; nothing is waited for while it is held.
#[derive(Debug)]
pub(crate) struct Leader {
    pub(super) pid: Pid,
    /// Its task's number where it is watched.
    pub(super) watched_as: OnceLock<u64>,
    /// When it was killed first.
    pub(super) killed: OnceLock<Instant>,
    /// Dead, and everything in its group killed.
    pub(super) over: Mutex<bool>,
    /// Why it was ended, to be read behind what it printed.
    pub(super) last_words: Mutex<Option<String>>,
}

impl Leader {
    pub(super) fn new(pid: Pid) -> Self {
        Self {
            pid,
            watched_as: OnceLock::new(),
            killed: OnceLock::new(),
            over: Mutex::new(false),
            last_words: Mutex::default(),
        }
    }

    pub(super) fn signal(&self, signal: Signal) -> Signalled {
        let over = lock(&self.over);
        if !*over && kill_process_group(self.pid, signal).is_ok() {
            return Signalled::Sent;
        }
        Signalled::NotRunning
    }
}

impl Shared {
    /// Whoever is killed is looked at again until it is dead, or counts as that.
    pub(super) fn signal(&self, leader: &Leader, signal: Signal) -> Signalled {
        let signalled = leader.signal(signal);
        if signal == Signal::KILL
            && signalled == Signalled::Sent
            && leader.killed.set(Instant::now()).is_ok()
            && let Some(slot) = leader.watched_as.get()
        {
            self.watcher.check_at(*slot, Instant::now() + watcher::KILL_AGAIN);
        }
        signalled
    }
}
