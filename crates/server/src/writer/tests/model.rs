//! The writer's threads in every order that a model of them comes up with: wishes and questions
//! from several threads, at once and through the queue, a second thread that writes, a disk that
//! fails and recovers, an end. The files of the writer are compiled a second time here, with the
//! locks and threads of the model in the place of `sync.rs`.
//!
//! A failure prints a schedule; `shuttle::replay(world, SCHEDULE)` repeats it.
#![allow(clippy::duplicate_mod, reason = "the same code with other locks is the point")]
#![allow(unreachable_pub, reason = "what is public there is not here")]

#[path = "../at_once.rs"]
mod at_once;
#[path = "../queue.rs"]
mod queue;
#[path = "../run.rs"]
mod run;
#[path = "../way.rs"]
mod way;

/// In the place of the real one.
mod sync {
    pub(super) use shuttle::sync::atomic::{AtomicUsize, Ordering};
    pub(super) use shuttle::sync::{Condvar, Mutex, MutexGuard, mpsc};
    pub(super) use shuttle::thread;
}

use super::super::lanes;
use super::{add, user};
use crate::clock::Clock;
use at_once::Shared;
use run::{Hands, Loop};
use shipway_core::event::{Event, Recorded};
use shipway_core::{Effect, State};
use shipway_model::{JobId, PilotId, Timestamp, UserName};
use shipway_shell::{
    Commit, Committed, Core, Desk, Done, EventSeq, History, Journal, Limits, Lines, Outside,
    Snapshot, Stored, Wish, WriteError,
};
use shuttle::future::block_on;
use shuttle::rand::Rng;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use std::collections::BTreeSet;
use std::io::Error;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use sync::{Mutex, mpsc, thread};
use way::{Asked, Reply, Request, Way};

/// Orders of things that each test tries.
const TRIES: usize = 1_000;
/// Any number: the same one gives the same orders.
const SEED: u64 = 20_260_101;

/// In the place of what ends the process: a thread that fails fails the test.
struct Vital(&'static str);

impl Drop for Vital {
    fn drop(&mut self) {
        let _ = self.0;
    }
}

/// The disk, and what was found wrong.
#[derive(Debug, Default)]
struct Book {
    lines: Vec<String>,
    users: BTreeSet<UserName>,
    /// Commits that fail yet.
    to_fail: u32,
    needs_reopen: bool,
    /// Told to stop: then it may say so.
    may_stop: bool,
    wrong: Vec<String>,
}

#[derive(Clone)]
struct Memory(Arc<Mutex<Book>>);

impl Memory {
    fn book<A>(&self, change: impl FnOnce(&mut Book) -> A) -> A {
        change(&mut self.0.lock().expect("nobody fails with it"))
    }

    fn has(&self, name: &UserName) -> bool {
        self.book(|book| book.users.contains(name))
    }

    fn check(&self, what: &str, name: &UserName) {
        if !self.has(name) {
            self.book(|book| book.wrong.push(format!("{what} of {name}")));
        }
    }

    fn check_all(&self, what: &str, seen: &BTreeSet<UserName>) {
        for name in seen {
            self.check(what, name);
        }
    }
}

impl Journal for Memory {
    type Error = Error;
    type History = Memory;

    fn append(&mut self, commit: &Commit<'_>) -> Result<Committed, Error> {
        thread::yield_now();
        self.book(|book| {
            if book.needs_reopen {
                return Err(Error::other("not reopened"));
            }
            if book.to_fail > 0 && shuttle::rand::thread_rng().gen_bool(0.4) {
                book.to_fail -= 1;
                book.needs_reopen = true;
                return Err(Error::other("the test said so"));
            }
            let first = book.lines.len() + 1;
            let text = String::from_utf8(commit.events.text().to_vec()).expect("JSON");
            for line in text.lines() {
                let recorded = Recorded::read(line.as_bytes()).expect("written from one");
                if book.lines.is_empty() && recorded.event != Event::ServerStarted {
                    book.wrong.push(format!("before the start: {line}"));
                }
                book.users.extend(added(&recorded.event).cloned());
                book.lines.push(line.to_string());
            }
            let [first, last] = [first, book.lines.len()].map(|seq| EventSeq(seq as u64));
            Ok(Committed { first, last })
        })
    }

    fn save_snapshot(&mut self, _: EventSeq, _: &[u8]) -> Result<(), Error> {
        Ok(())
    }
    fn load_snapshot(&mut self) -> Result<Option<Snapshot>, Error> {
        Ok(None)
    }
    fn replay(
        &mut self,
        _: EventSeq,
        visit: &mut dyn FnMut(Stored<'_>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let lines = self.book(|book| book.lines.clone());
        for (seq, line) in (1..).map(EventSeq).zip(&lines) {
            assert!(visit(Stored { seq, at_ms: 0, body: line.as_bytes() }).is_continue());
        }
        Ok(())
    }
    fn prune(&mut self) -> Result<u64, Error> {
        Ok(0)
    }
    fn reopen(&mut self) -> Result<(), Error> {
        self.book(|book| {
            book.needs_reopen = shuttle::rand::thread_rng().gen_bool(0.2);
            if book.needs_reopen { Err(Error::other("still bad")) } else { Ok(()) }
        })
    }
    fn tip(&self) -> EventSeq {
        EventSeq(self.book(|book| book.lines.len() as u64))
    }
    fn is_slow(&self) -> bool {
        shuttle::rand::thread_rng().gen_bool(0.5)
    }
}

/// Nobody here asks for jobs.
impl History for Memory {
    type Error = Error;
    fn owner(&self, _: JobId) -> Result<Option<(UserName, JobId)>, Error> {
        Ok(None)
    }
    fn last_state(&self, _: JobId) -> Result<Option<String>, Error> {
        Ok(None)
    }
    fn last_record(&self, _: JobId) -> Result<Option<String>, Error> {
        Ok(None)
    }
}

/// Looks whether what it is told is on disk, and sets the timer.
struct Listener {
    disk: Memory,
    published: Arc<Mutex<BTreeSet<UserName>>>,
    timer: Mutex<mpsc::Sender<Timer>>,
    replies_too_early: bool,
}

enum Timer {
    Wake,
    End,
}

impl Outside for Listener {
    type Reply = Reply;
    type Question = Asked;
    type Publication = BTreeSet<UserName>;

    fn wake_at(&self, at: Option<Timestamp>) {
        if at.is_some() {
            let _ = self.timer.lock().expect("whole").send(Timer::Wake);
        }
    }
    fn effect(&self, effect: Effect) {
        if let Effect::Disconnect { pilot } = effect {
            self.disk.check("an effect", &user(pilot.as_str()));
        }
    }
    fn reply(&self, reply: Reply, answer: Result<Done, WriteError>) {
        let _ = reply.send(answer);
    }
    fn happened(&self, _: EventSeq, events: Vec<Recorded>) {
        for name in events.iter().filter_map(|recorded| added(&recorded.event)) {
            self.disk.check("news", name);
        }
    }
    fn publication(&self, state: &State, _: &[Recorded]) -> BTreeSet<UserName> {
        super::users(state)
    }
    fn decided(&self, _: bool) {}
    fn written(&self, seen: Option<BTreeSet<UserName>>, events: &mut [Recorded], _: &Lines) {
        match seen {
            Some(seen) => *self.published.lock().expect("whole") = seen,
            None if events.is_empty() => {}
            None => self.disk.book(|book| book.wrong.push("unseen events".into())),
        }
    }
    fn reset(&self) {}
    fn restored(&self, state: &State) {
        *self.published.lock().expect("whole") = super::users(state);
    }
    fn health(&self, _: Option<&str>) {}
    fn replies_too_early(&self) -> bool {
        self.replies_too_early
    }
}

fn added(event: &Event) -> Option<&UserName> {
    if let Event::UserAdded { user, .. } = event { Some(user) } else { None }
}

/// The core, with an effect for everybody who is added.
fn core() -> Core {
    Core {
        apply: |state, at, events, each| {
            let names = events.iter().filter_map(added);
            let pilots = names.map(|name| PilotId::new(name.as_str()).expect("a good name"));
            let more: Vec<_> = pilots.map(|pilot| Effect::Disconnect { pilot }).collect();
            let mut effects = shipway_core::engine::apply(state, at, events, each);
            effects.extend(more);
            effects
        },
        ..Core::default()
    }
}

struct World {
    disk: Memory,
    published: Arc<Mutex<BTreeSet<UserName>>>,
    way: Way,
    writer: thread::JoinHandle<()>,
    timer: (mpsc::Sender<Timer>, thread::JoinHandle<()>),
}

impl World {
    fn new(replies_too_early: bool) -> World {
        let to_fail = shuttle::rand::thread_rng().gen_range(0..3);
        let disk = Memory(Arc::new(Mutex::new(Book { to_fail, ..Book::default() })));
        let (set, rings) = mpsc::channel();
        let timer = Mutex::new(set.clone());
        let published = Arc::new(Mutex::default());
        let seen = Arc::clone(&published);
        let listener = Listener { disk: disk.clone(), published: seen, timer, replies_too_early };
        let outside = Arc::new(listener);
        let (journal, history) = (disk.clone(), disk.clone());
        let restored = (State::default(), 0);
        let desk = Desk::new(restored, journal, history, outside, core(), Limits::default());
        let shared = Arc::new(Shared::new(desk, Clock::start(Timestamp(1))));
        let (send, queue) = queue::queue();
        let way = Way { queue: Arc::new(send), desk: Arc::clone(&shared) as _ };
        let hands = Hands::start(way.clone()).expect("a thread");
        let longest_batch = Duration::MAX;
        let mut work = Loop { shared, queue, longest_batch, hands, stopped: false };
        let writer = thread::spawn(move || work.run());
        let woken = way.clone();
        let timer = thread::spawn(move || {
            while let Ok(Timer::Wake) = rings.recv() {
                let _ = block_on(woken.send(Request::Wake));
            }
        });
        World { disk, published, way, writer, timer: (set, timer) }
    }

    /// Somebody who wishes, looks and wishes again.
    fn client(&self, number: usize) -> thread::JoinHandle<BTreeSet<UserName>> {
        let (disk, way) = (self.disk.clone(), self.way.clone());
        let published = Arc::clone(&self.published);
        thread::spawn(move || {
            let mut done = BTreeSet::new();
            for turn in 0..2 {
                let name = format!("u{number}-{turn}");
                let answer = match add(&name) {
                    Wish::Core(command) if number == 0 => block_on(async {
                        let answer = way.hand_in(command).await.ok_or(WriteError::Stopping)?;
                        answer.await.unwrap_or(Err(WriteError::Stopping))
                    }),
                    wish => block_on(way.wish(wish)),
                };
                match answer {
                    Ok(_) => {
                        disk.check("a reply", &user(&name));
                        done.insert(user(&name));
                    }
                    Err(error) => is_expected(&disk, &error),
                }
                let seen = published.lock().expect("whole").clone();
                disk.check_all("what is published", &seen);
                let missing = done.difference(&seen).next().cloned();
                if let Some(name) = missing {
                    disk.book(|book| book.wrong.push(format!("{name} was told, and is not seen")));
                }
                if let Some(seen) = way.glance(&super::users) {
                    disk.check_all("a glance", &seen.expect("no panic"));
                }
            }
            done
        })
    }

    /// Somebody who asks the writer's thread.
    fn asker(&self) -> thread::JoinHandle<()> {
        let (disk, way) = (self.disk.clone(), self.way.clone());
        thread::spawn(move || match block_on(way.ask(Arc::new(super::users))) {
            Ok(seen) => disk.check_all("an answer", &seen),
            Err(error) => is_expected(&disk, &error),
        })
    }

    /// All that was acknowledged is on disk, and nothing else.
    fn end(self, done: &BTreeSet<UserName>) {
        let book = self.close();
        assert_eq!(book.wrong, [""; 0], "told before it was on disk, or not told");
        assert_eq!(book.users, *done, "on disk, and acknowledged");
    }

    fn close(self) -> Book {
        let _ = block_on(self.way.send(Request::Stop));
        self.writer.join().expect("the writer ends");
        let _ = self.timer.0.send(Timer::End);
        self.timer.1.join().expect("the timer ends");
        // Not with the book in hand: a thread that fails with a lock hides what it found.
        self.disk.book(std::mem::take)
    }
}

/// Where nobody has told it to stop, nobody is told that it stops.
fn is_expected(disk: &Memory, error: &WriteError) {
    disk.book(|book| match error {
        WriteError::NotDurable(_) => {}
        WriteError::Stopping if book.may_stop => {}
        _ => book.wrong.push(format!("an error: {error}")),
    });
}

fn world() {
    story(|_| {});
}

/// Told to stop at any moment: everybody hears something, and it ends.
fn world_that_stops() {
    story(|world| {
        world.disk.book(|book| book.may_stop = true);
        let _ = block_on(world.way.send(Request::Stop));
    });
}

fn story(meanwhile: impl FnOnce(&World)) {
    let world = World::new(false);
    let done = lives(&world, meanwhile);
    world.end(&done);
}

/// What was acknowledged of all that was wished.
fn lives(world: &World, meanwhile: impl FnOnce(&World)) -> BTreeSet<UserName> {
    let clients: Vec<_> = (0..3).map(|number| world.client(number)).collect();
    let asker = world.asker();
    meanwhile(world);
    let mut done = BTreeSet::new();
    for client in clients {
        done.extend(client.join().expect("a client ends"));
    }
    asker.join().expect("whoever asks is answered");
    done
}

fn try_all(scheduler: impl Scheduler + 'static, story: impl Fn() + Send + Sync + 'static) {
    let mut config = shuttle::Config::new();
    // Deciding and encoding take more than the model's small stacks.
    config.stack_size = 1 << 20;
    shuttle::Runner::new(scheduler, config).run(story);
}

#[test]
fn nothing_is_told_before_it_is_on_disk_in_any_order() {
    try_all(RandomScheduler::new_from_seed(SEED, TRIES), world);
}

/// Orders with few changes between threads, at the worst moments.
#[test]
fn nor_when_a_thread_is_held_up_for_long() {
    try_all(PctScheduler::new_from_seed(SEED, 4, TRIES), world);
}

#[test]
fn everybody_hears_something_when_it_stops() {
    try_all(RandomScheduler::new_from_seed(SEED, TRIES), world_that_stops);
    try_all(PctScheduler::new_from_seed(SEED, 4, TRIES), world_that_stops);
}

/// All the rest is worth little if this is not found.
#[test]
fn a_reply_that_leaves_before_its_write_is_found() {
    let schedulers: [Box<dyn FnOnce(Tell)>; 2] = [
        Box::new(|tell| try_all(RandomScheduler::new_from_seed(SEED, TRIES), mistaken(tell))),
        Box::new(|tell| try_all(PctScheduler::new_from_seed(SEED, 4, TRIES), mistaken(tell))),
    ];
    for try_with in schedulers {
        let (tell, told) = std::sync::mpsc::channel();
        try_with(tell);
        let early = |what: &String| what.starts_with("a reply of ");
        let found = told.iter().filter(|wrong| wrong.iter().any(early)).count();
        assert!(found > 0, "none of {TRIES} orders shows it");
    }
}

type Tell = std::sync::mpsc::Sender<Vec<String>>;

/// What is found wrong with replies that leave too early, in each order.
fn mistaken(tell: Tell) -> impl Fn() + Send + Sync + 'static {
    move || {
        let world = World::new(true);
        lives(&world, |_| {});
        tell.send(world.close().wrong).expect("the test waits for it");
    }
}
