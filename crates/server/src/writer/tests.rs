//! The writer with a journal that writes when it is told to: what is said, when, and on which
//! thread.

mod mistakes;
mod model;
mod published;
mod queue;
mod turns;

use super::start::start_with;
use super::timed::WORTH_HANDING_OVER;
use super::way::Request;
use super::*;
use crate::journal::{
    Commit, Committed, EventSeq, HistoryReader, HomeJournal, JournalError, Snapshot, Stored,
};
use futures_util::FutureExt as _;
use shipway_core::{Effect, State};
use shipway_model::{Actor, Role, Timestamp, UserName};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::mpsc as std_mpsc;
use std::thread::ThreadId;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Longer than anything here takes; only a failure waits for it.
const LONG: Duration = Duration::from_secs(20);

/// What the test answers to a write that has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GateAnswer {
    Write,
    Fail,
}

/// A real journal behind a gate: each write says that it has begun, and waits.
struct Gated {
    inner: HomeJournal,
    begun: std_mpsc::Sender<(usize, ThreadId)>,
    orders: std_mpsc::Receiver<GateAnswer>,
}

impl crate::journal::Journal for Gated {
    type Error = JournalError;
    type History = Box<dyn HistoryReader>;

    fn append(&mut self, batch: &Commit<'_>) -> Result<Committed, JournalError> {
        let events = batch.events.len();
        let _ = self.begun.send((events, std::thread::current().id()));
        // The test has ended: so does the writer.
        let order = self.orders.recv().unwrap_or(GateAnswer::Write);
        match order {
            GateAnswer::Write => self.inner.append(batch),
            GateAnswer::Fail => Err(JournalError::Refused { what: "the test said so" }),
        }
    }
    fn save_snapshot(&mut self, seq: EventSeq, body: &[u8]) -> Result<(), JournalError> {
        self.inner.save_snapshot(seq, body)
    }
    fn load_snapshot(&mut self) -> Result<Option<Snapshot>, JournalError> {
        self.inner.load_snapshot()
    }
    fn replay(
        &mut self,
        after: EventSeq,
        visit: &mut dyn FnMut(Stored<'_>) -> ControlFlow<()>,
    ) -> Result<(), JournalError> {
        self.inner.replay(after, visit)
    }
    fn prune(&mut self) -> Result<u64, JournalError> {
        self.inner.prune()
    }
    fn reopen(&mut self) -> Result<(), JournalError> {
        self.inner.reopen()
    }
    fn tip(&self) -> EventSeq {
        self.inner.tip()
    }
    fn is_taken_over(&self) -> bool {
        self.inner.is_taken_over()
    }
}

struct NoPilots;

impl EffectRunner for NoPilots {
    fn run(&self, _: Effect) {}
    fn reset(&self) {}
}

struct Rig {
    writer: Writer,
    metrics: Arc<Metrics>,
    begun: std_mpsc::Receiver<(usize, ThreadId)>,
    orders: std_mpsc::Sender<GateAnswer>,
    ended: oneshot::Receiver<Infallible>,
    home: tempfile::TempDir,
}

impl Rig {
    /// A writer whose first write, of its own start, is done.
    fn new() -> Rig {
        Rig::with(Core::default())
    }

    fn with(core: Core) -> Rig {
        // A machine with much to do must not cut batches that a test wants whole.
        Rig::with_batches(core, LONG)
    }

    /// A batch takes nothing more after so long.
    fn with_batches(core: Core, longest: Duration) -> Rig {
        let home = tempfile::tempdir().expect("a folder");
        let inner = HomeJournal::open(home.path(), 1).expect("a new home opens");
        let history = inner.history().expect("its history too");
        let specs = Specs::new(history.try_clone().expect("another connection"));
        let metrics = Arc::new(Metrics::default());
        let edges = Edges {
            auth: Arc::new(Auth::new("secret", user("owner"))),
            live: Arc::default(),
            specs: Arc::new(specs),
            effects: Box::new(NoPilots),
            event_logs: None,
            clock: Clock::start(Timestamp(1)),
            metrics: Arc::clone(&metrics),
            core,
        };
        let (begin, begun) = std_mpsc::channel();
        let (orders, ordered) = std_mpsc::channel();
        let journal = Gated { inner, begun: begin, orders: ordered };
        let restored = (State::default(), 0);
        let running = start_with(restored, journal, history, edges, longest).expect("threads");
        let (writer, ended) = (running.writer, running.ended);
        let rig = Rig { writer, metrics, begun, orders, ended, home };
        rig.next_write();
        rig.order(GateAnswer::Write);
        rig
    }

    fn next_write(&self) -> (usize, ThreadId) {
        self.begun.recv_timeout(LONG).expect("a write begins")
    }

    fn order(&self, order: GateAnswer) {
        self.orders.send(order).expect("the journal listens");
    }

    /// Lets the write that has begun end, after so long that handing the next over is worth it.
    fn order_slowly(&self, order: GateAnswer) {
        let began = Instant::now();
        while began.elapsed() < WORTH_HANDING_OVER {
            std::thread::yield_now();
        }
        self.order(order);
    }

    /// Waits until so many more wishes than at `before` have been decided.
    fn decided(&self, before: u64, more: u64) {
        let deadline = Instant::now() + LONG;
        while self.metrics.decided_so_far() < before + more {
            assert!(Instant::now() < deadline, "they were not decided");
            std::thread::yield_now();
        }
    }

    /// Lets a write end if one has begun.
    fn finish_one(&self) {
        if self.begun.recv_timeout(Duration::from_millis(5)).is_ok() {
            self.order(GateAnswer::Write);
        }
    }

    /// Lets writes end until something is done.
    async fn finish_until<T: Send>(&self, mut done: tokio::task::JoinHandle<T>) -> T {
        let deadline = Instant::now() + LONG;
        loop {
            tokio::select! {
                found = &mut done => return found.expect("it does not panic"),
                // tidy: allow(sleep-in-test) because this is the pause between two looks
                () = tokio::time::sleep(Duration::from_millis(1)) => self.finish_one(),
            }
            assert!(Instant::now() < deadline, "it takes too long");
        }
    }

    /// A wish on its way to the writer's own thread, as a pilot's report would be.
    fn send(&self, name: &str) -> Answer {
        self.send_of("owner", name)
    }

    fn send_of(&self, by: &str, name: &str) -> Answer {
        let (reply, answer) = oneshot::channel();
        let request = Request::Wish { wish: add_by(by, name), reply: Some(reply) };
        self.writer.way.try_send(request).expect("there is room");
        answer
    }
}

fn user(name: &str) -> UserName {
    UserName::new(name).expect("a good name")
}

fn add(name: &str) -> Wish {
    add_by("owner", name)
}

fn add_by(by: &str, name: &str) -> Wish {
    let by = Actor::new(user(by), Role::Admin);
    Wish::Core(Command::AddUser { by, user: user(name), role: Role::User })
}

fn users(state: &State) -> BTreeSet<UserName> {
    state.users().iter().map(|(name, _)| name.clone()).collect()
}

fn is_pending(answer: &mut Answer) -> bool {
    matches!(answer.try_recv(), Err(oneshot::error::TryRecvError::Empty))
}

/// Leaves "a" and "b" being written by the second thread, and "c" decided behind them.
fn a_batch_under_way(rig: &Rig) -> Vec<Answer> {
    let before = rig.metrics.decided_so_far();
    let mut answers = vec![rig.send("slow")];
    let (_, writer) = rig.next_write();
    // Both wait for the writer when it is done with the first: they are one batch.
    answers.extend([rig.send("a"), rig.send("b")]);
    rig.order_slowly(GateAnswer::Write);
    let (events, hands) = rig.next_write();
    assert_eq!(events, 2);
    assert_ne!(hands, writer, "a second thread writes");
    answers.push(rig.send("c"));
    rig.decided(before, 4);
    answers
}

#[tokio::test]
async fn the_next_batch_is_decided_while_the_last_is_written() {
    let rig = Rig::new();
    let mut answers = a_batch_under_way(&rig);
    assert!(answers.remove(0).await.expect("an answer").is_ok());
    let question = tokio::spawn({
        let writer = rig.writer.clone();
        async move { writer.glance(users).await }
    });
    tokio::task::yield_now().await;
    assert!(answers.iter_mut().all(is_pending), "nothing is told before its time");
    assert!(!question.is_finished(), "no answer shows what is not on disk");
    rig.order(GateAnswer::Write);
    let seen = rig.finish_until(question).await.expect("an answer");
    assert_eq!(seen, ["a", "b", "c", "slow"].map(user).into());
    for answer in answers {
        assert!(answer.await.expect("an answer").is_ok());
    }
}

#[tokio::test]
async fn a_failed_write_takes_back_what_was_decided_since() {
    let rig = Rig::new();
    let mut answers = a_batch_under_way(&rig);
    assert!(answers.remove(0).await.expect("an answer").is_ok());
    rig.order(GateAnswer::Fail);
    for refused in answers {
        let answer = refused.await.expect("an answer");
        assert!(matches!(answer, Err(WriteError::NotDurable(_))), "{answer:?}");
    }
    // It goes on by itself, from what is on disk.
    let seen = tokio::spawn({
        let writer = rig.writer.clone();
        async move {
            loop {
                match writer.ask(users).await {
                    Ok(seen) => return seen,
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        }
    });
    let seen = rig.finish_until(seen).await;
    assert_eq!(seen, BTreeSet::from([user("slow")]));
}

/// Nothing is tried again: what is there is another's to write.
#[tokio::test]
async fn a_writer_ends_whose_journal_was_taken_over() {
    let rig = Rig::new();
    let early = rig.send("early");
    rig.next_write();
    rig.order(GateAnswer::Write);
    assert!(early.await.expect("an answer").is_ok());
    std::fs::remove_file(rig.home.path().join("lock")).expect("a lock");
    let _other = HomeJournal::open(rig.home.path(), 1).expect("past the lock");
    let answer = rig.send("late");
    rig.next_write();
    rig.order(GateAnswer::Write);
    let answer = answer.await.expect("an answer");
    assert!(matches!(answer, Err(WriteError::NotDurable(_))), "{answer:?}");
    let _over = tokio::time::timeout(LONG, rig.ended).await.expect("it ends by itself");
    let problem = rig.writer.problem().expect("why");
    assert!(problem.starts_with("another server has taken over the journal"), "{problem}");
    assert!(matches!(rig.writer.wish(add("later")).await, Err(WriteError::Stopping)));
}

/// Also where the disk is good again before whoever asked has looked: nobody is told that the
/// server stops.
#[tokio::test]
async fn a_question_over_which_the_disk_failed_is_told_so() {
    let rig = Rig::new();
    let _answers = a_batch_under_way(&rig);
    let mut question = std::pin::pin!(rig.writer.ask(users));
    assert!(question.as_mut().now_or_never().is_none(), "it waits for the disk");
    rig.order(GateAnswer::Fail);
    let recovered = tokio::spawn({
        let writer = rig.writer.clone();
        async move {
            while writer.problem().is_none() {
                tokio::task::yield_now().await;
            }
            while writer.problem().is_some() {
                tokio::task::yield_now().await;
            }
        }
    });
    rig.finish_until(recovered).await;
    let answer = question.await;
    assert!(matches!(answer, Err(WriteError::NotDurable(_))), "{answer:?}");
}

#[tokio::test]
async fn a_lone_wish_is_written_on_the_thread_it_came_in_on() {
    let rig = Rig::new();
    let deadline = Instant::now() + LONG;
    for count in 0.. {
        // Answers go out just before the writer's thread lets go of the desk: the first wishes
        // may still find it there.
        rig.order(GateAnswer::Write);
        assert!(rig.writer.wish(add(&format!("alone-{count}"))).await.is_ok());
        let (_, thread) = rig.next_write();
        if thread == std::thread::current().id() {
            return;
        }
        assert!(Instant::now() < deadline, "no wish was");
    }
}

#[tokio::test]
async fn a_wish_does_not_overtake_what_waits() {
    let rig = Rig::new();
    let mut first = rig.send("first");
    let (_, writer) = rig.next_write();
    let second = tokio::spawn({
        let writer = rig.writer.clone();
        async move { writer.wish(add("second")).await }
    });
    tokio::task::yield_now().await;
    assert!(is_pending(&mut first) && !second.is_finished());
    rig.order(GateAnswer::Write);
    let second = rig.finish_until(second).await;
    assert!(second.is_ok() && first.await.expect("an answer").is_ok());
    assert_ne!(writer, std::thread::current().id());
}

/// The disk has begun with a lone wish and does not answer: the one thread for requests goes on,
/// questions are answered, and nothing is shown that is not on disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_disk_that_hangs_holds_up_neither_requests_nor_questions() {
    let rig = Rig::new();
    let early = rig.send("early");
    rig.next_write();
    rig.order(GateAnswer::Write);
    assert!(early.await.expect("an answer").is_ok());
    let hung = tokio::spawn({
        let writer = rig.writer.clone();
        async move { writer.wish(add("late")).await }
    });
    rig.next_write();
    let other = tokio::spawn(async { "answered" });
    let other = tokio::time::timeout(LONG, other).await.expect("another request is answered");
    assert_eq!(other.expect("it does not panic"), "answered");
    for _ in 0..3 {
        let asked = tokio::time::timeout(LONG, rig.writer.ask(users)).await;
        let seen = asked.expect("questions are answered").expect("from what is on disk");
        assert_eq!(seen, BTreeSet::from([user("early")]));
        let glanced = tokio::time::timeout(LONG, rig.writer.glance(users)).await;
        assert_eq!(glanced.expect("in time").expect("an answer"), BTreeSet::from([user("early")]));
    }
    let why = rig.writer.not_ready().expect("nothing is accepted now");
    assert!(why.starts_with("the journal's disk has not answered for "), "{why}");
    assert!(!hung.is_finished(), "nothing is told before its time");

    rig.order(GateAnswer::Write);
    assert!(rig.finish_until(hung).await.is_ok());
    let seen = rig.writer.ask(users).await.expect("an answer");
    assert_eq!(seen, ["early", "late"].map(user).into(), "one's own wish is seen at once");
    assert_eq!(rig.writer.not_ready(), None);
}
