//! A journal whose answers are waited for with a watch in hand: how long the disk takes, and
//! whether it answers at all.

use super::pulse::Pulse;
use crate::metrics::Metrics;
use shipway_shell::{Commit, Committed, EventSeq, Journal, Snapshot, Stored};
use std::error::Error;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A write shorter than this is over before another thread has begun with it.
pub(super) const WORTH_HANDING_OVER: Duration = Duration::from_micros(300);

pub(super) struct Timed<J> {
    pub(super) journal: J,
    pub(super) metrics: Arc<Metrics>,
    pub(super) pulse: Arc<Pulse>,
    /// How long the last write took.
    pub(super) last_took: Duration,
}

impl<J: Journal> Journal for Timed<J> {
    type Error = J::Error;
    type History = J::History;

    fn append(&mut self, commit: &Commit<'_>) -> Result<Committed, J::Error> {
        let began = Instant::now();
        let committed = self.pulse.around_commit(|| self.journal.append(commit));
        self.last_took = began.elapsed();
        match &committed {
            Ok(_) => self.metrics.committed(commit.events.len(), self.last_took),
            Err(_) => self.metrics.commit_failed(),
        }
        committed
    }

    fn save_snapshot(&mut self, seq: EventSeq, body: &[u8]) -> Result<(), J::Error> {
        let began = Instant::now();
        let saved = self.pulse.around_snapshot(|| self.journal.save_snapshot(seq, body));
        match &saved {
            Ok(()) => self.metrics.snapshot(body.len(), began.elapsed()),
            Err(error) => tracing::warn!(%error, "the snapshot was not saved"),
        }
        saved
    }

    fn load_snapshot(&mut self) -> Result<Option<Snapshot>, J::Error> {
        self.journal.load_snapshot()
    }

    fn replay(
        &mut self,
        after: EventSeq,
        visit: &mut dyn FnMut(Stored<'_>) -> ControlFlow<()>,
    ) -> Result<(), J::Error> {
        self.journal.replay(after, visit)
    }

    fn prune(&mut self) -> Result<u64, J::Error> {
        let pruned = self.pulse.around_snapshot(|| self.journal.prune());
        pruned.inspect_err(|error| tracing::warn!(%error, "old events were not dropped"))
    }

    fn reopen(&mut self) -> Result<(), J::Error> {
        self.journal.reopen()
    }

    fn tip(&self) -> EventSeq {
        self.journal.tip()
    }

    fn is_slow(&self) -> bool {
        self.last_took >= WORTH_HANDING_OVER
    }

    fn is_taken_over(&self) -> bool {
        self.journal.is_taken_over()
    }

    fn words(error: &(dyn Error + 'static)) -> String {
        J::words(error)
    }
}
