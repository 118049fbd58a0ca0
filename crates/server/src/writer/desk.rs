//! Where wishes are decided: the state, the batch in the making, and the journal when it is here.
//!
//! Whoever holds the desk decides. While the journal is away with one batch the next one grows, so
//! the state runs ahead of the disk by what is in those two; nothing of them is told before it is
//! written. Not here: threads, waiting, and what to do about a broken disk (`run.rs`).
//!
//! A mistake of the core over one command costs that command: what `decide` says changes nothing,
//! and after one in `apply` the state is not used again before it is restored from the disk.

use super::batch::{Batch, Reply};
use super::keeper::{Failed, Keeper, MISTAKE, Written};
use super::prepare::{Unprepared, prepare};
use super::{Done, Edges, Request, Wish, WriteError};
use crate::auth::Table;
use crate::journal::{HistoryReader, Journal};
use crate::panics::{Panicked, guarded};
use shipway_core::command::Command;
use shipway_core::event::Event;
use shipway_core::schedule::schedule;
use shipway_core::{Rejection, State, snapshot};
use shipway_model::Timestamp;
use shipway_model::limits::MAX_TASKS;
use std::sync::Arc;
use tokio::sync::watch;

/// Ended jobs that stay in memory, so that a client that asks right after the end is answered fast.
const KEEP_ENDED: usize = 1_000;
/// Tasks of those jobs together, three bits each: two of the largest arrays.
const KEEP_ENDED_TASKS: u64 = 2 * MAX_TASKS;
/// Ended jobs leave memory this many at a time: one event, not one each.
const ARCHIVE_STEP: usize = 500;
const ARCHIVE_STEP_TASKS: u64 = MAX_TASKS;
/// Events between snapshots: a restart replays at most this many, a fraction of a second's worth.
/// A large state waits longer, for a part of its size: a snapshot of so many jobs costs about as
/// much as replaying that many events.
const SNAPSHOT_EVERY: u64 = 10_000;
const SNAPSHOT_JOBS_PER_EVENT: u64 = 4;

pub(super) struct Desk<J> {
    pub(super) state: State,
    /// Decided, and not on its way to the disk yet.
    pub(super) batch: Batch,
    /// None: away with the batch before.
    pub(super) keeper: Option<Keeper<J>>,
    pub(super) history: HistoryReader,
    pub(super) edges: Arc<Edges>,
    pub(super) wake_at: watch::Sender<Option<Timestamp>>,
    /// What could not be written at once by somebody other than the writer's thread.
    pub(super) failed: Option<Box<Failed>>,
    /// A command stopped half-way through the state: nobody may look at it until it is restored.
    pub(super) is_broken: bool,
}

impl<J: Journal> Desk<J> {
    /// Whether everything decided is on disk, and the disk takes more.
    pub(super) fn is_settled(&self) -> bool {
        let is_whole = self.failed.is_none() && !self.is_broken;
        self.keeper.is_some() && self.batch.is_empty() && is_whole
    }

    pub(super) fn handle(&mut self, request: Request) {
        match request {
            Request::Wish { wish, reply } => {
                if let Wish::Submit(submission) = &wish {
                    self.batch.encoded.expect(submission.size);
                }
                let prepared = guarded(|| prepare(wish, &self.state, &self.history));
                match prepared {
                    Ok(Ok(command)) => self.take(&command, reply),
                    Ok(Err(Unprepared::Refused(refused))) => {
                        self.batch.answer(reply, Err(WriteError::Rejected(refused)));
                    }
                    Ok(Err(Unprepared::Journal(error))) => {
                        let answer = Err(WriteError::NotDurable(error.to_string()));
                        self.batch.answer(reply, answer);
                    }
                    Err(panicked) => self.batch.answer(reply, Err(panicked.into())),
                }
            }
            Request::Ask(question) => self.batch.answers.push(question(&self.state)),
            Request::Wake => {
                self.wake_at.send_replace(None);
                self.take(&Command::Tick, None);
            }
            // The writer's own thread sees to these.
            Request::Attend | Request::Stop => {}
        }
    }

    pub(super) fn take(&mut self, command: &Command, reply: Option<Reply>) {
        let answer = self.decide(command);
        self.edges.metrics.decided(answer.is_ok());
        self.batch.answer(reply, answer);
    }

    fn decide(&mut self, command: &Command) -> Result<Done, WriteError> {
        let at = self.edges.clock.now().max(self.state.at());
        let core = self.edges.core;
        // All of them look at the state and change nothing.
        let (repeated, left, events) = guarded(|| {
            let repeated = repeated_submission(&self.state, command)?;
            let left = left_by(&self.state, command);
            Ok::<_, Rejection>((repeated, left, (core.decide)(&self.state, at, command)?))
        })??;
        let mark = self.batch.mark();
        let tasks = guarded(|| self.apply(at, command, events)).inspect_err(|_| {
            self.batch.back_to(mark);
            self.is_broken = true;
        })?;
        let submitted = match command {
            Command::Submit(submit) => submit.first(),
            _ => None,
        };
        let job = repeated.or(submitted);
        Ok(Done { job, repeated: repeated.is_some(), tasks, jobs: left })
    }

    /// Makes it true, and puts it into the batch. How many tasks were touched.
    fn apply(&mut self, at: Timestamp, command: &Command, events: Vec<Event>) -> u32 {
        let cancelled_before = cancelled(&self.state, command);
        let done = (self.edges.core.apply)(&mut self.state, at, events);
        let mut tasks = cancelled(&self.state, command).saturating_sub(cancelled_before);
        for recorded in done.events {
            tasks = tasks.saturating_add(touched(&recorded.event));
            self.batch.add(recorded, &self.state);
        }
        self.batch.effects.extend(done.effects);
        tasks
    }

    /// Plans for what is waiting.
    pub(super) fn plan(&mut self) {
        while !self.batch.is_full() && !self.is_broken {
            let plan = schedule(&mut self.state, self.edges.clock.now());
            if plan.is_empty() {
                return;
            }
            let more = plan.more;
            // A plan made from this very state fits it; what does not is left for the next one.
            if self.decide(&Command::ApplyPlan(plan)).is_err() || !more {
                return;
            }
        }
    }

    /// The batch as it goes to the disk, and the next deadline after it.
    pub(super) fn close_batch(&mut self) -> Batch {
        let ended = self.state.ended();
        let are_many = ended.jobs() >= KEEP_ENDED + ARCHIVE_STEP
            || ended.tasks() >= KEEP_ENDED_TASKS + ARCHIVE_STEP_TASKS;
        if !self.is_broken && are_many {
            let jobs = self.state.archivable(KEEP_ENDED, KEEP_ENDED_TASKS);
            let _ = self.decide(&Command::Archive { jobs });
        }
        let mut batch = std::mem::take(&mut self.batch);
        batch.at = self.state.at();
        if self.is_broken {
            // Whoever mends it says who may come in, and when to wake.
            return batch;
        }
        if batch.events.iter().any(|recorded| changes_auth(&recorded.event)) {
            batch.auth = Some(Table::of(&self.state));
        }
        let next = self.state.next_deadline();
        // The timer sleeps on unless something changed: most batches change no deadline.
        self.wake_at.send_if_modified(|at| std::mem::replace(at, next) != next);
        batch
    }

    /// Lends the journal for the batch, if that is worth it, while the next one is decided.
    pub(super) fn hand_over(&mut self) -> Option<(Keeper<J>, Batch)> {
        let worth = |keeper: &mut Keeper<J>| keeper.is_worth_handing_over(&self.batch);
        let due = self.failed.is_some() || self.is_broken || self.is_snapshot_due();
        let keeper = if due { None } else { self.keeper.take_if(worth) };
        keeper.map(|keeper| (keeper, self.close_batch()))
    }

    /// Writes what is decided, here and now, and tells.
    pub(super) fn write(&mut self) -> Written {
        let batch = self.close_batch();
        match &mut self.keeper {
            Some(keeper) => keeper.write(batch),
            // Asked for only while it is here; and if not, nothing was written.
            None => Err(Box::new(Failed { batch, error: MISTAKE })),
        }
    }

    pub(super) fn is_snapshot_due(&self) -> bool {
        let jobs = self.state.jobs().len() as u64;
        let most = SNAPSHOT_EVERY.max(jobs / SNAPSHOT_JOBS_PER_EVENT);
        self.keeper.as_ref().is_some_and(|keeper| keeper.since_snapshot >= most)
    }

    /// Only while all that is decided is on disk.
    pub(super) fn save_snapshot(&mut self) {
        if let Some(keeper) = self.keeper.as_mut().filter(|_| !self.is_broken) {
            match guarded(|| snapshot::write(&self.state)) {
                Ok(body) => keeper.save_snapshot(&body),
                Err(Panicked) => keeper.since_snapshot = 0,
            }
        }
    }
}

/// How many tasks of the jobs that a command would cancel are cancelled.
fn cancelled(state: &State, command: &Command) -> u32 {
    let Command::Cancel(select) = command else { return 0 };
    let jobs = select.jobs.iter().filter_map(|(id, _)| state.job(*id));
    jobs.map(|job| job.tasks.counts().cancelled).sum()
}

/// How many jobs a user leaves who is to be removed.
fn left_by(state: &State, command: &Command) -> u64 {
    let Command::RemoveUser { user, .. } = command else { return 0 };
    state.unfinished().of(user).jobs
}

/// How many tasks an event touched at a person's wish.
fn touched(event: &Event) -> u32 {
    let count = |tasks: usize| u32::try_from(tasks).unwrap_or(u32::MAX);
    #[allow(clippy::wildcard_enum_match_arm, reason = "the others are nobody's wish")]
    match event {
        Event::StopRequested { tasks, .. } => count(tasks.len()),
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
            | Event::TokensExpired { .. }
            | Event::AllocationAsked { .. }
            | Event::PilotTokenEnded { .. }
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
