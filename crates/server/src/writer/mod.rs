//! The one writer: a thread that owns the state and the journal.
//!
//! It drains what is waiting, decides each wish in order, commits all their events in one
//! transaction, and only then replies, carries out effects and tells watchers. Questions about the
//! state are answered between commits, so that no answer shows what is not on disk.
//!
//! - `prepare.rs` from a wish to a command: ids, and what history knows
//! - `run.rs`     the loop
//! - `batch.rs`   what is pending until the commit
//! - `restore.rs` from disk to state
//! - `rows.rs`    what of an event goes into history

mod batch;
mod prepare;
mod restore;
mod rows;
mod run;

use shipway_core::command::{Command, Select};
use shipway_core::rejection::Rejection;
use shipway_core::{Effect, State};
use shipway_model::{Actor, JobId, JobSpec};
use tokio::sync::{mpsc, oneshot, watch};

pub use restore::restore;
pub use run::{Edges, Running, start};

/// Wishes waiting for the writer. More than this and the server is busier than it can say.
const QUEUE: usize = 16_384;

/// What somebody wants to happen.
#[derive(Debug)]
pub enum Wish {
    Submit { by: Actor, spec: Box<JobSpec>, digest: u64, key: Option<String> },
    Cancel(Select),
    Retry(Select),
    Core(Command),
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Done {
    /// The job that a submission made, now or when its key was used first.
    pub job: Option<JobId>,
    pub repeated: bool,
    /// Tasks that were cancelled, asked to stop, or queued again.
    pub tasks: u32,
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
    Stop,
}

type Question = Box<dyn FnOnce(&State) + Send>;

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Request::Wish { .. } => "Wish",
            Request::Ask(_) => "Ask",
            Request::Wake => "Wake",
            Request::Stop => "Stop",
        })
    }
}

/// How anything else reaches the writer.
#[derive(Debug, Clone)]
pub struct Writer {
    queue: mpsc::Sender<Request>,
    health: watch::Receiver<Option<String>>,
}

impl Writer {
    /// Answers when it is on disk.
    pub async fn wish(&self, wish: Wish) -> Result<Done, WriteError> {
        let (reply, answer) = oneshot::channel();
        let request = Request::Wish { wish, reply: Some(reply) };
        self.queue.try_send(request).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => WriteError::Busy,
            mpsc::error::TrySendError::Closed(_) => WriteError::Stopping,
        })?;
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
        self.queue.send(request).await.ok().map(|()| answer)
    }

    /// Asks about the state as it is on disk.
    pub async fn ask<A: Send + 'static>(
        &self,
        question: impl FnOnce(&State) -> A + Send + 'static,
    ) -> Result<A, WriteError> {
        let (reply, answer) = oneshot::channel();
        let ask: Question = Box::new(move |state| {
            // Whoever asked may have gone.
            let _ = reply.send(question(state));
        });
        self.queue.send(Request::Ask(ask)).await.map_err(|_| WriteError::Stopping)?;
        // A question is dropped unanswered when the journal cannot be written, or at the end.
        answer
            .await
            .map_err(|_| self.problem().map_or(WriteError::Stopping, WriteError::NotDurable))
    }

    /// What is wrong with the journal, if something is.
    pub fn problem(&self) -> Option<String> {
        self.health.borrow().clone()
    }

    pub async fn stop(&self) {
        let _ = self.queue.send(Request::Stop).await;
    }
}

/// Carries out what the core asks of the outside. Must not block.
pub trait EffectRunner: Send {
    fn run(&self, effect: Effect);
    /// The state was taken back to what is on disk: everything said since may be wrong.
    fn reset(&self);
}
