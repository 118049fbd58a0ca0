//! The writer's thread: wait, drain, decide, plan, have it written. And what it does when the disk
//! does not take a batch: it takes back what it decided, says so, and tries until it can go on.
//!
//! A short write it does itself: handing it over would only cost time. Where writes take long and
//! several have wishes, a second thread writes, and the next batch is decided meanwhile.

use super::batch::Batch;
use super::desk::Desk;
use super::keeper::{Failed, Keeper, Written};
use super::on_disk::OnDisk;
use super::pulse::Pulse;
use super::queue::{Receiver, queue};
use super::restore::restore;
use super::{Done, Edges, Request, Shared, WriteError, Writer};
use crate::auth::Table;
use crate::clock::Clock;
use crate::journal::{HistoryReader, Journal};
use crate::panics::{Panicked, Vital, guarded, vital};
use shipway_api::causes::causes;
use shipway_core::State;
use shipway_core::command::Command;
use shipway_model::{Millis, Timestamp};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How often a journal that cannot be written is tried again.
const RETRY_AFTER: Millis = Millis(1_000);

/// A batch takes no more requests after this long: where each takes long, those who were first must
/// not wait for all that came since. Ordinary ones take microseconds: hundreds share a commit.
const LONGEST_BATCH: Duration = Duration::from_millis(20);

/// A writer at work.
#[derive(Debug)]
pub struct Running {
    pub writer: Writer,
    pub thread: JoinHandle<()>,
}

struct Loop<J> {
    shared: Arc<Shared<J>>,
    queue: Receiver<Request>,
    longest_batch: Duration,
    hands: Hands<J>,
    health: watch::Sender<Option<String>>,
    /// Told to stop while the journal could not be written.
    stopped: bool,
}

/// Starts the writer's threads, and the timer that wakes it. Needs a tokio runtime for the timer.
pub fn start<J: Journal + Send + 'static>(
    restored: (State, u64),
    journal: J,
    history: HistoryReader,
    edges: Edges,
) -> std::io::Result<Running> {
    start_with(restored, journal, history, edges, LONGEST_BATCH)
}

pub(super) fn start_with<J: Journal + Send + 'static>(
    (state, replayed): (State, u64),
    journal: J,
    history: HistoryReader,
    edges: Edges,
    longest_batch: Duration,
) -> std::io::Result<Running> {
    let (send, queue) = queue();
    let (wake_at, wake_at_seen) = watch::channel(None);
    let (health, health_seen) = watch::channel(None);
    let edges = Arc::new(edges);
    // Before anybody is served: a first request need not wait for the threads below.
    edges.auth.install(Table::of(&state));
    let clock = edges.clock.clone();
    let pulse = Arc::new(Pulse::default());
    let keeper = Keeper {
        journal,
        edges: Arc::clone(&edges),
        since_snapshot: replayed,
        pulse: Arc::clone(&pulse),
        last_took: Duration::ZERO,
    };
    let shown = history.try_clone().map_err(std::io::Error::other)?;
    let on_disk = OnDisk::new(Arc::clone(&pulse), clock.clone(), shown);
    let desk = Desk {
        state,
        batch: Batch::default(),
        keeper: Some(keeper),
        history,
        edges,
        wake_at,
        failed: None,
        is_broken: false,
    };
    let shared = Arc::new(Shared::new(desk));
    let desk = Arc::clone(&shared);
    let writer = Writer { queue: Arc::new(send), health: health_seen, desk, pulse, on_disk };
    tokio::spawn(vital("the writer's timer", timer(clock, wake_at_seen, writer.clone())));
    let hands = Hands::start(writer.clone())?;
    let mut work = Loop { shared, queue, longest_batch, hands, health, stopped: false };
    let thread = std::thread::Builder::new().name("writer".into()).spawn(move || {
        let _vital = Vital("the writer");
        work.run();
    })?;
    Ok(Running { writer, thread })
}

/// Sends one wake-up at the time the writer asks for; a later wish replaces an earlier one.
async fn timer(clock: Clock, mut wake_at: watch::Receiver<Option<Timestamp>>, writer: Writer) {
    loop {
        let at = *wake_at.borrow_and_update();
        let changed = match at {
            None => wake_at.changed().await,
            Some(at) => {
                let slept = tokio::time::timeout(clock.until(at), wake_at.changed()).await;
                if slept.is_err() && writer.send(Request::Wake).await.is_err() {
                    return;
                }
                match slept {
                    Ok(changed) => changed,
                    Err(_) => wake_at.changed().await,
                }
            }
        };
        if changed.is_err() {
            return;
        }
    }
}

/// The second thread: it writes a batch while the next one is decided.
struct Hands<J> {
    errands: std::sync::mpsc::Sender<(Keeper<J>, Batch)>,
    done: std::sync::mpsc::Receiver<(Keeper<J>, Written)>,
}

impl<J: Journal + Send + 'static> Hands<J> {
    fn start(writer: Writer) -> std::io::Result<Self> {
        let (errands, to_do) = std::sync::mpsc::channel::<(Keeper<J>, Batch)>();
        let (finished, done) = std::sync::mpsc::channel();
        std::thread::Builder::new().name("journal".into()).spawn(move || {
            let _vital = Vital("the journal's thread");
            for (mut keeper, batch) in to_do {
                let written = keeper.write(batch);
                if finished.send((keeper, written)).is_err() {
                    return;
                }
                // With a full queue the writer is awake, and looks by itself.
                let _ = writer.try_send(Request::Attend);
            }
        })?;
        Ok(Hands { errands, done })
    }

    /// Gives it back if nobody is there to take it.
    fn take(&self, errand: (Keeper<J>, Batch)) -> Option<(Keeper<J>, Batch)> {
        self.errands.send(errand).err().map(|refused| refused.0)
    }
}

impl<J: Journal + Send + 'static> Loop<J> {
    fn run(&mut self) {
        let shared = Arc::clone(&self.shared);
        let mut desk = shared.lock();
        desk.take(&Command::ServerStarted, None);
        desk.plan();
        self.write(&mut desk);
        self.mend(&mut desk);
        drop(desk);
        while let Some(first) = self.queue.blocking_recv() {
            let mut desk = shared.lock();
            self.mend(&mut desk);
            let turn = guarded(|| {
                let stop = self.decide(&mut desk, first);
                self.write_all(&mut desk, stop)
            });
            let stop = turn.unwrap_or_else(|Panicked| {
                desk.is_broken = true;
                if desk.keeper.is_none() {
                    self.take_back(&mut desk);
                }
                false
            });
            self.mend(&mut desk);
            if self.stopped {
                return;
            }
            if stop {
                return desk.save_snapshot();
            }
        }
    }

    /// Decides what waits, as far as one batch goes. Returns whether to stop.
    fn decide(&mut self, desk: &mut Desk<J>, first: Request) -> bool {
        let began = Instant::now();
        let mut next = Some(first);
        let mut stop = false;
        while let Some(request) = next {
            match request {
                Request::Stop => stop = true,
                Request::Attend => {}
                Request::Wish { .. } | Request::Ask(_) | Request::Wake => desk.handle(request),
            }
            // Counted down only now, with the desk in our hands: whoever finds nothing waiting
            // then comes after it.
            self.shared.waiting.fetch_sub(1, Ordering::Release);
            let full = stop || desk.batch.is_full() || desk.is_broken;
            let enough = full || began.elapsed() >= self.longest_batch;
            next = if enough { None } else { self.queue.try_recv() };
        }
        desk.plan();
        stop
    }

    /// Has everything written that is decided, and what comes up meanwhile. Returns whether to
    /// stop.
    fn write_all(&mut self, desk: &mut Desk<J>, mut stop: bool) -> bool {
        while !stop && let Some(errand) = desk.hand_over() {
            match self.hands.take(errand) {
                None => stop = self.decide_until_written(desk),
                Some((mut keeper, batch)) => {
                    desk.failed = keeper.write(batch).err();
                    desk.keeper = Some(keeper);
                }
            }
        }
        self.write(desk);
        stop
    }

    /// While the journal is away. Returns whether to stop.
    fn decide_until_written(&mut self, desk: &mut Desk<J>) -> bool {
        let mut stop = false;
        let done = loop {
            if let Ok(done) = self.hands.done.try_recv() {
                break Ok(done);
            }
            let more = !stop && !desk.batch.is_full() && !desk.is_broken;
            match more.then(|| self.queue.blocking_recv()).flatten() {
                Some(request) => stop = self.decide(desk, request),
                None => break self.hands.done.recv(),
            }
        };
        put_back(desk, done.ok());
        stop
    }

    /// Waits for the journal that is away.
    fn take_back(&self, desk: &mut Desk<J>) {
        let done = self.hands.done.recv().ok();
        put_back(desk, done);
    }

    fn write(&mut self, desk: &mut Desk<J>) {
        let failed = desk.failed.take().or_else(|| desk.write().err());
        if let Some(failed) = failed {
            let Failed { batch, error } = *failed;
            return self.stall(desk, batch, &causes(&error));
        }
        if desk.is_snapshot_due() {
            desk.save_snapshot();
        }
    }

    /// A command stopped half-way through the state. All that was decided before it is written, and
    /// the state is what the disk says; so nothing is lost but that command.
    fn mend(&mut self, desk: &mut Desk<J>) {
        if !desk.is_broken {
            return;
        }
        self.write(desk);
        // A disk that does not take it has led to the same.
        let Some(keeper) = desk.keeper.as_mut().filter(|_| desk.is_broken) else { return };
        match restore(&mut keeper.journal) {
            Ok(restored) => {
                (desk.state, keeper.since_snapshot) = restored;
                desk.is_broken = false;
                desk.edges.auth.install(Table::of(&desk.state));
                desk.plan();
                self.write(desk);
                tracing::warn!("the state was restored from the disk after a mistake");
            }
            Err(error) => self.stall(desk, Batch::default(), &causes(&error)),
        }
    }

    /// A batch could not be written. Nothing of it was acknowledged, nor of what was decided
    /// since; the state goes back to what is on disk, everybody who waited is told, and pilots
    /// have to greet anew.
    fn stall(&mut self, desk: &mut Desk<J>, batch: Batch, problem: &str) {
        tracing::error!(problem, "the journal cannot be written; nothing is accepted");
        desk.edges.metrics.commit_failed();
        self.health.send_replace(Some(problem.to_owned()));
        desk.edges.effects.reset();
        refuse(batch, problem);
        refuse(std::mem::take(&mut desk.batch), problem);
        // Never at once: a disk that is nearly full takes a small write and refuses the next.
        while self.refuse_for_a_while(desk, problem) {
            match self.go_on(desk) {
                Ok(()) => {
                    tracing::info!("the journal can be written again");
                    return;
                }
                Err(still) => self.health.send_replace(Some(still)),
            };
        }
    }

    /// Puts the state back to what is on disk and starts anew from there, as after a restart.
    fn go_on(&mut self, desk: &mut Desk<J>) -> Result<(), String> {
        let keeper = desk.keeper.as_mut().ok_or("the journal is away")?;
        keeper.journal.reopen().map_err(|error| causes(&error))?;
        let restored = restore(&mut keeper.journal).map_err(|error| causes(&error))?;
        (desk.state, keeper.since_snapshot) = restored;
        desk.is_broken = false;
        desk.take(&Command::ServerStarted, None);
        // Told before the first of it goes out: whoever hears of it may ask again at once.
        let before = self.health.send_replace(None);
        desk.edges.auth.install(Table::of(&desk.state));
        desk.write().map_err(|failed| {
            self.health.send_replace(before);
            causes(&failed.error)
        })
    }

    /// Says no to everything until it is time to try the disk again. False: told to stop.
    fn refuse_for_a_while(&mut self, desk: &mut Desk<J>, problem: &str) -> bool {
        let until = desk.edges.clock.now().plus(RETRY_AFTER);
        let _ = desk.wake_at.send(Some(until));
        while let Some(request) = self.queue.blocking_recv() {
            self.shared.waiting.fetch_sub(1, Ordering::Release);
            let mut batch = Batch::default();
            match request {
                Request::Wish { reply, .. } => batch.answer(reply, Ok(Done::default())),
                Request::Ask(_) | Request::Attend => {}
                Request::Wake => return true,
                Request::Stop => {
                    self.stopped = true;
                    return false;
                }
            }
            refuse(batch, problem);
        }
        false
    }
}

/// The other thread never ends before this one: should it, the process has ended too.
fn put_back<J>(desk: &mut Desk<J>, done: Option<(Keeper<J>, Written)>) {
    if let Some((keeper, written)) = done {
        desk.keeper = Some(keeper);
        desk.failed = written.err();
    }
}

/// Answers are dropped: whoever asked learns that there is none now.
fn refuse(batch: Batch, problem: &str) {
    for (reply, _) in batch.replies {
        let _ = reply.send(Err(WriteError::NotDurable(problem.to_string())));
    }
}

impl<J> Shared<J> {
    fn lock(&self) -> MutexGuard<'_, Desk<J>> {
        self.desk.lock().unwrap_or_else(|poisoned| {
            // Nobody knows how far the holder had come.
            self.desk.clear_poison();
            let mut desk = poisoned.into_inner();
            desk.is_broken = true;
            desk
        })
    }
}
