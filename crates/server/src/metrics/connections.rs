//! Open connections by what they have shown to be, and why some had to go.

use super::read;
use super::text::{Kind, Text};
use crate::locks::Locked;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a connection has shown to be, in the order in which they are counted.
const WHO: [&str; 4] = ["stranger", "user", "operator", "pilot"];
const LEFT: [&str; 3] = ["no_token", "made_way", "took_nothing"];

/// Why a connection was closed from this side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// It did not show a token in time.
    NoToken,
    /// Its place was needed for somebody else.
    MadeWay,
    /// It did not take a large answer that it had asked for.
    TookNothing,
}

#[derive(Debug, Default)]
pub struct Connections {
    open: [AtomicU64; WHO.len()],
    limit: AtomicU64,
    left: [AtomicU64; LEFT.len()],
    trouble: Mutex<Option<Trouble>>,
}

/// Why connections are not taken as they should be.
#[derive(Debug)]
struct Trouble {
    last: Instant,
    what: String,
}

/// So long without trouble means that it is over.
const OVER_AFTER: Duration = Duration::from_secs(10);
/// What helps, whichever of them has run out.
const CURE: &str = "tasks of the server's user, or something else of it, have used up what the \
    kernel gives to one user; cancel them, or raise fs.epoll.max_user_watches and `ulimit -n`";

impl Connections {
    pub fn may_be_open(&self, limit: usize) {
        self.limit.store(limit as u64, Ordering::Relaxed);
    }

    pub fn open(&self, counts: &[usize; WHO.len()]) {
        for (open, count) in self.open.iter().zip(counts) {
            open.store(*count as u64, Ordering::Relaxed);
        }
    }

    /// Counts one that was closed. That places run out is worth a word the first time.
    pub fn left(&self, why: Left) {
        let count = self.left.get(why as usize);
        let before = count.map(|count| count.fetch_add(1, Ordering::Relaxed));
        if why == Left::MadeWay && before == Some(0) {
            tracing::warn!("places for connections ran out; those who are idle make way");
        }
    }

    /// Notes that the kernel refuses something. Worth a word when it begins.
    pub fn trouble(&self, what: &str) {
        let trouble = Trouble { last: Instant::now(), what: what.to_owned() };
        let before = self.trouble.locked().replace(trouble);
        if before.is_none_or(|before| before.last.elapsed() >= OVER_AFTER) {
            tracing::warn!("{what}; {CURE}");
        }
    }

    /// What the kernel refuses, if it did so just now.
    pub fn problem(&self) -> Option<String> {
        let trouble = self.trouble.locked();
        let now = trouble.as_ref().filter(|trouble| trouble.last.elapsed() < OVER_AFTER)?;
        Some(format!("{}; {CURE}", now.what))
    }

    #[cfg(test)]
    pub fn gone(&self, why: Left) -> u64 {
        read(&self.left[why as usize])
    }

    #[cfg(test)]
    pub fn open_now(&self) -> [u64; WHO.len()] {
        std::array::from_fn(|at| read(&self.open[at]))
    }

    pub(super) fn write(&self, text: &mut Text) {
        let help = "Open connections, by what they have shown to be.";
        text.family("shipway_http_connections", Kind::Gauge, help);
        for (who, open) in WHO.iter().zip(&self.open) {
            text.sample(&[("who", who)], read(open));
        }
        let help = "Connections that may be open.";
        text.single("shipway_http_connections_limit", Kind::Gauge, help, read(&self.limit));
        let help = "Connections that the server closed, by why.";
        text.family("shipway_http_connections_closed_total", Kind::Counter, help);
        for (why, count) in LEFT.iter().zip(&self.left) {
            text.sample(&[("why", why)], read(count));
        }
    }
}
