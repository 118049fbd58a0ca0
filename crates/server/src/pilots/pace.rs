//! How often a pilot may describe its node anew. Each description is written down and changes what
//! tasks may go there, while everybody waits: an honest pilot has a handful of them a day.

use std::time::Duration;
use tokio::time::Instant;

/// Between two of them, in the long run.
const EVERY: Duration = Duration::from_secs(1);
/// That may come at once, as when devices fail one after the other.
const AT_ONCE: u32 = 8;

#[derive(Debug, Default)]
pub(super) struct Pace {
    /// When the next one would come if they came evenly.
    next: Option<Instant>,
}

impl Pace {
    /// One has come: for how long nothing more is heard of the pilot.
    pub(super) fn wait(&mut self, now: Instant) -> Duration {
        let next = self.next.map_or(now, |next| next.max(now)) + EVERY;
        self.next = Some(next);
        next.saturating_duration_since(now + EVERY * AT_ONCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_come_at_once_and_a_flood_waits() {
        let (mut pace, begin) = (Pace::default(), Instant::now());
        let at_once: Vec<Duration> = (0..AT_ONCE).map(|_| pace.wait(begin)).collect();
        assert!(at_once.iter().all(Duration::is_zero), "{at_once:?}");
        assert_eq!(pace.wait(begin), EVERY);
        assert_eq!(pace.wait(begin + EVERY), EVERY, "as long each time");
        assert_eq!(pace.wait(begin + 60 * EVERY), Duration::ZERO, "a minute later");
    }
}
