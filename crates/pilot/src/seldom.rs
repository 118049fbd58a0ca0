//! Lines of the pilot's log that anybody's tasks can bring about: a few a second, and short. What
//! is left out is in the outcome of each task.

use shipway_model::plain_text::steers;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// In one second.
const MOST: u64 = 5;
/// Letters of what a user may have written.
const LETTERS: usize = 200;

/// One kind of lines.
#[derive(Debug, Default)]
pub(crate) struct Seldom(AtomicU64);

impl Seldom {
    pub(crate) const fn new() -> Self {
        Seldom(AtomicU64::new(0))
    }

    /// Whether another may be written now.
    pub(crate) fn may(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.may_at(now)
    }

    /// The second stands above the count.
    fn may_at(&self, second: u64) -> bool {
        const COUNT: u64 = 0xff;
        let next = |before: u64| {
            let is_same = before >> 8 == second & (u64::MAX >> 8);
            let count = if is_same { (before & COUNT) + 1 } else { 1 };
            (count <= MOST).then_some(second << 8 | count)
        };
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }
}

/// Cut, and without what steers a terminal or turns the writing round.
pub(crate) fn in_short(text: &str) -> String {
    text.chars().filter(|c| !steers(*c)).take(LETTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_a_few_in_each_second() {
        let lines = Seldom::new();
        let in_second = |second| (0..20).filter(|_| lines.may_at(second)).count();
        assert_eq!([in_second(7), in_second(7), in_second(8), in_second(7)], [5, 0, 5, 5]);
    }

    #[test]
    fn names_of_users_are_cut_and_steer_nothing() {
        assert_eq!(in_short("a\u{202e}b\u{1b}[1m\n"), "ab[1m");
        assert_eq!(in_short(&"x".repeat(5_000)).len(), LETTERS);
    }
}
