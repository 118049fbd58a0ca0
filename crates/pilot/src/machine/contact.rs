//! Whether the server is in reach: heartbeats, and the lease that runs out without them.
//!
//! The server counts the lease from when it last heard of us. We count from when we last said
//! something that it answered, which is earlier, and stop a margin before the end: so our tasks
//! are dead before the server may give them to somebody else, whatever the network delayed.

use shipway_model::Millis;
use shipway_model::limits::PILOT_HEARTBEAT;
use std::collections::VecDeque;

/// Heartbeats without an answer after which a connection counts as dead.
pub(super) const MISSED_BEATS: u64 = 3;
/// The part of a lease that is left for killing: a tenth of it.
pub(super) const LEASE_MARGIN_PARTS: u64 = 10;

#[derive(Debug)]
pub(super) struct Contact {
    lease: Option<Millis>,
    /// When we last sent something that was answered.
    proven: Option<Millis>,
    /// When the connection opened or last answered.
    heard: Millis,
    hello_sent: Millis,
    next_ping: Millis,
    last_ping: u64,
    /// Pings without an answer, oldest first; `MISSED_BEATS` bounds them.
    open: VecDeque<(u64, Millis)>,
}

impl Contact {
    pub(super) fn new(lease: Option<Millis>) -> Self {
        Contact {
            lease,
            proven: None,
            heard: Millis(0),
            hello_sent: Millis(0),
            next_ping: Millis(0),
            last_ping: 0,
            open: VecDeque::new(),
        }
    }

    pub(super) fn hello(&mut self, now: Millis) {
        self.heard = now;
        self.hello_sent = now;
        self.open.clear();
        self.last_ping = 0;
    }

    pub(super) fn welcome(&mut self, now: Millis) {
        self.proven = self.proven.max(Some(self.hello_sent));
        self.heard = now;
        self.next_ping = Millis(now.0 + PILOT_HEARTBEAT.0);
    }

    pub(super) fn pong(&mut self, now: Millis, number: u64) {
        while let Some((_, sent)) = self.open.pop_front_if(|(open, _)| *open <= number) {
            self.proven = self.proven.max(Some(sent));
            self.heard = now;
        }
    }

    pub(super) fn is_dead(&self, now: Millis) -> bool {
        now.0 >= self.dead_at().0
    }

    fn dead_at(&self) -> Millis {
        Millis(self.heard.0 + MISSED_BEATS * PILOT_HEARTBEAT.0)
    }

    /// The number of the ping that is due now, if one is.
    pub(super) fn ping(&mut self, now: Millis) -> Option<u64> {
        if now < self.next_ping {
            return None;
        }
        self.last_ping += 1;
        self.open.push_back((self.last_ping, now));
        self.next_ping = Millis(now.0 + PILOT_HEARTBEAT.0);
        Some(self.last_ping)
    }

    pub(super) fn next_beat(&self, welcomed: bool) -> Millis {
        let dead_at = self.dead_at();
        if welcomed { self.next_ping.min(dead_at) } else { dead_at }
    }

    /// When the tasks must be ended. `None`: never, or nothing was ever agreed on.
    pub(super) fn lease_ends(&self) -> Option<Millis> {
        let (lease, proven) = (self.lease?, self.proven?);
        Some(Millis(proven.0 + lease.0 - lease.0 / LEASE_MARGIN_PARTS))
    }
}
