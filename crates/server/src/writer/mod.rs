//! The one writer: it owns the state and the journal.
//!
//! It drains what is waiting, decides each wish in order, commits all their events in one
//! transaction, and only then replies, carries out effects and tells watchers. With more waiting,
//! the next batch is decided while the last one is written; answers wait until all they rest on is
//! on disk, so that none shows what is not.
//!
//! A lone request is decided and written by the thread it came in on, because waking another one
//! takes as long as the rest. Another thread takes its place at answering others (`off_requests`).
//! The desk has one lock, so there is one writer all the same.
//!
//! While a write takes longer than a disk that works, questions are answered from what is on disk.
//!
//! People take turns at it: one who asks for much keeps nobody else waiting.
//!
//! - `lanes.rs`   who is next
//! - `queue.rs`   the way to the writer's thread
//! - `prepare.rs` from a wish to a command: ids, and what history knows
//! - `desk.rs`    the state, and deciding
//! - `batch.rs`   what is decided and not yet on disk
//! - `keeper.rs`  the journal: writing, then telling
//! - `run.rs`     the threads, and a disk that does not take a batch
//! - `at_once.rs` a lone request, on the thread it came in on
//! - `pulse.rs`   whether the disk answers
//! - `on_disk.rs` answers while it does not
//! - `restore.rs` from disk to state
//! - `rows.rs`    what of an event goes into history
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

mod at_once;
mod batch;
mod desk;
mod keeper;
mod lanes;
mod on_disk;
mod prepare;
mod pulse;
mod queue;
mod restore;
mod rows;
mod run;

use crate::auth::Auth;
use crate::clock::Clock;
use crate::event_logs::EventLogs;
use crate::live::Live;
use crate::metrics::Metrics;
use crate::off_requests::off_requests;
use crate::on_behalf::asker;
use crate::panics::{Panicked, guarded};
use crate::pilots::Specs;
use at_once::{AtOnce, Present, Shared, Then};
use on_disk::OnDisk;
use pulse::Pulse;
use queue::{Room, Sender};
use shipway_core::command::{Command, Select};
use shipway_core::decide::asked_by;
use shipway_core::engine::Step;
use shipway_core::rejection::Rejection;
use shipway_core::{Effect, Event, State};
use shipway_model::{Actor, Condition, JobId, JobSpec, Timestamp, UserName};
use std::sync::Arc;
use tokio::sync::{oneshot, watch};

pub use restore::restore;
pub use run::{Running, start};

/// What is said of a disk that takes longer than any that works.
const SILENT: &str = "the journal's disk has not answered";

/// What somebody wants to happen.
#[derive(Debug)]
pub enum Wish {
    Submit(Box<Submission>),
    Cancel(Select),
    Retry(Select),
    Core(Command),
}

/// Jobs to be taken together.
#[derive(Debug)]
pub struct Submission {
    pub by: Actor,
    pub jobs: Vec<Member>,
    pub digest: u64,
    pub key: Option<String>,
    /// About how many bytes they are when they are written.
    pub size: usize,
}

/// One of them, that may wait for those before it: by their place, as none has a number yet.
#[derive(Debug)]
pub struct Member {
    pub spec: JobSpec,
    pub after: Vec<(usize, Condition)>,
}

impl Wish {
    /// Who wants it. `None`: the server itself, or a pilot.
    fn by(&self) -> Option<&UserName> {
        let by = match self {
            Wish::Submit(submission) => Some(&submission.by),
            Wish::Cancel(select) | Wish::Retry(select) => Some(&select.by),
            Wish::Core(command) => asked_by(command),
        };
        by.map(|by| &by.user)
    }
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Done {
    /// The first job that a submission made, now or when its key was used first.
    pub job: Option<JobId>,
    pub repeated: bool,
    /// Tasks that were cancelled, asked to stop, or queued again.
    pub tasks: u32,
    /// Jobs that a removed user had not finished.
    pub jobs: u64,
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum WriteError {
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// Nothing was acknowledged and nothing happened.
    #[error("the server cannot write its journal: {0}")]
    NotDurable(String),
    #[error("the server is stopping")]
    Stopping,
    #[error("the server has too much to do")]
    Busy,
    /// A mistake in the server, over this alone. Nothing happened.
    #[error("the server failed over this; its log says where")]
    Failed,
}

impl From<Panicked> for WriteError {
    fn from(_: Panicked) -> WriteError {
        WriteError::Failed
    }
}

/// Comes when it is on disk, or will never be.
pub type Answer = oneshot::Receiver<Result<Done, WriteError>>;

enum Request {
    Wish {
        wish: Wish,
        reply: Option<oneshot::Sender<Result<Done, WriteError>>>,
    },
    Ask(Question),
    /// The time that the writer asked to be woken at has come.
    Wake,
    /// The writer's own thread is needed: a write failed, or a snapshot is due.
    Attend,
    Stop,
}

impl Request {
    /// In whose turn it is decided. Asked by whoever sends it: a question is that person's.
    fn by(&self) -> Option<UserName> {
        match self {
            Request::Wish { wish, .. } => wish.by().cloned(),
            Request::Ask(_) => asker(),
            Request::Wake | Request::Attend | Request::Stop => None,
        }
    }
}

/// Finds the answer; it goes out when all that the state shows is on disk.
type Question = Box<dyn FnOnce(&State) -> Answered + Send>;
/// Sends what was found.
type Answered = Box<dyn FnOnce() + Send>;

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Request::Wish { .. } => "Wish",
            Request::Ask(_) => "Ask",
            Request::Wake => "Wake",
            Request::Attend => "Attend",
            Request::Stop => "Stop",
        })
    }
}

/// What the writer speaks to.
pub struct Edges {
    pub auth: Arc<Auth>,
    pub live: Arc<Live>,
    pub specs: Arc<Specs>,
    pub effects: Box<dyn EffectRunner>,
    pub event_logs: Option<Arc<EventLogs>>,
    pub clock: Clock,
    pub metrics: Arc<Metrics>,
    pub core: Core,
}

/// What the core does for one command: decide, which changes nothing, and then make it true.
#[derive(Debug, Clone, Copy)]
pub struct Core {
    pub decide: fn(&State, Timestamp, &Command) -> Result<Vec<Event>, Rejection>,
    pub apply: fn(&mut State, Timestamp, Vec<Event>) -> Step,
}

impl Default for Core {
    fn default() -> Self {
        Core { decide: shipway_core::decide::decide, apply: shipway_core::engine::apply }
    }
}

impl std::fmt::Debug for Edges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Edges")
    }
}

/// How anything else reaches the writer.
#[derive(Debug, Clone)]
pub struct Writer {
    queue: Arc<Sender<Request>>,
    health: watch::Receiver<Option<String>>,
    desk: Arc<dyn AtOnce>,
    pulse: Arc<Pulse>,
    on_disk: Arc<OnDisk>,
}

impl Writer {
    /// Answers when it is on disk.
    pub async fn wish(&self, wish: Wish) -> Result<Done, WriteError> {
        let (reply, answer) = oneshot::channel();
        let request = Request::Wish { wish, reply: Some(reply) };
        let present = self.desk.come_in();
        if let Some(request) = self.try_at_once(request, &present).await {
            self.try_send(request)?;
        }
        answer.await.unwrap_or(Err(WriteError::Stopping))
    }

    /// A report of something that happened; waits for room rather than being refused.
    pub async fn report(&self, command: Command) -> Result<Done, WriteError> {
        let answer = self.hand_in(command).await.ok_or(WriteError::Stopping)?;
        answer.await.unwrap_or(Err(WriteError::Stopping))
    }

    /// The same, but the caller need not wait for the commit. `None`: the writer has stopped.
    pub async fn hand_in(&self, command: Command) -> Option<Answer> {
        let (reply, answer) = oneshot::channel();
        let request = Request::Wish { wish: Wish::Core(command), reply: Some(reply) };
        let present = self.desk.come_in();
        match self.try_at_once(request, &present).await {
            Some(request) => self.send(request).await.ok().map(|()| answer),
            None => Some(answer),
        }
    }

    /// Asks about the state as it is on disk. Asked again, elsewhere, if the disk does not answer.
    pub async fn ask<A: Send + 'static>(
        &self,
        question: impl Fn(&State) -> A + Send + Sync + 'static,
    ) -> Result<A, WriteError> {
        let question = Arc::new(question);
        if self.pulse.silent_for().is_none() {
            tokio::select! {
                answer = self.ask_writer(Arc::clone(&question)) => return answer,
                () = self.pulse.silence() => {}
            }
        }
        let state = self.on_disk.state().await;
        let state = state.ok_or_else(|| WriteError::NotDurable(SILENT.into()))?;
        let asked = tokio::task::spawn_blocking(move || question(&state));
        asked.await.map_err(
            |cut| {
                if cut.is_panic() { WriteError::Failed } else { WriteError::Stopping }
            },
        )
    }

    async fn ask_writer<A: Send + 'static>(
        &self,
        question: Arc<impl Fn(&State) -> A + Send + Sync + 'static>,
    ) -> Result<A, WriteError> {
        let (reply, answer) = oneshot::channel();
        let ask: Question = Box::new(move |state| {
            let found = guarded(|| question(state));
            Box::new(move || {
                // Whoever asked may have gone.
                let _ = reply.send(found);
            })
        });
        self.send(Request::Ask(ask)).await?;
        // A question is dropped unanswered when the journal cannot be written, or at the end.
        let answer = answer.await;
        let found = answer
            .map_err(|_| self.problem().map_or(WriteError::Stopping, WriteError::NotDurable))?;
        Ok(found?)
    }

    /// The same for what is found in microseconds: answered on this thread if nobody is before.
    pub async fn glance<A: Send + 'static>(
        &self,
        question: impl Fn(&State) -> A + Send + Sync + 'static,
    ) -> Result<A, WriteError> {
        let mut found = None;
        self.desk.look(&mut |state| found = Some(guarded(|| question(state))));
        match found {
            Some(found) => Ok(found?),
            None => self.ask(question).await,
        }
    }

    /// Why nothing is accepted now: the journal cannot be written, or the disk does not answer.
    pub fn not_ready(&self) -> Option<String> {
        let silent = || {
            let span = self.pulse.silent_for()?;
            Some(format!("{SILENT} for {} s", span.as_secs()))
        };
        self.problem().or_else(silent)
    }

    /// What is wrong with the journal, if something is.
    pub fn problem(&self) -> Option<String> {
        self.health.borrow().clone()
    }

    pub async fn stop(&self) {
        // Stopped already is as good.
        let _ = self.send(Request::Stop).await;
    }

    /// Returns the request unless it is done.
    async fn try_at_once(&self, request: Request, present: &Present) -> Option<Request> {
        let mut request = Some(request);
        if self.desk.is_quiet() {
            // Whoever else has a request here now comes first: together they are one write.
            tokio::task::yield_now().await;
            let then = off_requests(|| self.desk.at_once(&mut request, present));
            if then == Then::CallTheWriter {
                // Busy is as good: then it is awake, and looks by itself.
                let _ = self.try_send(Request::Attend);
            }
        }
        request
    }

    /// Waits for room.
    async fn send(&self, request: Request) -> Result<(), WriteError> {
        let room = self.queue.room(request.by()).await?;
        self.put(room, request)
    }

    fn try_send(&self, request: Request) -> Result<(), WriteError> {
        let room = self.queue.room_now(request.by())?;
        self.put(room, request)
    }

    /// Counted only with room in hand: whoever gives up waiting for it must not be expected. And
    /// before it is put there, for the writer's thread may have it the next moment.
    fn put(&self, room: Room<'_, Request>, request: Request) -> Result<(), WriteError> {
        self.desk.expect_one();
        room.put(request).inspect_err(|_| self.desk.expect_one_less())
    }
}

/// Carries out what the core asks of the outside. Must not block.
pub trait EffectRunner: Send + Sync {
    fn run(&self, effect: Effect);
    /// The state was taken back to what is on disk: everything said since may be wrong.
    fn reset(&self);
}

#[cfg(test)]
mod tests;
