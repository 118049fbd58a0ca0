//! The writer's thread: wait, drain, decide, plan, have it written. And what it does when the disk
//! does not take a batch: it takes back what it decided, says so, and tries until it can go on; or
//! ends, where another server has taken over the journal.
//!
//! A short write it does itself: handing it over would only cost time. Where writes take long and
//! several have wishes, a second thread writes, and the next batch is decided meanwhile.

use super::Vital;
use super::at_once::{Everybody, Portable, Shared};
use super::queue::Receiver;
use super::sync::{Ordering, mpsc, thread};
use super::way::{Request, Way};
use crate::panics::guarded;
use shipway_core::command::Command;
use shipway_model::Millis;
use shipway_shell::{Batch, Desk, Keeper, WriteError, WriteResult};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a journal that cannot be written is tried again.
const RETRY_AFTER: Millis = Millis(1_000);

pub(super) struct Loop<J: Portable, O: Everybody> {
    pub(super) shared: Arc<Shared<J, O>>,
    pub(super) queue: Receiver<Request>,
    /// A batch takes no more requests after this long.
    pub(super) longest_batch: Duration,
    pub(super) hands: Hands<J, O>,
    /// Told to stop, or of no use any more.
    pub(super) stopped: bool,
}

/// The second thread: it writes a batch while the next one is decided.
pub(super) struct Hands<J, O: Everybody> {
    errands: mpsc::Sender<(Keeper<J, O>, Batch<O>)>,
    done: mpsc::Receiver<(Keeper<J, O>, WriteResult<O>)>,
}

impl<J: Portable, O: Everybody> Hands<J, O> {
    pub(super) fn start(way: Way) -> std::io::Result<Self> {
        let (errands, to_do) = mpsc::channel::<(Keeper<J, O>, Batch<O>)>();
        let (finished, done) = mpsc::channel();
        thread::Builder::new().name("journal".into()).spawn(move || {
            let _vital = Vital("the journal's thread");
            for (mut keeper, batch) in to_do {
                let written = keeper.write(batch);
                if finished.send((keeper, written)).is_err() {
                    return;
                }
                // With a full queue the writer is awake, and looks by itself.
                let _ = way.try_send(Request::Attend);
            }
        })?;
        Ok(Hands { errands, done })
    }
}

impl<J: Portable, O: Everybody> Loop<J, O> {
    pub(super) fn run(&mut self) {
        let shared = Arc::clone(&self.shared);
        let mut desk = shared.lock();
        desk.command(shared.clock.now(), &Command::ServerStarted, None);
        desk.plan(shared.clock.now());
        self.settle(&mut desk);
        shared.waiting.fetch_sub(1, Ordering::Release);
        drop(desk);
        while !self.stopped
            && let Some(first) = self.queue.blocking_recv()
        {
            self.stopped |= matches!(first, Request::Stop);
            let mut desk = shared.lock();
            if desk.is_in_trouble() {
                self.settle(&mut desk);
            }
            if desk.is_in_trouble() {
                return;
            }
            let turn = guarded(|| {
                self.decide(&mut desk, first);
                self.write_all(&mut desk);
            });
            if turn.is_err() {
                desk.distrust();
                if desk.is_journal_away() {
                    self.await_journal(&mut desk);
                }
            }
            self.settle(&mut desk);
            if self.stopped {
                desk.save_snapshot();
                // From now on nobody is there to see to a write that fails.
                return desk.distrust();
            }
        }
    }

    /// Decides what waits, as far as one batch goes.
    fn decide(&mut self, desk: &mut Desk<J, O>, first: Request) {
        let began = Instant::now();
        let mut next = Some(first);
        while let Some(request) = next {
            self.stopped |= matches!(request, Request::Stop);
            self.shared.handle(desk, request);
            // Counted down only now, with the desk in our hands: whoever finds nothing waiting
            // then comes after it.
            self.shared.waiting.fetch_sub(1, Ordering::Release);
            let enough = self.stopped || desk.is_full() || began.elapsed() >= self.longest_batch;
            next = if enough { None } else { self.queue.try_recv() };
        }
        desk.plan(self.shared.clock.now());
    }

    /// While writes take long: has the second thread write, and decides what comes up meanwhile.
    fn write_all(&mut self, desk: &mut Desk<J, O>) {
        while !self.stopped
            && let Some(errand) = desk.hand_over(self.shared.clock.now())
        {
            match self.hands.errands.send(errand) {
                Ok(()) => self.decide_until_written(desk),
                // Nobody is there to take it.
                Err(mpsc::SendError((mut keeper, batch))) => {
                    let written = keeper.write(batch);
                    desk.put_back(keeper, written);
                }
            }
        }
    }

    /// While the journal is away.
    fn decide_until_written(&mut self, desk: &mut Desk<J, O>) {
        loop {
            if let Ok((keeper, written)) = self.hands.done.try_recv() {
                return desk.put_back(keeper, written);
            }
            let more = !self.stopped && !desk.is_full();
            match more.then(|| self.queue.blocking_recv()).flatten() {
                Some(request) => self.decide(desk, request),
                None => return self.await_journal(desk),
            }
        }
    }

    /// The other thread never ends before this one: should it, the process has ended too.
    fn await_journal(&self, desk: &mut Desk<J, O>) {
        if let Ok((keeper, written)) = self.hands.done.recv() {
            desk.put_back(keeper, written);
        }
    }

    /// Has everything on disk that is decided; or takes it back, and waits until the disk is good.
    fn settle(&mut self, desk: &mut Desk<J, O>) {
        desk.settle(self.shared.clock.now());
        if let Some(problem) = desk.take_back() {
            self.stall(desk, problem);
        }
    }

    fn stall(&mut self, desk: &mut Desk<J, O>, mut problem: String) {
        tracing::error!(problem, "the journal cannot be written; nothing is accepted");
        self.stopped |= desk.is_taken_over();
        while !self.stopped && self.refuse_for_a_while(desk, &problem) {
            match desk.go_on(self.shared.clock.now()) {
                Ok(()) => return tracing::info!("the journal can be written again"),
                Err(still) => problem = still,
            }
            self.stopped |= desk.is_taken_over();
        }
    }

    /// Says no to everything until it is time to try the disk again. False: told to stop.
    fn refuse_for_a_while(&mut self, desk: &mut Desk<J, O>, problem: &str) -> bool {
        desk.outside().wake_at(Some(self.shared.clock.now().plus(RETRY_AFTER)));
        let error = || WriteError::NotDurable(problem.to_owned());
        while let Some(request) = self.queue.blocking_recv() {
            self.shared.waiting.fetch_sub(1, Ordering::Release);
            match request {
                Request::Wish { reply: Some(reply), .. } => {
                    desk.outside().reply(reply, Err(error()));
                }
                Request::Ask(question) => question.answer(Err(error())),
                Request::Wish { .. } | Request::Attend => {}
                Request::Wake => return true,
                Request::Stop => {
                    self.stopped = true;
                    return false;
                }
            }
        }
        false
    }
}
