//! What the threads of a pool watch together: tasks with their descriptors, and when to look at one
//! without an event.

use super::task::{Output, Task};
use super::{graves, lock};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Signal, kill_process_group};
use shipway_runtime::again::patiently;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The pause between two signals to a process that was killed and is not dead.
pub(super) const KILL_AGAIN: Duration = Duration::from_secs(1);

/// What an event is about: the low bits of its number, above them the task's slot.
pub(super) const ABOUT_LEADER: u64 = 0;
pub(super) const ABOUT_OUT: u64 = 1;
pub(super) const ABOUT_ERR: u64 = 2;
pub(super) const ABOUT_ORPHAN: u64 = 3;
pub(super) const ABOUT_BITS: u32 = 2;
pub(super) const WAKE: u64 = u64::MAX;

/// What is watched, by all threads of a pool together.
pub(super) struct Watcher {
    pub(super) epoll: OwnedFd,
    pub(super) wake: OwnedFd,
    pub(super) next_slot: AtomicU64,
    pub(super) tasks: Mutex<HashMap<u64, Arc<Mutex<Task>>>>,
    /// Dead tasks that wait for pipes or processes, the oldest first.
    pub(super) draining: Mutex<VecDeque<(Instant, u64)>>,
    /// Tasks that are looked at again, and when.
    pub(super) again: Mutex<BTreeSet<(Instant, u64)>>,
}

impl Watcher {
    pub(super) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        // Each write wakes one thread, and nobody has to read it.
        let once_each = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &wake, EventData::new_u64(WAKE), once_each)?;
        Ok(Self {
            epoll,
            wake,
            next_slot: AtomicU64::new(0),
            tasks: Mutex::default(),
            draining: Mutex::default(),
            again: Mutex::default(),
        })
    }

    /// Wakes one thread.
    pub(super) fn wake(&self) {
        let _already_awake = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Has a thread look at a task without an event.
    pub(super) fn check_at(&self, slot: u64, at: Instant) {
        lock(&self.again).insert((at, slot));
        // Whoever waits now does not know of it.
        self.wake();
    }

    /// Has a dead task end then, whatever it waits for.
    pub(super) fn give_up_at(&self, slot: u64, at: Instant) {
        lock(&self.draining).push_back((at, slot));
        self.wake();
    }

    /// Gone when it has ended.
    pub(super) fn task(&self, slot: u64) -> Option<Arc<Mutex<Task>>> {
        lock(&self.tasks).get(&slot).cloned()
    }

    /// From here on any thread may see to the task. `announce` runs before anything that happens
    /// to it is looked at.
    pub(super) fn add(&self, task: Task, announce: impl FnOnce()) -> io::Result<()> {
        let slot = self.next_slot.fetch_add(1, Ordering::Relaxed);
        let shared_task = Arc::new(Mutex::new(task));
        lock(&self.tasks).insert(slot, Arc::clone(&shared_task));
        // Held throughout: an event that comes at once waits for the rest of this.
        let task = lock(&shared_task);
        let _first = task.leader.watched_as.set(slot);
        let registered = self.register_all(&task, slot);
        if registered.is_ok() {
            announce();
        } else {
            lock(&self.tasks).remove(&slot);
            end_unwatched(&task);
        }
        registered
    }

    pub(super) fn register_all(&self, task: &Task, slot: u64) -> io::Result<()> {
        for (output, about) in task.outputs.iter().zip([ABOUT_OUT, ABOUT_ERR]) {
            if let Output::Open(piped) = output {
                patiently(|| self.register(&piped.pipe, slot, about))?;
            }
        }
        patiently(|| self.register(&task.pidfd, slot, ABOUT_LEADER))
    }

    pub(super) fn register(&self, fd: &OwnedFd, slot: u64, about: u64) -> io::Result<()> {
        let data = EventData::new_u64(slot << ABOUT_BITS | about);
        let flags = EventFlags::IN | EventFlags::ONESHOT;
        Ok(epoll::add(&self.epoll, fd, data, flags)?)
    }

    pub(super) fn listen_again(&self, fd: &OwnedFd, slot: u64, about: u64) {
        let data = EventData::new_u64(slot << ABOUT_BITS | about);
        let armed = epoll::modify(&self.epoll, fd, data, EventFlags::IN | EventFlags::ONESHOT);
        armed.expect("a registered descriptor can be armed again");
    }
}

/// For a process that cannot be watched: it must not run unseen.
fn end_unwatched(task: &Task) {
    let mut over = lock(&task.leader.over);
    let _already_dead = kill_process_group(task.leader.pid, Signal::KILL);
    graves::bury(task.leader.pid);
    *over = true;
}
