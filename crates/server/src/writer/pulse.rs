//! Whether the disk answers: since when it has been asked for something, told without waiting for
//! it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A commit takes milliseconds; after this long the disk does not answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// A snapshot is written as a whole, which may be hundreds of megabytes.
const PATIENCE_WITH_SNAPSHOTS: Duration = Duration::from_secs(20);

/// What the keeper of the journal notes for those who wait.
#[derive(Debug)]
pub(super) struct Pulse {
    began: Instant,
    /// When the disk was last asked, in milliseconds since the beginning; 0: it has answered.
    since: AtomicU64,
    /// When patience with it ends.
    until: AtomicU64,
    /// Answers so far.
    answers: AtomicU64,
}

impl Default for Pulse {
    fn default() -> Self {
        Pulse {
            began: Instant::now(),
            since: AtomicU64::new(0),
            until: AtomicU64::new(u64::MAX),
            answers: AtomicU64::new(0),
        }
    }
}

impl Pulse {
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX).max(1)
    }

    /// Around a commit.
    pub(super) fn around_commit<A>(&self, act: impl FnOnce() -> A) -> A {
        self.around(PATIENCE, act)
    }

    pub(super) fn around_snapshot<A>(&self, act: impl FnOnce() -> A) -> A {
        self.around(PATIENCE_WITH_SNAPSHOTS, act)
    }

    fn around<A>(&self, patience: Duration, act: impl FnOnce() -> A) -> A {
        let now = self.now();
        let patience = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        self.until.store(now.saturating_add(patience), Ordering::Release);
        self.since.store(now, Ordering::Release);
        let answer = act();
        self.since.store(0, Ordering::Release);
        self.answers.fetch_add(1, Ordering::AcqRel);
        answer
    }

    /// How long the disk has not answered, once that is too long.
    pub(super) fn silent_for(&self) -> Option<Duration> {
        let since = self.since.load(Ordering::Acquire);
        let now = self.now();
        let too_long = since > 0 && now >= self.until.load(Ordering::Acquire);
        too_long.then(|| Duration::from_millis(now - since))
    }

    /// Comes when the disk has not answered for too long.
    pub(super) async fn silence(&self) {
        while self.silent_for().is_none() {
            tokio::time::sleep(PATIENCE / 2).await;
        }
    }

    /// Counts the answers: what was on disk before one may not be all that is after it.
    pub(super) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Acquire)
    }
}
