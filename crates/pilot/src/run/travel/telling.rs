//! How far files have come, in a line now and then, as for images: a task that waits for gigabytes
//! should not look as if it hung.

use super::Journey;
use shipway_model::Bytes;
use std::time::{Duration, Instant};

/// Between two lines: a log is kept, so it should not fill with them.
const SAY_EVERY: Duration = Duration::from_secs(10);
/// What comes in less than this is not worth a line.
const WORTH_A_LINE: u64 = 16 << 20;

pub(super) struct Telling<'a> {
    of: &'a Journey<'a>,
    all: Option<u64>,
    came: u64,
    said: Instant,
}

impl<'a> Telling<'a> {
    pub(super) fn new(of: &'a Journey<'a>, all: Option<u64>) -> Self {
        Telling { of, all, came: 0, said: Instant::now() }
    }

    /// Something is fetched, of which this much is known to come.
    pub(super) fn begins(&self, files: usize) {
        if let Some(all) = self.all.filter(|all| *all >= WORTH_A_LINE) {
            (self.of.say)(format!(
                "fetching files: {files} of those that came with it, {} in all",
                Bytes(all)
            ));
        }
    }

    pub(super) fn came(&mut self, bytes: u64) {
        self.of.has_moved();
        if let Some(line) = self.line(bytes, Instant::now()) {
            (self.of.say)(line);
        }
    }

    fn line(&mut self, bytes: u64, now: Instant) -> Option<String> {
        self.came += bytes;
        if now.saturating_duration_since(self.said) < SAY_EVERY {
            return None;
        }
        self.said = now;
        let of = self.all.map(|all| format!(" of {}", Bytes(all))).unwrap_or_default();
        Some(format!("{}{of} of its files have come", Bytes(self.came)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::copying::Stop;
    use shipway_model::{Attempt, JobId, TaskIndex};
    use std::sync::atomic::AtomicU64;

    #[test]
    fn a_line_comes_now_and_then() {
        let (stop, moved) = (Stop::default(), AtomicU64::default());
        let attempt = JobId(1).task(TaskIndex(0)).attempt(Attempt::FIRST);
        let of = Journey { attempt, person: "ada", stop: &stop, say: &|_| {}, moved: &moved };
        let mut telling = Telling::new(&of, Some(5_000_000_000));
        let start = telling.said;
        assert_eq!(telling.line(1_000_000_000, start + SAY_EVERY / 2), None);
        let line = telling.line(1_000_000_000, start + SAY_EVERY);
        assert_eq!(line.as_deref(), Some("2GB of 5GB of its files have come"));
        assert_eq!(telling.line(1, start + SAY_EVERY), None);
    }
}
