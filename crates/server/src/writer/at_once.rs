//! A lone request, decided and written on the thread it came in on.
//!
//! Only when nothing waits, nobody else is here, and all that was decided is on disk: then nobody
//! is overtaken, and no write that others could have shared is made alone. Where the writer's own
//! thread is needed after all, it is called.

use super::sync::{AtomicUsize, Mutex, MutexGuard, Ordering};
use super::way::{Asked, Reply, Request};
use crate::clock::Clock;
use crate::panics::guarded;
use shipway_core::State;
use shipway_core::command::Command;
use shipway_shell::{Desk, Journal, Outside};
use std::sync::Arc;

/// Those who are told, if they can be told from any thread.
pub(super) trait Everybody:
    Outside<Reply = Reply, Question = Asked, Publication: Send> + Send + Sync + 'static
{
}

impl<O> Everybody for O where
    O: Outside<Reply = Reply, Question = Asked, Publication: Send> + Send + Sync + 'static
{
}

/// A journal that goes from thread to thread.
pub(super) trait Portable: Journal<History: Send> + Send + 'static {}

impl<J: Journal<History: Send> + Send + 'static> Portable for J {}

/// The desk, and who is on the way to it.
pub(super) struct Shared<J: Portable, O: Everybody> {
    desk: Mutex<Desk<J, O>>,
    /// Requests sent to the writer's thread that are not decided yet.
    pub(super) waiting: AtomicUsize,
    present: Arc<AtomicUsize>,
    pub(super) clock: Clock,
}

/// What everybody else sees of it, whatever the journal.
pub(super) trait AtOnce: Send + Sync + std::fmt::Debug {
    fn come_in(&self) -> Present;
    /// Whether it is worth asking.
    fn is_quiet(&self) -> bool;
    /// Takes the request, decides and writes. Leaves it if others are there.
    fn at_once(&self, request: &mut Option<Request>, present: &Present) -> Then;
    /// Shows the state, if all of it is on disk and nobody is before.
    fn look(&self, question: &mut dyn FnMut(&State));
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

impl<J: Portable, O: Everybody> Shared<J, O> {
    pub(super) fn new(desk: Desk<J, O>, clock: Clock) -> Self {
        // The first that waits is the start itself: until it is decided, the state has pilots as
        // connected that were so before the restart.
        let (waiting, present) = (AtomicUsize::new(1), Arc::new(AtomicUsize::new(0)));
        Shared { desk: Mutex::new(desk), waiting, present, clock }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Desk<J, O>> {
        self.desk.lock().unwrap_or_else(|poisoned| {
            self.desk.clear_poison();
            let mut desk = poisoned.into_inner();
            // Nobody knows how far the holder had come.
            desk.distrust();
            desk
        })
    }

    pub(super) fn handle(&self, desk: &mut Desk<J, O>, request: Request) {
        match request {
            Request::Wish { wish, reply } => desk.wish(self.clock.now(), wish, reply),
            Request::Ask(question) => desk.ask(question),
            Request::Wake => {
                desk.outside().wake_at(None);
                desk.command(self.clock.now(), &Command::Tick, None);
            }
            // The writer's own thread sees to these.
            Request::Attend | Request::Stop => {}
        }
    }
}

impl<J: Portable, O: Everybody> std::fmt::Debug for Shared<J, O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

impl<J: Portable, O: Everybody> AtOnce for Shared<J, O> {
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
            self.handle(&mut desk, request);
            desk.plan(self.clock.now());
            desk.write(self.clock.now());
        });
        if done.is_err() {
            desk.distrust();
        }
        let needed = desk.is_in_trouble() || desk.is_snapshot_due();
        if needed { Then::CallTheWriter } else { Then::Nothing }
    }

    fn look(&self, question: &mut dyn FnMut(&State)) {
        let Ok(desk) = self.desk.try_lock() else { return };
        if self.waiting.load(Ordering::Acquire) == 0 && desk.is_settled() {
            question(desk.state());
        }
    }

    fn expect_one(&self) {
        self.waiting.fetch_add(1, Ordering::Release);
    }

    fn expect_one_less(&self) {
        self.waiting.fetch_sub(1, Ordering::Release);
    }
}
