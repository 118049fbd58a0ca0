//! What is decided but not yet on disk: events, rows, effects, and the answers that wait for them.

use super::rows::{self, Written};
use super::{Answered, Done, WriteError};
use crate::auth::Table;
use crate::journal::{HistoryRow, Lines, MAX_COMMIT_BYTES};
use shipway_core::event::Recorded;
use shipway_core::{Effect, State};
use shipway_model::Timestamp;
use shipway_model::limits::MAX_SPEC_BYTES;
use tokio::sync::oneshot;

/// A batch is closed at a third of what one commit may hold; the rest is room for the last wish and
/// what follows from it. The largest job, written in full, takes less than twice what it came in:
/// a batch that a commit cannot hold would be refused, and everybody in it.
const FULL_BYTES: usize = MAX_COMMIT_BYTES / 3;
const _: () = assert!(FULL_BYTES + 2 * MAX_SPEC_BYTES < MAX_COMMIT_BYTES);
/// Events of one commit: more adds waiting without saving syncs.
const FULL_EVENTS: usize = 20_000;

#[derive(Default)]
pub(super) struct Batch {
    pub(super) events: Vec<Recorded>,
    /// The same events, as they are written.
    pub(super) encoded: Lines,
    pub(super) rows: Vec<HistoryRow>,
    pub(super) effects: Vec<Effect>,
    pub(super) replies: Vec<(Reply, Result<Done, WriteError>)>,
    /// What was asked, answered from the state with these events in it.
    pub(super) answers: Vec<Answered>,
    /// Who may come in from now on, if these events change it.
    pub(super) auth: Option<Table>,
    /// The state's time after the last event.
    pub(super) at: Timestamp,
}

/// How far a batch had come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    events: usize,
    rows: usize,
    effects: usize,
}

pub(super) type Reply = oneshot::Sender<Result<Done, WriteError>>;

impl Batch {
    #[expect(clippy::expect_used, reason = "an event is plain data; whoever calls is guarded")]
    pub(super) fn add(&mut self, recorded: Recorded, state: &State) {
        let start = self.encoded.push_written(|text| {
            serde_json::to_writer(text, &recorded).expect("an event is plain data");
        });
        let written = Written { text: self.encoded.text(), start };
        rows::add(&mut self.rows, &recorded, &written, state);
        self.events.push(recorded);
    }

    pub(super) fn mark(&self) -> Mark {
        let (events, rows) = (self.events.len(), self.rows.len());
        Mark { events, rows, effects: self.effects.len() }
    }

    /// Takes back what was added since. Of each event there is the encoded one too.
    pub(super) fn back_to(&mut self, mark: Mark) {
        self.events.truncate(mark.events);
        self.encoded.truncate(mark.events);
        self.rows.truncate(mark.rows);
        self.effects.truncate(mark.effects);
    }

    /// Whether nobody waits for anything in it.
    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.replies.is_empty() && self.answers.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.encoded.text().len() >= FULL_BYTES || self.events.len() >= FULL_EVENTS
    }

    pub(super) fn answer(&mut self, reply: Option<Reply>, answer: Result<Done, WriteError>) {
        self.replies.extend(reply.map(|reply| (reply, answer)));
    }
}
