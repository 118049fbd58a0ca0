//! Memory and processes, by looking now and then: who uses more memory than the job said, or has
//! more processes than any task may, is ended; and a kill by the kernel for want of memory is told
//! apart from any other.
//!
//! Honest polling: a task may go over its limit for up to the time between two looks. Another
//! thread looks: processes of anybody can make that take long (`looks.rs`), and nothing else is to
//! wait for it.

use super::crowding::{Besides, Counted, too_many};
use crate::machine::OutOfMemory;
use crate::memory::{FilesIn, Snapshot, kernel_oom_kills};
use crate::spawn::{Ended, HowEnded, Ticket};
use shipway_model::Bytes;
use shipway_runtime::crowd::Caps;
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

/// Often enough to stop a runaway before the node suffers, rarely enough to cost nothing.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How soon whoever looks is asked again whether they have seen all.
const ASK_AGAIN: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Limits {
    watched: HashMap<Ticket, Watched>,
    next: Option<Instant>,
    /// What is being looked at now.
    coming: Option<Receiver<Vec<Seen>>>,
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

/// What one task takes.
#[derive(Debug)]
struct Seen {
    ticket: Ticket,
    bytes: u64,
    processes: u64,
}

impl Limits {
    pub(super) fn new(caps: Caps) -> Self {
        Limits {
            watched: HashMap::new(),
            next: None,
            coming: None,
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
        match self.coming.take().map(|coming| (coming.try_recv(), coming)) {
            Some((Err(TryRecvError::Empty), coming)) => {
                (self.coming, self.next) = (Some(coming), Some(now + ASK_AGAIN));
                Vec::new()
            }
            Some((seen, _)) => {
                self.next = (!self.watched.is_empty()).then(|| now + LOOK_EVERY);
                self.judge(seen.unwrap_or_default())
            }
            None => {
                self.coming = self.send_somebody();
                let again = if self.coming.is_some() { ASK_AGAIN } else { LOOK_EVERY };
                self.next = (!self.watched.is_empty()).then(|| now + again);
                Vec::new()
            }
        }
    }

    fn send_somebody(&self) -> Option<Receiver<Vec<Seen>>> {
        let watched = self.watched.iter();
        let tasks = watched.filter_map(|(ticket, it)| Some((*ticket, it.pid?, it.files, it.limit)));
        let tasks: Vec<_> = tasks.collect();
        if tasks.is_empty() {
            return None;
        }
        let (tell, coming) = channel();
        let look = move || {
            let Ok(snapshot) = Snapshot::take() else { return };
            let seen = tasks.into_iter().map(|(ticket, pid, files, limit)| {
                let used = || snapshot.resident_bytes(pid) + snapshot.file_bytes(pid, files);
                let bytes = limit.map_or(0, |_| used());
                Seen { ticket, bytes, processes: snapshot.threads(pid) }
            });
            let _nobody_waits = tell.send(seen.collect());
        };
        let thread = std::thread::Builder::new().name("limits".into());
        thread.spawn(look).ok().map(|_| coming)
    }

    fn judge(&mut self, seen: Vec<Seen>) -> Vec<(Ticket, Option<String>)> {
        let (mut over, mut within) = (Vec::new(), Vec::new());
        for Seen { ticket, bytes, processes } in seen {
            let Some(watched) = self.watched.get_mut(&ticket) else { continue };
            if watched.limit.is_some_and(|limit| bytes > limit) {
                watched.over.get_or_insert(bytes);
                over.push((ticket, None));
            } else {
                within.push((ticket, processes));
            }
        }
        let counted = within.into_iter().filter_map(|(ticket, processes)| {
            let person = self.watched.get(&ticket)?.person.as_deref()?;
            Some(Counted { ticket, person, processes })
        });
        let counted: Vec<_> = counted.collect();
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
        let mut now = Instant::now();
        let over = loop {
            now += LOOK_EVERY;
            match limits.look(now) {
                over if over.is_empty() => std::thread::yield_now(),
                over => break over,
            }
        };
        kill_process_group(Pid::from_child(&child), Signal::KILL).unwrap();
        child.wait().unwrap();
        let [(Ticket(1), Some(words))] = &over[..] else { panic!("{over:?}") };
        assert!(words.ends_with("processes and threads, 10 at most"), "{words}");
    }
}
