//! Runs tasks as plain processes, with a few threads that each start and watch them.
//!
//! A request becomes a session with its output captured, and one `Ended` event once the
//! leader is dead, everything it left is dead, and all it printed can be read. It decides nothing:
//! not what runs when, not what an exit code means.
//!
//! The process that holds a pool must be a child subreaper, and its main thread must start no
//! processes of its own: whatever the kernel lists as that thread's child is taken for a process
//! that a task left behind.

mod graves;
mod launch;
mod lines;
mod orphans;
mod pipes;
mod task;
mod watch;
mod whose;

pub use launch::StartError;

use crate::ends::{self, Slots};
use crate::leftovers::{NODE_KEY_VARIABLE, random_key};
use crate::logs::{Keep, Logs, StreamWriter};
use crate::machine::Weight;
use crate::stage;
use launch::{Launched, Launcher};
use lines::{Lines, Owned};
use orphans::Orphans;
use pipes::Pipes;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use shipway_model::AttemptId;
use shipway_runtime::again;
use shipway_runtime::crowd::Slot;
use shipway_runtime::native::{Helper, give_up_gaining_rights};
use shipway_runtime::plan::Process;
use shipway_runtime::reach::Reach;
use shipway_runtime::{Container, Runtime};
use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use task::Task;
use watch::Watcher;

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

/// How long a start for which the node has no room is tried again, and how often. Whoever has more
/// processes than they may is ended in less.
const ROOM_WITHIN: Duration = Duration::from_secs(10);
const TRY_AGAIN: Duration = Duration::from_millis(250);

/// The caller's name for one attempt; unique among those the pool holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

#[derive(Debug, Clone)]
pub struct Request {
    pub ticket: Ticket,
    /// Program and arguments; a program without a slash is looked up in the `PATH` of `env`.
    pub argv: Vec<OsString>,
    /// The whole environment, but for the two variables by which processes are found again.
    pub env: Vec<(OsString, OsString)>,
    pub cwd: PathBuf,
    pub log: AttemptId,
    /// Bytes kept of each of the two streams.
    pub log_limit: u64,
    /// Whose it is, and its output.
    pub user: String,
    /// Where it runs, if not as a plain process. Its command and environment count then.
    pub container: Option<Contained>,
    /// What has to be done before a plain process is started, and by what.
    pub before: Option<Before>,
    /// What it reads; nothing unless given.
    pub stdin: Option<StdinFile>,
    /// Its error output goes where its output goes, in the order it is written.
    pub one_stream: bool,
    /// What holds the number of its processes, where the kernel does.
    pub slot: Option<Arc<Slot>>,
    /// Nothing is to be done for it after its exit: so whoever has seen that knows its end.
    pub ends_with_exit: bool,
    /// By what its command and variables count for its person until it has started.
    pub weight: Option<Arc<Weight>>,
}

/// A file that a task reads.
#[derive(Debug, Clone)]
pub struct StdinFile {
    pub path: PathBuf,
    /// Whose it must be, where the pilot can read more than the task.
    pub of: Option<u32>,
    /// Where it may lie, if somebody has named it.
    pub reach: Option<Reach>,
}

/// Something that only a process itself can do before it is its own program.
#[derive(Debug, Clone)]
pub struct Before {
    pub helper: Arc<Helper>,
    pub process: Process,
}

impl Request {
    /// How much of its output is kept.
    pub fn keep(&self) -> Keep<'_> {
        Keep { limit: self.log_limit, user: &self.user }
    }

    /// Has it join cgroups before anything else.
    pub fn join(&mut self, doors: Vec<PathBuf>, helper: &Arc<Helper>) {
        match &mut self.container {
            _ if doors.is_empty() => {}
            Some(contained) => contained.container.cgroups = doors,
            None => {
                let process = Process { cwd: self.cwd.clone(), ..Process::default() };
                let before = Before { helper: Arc::clone(helper), process };
                self.before.get_or_insert(before).process.cgroups = doors;
            }
        }
    }
}

/// A container, and by what it is run.
#[derive(Debug, Clone)]
pub struct Contained {
    pub runtime: Arc<dyn Runtime>,
    pub container: Box<Container>,
    /// Held until the task has ended: its image, above all.
    pub holds: Arc<dyn fmt::Debug + Send + Sync>,
}

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
}

/// Called from the pool's threads: it must not block. A request it makes there is started by the
/// same thread as soon as it returns.
pub type EventSink = Arc<dyn Fn(ProcessEvent) + Send + Sync>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot take another task: {QUEUE_LIMIT} of one person wait to be started")]
pub struct QueueFull;

/// What came of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signalled {
    Sent,
    /// It has ended, waits to be started, or was never here.
    NotRunning,
}

/// A process group's leader. The lock makes sure that nobody signals its pid after it was reaped,
/// when the number may be somebody else's; nothing is waited for while it is held.
#[derive(Debug)]
pub(crate) struct Leader {
    pid: Pid,
    /// Its task's number where it is watched.
    watched_as: OnceLock<u64>,
    /// When it was killed first.
    killed: OnceLock<Instant>,
    /// Dead, and everything in its group killed.
    over: Mutex<bool>,
    /// Why it was ended, to be read behind what it printed.
    last_words: Mutex<Option<String>>,
}

impl Leader {
    fn new(pid: Pid) -> Self {
        Self {
            pid,
            watched_as: OnceLock::new(),
            killed: OnceLock::new(),
            over: Mutex::new(false),
            last_words: Mutex::default(),
        }
    }

    fn signal(&self, signal: Signal) -> Signalled {
        let over = lock(&self.over);
        if !*over && kill_process_group(self.pid, signal).is_ok() {
            return Signalled::Sent;
        }
        Signalled::NotRunning
    }
}

/// Standard output and standard error.
pub type Streams = (StreamWriter, StreamWriter);

struct Queued {
    request: Request,
    output: Streams,
    /// Set when there was no room for it: until then it is tried again.
    until: Option<Instant>,
}

impl Owned for Queued {
    fn person(&self) -> &str {
        &self.request.user
    }
}

/// What waits to be started.
#[derive(Default)]
struct Queue {
    requests: Lines<Queued>,
    /// Those for which there was no room, and when each is tried again; the first one first. No
    /// thread waits with them: it may be their own person who leaves none.
    later: VecDeque<(Instant, Queued)>,
    /// Threads that are starting a process now.
    starting: usize,
}

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

    /// Whoever is killed is looked at again until it is dead, or counts as that.
    fn signal(&self, leader: &Leader, signal: Signal) -> Signalled {
        let signalled = leader.signal(signal);
        if signal == Signal::KILL
            && signalled == Signalled::Sent
            && leader.killed.set(Instant::now()).is_ok()
            && let Some(slot) = leader.watched_as.get()
        {
            self.watcher.check_at(*slot, Instant::now() + watch::KILL_AGAIN);
        }
        signalled
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

/// Starts one of the requests that wait, if there is one and a thread is left to watch meanwhile.
/// Returns whether more of them could be started now.
fn start_next(shared: &Shared) -> bool {
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

/// The tables behind these locks are valid between any two statements, so a panic in one thread
/// does not spoil them for the others.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
