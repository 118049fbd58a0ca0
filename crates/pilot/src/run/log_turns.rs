//! Whose piece of output is read next: people take turns, however many requests each of them has.
//!
//! Decided by `turns.rs`, as for files and images; here those who wait are tasks, not threads. What
//! is read, and where it goes, is not known here.

use crate::turns::{AtOnce, Turns};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Pieces that are read or wait for the connection. One on its way and one behind it keep a
/// connection busy.
const AT_ONCE: AtOnce = AtOnce { all: 4, each: 2 };

#[derive(Debug, Clone)]
pub(super) struct LogTurns(Arc<Mutex<Turns<oneshot::Sender<Turn>>>>);

/// One person's turn, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    turns: LogTurns,
    /// None: it was taken back, and its end is nobody's business.
    reader: Option<String>,
}

impl Default for LogTurns {
    fn default() -> Self {
        LogTurns(Arc::new(Mutex::new(Turns::new(AT_ONCE))))
    }
}

impl LogTurns {
    /// Comes when it is this person's turn. `None`: never, because the pilot ends.
    pub(super) async fn of(&self, reader: &str) -> Option<Turn> {
        let (give, given) = oneshot::channel();
        self.turns().add(reader, give);
        self.give();
        given.await.ok()
    }

    /// Gives all turns that may begin.
    fn give(&self) {
        loop {
            let next = self.turns().next();
            let Some((reader, to)) = next else { return };
            let turn = Turn { turns: self.clone(), reader: Some(reader) };
            // Whoever has gone meanwhile has had it: the loop goes on to the next.
            if let Err(mut unused) = to.send(turn)
                && let Some(reader) = unused.reader.take()
            {
                self.turns().done(&reader);
            }
        }
    }

    fn turns(&self) -> MutexGuard<'_, Turns<oneshot::Sender<Turn>>> {
        // It is consistent between any two statements.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(reader) = self.reader.take() else { return };
        self.turns.turns().done(&reader);
        self.turns.give();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[tokio::test]
    async fn whoever_waits_for_much_keeps_nobody_waiting() {
        let turns = LogTurns::default();
        let mut eve: Vec<_> = (0..1_000).map(|_| Box::pin(turns.of("eve"))).collect();
        let mut given: Vec<_> =
            eve.iter_mut().filter_map(|waiting| waiting.now_or_never().flatten()).collect();
        assert_eq!(given.len(), AT_ONCE.each);
        let ada = turns.of("ada").now_or_never().flatten();
        assert!(ada.is_some(), "it is her turn at once");
        // Those who go without their turn hold up nobody.
        let last = eve.pop();
        drop(eve);
        given.clear();
        assert!(last.is_some_and(|mut last| last.as_mut().now_or_never().flatten().is_some()));
    }
}
