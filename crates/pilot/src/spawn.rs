//! Runs tasks as plain processes, with a few threads that each start and watch them.
//!
//! A request becomes a session with its output captured, and one `Ended` event once the
//! leader is dead, everything it left is dead, and all it printed can be read. It decides nothing:
//! not what runs when, not what an exit code means.
//!
//! - `request.rs` what is asked for; `queue.rs` what waits to be started; `launch.rs` its start
//! - `watch.rs` what the threads do; `watcher.rs` what they watch; `ending.rs` the end of a task
//! - `leader.rs` signals; `pipes.rs` output that is slow to read; `orphans.rs` what a task left
//!
//! The process that holds a pool must be a child subreaper, and its main thread must start no
//! processes of its own: whatever the kernel lists as that thread's child is taken for a process
//! that a task left behind.

mod ending;
mod graves;
mod launch;
mod leader;
mod lines;
mod orphans;
mod pipes;
mod queue;
mod request;
mod task;
mod watch;
mod watcher;
mod whose;

pub use crate::procfs::Spent;
pub use launch::StartError;
pub use leader::Signalled;
pub use request::{Before, Contained, Request, StdinFile};

use crate::ends::Slots;
use crate::leftovers::{NODE_KEY_VARIABLE, random_key};
use crate::logs::{Keep, Logs, StreamWriter};
use launch::Launcher;
use leader::Leader;
use orphans::Orphans;
use pipes::Pipes;
use queue::{Queue, Queued};
use rustix::process::Signal;
use shipway_model::AttemptId;
use shipway_runtime::again;
use shipway_runtime::native::give_up_gaining_rights;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};
use watcher::Watcher;

/// The variable by which a process is known to belong to one attempt.
pub const ATTEMPT_KEY_VARIABLE: &str = "SHIPWAY_ATTEMPT_KEY";

/// Requests of one person that may wait for a spawner: far above what a node runs at once, far
/// below what would fill its memory.
pub const QUEUE_LIMIT: usize = 16_384;

/// Fewest processes that can be started at once: while one start hangs (a dead network file
/// system) another goes on.
pub const LEAST_SPAWNERS: usize = 2;

/// Threads beyond those that may be busy starting: whatever hangs there, exits are seen.
const ALWAYS_WATCHING: usize = 1;

/// How long the end of a task waits for output pipes that a process outside its group still
/// holds, or for killed processes that have not vanished yet.
pub const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// The caller's name for one attempt; unique among those the pool holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HowEnded {
    Exit(i32),
    Signal(i32),
    /// Somebody else has the exit status: whoever traces the process.
    Unknown,
}

#[derive(Debug)]
pub enum ProcessEvent {
    Started { ticket: Ticket, pid: u32, at: SystemTime },
    NotStarted { ticket: Ticket, error: StartError },
    Ended(Ended),
}

/// The end of a process that was started. Its output is complete.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    pub ticket: Ticket,
    pub how: HowEnded,
    pub core_dumped: bool,
    pub started: SystemTime,
    pub ended: SystemTime,
    /// By the steady clock: `ended - started` lies when somebody sets the wall clock.
    pub ran: Duration,
    /// Processes or pipes that were still there when `DRAIN_LIMIT` had passed.
    pub left_behind: usize,
    /// What it has used, as far as the kernel tells of the dead: the processes that were waited for
    /// by others of its own.
    pub spent: Option<Spent>,
}

/// Called from the pool's threads: it must not block. A request it makes there is started by the
/// same thread as soon as it returns.
pub type EventSink = Arc<dyn Fn(ProcessEvent) + Send + Sync>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot take another task: {QUEUE_LIMIT} of one person wait to be started")]
pub struct QueueFull;

/// Standard output and standard error.
pub type Streams = (StreamWriter, StreamWriter);

/// What all threads of a pool share.
struct Shared {
    launcher: Launcher,
    sink: EventSink,
    queue: Mutex<Queue>,
    /// How many processes may be started at the same time.
    spawners: usize,
    leaders: Mutex<HashMap<Ticket, Arc<Leader>>>,
    orphans: Orphans,
    watcher: Watcher,
    pipes: Pipes,
    /// How many threads there were.
    threads: AtomicUsize,
    /// Where it is written down which process is which attempt.
    slots: Option<Slots>,
    /// Requests taken and not yet answered by `NotStarted` or `Ended`.
    unfinished: AtomicUsize,
    closed: AtomicBool,
}

impl Shared {
    /// Says the last word on a ticket.
    fn finish(&self, event: ProcessEvent) {
        // Counted first: whoever hears of this end may rely on it at once.
        self.unfinished.fetch_sub(1, Ordering::AcqRel);
        (self.sink)(event);
        self.wake_if_over();
    }

    fn wake_if_over(&self) {
        if self.is_over() {
            self.watcher.wake();
        }
    }

    fn is_over(&self) -> bool {
        self.closed.load(Ordering::Acquire) && self.unfinished.load(Ordering::Acquire) == 0
    }
}

/// The threads that start and watch processes. Dropping it kills what runs.
pub struct Pool {
    shared: Arc<Shared>,
    logs: Arc<Logs>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unfinished = self.shared.unfinished.load(Ordering::Relaxed);
        formatter.debug_struct("Pool").field("unfinished", &unfinished).finish_non_exhaustive()
    }
}

/// One spawner for each core, but never fewer than `LEAST_SPAWNERS`.
pub fn default_spawners() -> usize {
    thread::available_parallelism().map_or(LEAST_SPAWNERS, |cores| cores.get().max(LEAST_SPAWNERS))
}

impl Pool {
    /// Starts the threads. Every process will carry `node_key`; events go to `sink`.
    pub fn new(
        spawners: usize,
        node_key: &str,
        logs: Arc<Logs>,
        sink: EventSink,
    ) -> io::Result<Self> {
        Self::remembered(spawners, node_key, logs, sink, None)
    }

    /// The same, and it is written down which process is which attempt. A process is reaped when
    /// the sink has heard of its end: until then somebody else can see how it ended.
    pub fn remembered(
        spawners: usize,
        node_key: &str,
        logs: Arc<Logs>,
        sink: EventSink,
        slots: Option<Slots>,
    ) -> io::Result<Self> {
        let marks = [
            (NODE_KEY_VARIABLE, node_key.to_owned()),
            // The ticket follows; the random part keeps the tickets of two pilots apart.
            (ATTEMPT_KEY_VARIABLE, random_key()?),
        ];
        let shared = Arc::new(Shared {
            launcher: Launcher::new(marks)?,
            sink,
            queue: Mutex::default(),
            spawners: spawners.max(LEAST_SPAWNERS),
            leaders: Mutex::default(),
            orphans: Orphans::new(),
            watcher: Watcher::new()?,
            pipes: Pipes::default(),
            threads: AtomicUsize::new(0),
            slots,
            unfinished: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        });
        let threads = shared.spawners + ALWAYS_WATCHING;
        for _ in 0..threads {
            start_thread(&shared)?;
        }
        let others = Arc::clone(&shared);
        again::thread("tasks-look", move || pipes::look_after(&others))?;
        Ok(Self { shared, logs })
    }

    /// The two streams of an attempt that is not started yet: they can be followed from now on.
    pub fn open_log(&self, log: AttemptId, keep: Keep<'_>) -> Streams {
        self.logs.writers(log, keep)
    }

    /// Takes a request; the rest comes as events. Its log can be followed from now on.
    pub fn start(&self, request: Request) -> Result<(), QueueFull> {
        let output = self.open_log(request.log, request.keep());
        self.start_with(request, output)
    }

    /// The same with streams that are open already.
    pub fn start_with(&self, request: Request, output: Streams) -> Result<(), QueueFull> {
        let mut queue = lock(&self.shared.queue);
        if queue.requests.len_of(&request.user) >= QUEUE_LIMIT {
            return Err(QueueFull);
        }
        self.shared.unfinished.fetch_add(1, Ordering::AcqRel);
        queue.requests.push(Queued { request, output, until: None });
        // A thread of the pool looks at the queue before it waits again.
        let is_seen_to = queue.requests.len() == 1 && watch::is_pool_thread();
        drop(queue);
        if !is_seen_to {
            self.shared.watcher.wake();
        }
        Ok(())
    }

    /// Takes a request back that no spawner has picked up yet; then no event will come for it.
    pub fn withdraw(&self, ticket: Ticket) -> bool {
        let mut queue = lock(&self.shared.queue);
        let is_it = |queued: &Queued| queued.request.ticket == ticket;
        let withdrawn = queue.requests.remove(is_it).or_else(|| {
            let at = queue.later.iter().position(|(_, queued)| is_it(queued))?;
            queue.later.remove(at).map(|(_, queued)| queued)
        });
        drop(queue);
        if withdrawn.is_none() {
            return false;
        }
        drop(withdrawn);
        self.shared.unfinished.fetch_sub(1, Ordering::AcqRel);
        true
    }

    /// Sends a signal to the whole process group of a task.
    pub fn signal(&self, ticket: Ticket, signal: Signal) -> Signalled {
        let leader = lock(&self.shared.leaders).get(&ticket).cloned();
        leader.map_or(Signalled::NotRunning, |leader| self.shared.signal(&leader, signal))
    }

    /// Kills a task, and says why at the end of its error output.
    pub fn end(&self, ticket: Ticket, words: String) {
        let Some(leader) = lock(&self.shared.leaders).get(&ticket).cloned() else { return };
        lock(&leader.last_words).get_or_insert(words);
        self.shared.signal(&leader, Signal::KILL);
    }

    /// Reaps dead processes that running tasks have left to us. The end of any task does this
    /// too; call it now and then where tasks live long. It waits for nobody.
    pub fn reap_orphans(&self) {
        self.shared.orphans.reap(&self.shared);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let shared = &self.shared;
        shared.closed.store(true, Ordering::Release);
        let mut queue = lock(&shared.queue);
        let unstarted = (std::mem::take(&mut queue.requests), std::mem::take(&mut queue.later));
        drop(queue);
        shared.unfinished.fetch_sub(unstarted.0.len() + unstarted.1.len(), Ordering::AcqRel);
        let leaders: Vec<_> = lock(&shared.leaders).values().cloned().collect();
        for leader in leaders {
            shared.signal(&leader, Signal::KILL);
        }
        // The threads end by themselves: joining could hang with a process stuck in the kernel.
        shared.wake_if_over();
    }
}

fn start_thread(shared: &Arc<Shared>) -> io::Result<()> {
    let number = shared.threads.fetch_add(1, Ordering::Relaxed);
    let (shared, mark) = (Arc::clone(shared), shared.pipes.new_mark());
    let started = again::thread(&format!("tasks-{number}"), move || {
        // Whatever is started here, and so every task, has given it up as well.
        match give_up_gaining_rights() {
            Ok(()) => watch::run(&shared, mark),
            Err(error) => tracing::error!(%error, "a thread that runs tasks cannot begin"),
        }
    });
    started.map(drop)
}

/// The tables behind these locks are valid between any two statements, so a panic in one thread
/// does not spoil them for the others.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
