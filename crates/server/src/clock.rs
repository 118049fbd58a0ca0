//! The server's only look at the time: a wall clock read once, a steady one ever after.
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

use shipway_core::clock::SteadyClock;
use shipway_model::{Millis, Timestamp};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[derive(Debug, Clone)]
pub struct Clock {
    steady: SteadyClock,
    started: Instant,
}

impl Clock {
    /// `not_before`: the time of the last recorded event.
    pub fn start(not_before: Timestamp) -> Self {
        let steady = SteadyClock::new(wall(), Millis(0), not_before);
        Clock { steady, started: Instant::now() }
    }

    pub fn now(&self) -> Timestamp {
        self.steady.now(millis(self.started.elapsed()))
    }

    /// How long until a point in time; zero when it has passed.
    pub fn until(&self, at: Timestamp) -> Duration {
        Duration::from_millis(at.since(self.now()).0)
    }
}

pub fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(millis(since).0)
}

fn millis(span: Duration) -> Millis {
    Millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}
