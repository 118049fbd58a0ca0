//! What a desk is made with: how much it keeps, and the core it asks.

use shipway_core::command::Command;
use shipway_core::event::Recorded;
use shipway_core::{Decided, Effect, Event, Rejection, State};
use shipway_model::Timestamp;
use shipway_model::limits::MAX_TASKS;

/// How much is kept in memory, and how often it is put in order.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Ended jobs that stay in memory, so that a client that asks right after the end is answered
    /// fast; and tasks of those jobs together.
    pub keep_ended: usize,
    pub keep_ended_tasks: u64,
    /// Ended jobs leave memory this many at a time: one event, not one each.
    pub archive_step: usize,
    pub archive_step_tasks: u64,
    /// Events between snapshots: a restart replays at most this many.
    pub snapshot_every: u64,
    /// A large state waits longer, for this part of its size.
    pub snapshot_jobs_per_event: u64,
    /// Events of one commit: more adds waiting without saving syncs.
    pub full_events: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            keep_ended: 1_000,
            // Three bits each: two of the largest arrays.
            keep_ended_tasks: 2 * MAX_TASKS,
            archive_step: 500,
            archive_step_tasks: MAX_TASKS,
            // A fraction of a second's worth.
            snapshot_every: 10_000,
            // A snapshot of so many jobs costs about as much as replaying that many events.
            snapshot_jobs_per_event: 4,
            full_events: 20_000,
        }
    }
}

/// Who is handed each event, with the state right after it.
type Each<'a> = &'a mut dyn FnMut(&State, Recorded);

/// What the core does for one command: decide, which changes nothing, and then make it true.
#[derive(Debug, Clone, Copy)]
pub struct Core {
    pub decide: fn(&State, Timestamp, &Command) -> Result<Decided, Rejection>,
    pub apply: fn(&mut State, Timestamp, Vec<Event>, Each<'_>) -> Vec<Effect>,
}

impl Default for Core {
    fn default() -> Self {
        Core { decide: shipway_core::decide::decide, apply: shipway_core::engine::apply }
    }
}
