//! The journal in somebody's hands: writes one batch, and only then tells. It goes from thread to
//! thread with the journal, so there is never more than one that writes. It decides nothing.

use crate::{
    Batch, Commit, Done, EventSeq, Journal, Lines, Outside, Question, WriteError, guarded,
};
use std::sync::Arc;

/// An event that is larger counts as several: reading it back takes as long. Few are this large,
/// and a restart should not take longer because somebody's jobs are.
const BYTES_OF_AN_EVENT: usize = 16 << 10;

pub struct Keeper<J, O> {
    pub(crate) journal: J,
    pub(crate) outside: Arc<O>,
    /// Events on disk since the last snapshot.
    pub(crate) since_snapshot: u64,
}

/// A batch that is not on disk, and of which nothing was told.
#[derive(Debug)]
pub struct Failed<O: Outside> {
    pub(crate) batch: Batch<O>,
    pub(crate) problem: String,
}

/// What a write says that failed by a mistake in this program.
pub(crate) const MISTAKE: &str = "a mistake in this program; its log says where";

pub type WriteResult<O> = Result<(), Box<Failed<O>>>;

impl<J, O> std::fmt::Debug for Keeper<J, O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keeper")
    }
}

impl<J: Journal, O: Outside> Keeper<J, O> {
    /// When this returns the batch is on disk, and everybody knows.
    pub fn write(&mut self, mut batch: Batch<O>) -> WriteResult<O> {
        if self.outside.replies_too_early() {
            self.reply(std::mem::take(&mut batch.replies));
        }
        match self.commit(&batch) {
            Ok(first) => {
                self.announce(batch, first);
                Ok(())
            }
            Err(problem) => Err(Box::new(Failed { batch, problem })),
        }
    }

    /// The number of the first event, if there is one.
    fn commit(&mut self, batch: &Batch<O>) -> Result<Option<EventSeq>, String> {
        if batch.events.is_empty() {
            return Ok(None);
        }
        let commit = Commit { at_ms: batch.at.0, events: &batch.encoded, rows: &batch.rows };
        // Whether it is on disk nobody knows then; what is done about a disk that fails is right.
        let committed =
            guarded(|| self.journal.append(&commit)).map_err(|_| MISTAKE.to_string())?;
        let committed = committed.map_err(|error| J::words(&error))?;
        let (events, bytes) = (batch.events.len(), batch.encoded.text().len());
        self.since_snapshot += events.max(bytes / BYTES_OF_AN_EVENT) as u64;
        Ok(Some(committed.first))
    }

    /// Whether to have a batch written by another thread, and decide the next one meanwhile. Where
    /// several had a wish, more are on their way.
    pub(crate) fn is_worth_handing_over(&self, batch: &Batch<O>) -> bool {
        batch.replies.len() > 1 && self.journal.is_slow()
    }

    /// In this order: what effects and requests rest on, effects, replies, answers, watchers.
    fn announce(&self, mut batch: Batch<O>, first: Option<EventSeq>) {
        let outside = &*self.outside;
        outside.written(batch.publication, &mut batch.events, &batch.encoded);
        // On disk, and of use to nobody any more.
        batch.encoded = Lines::default();
        let mut are_told = true;
        for effect in batch.effects {
            are_told &= guarded(|| outside.effect(effect)).is_ok();
        }
        if !are_told {
            // What a pilot has missed it learns when it greets anew.
            outside.reset();
        }
        self.reply(batch.replies);
        for question in batch.questions {
            question.answer(Ok(()));
        }
        if let Some(first) = first {
            let _ = guarded(|| outside.happened(first, batch.events));
        }
    }

    fn reply(&self, replies: Vec<(O::Reply, Result<Done, WriteError>)>) {
        for (reply, answer) in replies {
            self.outside.reply(reply, answer);
        }
    }

    pub(crate) fn save_snapshot(&mut self, body: &[u8]) {
        let saved = self.journal.save_snapshot(self.journal.tip(), body);
        // The journal itself is whole without it; only the next restart takes longer.
        if saved.and_then(|()| self.journal.prune()).is_ok() {
            self.since_snapshot = 0;
        }
    }
}
