//! How many steps the expressions of one shape have taken, and how many they may take for the next
//! class of nodes. What a step is, is the business of ClassAds.

use super::MAX_MATCH_STEPS;
use std::sync::atomic::{AtomicU64, Ordering};

/// What asking each class may take in any case; what people write takes a few hundred.
const OF_EACH_CLASS: u64 = 2_000;
/// What all classes together may take beyond that: a hundredth of a second. So neither the job's
/// own expressions nor what a pilot says of its node keeps others waiting, or other nodes out.
const BEYOND: u64 = 500_000;
/// What asking one node may take, where nodes are told apart.
pub(super) const OF_A_NODE: u64 = 4 * MAX_MATCH_STEPS;

#[derive(Debug)]
pub(super) struct Steps {
    taken: AtomicU64,
    beyond: AtomicU64,
}

impl Steps {
    pub(super) fn new(taken: u64) -> Steps {
        Steps { taken: AtomicU64::new(taken), beyond: AtomicU64::new(BEYOND) }
    }

    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, steps: u64) {
        self.taken.fetch_add(steps, Ordering::Relaxed);
    }

    /// Asks a class with as many steps as are left for it; `ask` says what was found, and in how
    /// many steps.
    pub(super) fn for_class<T>(&self, ask: impl FnOnce(u64) -> (T, u64)) -> T {
        let left = self.beyond.load(Ordering::Relaxed);
        let (found, steps) = ask(OF_EACH_CLASS + left.min(MAX_MATCH_STEPS));
        let left = left.saturating_sub(steps.saturating_sub(OF_EACH_CLASS));
        self.beyond.store(left, Ordering::Relaxed);
        self.add(steps);
        found
    }
}
