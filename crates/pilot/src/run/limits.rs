//! Memory and processes, by looking now and then: who uses more memory than the job said, or has
//! more processes than any task may, is ended; and a kill by the kernel for want of memory is told
//! apart from any other.
//!
//! Honest polling: a task may go over its limit for up to the time between two looks.

use super::crowding::{Besides, Counted, too_many};
use crate::machine::OutOfMemory;
use crate::memory::{FilesIn, Snapshot, kernel_oom_kills};
use crate::spawn::{Ended, HowEnded, Ticket};
use shipway_model::Bytes;
use shipway_runtime::crowd::Caps;
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
    caps: Caps,
}

#[derive(Debug)]
struct Watched {
    /// Bytes, if the job named any.
    limit: Option<u64>,
    /// Whose it is, where the kernel does not hold the number of its processes and threads.
    person: Option<String>,
    pid: Option<u32>,
    over: Option<u64>,
    files: FilesIn,
}

impl Limits {
    pub(super) fn new(caps: Caps) -> Self {
        Limits {
            watched: HashMap::new(),
            next: None,
            signalled: std::collections::HashSet::new(),
            kernel_kills: kernel_oom_kills().unwrap_or(0),
            caps,
        }
    }

    /// `files` of the task count as memory too. Without a limit nothing is looked at.
    pub(super) fn expect(
        &mut self,
        ticket: Ticket,
        limit: Option<u64>,
        person: Option<&str>,
        files: FilesIn,
    ) {
        if limit.is_some() || person.is_some() {
            let person = person.map(str::to_owned);
            let watched = Watched { limit, person, pid: None, over: None, files };
            self.watched.insert(ticket, watched);
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

    /// Who has to be ended now, and why if nothing else will say it.
    pub(super) fn look(&mut self, now: Instant) -> Vec<(Ticket, Option<String>)> {
        if self.next.is_none_or(|next| next > now) {
            return Vec::new();
        }
        self.next = (!self.watched.is_empty()).then(|| now + LOOK_EVERY);
        let Ok(snapshot) = Snapshot::take() else { return Vec::new() };
        let (mut over, mut counted) = (Vec::new(), Vec::new());
        for (ticket, watched) in &mut self.watched {
            let Some(pid) = watched.pid else { continue };
            if let Some(limit) = watched.limit {
                let used = snapshot.resident_bytes(pid) + snapshot.file_bytes(pid, watched.files);
                if used > limit {
                    watched.over.get_or_insert(used);
                    over.push((*ticket, None));
                    continue;
                }
            }
            if let Some(person) = watched.person.as_deref() {
                let processes = snapshot.threads(pid);
                counted.push(Counted { ticket: *ticket, person, processes });
            }
        }
        let crowds = too_many(self.caps, &counted, &Besides::new()).into_iter();
        over.extend(crowds.map(|(ticket, words)| (ticket, Some(words))));
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
        if let Some(Watched { limit: Some(limit), over: Some(used), .. }) = watched {
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

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, Signal, kill_process_group};
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    /// Twelve processes, one below the other or side by side, in sessions of their own.
    #[test]
    fn a_task_with_too_many_processes_is_ended_with_the_reason() {
        let script = "i=0; while [ $i -lt 10 ]; do (sleep 1000; :) & i=$((i+1)); done; \
                      echo ready; wait";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let caps = Caps { task: 10, person: 20, all: 30 };
        let mut limits = Limits::new(caps);
        limits.expect(Ticket(1), None, Some("ada"), FilesIn::Nothing);
        limits.expect(Ticket(2), Some(1 << 40), None, FilesIn::Nothing);
        limits.expect(Ticket(3), None, None, FilesIn::Nothing);
        for ticket in [1, 2, 3] {
            limits.started(Ticket(ticket), child.id());
        }
        assert_eq!(limits.watched.len(), 2);
        let over = limits.look(Instant::now() + LOOK_EVERY);
        kill_process_group(Pid::from_child(&child), Signal::KILL).unwrap();
        child.wait().unwrap();
        let [(Ticket(1), Some(words))] = &over[..] else { panic!("{over:?}") };
        assert!(words.ends_with("processes and threads, 10 at most"), "{words}");
    }
}
