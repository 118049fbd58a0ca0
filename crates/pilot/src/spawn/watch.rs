//! What the pool's threads do: start processes, and watch them and their output by one epoll.
//!
//! Each thread takes one event at a time, so whichever is free sees to the next; what one event
//! leads to (the end of a task, and so the start of another) is done without waking anybody. Every
//! descriptor speaks once and is armed again when it was listened to: so no event is seen by two,
//! and closing a descriptor is enough to hear no more of it. A task that runs is not polled; one
//! that is killed or dead is looked at now and then until nothing of it is left, and of one that is
//! dead `DRAIN_LIMIT` is the end. No thread waits for a process: it may never end. Nor does one
//! have the lock of a task while it reads or closes a pipe: that may never come back (`pipes.rs`).

use super::pipes::{Errand, Lane, Mark, Pace};
use super::queue::start_next;
use super::task::{Output, Task};
use super::watcher::{
    ABOUT_BITS, ABOUT_ERR, ABOUT_LEADER, ABOUT_ORPHAN, ABOUT_OUT, KILL_AGAIN, WAKE, Watcher,
};
use super::{Shared, lock};
use crate::hanging::HANG_LIMIT;
use crate::logs::CHUNK_BYTES;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event};
use rustix::io::Errno;
use rustix::process::Signal;
use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The pauses between two looks at a task that is dead while something of it is not.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const DOUBLED_AT_MOST: u32 = 9;

const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

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
pub(super) fn run(shared: &Arc<Shared>, mark: Arc<Mark>) {
    IS_POOL_THREAD.set(true);
    let watcher = &shared.watcher;
    let mut thread = WatchThread::new(shared, mark, false);
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
        thread.look_again();
        thread.give_up_overdue();
    }
    // The others have to see it too.
    watcher.wake();
}

pub(super) struct WatchThread<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) watcher: &'a Watcher,
    /// Made when the first output comes.
    pub(super) buffer: Vec<u8>,
    pub(super) mark: Arc<Mark>,
    /// It has the pipes of one person, and nothing else to do.
    pub(super) is_apart: bool,
}

impl<'a> WatchThread<'a> {
    pub(super) fn new(shared: &'a Arc<Shared>, mark: Arc<Mark>, is_apart: bool) -> Self {
        Self { shared, watcher: &shared.watcher, buffer: Vec::new(), mark, is_apart }
    }

    fn handle(&mut self, event: Event) {
        let number = event.data.u64();
        if number == WAKE {
            return;
        }
        let (slot, about) = (number >> ABOUT_BITS, number & ((1 << ABOUT_BITS) - 1));
        // Gone when another event has finished the task meanwhile.
        let Some(task) = self.watcher.task(slot) else { return };
        match about {
            ABOUT_LEADER => self.leader_died(slot, &task),
            ABOUT_OUT | ABOUT_ERR => self.output_ready(slot, &task, about),
            ABOUT_ORPHAN => self.sweep(slot, &mut lock(&task)),
            _ => unreachable!("two bits hold four values"),
        }
        self.finish_if_over(slot, &task);
    }

    fn finish_if_over(&self, slot: u64, task: &Mutex<Task>) {
        let mut locked = lock(task);
        if locked.ended.is_some() && locked.left() == 0 {
            // Nothing is left, and so no pipe.
            self.finish(slot, &mut locked);
        }
    }

    /// Sees to those that are killed or dead and of which no event may come.
    fn look_again(&mut self) {
        while let Some(slot) = self.next_to_check() {
            let Some(task) = self.watcher.task(slot) else { continue };
            let mut locked = lock(&task);
            locked.is_looked_at_again = false;
            if locked.is_over {
                continue;
            }
            if locked.ended.is_some() {
                self.sweep(slot, &mut locked);
                drop(locked);
            } else if locked.held.is_some() {
                drop(locked);
                self.leader_died(slot, &task);
            } else if locked.leader.killed.get().is_some_and(|at| at.elapsed() >= HANG_LIMIT) {
                self.leader_hangs(slot, &task, locked);
            } else {
                locked.leader.signal(Signal::KILL);
                drop(locked);
                self.watcher.check_at(slot, Instant::now() + KILL_AGAIN);
            }
            self.finish_if_over(slot, &task);
        }
    }

    fn next_to_check(&self) -> Option<u64> {
        let mut again = lock(&self.watcher.again);
        // The clock is only asked when there is something to compare it with.
        let is_due = again.first().is_some_and(|(at, _)| *at <= Instant::now());
        is_due.then(|| again.pop_first()).flatten().map(|(_, slot)| slot)
    }

    /// After a pause that grows.
    pub(super) fn look_later(&self, slot: u64, task: &mut Task) {
        if !std::mem::replace(&mut task.is_looked_at_again, true) {
            let pause = FIRST_PAUSE * (1 << task.looks.min(DOUBLED_AT_MOST));
            task.looks += 1;
            self.watcher.check_at(slot, Instant::now() + pause);
        }
    }

    fn output_ready(&mut self, slot: u64, task: &Mutex<Task>, about: u64) {
        match self.lane_of(task) {
            Some(lane) => lane.leave(Errand::Read(slot, about)),
            None => self.pump(slot, task, about, (1, true)),
        }
    }

    /// For somebody whose pipes have a thread of their own, which this is.
    pub(super) fn read_apart(&mut self, slot: u64, about: u64) {
        if let Some(task) = self.watcher.task(slot) {
            self.pump(slot, &task, about, (1, true));
            self.finish_if_over(slot, &task);
        }
    }

    /// Who else reads and closes the pipes of this task.
    pub(super) fn lane_of(&self, task: &Mutex<Task>) -> Option<Arc<Lane>> {
        let pipes = &self.shared.pipes;
        (!self.is_apart && pipes.has_lanes()).then(|| pipes.lane(&lock(task).user)).flatten()
    }

    /// Reads one output. What is left of it is listened to again, if its event has come: to this
    /// thread, or to one that did not find it.
    pub(super) fn pump(
        &mut self,
        slot: u64,
        task: &Mutex<Task>,
        about: u64,
        (reads, has_come): (usize, bool),
    ) {
        let which = usize::from(about == ABOUT_ERR);
        let taken = lock(task).outputs[which].take();
        let Some(mut piped) = taken else { return };
        self.mark.at(slot);
        let mark = Arc::clone(&self.mark);
        let (is_open, pace) = piped.pump(self.buffer(), reads, &mark);
        self.took(pace, task);
        let mut locked = lock(task);
        let is_over = locked.is_over;
        let has_come = locked.put_back(which, piped) || has_come;
        if is_open && !is_over {
            if let Output::Open(piped) = &locked.outputs[which]
                && has_come
            {
                self.watcher.listen_again(&piped.pipe, slot, about);
            }
            return;
        }
        let pipe = locked.outputs[which].close();
        drop(locked);
        self.close(slot, task, [pipe, None]);
    }

    /// Never with a task locked. Each by itself: after one that is slow the other is not ours.
    pub(super) fn close(&self, slot: u64, task: &Mutex<Task>, pipes: [Option<OwnedFd>; 2]) {
        for pipe in pipes.into_iter().flatten() {
            if let Some(lane) = self.lane_of(task) {
                lane.leave(Errand::Close(pipe));
                continue;
            }
            self.mark.at(slot);
            let ((), pace) = self.mark.during(|| drop(pipe));
            self.took(pace, task);
        }
    }

    /// Whoever's pipe is slow has a thread of their own from now on. This one goes on.
    fn took(&self, pace: Pace, task: &Mutex<Task>) {
        if pace == Pace::Slow && !self.is_apart {
            let person = lock(task).user.clone();
            self.shared.pipes.add_lane(self.shared, &person);
        }
    }

    fn buffer(&mut self) -> &mut [u8] {
        self.buffer.resize(CHUNK_BYTES, 0);
        &mut self.buffer
    }

    fn until_next_deadline(&self) -> Option<Timespec> {
        let draining = lock(&self.watcher.draining).front().map(|(deadline, _)| *deadline);
        let later = lock(&self.shared.queue).later.front().map(|(at, _)| *at);
        let again = lock(&self.watcher.again).first().map(|(at, _)| *at);
        let deadline = draining.into_iter().chain(later).chain(again).min()?;
        let left = deadline.saturating_duration_since(Instant::now());
        Some(left.try_into().expect("a limit of seconds fits a timespec"))
    }

    fn give_up_overdue(&self) {
        while let Some(slot) = self.next_overdue() {
            let Some(task) = self.watcher.task(slot) else { continue };
            let pipes = self.finish(slot, &mut lock(&task));
            self.close(slot, &task, pipes);
        }
    }

    fn next_overdue(&self) -> Option<u64> {
        let mut draining = lock(&self.watcher.draining);
        // The clock is only asked when there is something to compare it with.
        let overdue = draining.pop_front_if(|(deadline, _)| *deadline <= Instant::now());
        overdue.map(|(_, slot)| slot)
    }
}
