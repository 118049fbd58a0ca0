//! What keeps the pilot going when the pipe of a task does not let go of whoever reads it.
//!
//! Reading or closing a pipe takes a lock of the kernel's. Whoever has the other end can hold that
//! for as long as they like, and a thread that waits for it can be neither woken nor killed. So
//! each thread says when it is about to do either, and one that looks every now and then finds
//! those that hang: another takes their place, the task is ended, and from then on the pipes of
//! that person are read and closed by a thread of their own, at their own cost.
//!
//! On the usual path this is two numbers of the thread's own that it writes beside each read.

use super::watch::WatchThread;
use super::{DRAIN_LIMIT, Shared, lock, start_thread};
use rustix::process::Signal;
use shipway_runtime::again;
use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks at the threads.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Looks at the same act of a thread after which it hangs: it takes microseconds otherwise.
const HANGS_AFTER: u32 = 2;

/// The number of no task.
const NOBODYS: u64 = u64::MAX;

const HELD: &str = "a process keeps the pipe of this output busy, so that it cannot be read: the \
                    task is ended";

/// What a thread says of itself.
#[derive(Debug, Default)]
pub(super) struct Mark {
    /// How often it has begun or ended to read or close a pipe: odd in between.
    acts: AtomicU64,
    /// Of which task.
    slot: AtomicU64,
    /// It has been in that for too long.
    hangs: AtomicBool,
}

impl Mark {
    pub(super) fn at(&self, slot: u64) {
        self.slot.store(slot, Ordering::Relaxed);
    }

    /// What may never come back. With it, whether it was given up meanwhile.
    pub(super) fn during<T>(&self, act: impl FnOnce() -> T) -> (T, bool) {
        self.acts.fetch_add(1, Ordering::SeqCst);
        let done = act();
        // One order for this and what `give_up` does: one of the two sees the other.
        self.acts.fetch_add(1, Ordering::SeqCst);
        let given_up = self.hangs.load(Ordering::SeqCst);
        if given_up {
            self.hangs.store(false, Ordering::SeqCst);
        }
        (done, given_up)
    }
}

/// What is left to the thread of one person.
pub(super) enum Errand {
    /// The number of a task, and which of its outputs is to be read.
    Read(u64, u64),
    Close([Option<OwnedFd>; 2]),
}

/// The thread that has the pipes of one person, and what it is to do.
#[derive(Default)]
pub(super) struct Lane {
    mark: Arc<Mark>,
    errands: Mutex<VecDeque<Errand>>,
    more: Condvar,
}

impl Lane {
    pub(super) fn leave(&self, errand: Errand) {
        lock(&self.errands).push_back(errand);
        self.more.notify_one();
    }

    fn next(&self) -> Option<Errand> {
        let errands = lock(&self.errands);
        let waited = self.more.wait_timeout_while(errands, LOOK_EVERY, |all| all.is_empty());
        waited.unwrap_or_else(PoisonError::into_inner).0.pop_front()
    }

    fn run(&self, shared: &Shared) {
        let mut thread = WatchThread::new(shared, Arc::clone(&self.mark), true);
        while !shared.is_over() {
            match self.next() {
                Some(Errand::Read(slot, about)) => thread.read_apart(slot, about),
                Some(Errand::Close(pipes)) => {
                    // Their task is over.
                    self.mark.at(NOBODYS);
                    self.mark.during(|| drop(pipes));
                }
                None => {}
            }
        }
    }
}

/// Who hangs, and who has a thread of their own since somebody did.
#[derive(Default)]
pub(super) struct Pipes {
    marks: Mutex<Vec<Arc<Mark>>>,
    has_lanes: AtomicBool,
    lanes: Mutex<HashMap<String, Arc<Lane>>>,
}

impl Pipes {
    pub(super) fn new_mark(&self) -> Arc<Mark> {
        let mark = Arc::<Mark>::default();
        lock(&self.marks).push(Arc::clone(&mark));
        mark
    }

    /// Whether anybody's pipes are read by a thread of their own. Usually not.
    pub(super) fn has_lanes(&self) -> bool {
        self.has_lanes.load(Ordering::Acquire)
    }

    /// Who reads and closes the pipes of this person, if not everybody.
    pub(super) fn lane(&self, person: &str) -> Option<Arc<Lane>> {
        self.has_lanes().then(|| lock(&self.lanes).get(person).cloned()).flatten()
    }

    /// Whether the pipes of this person's tasks are not let go of: each further task would leave
    /// some to be closed.
    pub(super) fn are_held(&self, person: &str) -> bool {
        self.lane(person).is_some_and(|lane| lane.mark.hangs.load(Ordering::Acquire))
    }

    fn add_lane(&self, shared: &Arc<Shared>, person: &str) {
        let mut lanes = lock(&self.lanes);
        if lanes.contains_key(person) {
            return;
        }
        let lane = Arc::new(Lane { mark: self.new_mark(), ..Lane::default() });
        let (its, of) = (Arc::clone(&lane), Arc::clone(shared));
        match again::thread("tasks-apart", move || its.run(&of)) {
            Ok(_) => {
                lanes.insert(person.to_owned(), lane);
                self.has_lanes.store(true, Ordering::Release);
            }
            Err(error) => tracing::error!(%error, person, "no thread for the output of a person"),
        }
    }

    fn is_lane(&self, mark: &Arc<Mark>) -> bool {
        lock(&self.lanes).values().any(|lane| Arc::ptr_eq(&lane.mark, mark))
    }
}

/// The body of the thread that looks at the others.
pub(super) fn look_after(shared: &Arc<Shared>) {
    let mut seen: Vec<(u64, u32)> = Vec::new();
    while !shared.is_over() {
        std::thread::sleep(LOOK_EVERY);
        let marks = lock(&shared.pipes.marks).clone();
        seen.resize(marks.len(), (0, 0));
        for (mark, (last, times)) in marks.iter().zip(&mut seen) {
            let acts = mark.acts.load(Ordering::SeqCst);
            *times = if acts == *last && acts % 2 == 1 { *times + 1 } else { 0 };
            *last = acts;
            if *times == HANGS_AFTER {
                give_up(shared, mark, acts);
            }
        }
    }
}

/// One of them hangs: others go on in its place.
fn give_up(shared: &Arc<Shared>, mark: &Arc<Mark>, acts: u64) {
    mark.hangs.store(true, Ordering::SeqCst);
    if mark.acts.load(Ordering::SeqCst) != acts {
        // It has come back just now.
        return mark.hangs.store(false, Ordering::SeqCst);
    }
    let slot = mark.slot.load(Ordering::Relaxed);
    if let Some(task) = shared.watcher.task(slot) {
        let (person, leader) = {
            let task = lock(&task);
            (task.user.clone(), Arc::clone(task.leader()))
        };
        tracing::warn!(
            person,
            "the output of a task is kept busy, and a thread hangs in reading it"
        );
        shared.pipes.add_lane(shared, &person);
        lock(&leader.last_words).get_or_insert_with(|| HELD.to_owned());
        shared.signal(&leader, Signal::KILL);
        // Should it be dead already, whoever hangs was about to see to the rest.
        shared.watcher.give_up_at(slot, Instant::now() + DRAIN_LIMIT);
        shared.watcher.look_at(slot, Instant::now());
    }
    if !shared.pipes.is_lane(mark)
        && let Err(error) = start_thread(shared)
    {
        tracing::error!(%error, "no thread in place of one that hangs");
    }
}
