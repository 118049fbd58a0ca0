//! From disk to state: the newest snapshot, then every event since.

use crate::journal::{EventSeq, EventsPage, HistoryReader, Journal, JournalError, MAX_EVENTS_PAGE};
use shipway_core::State;
use shipway_core::event::{Recorded, Unreadable};
use shipway_core::evolve::evolve;
use shipway_core::snapshot::{self, BadSnapshot};
use std::ops::ControlFlow;

#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error("the journal cannot be read")]
    Journal(#[from] JournalError),
    #[error("the snapshot at event {seq} cannot be understood")]
    Snapshot {
        seq: EventSeq,
        #[source]
        source: BadSnapshot,
    },
    #[error("event {seq} cannot be read")]
    Event {
        seq: EventSeq,
        #[source]
        source: Unreadable,
    },
    #[error("events after {seq} are not kept any more")]
    Pruned { seq: EventSeq },
}

/// The state, and how many events were read to get there.
pub fn restore(journal: &mut dyn Journal) -> Result<(State, u64), RestoreError> {
    let kept = journal.load_snapshot()?;
    let after = kept.as_ref().map_or(EventSeq(0), |kept| kept.seq);
    let mut state = match kept {
        None => State::default(),
        Some(kept) => snapshot::read(&kept.body)
            .map_err(|source| RestoreError::Snapshot { seq: kept.seq, source })?,
    };
    let mut failed = None;
    let mut read = 0;
    journal.replay(after, &mut |found| match decode(found.seq, found.body) {
        Ok(recorded) => {
            evolve(&mut state, recorded.at, &recorded.event);
            read += 1;
            ControlFlow::Continue(())
        }
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    })?;
    failed.map_or(Ok((state, read)), Err)
}

/// The same from a connection that only reads, while the journal is being written: what it shows is
/// on disk.
pub(super) fn from_history(history: &HistoryReader) -> Result<State, RestoreError> {
    let kept = history.snapshot()?;
    let mut seen = kept.as_ref().map_or(EventSeq(0), |kept| kept.seq);
    let mut state = match kept {
        None => State::default(),
        Some(kept) => snapshot::read(&kept.body)
            .map_err(|source| RestoreError::Snapshot { seq: kept.seq, source })?,
    };
    loop {
        let EventsPage::Events(events) = history.events_after(seen, MAX_EVENTS_PAGE)? else {
            return Err(RestoreError::Pruned { seq: seen });
        };
        if events.is_empty() {
            return Ok(state);
        }
        for (seq, body) in events {
            let recorded = decode(seq, &body)?;
            evolve(&mut state, recorded.at, &recorded.event);
            seen = seq;
        }
    }
}

fn decode(seq: EventSeq, body: &[u8]) -> Result<Recorded, RestoreError> {
    Recorded::read(body).map_err(|source| RestoreError::Event { seq, source })
}
