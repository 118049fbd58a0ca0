//! From disk to state: the newest snapshot, then every event since.

use crate::{EventSeq, Journal, Snapshot};
use shipway_core::State;
use shipway_core::event::{Recorded, Unreadable};
use shipway_core::evolve::evolve;
use shipway_core::snapshot::{self, BadSnapshot};
use std::error::Error;
use std::ops::ControlFlow;

#[derive(Debug, thiserror::Error)]
pub enum RestoreError<E: Error + 'static> {
    #[error("the journal cannot be read")]
    Journal(#[from] E),
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
pub fn restore<J: Journal>(journal: &mut J) -> Result<(State, u64), RestoreError<J::Error>> {
    let (mut state, after) = read_snapshot(journal.load_snapshot()?)?;
    let mut failed = None;
    let mut read = 0;
    journal.replay(after, &mut |found| match read_event(found.seq, found.body) {
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

/// The state that is in it, and the event it is after.
pub fn read_snapshot<E: Error + 'static>(
    kept: Option<Snapshot>,
) -> Result<(State, EventSeq), RestoreError<E>> {
    let Some(Snapshot { seq, body }) = kept else { return Ok((State::default(), EventSeq(0))) };
    let state = snapshot::read(&body);
    Ok((state.map_err(|source| RestoreError::Snapshot { seq, source })?, seq))
}

pub fn read_event<E: Error + 'static>(
    seq: EventSeq,
    body: &[u8],
) -> Result<Recorded, RestoreError<E>> {
    Recorded::read(body).map_err(|source| RestoreError::Event { seq, source })
}
