//! How far the fetch of an image is, in a line now and then: a task that waits for gigabytes should
//! not look as if it hung.

use super::{ImageOrder, News, Tell};
use shipway_images::progress::{Phase, Progress};
use shipway_model::Bytes;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Between two lines: a log is kept, so it should not fill with them.
const SAY_EVERY: Duration = Duration::from_secs(10);

pub(super) struct Telling<'a> {
    order: &'a ImageOrder,
    tell: &'a Tell,
    far: Mutex<Far>,
    trouble: OnceLock<()>,
}

struct Far {
    came: u64,
    of: Option<u64>,
    said: Instant,
}

impl<'a> Telling<'a> {
    pub(super) fn new(order: &'a ImageOrder, tell: &'a Tell) -> Self {
        let far = Far { came: 0, of: None, said: Instant::now() };
        let telling = Telling { order, tell, far: Mutex::new(far), trouble: OnceLock::new() };
        telling.say(format!("fetching {}", order.asked.image));
        telling
    }

    /// The first trouble; what comes of it is told at the end.
    pub(super) fn once(&self, line: &str) {
        if self.trouble.set(()).is_ok() {
            self.say(line.to_owned());
        }
    }

    fn say(&self, line: String) {
        (self.tell)(News::Coming { order: self.order.clone(), line });
    }
}

impl Far {
    /// What has come, when it is time to say so again.
    fn line(&mut self, count: u64, now: Instant) -> Option<String> {
        self.came += count;
        if now.saturating_duration_since(self.said) < SAY_EVERY {
            return None;
        }
        self.said = now;
        let of = self.of.map(|bytes| format!(" of {}", Bytes(bytes))).unwrap_or_default();
        Some(format!("{}{of} of the image have come", Bytes(self.came)))
    }
}

impl Progress for Telling<'_> {
    fn phase(&self, phase: Phase) {
        match phase {
            Phase::Waiting => self.say("another process fetches the image already".into()),
            Phase::Fetching { bytes, .. } => {
                self.far.lock().unwrap_or_else(PoisonError::into_inner).of = bytes;
            }
            Phase::Resolving | Phase::Building | Phase::Publishing => {}
        }
    }

    fn bytes(&self, _: usize, count: u64) {
        let mut far = self.far.lock().unwrap_or_else(PoisonError::into_inner);
        let line = far.line(count, Instant::now());
        drop(far);
        if let Some(line) = line {
            self.say(line);
        }
    }

    fn layer_done(&self, _: usize) {}

    fn is_wanted(&self) -> bool {
        self.order.wanted.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_now_and_then() {
        let start = Instant::now();
        let mut far = Far { came: 0, of: Some(5_000_000_000), said: start };
        assert_eq!(far.line(1_000_000_000, start + SAY_EVERY / 2), None);
        let line = far.line(1_000_000_000, start + SAY_EVERY);
        assert_eq!(line.as_deref(), Some("2GB of 5GB of the image have come"));
        assert_eq!(far.line(1, start + SAY_EVERY), None);
        far.of = None;
        let line = far.line(0, start + 2 * SAY_EVERY);
        assert_eq!(line.as_deref(), Some("2GB of the image have come"));
    }
}
