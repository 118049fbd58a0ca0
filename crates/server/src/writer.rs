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
//! What is done in which order is the shell's (`crates/shell`), which the simulator runs too. Here
//! is what it needs around it:
//!
//! - `way.rs`     how a request comes to the desk
//! - `lanes.rs`   who is next
//! - `queue.rs`   the way to the writer's thread
//! - `at_once.rs` a lone request, on the thread it came in on
//! - `run.rs`     the two threads, and a disk that does not take a batch
//! - `sync.rs`    locks and threads, so that a model can try their interleavings
//! - `start.rs`   the beginning of it all, and the timer
//! - `outside.rs` who is told what is on disk
//! - `timed.rs`, `pulse.rs` how long the disk takes, and whether it answers
//! - `on_disk.rs` answers while it does not
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

mod at_once;
mod lanes;
mod on_disk;
mod outside;
mod pulse;
mod queue;
mod run;
mod start;
mod sync;
mod timed;
mod way;

use crate::auth::Auth;
use crate::clock::Clock;
use crate::event_logs::EventLogs;
use crate::live::Live;
use crate::metrics::Metrics;
use crate::panics::Vital;
use crate::pilots::Specs;
use crate::published::{Board, Published};
use on_disk::OnDisk;
use pulse::Pulse;
use shipway_core::command::Command;
use shipway_core::{Effect, State};
use std::sync::Arc;
use tokio::sync::watch;
use way::{Request, Way};

pub use shipway_shell::{Core, Done, Member, RestoreError, Submission, Wish, WriteError, restore};
pub use start::{Running, start};
pub use way::Answer;

/// What is said of a disk that takes longer than any that works.
const SILENT: &str = "the journal's disk has not answered";

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

impl std::fmt::Debug for Edges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Edges")
    }
}

/// How anything else reaches the writer.
#[derive(Debug, Clone)]
pub struct Writer {
    way: Way,
    health: watch::Receiver<Option<String>>,
    pulse: Arc<Pulse>,
    on_disk: Arc<OnDisk>,
    published: Arc<Published>,
}

impl Writer {
    /// Answers when it is on disk.
    pub async fn wish(&self, wish: Wish) -> Result<Done, WriteError> {
        self.way.wish(wish).await
    }

    /// A report of something that happened; waits for room rather than being refused.
    pub async fn report(&self, command: Command) -> Result<Done, WriteError> {
        let answer = self.hand_in(command).await.ok_or(WriteError::Stopping)?;
        answer.await.unwrap_or(Err(WriteError::Stopping))
    }

    /// The same, but the caller need not wait for the commit. `None`: the writer has stopped.
    pub async fn hand_in(&self, command: Command) -> Option<Answer> {
        self.way.hand_in(command).await
    }

    /// Looks at what is published, without the desk: what people ask for all day.
    pub async fn look<A>(&self, look: impl FnOnce(&Board) -> A) -> Result<A, WriteError> {
        // As for questions: what is on a disk that fails is proven before it is shown.
        if let Some(problem) = self.problem() {
            return Err(WriteError::NotDurable(problem));
        }
        if self.published.is_behind() {
            // Answered when the state is in order again, and with it what is published.
            self.ask(|_| ()).await?;
        }
        Ok(self.published.look(look))
    }

    /// Asks about the state as it is on disk. Asked again, elsewhere, if the disk does not answer.
    pub async fn ask<A: Send + 'static>(
        &self,
        question: impl Fn(&State) -> A + Send + Sync + 'static,
    ) -> Result<A, WriteError> {
        let question = Arc::new(question);
        if self.pulse.silent_for().is_none() {
            tokio::select! {
                answer = self.way.ask(Arc::clone(&question)) => return answer,
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

    /// The same for what is found in microseconds: answered on this thread if nobody is before.
    pub async fn glance<A: Send + 'static>(
        &self,
        question: impl Fn(&State) -> A + Send + Sync + 'static,
    ) -> Result<A, WriteError> {
        match self.way.glance(&question) {
            Some(found) => found,
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
        let _ = self.way.send(Request::Stop).await;
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
