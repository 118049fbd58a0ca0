//! A lone request, decided and written on the thread it came in on.
//!
//! Only when nothing waits, nobody else is here, and all that was decided is on disk: then nobody
//! is overtaken, and no write that others could have shared is made alone. Where the writer's own
//! thread is needed after all, it is called.

use super::Request;
use super::desk::Desk;
use crate::journal::Journal;
use crate::panics::guarded;
use shipway_core::State;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The desk, and who is on the way to it.
pub(super) struct Shared<J> {
    pub(super) desk: Mutex<Desk<J>>,
    /// Requests sent to the writer's thread that are not decided yet.
    pub(super) waiting: AtomicUsize,
    present: Arc<AtomicUsize>,
}

/// What everybody else sees of it, whatever the journal.
pub(super) trait AtOnce: Send + Sync + std::fmt::Debug {
    fn come_in(&self) -> Present;
    /// Whether it is worth asking.
    fn is_quiet(&self) -> bool;
    /// Takes the request, decides and writes. Leaves it if others are there.
    fn at_once(&self, request: &mut Option<Request>, present: &Present) -> Then;
    /// Shows the state, if all of it is on disk and nobody is before. False: not now.
    fn look(&self, question: &mut dyn FnMut(&State)) -> bool;
    fn expect_one(&self);
    fn expect_one_less(&self);
}

/// Somebody with a wish that is not answered yet.
#[derive(Debug)]
pub(super) struct Present(Arc<AtomicUsize>);

impl Present {
    fn is_alone(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 1
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What is to be done afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    Nothing,
    /// A write failed, or a snapshot is due.
    CallTheWriter,
}

impl<J> Shared<J> {
    pub(super) fn new(desk: Desk<J>) -> Self {
        Shared { desk: Mutex::new(desk), waiting: AtomicUsize::new(0), present: Arc::default() }
    }
}

impl<J> std::fmt::Debug for Shared<J> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

impl<J: Journal + Send> AtOnce for Shared<J> {
    fn come_in(&self) -> Present {
        self.present.fetch_add(1, Ordering::Relaxed);
        Present(Arc::clone(&self.present))
    }

    fn is_quiet(&self) -> bool {
        self.waiting.load(Ordering::Acquire) == 0 && self.present.load(Ordering::Relaxed) == 1
    }

    fn at_once(&self, request: &mut Option<Request>, present: &Present) -> Then {
        let Ok(mut desk) = self.desk.try_lock() else { return Then::Nothing };
        let nobody_waits = self.waiting.load(Ordering::Acquire) == 0;
        if !present.is_alone() || !nobody_waits || !desk.is_settled() {
            return Then::Nothing;
        }
        let Some(request) = request.take() else { return Then::Nothing };
        let done = guarded(|| {
            desk.handle(request);
            desk.plan();
            desk.failed = desk.write().err();
        });
        desk.is_broken |= done.is_err();
        let needed = desk.failed.is_some() || desk.is_broken || desk.is_snapshot_due();
        if needed { Then::CallTheWriter } else { Then::Nothing }
    }

    fn look(&self, question: &mut dyn FnMut(&State)) -> bool {
        let Ok(desk) = self.desk.try_lock() else { return false };
        let settled = self.waiting.load(Ordering::Acquire) == 0 && desk.is_settled();
        if settled {
            question(&desk.state);
        }
        settled
    }

    fn expect_one(&self) {
        self.waiting.fetch_add(1, Ordering::Release);
    }

    fn expect_one_less(&self) {
        self.waiting.fetch_sub(1, Ordering::Release);
    }
}
