//! The writer's loop: wait, drain, decide, plan, commit, tell. And what it does when the disk
//! does not take a commit: it takes back what it decided, says so, and tries until it can go on.

use super::batch::{Batch, Reply};
use super::prepare::prepare;
use super::restore::restore;
use super::{Done, EffectRunner, QUEUE, Question, Request, WriteError, Writer, rows};
use crate::auth::Auth;
use crate::clock::Clock;
use crate::journal::{self, HistoryReader, Journal, JournalError};
use crate::live::{Live, Told};
use crate::metrics::Metrics;
use crate::pilots::Specs;
use shipway_api::causes::causes;
use shipway_core::command::Command;
use shipway_core::engine::step;
use shipway_core::event::Event;
use shipway_core::schedule::schedule;
use shipway_core::{Rejection, State, snapshot};
use shipway_model::{Millis, Timestamp};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;
use tokio::sync::{mpsc, watch};

/// Ended jobs that stay in memory, so that a client that asks right after the end is answered fast.
const KEEP_ENDED: usize = 1_000;
/// Ended jobs leave memory this many at a time: one event, not one each.
const ARCHIVE_STEP: usize = 500;
/// Events between snapshots: a restart replays at most this many, a fraction of a second's worth.
/// A large state waits longer, for a part of its size: a snapshot of so many jobs costs about as
/// much as replaying that many events.
const SNAPSHOT_EVERY: u64 = 10_000;
const SNAPSHOT_JOBS_PER_EVENT: u64 = 4;
/// How often a journal that cannot be written is tried again.
const RETRY_AFTER: Millis = Millis(1_000);

/// What the writer speaks to.
pub struct Edges {
    pub auth: Arc<Auth>,
    pub live: Arc<Live>,
    pub specs: Arc<Specs>,
    pub effects: Box<dyn EffectRunner>,
    pub clock: Clock,
    pub metrics: Arc<Metrics>,
}

impl std::fmt::Debug for Edges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Edges")
    }
}

/// A writer at work.
#[derive(Debug)]
pub struct Running {
    pub writer: Writer,
    pub thread: JoinHandle<()>,
}

struct Loop<J> {
    state: State,
    journal: J,
    history: HistoryReader,
    edges: Edges,
    queue: mpsc::Receiver<Request>,
    wake_at: watch::Sender<Option<Timestamp>>,
    health: watch::Sender<Option<String>>,
    since_snapshot: u64,
    /// Told to stop while the journal could not be written.
    stopped: bool,
}

/// Starts the writer's thread, and the timer that wakes it. Needs a tokio runtime for the timer.
pub fn start<J: Journal + Send + 'static>(
    (state, replayed): (State, u64),
    journal: J,
    history: HistoryReader,
    edges: Edges,
) -> std::io::Result<Running> {
    let (send, queue) = mpsc::channel(QUEUE);
    let (wake_at, wake_at_seen) = watch::channel(None);
    let (health, health_seen) = watch::channel(None);
    tokio::spawn(timer(edges.clock.clone(), wake_at_seen, send.clone()));
    let mut work = Loop {
        state,
        journal,
        history,
        edges,
        queue,
        wake_at,
        health,
        since_snapshot: replayed,
        stopped: false,
    };
    let thread = std::thread::Builder::new().name("writer".into()).spawn(move || work.run())?;
    Ok(Running { writer: Writer { queue: send, health: health_seen }, thread })
}

/// Sends one wake-up at the time the writer asks for; a later wish replaces an earlier one.
async fn timer(
    clock: Clock,
    mut wake_at: watch::Receiver<Option<Timestamp>>,
    queue: mpsc::Sender<Request>,
) {
    loop {
        let at = *wake_at.borrow_and_update();
        let changed = match at {
            None => wake_at.changed().await,
            Some(at) => {
                let slept = tokio::time::timeout(clock.until(at), wake_at.changed()).await;
                if slept.is_err() && queue.send(Request::Wake).await.is_err() {
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

impl<J: Journal> Loop<J> {
    fn run(&mut self) {
        self.edges.auth.refresh(&self.state);
        let mut batch = Batch::default();
        self.take(&mut batch, &Command::ServerStarted, None);
        self.finish(batch);
        while let Some(first) = self.queue.blocking_recv() {
            let mut batch = Batch::default();
            let mut stop = self.handle(&mut batch, first);
            while !stop && !batch.is_full() {
                let Ok(next) = self.queue.try_recv() else { break };
                stop = self.handle(&mut batch, next);
            }
            self.finish(batch);
            if self.stopped {
                return;
            }
            if stop {
                self.save_snapshot();
                return;
            }
        }
    }

    /// Returns whether to stop.
    fn handle(&mut self, batch: &mut Batch, request: Request) -> bool {
        match request {
            Request::Wish { wish, reply } => match prepare(wish, &self.state, &self.history) {
                Ok(command) => self.take(batch, &command, reply),
                Err(error) => {
                    let answer = Err(WriteError::NotDurable(error.to_string()));
                    batch.answer(reply, answer);
                }
            },
            Request::Ask(question) => batch.questions.push(question),
            Request::Wake => {
                self.wake_at.send_replace(None);
                self.take(batch, &Command::Tick, None);
            }
            Request::Stop => return true,
        }
        false
    }

    fn take(&mut self, batch: &mut Batch, command: &Command, reply: Option<Reply>) {
        let answer = self.decide(batch, command).map_err(WriteError::Rejected);
        self.edges.metrics.decided(answer.is_ok());
        batch.answer(reply, answer);
    }

    fn decide(&mut self, batch: &mut Batch, command: &Command) -> Result<Done, Rejection> {
        let repeated = repeated_submission(&self.state, command)?;
        let cancelled_before = cancelled(&self.state, command);
        let done = step(&mut self.state, self.edges.clock.now(), command)?;
        let mut tasks = cancelled(&self.state, command) - cancelled_before;
        for recorded in done.events {
            tasks += touched(&recorded.event);
            batch.rows.extend(rows::row(&recorded, &self.state));
            batch.add(recorded);
        }
        batch.effects.extend(done.effects);
        let submitted = match command {
            Command::Submit(submit) => Some(submit.job),
            _ => None,
        };
        let job = repeated.or(submitted);
        Ok(Done { job, repeated: repeated.is_some(), tasks })
    }

    /// Plans for what is waiting, commits, and tells.
    fn finish(&mut self, mut batch: Batch) {
        self.plan(&mut batch);
        self.archive(&mut batch);
        if batch.events.is_empty() {
            self.tell(batch, None);
            return self.ask_to_be_woken();
        }
        match self.commit(&batch) {
            Ok(first) => {
                self.tell(batch, Some(first));
                let jobs = self.state.jobs().len() as u64;
                if self.since_snapshot >= SNAPSHOT_EVERY.max(jobs / SNAPSHOT_JOBS_PER_EVENT) {
                    self.save_snapshot();
                }
            }
            Err(error) => self.stall(batch, &error),
        }
        self.ask_to_be_woken();
    }

    fn ask_to_be_woken(&self) {
        let next = self.state.next_deadline();
        // The timer sleeps on unless something changed: most commits change no deadline.
        self.wake_at.send_if_modified(|at| std::mem::replace(at, next) != next);
    }

    /// When this returns the batch is on disk.
    fn commit(&mut self, batch: &Batch) -> Result<journal::EventSeq, JournalError> {
        let at_ms = self.state.at().0;
        let pending = journal::Batch { at_ms, events: &batch.encoded, rows: &batch.rows };
        let began = Instant::now();
        let committed = self.journal.append(&pending)?;
        self.edges.metrics.committed(batch.events.len(), began.elapsed());
        self.since_snapshot += batch.events.len() as u64;
        Ok(committed.first)
    }

    fn plan(&mut self, batch: &mut Batch) {
        while !batch.is_full() {
            let plan = schedule(&mut self.state, self.edges.clock.now());
            if plan.is_empty() {
                return;
            }
            let more = plan.more;
            // A plan made from this very state fits it; what does not is left for the next one.
            if self.decide(batch, &Command::ApplyPlan(plan)).is_err() || !more {
                return;
            }
        }
    }

    fn archive(&mut self, batch: &mut Batch) {
        if self.state.ended_in_memory() >= KEEP_ENDED + ARCHIVE_STEP {
            let jobs = self.state.archivable(KEEP_ENDED);
            let _ = self.decide(batch, &Command::Archive { jobs });
        }
    }

    fn tell(&mut self, batch: Batch, first: Option<journal::EventSeq>) {
        if batch.events.iter().any(|recorded| changes_auth(&recorded.event)) {
            self.edges.auth.refresh(&self.state);
        }
        for recorded in &batch.events {
            if let Event::JobSubmitted(submitted) = &recorded.event {
                self.edges.specs.keep(submitted.job, submitted.spec.clone());
            }
        }
        for effect in batch.effects {
            self.edges.effects.run(effect);
        }
        for (reply, answer) in batch.replies {
            let _ = reply.send(answer);
        }
        for question in batch.questions {
            question(&self.state);
        }
        self.edges.metrics.happened(&batch.events);
        if let Some(first) = first {
            self.edges.live.tell(Told { first, events: batch.events });
        }
    }

    fn save_snapshot(&mut self) {
        let began = Instant::now();
        let body = snapshot::write(&self.state);
        let saved = self.journal.save_snapshot(self.journal.tip(), &body);
        match saved.and_then(|()| self.journal.prune()) {
            Ok(_) => {
                self.since_snapshot = 0;
                self.edges.metrics.snapshot(body.len(), began.elapsed());
            }
            // The journal itself is whole; only the next restart takes longer.
            Err(error) => tracing::warn!(%error, "the snapshot was not saved"),
        }
    }

    /// The commit failed. Nothing of it was acknowledged; the state goes back to what is on disk,
    /// everybody who waited is told, and pilots have to greet anew.
    fn stall(&mut self, batch: Batch, error: &JournalError) {
        let problem = causes(error);
        tracing::error!(problem, "the journal cannot be written; nothing is accepted");
        self.edges.metrics.commit_failed();
        self.health.send_replace(Some(problem.clone()));
        self.edges.effects.reset();
        refuse(batch, &problem);
        // Never at once: a disk that is nearly full takes a small write and refuses the next.
        while self.refuse_for_a_while(&problem) {
            match self.go_on() {
                Ok(()) => {
                    tracing::info!("the journal can be written again");
                    return;
                }
                Err(still) => self.health.send_replace(Some(still)),
            };
        }
    }

    /// Puts the state back to what is on disk and starts anew from there, as after a restart.
    fn go_on(&mut self) -> Result<(), String> {
        self.journal.reopen().map_err(|error| causes(&error))?;
        let restored = restore(&mut self.journal).map_err(|error| causes(&error))?;
        (self.state, self.since_snapshot) = restored;
        let mut batch = Batch::default();
        self.take(&mut batch, &Command::ServerStarted, None);
        let first = self.commit(&batch).map_err(|error| causes(&error))?;
        self.health.send_replace(None);
        self.edges.auth.refresh(&self.state);
        self.tell(batch, Some(first));
        Ok(())
    }

    /// Says no to everything until it is time to try the disk again. False: told to stop.
    fn refuse_for_a_while(&mut self, problem: &str) -> bool {
        let until = self.edges.clock.now().plus(RETRY_AFTER);
        let _ = self.wake_at.send(Some(until));
        while let Some(request) = self.queue.blocking_recv() {
            let mut batch = Batch::default();
            match request {
                Request::Wish { reply, .. } => batch.answer(reply, Ok(Done::default())),
                Request::Ask(_) => {}
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

/// How many tasks of the jobs that a command would cancel are cancelled.
fn cancelled(state: &State, command: &Command) -> u32 {
    let Command::Cancel(select) = command else { return 0 };
    let jobs = select.jobs.iter().filter_map(|(id, _)| state.job(*id));
    jobs.map(|job| job.tasks.counts().cancelled).sum()
}

/// How many tasks an event touched at a person's wish.
fn touched(event: &Event) -> u32 {
    let count = |tasks: usize| u32::try_from(tasks).unwrap_or(u32::MAX);
    #[allow(clippy::wildcard_enum_match_arm, reason = "the others are nobody's wish")]
    match event {
        Event::StopRequested { tasks } => count(tasks.len()),
        Event::TasksRequeued { tasks, .. } => tasks.len(),
        _ => 0,
    }
}

fn changes_auth(event: &Event) -> bool {
    matches!(
        event,
        Event::UserAdded { .. }
            | Event::UserRemoved { .. }
            | Event::TokenIssued { .. }
            | Event::TokenRevoked { .. }
            | Event::PilotTokenIssued { .. }
            | Event::PilotEnded { .. }
    )
}

/// The job that a submission repeats, if it does.
fn repeated_submission(
    state: &State,
    command: &Command,
) -> Result<Option<shipway_model::JobId>, Rejection> {
    match command {
        Command::Submit(submit) => shipway_core::decide::already_submitted(state, submit),
        _ => Ok(None),
    }
}

fn refuse(batch: Batch, problem: &str) {
    for (reply, _) in batch.replies {
        let _ = reply.send(Err(WriteError::NotDurable(problem.to_string())));
    }
    // Questions are dropped: whoever asked learns that there is no answer now.
    let _: Vec<Question> = batch.questions;
}
