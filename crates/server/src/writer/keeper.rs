//! The journal's keeper: writes one batch, and only then tells. It goes from thread to thread with
//! the journal in its hands, so there is never more than one that writes. It decides nothing.

use super::Edges;
use super::batch::Batch;
use super::pulse::Pulse;
use crate::journal::{self, Journal, JournalError, Lines};
use crate::live::Told;
use crate::panics::guarded;
use shipway_core::event::{Event, Submitted};
use shipway_model::JobSpec;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A write shorter than this is over before another thread has begun with it.
pub(super) const WORTH_HANDING_OVER: Duration = Duration::from_micros(300);

pub(super) struct Keeper<J> {
    pub(super) journal: J,
    pub(super) edges: Arc<Edges>,
    /// Events on disk since the last snapshot.
    pub(super) since_snapshot: u64,
    pub(super) pulse: Arc<Pulse>,
    /// How long the last write took.
    pub(super) last_took: Duration,
}

/// A batch that is not on disk, and of which nothing was told.
pub(super) struct Failed {
    pub(super) batch: Batch,
    pub(super) error: JournalError,
}

/// What a write says that failed by a mistake in this program.
pub(super) const MISTAKE: JournalError =
    JournalError::Refused { what: "a mistake in this program; its log says where" };

pub(super) type Written = Result<(), Box<Failed>>;

impl<J: Journal> Keeper<J> {
    /// When this returns the batch is on disk, and everybody knows.
    pub(super) fn write(&mut self, batch: Batch) -> Written {
        if batch.events.is_empty() {
            self.tell(batch, None);
            return Ok(());
        }
        match self.commit(&batch) {
            Ok(first) => {
                self.tell(batch, Some(first));
                Ok(())
            }
            Err(error) => Err(Box::new(Failed { batch, error })),
        }
    }

    fn commit(&mut self, batch: &Batch) -> Result<journal::EventSeq, JournalError> {
        let pending =
            journal::Batch { at_ms: batch.at.0, events: &batch.encoded, rows: &batch.rows };
        let began = Instant::now();
        // Whether it is on disk nobody knows then; what is done about a disk that fails is right.
        let append = || guarded(|| self.journal.append(&pending)).unwrap_or(Err(MISTAKE));
        let committed = self.pulse.around_commit(append)?;
        self.last_took = began.elapsed();
        self.edges.metrics.committed(batch.events.len(), self.last_took);
        self.since_snapshot += batch.events.len() as u64;
        Ok(committed.first)
    }

    /// Whether to have a batch written by another thread, and decide the next one meanwhile. Where
    /// several had a wish, more are on their way.
    pub(super) fn is_worth_handing_over(&self, batch: &Batch) -> bool {
        batch.replies.len() > 1 && self.last_took >= WORTH_HANDING_OVER
    }

    fn tell(&self, mut batch: Batch, first: Option<journal::EventSeq>) {
        let edges = &*self.edges;
        if let Some(table) = batch.auth {
            edges.auth.install(table);
        }
        for (at, recorded) in batch.events.iter_mut().enumerate() {
            #[allow(clippy::wildcard_enum_match_arm, reason = "the others say nothing of a spec")]
            match &mut recorded.event {
                Event::JobSubmitted(submitted) => {
                    let owner = submitted.owner.to_string();
                    let spec = take_spec(submitted);
                    edges.specs.keep(submitted.job, owner, spec, batch.encoded.size(at));
                }
                Event::JobsGiven { .. } => edges.specs.forget(),
                _ => {}
            }
        }
        // On disk, and of use to nobody any more.
        batch.encoded = Lines::default();
        let mut are_told = true;
        for effect in batch.effects {
            are_told &= guarded(|| edges.effects.run(effect)).is_ok();
        }
        if !are_told {
            // What a pilot has missed it learns when it greets anew.
            edges.effects.reset();
        }
        for (reply, answer) in batch.replies {
            let _ = reply.send(answer);
        }
        for answer in batch.answers {
            answer();
        }
        let _ = guarded(|| {
            if let Some(logs) = &edges.event_logs {
                logs.happened(&batch.events);
            }
            edges.metrics.happened(&batch.events);
        });
        if let Some(first) = first {
            let _ = guarded(|| edges.live.tell(Told { first, events: batch.events }));
        }
    }

    pub(super) fn save_snapshot(&mut self, body: &[u8]) {
        let began = Instant::now();
        let saved = self.pulse.around_snapshot(|| {
            self.journal.save_snapshot(self.journal.tip(), body)?;
            self.journal.prune()
        });
        match saved {
            Ok(_) => {
                self.since_snapshot = 0;
                self.edges.metrics.snapshot(body.len(), began.elapsed());
            }
            // The journal itself is whole; only the next restart takes longer.
            Err(error) => tracing::warn!(%error, "the snapshot was not saved"),
        }
    }
}

/// Those who are told afterwards want to know that there is a job, and whether it has a log: the
/// rest of it must not stay in memory until the slowest of them has heard of it.
fn take_spec(submitted: &mut Submitted) -> JobSpec {
    let event_log = submitted.spec.event_log.clone();
    std::mem::replace(&mut submitted.spec, JobSpec { event_log, ..JobSpec::default() })
}
