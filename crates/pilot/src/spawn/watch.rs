//! Watches processes and their output: one thread, one epoll, many tasks.
//!
//! A task belongs to one watcher for its whole life, so its end and its output need no agreement
//! between threads. Nothing is polled; the only timeout is `DRAIN_LIMIT`, and only while a task is
//! dead whose pipes or processes are not.

use super::launch::Launched;
use super::{DRAIN_LIMIT, Ended, HowEnded, Leader, ProcessEvent, Shared, Ticket, lock};
use crate::logs::{CHUNK_BYTES, StreamWriter};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;
use rustix::process::{Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

/// Events taken from the kernel at once.
const EVENT_BATCH: usize = 256;

/// Reads from one pipe when its task has ended before other tasks get their turn; a pipe holds
/// one or two of them unless the task made it bigger.
const END_READS: usize = 16;

/// What an event is about: the low bits of its number, above them the task's slot.
const ABOUT_LEADER: u64 = 0;
const ABOUT_OUT: u64 = 1;
const ABOUT_ERR: u64 = 2;
const ABOUT_ORPHAN: u64 = 3;
const ABOUT_BITS: u32 = 2;
const WAKE: u64 = u64::MAX;

/// One of the two streams of a task: the pipe until its end, and the log it goes to.
pub(super) struct Output {
    open: Option<(OwnedFd, StreamWriter)>,
}

impl Output {
    pub(super) fn new(pipe: OwnedFd, log: StreamWriter) -> Self {
        Self { open: Some((pipe, log)) }
    }

    /// Moves what is there to the log, in at most `reads` pieces.
    fn pump(&mut self, epoll: &OwnedFd, buffer: &mut [u8], reads: usize) {
        for _ in 0..reads {
            let Some((pipe, log)) = &mut self.open else { return };
            match rustix::io::read(&*pipe, &mut *buffer) {
                Ok(length) if length > 0 => log.append(&buffer[..length]),
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => self.close(epoll),
            }
        }
    }

    fn close(&mut self, epoll: &OwnedFd) {
        if let Some((pipe, _)) = self.open.take() {
            forget(epoll, &pipe);
        }
    }
}

/// Takes a descriptor out of the epoll before it is closed. Closing alone is not enough: another
/// process that is just being started has a copy until it reaches its program, and for that long
/// the kernel would wake us over and over for a descriptor nobody knows any more.
fn forget(epoll: &OwnedFd, fd: &OwnedFd) {
    let _not_registered = epoll::delete(epoll, fd);
}

pub(super) struct Task {
    ticket: Ticket,
    key: String,
    leader: Arc<Leader>,
    pidfd: OwnedFd,
    outputs: [Output; 2],
    started: SystemTime,
    clock: Instant,
    /// Set when the leader is dead.
    ended: Option<Ended>,
    orphans: Vec<OwnedFd>,
}

impl Task {
    pub(super) fn new(
        ticket: Ticket,
        key: String,
        launched: Launched,
        (out, err): (StreamWriter, StreamWriter),
    ) -> Self {
        let Launched { pid, pidfd, out: out_pipe, err: err_pipe, started, clock } = launched;
        Self {
            ticket,
            key,
            leader: Arc::new(Leader { pid, reaped: Mutex::new(false) }),
            pidfd,
            outputs: [Output::new(out_pipe, out), Output::new(err_pipe, err)],
            started,
            clock,
            ended: None,
            orphans: Vec::new(),
        }
    }

    pub(super) fn leader(&self) -> &Arc<Leader> {
        &self.leader
    }

    fn left(&self) -> usize {
        let open = self.outputs.iter().filter(|output| output.open.is_some()).count();
        open + self.orphans.len()
    }
}

/// The part of a watcher that other threads reach: its epoll, and the tasks it watches.
pub(super) struct Watcher {
    epoll: OwnedFd,
    wake: OwnedFd,
    next_slot: AtomicU64,
    tasks: Mutex<HashMap<u64, Arc<Mutex<Task>>>>,
}

impl Watcher {
    pub(super) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &wake, EventData::new_u64(WAKE), EventFlags::IN)?;
        Ok(Self { epoll, wake, next_slot: AtomicU64::new(0), tasks: Mutex::default() })
    }

    pub(super) fn wake(&self) {
        let _already_awake = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Called by a spawner: from here on the watcher's thread has the task. `announce` runs
    /// before anything that happens to the task is looked at.
    pub(super) fn add(&self, task: Task, announce: impl FnOnce()) -> io::Result<()> {
        let slot = self.next_slot.fetch_add(1, Ordering::Relaxed);
        let shared_task = Arc::new(Mutex::new(task));
        lock(&self.tasks).insert(slot, Arc::clone(&shared_task));
        // Held throughout: an event that comes at once waits for the rest of this.
        let task = lock(&shared_task);
        let registered = self.register_all(&task, slot);
        if registered.is_ok() {
            announce();
        } else {
            lock(&self.tasks).remove(&slot);
            end_unwatched(&task);
        }
        registered
    }

    fn register_all(&self, task: &Task, slot: u64) -> io::Result<()> {
        for (output, about) in task.outputs.iter().zip([ABOUT_OUT, ABOUT_ERR]) {
            if let Some((pipe, _)) = &output.open {
                self.register(pipe, slot, about)?;
            }
        }
        self.register(&task.pidfd, slot, ABOUT_LEADER)
    }

    fn register(&self, fd: &OwnedFd, slot: u64, about: u64) -> io::Result<()> {
        let data = EventData::new_u64(slot << ABOUT_BITS | about);
        Ok(epoll::add(&self.epoll, fd, data, EventFlags::IN)?)
    }
}

/// The body of a watcher's thread; returns when the pool is closed and nothing is left.
pub(super) fn run(shared: &Shared, number: usize) {
    let watcher = &shared.watchers[number];
    let mut thread =
        WatchThread { shared, watcher, buffer: vec![0; CHUNK_BYTES], draining: VecDeque::new() };
    let mut events: Vec<Event> = Vec::with_capacity(EVENT_BATCH);
    while !shared.is_over() {
        let timeout = thread.until_next_deadline();
        match epoll::wait(&watcher.epoll, spare_capacity(&mut events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => unreachable!("waiting on our own epoll cannot fail: {errno}"),
        }
        for event in events.drain(..) {
            thread.handle(event);
        }
        thread.give_up_overdue(Instant::now());
    }
}

struct WatchThread<'a> {
    shared: &'a Shared,
    watcher: &'a Watcher,
    buffer: Vec<u8>,
    /// Dead tasks that wait for pipes or processes, the oldest first.
    draining: VecDeque<(Instant, u64)>,
}

impl WatchThread<'_> {
    fn handle(&mut self, event: Event) {
        let (data, flags) = (event.data, event.flags);
        let number = data.u64();
        if number == WAKE {
            return;
        }
        let (slot, about) = (number >> ABOUT_BITS, number & ((1 << ABOUT_BITS) - 1));
        // Gone when an event before this one in the same batch finished the task.
        let Some(task) = lock(&self.watcher.tasks).get(&slot).cloned() else { return };
        let mut task = lock(&task);
        match about {
            ABOUT_LEADER => self.leader_died(slot, &mut task),
            ABOUT_OUT => self.output_ready(&mut task.outputs[0], flags),
            ABOUT_ERR => self.output_ready(&mut task.outputs[1], flags),
            ABOUT_ORPHAN => self.sweep(slot, &mut task),
            _ => unreachable!("two bits hold four values"),
        }
        if task.ended.is_some() && task.left() == 0 {
            self.finish(slot, &mut task);
        }
    }

    fn output_ready(&mut self, output: &mut Output, flags: EventFlags) {
        if flags.contains(EventFlags::IN) {
            output.pump(&self.watcher.epoll, &mut self.buffer, 1);
        } else {
            // Hung up and nothing to read: the end, without another read to be told so.
            output.close(&self.watcher.epoll);
        }
    }

    fn leader_died(&mut self, slot: u64, task: &mut Task) {
        let status = end_group(&task.leader, &task.pidfd);
        lock(&self.shared.leaders).remove(&task.ticket);
        let (how, core_dumped) = how_ended(status.as_ref());
        task.ended = Some(Ended {
            ticket: task.ticket,
            how,
            core_dumped,
            started: task.started,
            ended: SystemTime::now(),
            ran: task.clock.elapsed(),
            left_behind: 0,
        });
        // It stays readable for ever; nothing more is to be learnt from it.
        forget(&self.watcher.epoll, &task.pidfd);
        for output in &mut task.outputs {
            output.pump(&self.watcher.epoll, &mut self.buffer, END_READS);
        }
        self.sweep(slot, task);
        if task.left() > 0 {
            self.draining.push_back((Instant::now() + DRAIN_LIMIT, slot));
        }
    }

    fn sweep(&self, slot: u64, task: &mut Task) {
        for pidfd in task.orphans.drain(..) {
            forget(&self.watcher.epoll, &pidfd);
        }
        task.orphans = self.shared.orphans.sweep(&task.key, self.shared);
        // One that cannot be watched is killed all the same; its end is not waited for.
        task.orphans.retain(|pidfd| self.watcher.register(pidfd, slot, ABOUT_ORPHAN).is_ok());
    }

    fn finish(&self, slot: u64, task: &mut Task) {
        let Some(mut ended) = task.ended.take() else { return };
        ended.left_behind = task.left();
        lock(&self.watcher.tasks).remove(&slot);
        for output in &mut task.outputs {
            output.close(&self.watcher.epoll);
        }
        for pidfd in task.orphans.drain(..) {
            forget(&self.watcher.epoll, &pidfd);
        }
        self.shared.finish(ProcessEvent::Ended(ended));
    }

    fn until_next_deadline(&self) -> Option<Timespec> {
        let (deadline, _) = self.draining.front()?;
        let left = deadline.saturating_duration_since(Instant::now());
        Some(left.try_into().expect("a limit of seconds fits a timespec"))
    }

    fn give_up_overdue(&mut self, now: Instant) {
        while self.draining.front().is_some_and(|(deadline, _)| *deadline <= now) {
            let Some((_, slot)) = self.draining.pop_front() else { return };
            let Some(task) = lock(&self.watcher.tasks).get(&slot).cloned() else { continue };
            self.finish(slot, &mut lock(&task));
        }
    }
}

/// Kills the group of a dead leader and reaps the leader. In this order: while the leader is not
/// reaped its pid cannot be reused, so the group can only be its own. `None` when somebody else
/// has reaped it.
fn end_group(leader: &Leader, pidfd: &OwnedFd) -> Option<WaitIdStatus> {
    let mut reaped = lock(&leader.reaped);
    // Looks without reaping, or else the group might by now be a stranger's.
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    if waitid(WaitId::PidFd(pidfd.as_fd()), look).is_ok() {
        let _nobody_left = kill_process_group(leader.pid, Signal::KILL);
    }
    *reaped = true;
    waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED).ok().flatten()
}

/// For a process that cannot be watched: it must not run unseen.
fn end_unwatched(task: &Task) {
    let mut reaped = lock(&task.leader.reaped);
    let _already_dead = kill_process_group(task.leader.pid, Signal::KILL);
    let _reaped = waitid(WaitId::PidFd(task.pidfd.as_fd()), WaitIdOptions::EXITED);
    *reaped = true;
}

fn how_ended(status: Option<&WaitIdStatus>) -> (HowEnded, bool) {
    let Some(status) = status else { return (HowEnded::Unknown, false) };
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => (HowEnded::Exit(code), false),
        (None, Some(signal)) => (HowEnded::Signal(signal), status.dumped()),
        (None, None) => (HowEnded::Unknown, false),
    }
}
