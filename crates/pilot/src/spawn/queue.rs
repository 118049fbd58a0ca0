//! What waits to be started, and its start: by whichever thread of the pool is free.

use super::launch::{self, Launched};
use super::lines::{Lines, Owned};
use super::task::Task;
use super::{ProcessEvent, Request, Shared, StartError, Streams, lock};
use crate::{ends, stage};
use rustix::io::Errno;
use rustix::process::Signal;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

/// How long a start for which the node has no room is tried again, and how often. Whoever has more
/// processes than they may is ended in less.
const ROOM_WITHIN: Duration = Duration::from_secs(10);
const TRY_AGAIN: Duration = Duration::from_millis(250);

pub(super) struct Queued {
    pub(super) request: Request,
    pub(super) output: Streams,
    /// Set when there was no room for it: until then it is tried again.
    pub(super) until: Option<Instant>,
}

impl Owned for Queued {
    fn person(&self) -> &str {
        &self.request.user
    }
}

/// What waits to be started.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) requests: Lines<Queued>,
    /// Those for which there was no room, and when each is tried again; the first one first. No
    /// thread waits with them: it may be their own person who leaves none.
    pub(super) later: VecDeque<(Instant, Queued)>,
    /// Threads that are starting a process now.
    pub(super) starting: usize,
}

/// Starts one of the requests that wait, if there is one and a thread is left to watch meanwhile.
/// Returns whether more of them could be started now.
pub(super) fn start_next(shared: &Shared) -> bool {
    let mut queue = lock(&shared.queue);
    if queue.starting == shared.spawners {
        return false;
    }
    queue.take_due();
    let Some(queued) = queue.requests.pop() else { return false };
    queue.starting += 1;
    drop(queue);
    start_or_try_later(shared, queued);
    let mut queue = lock(&shared.queue);
    queue.starting -= 1;
    queue.requests.len() > 0
}

fn start_or_try_later(shared: &Shared, mut queued: Queued) {
    let ticket = queued.request.ticket;
    if shared.pipes.are_held(&queued.request.user) {
        let program = queued.request.argv.first().map(|name| name.to_string_lossy().into_owned());
        let error = StartError::OutputHeld { program: program.unwrap_or_default() };
        return shared.finish(ProcessEvent::NotStarted { ticket, error });
    }
    let started = match shared.launcher.launch(&queued.request) {
        Err(error) if queued.is_tried_again(&error) => {
            let mut queue = lock(&shared.queue);
            // Closed since it was taken: then nobody will.
            if !shared.closed.load(Ordering::Acquire) {
                queue.later.push_back((Instant::now() + TRY_AGAIN, queued));
                drop(queue);
                return shared.watcher.wake();
            }
            shared.unfinished.fetch_sub(1, Ordering::AcqRel);
            return shared.wake_if_over();
        }
        Err(error) => Err(error),
        Ok(launched) => watch_it(shared, queued, launched),
    };
    if let Err(error) = started {
        shared.finish(ProcessEvent::NotStarted { ticket, error });
    }
}

impl Queued {
    fn is_tried_again(&mut self, error: &StartError) -> bool {
        let within = match error {
            StartError::NoRoom { .. } => ROOM_WITHIN,
            // Somebody has a lease on the file, which the kernel takes back (`stage/leases.rs`).
            StartError::Stdin { source: Errno::AGAIN, .. } => stage::lease_break_time(),
            _ => return false,
        };
        let now = Instant::now();
        now < *self.until.get_or_insert(now + within)
    }
}

impl Queue {
    fn take_due(&mut self) {
        // The clock is only asked when there is something to compare it with.
        while let Some((_, due)) = self.later.pop_front_if(|(at, _)| *at <= Instant::now()) {
            self.requests.push(due);
        }
    }
}

fn watch_it(shared: &Shared, queued: Queued, launched: Launched) -> Result<(), StartError> {
    let Queued { mut request, output, .. } = queued;
    let ticket = request.ticket;
    let holds = request.container.as_ref().map(|contained| Arc::clone(&contained.holds));
    let (pid, at) = (launched.pid.as_raw_nonzero().get().unsigned_abs(), launched.started);
    let slot = shared.slots.as_ref().map(|slots| slots.take(&place_of(&request, pid, at)));
    let key = shared.launcher.attempt_key(ticket);
    let user = std::mem::take(&mut request.user);
    let task = Task::new((ticket, slot), (user, key), launched, output, holds);
    let leader = Arc::clone(task.leader());
    lock(&shared.leaders).insert(ticket, Arc::clone(&leader));
    let announce = || (shared.sink)(ProcessEvent::Started { ticket, pid, at });
    if let Err(error) = shared.watcher.add(task, announce) {
        lock(&shared.leaders).remove(&ticket);
        return Err(launch::unwatched(&error, &request));
    }
    // Closed since this request was taken: then nobody else will end it.
    if shared.closed.load(Ordering::Acquire) {
        shared.signal(&leader, Signal::KILL);
    }
    Ok(())
}

fn place_of(request: &Request, pid: u32, at: SystemTime) -> ends::Slot {
    let started = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
    ends::Slot {
        pid,
        log: request.log,
        ends_with_exit: request.ends_with_exit,
        started: u64::try_from(started).unwrap_or(u64::MAX),
    }
}
