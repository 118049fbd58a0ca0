//! The state as it is on disk, for those who ask while the disk does not answer.
//!
//! The writer's state runs ahead of the disk, and nothing of it may be shown before it is there; so
//! answers wait for the write that is under way. When that takes too long, what the journal holds
//! is read back as a restart would read it, once for each such write, and questions are answered
//! from that. Nothing of it is in memory while the disk answers.

use super::pulse::Pulse;
use crate::clock::Clock;
use crate::journal::{EventsPage, HistoryReader, JournalError, MAX_EVENTS_PAGE};
use shipway_core::State;
use shipway_core::evolve::evolve;
use shipway_core::schedule::schedule;
use shipway_shell::{RestoreError, read_event, read_snapshot};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often it is looked whether the disk answers again and the state can be let go.
const LET_GO_WITHIN: Duration = Duration::from_millis(500);

pub(super) struct OnDisk {
    pulse: Arc<Pulse>,
    clock: Clock,
    /// The connection that others are made from.
    history: Mutex<Box<dyn HistoryReader>>,
    read: tokio::sync::Mutex<Option<Read>>,
}

/// What was read, and how often the disk had answered before.
#[derive(Clone)]
struct Read {
    answers: u64,
    state: Arc<State>,
}

impl std::fmt::Debug for OnDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnDisk")
    }
}

impl OnDisk {
    pub(super) fn new(
        pulse: Arc<Pulse>,
        clock: Clock,
        history: Box<dyn HistoryReader>,
    ) -> Arc<Self> {
        let (history, read) = (Mutex::new(history), tokio::sync::Mutex::default());
        Arc::new(OnDisk { pulse, clock, history, read })
    }

    /// `None`: it cannot be read.
    pub(super) async fn state(self: &Arc<Self>) -> Option<Arc<State>> {
        let mut read = self.read.lock().await;
        let answers = self.pulse.answers();
        if let Some(read) = read.as_ref().filter(|read| read.answers == answers) {
            return Some(Arc::clone(&read.state));
        }
        let reader = Arc::clone(self);
        let state = tokio::task::spawn_blocking(move || reader.restore()).await.ok()?;
        match state {
            Ok(state) => {
                let state = Arc::new(state);
                *read = Some(Read { answers, state: Arc::clone(&state) });
                tokio::spawn(Arc::clone(self).let_go());
                Some(state)
            }
            Err(error) => {
                let error = shipway_api::causes::causes(&error);
                tracing::error!(error, "the state on disk cannot be read");
                None
            }
        }
    }

    fn restore(&self) -> Result<State, RestoreError<JournalError>> {
        let history = {
            let first = self.history.lock().unwrap_or_else(PoisonError::into_inner);
            first.try_clone()?
        };
        let mut state = from_history(&*history)?;
        // Only for what it leaves behind: for whom room is kept is a part of explanations.
        let _plan = schedule(&mut state, self.clock.now());
        Ok(state)
    }

    /// Forgets it when the disk has answered.
    async fn let_go(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LET_GO_WITHIN).await;
            let answers = self.pulse.answers();
            let mut read = self.read.lock().await;
            if let Some(old) = read.take_if(|read| read.answers != answers) {
                // A large one takes a while.
                tokio::task::spawn_blocking(move || drop(old));
            }
            if read.is_none() {
                return;
            }
        }
    }
}

/// As `restore` of the shell, from a connection that only reads, while the journal is being
/// written: what it shows is on disk.
fn from_history(history: &dyn HistoryReader) -> Result<State, RestoreError<JournalError>> {
    let (mut state, mut seen) = read_snapshot(history.snapshot()?)?;
    loop {
        let EventsPage::Events(events) = history.events_after(seen, MAX_EVENTS_PAGE)? else {
            return Err(RestoreError::Pruned { seq: seen });
        };
        if events.is_empty() {
            return Ok(state);
        }
        for (seq, body) in events {
            let recorded = read_event(seq, &body)?;
            evolve(&mut state, recorded.at, &recorded.event);
            seen = seq;
        }
    }
}
