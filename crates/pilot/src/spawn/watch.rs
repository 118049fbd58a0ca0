//! What the pool's threads do: start processes, and watch them and their output by one epoll.
//!
//! Each thread takes one event at a time, so whichever is free sees to the next; what one event
//! leads to (the end of a task, and so the start of another) is done without waking anybody. Every
//! descriptor speaks once and is armed again when it was listened to: so no event is seen by two,
//! and closing a descriptor is enough to hear no more of it. Nothing is polled; the only timeout
//! is `DRAIN_LIMIT`, and only while a task is dead whose pipes or processes are not.

use super::launch::{Launched, Writing};
use super::{
    DRAIN_LIMIT, Ended, HowEnded, Leader, ProcessEvent, Shared, StartError, Ticket, lock,
    start_next,
};
use crate::logs::{CHUNK_BYTES, StreamWriter};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;
use rustix::process::{Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid};
use shipway_runtime::again::patiently;
use shipway_runtime::report::Ending;
use shipway_runtime::runtime::After;
use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

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

const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// One of the two streams of a task: the pipe until its end, and the log it goes to.
pub(super) struct Output {
    open: Option<(OwnedFd, StreamWriter)>,
}

impl Output {
    pub(super) fn new(pipe: OwnedFd, log: StreamWriter) -> Self {
        Self { open: Some((pipe, log)) }
    }

    /// Adds a line of our own.
    fn say(&mut self, words: &str) {
        if let Some((_, log)) = &mut self.open {
            log.append(format!("shipway: {words}\n").as_bytes());
        }
    }

    /// Moves what is there to the log, in at most `reads` pieces.
    fn pump(&mut self, buffer: &mut [u8], reads: usize) {
        for _ in 0..reads {
            let Some((pipe, log)) = &mut self.open else { return };
            match rustix::io::read(&*pipe, &mut *buffer) {
                Ok(length) if length > 0 => log.append(&buffer[..length]),
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => self.open = None,
            }
        }
    }
}

pub(super) struct Task {
    ticket: Ticket,
    /// Its place where it is written down which process it is.
    slot: Option<u32>,
    key: String,
    leader: Arc<Leader>,
    pidfd: OwnedFd,
    outputs: [Output; 2],
    /// Until the leader is dead.
    writing: Option<Writing>,
    after: Option<After>,
    /// What a container needs as long as it runs.
    _holds: Option<Arc<dyn std::fmt::Debug + Send + Sync>>,
    started: SystemTime,
    clock: Instant,
    /// Set when the leader is dead.
    ended: Option<Ended>,
    /// Why there was no task in the container.
    not_started: Option<String>,
    orphans: Vec<OwnedFd>,
}

impl Task {
    pub(super) fn new(
        (ticket, slot): (Ticket, Option<u32>),
        key: String,
        launched: Launched,
        (out, err): (StreamWriter, StreamWriter),
        holds: Option<Arc<dyn std::fmt::Debug + Send + Sync>>,
    ) -> Self {
        let Launched { pid, pidfd, out: out_pipe, err: err_pipe, writing, after, started, clock } =
            launched;
        Self {
            ticket,
            slot,
            key,
            leader: Arc::new(Leader::new(pid)),
            pidfd,
            outputs: [Output::new(out_pipe, out), Output::new(err_pipe, err)],
            writing: Some(writing),
            after,
            _holds: holds,
            started,
            clock,
            ended: None,
            not_started: None,
            orphans: Vec::new(),
        }
    }

    pub(super) fn leader(&self) -> &Arc<Leader> {
        &self.leader
    }

    fn how_container_ended(&mut self, status: &WaitIdStatus, after: &After) -> (HowEnded, bool) {
        let raw = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => (code & 0xff) << 8,
            (None, signal) => signal.unwrap_or(0) | if status.dumped() { 0x80 } else { 0 },
        };
        match after.ending(ExitStatus::from_raw(raw)) {
            Ending::Exit(code) => (HowEnded::Exit(code), false),
            Ending::Signal { number, core_dumped } => (HowEnded::Signal(number), core_dumped),
            Ending::NotStarted(told) => {
                let code = told.why.exit_code();
                self.not_started = Some(told.message);
                (HowEnded::Exit(code), false)
            }
        }
    }

    fn left(&self) -> usize {
        let open = self.outputs.iter().filter(|output| output.open.is_some()).count();
        open + self.orphans.len()
    }
}

/// What is watched, by all threads of a pool together.
pub(super) struct Watcher {
    epoll: OwnedFd,
    wake: OwnedFd,
    next_slot: AtomicU64,
    tasks: Mutex<HashMap<u64, Arc<Mutex<Task>>>>,
    /// Dead tasks that wait for pipes or processes, the oldest first.
    draining: Mutex<VecDeque<(Instant, u64)>>,
}

impl Watcher {
    pub(super) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        // Each write wakes one thread, and nobody has to read it.
        let once_each = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &wake, EventData::new_u64(WAKE), once_each)?;
        let (tasks, draining) = (Mutex::default(), Mutex::default());
        Ok(Self { epoll, wake, next_slot: AtomicU64::new(0), tasks, draining })
    }

    /// Wakes one thread.
    pub(super) fn wake(&self) {
        let _already_awake = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// From here on any thread may see to the task. `announce` runs before anything that happens
    /// to it is looked at.
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
                patiently(|| self.register(pipe, slot, about))?;
            }
        }
        patiently(|| self.register(&task.pidfd, slot, ABOUT_LEADER))
    }

    fn register(&self, fd: &OwnedFd, slot: u64, about: u64) -> io::Result<()> {
        let data = EventData::new_u64(slot << ABOUT_BITS | about);
        let flags = EventFlags::IN | EventFlags::ONESHOT;
        Ok(epoll::add(&self.epoll, fd, data, flags)?)
    }

    fn listen_again(&self, fd: &OwnedFd, slot: u64, about: u64) {
        let data = EventData::new_u64(slot << ABOUT_BITS | about);
        let armed = epoll::modify(&self.epoll, fd, data, EventFlags::IN | EventFlags::ONESHOT);
        armed.expect("a registered descriptor can be armed again");
    }
}

thread_local! {
    static IS_POOL_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Whether the caller will look at the queue before it waits for anything.
pub(super) fn is_pool_thread() -> bool {
    IS_POOL_THREAD.get()
}

/// The body of each thread; returns when the pool is closed and nothing is left. Not before: the
/// children of a thread that ends are handed to the main thread, where they would be taken for
/// orphans.
pub(super) fn run(shared: &Shared) {
    IS_POOL_THREAD.set(true);
    let watcher = &shared.watcher;
    let mut thread = WatchThread { shared, watcher, buffer: Vec::new() };
    // Room for one: whichever thread is free takes the next.
    let mut events: Vec<Event> = Vec::with_capacity(1);
    while !shared.is_over() {
        let more_to_start = start_next(shared);
        let timeout = if more_to_start { Some(NO_WAIT) } else { thread.until_next_deadline() };
        match epoll::wait(&watcher.epoll, spare_capacity(&mut events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => unreachable!("waiting on our own epoll cannot fail: {errno}"),
        }
        if let Some(event) = events.pop() {
            thread.handle(event);
        }
        thread.give_up_overdue();
    }
    // The others have to see it too.
    watcher.wake();
}

struct WatchThread<'a> {
    shared: &'a Shared,
    watcher: &'a Watcher,
    /// Made when the first output comes.
    buffer: Vec<u8>,
}

impl WatchThread<'_> {
    fn handle(&mut self, event: Event) {
        let number = event.data.u64();
        if number == WAKE {
            return;
        }
        let (slot, about) = (number >> ABOUT_BITS, number & ((1 << ABOUT_BITS) - 1));
        // Gone when another event has finished the task meanwhile.
        let Some(task) = lock(&self.watcher.tasks).get(&slot).cloned() else { return };
        let mut task = lock(&task);
        match about {
            ABOUT_LEADER => self.leader_died(slot, &mut task),
            ABOUT_OUT => self.output_ready(slot, &mut task.outputs[0], about),
            ABOUT_ERR => self.output_ready(slot, &mut task.outputs[1], about),
            ABOUT_ORPHAN => self.sweep(slot, &mut task),
            _ => unreachable!("two bits hold four values"),
        }
        if task.ended.is_some() && task.left() == 0 {
            self.finish(slot, &mut task);
        }
    }

    fn output_ready(&mut self, slot: u64, output: &mut Output, about: u64) {
        output.pump(self.buffer(), 1);
        if let Some((pipe, _)) = &output.open {
            self.watcher.listen_again(pipe, slot, about);
        }
    }

    fn buffer(&mut self) -> &mut [u8] {
        self.buffer.resize(CHUNK_BYTES, 0);
        &mut self.buffer
    }

    fn leader_died(&mut self, slot: u64, task: &mut Task) {
        let status = end_group(&task.leader, &task.pidfd);
        let (how, core_dumped) = match (&status, task.after.take()) {
            (Some(status), Some(after)) => task.how_container_ended(status, &after),
            _ => how_ended(status.as_ref()),
        };
        task.ended = Some(Ended {
            ticket: task.ticket,
            how,
            core_dumped,
            started: task.started,
            ended: SystemTime::now(),
            ran: task.clock.elapsed(),
            left_behind: 0,
        });
        if let Some(words) = lock(&task.leader.last_words).take() {
            task.outputs[1].pump(self.buffer(), END_READS);
            task.outputs[1].say(&words);
        }
        task.writing = None;
        for output in &mut task.outputs {
            output.pump(self.buffer(), END_READS);
        }
        self.sweep(slot, task);
        if task.left() > 0 {
            let give_up = (Instant::now() + DRAIN_LIMIT, slot);
            lock(&self.watcher.draining).push_back(give_up);
        }
    }

    fn sweep(&self, slot: u64, task: &mut Task) {
        task.orphans = self.shared.orphans.sweep(&task.key, self.shared);
        // One that cannot be watched is killed all the same; its end is not waited for.
        task.orphans.retain(|pidfd| self.watcher.register(pidfd, slot, ABOUT_ORPHAN).is_ok());
    }

    fn finish(&self, slot: u64, task: &mut Task) {
        let Some(mut ended) = task.ended.take() else { return };
        ended.left_behind = task.left();
        lock(&self.watcher.tasks).remove(&slot);
        for output in &mut task.outputs {
            output.open = None;
        }
        task.orphans.clear();
        self.shared.finish(match task.not_started.take() {
            None => ProcessEvent::Ended(ended),
            Some(message) => {
                let error = StartError::Container { message };
                ProcessEvent::NotStarted { ticket: ended.ticket, error }
            }
        });
        self.bury(task);
    }

    /// Reaps the leader. Not before its end is known to the sink: if this process is killed before
    /// that, whoever gets the dead leader can see how it ended.
    fn bury(&self, task: &Task) {
        let _gone = waitid(WaitId::PidFd(task.pidfd.as_fd()), WaitIdOptions::EXITED);
        lock(&self.shared.leaders).remove(&task.ticket);
        if let (Some(slots), Some(slot)) = (&self.shared.slots, task.slot) {
            slots.give_back(slot);
        }
    }

    fn until_next_deadline(&self) -> Option<Timespec> {
        let draining = lock(&self.watcher.draining).front().map(|(deadline, _)| *deadline);
        let later = lock(&self.shared.queue).later.front().map(|(at, _)| *at);
        let deadline = draining.into_iter().chain(later).min()?;
        let left = deadline.saturating_duration_since(Instant::now());
        Some(left.try_into().expect("a limit of seconds fits a timespec"))
    }

    fn give_up_overdue(&self) {
        while let Some(slot) = self.next_overdue() {
            let Some(task) = lock(&self.watcher.tasks).get(&slot).cloned() else { continue };
            self.finish(slot, &mut lock(&task));
        }
    }

    fn next_overdue(&self) -> Option<u64> {
        let mut draining = lock(&self.watcher.draining);
        // The clock is only asked when there is something to compare it with.
        let overdue = draining.pop_front_if(|(deadline, _)| *deadline <= Instant::now());
        overdue.map(|(_, slot)| slot)
    }
}

/// Kills the group of a dead leader and says how the leader ended, without reaping it: so its pid
/// cannot be reused, and the group can only be its own. `None` when somebody else has reaped it.
fn end_group(leader: &Leader, pidfd: &OwnedFd) -> Option<WaitIdStatus> {
    let mut over = lock(&leader.over);
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let status = waitid(WaitId::PidFd(pidfd.as_fd()), look);
    if status.is_ok() {
        let _nobody_left = kill_process_group(leader.pid, Signal::KILL);
    }
    *over = true;
    status.ok().flatten()
}

/// For a process that cannot be watched: it must not run unseen.
fn end_unwatched(task: &Task) {
    let mut over = lock(&task.leader.over);
    let _already_dead = kill_process_group(task.leader.pid, Signal::KILL);
    let _reaped = waitid(WaitId::PidFd(task.pidfd.as_fd()), WaitIdOptions::EXITED);
    *over = true;
}

fn how_ended(status: Option<&WaitIdStatus>) -> (HowEnded, bool) {
    let Some(status) = status else { return (HowEnded::Unknown, false) };
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => (HowEnded::Exit(code), false),
        (None, Some(signal)) => (HowEnded::Signal(signal), status.dumped()),
        (None, None) => (HowEnded::Unknown, false),
    }
}
