//! How often a pilot may describe its node, anew or in a greeting. Each description is written down
//! and changes what tasks may go there, while everybody waits: an honest pilot has a handful of
//! them a day. Counted by pilot and not by connection: whoever greets again describes it again.

use crate::locks::Locked;
use shipway_model::PilotId;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Between two of them, in the long run.
const EVERY: Duration = Duration::from_secs(1);
/// That may come at once, as when devices fail one after the other.
const AT_ONCE: u32 = 8;
/// Pilots that are remembered before those are looked for that need not be.
const FORGET_FROM: usize = 64;

/// For each pilot that described its node lately, when the next description would come if they came
/// evenly.
#[derive(Debug, Default)]
pub(super) struct Paces {
    next: Mutex<HashMap<PilotId, Instant>>,
    is_off: AtomicBool,
}

impl Paces {
    /// For whoever measures what one of them costs: nobody waits.
    pub(super) fn turn_off(&self) {
        self.is_off.store(true, Ordering::Relaxed);
    }

    /// One has come: for how long nothing more is heard of the pilot.
    pub(super) fn wait(&self, pilot: &PilotId, now: Instant) -> Duration {
        if self.is_off.load(Ordering::Relaxed) {
            return Duration::ZERO;
        }
        let mut paces = self.next.locked();
        if paces.len() >= FORGET_FROM && paces.len() == paces.capacity() {
            paces.retain(|_, next| *next > now);
        }
        let next = paces.get(pilot).map_or(now, |next| (*next).max(now)) + EVERY;
        paces.insert(pilot.clone(), next);
        next.saturating_duration_since(now + EVERY * AT_ONCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pilot(name: &str) -> PilotId {
        PilotId::new(name).expect("a name")
    }

    #[test]
    fn a_few_come_at_once_and_a_flood_waits() {
        let (paces, begin) = (Paces::default(), Instant::now());
        let wait = |now| paces.wait(&pilot("p"), now);
        let at_once: Vec<Duration> = (0..AT_ONCE).map(|_| wait(begin)).collect();
        assert!(at_once.iter().all(Duration::is_zero), "{at_once:?}");
        assert_eq!(wait(begin), EVERY);
        assert_eq!(paces.wait(&pilot("q"), begin), Duration::ZERO, "another waits for nobody");
        assert_eq!(wait(begin + EVERY), EVERY, "as long each time");
        assert_eq!(wait(begin + 60 * EVERY), Duration::ZERO, "a minute later");
    }

    #[test]
    fn pilots_that_said_nothing_for_long_are_forgotten() {
        let (paces, begin) = (Paces::default(), Instant::now());
        for nth in 0..10_000 {
            paces.wait(&pilot(&format!("p{nth}")), begin + 2 * EVERY * nth);
        }
        let kept = paces.next.locked().len();
        assert!(kept < 4 * FORGET_FROM, "{kept}");
    }
}
