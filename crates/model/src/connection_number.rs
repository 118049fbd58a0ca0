//! The numbers of a pilot's connections: the high part names the process, the low part counts.
//! Not the connection itself, nor who it belongs to.
//!
//! A connection may be found dead after the next one is open. The number tells them apart, so that
//! the end of the old one is not taken for the end of the new one. And a pilot that was started
//! again with the same credentials is another process: whatever the server had placed on the first
//! one is gone, and the number says so.
//!
//! The journal and the protocol wrote it down as `session` before that word was given to
//! interactive jobs; there it keeps the name, as old journals and old pilots have to be understood.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Connections of one process before the count would run into the process's name.
const COUNT_BITS: u32 = 24;

#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ConnectionNumber(pub u64);

impl ConnectionNumber {
    /// The number before a process's first connection. `process` must grow from one process to
    /// the next: the time of its start in seconds does.
    pub fn before_first(process: u64) -> Self {
        Self(process << COUNT_BITS)
    }

    /// Of the connection that the same process opens after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Which process the connection belongs to.
    pub fn process(self) -> u64 {
        self.0 >> COUNT_BITS
    }
}

impl fmt::Display for ConnectionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_process_has_larger_numbers_and_another_name() {
        let first = ConnectionNumber(ConnectionNumber::before_first(1_700_000_000).0 + 5);
        let second = ConnectionNumber::before_first(1_700_000_001).next();
        assert!(second > first);
        assert_ne!(first.process(), second.process());
        assert_eq!(first.process(), ConnectionNumber(first.0 + 100).process());
    }
}
