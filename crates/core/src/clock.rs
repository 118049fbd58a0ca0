//! A clock that only moves forward, from readings of two that may not.
//!
//! The wall clock says what time it is but jumps when it is set; the steady one counts truly but
//! from an arbitrary start. Leases and back-offs must not end early because somebody set the
//! clock, so the core's time starts at the wall's reading and then follows the steady one. The
//! readings are taken at the edge and handed in.

use shipway_model::{Millis, Timestamp};

#[derive(Debug, Clone)]
pub struct SteadyClock {
    started_wall: Timestamp,
    started_steady: Millis,
}

impl SteadyClock {
    /// `not_before`: the time of the last recorded event, so that a restart under a clock that
    /// was set back does not go back in time.
    pub fn new(wall: Timestamp, steady: Millis, not_before: Timestamp) -> Self {
        SteadyClock { started_wall: wall.max(not_before), started_steady: steady }
    }

    pub fn now(&self, steady: Millis) -> Timestamp {
        self.started_wall.plus(Millis(steady.0.saturating_sub(self.started_steady.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_runs_backwards() {
        let clock = SteadyClock::new(Timestamp(1_000), Millis(50), Timestamp(5_000));
        assert_eq!(clock.now(Millis(50)), Timestamp(5_000));
        assert_eq!(clock.now(Millis(60)), Timestamp(5_010));
        assert_eq!(clock.now(Millis(0)), Timestamp(5_000));
    }
}
