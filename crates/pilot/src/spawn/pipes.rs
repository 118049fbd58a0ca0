//! What keeps the pilot going when the pipe of a task does not let go of whoever reads it.
//!
//! Reading or closing a pipe takes a lock of the kernel's. Whoever has the other end can hold that
//! for as long as they like, and a thread that waits for it can be neither woken nor killed. So
//! each thread says when it is about to do either, and how long it took. Whoever's pipe took longer
//! than it ever should has a lane from then on: a thread of their own reads and closes their pipes,
//! at their own cost. On a busy machine somebody may get one for nothing, which costs a thread. And
//! one that looks every now and then finds those that hang: another takes their place, and the task
//! is ended.
//!
//! On the usual path this is two looks at the clock, and two numbers of the thread's own that it
//! writes beside each read.

use super::watch::WatchThread;
use super::{DRAIN_LIMIT, Shared, lock, start_thread};
use rustix::process::Signal;
use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Between two looks at the threads.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Looks at the same act of a thread after which it hangs: it takes microseconds otherwise.
const HANGS_AFTER: u32 = 2;

/// An act that takes longer than this may be somebody's doing.
const SLOW: Duration = Duration::from_millis(50);

/// Pipes of one person that wait to be closed by their thread. Unless they are held it closes them
/// faster than tasks can end.
const MOST_UNCLOSED: usize = if cfg!(test) { 8 } else { 2_048 };

/// The number of no task.
const NOBODYS: u64 = u64::MAX;

const HELD: &str = "a process keeps the pipe of this output busy, so that it cannot be read: the \
                    task is ended";

/// How an act went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    Usual,
    /// It took longer than it should: whose pipe it was gets a lane.
    Slow,
    /// It was given up meanwhile, and others have gone on.
    GivenUp,
}

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

    /// What may never come back. With it, how it went.
    pub(super) fn during<T>(&self, act: impl FnOnce() -> T) -> (T, Pace) {
        let began = Instant::now();
        self.acts.fetch_add(1, Ordering::SeqCst);
        let done = act();
        // One order for this and what `give_up` does: one of the two sees the other.
        self.acts.fetch_add(1, Ordering::SeqCst);
        if self.hangs.load(Ordering::SeqCst) {
            self.hangs.store(false, Ordering::SeqCst);
            return (done, Pace::GivenUp);
        }
        let is_slow = began.elapsed() > SLOW;
        (done, if is_slow { Pace::Slow } else { Pace::Usual })
    }
}

/// What is left to the thread of one person.
pub(super) enum Errand {
    /// The number of a task, and which of its outputs is to be read.
    Read(u64, u64),
    /// A pipe of a task that is over.
    Close(OwnedFd),
}

/// The thread that has the pipes of one person, and what it is to do.
#[derive(Default)]
pub(super) struct Lane {
    mark: Arc<Mark>,
    errands: Mutex<VecDeque<Errand>>,
    more: Condvar,
    /// Its thread has begun.
    begun: AtomicBool,
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

    /// Where the node has no room for its thread, whoever looks after the others tries again: what
    /// is left to it waits.
    fn begin(self: &Arc<Self>, shared: &Arc<Shared>) {
        if self.begun.swap(true, Ordering::AcqRel) {
            return;
        }
        let (its, of) = (Arc::clone(self), Arc::clone(shared));
        let thread = Builder::new().name("tasks-apart".into());
        if let Err(error) = thread.spawn(move || its.run(&of)) {
            tracing::error!(%error, "no thread for the output of a person");
            self.begun.store(false, Ordering::Release);
        }
    }

    /// Pipes that are not let go of, or too many that wait for that.
    fn is_held(&self) -> bool {
        let is_close = |errand: &&Errand| matches!(errand, Errand::Close(_));
        self.mark.hangs.load(Ordering::Acquire)
            || lock(&self.errands).iter().filter(is_close).count() >= MOST_UNCLOSED
    }

    fn run(&self, shared: &Arc<Shared>) {
        let mut thread = WatchThread::new(shared, Arc::clone(&self.mark), true);
        while !shared.is_over() {
            match self.next() {
                Some(Errand::Read(slot, about)) => thread.read_apart(slot, about),
                Some(Errand::Close(pipe)) => {
                    self.mark.at(NOBODYS);
                    self.mark.during(|| drop(pipe));
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
        self.lane(person).is_some_and(|lane| lane.is_held())
    }

    pub(super) fn add_lane(&self, shared: &Arc<Shared>, person: &str) {
        let mut lanes = lock(&self.lanes);
        if lanes.contains_key(person) {
            return;
        }
        let lane = Arc::new(Lane { mark: self.new_mark(), ..Lane::default() });
        lanes.insert(person.to_owned(), Arc::clone(&lane));
        self.has_lanes.store(true, Ordering::Release);
        drop(lanes);
        tracing::info!(person, "a pipe was slow: their output has a thread of its own from now on");
        lane.begin(shared);
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
        lock(&shared.pipes.lanes).values().for_each(|lane| lane.begin(shared));
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
        shared.watcher.check_at(slot, Instant::now());
    }
    if !shared.pipes.is_lane(mark)
        && let Err(error) = start_thread(shared)
    {
        tracing::error!(%error, "no thread in place of one that hangs");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_leaves_too_much_to_be_closed_starts_no_more() {
        let (pipes, lane) = (Pipes::default(), Arc::<Lane>::default());
        lock(&pipes.lanes).insert("ada".into(), Arc::clone(&lane));
        pipes.has_lanes.store(true, Ordering::Release);
        let (pipe, _) = rustix::pipe::pipe().unwrap();
        let close = || lane.leave(Errand::Close(pipe.try_clone().unwrap()));
        for _ in 1..MOST_UNCLOSED {
            lane.leave(Errand::Read(0, 0));
            close();
        }
        assert!(!pipes.are_held("ada"));
        close();
        assert!(pipes.are_held("ada") && !pipes.are_held("bob"));
    }
}
