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
use super::task::{Output, Task};
use super::{
    DRAIN_LIMIT, Ended, HowEnded, Leader, ProcessEvent, Shared, StartError, graves, lock,
    start_next,
};
use crate::below::{Do, end_below};
use crate::hanging::{self, HANG_LIMIT, Whose};
use crate::logs::CHUNK_BYTES;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid,
};
use shipway_runtime::again::patiently;
use shipway_runtime::report::{NotStarted, Why};
use std::cell::Cell;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

/// Reads from one pipe when its task has ended before other tasks get their turn; a pipe holds
/// one or two of them unless the task made it bigger.
const END_READS: usize = 16;

/// The pauses between two looks at a task that is dead while something of it is not.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const DOUBLED_AT_MOST: u32 = 9;

/// The pause between two signals to a process that was killed and is not dead.
pub(super) const KILL_AGAIN: Duration = Duration::from_secs(1);

/// How long whoever traces a process may keep its end: a debugger lets go at once.
const HELD_LIMIT: Duration = Duration::from_secs(2);
const HELD: &str = "another process traces this one and keeps its end: how it ended is not known";
const HANGS: &str = "this was killed and does not die: it hangs in the kernel, or is traced; \
                     it counts as ended";

/// What an event is about: the low bits of its number, above them the task's slot.
const ABOUT_LEADER: u64 = 0;
const ABOUT_OUT: u64 = 1;
const ABOUT_ERR: u64 = 2;
const ABOUT_ORPHAN: u64 = 3;
const ABOUT_BITS: u32 = 2;
const WAKE: u64 = u64::MAX;

const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// What is watched, by all threads of a pool together.
pub(super) struct Watcher {
    epoll: OwnedFd,
    wake: OwnedFd,
    next_slot: AtomicU64,
    tasks: Mutex<HashMap<u64, Arc<Mutex<Task>>>>,
    /// Dead tasks that wait for pipes or processes, the oldest first.
    draining: Mutex<VecDeque<(Instant, u64)>>,
    /// Tasks that are looked at again, and when.
    again: Mutex<BTreeSet<(Instant, u64)>>,
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

    fn register_all(&self, task: &Task, slot: u64) -> io::Result<()> {
        for (output, about) in task.outputs.iter().zip([ABOUT_OUT, ABOUT_ERR]) {
            if let Output::Open(piped) = output {
                patiently(|| self.register(&piped.pipe, slot, about))?;
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
    shared: &'a Arc<Shared>,
    watcher: &'a Watcher,
    /// Made when the first output comes.
    buffer: Vec<u8>,
    mark: Arc<Mark>,
    /// It has the pipes of one person, and nothing else to do.
    is_apart: bool,
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
    fn look_later(&self, slot: u64, task: &mut Task) {
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
    fn lane_of(&self, task: &Mutex<Task>) -> Option<Arc<Lane>> {
        let pipes = &self.shared.pipes;
        (!self.is_apart && pipes.has_lanes()).then(|| pipes.lane(&lock(task).user)).flatten()
    }

    /// Reads one output. What is left of it is listened to again, if its event has come: to this
    /// thread, or to one that did not find it.
    fn pump(
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
    fn close(&self, slot: u64, task: &Mutex<Task>, pipes: [Option<OwnedFd>; 2]) {
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

    fn leader_died(&mut self, slot: u64, task: &Mutex<Task>) {
        let mut locked = lock(task);
        if locked.ended.is_some() || locked.is_over {
            return;
        }
        let seen = end_group(&locked.leader, &locked.pidfd);
        let is_held = matches!(seen, Seen::Held);
        if is_held && locked.held.get_or_insert_with(Instant::now).elapsed() < HELD_LIMIT {
            return self.look_later(slot, &mut locked);
        }
        let how = match (&seen, locked.after.take()) {
            (Seen::Ended(status), Some(after)) => locked.how_container_ended(status, &after),
            (Seen::Ended(status), None) => how_ended(status),
            (Seen::Held | Seen::Nothing, _) => (HowEnded::Unknown, false),
        };
        self.leader_is_over(slot, task, locked, how, is_held.then_some(HELD));
    }

    /// It was killed and is not dead: its program does not go on, and what is left of it is the
    /// kernel's. So it is over.
    fn leader_hangs(&mut self, slot: u64, task: &Mutex<Task>, locked: MutexGuard<'_, Task>) {
        *lock(&locked.leader.over) = true;
        self.write_down(&[locked.leader.pid], &locked);
        end_below(locked.leader.pid, |_| Do::End);
        let killed = HowEnded::Signal(Signal::KILL.as_raw());
        self.leader_is_over(slot, task, locked, (killed, false), Some(HANGS));
    }

    fn leader_is_over(
        &mut self,
        slot: u64,
        task: &Mutex<Task>,
        mut locked: MutexGuard<'_, Task>,
        (how, core_dumped): (HowEnded, bool),
        remark: Option<&str>,
    ) {
        locked.ended = Some(Ended {
            ticket: locked.ticket,
            how,
            core_dumped,
            started: locked.started,
            ended: SystemTime::now(),
            ran: locked.clock.elapsed(),
            left_behind: 0,
        });
        // Until it was swept nobody finishes it.
        locked.unsettled = true;
        let words = lock(&locked.leader.last_words).take();
        let words: Vec<String> = words.into_iter().chain(remark.map(str::to_owned)).collect();
        let writing = std::mem::take(&mut locked.writing);
        drop(locked);
        if !words.is_empty() {
            self.read_rest(slot, task, ABOUT_ERR);
            let mut locked = lock(task);
            locked.words.extend(words);
            locked.say();
        }
        self.close(slot, task, writing);
        self.read_rest(slot, task, ABOUT_OUT);
        self.read_rest(slot, task, ABOUT_ERR);
        let mut locked = lock(task);
        // Finished by others, while this hung.
        if locked.is_over {
            return;
        }
        self.sweep(slot, &mut locked);
        if locked.left() > 0 {
            self.watcher.give_up_at(slot, Instant::now() + DRAIN_LIMIT);
        }
    }

    fn read_rest(&mut self, slot: u64, task: &Mutex<Task>, about: u64) {
        match self.lane_of(task) {
            Some(lane) => lane.leave(Errand::Read(slot, about)),
            None => self.pump(slot, task, about, (END_READS, false)),
        }
    }

    fn sweep(&self, slot: u64, task: &mut Task) {
        let swept = self.shared.orphans.sweep(&task.claim, self.shared);
        (task.orphans, task.unsettled) = (swept.dying, swept.unsettled);
        // One that cannot be watched is killed all the same; its end is not waited for.
        task.orphans.retain(|(_, pidfd)| self.watcher.register(pidfd, slot, ABOUT_ORPHAN).is_ok());
        if task.unsettled || !task.orphans.is_empty() {
            self.look_later(slot, task);
        }
    }

    /// Says that these were killed and do not die.
    fn write_down(&self, processes: &[Pid], task: &Task) {
        if let Some(slots) = &self.shared.slots
            && !processes.is_empty()
        {
            let whose = Whose::Leader(task.leader.pid, &task.user);
            hanging::write_down(slots.dir(), processes, whose);
        }
    }

    /// Ends the task. Its pipes are closed by whoever unlocks it.
    fn finish(&self, slot: u64, task: &mut Task) -> [Option<OwnedFd>; 2] {
        let Some(mut ended) = task.ended.take() else { return [None, None] };
        ended.left_behind = task.left();
        let left: Vec<Pid> = task.orphans.iter().map(|(pid, _)| *pid).collect();
        self.write_down(&left, task);
        lock(&self.watcher.tasks).remove(&slot);
        task.is_over = true;
        let pipes = task.close_outputs();
        task.orphans.clear();
        self.shared.finish(match task.not_started.take() {
            None => ProcessEvent::Ended(ended),
            Some(NotStarted { why, message }) => {
                let error = match why {
                    Why::NoRoom => StartError::NoContainer { message },
                    _ => StartError::Container { message },
                };
                ProcessEvent::NotStarted { ticket: ended.ticket, error }
            }
        });
        self.bury(task);
        pipes
    }

    /// Reaps the leader. Not before its end is known to the sink: if this process is killed before
    /// that, whoever gets the dead leader can see how it ended.
    fn bury(&self, task: &Task) {
        graves::bury(task.leader.pid);
        lock(&self.shared.leaders).remove(&task.ticket);
        if let (Some(slots), Some(slot)) = (&self.shared.slots, task.slot) {
            slots.give_back(slot);
        }
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

/// What can be seen of a dead leader.
enum Seen {
    Ended(WaitIdStatus),
    /// Whoever traces it has its end, and not let go of it yet.
    Held,
    /// Somebody else has reaped it.
    Nothing,
}

/// Kills the group of a dead leader and says how the leader ended, without reaping it: so its pid
/// cannot be reused, and the group can only be its own.
fn end_group(leader: &Leader, pidfd: &OwnedFd) -> Seen {
    let mut over = lock(&leader.over);
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let status = waitid(WaitId::PidFd(pidfd.as_fd()), look);
    if status.is_ok() {
        let _nobody_left = kill_process_group(leader.pid, Signal::KILL);
    }
    *over = true;
    match status {
        Ok(Some(status)) => Seen::Ended(status),
        Ok(None) => Seen::Held,
        Err(_) => Seen::Nothing,
    }
}

/// For a process that cannot be watched: it must not run unseen.
fn end_unwatched(task: &Task) {
    let mut over = lock(&task.leader.over);
    let _already_dead = kill_process_group(task.leader.pid, Signal::KILL);
    graves::bury(task.leader.pid);
    *over = true;
}

fn how_ended(status: &WaitIdStatus) -> (HowEnded, bool) {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => (HowEnded::Exit(code), false),
        (None, Some(signal)) => (HowEnded::Signal(signal), status.dumped()),
        (None, None) => (HowEnded::Unknown, false),
    }
}
