//! Puts the server's numbered messages in order: each is taken once, none before its turn.

use shipway_api::wire::ToPilot;
use std::collections::BTreeMap;

/// Messages that may wait for one before them. The transport keeps order, so even a few are rare;
/// more than this means that one is gone for good.
pub(super) const MAX_AHEAD: usize = 1_024;

#[derive(Debug)]
pub(super) struct Inbox {
    next: u64,
    ahead: BTreeMap<u64, ToPilot>,
}

/// Too many messages wait for one that does not come.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Overflow;

impl Inbox {
    pub(super) fn new() -> Self {
        Inbox { next: 1, ahead: BTreeMap::new() }
    }

    pub(super) fn put(&mut self, message: ToPilot) -> Result<(), Overflow> {
        let is_repeat = message.number < self.next || self.ahead.contains_key(&message.number);
        if is_repeat {
            return Ok(());
        }
        if message.number != self.next && self.ahead.len() >= MAX_AHEAD {
            return Err(Overflow);
        }
        self.ahead.insert(message.number, message);
        Ok(())
    }

    /// The next message in turn, if it is here.
    pub(super) fn take(&mut self) -> Option<ToPilot> {
        let message = self.ahead.remove(&self.next)?;
        self.next += 1;
        Some(message)
    }
}
